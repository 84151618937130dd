//! Xorb: a container of compressed chunks, one after another, and sometimes a footer that lists them.
//!
//! Clients upload without a footer; what is stored ends with the version 1 footer; version 0 is old and still read.
//! The hash of a xorb covers the hashes and lengths of its raw chunks, so compression and footer do not change it.
//!
//! A stored chunk is a chunk header and the stored bytes. Chunk header: the eight bytes before every chunk in a xorb.
//!
//! | offset | size | field                       |
//! |-------:|-----:|-----------------------------|
//! |      0 |    1 | version, 0                  |
//! |      1 |    3 | stored length               |
//! |      4 |    1 | scheme                      |
//! |      5 |    3 | chunk length                |
//!
//! Numbers are little-endian. The footers are described in [`footer`].

pub mod build;
pub mod footer;
pub mod read;
pub mod scan;

#[cfg(test)]
mod tests;

use std::ops::Range;

use crate::compress::Scheme;
use crate::cursor::Reader;
use crate::error::{FormatError, expect_number, expect_range};
use crate::hash::{ChunkHash, XorbHash};
use crate::limits;

pub use build::{BuildError, ChunkWriter, SealedXorb, StoredChunk, XorbBuilder};
pub use footer::{Footer, FooterChunk};
pub use read::{ChunkDecoder, ChunkReader, DecodedChunk, read_chunks};
pub use scan::{ScannedXorb, XorbScanner, verify};

/// Header before every chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkHeader {
    /// Bytes of the chunk as stored, after this header.
    pub stored_len: u32,
    /// How they are compressed.
    pub scheme: Scheme,
    /// Raw bytes of the chunk.
    pub chunk_len: u32,
}

impl ChunkHeader {
    /// Bytes of an encoded header.
    pub const LEN: usize = 8;
    /// The same, as the formats count.
    pub(crate) const BYTES: u32 = 8;

    /// Parses the header at the reader's position.
    pub fn parse(r: &mut Reader<'_>) -> Result<Self, FormatError> {
        let at = r.offset();
        let [version, s0, s1, s2, scheme, c0, c1, c2] = r.array("chunk header")?;
        if version != 0 {
            return Err(FormatError::Version {
                at,
                what: "chunk header",
                expected: 0,
                found: u64::from(version),
            });
        }
        let stored_len = u32::from_le_bytes([s0, s1, s2, 0]);
        let scheme = Scheme::parse(at + 4, scheme)?;
        let chunk_len = u32::from_le_bytes([c0, c1, c2, 0]);

        // Checked before anything is allocated: both lengths are untrusted input.
        let stored_max = u64::from(limits::CHUNK_STORED_BYTES_MAX);
        expect_range(at + 1, "stored length of a chunk", 1, stored_max, u64::from(stored_len))?;
        let chunk_max = u64::from(limits::CHUNK_BYTES_MAX);
        expect_range(at + 5, "length of a chunk", 1, chunk_max, u64::from(chunk_len))?;
        if scheme == Scheme::Raw {
            let what = "length of an uncompressed chunk";
            expect_number(at + 5, what, u64::from(stored_len), u64::from(chunk_len))?;
        }
        Ok(Self { stored_len, scheme, chunk_len })
    }

    /// The header's bytes. Both lengths must be within the limits, as [`ChunkHeader::parse`] demands.
    pub(crate) fn encode(self) -> [u8; Self::LEN] {
        let [s0, s1, s2, _] = self.stored_len.to_le_bytes();
        let [c0, c1, c2, _] = self.chunk_len.to_le_bytes();
        [0, s0, s1, s2, self.scheme.byte(), c0, c1, c2]
    }

    /// Bytes of the whole stored chunk: this header and what it announces.
    pub fn total_len(self) -> usize {
        // No limit allows a length that is not a usize on 32 bits.
        Self::LEN + self.stored_len as usize
    }
}

/// Footer after the last chunk, if any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Nothing: as clients upload.
    Footerless,
    /// The old footer, without raw lengths.
    V0,
    /// The footer of every stored xorb.
    V1,
}

impl Form {
    /// Bytes of the footer of a xorb of `chunks` chunks, its own length field included.
    pub const fn footer_bytes(self, chunks: u32) -> u64 {
        match self {
            Self::Footerless => 0,
            Self::V0 | Self::V1 => self.block_bytes(chunks) + footer::LENGTH_BYTES,
        }
    }

    /// Bytes of the footer without its length field: the number in that field.
    pub(crate) const fn block_bytes(self, chunks: u32) -> u64 {
        let (fixed, per_chunk) = self.block_terms();
        fixed + per_chunk * chunks as u64
    }

    /// Bytes of a footer block by itself, and for each chunk.
    pub(crate) const fn block_terms(self) -> (u64, u64) {
        match self {
            Self::Footerless => (0, 0),
            Self::V0 => (60, 36),
            Self::V1 => (92, 40),
        }
    }
}

/// One chunk of a xorb, and where it ends. It begins where the one before it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkPlace {
    /// Names the chunk's raw bytes.
    pub hash: ChunkHash,
    /// Offset in the xorb right after the stored chunk.
    pub stored_end: u32,
    /// Raw bytes of the xorb up to the end of this chunk.
    pub raw_end: u32,
}

/// Hash and chunk list of a xorb, without its data. It has at least one chunk, its ends ascend and its hash is the root over
/// its chunks: nothing else can be built or read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XorbInfo {
    hash: XorbHash,
    chunks: Vec<ChunkPlace>,
}

impl XorbInfo {
    /// Names the xorb.
    pub fn hash(&self) -> XorbHash {
        self.hash
    }

    /// Its chunks, in order.
    pub fn chunks(&self) -> &[ChunkPlace] {
        &self.chunks
    }

    /// How many chunks it has.
    pub fn chunk_count(&self) -> u32 {
        u32::try_from(self.chunks.len()).expect("a xorb has at most 8192 chunks")
    }

    /// Bytes of all stored chunks: where a footer begins.
    pub fn stored_bytes(&self) -> u64 {
        self.chunks.last().map_or(0, |last| u64::from(last.stored_end))
    }

    /// Raw bytes of all chunks.
    pub fn raw_bytes(&self) -> u64 {
        self.chunks.last().map_or(0, |last| u64::from(last.raw_end))
    }

    /// Range of these chunks in the stored bytes of the xorb. `None` when there are no such chunks.
    pub fn stored_range(&self, chunks: Range<u32>) -> Option<Range<u64>> {
        self.range(chunks, |place| place.stored_end)
    }

    /// Range of these chunks in the raw bytes of the xorb. `None` when there are no such chunks.
    pub fn raw_range(&self, chunks: Range<u32>) -> Option<Range<u64>> {
        self.range(chunks, |place| place.raw_end)
    }

    /// Raw bytes of one chunk. `None` when there is no such chunk.
    pub fn chunk_len(&self, chunk: u32) -> Option<u32> {
        let raw = self.raw_range(chunk..chunk.checked_add(1)?)?;
        u32::try_from(raw.end - raw.start).ok()
    }

    fn range(&self, chunks: Range<u32>, end_of: impl Fn(&ChunkPlace) -> u32) -> Option<Range<u64>> {
        if chunks.start > chunks.end {
            return None;
        }
        let end_before = |chunk: u32| match chunk.checked_sub(1) {
            None => Some(0),
            Some(last) => self.chunks.get(usize::try_from(last).ok()?).map(|place| u64::from(end_of(place))),
        };
        Some(end_before(chunks.start)?..end_before(chunks.end)?)
    }
}
