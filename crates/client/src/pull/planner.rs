//! Planner: what to fetch for missing bytes, from the cache and from the hub; and what to fetch again after a hash mismatch.

use std::ops::Range;
use std::sync::Arc;

use xet::plan::PlanTerm;
use xet::{ChunkHash, FileHash};

use super::Puller;
use super::decoder::Destination;
use super::engine::{Engine, FileState, MissingRange};
use super::fetcher::FetchJob;
use super::writer::{Expected, PartFile};
use crate::cache::Cache;
use crate::error::{Error, ErrorKind, Result};

/// The chunks of a file with their raw lengths, in order.
pub(super) type ChunkList = Vec<(ChunkHash, u32)>;

/// The terms of a file that the cache keeps.
pub(super) struct Recipe {
    terms: Vec<PlanTerm>,
}

/// The cached part of what is missing, and the rest.
pub(super) struct CachePlan {
    pub(super) units: Vec<FetchJob>,
    /// File bytes of the units.
    pub(super) cached_bytes: u64,
    /// Ranges that the cache does not have.
    pub(super) rest: Vec<Range<u64>>,
}

impl Recipe {
    /// The recipe of a file, if the cache has it.
    pub(super) fn find(puller: &Puller, file: &FileHash) -> Option<Self> {
        Some(Self { terms: puller.cache.as_ref()?.recipe(file)? })
    }

    /// Raw bytes of the file.
    pub(super) fn size(&self) -> u64 {
        self.terms.iter().map(|term| u64::from(term.raw_bytes)).sum()
    }

    /// Plans the missing ranges of the file, which is the `file`th of those pulled together.
    pub(super) fn plan(&self, puller: &Puller, file: usize, missing: &[Range<u64>]) -> CachePlan {
        let mut plan = CachePlan { units: Vec::new(), cached_bytes: 0, rest: Vec::new() };
        let is_cached = |term: &PlanTerm| {
            puller.cache.as_ref().is_some_and(|cache| cache.has(&term.xorb, term.chunks.clone()))
        };
        let mut at = 0;
        for term in &self.terms {
            let bytes = at..at + u64::from(term.raw_bytes);
            at = bytes.end;
            let is_missing = |range: &&Range<u64>| range.start < bytes.end && bytes.start < range.end;
            if missing.iter().any(|range| is_missing(&range)) && is_cached(term) {
                plan.cached_bytes += bytes.end - bytes.start;
                plan.units.push(FetchJob {
                    xorb: term.xorb,
                    chunks: term.chunks.clone(),
                    stored: 0..u64::from(term.raw_bytes),
                    url: None,
                    uses: vec![Destination { file, chunks: term.chunks.clone(), bytes, failures: 0 }],
                });
                continue;
            }
            let cut = |range: &Range<u64>| range.start.max(bytes.start)..range.end.min(bytes.end);
            plan.rest.extend(missing.iter().filter(is_missing).map(cut));
        }
        plan.rest = merged(plan.rest);
        plan
    }
}

impl Engine<'_> {
    /// Adds what is missing of a file: from the cache as far as that has it.
    pub(super) fn want_cached(
        &mut self,
        puller: &Puller,
        recipe: &Recipe,
        file: usize,
        missing: &[Range<u64>],
    ) {
        let CachePlan { units, cached_bytes, rest } = recipe.plan(puller, file, missing);
        puller.progress.total_bytes.add(cached_bytes);
        self.push(units);
        self.want_ranges(file, rest);
    }

    /// Adds ranges of a file.
    pub(super) fn want_ranges(&mut self, file: usize, ranges: Vec<Range<u64>>) {
        merged(ranges).into_iter().for_each(|range| self.want(MissingRange::new(file, range)));
    }
}

