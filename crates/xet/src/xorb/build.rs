//! Builds xorbs: compresses chunks one after another into one buffer and seals it; or in pieces, for many threads.

use crate::compress::{Compressor, Policy};
use crate::hash::ChunkHash;
use crate::limits;
use crate::merkle::MerkleBuilder;
use crate::xorb::{ChunkHeader, ChunkPlace, Form, XorbInfo};

/// Collects chunks until they make a xorb. After [`XorbBuilder::seal`] it is empty and ready for the next one.
#[derive(Debug)]
pub struct XorbBuilder {
    writer: ChunkWriter,
    merkle: MerkleBuilder,
    places: Vec<ChunkPlace>,
    bytes: Vec<u8>,
}

/// A finished xorb.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedXorb {
    /// What it holds.
    pub info: XorbInfo,
    /// All its bytes, with the footer asked for.
    pub bytes: Vec<u8>,
}

/// Why a builder refused a chunk. It is unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// The chunk would exceed a limit of the xorb: seal, then push it again.
    #[error("the xorb is full")]
    Full,
    /// There is no such chunk.
    #[error("a chunk should be 1 to {} bytes, found {found}", limits::CHUNK_BYTES_MAX)]
    ChunkLength {
        /// Its length in bytes.
        found: usize,
    },
    /// There is nothing to seal.
    #[error("a xorb without chunks")]
    Empty,
}

/// Makes the stored chunks of chunks, for callers that put a xorb together from pieces made on several threads.
#[derive(Debug)]
pub struct ChunkWriter {
    policy: Policy,
    compressor: Compressor,
}

impl ChunkWriter {
    /// A writer that compresses so.
    pub fn new(policy: Policy) -> Self {
        Self { policy, compressor: Compressor::new() }
    }

    /// Appends the stored chunk of a chunk to `out`; says how many bytes that took.
    pub fn push(&mut self, chunk: &[u8], out: &mut Vec<u8>) -> Result<u32, BuildError> {
        let chunk_len = checked_len(chunk)?;
        let header_at = out.len();
        out.extend([0; ChunkHeader::LEN]);
        let stored_at = out.len();
        let scheme = self.compressor.compress(self.policy, chunk, out);
        let stored_len = u32::try_from(out.len() - stored_at).expect("stored is at most raw");
        let header = ChunkHeader { stored_len, scheme, chunk_len }.encode();
        if let Some(space) = out.get_mut(header_at..stored_at) {
            space.copy_from_slice(&header);
        }
        Ok(ChunkHeader::BYTES + stored_len)
    }
}

/// The stored chunk of one chunk, wherever its bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredChunk {
    /// Names the chunk's raw bytes.
    pub hash: ChunkHash,
    /// How many those are.
    pub raw_bytes: u32,
    /// Bytes of the stored chunk, header included.
    pub stored_bytes: u32,
}

impl XorbInfo {
    /// The xorb of these stored chunks, one after another, as [`ChunkWriter`] made them.
    pub fn from_chunks(stored: impl IntoIterator<Item = StoredChunk>) -> Result<Self, BuildError> {
        let mut merkle = MerkleBuilder::default();
        let mut chunks = Vec::new();
        let (mut stored_end, mut raw_end) = (0_u32, 0_u32);
        for StoredChunk { hash, raw_bytes, stored_bytes } in stored {
            stored_end = stored_end.checked_add(stored_bytes).ok_or(BuildError::Full)?;
            raw_end = raw_end.checked_add(raw_bytes).ok_or(BuildError::Full)?;
            if u64::from(raw_end) > limits::XORB_BYTES_MAX || chunks.len() == limits::XORB_CHUNKS_MAX as usize
            {
                return Err(BuildError::Full);
            }
            merkle.push(hash, u64::from(raw_bytes));
            chunks.push(ChunkPlace { hash, stored_end, raw_end });
        }
        match chunks.is_empty() {
            true => Err(BuildError::Empty),
            false => Ok(Self { hash: merkle.finish(), chunks }),
        }
    }
}

fn checked_len(chunk: &[u8]) -> Result<u32, BuildError> {
    match u32::try_from(chunk.len()) {
        Ok(len @ 1..=limits::CHUNK_BYTES_MAX) => Ok(len),
        _ => Err(BuildError::ChunkLength { found: chunk.len() }),
    }
}

impl XorbBuilder {
    /// An empty builder.
    pub fn new(policy: Policy) -> Self {
        Self {
            writer: ChunkWriter::new(policy),
            merkle: MerkleBuilder::default(),
            places: Vec::new(),
            bytes: Vec::new(),
        }
    }

    /// Adds the next chunk. `hash` must be its hash, which the caller has computed for dedup anyway.
    pub fn push(&mut self, hash: ChunkHash, chunk: &[u8]) -> Result<(), BuildError> {
        let chunk_len = checked_len(chunk)?;
        let raw_end = self.raw_end() + chunk_len;
        if u64::from(raw_end) > limits::XORB_BYTES_MAX || self.chunk_count() == limits::XORB_CHUNKS_MAX {
            return Err(BuildError::Full);
        }

        self.writer.push(chunk, &mut self.bytes)?;
        let stored_end = u32::try_from(self.bytes.len()).expect("a xorb's chunks are far less than 4 GiB");
        self.places.push(ChunkPlace { hash, stored_end, raw_end });
        self.merkle.push(hash, u64::from(chunk_len));
        Ok(())
    }

    /// Whether no chunk was pushed since the last seal.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// How many chunks were pushed.
    pub fn chunk_count(&self) -> u32 {
        u32::try_from(self.places.len()).expect("a xorb has at most 8192 chunks")
    }

    /// Raw bytes pushed.
    pub(crate) fn raw_bytes(&self) -> u64 {
        u64::from(self.raw_end())
    }

    /// Bytes the stored chunks take so far.
    #[cfg(test)]
    pub(crate) fn stored_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Closes the xorb and hands it over, leaving the builder empty.
    pub fn seal(&mut self, form: Form) -> Result<SealedXorb, BuildError> {
        if self.is_empty() {
            return Err(BuildError::Empty);
        }
        let hash = std::mem::take(&mut self.merkle).finish();
        let info = XorbInfo { hash, chunks: std::mem::take(&mut self.places) };
        let mut bytes = std::mem::take(&mut self.bytes);
        info.encode_footer(form, &mut bytes);
        Ok(SealedXorb { info, bytes })
    }

    /// Takes back the buffer of a sealed xorb that is no longer needed, to fill it again instead of allocating. Does
    /// nothing when chunks were pushed already.
    pub fn recycle(&mut self, mut buffer: Vec<u8>) {
        if self.is_empty() && buffer.capacity() > self.bytes.capacity() {
            buffer.clear();
            self.bytes = buffer;
        }
    }

    fn raw_end(&self) -> u32 {
        self.places.last().map_or(0, |last| last.raw_end)
    }
}
