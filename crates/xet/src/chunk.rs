//! Content-defined chunking of a stream.
//!
//! A cut falls after a byte where the gear hash has none of the mask's bits (a *candidate*), not before 8 KiB of a chunk,
//! and at 128 KiB at the latest. The hash is a shift and an add, so it depends on the last 64 bytes only. Three
//! things follow, and this module is made of them:
//!
//! - the first 8 KiB less 64 bytes of a chunk need not be hashed;
//! - a block can be searched for candidates by several lanes at once, and the cuts chosen from those afterwards;
//! - a cutter that starts in the middle of a stream, at a candidate ([`first_candidate`]), agrees with the true cuts as soon as
//!   they have one cut in common.

mod gear;

use crate::constants::{CHUNK_BYTES_MAX, CHUNK_BYTES_MIN, GEAR_WINDOW};

/// Cuts a stream that arrives in pieces of any size, holding none of it.
#[derive(Debug, Clone, Default)]
pub struct Chunker {
    /// Bytes pushed so far.
    offset: u64,
    /// Offset where the open chunk began.
    start: u64,
    /// The gear hash of the bytes pushed so far.
    hash: u64,
    /// Candidates of the piece at hand, as offsets in the stream; kept for its allocation.
    found: Vec<usize>,
}

impl Chunker {
    /// A chunker whose first byte is at the beginning of a chunk.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes of the stream and appends the cuts they decide to `cuts`, as offsets in the stream.
    pub fn push(&mut self, piece: &[u8], cuts: &mut Vec<u64>) {
        let (head, body) = piece.split_at(piece.len().min(GEAR_WINDOW));

        // The hash of these positions reaches back into earlier pieces.
        self.found.clear();
        for (i, byte) in head.iter().enumerate() {
            self.hash = gear::step(self.hash, *byte);
            if gear::is_candidate(self.hash) {
                self.found.push(i + 1);
            }
        }
        if !body.is_empty() {
            self.hash = gear::hash(piece);
        }

        let mut search = gear::Search::new(piece, head.len(), &mut self.found);
        let end = self.offset + piece.len() as u64;
        loop {
            let earliest = self.start + CHUNK_BYTES_MIN as u64;
            let latest = self.start + CHUNK_BYTES_MAX as u64;
            if earliest > end {
                break;
            }
            let earliest = within(earliest, self.offset);
            let last = within(latest.min(end), self.offset);
            let cut = match search.first(earliest..last + 1) {
                Some(at) => self.offset + at as u64,
                None if latest <= end => latest,
                None => break,
            };
            cuts.push(cut);
            self.start = cut;
        }
        self.offset = end;
    }

    /// The stream ends here: the cut that closes its last chunk, if one is open.
    pub fn finish(self) -> Option<u64> {
        (self.start < self.offset).then_some(self.offset)
    }

    /// Offset where the open chunk began.
    pub fn start(&self) -> u64 {
        self.start
    }
}

/// `at` counted from the first byte of the piece that begins at `offset`; 0 when it lies before.
fn within(at: u64, offset: u64) -> usize {
    usize::try_from(at.saturating_sub(offset)).expect("a place inside a slice in memory")
}

/// All cuts of one whole buffer, the last being its length.
pub fn cut(data: &[u8]) -> Vec<usize> {
    let mut cuts = Vec::new();
    let mut found = Vec::new();
    let mut search = gear::Search::new(data, 0, &mut found);
    let mut start = 0;
    while start < data.len() {
        let latest = data.len().min(start + CHUNK_BYTES_MAX);
        start = search.first(start + CHUNK_BYTES_MIN..latest).unwrap_or(latest);
        cuts.push(start);
    }
    cuts
}

/// The first candidate of `data` in its first 128 KiB: a likely cut of the stream that these bytes are a part of.
pub fn first_candidate(data: &[u8]) -> Option<usize> {
    let head = data.get(..CHUNK_BYTES_MAX).unwrap_or(data);
    head.get(GEAR_WINDOW..).and_then(|_| gear::first(head, GEAR_WINDOW - 1, head.len()))
}

/// The search that this processor would use.
pub(crate) fn native_search() -> &'static str {
    gear::native()
}

/// The sum of all candidates, by the kernel of this processor or by the portable twin.
pub(crate) fn sum_of_candidates(data: &[u8], native: bool) -> u64 {
    let mut found = Vec::new();
    if data.len() >= GEAR_WINDOW {
        gear::candidates_with(data, GEAR_WINDOW - 1, data.len(), &mut found, native);
    }
    found.iter().map(|place| *place as u64).sum()
}

#[cfg(test)]
mod tests;
