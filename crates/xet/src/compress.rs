//! Compression of chunks: choice of the scheme, and encoding.
//!
//! The hash of a chunk covers its raw bytes, so every writer is free to choose. A chunk that would not shrink is
//! stored as it is. [`Policy::Auto`] reads samples of the chunk before it spends time on it.

pub mod bg4;
mod frame;
mod predict;

use std::fmt;
use std::str::FromStr;

use lz4_flex::block::{self, CompressTable};

use crate::error::FormatError;
use predict::{Guess, Predictor, Trial};

/// How the stored bytes of a chunk were made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub enum Scheme {
    /// The raw bytes themselves.
    #[serde(rename = "none")]
    Raw,
    /// One LZ4 frame.
    #[serde(rename = "lz4")]
    Lz4,
    /// One LZ4 frame of the bytes as [`bg4`] groups them.
    #[serde(rename = "bg4-lz4")]
    GroupedLz4,
}

impl Scheme {
    const ALL: [Self; 3] = [Self::Raw, Self::Lz4, Self::GroupedLz4];

    /// The scheme that a chunk header's byte, at offset `at`, names.
    pub fn parse(at: u64, byte: u8) -> Result<Self, FormatError> {
        Self::ALL
            .into_iter()
            .find(|scheme| scheme.byte() == byte)
            .ok_or(FormatError::Scheme { at, found: byte })
    }

    /// The byte in a chunk header.
    pub(crate) const fn byte(self) -> u8 {
        match self {
            Self::Raw => 0,
            Self::Lz4 => 1,
            Self::GroupedLz4 => 2,
        }
    }

    /// The name in options and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Raw => "none",
            Self::Lz4 => "lz4",
            Self::GroupedLz4 => "bg4-lz4",
        }
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Scheme {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let known = Self::ALL.into_iter().find(|scheme| scheme.name() == text);
        known.ok_or_else(|| NameError::new("scheme", "none, lz4 or bg4-lz4", text))
    }
}

/// Which scheme a [`Compressor`] uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Policy {
    /// The scheme that suits each chunk, predicted from samples of it.
    #[default]
    Auto,
    /// This one, or none where it does not shrink the chunk.
    Always(Scheme),
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.pad("auto"),
            Self::Always(scheme) => scheme.fmt(f),
        }
    }
}

impl FromStr for Policy {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        let refuse = |_| NameError::new("policy", "auto, none, lz4 or bg4-lz4", text);
        text.parse().map(Self::Always).map_err(refuse)
    }
}

/// Text that names no scheme or policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("compression {what} should be {expected}, found {found:?}")]
pub struct NameError {
    what: &'static str,
    expected: &'static str,
    found: String,
}

impl NameError {
    fn new(what: &'static str, expected: &'static str, text: &str) -> Self {
        Self { what, expected, found: text.chars().take(80).collect() }
    }
}

/// Compresses chunks one after the other. Its buffers grow to the largest chunk seen and are then reused: a chunk
/// costs no allocation.
pub struct Compressor {
    encoder: Encoder,
    predictor: Predictor,
}

impl Compressor {
    /// A compressor with empty buffers.
    pub fn new() -> Self {
        Self { encoder: Encoder::new(), predictor: Predictor::new() }
    }

    /// Appends the stored form of `chunk` to `out` and returns the scheme used. That is [`Scheme::Raw`] whenever the
    /// result would not be smaller than the chunk. The same chunk and policy always give the same bytes.
    pub fn compress(&mut self, policy: Policy, chunk: &[u8], out: &mut Vec<u8>) -> Scheme {
        let Self { encoder, predictor } = self;
        let start = out.len();
        let guess = match policy {
            Policy::Auto => predictor.guess(chunk, |sample| encoder.try_both(sample)),
            Policy::Always(scheme) => Guess::One(scheme),
        };
        let tried = match guess {
            Guess::One(scheme) => encoder.put(scheme, chunk, out, start, chunk.len()),
            Guess::Either => encoder.put_shorter(chunk, out, start),
            Guess::RawUnlessRepeated => {
                out.extend_from_slice(chunk);
                if !predictor.repeats(chunk) {
                    return Scheme::Raw;
                }
                out.truncate(start);
                // Grouped too: only so does LZ4 reach back more than 64 KiB.
                encoder.put_shorter(chunk, out, start)
            }
        };
        tried.unwrap_or_else(|| {
            out.extend_from_slice(chunk);
            Scheme::Raw
        })
    }
}

