//! Reconstruction plans: which chunks of which xorbs give the bytes of a file, or of a part of it.
//!
//! A plan has two halves. Its *terms* say what to concatenate, in file order. Its *fetches* say what to download:
//! for each xorb the fewest stored byte ranges that hold the terms' chunks. A reader fetches every range once,
//! decodes it, concatenates the terms, and drops [`Plan::offset_into_first_range`] bytes from the front. What a
//! byte range leaves over at the end of the last term is for the reader to drop: it knows what it requested.

use std::collections::HashMap;
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

/// A term of a stored file, with the stored bytes of its chunks: only where it is clipped do the ends of chunks matter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecipeTerm {
    /// The term.
    pub term: PlanTerm,
    /// Bytes of its chunks in the stored xorb, half-open.
    pub stored_bytes: Range<u64>,
}

/// Ends of the chunks of one xorb, counted from the xorb's start: one number for each chunk, ascending.
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

/// Ranges to download of one xorb.
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
    /// Terms to concatenate, in file order, clipped to the chunks the range needs.
    pub terms: Vec<PlanTerm>,
    /// Downloads, in the order the terms first need each xorb.
    pub fetches: Vec<Fetch>,
}

/// Outcome of a request for a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Planned {
    /// The range lies in the file, at least in part.
    Covered(Plan),
    /// The range begins at or after the end. On the wire this is 416, and never an empty plan: clients read an
    /// empty answer as "more to come" and wait for ever.
    PastEnd {
        /// Length of the file.
        file_bytes: u64,
    },
}

/// How to rebuild several files, with one set of downloads for all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BatchPlan {
    /// Each file's terms, in the order requested.
    pub files: Vec<(FileHash, Vec<PlanTerm>)>,
    /// Downloads, in the order the files first need each xorb.
    pub fetches: Vec<Fetch>,
}

/// Raw bytes of the file that `terms` make; an error when a number on the way is impossible.
pub fn file_bytes<'t>(terms: impl IntoIterator<Item = &'t PlanTerm>) -> Result<u64, FormatError> {
    let mut sum = 0;
    terms.into_iter().try_for_each(|term| add_term(&mut sum, term))?;
    Ok(sum)
}

fn add_term(sum: &mut u64, term: &PlanTerm) -> Result<(), FormatError> {
    check_chunks(&term.chunks)?;
    let (what, max) = ("file bytes", u64::MAX);
    *sum = sum.checked_add(u64::from(term.raw_bytes)).ok_or(FormatError::Range {
        at: *sum,
        what,
        min: 0,
        max,
        found: max,
    })?;
    Ok(())
}

/// Plans the bytes `range` of the file that `terms` make, or all of it.
///
/// The range is half-open and its end may lie anywhere past the file: `start..u64::MAX` means the rest. An empty
/// file has an empty plan, whole or from byte 0, because clients always request a range first; from any
/// later byte it is past the end.
///
/// `ends` finds a xorb's chunk ends. It is called only for terms that the range touches, so only those are compared
/// with their xorbs; offsets in errors count bytes of the file.
pub fn plan<'a>(
    terms: &[PlanTerm],
    range: Option<Range<u64>>,
    mut ends: impl FnMut(&XorbHash) -> Option<XorbEnds<'a>>,
) -> Result<Planned, FormatError> {
    plan_pieces(
        terms.iter(),
        |term| term,
        range,
        |at, term, inside| {
            let xorb = checked(at, term, &mut ends)?;
            clip(term, xorb, inside)
        },
    )
}

/// Plans the bytes `range` of a stored file, or all of it, as [`plan`] does. `ends` is called only for terms that the range
/// cuts, which are those of [`clipped_xorbs`].
pub fn plan_recipe<'a>(
    terms: impl Iterator<Item = RecipeTerm> + Clone,
    range: Option<Range<u64>>,
    mut ends: impl FnMut(&XorbHash) -> Option<XorbEnds<'a>>,
) -> Result<Planned, FormatError> {
    plan_pieces(
        terms,
        |term| &term.term,
        range,
        |at, RecipeTerm { term, stored_bytes }, inside| {
            if inside == (0..u64::from(term.raw_bytes)) {
                return Ok(Piece::whole(term, stored_bytes));
            }
            let xorb = checked(at, &term, &mut ends)?;
            clip(&term, xorb, inside)
        },
    )
}

