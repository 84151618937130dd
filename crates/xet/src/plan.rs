//! Reconstruction plans: which chunks of which xorbs give the bytes of a file, or of a part of it.
//!
//! A plan has two halves. Its *terms* say what to concatenate, in file order. Its *fetches* say what to download:
//! for each xorb the fewest stored byte ranges that hold the terms' chunks. A reader fetches every range once,
//! decodes it, concatenates the terms, and drops [`Plan::offset_into_first_range`] bytes from the front. What a
//! byte range leaves over at the end of the last term is for the reader to drop: it knows what it asked for.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::error::{FormatError, expect_number, expect_range};
use crate::hash::{FileHash, XorbHash};

/// A run of chunks of one xorb, as a piece of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanTerm {
    /// The xorb that holds the chunks.
    pub xorb: XorbHash,
    /// Chunk numbers in that xorb.
    pub chunks: Range<u32>,
    /// Raw bytes of those chunks.
    pub raw_bytes: u32,
}

/// Where the chunks of one xorb end, counted from the xorb's start: one number for each chunk, ascending.
///
/// Ends that do not ascend give an error or a useless plan, never a panic; a parsed footer has them in order.
#[derive(Debug, Clone, Copy)]
pub struct XorbEnds<'a> {
    /// Ends of the chunks as stored, headers included.
    pub stored: &'a [u32],
    /// Ends of the raw chunks laid end to end.
    pub raw: &'a [u32],
}

impl XorbEnds<'_> {
    /// The stored bytes of a run of chunks.
    pub fn stored_range(&self, chunks: &Range<u32>) -> Result<Range<u64>, FormatError> {
        span(self.stored, chunks)
    }

    /// The raw bytes of a run of chunks.
    pub fn raw_range(&self, chunks: &Range<u32>) -> Result<Range<u64>, FormatError> {
        span(self.raw, chunks)
    }
}

/// A run of chunks to download, with the stored bytes it occupies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchRange {
    /// Chunk numbers in the xorb.
    pub chunks: Range<u32>,
    /// Bytes of the stored xorb, half-open.
    pub stored_bytes: Range<u64>,
}

/// What to download of one xorb.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetch {
    /// The xorb.
    pub xorb: XorbHash,
    /// Ascending; no two overlap or touch.
    pub ranges: Vec<FetchRange>,
}

/// How to rebuild a file, or a byte range of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// Bytes to drop from the front of the first term.
    pub offset_into_first_range: u64,
    /// What to concatenate, in file order, clipped to the chunks the range needs.
    pub terms: Vec<PlanTerm>,
    /// What to download, in the order the terms first need each xorb.
    pub fetches: Vec<Fetch>,
}

/// What became of a request for a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Planned {
    /// The range lies in the file, at least in part.
    Covered(Plan),
    /// The range begins at or after the end. On the wire this is 416, and never an empty plan: clients read an
    /// empty answer as "more to come" and wait for ever.
    PastEnd {
        /// Where the file ends.
        file_bytes: u64,
    },
}

/// How to rebuild several files, with one set of downloads for all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BatchPlan {
    /// Each file's terms, in the order asked.
    pub files: Vec<(FileHash, Vec<PlanTerm>)>,
    /// What to download, in the order the files first need each xorb.
    pub fetches: Vec<Fetch>,
}

/// Raw bytes of the file that `terms` make; an error when a number on the way is impossible.
pub fn file_bytes(terms: &[PlanTerm]) -> Result<u64, FormatError> {
    let mut sum = 0_u64;
    for term in terms {
        check_chunks(&term.chunks)?;
        sum = sum.checked_add(u64::from(term.raw_bytes)).ok_or(FormatError::Range {
            at: sum,
            what: "file bytes",
            min: 0,
            max: u64::MAX,
            found: u64::MAX,
        })?;
    }
    Ok(sum)
}

