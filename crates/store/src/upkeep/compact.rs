//! Compaction: what is still needed of a xorb that is mostly unused moves to a smaller one, while everybody reads on.
//!
//! The new xorb and a shard that describes the files in it are stored first; then all files move in one transaction, or
//! none does. The old xorb is unused then and leaves as all do: a client with a plan for it reads it until its grace is over.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use xet::shard::{FileEntry, Form, ShardBuilder, StoredOptions, Term};
use xet::xorb::{XorbInfo, XorbScanner};
use xet::{ChunkHash, RangeHash, ShardHash, XorbHash};

use crate::access::{Grant, Scope};
use crate::content::dedup::entry;
use crate::content::recipe::{FileRecipe, RecipeBuilder};
use crate::content::relocate::{self, Relocation};
use crate::content::rows::{FileRow, ShardRow, XorbRow};
use crate::content::{files, xorbs};
use crate::error::{Error, ErrorKind, Result};
use crate::objects::key::ObjectKey;
use crate::upkeep::{Upkeep, inventory};

/// Which xorbs to compact.
#[derive(Debug, Clone)]
pub struct CompactOptions {
    /// Those of which at most this part is needed, in stored bytes: from 0 to 1.
    pub live_share_max: f64,
    /// Only count what could be saved.
    pub dry_run: bool,
}

impl Default for CompactOptions {
    fn default() -> Self {
        Self { live_share_max: 0.5, dry_run: false }
    }
}

/// What compaction did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Compacted {
    /// Xorbs examined.
    pub examined: u64,
    /// Which of them were rewritten, or would be.
    pub rewritten: u64,
    /// Files that moved.
    pub files: u64,
    /// Bytes that the next sweeps free.
    pub freed_bytes: u64,
    /// Xorbs whose files changed meanwhile: next time.
    pub busy: u64,
}

/// How far it is. Anyone may look.
#[derive(Debug, Default)]
pub struct CompactProgress(AtomicU64);

