//! LZ4 frames: header, blocks and checksums around the compressed bytes of one chunk.
//!
//! | offset | size  | field                                                                    |
//! |-------:|------:|--------------------------------------------------------------------------|
//! |      0 |     4 | magic, `04 22 4d 18`                                                     |
//! |      4 |     1 | flags: version 01, independent, block sums, size, sum, 0, dictionary     |
//! |      5 |     1 | block maximum: 0, code 4 to 7 (64 KiB, 256 KiB, 1 MiB, 4 MiB), 0000      |
//! |      6 |   0,8 | content length, little-endian                                            |
//! |        |     1 | header checksum: second byte of the xxHash32 of the fields above         |
//! |        |     4 | block length, little-endian; the high bit says stored as it is           |
//! |        |     n | block                                                                    |
//! |        |   0,4 | xxHash32 of the block as it stands here; then the next block             |
//! |        |     4 | end mark, zero                                                           |
//! |        |   0,4 | xxHash32 of all raw bytes                                                |
//!
//! We write one independent block and no optional field, as the reference does. We read whatever the frame format
//! allows, for other encoders exist, except dictionaries, which no peer could send us. A payload is one frame and
//! nothing else.

use std::fmt::Display;

use lz4_flex::block::{self, DecompressError};
use twox_hash::XxHash32;

use crate::cursor::Reader;
use crate::error::FormatError;

/// Bytes that a frame adds to its one block.
pub(super) const OVERHEAD_BYTES: usize = 15;

/// The code of the least block maximum that holds `raw_len` bytes; `None` when no block may be that long.
pub(super) fn block_code(raw_len: usize) -> Option<u8> {
    (4..=7).find(|&code| raw_len <= block_bytes_max(code))
}

/// Appends the frame of `block`, which LZ4 made from as many bytes as `code` allows, and made shorter.
pub(super) fn write(code: u8, block: &[u8], out: &mut Vec<u8>) {
    let block_len = u32::try_from(block.len()).expect("shorter than the longest block maximum");
    let descriptor = [VERSION | INDEPENDENT, code << 4];
    let [flags, maximum] = descriptor;

    out.reserve(block.len() + OVERHEAD_BYTES);
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&[flags, maximum, header_sum(&descriptor)]);
    out.extend_from_slice(&block_len.to_le_bytes());
    out.extend_from_slice(block);
    out.extend_from_slice(&END_MARK.to_le_bytes());
}

/// Fills `raw` with the content of the one frame in `stored`, whose first byte is at offset `at`.
pub(super) fn read(at: u64, stored: &[u8], raw: &mut [u8]) -> Result<(), FormatError> {
    let mut r = Reader::at(stored, at);
    let header = Header::parse(&mut r, raw.len())?;

    let mut filled = 0;
    loop {
        let at = r.offset();
        let word = number::<4>(&mut r, "block length").map(u32::from_le_bytes)?;
        if word == END_MARK {
            break;
        }
        filled += header.read_block(&mut r, at, word, filled, raw)?;
    }
    if filled != raw.len() {
        return Err(wrong(
            r.offset() - 4,
            format_args!("content should be {} bytes, ended at {filled}", raw.len()),
        ));
    }
    if header.has_content_sum {
        check_sum(&mut r, "content checksum", raw)?;
    }
    match r.left() {
        0 => Ok(()),
        left => Err(wrong(r.offset(), format_args!("{left} bytes follow the end of the frame"))),
    }
}

/// Fields of the frame header that concern the blocks.
struct Header {
    independent: bool,
    has_block_sums: bool,
    has_content_sum: bool,
    block_bytes_max: usize,
}

impl Header {
    fn parse(r: &mut Reader<'_>, raw_len: usize) -> Result<Self, FormatError> {
        let at = r.offset();
        let magic = number::<4>(r, "magic")?;
        if magic != MAGIC {
            return Err(wrong(at, format_args!("magic should be {MAGIC:02x?}, found {magic:02x?}")));
        }
        let start = r.clone();

        let at = r.offset();
        let [flags] = number(r, "flags")?;
        if flags & VERSION_MASK != VERSION {
            return Err(wrong(at, format_args!("version should be 1, found {}", flags >> 6)));
        }
        if flags & RESERVED != 0 {
            return Err(wrong(at, "the reserved flag is set"));
        }
        if flags & DICTIONARY != 0 {
            return Err(wrong(at, "the frame needs a dictionary; chunks have none"));
        }

        let at = r.offset();
        let [maximum] = number(r, "block maximum")?;
        let code = maximum >> 4;
        if maximum & 0x8f != 0 || code < 4 {
            return Err(wrong(
                at,
                format_args!("block maximum should be 0x40 to 0x70, found {maximum:#04x}"),
            ));
        }

        let at = r.offset();
        let content_len = match flags & CONTENT_LEN {
            0 => None,
            _ => Some(number(r, "content length").map(u64::from_le_bytes)?),
        };

        // The checksum first: a header damaged on its way should be called that, not a lie.
        let sum_at = r.offset();
        let descriptor = describe(start, sum_at)?;
        let expected = header_sum(descriptor);
        let [found] = number(r, "header checksum")?;
        if found != expected {
            return Err(wrong(
                sum_at,
                format_args!("header checksum should be {expected:#04x}, found {found:#04x}"),
            ));
        }
        if let Some(found) = content_len
            && found != raw_len as u64
        {
            return Err(wrong(at, format_args!("content length should be {raw_len}, found {found}")));
        }
        Ok(Self {
            independent: flags & INDEPENDENT != 0,
            has_block_sums: flags & BLOCK_SUMS != 0,
            has_content_sum: flags & CONTENT_SUM != 0,
            block_bytes_max: block_bytes_max(code),
        })
    }

