//! Proves files: walks the terms of a shard in order, beside the footers of the stored xorbs.
//!
//! At most a window of footers is held at a time, whatever the shard refers to, and the work is bounded by the chunks
//! that may be examined: a small term may name a whole xorb, and be repeated.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::future::try_join_all;
use xet::merkle::MerkleBuilder;
use xet::shard::row::ROW_LEN;
use xet::shard::{FileEntry, Shard, Term};
use xet::xorb::XorbInfo;
use xet::{ChunkHash, FileHash, FormatError, RangeHash, XorbHash};

use crate::content::Content;
use crate::content::put_shard::{Mismatch, NamedXorbs, Progress, mismatch, missing, refuse};
use crate::content::recipe::RecipeBuilder;
use crate::content::rows::{DedupRow, FileRow};
use crate::error::{ErrorKind, Result};

/// What the shard's files turned out to be.
#[derive(Debug, Default)]
pub(super) struct Proven {
    pub(super) files: Vec<FileRow>,
    pub(super) dedup: Vec<DedupRow>,
}

type Infos = HashMap<XorbHash, Arc<XorbInfo>>;

impl Content {
    /// Proves every file of a shard against those of its xorbs that are in `named`. Ends at the first term that is wrong, in the
    /// order of the shard: which one that is does not depend on what is stored.
    pub(super) async fn prove(
        &self,
        shard: &Arc<Shard>,
        named: &Arc<NamedXorbs>,
        progress: &Progress,
    ) -> Result<Proven> {
        let now_s = self.clock.now_s();
        let total = shard.files.iter().map(|file| file.terms.len() as u64).sum();
        progress.total.store(total, Ordering::Relaxed);

        let mut prover = Prover::new(shard.clone(), named.clone(), now_s, self.shard_chunks_max);
        while let Some(xorbs) = prover.window() {
            let load = xorbs.iter().filter_map(|hash| named.get(hash)).map(|named| {
                let recipe_xorb = named.row.recipe_xorb();
                async move {
                    match self.footers.of(&recipe_xorb).await {
                        Ok(info) => Ok(Some((recipe_xorb.key.hash, info))),
                        // Another's xorb that is damaged is as if it were not there.
                        Err(error) if !named.is_sent && error.kind() == ErrorKind::Corrupt => Ok(None),
                        Err(error) => Err(error),
                    }
                }
            });
            let infos: Infos = try_join_all(load).await?.into_iter().flatten().collect();
            let step = move || prover.step(&xorbs, &infos).map(|()| prover);
            prover = self.workers.run(step).await??;
            progress.verified.store(prover.verified, Ordering::Relaxed);
        }
        self.workers.run(move || prover.finish()).await?
    }
}

/// Where the walk is, and what it has found.
struct Prover {
    shard: Arc<Shard>,
    named: Arc<NamedXorbs>,
    now_s: u64,
    /// The file at hand, where its block begins, and its next term.
    file: usize,
    at: u64,
    term: usize,
    merkle: MerkleBuilder,
    recipe: RecipeBuilder,
    chunks_left: u64,
    verified: u64,
    seen_files: HashSet<FileHash>,
    seen_chunks: HashSet<ChunkHash>,
    proven: Proven,
}

/// Maximum number of footers held at once.
const WINDOW_XORBS: usize = 32;

/// Terms looked at for those xorbs. Terms of small files name few.
const WINDOW_TERMS: usize = 4096;

/// A step ends after this many chunks: as many as that many full xorbs have, since a thread cannot do anything else meanwhile.
const STEP_CHUNKS: u64 = WINDOW_XORBS as u64 * xet::limits::XORB_CHUNKS_MAX as u64;

impl Prover {
    fn new(shard: Arc<Shard>, named: Arc<NamedXorbs>, now_s: u64, chunks_left: u64) -> Self {
        Self {
            shard,
            named,
            now_s,
            file: 0,
            at: ROW_LEN as u64,
            term: 0,
            merkle: MerkleBuilder::default(),
            recipe: RecipeBuilder::default(),
            chunks_left,
            verified: 0,
            seen_files: HashSet::new(),
            seen_chunks: HashSet::new(),
            proven: Proven::default(),
        }
    }

    /// The xorbs of the next terms; `None` when there are no more terms.
    fn window(&self) -> Option<HashSet<XorbHash>> {
        let (file, later) = self.shard.files.get(self.file..)?.split_first()?;
        let rest = file.terms.get(self.term..).unwrap_or_default();
        let terms = rest.iter().chain(later.iter().flat_map(|file| &file.terms));
        let mut xorbs = HashSet::new();
        for term in terms.take(WINDOW_TERMS) {
            if xorbs.len() == WINDOW_XORBS && !xorbs.contains(&term.xorb) {
                break;
            }
            xorbs.insert(term.xorb);
        }
        (!xorbs.is_empty()).then_some(xorbs)
    }

