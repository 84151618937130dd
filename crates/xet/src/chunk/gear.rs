//! Gear hash: searches the candidates for chunk boundaries.
//!
//! Two ways. On processors with AVX-512 VBMI our own kernel ([`vbmi`]) judges every place of a block at once; its
//! lanes are so fast that skipping the first 8 KiB of a chunk pays only where the block begins. Elsewhere the `gearhash` crate (AVX2,
//! SSE 4.2, NEON or plain) runs from place to place and skips what cannot be cut; where the process chose portable kernels, the plain
//! loop does.

mod portable;
#[cfg(target_arch = "x86_64")]
mod vbmi;

use std::ops::Range;

use crate::constants::{GEAR_MASK, GEAR_TABLE, GEAR_WINDOW};
use crate::kernel_choice::use_native;

/// The hash after one more byte.
pub(super) fn step(hash: u64, byte: u8) -> u64 {
    let gear = GEAR_TABLE.get(usize::from(byte)).copied().unwrap_or_default();
    (hash << 1).wrapping_add(gear)
}

/// Whether a cut may fall after the byte that gave this hash.
pub(super) fn is_candidate(hash: u64) -> bool {
    hash & GEAR_MASK == 0
}

/// The hash after all of `data`; it depends on the last 64 bytes.
pub(super) fn hash(data: &[u8]) -> u64 {
    let tail = data.get(data.len().saturating_sub(GEAR_WINDOW)..).unwrap_or(data);
    tail.iter().fold(0, |hash, byte| step(hash, *byte))
}

/// Appends every candidate place in `from + 1..=to` to `found`, ascending. The hash starts from zero 63 bytes before
/// the first of them, or at the beginning of `data`.
pub(super) fn candidates(data: &[u8], from: usize, to: usize, found: &mut Vec<usize>) {
    if use_native() && !has_block_kernel() {
        return walk(data, from, to, found);
    }
    candidates_with(data, from, to, found, use_native());
}

/// The same, by the kernel of this processor or by the portable twin, whatever the process chose.
pub(super) fn candidates_with(data: &[u8], from: usize, to: usize, found: &mut Vec<usize>, native: bool) {
    if !native {
        return portable::candidates(data, from, to, found);
    }
    #[cfg(target_arch = "x86_64")]
    if let Some(kernel) = vbmi::Kernel::detect() {
        return kernel.candidates(data, from, to, found);
    }
    walk(data, from, to, found);
}

/// The search that this processor would use.
pub(super) fn native() -> &'static str {
    #[cfg(target_arch = "x86_64")]
    if vbmi::Kernel::detect().is_some() {
        return "AVX-512 VBMI";
    }
    "gearhash"
}

fn walk(data: &[u8], mut from: usize, to: usize, found: &mut Vec<usize>) {
    while let Some(place) = next_match(data, from, to) {
        found.push(place);
        from = place;
    }
}

/// The first candidate place in `from + 1..=to`.
pub(super) fn first(data: &[u8], from: usize, to: usize) -> Option<usize> {
    if use_native() { next_match(data, from, to) } else { portable::first(data, from, to) }
}

fn next_match(data: &[u8], from: usize, to: usize) -> Option<usize> {
    let mut hasher = gearhash::Hasher::new(&GEAR_TABLE);
    hasher.update(data.get(from.saturating_sub(GEAR_WINDOW - 1)..from)?);
    hasher.next_match(data.get(from..to)?, GEAR_MASK).map(|bytes| from + bytes)
}

/// Finds candidates of one buffer in ascending order, looking at no byte twice.
pub(super) struct Search<'a> {
    data: &'a [u8],
    /// Candidates up to `scanned`, ascending.
    found: &'a mut Vec<usize>,
    /// How many of them lie before every place still of interest.
    passed: usize,
    /// Every place up to here was judged, or is of no interest any more.
    scanned: usize,
    blocks: bool,
}

impl<'a> Search<'a> {
    /// Searches `data`, of which the places up to `scanned` are judged already, with the result in `found`.
    pub(super) fn new(data: &'a [u8], scanned: usize, found: &'a mut Vec<usize>) -> Self {
        Self { data, found, passed: 0, scanned, blocks: has_block_kernel() }
    }

