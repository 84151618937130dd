//! Joining runs, in order, into the true chunks of a file.

use std::fs::File;
use std::io;
use std::ops::ControlFlow;

use xet::merkle::MerkleBuilder;
use xet::{ChunkHash, FileHash};

use super::blocks::{Chunk, Scratch};
use super::reader::FileRange;
use super::run::Run;

/// Takes chunks in file order: computes the file hash and hands each to the sink.
pub(super) struct Join<'a> {
    end: u64,
    merkle: MerkleBuilder,
    sink: Option<Sink<'a>>,
}

/// Sees every chunk of a file, in order.
pub(super) type Sink<'a> = &'a mut (dyn FnMut(ChunkHash, u32) + Send);

impl<'a> Join<'a> {
    pub(super) fn new(sink: Option<Sink<'a>>) -> Self {
        Self { end: 0, merkle: MerkleBuilder::default(), sink }
    }

    /// The next chunk.
    pub(super) fn push(&mut self, chunk: Chunk) {
        self.end = chunk.end;
        self.merkle.push(chunk.hash, u64::from(chunk.bytes));
        if let Some(sink) = &mut self.sink {
            sink(chunk.hash, chunk.bytes);
        }
    }

    /// The next run. Where its first cut is not a true one, cuts from the last true cut on until the two meet.
    pub(super) fn push_run(
        &mut self,
        run: &Run,
        file: &File,
        bytes: u64,
        scratch: &mut Scratch,
    ) -> io::Result<()> {
        if self.end < run.end() && run.chunks_from(self.end).is_none() {
            let start = self.end;
            scratch.cut(start, FileRange::new(file, start, bytes), |chunk, _| {
                self.push(chunk);
                let met = chunk.end >= run.end() || run.chunks_from(chunk.end).is_some();
                if met { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })?;
        }
        for chunk in run.chunks_from(self.end).unwrap_or_default() {
            self.push(*chunk);
        }
        Ok(())
    }

    /// Bytes joined so far, and the hash of a file of them.
    pub(super) fn finish(self) -> (u64, FileHash) {
        (self.end, self.merkle.finish_file())
    }
}
