//! Reads chunks of a xorb: some of them with the help of its footer, or a run of stored chunks without.

use std::ops::Range;

use crate::compress::{Decompressor, Scheme};
use crate::cursor::Reader;
use crate::error::{FormatError, expect_number, expect_range};
use crate::hash::ChunkHash;
use crate::xorb::{ChunkHeader, XorbInfo};

/// A chunk that was just decoded and hashed. Its bytes live until the next one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodedChunk<'a> {
    /// The hash of the raw bytes, computed.
    pub hash: ChunkHash,
    /// The raw bytes.
    pub raw: &'a [u8],
    /// Header of the stored chunk.
    pub header: ChunkHeader,
    /// Range of the stored chunk in the xorb, header included.
    pub stored: Range<u64>,
}

/// Decodes stored chunks, keeping what it takes to do so from one to the next: after the first few it allocates no more.
#[derive(Debug)]
pub struct ChunkDecoder {
    decompressor: Decompressor,
    raw: Vec<u8>,
}

impl Default for ChunkDecoder {
    fn default() -> Self {
        Self::new()
    }
}

impl ChunkDecoder {
    /// A decoder that has seen nothing yet.
    pub fn new() -> Self {
        Self { decompressor: Decompressor::new(), raw: Vec::new() }
    }

    /// Decodes and hashes the stored chunk at the reader's position.
    pub(crate) fn decode<'a, 'b: 'a>(
        &'a mut self,
        r: &mut Reader<'b>,
    ) -> Result<DecodedChunk<'a>, FormatError> {
        let start = r.offset();
        let header = ChunkHeader::parse(r)?;
        let at = r.offset();
        let stored = r.take("stored bytes of a chunk", header.total_len() - ChunkHeader::LEN)?;
        let raw = match header.scheme {
            // Nothing to decode, so nothing to copy.
            Scheme::Raw => stored,
            scheme => {
                // The header's parser bounded the length. The buffer only grows: shrinking would mean zeroing again.
                let len = header.chunk_len as usize;
                if self.raw.len() < len {
                    self.raw.resize(len, 0);
                }
                let raw = self.raw.get_mut(..len).unwrap_or_default();
                self.decompressor.decompress(at, scheme, stored, raw)?;
                raw
            }
        };
        Ok(DecodedChunk { hash: ChunkHash::of(raw), raw, header, stored: start..r.offset() })
    }
}

/// Walks the stored chunks in a run of a xorb's bytes, as a download gets it: nothing is known but that chunks begin and end
/// where the run does. The caller compares the hashes with what it wants, if it knows.
#[derive(Debug)]
pub struct ChunkReader<'a> {
    reader: Reader<'a>,
    decoder: &'a mut ChunkDecoder,
}

impl<'a> ChunkReader<'a> {
    /// Reads `bytes`, whose first byte is `at` of the xorb.
    pub fn new(bytes: &'a [u8], at: u64, decoder: &'a mut ChunkDecoder) -> Self {
        Self { reader: Reader::at(bytes, at), decoder }
    }

    /// The next chunk; `None` after the last, and after an error.
    pub fn next_chunk(&mut self) -> Result<Option<DecodedChunk<'_>>, FormatError> {
        if self.reader.left() == 0 {
            return Ok(None);
        }
        let decoded = self.decoder.decode(&mut self.reader);
        if decoded.is_err() {
            // What follows a broken stored chunk is not where a stored chunk begins.
            self.reader = Reader::new(&[]);
        }
        decoded.map(Some)
    }
}

/// Appends the raw bytes of these chunks to `out`, each checked against its hash. `bytes` must hold their stored chunks (see
/// [`XorbInfo::stored_range`]) and may hold more; its first byte is `at` of the xorb. On an error `out` is as before.
pub fn read_chunks(
    info: &XorbInfo,
    chunks: Range<u32>,
    bytes: &[u8],
    at: u64,
    decompressor: &mut Decompressor,
    out: &mut Vec<u8>,
) -> Result<(), FormatError> {
    let len_before = out.len();
    let result = append_chunks(info, chunks, bytes, at, decompressor, out);
    if result.is_err() {
        out.truncate(len_before);
    }
    result
}

fn append_chunks(
    info: &XorbInfo,
    chunks: Range<u32>,
    bytes: &[u8],
    at: u64,
    decompressor: &mut Decompressor,
    out: &mut Vec<u8>,
) -> Result<(), FormatError> {
    let count = u64::from(info.chunk_count());
    expect_range(0, "end of the chunk range", 0, count, u64::from(chunks.end))?;
    expect_range(0, "start of the chunk range", 0, u64::from(chunks.end), u64::from(chunks.start))?;
    let stored = info.stored_range(chunks.clone()).unwrap_or_default();
    let r = &mut Reader::at(window(bytes, at, &stored)?, stored.start);
    let raw = info.raw_range(chunks.clone()).unwrap_or_default();
    out.reserve(usize::try_from(raw.end - raw.start).unwrap_or_default());
    for index in chunks {
        let start = r.offset();
        let stored = info.stored_range(index..index + 1).unwrap_or_default();
        let header = ChunkHeader::parse(r)?;
        let stored_bytes = stored.end - stored.start;
        expect_number(start + 1, "bytes of the stored chunk", stored_bytes, header.total_len() as u64)?;
        let chunk_len = info.chunk_len(index).unwrap_or_default();
        expect_number(start + 5, "length of the chunk", u64::from(chunk_len), u64::from(header.chunk_len))?;

        let payload_at = r.offset();
        let payload = r.take("stored bytes of a chunk", header.total_len() - ChunkHeader::LEN)?;
        let raw_at = out.len();
        if header.scheme == Scheme::Raw {
            expect_hash(info, index, start, payload)?;
            out.extend_from_slice(payload);
            continue;
        }
        out.resize(raw_at + header.chunk_len as usize, 0);
        let raw = out.get_mut(raw_at..).unwrap_or_default();
        decompressor.decompress(payload_at, header.scheme, payload, raw)?;
        expect_hash(info, index, start, raw)?;
    }
    Ok(())
}

/// The part of `bytes`, which begin at `at` of the xorb, that is `requested` of the xorb.
fn window<'a>(bytes: &'a [u8], at: u64, requested: &Range<u64>) -> Result<&'a [u8], FormatError> {
    let skipped = requested.start.checked_sub(at).and_then(|skipped| usize::try_from(skipped).ok());
    let from = skipped.and_then(|skipped| bytes.get(skipped..)).unwrap_or_default();
    let needed = requested.end - requested.start;
    let truncated = FormatError::Truncated {
        at: requested.start,
        what: "range of chunks",
        needed,
        left: from.len() as u64,
    };
    usize::try_from(needed).ok().and_then(|needed| from.get(..needed)).ok_or(truncated)
}

fn expect_hash(info: &XorbInfo, index: u32, at: u64, raw: &[u8]) -> Result<(), FormatError> {
    let place = usize::try_from(index).ok().and_then(|index| info.chunks().get(index));
    let expected = place.map(|place| place.hash).unwrap_or_default();
    let found = ChunkHash::of(raw);
    if found == expected {
        return Ok(());
    }
    Err(FormatError::Hash { at, what: "chunk", expected: expected.0, found: found.0 })
}
