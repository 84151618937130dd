//! Blocks: the inner loop that reads a block, cuts it and hands over its chunks.

use std::fs::File;
use std::io::{self, Read};
use std::ops::ControlFlow;

use xet::{ChunkHash, constants};

use super::cutter::Cutter;
use super::reader::{BLOCK_BYTES, FileRange, fill};

/// A chunk of a file: where it ends, its length, its hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Chunk {
    pub(super) end: u64,
    pub(super) bytes: u32,
    pub(super) hash: ChunkHash,
}

/// The buffer of a worker, used for one file after another.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    buffer: Vec<u8>,
}

impl Scratch {
    /// Cuts the bytes of `source`, of which the first lies at `start` of its file and begins a chunk, until there are no more or
    /// `each` breaks off.
    pub(super) fn cut(
        &mut self,
        start: u64,
        mut source: impl Read,
        mut each: impl FnMut(Chunk, &[u8]) -> ControlFlow<()>,
    ) -> io::Result<()> {
        self.buffer.resize(OPEN_BYTES_MAX + BLOCK_BYTES, 0);
        let mut cutter = Cutter::default();
        let mut end = start;
        let mut open = 0; // bytes of the open chunk, at the front of the buffer
        loop {
            let filled = open + fill(&mut self.buffer[open..open + BLOCK_BYTES], &mut source)?;
            let at_end = filled < open + BLOCK_BYTES;
            let mut done = 0;
            for chunk in cutter.cut(&self.buffer[..filled], open, at_end) {
                done = chunk.bytes.end;
                end += u64::from(chunk.len());
                let found = Chunk { end, bytes: chunk.len(), hash: chunk.hash };
                if each(found, &self.buffer[chunk.bytes]).is_break() {
                    return Ok(());
                }
            }
            if at_end {
                return Ok(());
            }
            self.buffer.copy_within(done..filled, 0);
            open = filled - done;
        }
    }

    /// The place of a likely cut within reach of `start` in a file of `file_bytes`.
    pub(super) fn first_candidate(
        &mut self,
        file: &File,
        start: u64,
        file_bytes: u64,
    ) -> io::Result<Option<u64>> {
        self.buffer.resize(OPEN_BYTES_MAX + BLOCK_BYTES, 0);
        let mut source = FileRange::new(file, start, file_bytes);
        let filled = fill(&mut self.buffer[..constants::CHUNK_BYTES_MAX], &mut source)?;
        Ok(xet::chunk::first_candidate(&self.buffer[..filled]).map(|place| start + place as u64))
    }

    /// Hands all bytes of `source` to `each`, block by block.
    pub(super) fn each_block(
        &mut self,
        mut source: impl Read,
        mut each: impl FnMut(&[u8]),
    ) -> io::Result<()> {
        self.buffer.resize(OPEN_BYTES_MAX + BLOCK_BYTES, 0);
        loop {
            let filled = fill(&mut self.buffer, &mut source)?;
            each(&self.buffer[..filled]);
            if filled < self.buffer.len() {
                return Ok(());
            }
        }
    }
}

/// An open chunk is shorter than this, or it would be closed.
const OPEN_BYTES_MAX: usize = constants::CHUNK_BYTES_MAX;