impl CompactProgress {
    /// Xorbs so far.
    pub fn examined(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What is still needed of a xorb.
struct Needed {
    row: XorbRow,
    info: Arc<XorbInfo>,
    files: Vec<FileRow>,
    /// By chunk number.
    live: Vec<bool>,
    live_bytes: u64,
}

impl Upkeep {
    /// Examines every xorb once.
    pub async fn compact(&self, options: &CompactOptions, progress: &CompactProgress) -> Result<Compacted> {
        let mut compacted = Compacted::default();
        let mut after = Vec::new();
        loop {
            let rows = inventory::xorb_page(&self.db, &after, PAGE).await?;
            let Some(last) = rows.last() else { return Ok(compacted) };
            after = last.key.hash.as_bytes().to_vec();
            for row in rows.into_iter().filter(XorbRow::is_live) {
                compacted.examined += 1;
                progress.0.store(compacted.examined, Ordering::Relaxed);
                let Some(needed) = self.needed(row).await? else { continue };
                let all_bytes = needed.info.stored_bytes();
                if needed.live_bytes as f64 > options.live_share_max * all_bytes as f64 {
                    continue;
                }
                let (freed, files) = (all_bytes - needed.live_bytes, needed.files.len() as u64);
                if !options.dry_run && !self.move_needed(needed).await? {
                    compacted.busy += 1;
                    continue;
                }
                compacted.rewritten += 1;
                compacted.files += files;
                compacted.freed_bytes += freed;
            }
        }
    }

    /// What files need of a xorb; nothing if that is nothing, or the files are too many to move at once.
    async fn needed(&self, row: XorbRow) -> Result<Option<Needed>> {
        let mut files = Vec::new();
        let mut after = Vec::new();
        loop {
            let page = files::files_of(&self.db, row.key.hash, &after, PAGE).await?;
            let Some(last) = page.last() else { break };
            after = last.as_bytes().to_vec();
            files.extend(files::recipes(&self.db, &page).await?);
            if files.len() > FILES_MAX {
                return Ok(None);
            }
        }
        if files.is_empty() {
            return Ok(None);
        }
        let info = self.content.footer(&row.recipe_xorb()).await?;
        let mut live = vec![false; info.chunks().len()];
        for file in &files {
            for term in &file.recipe.terms {
                if file.recipe.xorb_of(term).key != row.key {
                    continue;
                }
                let range = term.chunks.start as usize..term.chunks.end as usize;
                live.get_mut(range).ok_or_else(|| wrong(&row))?.fill(true);
            }
        }
        let bytes =
            |chunk: u32| info.stored_range(chunk..chunk + 1).map_or(0, |range| range.end - range.start);
        let live_bytes = (0..).zip(&live).filter(|(_, live)| **live).map(|(chunk, _)| bytes(chunk)).sum();
        Ok(Some(Needed { row, info, files, live, live_bytes }))
    }

    /// Moves what is needed; returns whether there was no concurrent change.
    async fn move_needed(&self, needed: Needed) -> Result<bool> {
        let Needed { row, info, files, live, .. } = needed;
        let mut records = Vec::new();
        let mut numbers: HashMap<u32, u32> = HashMap::new();
        let mut chunk = 0;
        let count = info.chunk_count();
        let is_live = |chunk: u32| live.get(chunk as usize).copied().unwrap_or(false);
        while chunk < count {
            let start = chunk;
            while chunk < count && is_live(chunk) {
                numbers.insert(chunk, u32::try_from(numbers.len()).unwrap_or(u32::MAX));
                chunk += 1;
            }
            if start == chunk {
                chunk += 1;
                continue;
            }
            let range = info.stored_range(start..chunk).ok_or_else(|| wrong(&row))?;
            records.push(self.objects.range(&ObjectKey::Xorb(row.key), range).await?);
        }
        let (scanned, records) = self.workers.run(move || (scan(&records), records)).await?;
        let made = scanned.map_err(|source| Error::corrupt(ObjectKey::Xorb(row.key).to_string(), source))?;
        let grant = Grant::write(Scope::new("drystone", "compaction")?);
        let onto = made.hash();
        self.content.put_own_xorb(&grant, Arc::new(made), records).await?;
        // The row may be of another upload, with other offsets.
        let target = xorbs::xorbs(&self.db, &[onto]).await?;
        let Some(target) = target.into_iter().find(XorbRow::is_there) else { return Ok(false) };
        let target_info = self.content.footer(&target.recipe_xorb()).await?;

        let mut moved = Vec::with_capacity(files.len());
        for file in files {
            let to = relocated(&file.recipe, &row, &target, &target_info, &numbers)?;
            moved.push((file.hash, file.recipe, to));
        }
        let shard = self.shard_of(&moved, &target, &target_info).await?;
        let chunks = (0..)
            .zip(info.chunks())
            .filter_map(|(old, place)| Some((place.hash, *numbers.get(&old)?)) as Option<(ChunkHash, u32)>);
        let relocation = Relocation {
            from: row.key,
            repair: None,
            onto: Some(onto),
            files: moved,
            shard: Some(shard),
            chunks: chunks.collect(),
            now_s: self.clock.now_s(),
        };
        let is_moved = relocate::repoint_files(&self.db, &relocation).await?;
        self.content.forget_recipes();
        Ok(is_moved)
    }

    /// Stores the shard that describes the files after the move.
    async fn shard_of(
        &self,
        files: &[(xet::FileHash, FileRecipe, FileRecipe)],
        target: &XorbRow,
        info: &Arc<XorbInfo>,
    ) -> Result<ShardRow> {
        let mut builder = ShardBuilder::default();
        for (hash, _, recipe) in files {
            let (mut terms, mut verification) = (Vec::new(), Vec::new());
            for term in &recipe.terms {
                let recipe_xorb = recipe.xorb_of(term);
                let info = self.content.footer(recipe_xorb).await?;
                let range = term.chunks.start as usize..term.chunks.end as usize;
                let missing = || Error::new(ErrorKind::Corrupt, format!("the recipe of file {hash}"));
                let places = info.chunks().get(range).ok_or_else(missing)?;
                verification.push(RangeHash::of(places.iter().map(|place| &place.hash)));
                let (xorb, raw_bytes) = (recipe_xorb.key.hash, term.raw_bytes);
                terms.push(Term { xorb, flags: 0, raw_bytes, chunks: term.chunks.clone() });
            }
            builder.push_file(FileEntry {
                hash: *hash,
                terms,
                verification: Some(verification),
                sha256: None,
            });
        }
        builder.push_xorb(entry(info, target.object_bytes));
        builder.flag_file_starts();
        let now_s = self.clock.now_s();
        // Dated: one without a date may be on its way out.
        let footing = StoredOptions { created_s: now_s.max(1), ..StoredOptions::LOCAL };
        let sealed = self.workers.run(move || {
            builder.encode(&Form::Stored(footing)).map(|bytes| (ShardHash::of(&bytes), Bytes::from(bytes)))
        });
        let (hash, bytes) = sealed.await?.map_err(|source| Error::corrupt("shard", source))?;
        let object_bytes = bytes.len() as u64;
        self.objects.put(&ObjectKey::Shard(hash), vec![bytes]).await?;
        Ok(ShardRow { hash, object_bytes, created_s: now_s })
    }
}

fn scan(records: &[Bytes]) -> std::result::Result<XorbInfo, xet::FormatError> {
    let mut scanner = XorbScanner::new(None::<XorbHash>);
    records.iter().try_for_each(|records| scanner.push(records))?;
    Ok(scanner.finish()?.info)
}

/// The same file with the terms of one xorb in another.
fn relocated(
    recipe: &FileRecipe,
    old: &XorbRow,
    new: &XorbRow,
    info: &XorbInfo,
    numbers: &HashMap<u32, u32>,
) -> Result<FileRecipe> {
    let mut builder = RecipeBuilder::default();
    for term in &recipe.terms {
        let xorb = *recipe.xorb_of(term);
        if xorb.key != old.key {
            builder.push(xorb, term.chunks.clone(), term.raw_bytes, term.stored.clone());
            continue;
        }
        // Neighbours that are both needed stay neighbours.
        let start = *numbers.get(&term.chunks.start).ok_or_else(|| wrong(old))?;
        let chunks = start..start + (term.chunks.end - term.chunks.start);
        let stored = info.stored_range(chunks.clone()).ok_or_else(|| wrong(old))?;
        let narrow = |end: u64| u32::try_from(end).map_err(|_| wrong(old));
        builder.push(new.recipe_xorb(), chunks, term.raw_bytes, narrow(stored.start)?..narrow(stored.end)?);
    }
    Ok(builder.finish())
}

fn wrong(row: &XorbRow) -> Error {
    Error::new(ErrorKind::Corrupt, format!("the recipe of a file in xorb {}", row.key.hash))
}

const PAGE: u64 = 500;

/// Files that move in one transaction.
const FILES_MAX: usize = 20_000;
