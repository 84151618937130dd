//! One run of a large file, cut without knowing where the chunk before it ended.

use std::fs::File;
use std::io;
use std::ops::{ControlFlow, Range};

use super::Progress;
use super::blocks::{Chunk, Scratch};
use super::reader::FileRange;
use xet::constants::CHUNK_BYTES_MAX;

/// Chunks cut from `start` on. They are chunks of the file if `start`, or the end of one of them, is a true cut; from
/// there on all are.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) start: u64,
    pub(super) chunks: Vec<Chunk>,
}

impl Run {
    /// End of its last chunk.
    pub(super) fn end(&self) -> u64 {
        self.chunks.last().map_or(self.start, |chunk| chunk.end)
    }

    /// The chunks that follow the place `at`, when a chunk begins there.
    pub(super) fn chunks_from(&self, at: u64) -> Option<&[Chunk]> {
        if at == self.start {
            return Some(&self.chunks);
        }
        let index = self.chunks.binary_search_by_key(&at, |chunk| chunk.end).ok()?;
        Some(&self.chunks[index + 1..])
    }
}

/// Cuts the chunks that begin in `range` of a file of `file_bytes`.
pub(super) fn cut(
    file: &File,
    range: Range<u64>,
    file_bytes: u64,
    scratch: &mut Scratch,
    progress: &Progress,
) -> io::Result<Run> {
    // Most candidates are cuts. Where there is none in reach, runs begin at multiples of the maximum, which is where data
    // without candidates is cut.
    let candidate =
        if range.start == 0 { None } else { scratch.first_candidate(file, range.start, file_bytes)? };
    let start = candidate.unwrap_or(range.start);
    let mut chunks = Vec::new();
    // A chunk that begins in the range ends within this.
    let end = file_bytes.min(range.end + CHUNK_BYTES_MAX as u64);
    if start < range.end {
        scratch.cut(start, FileRange::new(file, start, end), |chunk, _| {
            chunks.push(chunk);
            progress.add_bytes(u64::from(chunk.bytes));
            if chunk.end < range.end { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
    }
    Ok(Run { start, chunks })
}