    /// Reads the block after its length `word`, which stands at `at`, and returns how many raw bytes it gave.
    fn read_block(
        &self,
        r: &mut Reader<'_>,
        at: u64,
        word: u32,
        filled: usize,
        raw: &mut [u8],
    ) -> Result<usize, FormatError> {
        let len = usize::try_from(word & !STORED).unwrap_or(usize::MAX);
        if len > self.block_bytes_max {
            let max = self.block_bytes_max;
            return Err(wrong(at, format_args!("block length should be at most {max}, found {len}")));
        }
        let block_at = r.offset();
        let block = take(r, "block", len)?;
        if self.has_block_sums {
            check_sum(r, "block checksum", block)?;
        }

        let (before, room) = raw.split_at_mut(filled);
        let room_len = room.len().min(self.block_bytes_max);
        let room = room.get_mut(..room_len).unwrap_or_default();
        if word & STORED != 0 {
            let Some(target) = room.get_mut(..len) else {
                return Err(wrong(
                    block_at,
                    format_args!("stored block of {len} bytes, room for {room_len}"),
                ));
            };
            target.copy_from_slice(block);
            return Ok(len);
        }
        let read = match self.independent || before.is_empty() {
            true => block::decompress_into(block, room),
            false => {
                let window = before.len().saturating_sub(WINDOW_BYTES);
                block::decompress_into_with_dict(block, room, before.get(window..).unwrap_or_default())
            }
        };
        read.map_err(|error| match error {
            DecompressError::OutputTooSmall { .. } => {
                wrong(block_at, format_args!("block decodes to more than the {room_len} bytes of room"))
            }
            error => wrong(block_at, format_args!("block: {error}")),
        })
    }
}

/// The bytes from `start` to offset `end`.
fn describe(mut start: Reader<'_>, end: u64) -> Result<&[u8], FormatError> {
    let len = usize::try_from(end - start.offset()).unwrap_or(usize::MAX);
    start.take("descriptor", len)
}

/// Reads a checksum and compares it with that of `bytes`.
fn check_sum(r: &mut Reader<'_>, what: &'static str, bytes: &[u8]) -> Result<(), FormatError> {
    let at = r.offset();
    let found = number(r, what).map(u32::from_le_bytes)?;
    let expected = XxHash32::oneshot(0, bytes);
    if found != expected {
        return Err(wrong(at, format_args!("{what} should be {expected:#010x}, found {found:#010x}")));
    }
    Ok(())
}

/// The next `N` bytes.
fn number<const N: usize>(r: &mut Reader<'_>, what: &'static str) -> Result<[u8; N], FormatError> {
    Ok(take(r, what, N)?.try_into().expect("take returned N bytes"))
}

fn take<'a>(r: &mut Reader<'a>, what: &'static str, len: usize) -> Result<&'a [u8], FormatError> {
    let (at, left) = (r.offset(), r.left());
    r.take(what, len).map_err(|_| wrong(at, format_args!("{what} needs {len} bytes, {left} are left")))
}

#[cold]
fn wrong(at: u64, reason: impl Display) -> FormatError {
    FormatError::Payload { at, reason: format!("LZ4 frame: {reason}") }
}

fn header_sum(descriptor: &[u8]) -> u8 {
    let [_, second, ..] = XxHash32::oneshot(0, descriptor).to_le_bytes();
    second
}

/// Raw bytes that a block of maximum `code` (4 to 7) may hold; its stored form may be no longer.
const fn block_bytes_max(code: u8) -> usize {
    1 << (8 + 2 * code)
}

const MAGIC: [u8; 4] = [0x04, 0x22, 0x4d, 0x18];
const END_MARK: u32 = 0;

const VERSION_MASK: u8 = 0b1100_0000;
const VERSION: u8 = 0b0100_0000;
const INDEPENDENT: u8 = 0b0010_0000;
const BLOCK_SUMS: u8 = 0b0001_0000;
const CONTENT_LEN: u8 = 0b0000_1000;
const CONTENT_SUM: u8 = 0b0000_0100;
const RESERVED: u8 = 0b0000_0010;
const DICTIONARY: u8 = 0b0000_0001;

/// High bit of a block length: the block is stored as it is.
const STORED: u32 = 1 << 31;

/// How far back a linked block may reach.
const WINDOW_BYTES: usize = 64 * 1024;

#[cfg(test)]
mod tests;