    /// Proves terms of the window, at least one. Where it ends follows from the shard alone, as the progress shows it.
    fn step(&mut self, window: &HashSet<XorbHash>, infos: &Infos) -> Result<()> {
        let shard = self.shard.clone();
        let chunks_left = self.chunks_left;
        for n in 0..WINDOW_TERMS {
            while let Some(file) = shard.files.get(self.file).filter(|file| file.terms.len() == self.term) {
                self.close(file)?;
            }
            let Some(file) = shard.files.get(self.file) else { return Ok(()) };
            let Some(term) = file.terms.get(self.term) else { return Ok(()) };
            let is_later = !window.contains(&term.xorb);
            if n > 0 && (is_later || chunks_left - self.chunks_left >= STEP_CHUNKS) {
                return Ok(());
            }
            self.take(file, term, infos)?;
            self.term += 1;
            self.verified += 1;
        }
        Ok(())
    }

    /// Closes what has no terms left.
    fn finish(mut self) -> Result<Proven> {
        let shard = self.shard.clone();
        while let Some(file) = shard.files.get(self.file) {
            self.close(file)?;
        }
        Ok(self.proven)
    }

    fn take(&mut self, file: &FileEntry, term: &Term, infos: &Infos) -> Result<()> {
        let record = ROW_LEN as u64;
        let at = self.at + record * (1 + self.term as u64);
        // First what the shard alone decides.
        let hash_at = at + record * file.terms.len() as u64;
        let claimed = file.verification.as_ref().and_then(|hashes| hashes.get(self.term));
        let what = "range hash of a term of file";
        let claimed =
            claimed.ok_or(FormatError::Missing { at: hash_at, what, hash: file.hash.0 }).map_err(refuse)?;
        let count = u64::from(term.chunks.end.saturating_sub(term.chunks.start));
        let Some(chunks_left) = self.chunks_left.checked_sub(count) else {
            let (what, max) = ("chunks of all files of a shard", self.chunks_left);
            return Err(refuse(FormatError::Range { at, what, min: 0, max, found: count }));
        };
        self.chunks_left = chunks_left;

        let named = self.named.get(&term.xorb).ok_or_else(|| missing(&term.xorb))?;
        let info = infos.get(&term.xorb).ok_or_else(|| missing(&term.xorb))?;
        let (hash, number) = (file.hash, self.term);
        let wrong = |what: Mismatch| if named.is_sent { mismatch(what) } else { missing(&term.xorb) };
        let places = usize::try_from(term.chunks.start).ok().zip(usize::try_from(term.chunks.end).ok());
        let places = places.and_then(|(start, end)| info.chunks().get(start..end));
        let ranges = info.raw_range(term.chunks.clone()).zip(info.stored_range(term.chunks.clone()));
        let Some((places, (raw, stored))) = places.zip(ranges) else {
            return Err(wrong(Mismatch::End { file: hash, term: number }));
        };
        if raw.end - raw.start != u64::from(term.raw_bytes) {
            return Err(wrong(Mismatch::Length { file: hash, term: number }));
        }
        // Knowing the file's hash, and where its parts lie, is not knowing its chunks: this proves it.
        if *claimed != RangeHash::of(places.iter().map(|place| &place.hash)) {
            return Err(wrong(Mismatch::RangeHash { file: hash, term: number }));
        }

        let mut raw_start = u64::from(
            term.chunks
                .start
                .checked_sub(1)
                .map_or(0, |before| info.chunks().get(before as usize).map_or(0, |place| place.raw_end)),
        );
        for ((n, place), chunk_index) in places.iter().enumerate().zip(term.chunks.start..) {
            self.merkle.push(place.hash, u64::from(place.raw_end) - raw_start);
            raw_start = u64::from(place.raw_end);
            let begins_file = self.term == 0 && n == 0;
            if (begins_file || place.hash.is_dedup_eligible()) && self.seen_chunks.insert(place.hash) {
                self.proven.dedup.push(DedupRow { chunk: place.hash, xorb: term.xorb, chunk_index });
            }
        }
        let narrow = |end: u64| u32::try_from(end).expect("a xorb is far less than 4 GiB");
        let stored = narrow(stored.start)..narrow(stored.end);
        self.recipe.push(named.row.recipe_xorb(), term.chunks.clone(), term.raw_bytes, stored);
        Ok(())
    }

    /// The file at hand has no more terms: its hash must be that of its chunks.
    fn close(&mut self, file: &FileEntry) -> Result<()> {
        let found = std::mem::take(&mut self.merkle).finish_file();
        if file.hash != found {
            return Err(mismatch(Mismatch::FileHash { file: file.hash }));
        }
        let recipe = std::mem::take(&mut self.recipe).finish();
        if self.seen_files.insert(file.hash) {
            self.proven.files.push(FileRow { hash: file.hash, recipe, created_s: self.now_s });
        }
        self.at += file.rows() * ROW_LEN as u64;
        self.file += 1;
        self.term = 0;
        Ok(())
    }
}
