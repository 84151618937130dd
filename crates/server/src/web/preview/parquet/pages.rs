//! The first values of a column, from the first of its pages.
//!
//! All of it works on a prefix of the column's bytes, and says how long that must be if it is too short. Nothing is kept but
//! one page, one dictionary and the cells that are shown.

use super::codec;
use super::footer::{Chunk, Column};
use super::print;
use super::thrift::{FALSE, I32, STRUCT, TRUE, Thrift};
use super::values::{Dictionary, Runs, Values};

/// Why there are no values.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// How many of the column's first bytes are needed.
    More(u64),
    /// They cannot be shown.
    Why(String),
}

impl From<&str> for Stop {
    fn from(why: &str) -> Self {
        Self::Why(why.to_owned())
    }
}

/// A page's header, as far as it matters.
#[derive(Debug, Default)]
struct Header {
    kind: i64,
    raw_bytes: i64,
    stored_bytes: i64,
    values: i64,
    encoding: i64,
    /// How the levels of a page of the first version are encoded.
    levels: i64,
    definition_bytes: i64,
    repetition_bytes: i64,
    is_plain: bool,
}

/// The column's values in the first rows, as text. A missing one is marked as such.
pub(super) fn head(column: &Column, chunk: Chunk, rows: usize, prefix: &[u8]) -> Result<Vec<String>, Stop> {
    if column.is_repeated {
        return Err("a list".into());
    }
    let (mut cells, mut at, mut raw_left) = (Vec::new(), 0_u64, RAW_BYTES_MAX);
    let mut dictionary = None;
    for _ in 0..PAGES_MAX {
        if cells.len() >= rows || at >= chunk.bytes {
            break;
        }
        let (header, start) = header(chunk, prefix, at)?;
        let stored = u64::try_from(header.stored_bytes).map_err(|_| damaged())?;
        let end = start.checked_add(stored).filter(|end| *end <= chunk.bytes).ok_or_else(damaged)?;
        let raw = usize::try_from(header.raw_bytes).map_err(|_| damaged())?;
        // A page that is not needed is passed over, and may be of any size.
        if matches!(header.kind, DATA | DICTIONARY | DATA_V2) {
            if raw > raw_left || stored > RAW_BYTES_MAX as u64 {
                return Err("a large page".into());
            }
            raw_left -= raw;
            let page = slice(prefix, start..end).ok_or(Stop::More(end))?;
            match header.kind {
                DICTIONARY if dictionary.is_some() => return Err(damaged()),
                DICTIONARY => {
                    let bytes = codec::decode(chunk.codec, page, raw).map_err(Stop::Why)?;
                    dictionary = Some(Dictionary::new(column, bytes));
                }
                DATA => {
                    let bytes = codec::decode(chunk.codec, page, raw).map_err(Stop::Why)?;
                    let (levels, values) = split(column, &header, &bytes)?;
                    read(column, &header, levels, values, dictionary.as_ref(), rows, &mut cells)?;
                }
                _ => {
                    let definition = u64::try_from(header.definition_bytes).map_err(|_| damaged())?;
                    let repetition = u64::try_from(header.repetition_bytes).map_err(|_| damaged())?;
                    let head = definition.checked_add(repetition).ok_or_else(damaged)?;
                    let levels = slice(page, repetition..head).ok_or_else(damaged)?;
                    let packed = slice(page, head..stored).ok_or_else(damaged)?;
                    let codec = if header.is_plain { codec::PLAIN } else { chunk.codec };
                    let head = usize::try_from(head).map_err(|_| damaged())?;
                    let raw = raw.checked_sub(head).ok_or_else(damaged)?;
                    let bytes = codec::decode(codec, packed, raw).map_err(Stop::Why)?;
                    read(column, &header, levels, &bytes, dictionary.as_ref(), rows, &mut cells)?;
                }
            }
        }
        at = end;
    }
    match cells.len() >= rows {
        true => Ok(cells),
        false => Err("fewer values than rows".into()),
    }
}