/// The xorbs, at most two, whose chunk ends [`plan_recipe`] needs: those in which the range begins and ends.
pub fn clipped_xorbs(terms: impl Iterator<Item = RecipeTerm>, range: Option<&Range<u64>>) -> Vec<XorbHash> {
    let Some(range) = range else { return Vec::new() };
    let is_clipped =
        |(term, inside): &(RecipeTerm, TouchedTerm)| inside.bytes != (0..u64::from(term.term.raw_bytes));
    let clipped = touched(terms, |term| &term.term, range).filter(is_clipped);
    clipped.map(|(term, _)| term.term.xorb).collect()
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
            let stored_bytes = checked(at, term, &mut ends)?.stored_range(&term.chunks)?;
            fetches.add(term.xorb, FetchRange { chunks: term.chunks.clone(), stored_bytes });
            at = at.saturating_add(u64::from(term.raw_bytes));
        }
        batch.files.push((file, terms.to_vec()));
    }
    batch.fetches = fetches.finish()?;
    Ok(batch)
}

/// Plans several whole stored files at once.
pub fn plan_recipe_batch<T: Iterator<Item = RecipeTerm>>(
    files: impl IntoIterator<Item = (FileHash, T)>,
) -> Result<BatchPlan, FormatError> {
    let mut batch = BatchPlan::default();
    let mut fetches = FetchSet::default();
    for (file, recipe) in files {
        let mut terms = Vec::new();
        for RecipeTerm { term, stored_bytes } in recipe {
            check_chunks(&term.chunks)?;
            let Piece { term, fetch, .. } = Piece::whole(term, stored_bytes);
            fetches.add(term.xorb, fetch);
            terms.push(term);
        }
        batch.files.push((file, terms));
    }
    batch.fetches = fetches.finish()?;
    Ok(batch)
}

/// The part of one term that a plan needs.
struct Piece {
    /// Bytes of the first chunk before the bytes ones.
    offset: u64,
    term: PlanTerm,
    fetch: FetchRange,
}

impl Piece {
    fn whole(term: PlanTerm, stored_bytes: Range<u64>) -> Self {
        Self { offset: 0, fetch: FetchRange { chunks: term.chunks.clone(), stored_bytes }, term }
    }
}

/// Plans `range` of the file of these terms; `piece` takes what the range touches of one, which begins at a place in the file.
fn plan_pieces<T>(
    terms: impl Iterator<Item = T> + Clone,
    term_of: impl Fn(&T) -> &PlanTerm,
    range: Option<Range<u64>>,
    mut piece: impl FnMut(u64, T, Range<u64>) -> Result<Piece, FormatError>,
) -> Result<Planned, FormatError> {
    let mut file_bytes = 0;
    terms.clone().try_for_each(|term| add_term(&mut file_bytes, term_of(&term)))?;
    let requested = range.unwrap_or(0..u64::MAX);
    if requested.start >= file_bytes && requested.start > 0 {
        return Ok(Planned::PastEnd { file_bytes });
    }
    let mut plan = Plan::default();
    let mut fetches = FetchSet::default();
    for (term, TouchedTerm { at, bytes }) in touched(terms, term_of, &requested) {
        let Piece { offset, term, fetch } = piece(at, term, bytes)?;
        if plan.terms.is_empty() {
            plan.offset_into_first_range = offset;
        }
        fetches.add(term.xorb, fetch);
        plan.terms.push(term);
    }
    plan.fetches = fetches.finish()?;
    Ok(Planned::Covered(plan))
}

