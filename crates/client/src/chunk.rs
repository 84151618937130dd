//! A chunk of a file: its hash and its length.

use xet::ChunkHash;

/// A chunk whose hash was computed from its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub(crate) hash: ChunkHash,
    /// Raw bytes.
    pub(crate) bytes: u32,
}
