//! Small files: many of them lie side by side in one xorb, so their chunks are read in runs, each run once.

use std::collections::HashMap;
use std::ops::Range;

use bytes::Bytes;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use sha2::Digest as _;
use xet::compress::Decompressor;
use xet::xorb::{XorbInfo, read_chunks};
use xet::{FileHash, Sha256};

use crate::content::Content;
use crate::content::digests::{Computed, readable};
use crate::content::recipe::{FileRecipe, RecipeXorb};
use crate::content::rows::FileRow;
use crate::error::{Error, ErrorKind, Result};
use crate::ids::XorbKey;
use crate::objects::key::ObjectKey;

/// Whether a file is read together with others.
pub(super) fn is_small(recipe: &FileRecipe) -> bool {
    recipe.file_bytes() <= SMALL_BYTES && recipe.terms.len() <= SMALL_TERMS
}

/// Chunks of one xorb that follow each other, decoded, or why they cannot be read.
struct Run {
    chunks: Range<u32>,
    raw_start: u64,
    bytes: std::result::Result<Bytes, String>,
    info: std::sync::Arc<XorbInfo>,
}

impl Content {
    /// The digests of small files, in the order of their places.
    pub(super) async fn compute_small(&self, mut rows: Vec<FileRow>) -> Result<Vec<(FileHash, Computed)>> {
        let place = |row: &FileRow| {
            let first = row.recipe.terms.first();
            first.map(|term| (row.recipe.xorb_of(term).key, term.chunks.start))
        };
        rows.sort_by_cached_key(place);
        let _memory = self.memory.reserve(3 * WINDOW_BYTES).await;
        let mut computed = Vec::with_capacity(rows.len());
        let mut window = Vec::new();
        let mut window_bytes = 0;
        for row in rows {
            let bytes = row.recipe.file_bytes();
            if window_bytes + bytes > WINDOW_BYTES {
                computed.extend(self.compute_window(std::mem::take(&mut window)).await?);
                window_bytes = 0;
            }
            window_bytes += bytes;
            window.push(row);
        }
        computed.extend(self.compute_window(window).await?);
        Ok(computed)
    }

    async fn compute_window(&self, rows: Vec<FileRow>) -> Result<Vec<(FileHash, Computed)>> {
        let mut wanted: HashMap<XorbKey, (RecipeXorb, Vec<Range<u32>>)> = HashMap::new();
        for row in &rows {
            for term in &row.recipe.terms {
                let xorb = row.recipe.xorb_of(term);
                let (_, ranges) = wanted.entry(xorb.key).or_insert_with(|| (*xorb, Vec::new()));
                ranges.push(term.chunks.clone());
            }
        }
        let reads = wanted.into_values().map(|(xorb, ranges)| async move {
            let runs = self.read_runs(&xorb, merge(ranges)).await?;
            Ok::<_, Error>((xorb.key, runs))
        });
        let reads: Vec<_> = reads.collect();
        let runs: HashMap<_, _> = stream::iter(reads).buffer_unordered(READS_AT_ONCE).try_collect().await?;
        let hash = move || rows.iter().map(|row| (row.hash, hash(&row.recipe, &runs))).collect();
        self.workers.run(hash).await
    }

    async fn read_runs(&self, xorb: &RecipeXorb, ranges: Vec<Range<u32>>) -> Result<Vec<Run>> {
        let info = match readable(self.footers.of(xorb).await)? {
            Ok(info) => info,
            // The files in it miss their runs.
            Err(_) => return Ok(Vec::new()),
        };
        let mut runs = Vec::with_capacity(ranges.len());
        for chunks in ranges {
            let wrong =
                || Error::new(ErrorKind::Corrupt, format!("the recipe of a file in xorb {}", info.hash()));
            let raw = info.raw_range(chunks.clone()).ok_or_else(wrong)?;
            let bytes = readable(self.read_run(xorb, &info, chunks.clone()).await)?;
            runs.push(Run { chunks, raw_start: raw.start, bytes, info: info.clone() });
        }
        Ok(runs)
    }

    async fn read_run(
        &self,
        xorb: &RecipeXorb,
        info: &std::sync::Arc<XorbInfo>,
        chunks: Range<u32>,
    ) -> Result<Bytes> {
        let key = ObjectKey::Xorb(xorb.key);
        let wrong = || Error::new(ErrorKind::Corrupt, format!("the recipe of a file in {key}"));
        let stored = info.stored_range(chunks.clone()).ok_or_else(wrong)?;
        let bytes = self.objects.positioned(&key, stored.clone()).await?;
        let info = info.clone();
        let decode = move || {
            let bytes = bytes.read(&key)?;
            let mut out = Vec::new();
            read_chunks(&info, chunks, &bytes, stored.start, &mut Decompressor::new(), &mut out)
                .map_err(|source| Error::corrupt(key.to_string(), source))?;
            Ok(Bytes::from(out))
        };
        self.workers.run(decode).await?
    }
}

/// The digest of a file whose chunks are in these runs.
fn hash(recipe: &FileRecipe, runs: &HashMap<XorbKey, Vec<Run>>) -> Computed {
    let mut hasher = sha2::Sha256::new();
    for term in &recipe.terms {
        let key = recipe.xorb_of(term).key;
        let missing = || format!("{} cannot be read", ObjectKey::Xorb(key));
        let runs = runs.get(&key).ok_or_else(missing)?;
        let run = runs
            .iter()
            .find(|run| run.chunks.start <= term.chunks.start && term.chunks.end <= run.chunks.end);
        let run = run.ok_or_else(missing)?;
        let bytes = run.bytes.as_ref().map_err(Clone::clone)?;
        let raw = run.info.raw_range(term.chunks.clone()).ok_or_else(missing)?;
        let at = |raw: u64| usize::try_from(raw.checked_sub(run.raw_start)?).ok();
        let range = at(raw.start).zip(at(raw.end)).map(|(start, end)| start..end);
        hasher.update(range.and_then(|range| bytes.get(range)).ok_or_else(missing)?);
    }
    Ok(Sha256::new(hasher.finalize().into()))
}

/// Sorts ranges and joins those that overlap or touch.
fn merge(mut ranges: Vec<Range<u32>>) -> Vec<Range<u32>> {
    ranges.sort_unstable_by_key(|range| (range.start, range.end));
    let mut merged: Vec<Range<u32>> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

/// A larger file is read alone, piece by piece.
const SMALL_BYTES: u64 = 4 * 1024 * 1024;

const SMALL_TERMS: usize = 64;

/// Raw bytes that are decoded at once.
const WINDOW_BYTES: u64 = 16 * 1024 * 1024;

const READS_AT_ONCE: usize = 8;
