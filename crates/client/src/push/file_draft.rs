//! File draft: the terms of a file while it is read, and the guard against too many of them.

use std::path::PathBuf;

use xet::pack::{ChunkLocation, FilePacker, PackedFile};
use xet::{ChunkHash, Sha256};

use super::fragmentation::FragmentationGuard;

/// A file that was read to its end.
#[derive(Debug)]
pub(super) struct DraftedFile {
    /// Its place among the paths.
    pub(super) index: usize,
    pub(super) path: PathBuf,
    pub(super) sha256: Option<Sha256>,
    pub(super) file: PackedFile,
}

/// Takes the chunks of one file, in order.
#[derive(Debug, Default)]
pub(super) struct FileDraft {
    packer: FilePacker,
    guard: FragmentationGuard,
}

impl FileDraft {
    /// The location that would lengthen the last term.
    pub(super) fn next_location(&self) -> Option<ChunkLocation> {
        self.packer.next_location()
    }

    /// Whether a run of `chunks` known chunks from `location` on may be referred to.
    pub(super) fn allows(&mut self, location: ChunkLocation, chunks: usize) -> bool {
        self.packer.continues(location) || self.guard.allows(chunks)
    }

    /// Adds the next chunk.
    pub(super) fn push(&mut self, location: ChunkLocation, hash: ChunkHash, raw_bytes: u32) {
        self.guard.push(!self.packer.continues(location));
        self.packer.push(location, hash, raw_bytes);
    }

    /// The file, now that all of it was pushed.
    pub(super) fn finish(self, index: usize, path: PathBuf, sha256: Option<Sha256>) -> DraftedFile {
        DraftedFile { index, path, sha256, file: self.packer.finish() }
    }
}