/// A part of a term that a range touches.
struct TouchedTerm {
    /// Offset of the term in the file.
    at: u64,
    /// Raw bytes, counted from the term's start.
    bytes: Range<u64>,
}

/// The terms that `range` touches.
fn touched<T>(
    terms: impl Iterator<Item = T>,
    term_of: impl Fn(&T) -> &PlanTerm,
    range: &Range<u64>,
) -> impl Iterator<Item = (T, TouchedTerm)> {
    let Range { start, end } = *range;
    let mut next = 0_u64;
    let spans = terms.map(move |term| {
        let at = next;
        next = at.saturating_add(u64::from(term_of(&term).raw_bytes));
        (term, at..next)
    });
    spans.take_while(move |(_, span)| span.start < end).filter_map(move |(term, span)| {
        let inside = start.max(span.start)..end.min(span.end);
        let bytes = inside.start.saturating_sub(span.start)..inside.end.saturating_sub(span.start);
        (!inside.is_empty()).then_some((term, TouchedTerm { at: span.start, bytes }))
    })
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

/// Clips a checked term to the chunks that cover `bytes`, raw bytes counted from the term's start.
fn clip(term: &PlanTerm, xorb: XorbEnds<'_>, bytes: Range<u64>) -> Result<Piece, FormatError> {
    let base = xorb.raw_range(&term.chunks)?.start;
    let first = index(term.chunks.start);
    let ends = xorb.raw.get(first..index(term.chunks.end)).unwrap_or_default();

    // The first kept chunk ends after the first bytes byte; the last one ends at or after the last bytes byte.
    let skipped = ends.partition_point(|end| u64::from(*end) <= base + bytes.start);
    let before_last = ends.partition_point(|end| u64::from(*end) < base + bytes.end);
    let chunks = chunk_number(first + skipped)?..chunk_number(first + before_last + 1)?;

    let raw = xorb.raw_range(&chunks)?;
    let raw_bytes = u32::try_from(raw.end - raw.start).expect("both ends of the span are 32-bit numbers");
    let offset = (base + bytes.start).checked_sub(raw.start).ok_or(ENDS_DESCEND)?;
    let fetch = FetchRange { stored_bytes: xorb.stored_range(&chunks)?, chunks: chunks.clone() };
    Ok(Piece { offset, term: PlanTerm { xorb: term.xorb, chunks, raw_bytes }, fetch })
}

/// Collects what to download, by xorb, in the order xorbs first appear.
#[derive(Default)]
struct FetchSet {
    places: HashMap<XorbHash, usize>,
    xorbs: Vec<Fetch>,
}

impl FetchSet {
    fn add(&mut self, xorb: XorbHash, range: FetchRange) {
        let place = *self.places.entry(xorb).or_insert(self.xorbs.len());
        match self.xorbs.get_mut(place) {
            Some(fetch) => fetch.ranges.push(range),
            None => self.xorbs.push(Fetch { xorb, ranges: vec![range] }),
        }
    }

    fn finish(mut self) -> Result<Vec<Fetch>, FormatError> {
        for fetch in &mut self.xorbs {
            fetch.ranges = merge(std::mem::take(&mut fetch.ranges))?;
        }
        Ok(self.xorbs)
    }
}

/// Sorts ranges and joins those that overlap or touch: neighbouring chunks are neighbours in the stored xorb, too.
fn merge(mut ranges: Vec<FetchRange>) -> Result<Vec<FetchRange>, FormatError> {
    ranges.sort_unstable_by_key(|range| (range.chunks.start, range.chunks.end));
    let mut merged: Vec<FetchRange> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.chunks.start <= last.chunks.end => {
                if range.chunks.end > last.chunks.end {
                    (last.chunks.end, last.stored_bytes.end) = (range.chunks.end, range.stored_bytes.end);
                }
            }
            _ => merged.push(range),
        }
    }
    let ascend = merged.iter().all(|range| range.stored_bytes.start <= range.stored_bytes.end);
    if ascend { Ok(merged) } else { Err(ENDS_DESCEND) }
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