/// Plans the bytes `range` of the file that `terms` make, or all of it.
///
/// The range is half-open and its end may lie anywhere past the file: `start..u64::MAX` asks for the rest. An empty
/// file has an empty plan, asked for whole or from byte 0, because clients always ask for a range first; from any
/// later byte it is past the end.
///
/// `ends` finds a xorb's chunk ends. It is asked only for terms that the range touches, so only those are compared
/// with their xorbs; offsets in errors count bytes of the file.
pub fn plan<'a>(
    terms: &[PlanTerm],
    range: Option<Range<u64>>,
    mut ends: impl FnMut(&XorbHash) -> Option<XorbEnds<'a>>,
) -> Result<Planned, FormatError> {
    let file_bytes = file_bytes(terms)?;
    let asked = range.unwrap_or(0..u64::MAX);
    if asked.start >= file_bytes && asked.start > 0 {
        return Ok(Planned::PastEnd { file_bytes });
    }
    let wanted = asked.start..asked.end.min(file_bytes);

    let mut plan = Plan::default();
    let mut fetches = FetchSet::default();
    let mut at = 0_u64;
    for term in terms {
        let span = at..at.saturating_add(u64::from(term.raw_bytes));
        at = span.end;
        if span.start >= wanted.end {
            break;
        }
        let inside = wanted.start.max(span.start)..wanted.end.min(span.end);
        if inside.is_empty() {
            continue;
        }
        let xorb = checked(span.start, term, &mut ends)?;
        let (offset, clipped) = clip(term, xorb, inside.start - span.start..inside.end - span.start)?;
        if plan.terms.is_empty() {
            plan.offset_into_first_range = offset;
        }
        fetches.add(&clipped, xorb);
        plan.terms.push(clipped);
    }
    plan.fetches = fetches.finish()?;
    Ok(Planned::Covered(plan))
}

/// Plans several whole files at once: chunks that two of them share are downloaded once.
pub fn plan_batch<'a, 't>(
    files: impl IntoIterator<Item = (FileHash, &'t [PlanTerm])>,
    mut ends: impl FnMut(&XorbHash) -> Option<XorbEnds<'a>>,
) -> Result<BatchPlan, FormatError> {
    let mut batch = BatchPlan::default();
    let mut fetches = FetchSet::default();
    for (file, terms) in files {
        let mut at = 0_u64;
        for term in terms {
            check_chunks(&term.chunks)?;
            fetches.add(term, checked(at, term, &mut ends)?);
            at = at.saturating_add(u64::from(term.raw_bytes));
        }
        batch.files.push((file, terms.to_vec()));
    }
    batch.fetches = fetches.finish()?;
    Ok(batch)
}

/// The ends of a term's xorb, once the term agrees with them. `at` is where the term begins in the file.
fn checked<'a>(
    at: u64,
    term: &PlanTerm,
    ends: &mut impl FnMut(&XorbHash) -> Option<XorbEnds<'a>>,
) -> Result<XorbEnds<'a>, FormatError> {
    let xorb = ends(&term.xorb).ok_or(FormatError::Missing { at, what: "xorb", hash: term.xorb.0 })?;
    expect_number(at, "number of stored chunk ends", xorb.raw.len() as u64, xorb.stored.len() as u64)?;
    expect_range(at, "end of a term's chunks", 1, xorb.raw.len() as u64, u64::from(term.chunks.end))?;
    let raw = xorb.raw_range(&term.chunks)?;
    expect_number(at, "raw bytes of a term", raw.end - raw.start, u64::from(term.raw_bytes))?;
    Ok(xorb)
}

