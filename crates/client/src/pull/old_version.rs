//! Old version: chunks of a file that an older version on the local disk has already.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::path::Path;

use xet::{ChunkHash, FileHash};

use super::decoder::Sink;
use super::writer::read_exact_at;
use crate::chunk::Chunk;
use crate::cut::{self, CutOptions};
use crate::error::{Error, Result};

/// An older version, cut.
#[derive(Debug)]
pub(super) struct OldVersion {
    pub(super) hash: FileHash,
    pub(super) bytes: u64,
    /// Offsets of its chunks by hash.
    places: HashMap<ChunkHash, u64>,
}

/// Chunks that follow each other in the old file and in the new one.
#[derive(Debug)]
pub(super) struct Copy {
    from: u64,
    to: u64,
    chunks: Vec<Chunk>,
    bytes: u64,
}

impl OldVersion {
    /// Cuts a file and indexes those of its chunks that are requested.
    pub(super) fn cut(path: &Path, chunks: &[(ChunkHash, u32)], options: &CutOptions) -> Result<Self> {
        let hashes: HashSet<_> = chunks.iter().map(|(hash, _)| *hash).collect();
        let mut places = HashMap::new();
        let mut at = 0;
        let cut = cut::chunk_file(path.to_owned(), options, &cut::Progress::default(), |hash, bytes| {
            if hashes.contains(&hash) {
                places.entry(hash).or_insert(at);
            }
            at += u64::from(bytes);
        })?;
        Ok(Self { hash: cut.hash, bytes: cut.bytes, places })
    }

    /// Copies to make, in pieces that are worth a thread.
    pub(super) fn copies(&self, chunks: &[(ChunkHash, u32)]) -> Vec<Copy> {
        let mut copies: Vec<Copy> = Vec::new();
        let mut to = 0;
        for (hash, bytes) in chunks {
            let len = u64::from(*bytes);
            if let Some(from) = self.places.get(hash) {
                let chunk = Chunk { hash: *hash, bytes: *bytes };
                match copies.last_mut() {
                    Some(last) if last.continues(*from, to) => {
                        last.chunks.push(chunk);
                        last.bytes += len;
                    }
                    _ => copies.push(Copy { from: *from, to, chunks: vec![chunk], bytes: len }),
                }
            }
            to += len;
        }
        copies
    }
}

impl Copy {
    fn continues(&self, from: u64, to: u64) -> bool {
        self.from + self.bytes == from && self.to + self.bytes == to && self.bytes < COPY_BYTES
    }

    /// Copies the chunks that are still what they were, and returns how many bytes that is.
    pub(super) fn run(&self, path: &Path, old: &File, sink: &dyn Sink) -> Result<u64> {
        let mut buffer = vec![0; usize::try_from(self.bytes).expect("a copy is small")];
        if read_exact_at(old, &mut buffer, self.from).map_err(|error| Error::io(path, error)).is_err() {
            return Ok(0); // It shrank meanwhile; then the bytes are fetched.
        }
        let mut start = 0;
        let mut copied = 0;
        for chunk in &self.chunks {
            let raw = buffer.get(start..start + chunk.bytes as usize).unwrap_or_default();
            // The file was hashed before; another program may have written to it since.
            if ChunkHash::of(raw) == chunk.hash {
                sink.write(0, self.to + start as u64, raw, std::slice::from_ref(chunk))?;
                copied += raw.len() as u64;
            }
            start += raw.len();
        }
        Ok(copied)
    }
}

/// Bytes copied at once, about.
const COPY_BYTES: u64 = 1 << 20;