    /// The first candidate in `places`. Later calls may only request later places.
    pub(super) fn first(&mut self, places: Range<usize>) -> Option<usize> {
        loop {
            while let Some(place) = self.found.get(self.passed) {
                if places.contains(place) {
                    return Some(*place);
                }
                if *place >= places.end {
                    return None;
                }
                self.passed += 1;
            }
            if places.is_empty() || self.scanned >= places.end - 1 {
                return None;
            }
            self.scan(places.clone());
        }
    }

    /// Judges more places: a block of them where that is fast, else only as far as the next candidate.
    fn scan(&mut self, places: Range<usize>) {
        let from = self.scanned.max(places.start.saturating_sub(1));
        if self.blocks {
            let to = self.data.len().min(from + BLOCK_BYTES);
            candidates(self.data, from, to, self.found);
            self.scanned = to;
        } else {
            let found = first(self.data, from, places.end - 1);
            self.found.extend(found);
            self.scanned = found.unwrap_or(places.end - 1);
        }
    }
}

fn has_block_kernel() -> bool {
    #[cfg(test)]
    if tests::WITHOUT_BLOCKS.get() {
        return false;
    }
    if !use_native() {
        return false;
    }
    #[cfg(target_arch = "x86_64")]
    return vbmi::Kernel::detect().is_some();
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}

/// Places judged in one call of the block kernel: long enough for its lanes, short enough for the cache.
const BLOCK_BYTES: usize = 256 * 1024;

#[cfg(test)]
pub(super) mod tests {
    use std::cell::Cell;

    use testkit::corpus::noise;

    use super::*;

    thread_local! {
        /// Makes this thread search as machines without the block kernel do.
        pub(crate) static WITHOUT_BLOCKS: Cell<bool> = const { Cell::new(false) };
    }

    fn twin(data: &[u8], from: usize, to: usize) -> Vec<usize> {
        let mut found = Vec::new();
        portable::candidates(data, from, to, &mut found);
        found
    }

    /// Blocks of every awkward size, at every awkward place: the lanes, their warm-up and the rest after them.
    #[test]
    fn every_kernel_finds_what_the_plain_loop_finds() {
        let data = noise(7, 3 << 20);
        for (from, to) in
            [(0, 0), (0, 1), (0, 63), (0, 64), (63, 64), (63, 4000), (64, 64), (65, 2883), (1, 3 << 20)]
        {
            let mut found = Vec::new();
            candidates(&data, from, to, &mut found);
            assert_eq!(found, twin(&data, from, to), "{from}..{to}");
        }
        for len in (0..30_000).step_by(997) {
            for from in [63, 64, 1000, 77_777] {
                let mut found = Vec::new();
                candidates(&data, from, from + len, &mut found);
                assert_eq!(found, twin(&data, from, from + len), "{from} + {len}");
            }
        }
    }

    /// Both ways of searching answer the same questions alike, wherever they begin.
    #[test]
    fn skipping_from_place_to_place_agrees_with_blocks() {
        let data = noise(13, 1 << 20);
        for scanned in [0, 5, 63, 64, 9000] {
            let (mut a, mut b) = (Vec::new(), Vec::new());
            let mut places = Search { blocks: false, ..Search::new(&data, scanned, &mut a) };
            let mut blocks = Search { blocks: true, ..Search::new(&data, scanned, &mut b) };
            let mut start = 0;
            while start < data.len() {
                let end = data.len().min(start + 131_072);
                let range = start.max(scanned + 64)..end + 1;
                let found = places.first(range.clone());
                assert_eq!(found, blocks.first(range.clone()), "{range:?}");
                start = found.unwrap_or(end).max(start + 1);
            }
        }
    }

    /// Data full of candidates: bytes whose table entry keeps the top of the hash empty.
    #[test]
    fn kernels_agree_where_candidates_crowd() {
        let mut data = noise(9, 1 << 20);
        let trigger = twin(&data, 63, data.len());
        let window = data[trigger[0] - 64..trigger[0]].to_vec();
        for (i, byte) in data.iter_mut().enumerate() {
            *byte = window[i % 64];
        }
        let expected = twin(&data, 63, data.len());
        assert!(expected.len() > 10_000);
        let mut found = Vec::new();
        candidates(&data, 63, data.len(), &mut found);
        assert_eq!(found, expected);
        let mut places = Vec::new();
        while let Some(place) = first(&data, places.last().copied().unwrap_or(63), data.len()) {
            places.push(place);
        }
        assert_eq!(places, expected);
    }
}
