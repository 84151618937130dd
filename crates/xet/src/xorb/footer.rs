//! Xorb footer: the hashes and ends of all chunks, found from the end of the xorb.
//!
//! Offsets count from the start of the footer, which is where the last chunk ends; `n` is the number of chunks.
//! Version 1, as every stored xorb has it:
//!
//! | offset   | size | field                                              |
//! |---------:|-----:|----------------------------------------------------|
//! |        0 |    7 | ident, `XETBLOB`                                   |
//! |        7 |    1 | version, 1                                         |
//! |        8 |   32 | xorb hash                                          |
//! |       40 |    7 | ident of the hashes, `XBLBHSH`                     |
//! |       47 |    1 | version of the hashes, 0                           |
//! |       48 |    4 | chunk count, n                                     |
//! |       52 |  32n | chunk hashes                                       |
//! | 52 + 32n |    7 | ident of the boundaries, `XBLBBND`                 |
//! | 59 + 32n |    1 | version of the boundaries, 1                       |
//! | 60 + 32n |    4 | chunk count, n                                     |
//! | 64 + 32n |   4n | stored ends                                        |
//! | 64 + 36n |   4n | raw ends                                           |
//! | 64 + 40n |    4 | chunk count, n                                     |
//! | 68 + 40n |    4 | distance of the hashes, 52 + 40n                   |
//! | 72 + 40n |    4 | distance of the boundaries, 40 + 8n                |
//! | 76 + 40n |    4 | nonce                                              |
//! | 80 + 40n |   12 | reserved                                           |
//! | 92 + 40n |    4 | footer length without this field, 92 + 40n         |
//!
//! Version 0, which is read but not stored:
//!
//! | offset   | size | field                                              |
//! |---------:|-----:|----------------------------------------------------|
//! |        0 |    7 | ident, `XETBLOB`                                   |
//! |        7 |    1 | version, 0                                         |
//! |        8 |   32 | xorb hash                                          |
//! |       40 |    4 | chunk count, n                                     |
//! |       44 |   4n | stored ends                                        |
//! |  44 + 4n |  32n | chunk hashes                                       |
//! | 44 + 36n |    4 | nonce                                              |
//! | 48 + 36n |   12 | reserved                                           |
//! | 60 + 36n |    4 | footer length without this field, 60 + 36n         |
//!
//! Numbers are little-endian. A distance counts back from the length field to the ident of its section. Nonce and
//! reserved bytes are written as zeros and ignored when read: servers have put random numbers there.

use crate::cursor::Reader;
use crate::error::{FormatError, expect_number, expect_range};
use crate::hash::{ChunkHash, XorbHash};
use crate::xorb::{ChunkHeader, ChunkPlace, Form, XorbInfo};
use crate::{limits, merkle};

/// First bytes of a footer, where a chunk header would begin with 0.
pub(crate) const IDENT: &[u8; 7] = b"XETBLOB";
/// Bytes of the field that ends every footer.
pub(crate) const LENGTH_BYTES: u64 = 4;

const HASHES_IDENT: &[u8; 7] = b"XBLBHSH";
const BOUNDARIES_IDENT: &[u8; 7] = b"XBLBBND";
const RESERVED: [u8; 12] = [0; 12];

/// A parsed footer. What it says about the chunks is consistent in itself, and unproven until the chunks are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Footer {
    /// [`Form::V0`] or [`Form::V1`].
    pub form: Form,
    /// Names the xorb.
    pub hash: XorbHash,
    /// Its chunks, in order.
    pub chunks: Vec<FooterChunk>,
    /// Four bytes without meaning; zero unless a server put a number there.
    pub nonce: [u8; 4],
}

/// One chunk as a footer lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FooterChunk {
    /// Names the chunk's raw bytes.
    pub hash: ChunkHash,
    /// Offset in the xorb right after the stored chunk.
    pub stored_end: u32,
    /// Raw bytes of the xorb up to the end of this chunk; version 0 does not say.
    pub raw_end: Option<u32>,
}

impl Footer {
    /// The longest footer there is, its length field included: no reader needs more of the end of a xorb.
    pub const BYTES_MAX: u64 = Form::V1.footer_bytes(limits::XORB_CHUNKS_MAX);