/// Clips a checked term to the chunks that cover `wanted`, raw bytes counted from the term's start. Also says how
/// many bytes of the first kept chunk come before the wanted ones.
fn clip(term: &PlanTerm, xorb: XorbEnds<'_>, wanted: Range<u64>) -> Result<(u64, PlanTerm), FormatError> {
    let base = xorb.raw_range(&term.chunks)?.start;
    let first = index(term.chunks.start);
    let ends = xorb.raw.get(first..index(term.chunks.end)).unwrap_or_default();

    // The first kept chunk ends after the first wanted byte; the last one ends at or after the last wanted byte.
    let skipped = ends.partition_point(|end| u64::from(*end) <= base + wanted.start);
    let before_last = ends.partition_point(|end| u64::from(*end) < base + wanted.end);
    let chunks = chunk_number(first + skipped)?..chunk_number(first + before_last + 1)?;

    let raw = xorb.raw_range(&chunks)?;
    let raw_bytes = u32::try_from(raw.end - raw.start).expect("both ends of the span are 32-bit numbers");
    let offset = (base + wanted.start).checked_sub(raw.start).ok_or(ENDS_DESCEND)?;
    Ok((offset, PlanTerm { xorb: term.xorb, chunks, raw_bytes }))
}

/// Collects the chunk runs of terms, by xorb, in the order xorbs first appear.
#[derive(Default)]
struct FetchSet<'a> {
    places: BTreeMap<XorbHash, usize>,
    xorbs: Vec<(XorbHash, XorbEnds<'a>, Vec<Range<u32>>)>,
}

impl<'a> FetchSet<'a> {
    fn add(&mut self, term: &PlanTerm, ends: XorbEnds<'a>) {
        let place = *self.places.entry(term.xorb).or_insert(self.xorbs.len());
        match self.xorbs.get_mut(place) {
            Some((_, _, runs)) => runs.push(term.chunks.clone()),
            None => self.xorbs.push((term.xorb, ends, vec![term.chunks.clone()])),
        }
    }

    fn finish(self) -> Result<Vec<Fetch>, FormatError> {
        let fetch = |(xorb, ends, runs): (XorbHash, XorbEnds<'_>, Vec<Range<u32>>)| {
            let ranges = merge(runs)
                .into_iter()
                .map(|chunks| Ok(FetchRange { stored_bytes: ends.stored_range(&chunks)?, chunks }));
            Ok(Fetch { xorb, ranges: ranges.collect::<Result<_, FormatError>>()? })
        };
        self.xorbs.into_iter().map(fetch).collect()
    }
}

/// Sorts runs and joins those that overlap or touch.
fn merge(mut runs: Vec<Range<u32>>) -> Vec<Range<u32>> {
    runs.sort_unstable_by_key(|run| (run.start, run.end));
    let mut merged: Vec<Range<u32>> = Vec::new();
    for run in runs {
        match merged.last_mut() {
            Some(last) if run.start <= last.end => last.end = last.end.max(run.end),
            _ => merged.push(run),
        }
    }
    merged
}

/// The bytes of a run of chunks, by the ends of all chunks.
fn span(ends: &[u32], chunks: &Range<u32>) -> Result<Range<u64>, FormatError> {
    check_chunks(chunks)?;
    let end_of = |chunk: u32| {
        ends.get(index(chunk)).map(|end| u64::from(*end)).ok_or(FormatError::Range {
            at: 0,
            what: "chunk number",
            min: 0,
            max: (ends.len() as u64).saturating_sub(1),
            found: u64::from(chunk),
        })
    };
    let start = chunks.start.checked_sub(1).map_or(Ok(0), end_of)?;
    let end = end_of(chunks.end - 1)?;
    if start > end { Err(ENDS_DESCEND) } else { Ok(start..end) }
}

fn check_chunks(chunks: &Range<u32>) -> Result<(), FormatError> {
    let least = u64::from(chunks.start) + 1;
    expect_range(0, "end of a term's chunks", least, u64::from(u32::MAX), u64::from(chunks.end))
}

/// A chunk number as an index; one too large for this machine is past every slice.
fn index(chunk: u32) -> usize {
    usize::try_from(chunk).unwrap_or(usize::MAX)
}

fn chunk_number(index: usize) -> Result<u32, FormatError> {
    u32::try_from(index).map_err(|_| ENDS_DESCEND)
}

const ENDS_DESCEND: FormatError = FormatError::Order { at: 0, what: "list of chunk ends" };

#[cfg(test)]
mod tests;
