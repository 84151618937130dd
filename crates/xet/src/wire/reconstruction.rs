//! Reconstructions in JSON: version 1, version 2, batch, and the one form a client works with.
//!
//! Chunk ranges are half-open in every form. Byte ranges are inclusive, ready for a `Range` header. Version 1 has a
//! URL for each range; version 2 has one for many ranges of a xorb.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::error::{FormatError, expect_range};
use crate::hash::{FileHash, XorbHash};
use crate::limits;
use crate::plan::{BatchPlan, Fetch, FetchRange, Plan, PlanTerm};
use crate::wire::range::HttpRange;

/// A half-open range of chunk numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChunkSpan {
    /// The first chunk.
    pub start: u32,
    /// The chunk after the last.
    pub end: u32,
}

/// One term.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Term {
    /// The xorb.
    pub hash: XorbHash,
    /// Raw bytes of its chunks.
    pub unpacked_length: u32,
    /// Its chunks.
    pub range: ChunkSpan,
}

/// Version 1.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReconstructionV1 {
    /// Bytes to drop from the front of the first term.
    pub offset_into_first_range: u64,
    /// Terms to concatenate.
    pub terms: Vec<Term>,
    /// Downloads.
    pub fetch_info: BTreeMap<XorbHash, Vec<FetchInfo>>,
}

/// One range to download, version 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FetchInfo {
    /// The chunks it holds.
    pub range: ChunkSpan,
    /// URL to download from; no token is sent there.
    pub url: String,
    /// The bytes to request.
    pub url_range: HttpRange,
}

/// Version 2.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReconstructionV2 {
    /// Bytes to drop from the front of the first term.
    pub offset_into_first_range: u64,
    /// Terms to concatenate.
    pub terms: Vec<Term>,
    /// Downloads; normally one URL for each xorb.
    pub xorbs: BTreeMap<XorbHash, Vec<XorbFetch>>,
}

/// Ranges to download from one URL, all at once or one by one, version 2.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct XorbFetch {
    /// URL to download from; no token is sent there.
    pub url: String,
    /// Ascending.
    pub ranges: Vec<XorbRange>,
}

/// One range to download, version 2.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct XorbRange {
    /// The chunks it holds.
    pub chunks: ChunkSpan,
    /// The bytes to request.
    pub bytes: HttpRange,
}

/// Several files at once.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    /// Each file's terms.
    pub files: BTreeMap<FileHash, Vec<Term>>,
    /// Downloads for all of them, as in version 1.
    pub fetch_info: BTreeMap<XorbHash, Vec<FetchInfo>>,
}

/// One file of a batch request: the body of the POST is an array of these.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileKey {
    /// A namespace; any is accepted.
    pub prefix: String,
    /// The file.
    pub hash: FileHash,
}

impl ReconstructionV1 {
    /// Encodes a plan in version 1. `url` is called once for each range, in the plan's order.
    pub fn from_plan(plan: &Plan, url: impl FnMut(&XorbHash, &[FetchRange]) -> String) -> Self {
        Self {
            offset_into_first_range: plan.offset_into_first_range,
            terms: plan.terms.iter().map(Term::from).collect(),
            fetch_info: fetch_info(&plan.fetches, url),
        }
    }
}

impl ReconstructionV2 {
    /// Encodes a plan in version 2. `url` is called once for each group of at most `ranges_max` ranges of a xorb, in the
    /// plan's order; normally [`URL_RANGES_MAX`](crate::limits::URL_RANGES_MAX).
    pub fn from_plan(
        plan: &Plan,
        ranges_max: usize,
        mut url: impl FnMut(&XorbHash, &[FetchRange]) -> String,
    ) -> Self {
        let mut xorbs = BTreeMap::new();
        for Fetch { xorb, ranges } in &plan.fetches {
            let group = |ranges: &[FetchRange]| XorbFetch {
                url: url(xorb, ranges),
                ranges: ranges.iter().filter_map(XorbRange::new).collect(),
            };
            xorbs.insert(*xorb, ranges.chunks(ranges_max.max(1)).map(group).collect());
        }
        Self {
            offset_into_first_range: plan.offset_into_first_range,
            terms: plan.terms.iter().map(Term::from).collect(),
            xorbs,
        }
    }
}

