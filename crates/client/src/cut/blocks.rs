//! The inner loop: read a block, cut it, hash its chunks while they are in the cache.

use std::fs::File;
use std::io::{self, Read};
use std::ops::ControlFlow;

use xet::chunk::Chunker;
use xet::{ChunkHash, suite};

/// A chunk of a file: where it ends, its length, its hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Chunk {
    pub(super) end: u64,
    pub(super) bytes: u32,
    pub(super) hash: ChunkHash,
}

/// What a worker keeps from file to file.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    buffer: Vec<u8>,
    cuts: Vec<u64>,
}

impl Scratch {
    /// Cuts the bytes that `read` gives, of which the first lies at `start` of its file and begins a chunk, until `read` has no
    /// more or `each` has seen enough.
    pub(super) fn cut(
        &mut self,
        start: u64,
        mut read: impl FnMut(&mut [u8]) -> io::Result<usize>,
        mut each: impl FnMut(Chunk, &[u8]) -> ControlFlow<()>,
    ) -> io::Result<()> {
        self.buffer.resize(OPEN_BYTES_MAX + BLOCK_BYTES, 0);
        let mut chunker = Chunker::new();
        let mut chunk_start = 0; // in the stream, as the chunker counts
        let mut open = 0; // bytes of the open chunk, at the front of the buffer

        loop {
            let filled = open + fill(&mut self.buffer[open..open + BLOCK_BYTES], &mut read)?;
            let at_end = filled < open + BLOCK_BYTES;
            self.cuts.clear();
            chunker.push(&self.buffer[open..filled], &mut self.cuts);
            let last = if at_end { std::mem::take(&mut chunker).finish() } else { None };

            let mut done = 0;
            for cut in self.cuts.iter().copied().chain(last) {
                let bytes = u32::try_from(cut - chunk_start).expect("a chunk is at most 128 KiB");
                let raw = &self.buffer[done..done + bytes as usize];
                done += raw.len();
                chunk_start = cut;
                let chunk = Chunk { end: start + cut, bytes, hash: ChunkHash::of(raw) };
                if each(chunk, raw).is_break() {
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

    /// The place of a likely cut in the bytes of `file` from `start` on, if there is one within reach.
    pub(super) fn first_candidate(&mut self, file: &File, start: u64) -> io::Result<Option<u64>> {
        self.buffer.resize(OPEN_BYTES_MAX + BLOCK_BYTES, 0);
        let mut at = start;
        let filled = fill(&mut self.buffer[..suite::CHUNK_BYTES_MAX], |buffer| {
            let bytes = read_at(file, buffer, at)?;
            at += bytes as u64;
            Ok(bytes)
        })?;
        Ok(xet::chunk::first_candidate(&self.buffer[..filled]).map(|place| start + place as u64))
    }

    /// Hands everything that `read` gives to `each`, block by block.
    pub(super) fn each_block(
        &mut self,
        mut read: impl FnMut(&mut [u8]) -> io::Result<usize>,
        mut each: impl FnMut(&[u8]),
    ) -> io::Result<()> {
        self.buffer.resize(OPEN_BYTES_MAX + BLOCK_BYTES, 0);
        loop {
            let filled = fill(&mut self.buffer, &mut read)?;
            each(&self.buffer[..filled]);
            if filled < self.buffer.len() {
                return Ok(());
            }
        }
    }
}

/// Reads until `buffer` is full or there is no more.
fn fill(buffer: &mut [u8], mut read: impl FnMut(&mut [u8]) -> io::Result<usize>) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(bytes) => filled += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// A reader of `file` from `start` to `end` that does not move the file's own position. The file must reach `end`.
pub(super) fn reader(file: &File, start: u64, end: u64) -> impl FnMut(&mut [u8]) -> io::Result<usize> {
    let mut at = start;
    move |buffer| {
        let wanted = usize::try_from(end - at).unwrap_or(usize::MAX).min(buffer.len());
        let bytes = read_at(file, &mut buffer[..wanted], at)?;
        at += bytes as u64;
        if bytes == 0 && wanted > 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the file shrank while it was read"));
        }
        Ok(bytes)
    }
}

/// A reader of a stream: standard input, a pipe, a file of unknown length.
pub(super) fn stream(mut source: impl Read) -> impl FnMut(&mut [u8]) -> io::Result<usize> {
    move |buffer| source.read(buffer)
}

#[cfg(unix)]
fn read_at(file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, buffer, at)
}

#[cfg(windows)]
fn read_at(file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, buffer, at)
}

/// Small enough that a block stays in a core's second-level cache from reading to hashing.
const BLOCK_BYTES: usize = 512 * 1024;
/// An open chunk is shorter than this, or it would be closed.
const OPEN_BYTES_MAX: usize = suite::CHUNK_BYTES_MAX;