/// The header of the page at `at`, and where the page's own bytes begin.
fn header(chunk: Chunk, prefix: &[u8], at: u64) -> Result<(Header, u64), Stop> {
    let rest =
        slice(prefix, at..prefix.len() as u64).ok_or(Stop::More(at.saturating_add(HEADER_BYTES_MAX)))?;
    let mut thrift = Thrift::new(rest);
    if let Some(header) = Header::parse(&mut thrift) {
        return Ok((header, at.saturating_add((rest.len() - thrift.left()) as u64)));
    }
    // The header is damaged, or goes on where the prefix ends.
    let whole = at.saturating_add(HEADER_BYTES_MAX).min(chunk.bytes);
    Err(if prefix.len() as u64 >= whole { damaged() } else { Stop::More(whole) })
}

impl Header {
    fn parse(thrift: &mut Thrift<'_>) -> Option<Self> {
        let (mut header, mut last) = (Self { kind: -1, ..Self::default() }, 0);
        while let Some((id, kind)) = thrift.field(&mut last)? {
            match (id, kind) {
                (1, I32) => header.kind = thrift.zigzag()?,
                (2, I32) => header.raw_bytes = thrift.zigzag()?,
                (3, I32) => header.stored_bytes = thrift.zigzag()?,
                (5 | 7 | 8, STRUCT) => header.inner(id == 8, thrift)?,
                (_, kind) => thrift.skip(kind, 0)?,
            }
        }
        Some(header)
    }

    /// The part that each kind of page has for itself.
    fn inner(&mut self, is_v2: bool, thrift: &mut Thrift<'_>) -> Option<()> {
        let mut last = 0;
        while let Some((id, kind)) = thrift.field(&mut last)? {
            match (id, kind, is_v2) {
                (1, I32, _) => self.values = thrift.zigzag()?,
                (2, I32, false) | (4, I32, true) => self.encoding = thrift.zigzag()?,
                (3, I32, false) => self.levels = thrift.zigzag()?,
                (5, I32, true) => self.definition_bytes = thrift.zigzag()?,
                (6, I32, true) => self.repetition_bytes = thrift.zigzag()?,
                (7, TRUE | FALSE, true) => self.is_plain = kind == FALSE,
                (_, kind, _) => thrift.skip(kind, 0)?,
            }
        }
        Some(())
    }
}

/// Levels and values of a page of the first version, where they are compressed together.
fn split<'a>(column: &Column, header: &Header, page: &'a [u8]) -> Result<(&'a [u8], &'a [u8]), Stop> {
    if column.definition_max == 0 {
        return Ok((&[], page));
    }
    if header.levels != RUNS {
        return Err("an old encoding of levels".into());
    }
    let (len, rest) = page.split_first_chunk().ok_or_else(damaged)?;
    let len = usize::try_from(u32::from_le_bytes(*len)).map_err(|_| damaged())?;
    rest.split_at_checked(len).ok_or_else(damaged)
}

/// Reads as many values of a page as rows are shown.
fn read(
    column: &Column,
    header: &Header,
    levels: &[u8],
    values: &[u8],
    dictionary: Option<&Dictionary>,
    rows: usize,
    cells: &mut Vec<String>,
) -> Result<(), Stop> {
    let mut levels = Runs::new(levels, u32::BITS - column.definition_max.leading_zeros());
    let mut values = Values::new(column, header.encoding, values, dictionary).map_err(Stop::Why)?;
    for _ in 0..header.values {
        if cells.len() >= rows {
            break;
        }
        let is_there =
            column.definition_max == 0 || levels.next().ok_or_else(damaged)? == column.definition_max;
        cells.push(match is_there {
            true => print::value(column, values.next().ok_or_else(damaged)?),
            false => "null".to_owned(),
        });
    }
    Ok(())
}

fn damaged() -> Stop {
    "damaged".into()
}

fn slice(bytes: &[u8], range: std::ops::Range<u64>) -> Option<&[u8]> {
    bytes.get(usize::try_from(range.start).ok()?..usize::try_from(range.end).ok()?)
}

const DATA: i64 = 0;
const DICTIONARY: i64 = 2;
const DATA_V2: i64 = 3;
/// The number of the encoding by runs.
const RUNS: i64 = 3;
/// What is decompressed of a column: a dictionary and a page of a megabyte each, as writers make them, and some more.
pub(super) const RAW_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Pages that are read; of more than these, most have no values.
const PAGES_MAX: usize = 64;
/// A header has two values in it for statistics, which some writers do not shorten.
const HEADER_BYTES_MAX: u64 = 64 * 1024;
