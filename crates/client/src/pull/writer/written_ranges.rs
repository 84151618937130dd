//! Written ranges: the runs of chunks of a file that are on the disk, as they came.

use std::ops::Range;

use xet::FileHash;
use xet::merkle::MerkleBuilder;

use crate::chunk::Chunk;

/// Runs of chunks of one file that were written, in any order. Some may have come twice.
#[derive(Debug, Default)]
pub(in crate::pull) struct WrittenRanges {
    starts: Vec<(u64, Range<usize>)>,
    chunks: Vec<Chunk>,
    sorted: bool,
}

impl WrittenRanges {
    /// Adds chunks that follow each other from `at` on.
    pub(in crate::pull) fn push(&mut self, at: u64, chunks: &[Chunk]) {
        let start = self.chunks.len();
        self.chunks.extend_from_slice(chunks);
        self.sorted &= self.starts.is_empty();
        self.starts.push((at, start..self.chunks.len()));
    }

    /// Ranges of the bytes up to `size` that are in no run. Ends are where chunks end, or `size`.
    pub(in crate::pull) fn missing(&mut self, size: u64) -> Vec<Range<u64>> {
        let mut missing = Vec::new();
        let mut reached = 0;
        self.walk(|at, chunk| {
            let end = at + u64::from(chunk.bytes);
            if at > reached {
                missing.push(reached..at.min(size));
            }
            reached = reached.max(end);
        });
        if reached < size {
            missing.push(reached..size);
        }
        missing.retain(|range| !range.is_empty());
        missing
    }

    /// The hash of the file of `size` bytes; `None` when chunks are missing, overlap, or pass its end.
    pub(in crate::pull) fn file_hash(&mut self, size: u64) -> Option<FileHash> {
        let mut merkle = MerkleBuilder::default();
        let (mut reached, mut fits) = (0, true);
        let mut last = None;
        self.walk(|at, chunk| {
            if last == Some((at, *chunk)) {
                return; // it came twice
            }
            fits &= at == reached;
            reached = at + u64::from(chunk.bytes);
            last = Some((at, *chunk));
            merkle.push(chunk.hash, u64::from(chunk.bytes));
        });
        (fits && reached == size).then(|| merkle.finish_file())
    }

    /// Forgets chunks that do not please.
    pub(in crate::pull) fn retain(&mut self, mut keep: impl FnMut(u64, &Chunk) -> bool) {
        let mut rest = Self::default();
        self.walk(|at, chunk| {
            if keep(at, chunk) {
                rest.push(at, std::slice::from_ref(chunk));
            }
        });
        *self = rest;
    }

    /// Shows every chunk by where it begins.
    fn walk(&mut self, mut each: impl FnMut(u64, &Chunk)) {
        if !self.sorted {
            self.split_overlaps();
            self.starts.sort_unstable_by_key(|(at, chunks)| (*at, chunks.start));
            self.sorted = true;
        }
        for (at, chunks) in &self.starts {
            let mut at = *at;
            for chunk in self.chunks.get(chunks.clone()).unwrap_or_default() {
                each(at, chunk);
                at += u64::from(chunk.bytes);
            }
        }
    }

    /// Makes a run of each chunk where two runs share bytes, so that sorting runs sorts chunks.
    fn split_overlaps(&mut self) {
        self.starts.sort_unstable_by_key(|(at, chunks)| (*at, chunks.start));
        let bytes_of = |chunks: &[Chunk]| chunks.iter().map(|chunk| u64::from(chunk.bytes)).sum::<u64>();
        let mut reached = 0;
        let overlap = self.starts.iter().any(|(at, chunks)| {
            let overlaps = *at < reached;
            reached = reached.max(at + bytes_of(self.chunks.get(chunks.clone()).unwrap_or_default()));
            overlaps
        });
        if !overlap {
            return;
        }
        let mut single = Vec::with_capacity(self.chunks.len());
        for (at, chunks) in &self.starts {
            let mut at = *at;
            for place in chunks.clone() {
                single.push((at, place..place + 1));
                at += self.chunks.get(place).map_or(0, |chunk| u64::from(chunk.bytes));
            }
        }
        self.starts = single;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use xet::ChunkHash;

    use super::*;

    fn chunks(lens: &[u32]) -> Vec<Chunk> {
        (0..).zip(lens).map(|(n, bytes)| Chunk { hash: ChunkHash::new([n; 32]), bytes: *bytes }).collect()
    }

    proptest! {
        /// In whatever order runs come, some twice and some overlapping, what is missing and the hash are right.
        #[test]
        fn order_does_not_matter(
            lens in prop::collection::vec(1..9_u32, 1..40),
            spans in prop::collection::vec((0..40_usize, 1..12_usize), 0..20),
        ) {
            let all = chunks(&lens);
            let start_of = |n: usize| lens[..n].iter().map(|len| u64::from(*len)).sum::<u64>();
            let size = start_of(lens.len());
            let mut runs = WrittenRanges::default();
            let mut has = vec![false; size as usize];
            for (start, len) in spans {
                let start = start % all.len();
                let end = (start + len).min(all.len());
                runs.push(start_of(start), &all[start..end]);
                has[start_of(start) as usize..start_of(end) as usize].fill(true);
            }
            let missing = runs.missing(size);
            for (at, has) in has.iter().enumerate() {
                prop_assert_eq!(!*has, missing.iter().any(|range| range.contains(&(at as u64))));
            }
            let whole = xet::merkle::file_hash(all.iter().map(|chunk| (chunk.hash, u64::from(chunk.bytes))));
            let expected = has.iter().all(|has| *has).then_some(whole);
            prop_assert_eq!(runs.file_hash(size), expected);
            for range in missing {
                let first = (0..=all.len()).find(|n| start_of(*n) == range.start).unwrap();
                let last = (0..=all.len()).find(|n| start_of(*n) == range.end).unwrap();
                runs.push(range.start, &all[first..last]);
            }
            prop_assert_eq!(runs.file_hash(size), Some(whole));
            prop_assert_eq!(runs.file_hash(size + 1), None);
        }
    }

    #[test]
    fn an_empty_file_is_there_at_once() {
        assert_eq!(WrittenRanges::default().file_hash(0), Some(FileHash::ZERO));
        assert_eq!(WrittenRanges::default().missing(0), []);
        assert_eq!(WrittenRanges::default().missing(5), vec![0..5]);
    }
}