impl Batch {
    /// Encodes a plan of several files. `url` is called once for each range, in the plan's order.
    pub fn from_plan(plan: &BatchPlan, url: impl FnMut(&XorbHash, &[FetchRange]) -> String) -> Self {
        let terms = |terms: &Vec<PlanTerm>| terms.iter().map(Term::from).collect();
        Self {
            files: plan.files.iter().map(|(file, list)| (*file, terms(list))).collect(),
            fetch_info: fetch_info(&plan.fetches, url),
        }
    }
}

fn fetch_info(
    fetches: &[Fetch],
    mut url: impl FnMut(&XorbHash, &[FetchRange]) -> String,
) -> BTreeMap<XorbHash, Vec<FetchInfo>> {
    let mut info = BTreeMap::new();
    for Fetch { xorb, ranges } in fetches {
        let one = |range: &FetchRange| {
            let XorbRange { chunks, bytes } = XorbRange::new(range)?;
            Some(FetchInfo { range: chunks, url: url(xorb, std::slice::from_ref(range)), url_range: bytes })
        };
        info.insert(*xorb, ranges.iter().filter_map(one).collect());
    }
    info
}

impl XorbRange {
    /// `None` for a range without bytes, which no xorb has: every chunk has a header.
    fn new(range: &FetchRange) -> Option<Self> {
        let bytes = HttpRange::from_half_open(&range.stored_bytes)?;
        Some(Self { chunks: ChunkSpan::from(&range.chunks), bytes })
    }
}

impl From<&Range<u32>> for ChunkSpan {
    fn from(range: &Range<u32>) -> Self {
        Self { start: range.start, end: range.end }
    }
}

impl From<&PlanTerm> for Term {
    fn from(term: &PlanTerm) -> Self {
        Self { hash: term.xorb, unpacked_length: term.raw_bytes, range: ChunkSpan::from(&term.chunks) }
    }
}

/// A reconstruction as a client works with it, whichever version it came in: checked, and with half-open ranges.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reconstruction {
    /// Bytes to drop from the front of the first term; less than that term has.
    pub offset_into_first_range: u64,
    /// Terms to concatenate. Each term's chunks lie in one range of `fetches`.
    pub terms: Vec<PlanTerm>,
    /// Downloads, by xorb.
    pub fetches: BTreeMap<XorbHash, UrlFetch>,
}

/// Ranges to download of one xorb, with their URLs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UrlFetch {
    /// URLs, each with its range of the xorb.
    pub urls: Vec<String>,
    /// What, ascending; none lies inside another.
    pub ranges: Vec<UrlRange>,
}

/// One range to download, and where from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UrlRange {
    /// Which of the URLs; ranges of the same URL may be requested together.
    pub url: usize,
    /// Which chunks and bytes.
    pub range: FetchRange,
}

impl Reconstruction {
    /// The URL and the range that hold a term's chunks.
    pub fn find(&self, term: &PlanTerm) -> Option<(&str, &FetchRange)> {
        let fetch = self.fetches.get(&term.xorb)?;
        // Starts and ends both ascend, so of all ranges that begin early enough the last reaches furthest.
        let after = fetch.ranges.partition_point(|at| at.range.chunks.start <= term.chunks.start);
        let UrlRange { url, range } = fetch.ranges.get(after.checked_sub(1)?)?;
        (term.chunks.end <= range.chunks.end).then_some((fetch.urls.get(*url)?.as_str(), range))
    }