/// The chunks of a file, where the hub lists them and they hash to the file.
pub(super) async fn chunk_list(puller: &Puller, file: FileHash) -> Result<Option<ChunkList>> {
    let Some(cas) = &puller.cas else { return Ok(None) };
    let list = cas.chunk_list(file).await?;
    Ok(list.filter(|list| {
        xet::merkle::file_hash(list.iter().map(|(hash, bytes)| (*hash, u64::from(*bytes)))) == file
    }))
}

/// Fetches files once more that came complete and are wrong: of a file with a journal only what is wrong, where the hub lists
/// its chunks; else everything.
pub(super) async fn refetch(
    puller: &Puller,
    parts: &Arc<Vec<PartFile>>,
    states: &mut [FileState],
    wrong: &[usize],
) {
    if wrong.is_empty() || puller.cas.is_none() {
        return;
    }
    let mut engine = Engine::new(puller, states.iter().map(|state| state.hash), parts.clone());
    for &file in wrong {
        let (Some(part), Some(state)) = (parts.get(file), states.get_mut(file)) else { continue };
        puller.progress.retries.add(1);
        match missing_after_damage(puller, part, state.hash).await {
            Ok((size, missing)) => {
                state.size = size;
                engine.want_ranges(file, missing);
            }
            Err(error) => state.error = Some(error),
        }
    }
    let mut second = engine.run().await;
    for &file in wrong {
        if let (Some(state), Some(second)) = (states.get_mut(file), second.get_mut(file)) {
            state.size = state.size.or(second.size);
            state.error = state.error.take().or(second.error.take());
        }
    }
}

/// Drops what is wrong in a part; returns its right length, where the hub lists its chunks, and what to fetch.
async fn missing_after_damage(
    puller: &Puller,
    part: &PartFile,
    file: FileHash,
) -> Result<(Option<u64>, Vec<Range<u64>>)> {
    // A staged file is short, and what was wrong may have been longer.
    let list = if part.is_staged() { None } else { chunk_list(puller, file).await? };
    let Some(list) = list else {
        part.forget()?;
        return Ok((None, std::iter::once(0..u64::MAX).collect()));
    };
    let size = list.iter().map(|(_, bytes)| u64::from(*bytes)).sum();
    let expected = Expected::new(&list);
    part.keep_only(&expected);
    part.expect(expected);
    Ok((Some(size), part.missing(size)))
}

/// The error of a file whose bytes came and hash to something else.
pub(super) fn hash_mismatch(file: &FileHash, advice: &str) -> Error {
    let message = format!("file {file}: the hub delivered data that has another hash; {advice}");
    Error::new(ErrorKind::Corrupt, message)
}

/// Advice where a target exists or may exist.
pub(super) const TARGET_UNCHANGED: &str =
    "the target is unchanged; the administrator of the hub should verify the file";

/// Keeps the terms of a file in the cache, if all of them were seen.
pub(super) fn keep_recipe(cache: &Cache, file: &FileHash, size: u64, mut terms: Vec<(u64, PlanTerm)>) {
    terms.sort_by_key(|(at, _)| *at);
    let mut reached = 0;
    let is_whole = terms.iter().all(|(at, term)| {
        let follows = *at == reached;
        reached += u64::from(term.raw_bytes);
        follows
    });
    if is_whole && reached == size {
        let terms: Vec<_> = terms.into_iter().map(|(_, term)| term).collect();
        cache.keep_recipe(file, &terms);
    }
}

/// Ranges that touch, joined; and, where there are very many, those that are close.
fn merged(ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    let mut gap = 0;
    let mut ranges = join(ranges, gap);
    while ranges.len() > RANGES_MAX {
        gap = (2 * gap).max(64 * 1024);
        ranges = join(ranges, gap);
    }
    ranges
}

fn join(ranges: Vec<Range<u64>>, gap: u64) -> Vec<Range<u64>> {
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start <= last.end.saturating_add(gap) => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

/// At most this many ranges of one file are planned one by one.
const RANGES_MAX: usize = 4096;