impl Default for Compressor {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Compressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compressor").finish_non_exhaustive()
    }
}

/// Runs LZ4 with buffers of its own.
struct Encoder {
    // Always the large table. The small one hashes differently, and would be exchanged for this one at the first
    // long chunk: then the bytes of a short chunk would depend on what came before it.
    table: CompressTable,
    block: Vec<u8>,
    grouped: Vec<u8>,
}

impl Encoder {
    fn new() -> Self {
        Self { table: CompressTable::large(), block: Vec::new(), grouped: Vec::new() }
    }

    /// Puts `chunk` under `scheme` into `out` from `start` on, in place of the bytes there, if that takes fewer than
    /// `limit` bytes; else changes nothing.
    fn put(
        &mut self,
        scheme: Scheme,
        chunk: &[u8],
        out: &mut Vec<u8>,
        start: usize,
        limit: usize,
    ) -> Option<Scheme> {
        let block = match scheme {
            Scheme::Raw => return None,
            Scheme::Lz4 => self.plain(chunk),
            Scheme::GroupedLz4 => self.grouped(chunk),
        };
        if block.len() + frame::OVERHEAD_BYTES >= limit {
            return None;
        }
        let code = frame::block_code(chunk.len())?;
        out.truncate(start);
        frame::write(code, block, out);
        Some(scheme)
    }

    /// Puts `chunk` under either scheme, whichever makes it shorter, as [`put`](Self::put) does.
    fn put_shorter(&mut self, chunk: &[u8], out: &mut Vec<u8>, start: usize) -> Option<Scheme> {
        let plain = self.put(Scheme::Lz4, chunk, out, start, chunk.len());
        let limit = plain.map_or(chunk.len(), |_| out.len() - start);
        self.put(Scheme::GroupedLz4, chunk, out, start, limit).or(plain)
    }

    /// Block lengths of both ways to compress a sample.
    fn try_both(&mut self, sample: &[u8]) -> Trial {
        Trial { plain_bytes: self.plain(sample).len(), grouped_bytes: self.grouped(sample).len() }
    }

    fn plain(&mut self, raw: &[u8]) -> &[u8] {
        lz4_block(&mut self.table, raw, &mut self.block)
    }

    fn grouped(&mut self, raw: &[u8]) -> &[u8] {
        let grouped = at_least(&mut self.grouped, raw.len());
        bg4::group(raw, grouped);
        lz4_block(&mut self.table, grouped, &mut self.block)
    }
}

fn lz4_block<'a>(table: &mut CompressTable, raw: &[u8], buffer: &'a mut Vec<u8>) -> &'a [u8] {
    let room = at_least(buffer, block::get_maximum_output_size(raw.len()));
    let len = block::compress_into_with_table(raw, room, table).expect("the room is the documented maximum");
    room.get(..len).unwrap_or_default()
}

/// Restores chunks one after the other, with a buffer that is reused.
#[derive(Debug, Default)]
pub struct Decompressor {
    grouped: Vec<u8>,
}

impl Decompressor {
    /// A decompressor with an empty buffer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Fills exactly `raw`, as long as the chunk header says, or says why `stored` does not decode: `at` is its offset.
    /// After an error the content of `raw` means nothing.
    pub fn decompress(
        &mut self,
        at: u64,
        scheme: Scheme,
        stored: &[u8],
        raw: &mut [u8],
    ) -> Result<(), FormatError> {
        match scheme {
            Scheme::Raw if stored.len() == raw.len() => raw.copy_from_slice(stored),
            Scheme::Raw => {
                let (expected, found) = (raw.len(), stored.len());
                let reason = format!("stored length of a raw chunk should be {expected}, found {found}");
                return Err(FormatError::Payload { at, reason });
            }
            Scheme::Lz4 => frame::read(at, stored, raw)?,
            Scheme::GroupedLz4 => {
                let grouped = at_least(&mut self.grouped, raw.len());
                frame::read(at, stored, grouped)?;
                bg4::ungroup(grouped, raw);
            }
        }
        Ok(())
    }
}

/// The first `len` bytes of a buffer that grows when it must. What is in them is left from earlier.
fn at_least(buffer: &mut Vec<u8>, len: usize) -> &mut [u8] {
    if buffer.len() < len {
        buffer.resize(len, 0);
    }
    buffer.get_mut(..len).unwrap_or_default()
}

#[cfg(test)]
mod tests;