    /// How many bytes at the end of a xorb are its footer. Needs the last four bytes of the xorb in `tail`, whose first
    /// byte is `base` of the xorb.
    pub fn tail_bytes(tail: &[u8], base: u64) -> Result<u64, FormatError> {
        let Some(field) = tail.last_chunk::<4>() else {
            let left = tail.len() as u64;
            return Err(FormatError::Truncated { at: base, what: "xorb footer", needed: LENGTH_BYTES, left });
        };
        let at = base + tail.len() as u64 - LENGTH_BYTES;
        let found = u64::from(u32::from_le_bytes(*field));
        let max = Form::V1.block_bytes(limits::XORB_CHUNKS_MAX);
        expect_range(at, "footer length", Form::V0.block_bytes(1), max, found)?;
        Ok(found + LENGTH_BYTES)
    }

    /// Parses the footer at the end of `tail`, which ends where the xorb ends and whose first byte is `base` of the
    /// xorb. Bytes of `tail` before the footer are not looked at.
    pub fn parse(tail: &[u8], base: u64) -> Result<Self, FormatError> {
        let (footer, start) = Self::parse_fields(tail, base)?;
        // Version 0 has no raw lengths, without which there is no root.
        if let Some(places) = footer.places() {
            let found = root(&places);
            if found != footer.hash {
                let (at, expected) = (start + HASH_OFFSET, footer.hash.0);
                return Err(FormatError::Hash { at, what: "xorb hash", expected, found: found.0 });
            }
        }
        Ok(footer)
    }

    /// The xorb as the footer describes it; `None` for version 0, which lacks offsets.
    pub fn into_info(self) -> Option<XorbInfo> {
        Some(XorbInfo { hash: self.hash, chunks: self.places()? })
    }

    /// Parses without computing the root, for a caller who knows it. Also says where in the xorb the footer starts.
    pub(crate) fn parse_fields(tail: &[u8], base: u64) -> Result<(Self, u64), FormatError> {
        let needed = Self::tail_bytes(tail, base)?;
        let left = tail.len() as u64;
        let skipped = left.checked_sub(needed);
        let Some((before, footer)) =
            skipped.and_then(|skipped| tail.split_at_checked(usize::try_from(skipped).ok()?))
        else {
            return Err(FormatError::Truncated { at: base, what: "xorb footer", needed, left });
        };
        let start = base + before.len() as u64;
        let r = &mut Reader::at(footer, start);

        expect_ident(r, "footer ident", IDENT)?;
        let form = form(r.offset(), r.u8("footer version")?)?;
        let hash = XorbHash::new(r.array("xorb hash")?);
        let columns = match form {
            Form::V0 => Columns::parse_v0(r, needed)?,
            _ => Columns::parse_v1(r, needed)?,
        };
        let nonce = r.array("nonce")?;
        r.take("reserved bytes", RESERVED.len())?;

        Ok((Self { form, hash, chunks: columns.check(start)?, nonce }, start))
    }

    fn places(&self) -> Option<Vec<ChunkPlace>> {
        let place = |chunk: &FooterChunk| {
            Some(ChunkPlace { hash: chunk.hash, stored_end: chunk.stored_end, raw_end: chunk.raw_end? })
        };
        self.chunks.iter().map(place).collect()
    }

    /// Compares with what was found in the stored chunks of the xorb. `start` is where the footer starts.
    pub(crate) fn expect_same(&self, start: u64, info: &XorbInfo) -> Result<(), FormatError> {
        let count = info.chunks.len() as u64;
        let (count_at, hashes_at, stored_at, raw_at) = match self.form {
            Form::V0 => (40, 44 + 4 * count, 44, 0),
            _ => (48, 52, 64 + 32 * count, 64 + 36 * count),
        };
        expect_number(start + count_at, "chunk count", count, self.chunks.len() as u64)?;
        for ((i, claimed), is) in (0u64..).zip(&self.chunks).zip(&info.chunks) {
            if claimed.hash != is.hash {
                let (at, expected, found) = (start + hashes_at + 32 * i, claimed.hash.0, is.hash.0);
                return Err(FormatError::Hash { at, what: "chunk hash", expected, found });
            }
            let stored_at = start + stored_at + 4 * i;
            expect_number(stored_at, "stored end", u64::from(is.stored_end), u64::from(claimed.stored_end))?;
            if let Some(raw_end) = claimed.raw_end {
                let raw_at = start + raw_at + 4 * i;
                expect_number(raw_at, "raw end", u64::from(is.raw_end), u64::from(raw_end))?;
            }
        }
        if self.hash != info.hash {
            let (at, expected, found) = (start + HASH_OFFSET, self.hash.0, info.hash.0);
            return Err(FormatError::Hash { at, what: "xorb hash", expected, found });
        }
        Ok(())
    }
}