    /// Refuses what a server may not say, so that no later stage has to check it. Offsets count terms.
    fn checked(self) -> Result<Self, FormatError> {
        for range in self.fetches.values().flat_map(|fetch| &fetch.ranges).map(|at| &at.range) {
            check_chunks(0, &range.chunks)?;
            expect_range(0, "end of a fetch", 1, limits::XORB_STORED_BYTES_MAX, range.stored_bytes.end)?;
        }
        for (at, term) in (0..).zip(&self.terms) {
            check_chunks(at, &term.chunks)?;
            if self.find(term).is_none() {
                return Err(FormatError::Missing { at, what: "fetch for a term of xorb", hash: term.xorb.0 });
            }
        }
        let first = self.terms.first().map_or(0, |term| u64::from(term.raw_bytes));
        let offset = self.offset_into_first_range;
        expect_range(0, "offset into the first range", 0, first.saturating_sub(1), offset)?;
        Ok(self)
    }
}

impl UrlFetch {
    fn add(&mut self, url: String, ranges: impl IntoIterator<Item = (ChunkSpan, HttpRange)>) {
        let place = self.urls.len();
        self.urls.push(url);
        self.ranges.extend(ranges.into_iter().map(|(chunks, bytes)| UrlRange {
            url: place,
            range: FetchRange { chunks: chunks.half_open(), stored_bytes: bytes.half_open() },
        }));
    }

    /// Sorts the ranges and drops those that lie inside another: whatever needs them finds the larger one.
    fn sorted(mut self) -> Self {
        self.ranges.sort_by_key(|at| (at.range.chunks.start, Reverse(at.range.chunks.end)));
        let mut reached = 0;
        self.ranges.retain(|at| {
            let further = at.range.chunks.end > reached;
            reached = reached.max(at.range.chunks.end);
            further
        });
        self
    }
}

impl TryFrom<ReconstructionV1> for Reconstruction {
    type Error = FormatError;

    fn try_from(v1: ReconstructionV1) -> Result<Self, FormatError> {
        let fetch = |list: Vec<FetchInfo>| {
            let mut fetch = UrlFetch::default();
            for info in list {
                fetch.add(info.url, [(info.range, info.url_range)]);
            }
            fetch.sorted()
        };
        Self {
            offset_into_first_range: v1.offset_into_first_range,
            terms: v1.terms.iter().map(Term::to_plan).collect(),
            fetches: v1.fetch_info.into_iter().map(|(xorb, list)| (xorb, fetch(list))).collect(),
        }
        .checked()
    }
}

impl TryFrom<ReconstructionV2> for Reconstruction {
    type Error = FormatError;

    fn try_from(v2: ReconstructionV2) -> Result<Self, FormatError> {
        let fetch = |list: Vec<XorbFetch>| {
            let mut fetch = UrlFetch::default();
            for XorbFetch { url, ranges } in list {
                fetch.add(url, ranges.into_iter().map(|range| (range.chunks, range.bytes)));
            }
            fetch.sorted()
        };
        Self {
            offset_into_first_range: v2.offset_into_first_range,
            terms: v2.terms.iter().map(Term::to_plan).collect(),
            fetches: v2.xorbs.into_iter().map(|(xorb, list)| (xorb, fetch(list))).collect(),
        }
        .checked()
    }
}

impl ChunkSpan {
    /// The same chunks.
    pub(crate) fn half_open(self) -> Range<u32> {
        self.start..self.end
    }
}

impl Term {
    /// The same term in our own words.
    pub fn to_plan(&self) -> PlanTerm {
        PlanTerm { xorb: self.hash, chunks: self.range.half_open(), raw_bytes: self.unpacked_length }
    }
}

fn check_chunks(at: u64, chunks: &Range<u32>) -> Result<(), FormatError> {
    let least = u64::from(chunks.start) + 1;
    expect_range(at, "end of a chunk range", least, u64::from(limits::XORB_CHUNKS_MAX), u64::from(chunks.end))
}

#[cfg(test)]
mod tests;