impl XorbInfo {
    /// Appends the footer of this xorb. [`Form::Footerless`] appends nothing.
    pub fn encode_footer(&self, form: Form, out: &mut Vec<u8>) {
        if form == Form::Footerless {
            return;
        }
        let count = self.chunk_count();
        let hashes = |out: &mut Vec<u8>| self.chunks.iter().for_each(|c| out.extend(c.hash.as_bytes()));
        let stored_ends =
            |out: &mut Vec<u8>| self.chunks.iter().for_each(|c| out.extend(c.stored_end.to_le_bytes()));
        let raw_ends =
            |out: &mut Vec<u8>| self.chunks.iter().for_each(|c| out.extend(c.raw_end.to_le_bytes()));

        out.extend(IDENT);
        out.push(if form == Form::V0 { 0 } else { 1 });
        out.extend(self.hash.as_bytes());
        if form == Form::V0 {
            out.extend(count.to_le_bytes());
            stored_ends(out);
            hashes(out);
        } else {
            out.extend(HASHES_IDENT);
            out.push(0);
            out.extend(count.to_le_bytes());
            hashes(out);
            out.extend(BOUNDARIES_IDENT);
            out.push(1);
            out.extend(count.to_le_bytes());
            stored_ends(out);
            raw_ends(out);
            out.extend(count.to_le_bytes());
            out.extend(hashes_distance(count).to_le_bytes());
            out.extend(boundaries_distance(count).to_le_bytes());
        }
        out.extend([0; 4]);
        out.extend(RESERVED);
        let length = u32::try_from(form.block_bytes(count)).expect("a footer is shorter than 4 GiB");
        out.extend(length.to_le_bytes());
    }
}

/// The form a version byte stands for.
pub(crate) fn form(at: u64, version: u8) -> Result<Form, FormatError> {
    match version {
        0 => Ok(Form::V0),
        1 => Ok(Form::V1),
        found => Err(FormatError::Version { at, what: "xorb footer", expected: 1, found: u64::from(found) }),
    }
}

/// The root over these chunks.
pub(crate) fn root(places: &[ChunkPlace]) -> XorbHash {
    let mut start = 0;
    merkle::xorb_hash(places.iter().map(|place| {
        let bytes = u64::from(place.raw_end - start);
        start = place.raw_end;
        (place.hash, bytes)
    }))
}

/// The lists of a footer, still as bytes, each with its offset.
struct Columns<'a> {
    hashes: &'a [[u8; 32]],
    stored_ends: (u64, &'a [[u8; 4]]),
    raw_ends: Option<(u64, &'a [[u8; 4]])>,
}

impl<'a> Columns<'a> {
    fn parse_v0(r: &mut Reader<'a>, footer_bytes: u64) -> Result<Self, FormatError> {
        let count = count(r, Form::V0, footer_bytes)?;
        let stored_ends = (r.offset(), column(r, "stored ends", count)?);
        let hashes = column(r, "chunk hashes", count)?;
        Ok(Self { hashes, stored_ends, raw_ends: None })
    }

    fn parse_v1(r: &mut Reader<'a>, footer_bytes: u64) -> Result<Self, FormatError> {
        expect_ident(r, "ident of the hashes", HASHES_IDENT)?;
        expect_version(r, "hash section", 0)?;
        let count = count(r, Form::V1, footer_bytes)?;
        let hashes = column(r, "chunk hashes", count)?;

        expect_ident(r, "ident of the boundaries", BOUNDARIES_IDENT)?;
        expect_version(r, "boundary section", 1)?;
        expect_u32(r, "chunk count of the boundaries", count)?;
        let stored_ends = (r.offset(), column(r, "stored ends", count)?);
        let raw_ends = (r.offset(), column(r, "raw ends", count)?);

        expect_u32(r, "chunk count of the trailer", count)?;
        expect_u32(r, "distance of the hashes", hashes_distance(count))?;
        expect_u32(r, "distance of the boundaries", boundaries_distance(count))?;
        Ok(Self { hashes, stored_ends, raw_ends: Some(raw_ends) })
    }

    /// The chunks, if their ends are possible. `start` is where the footer starts and so the last chunk ends.
    fn check(self, start: u64) -> Result<Vec<FooterChunk>, FormatError> {
        let (stored_at, column) = self.stored_ends;
        let header = ChunkHeader::LEN as u64;
        let chunk_max = header + u64::from(limits::CHUNK_STORED_BYTES_MAX);
        let stored_ends = ends(stored_at, column, "stored end", header + 1, chunk_max)?;
        let last_at = stored_at + 4 * (column.len() as u64 - 1);
        let last = stored_ends.last().copied().unwrap_or_default();
        expect_number(last_at, "last stored end", start, u64::from(last))?;

        let raw_ends = match self.raw_ends {
            None => vec![None; stored_ends.len()],
            Some((at, column)) => {
                let chunk_max = u64::from(limits::CHUNK_BYTES_MAX);
                let ends = ends(at, column, "raw end", 1, chunk_max)?;
                let last_at = at + 4 * (column.len() as u64 - 1);
                let last = u64::from(ends.last().copied().unwrap_or_default());
                expect_range(last_at, "raw bytes of a xorb", 1, limits::XORB_BYTES_MAX, last)?;
                ends.into_iter().map(Some).collect()
            }
        };

        let chunks = self.hashes.iter().zip(stored_ends).zip(raw_ends);
        Ok(chunks
            .map(|((hash, stored_end), raw_end)| FooterChunk {
                hash: ChunkHash::new(*hash),
                stored_end,
                raw_end,
            })
            .collect())
    }
}

/// The first chunk count, which must fit both the limit and the length of the footer: then it may size a list.
fn count(r: &mut Reader<'_>, form: Form, footer_bytes: u64) -> Result<u32, FormatError> {
    let at = r.offset();
    let count = r.u32("chunk count")?;
    expect_range(at, "chunk count", 1, u64::from(limits::XORB_CHUNKS_MAX), u64::from(count))?;

    let (fixed, per_chunk) = form.block_terms();
    let block = footer_bytes - LENGTH_BYTES;
    let fitting = block.saturating_sub(fixed) / per_chunk;
    expect_number(at, "chunk count", fitting, u64::from(count))?;
    let length_at = r.offset() + r.left() as u64 - LENGTH_BYTES;
    expect_number(length_at, "footer length", form.block_bytes(count), block)?;
    Ok(count)
}

/// The next `count` entries of `N` bytes.
fn column<'a, const N: usize>(
    r: &mut Reader<'a>,
    what: &'static str,
    count: u32,
) -> Result<&'a [[u8; N]], FormatError> {
    let bytes = usize::try_from(count).ok().and_then(|count| count.checked_mul(N)).unwrap_or(usize::MAX);
    let (entries, _) = r.take(what, bytes)?.as_chunks();
    Ok(entries)
}

/// A list of ends, each at least `min` and at most `max` after the one before.
fn ends(
    at: u64,
    column: &[[u8; 4]],
    what: &'static str,
    min: u64,
    max: u64,
) -> Result<Vec<u32>, FormatError> {
    let mut previous = 0;
    let mut ends = Vec::with_capacity(column.len());
    for (i, bytes) in (0u64..).zip(column) {
        let at = at + 4 * i;
        let end = u32::from_le_bytes(*bytes);
        let Some(step) = end.checked_sub(previous) else {
            return Err(FormatError::Order { at, what });
        };
        let found = u64::from(step);
        if !(min..=max).contains(&found) {
            let previous = u64::from(previous);
            let (min, max) = (previous + min, previous + max);
            return Err(FormatError::Range { at, what, min, max, found: u64::from(end) });
        }
        ends.push(end);
        previous = end;
    }
    Ok(ends)
}

fn expect_ident(r: &mut Reader<'_>, what: &'static str, ident: &[u8; 7]) -> Result<(), FormatError> {
    let at = r.offset();
    let found: [u8; 7] = r.array(what)?;
    if found == *ident {
        return Ok(());
    }
    let (expected, found) = (ident.escape_ascii().to_string(), found.escape_ascii().to_string());
    Err(FormatError::Ident { at, what, expected, found })
}

fn expect_version(r: &mut Reader<'_>, what: &'static str, expected: u8) -> Result<(), FormatError> {
    let at = r.offset();
    let found = r.u8(what)?;
    if found == expected {
        return Ok(());
    }
    Err(FormatError::Version { at, what, expected: u64::from(expected), found: u64::from(found) })
}

fn expect_u32(r: &mut Reader<'_>, what: &'static str, expected: u32) -> Result<(), FormatError> {
    let at = r.offset();
    expect_number(at, what, u64::from(expected), u64::from(r.u32(what)?))
}

/// From the length field back to the hash section.
const fn hashes_distance(count: u32) -> u32 {
    52 + 40 * count
}

/// From the length field back to the boundary section.
const fn boundaries_distance(count: u32) -> u32 {
    40 + 8 * count
}

/// Offset of the xorb hash in a footer of either version.
const HASH_OFFSET: u64 = 8;
