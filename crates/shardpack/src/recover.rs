//! Recovery: finds the records of a pack whose end or middle is damaged.
//!
//! Records are walked by their sizes while magic and CRC hold. Where they do not, the next header is looked for at every
//! multiple of 8. An entry that is whole is stepped over there, so a pack that lies in an entry is not taken for records.

mod window;

use std::io;
use std::ops::Range;

use crate::cursor::Reader;
use crate::error::Error;
use crate::layout::{Compression, CrcSum, EndMarker, EntryHeader, RecordHeader};
use crate::recover::window::Window;
use crate::source::Source;

/// Records found in a pack without its index.
#[derive(Debug, Clone, Default)]
pub struct FoundRecords {
    /// Bytes of the pack.
    pub size: u64,
    /// Records whose headers are sound, in the order they lie.
    pub records: Vec<FoundRecord>,
    /// Ranges between them.
    pub lost: Vec<Loss>,
    /// Offset of the end marker; none when the pack was cut before it.
    pub marker: Option<u64>,
}

/// A record whose header is sound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundRecord {
    /// Its bytes.
    pub range: Range<u64>,
}

/// Bytes that belong to no whole record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// Range of the bytes.
    pub range: Range<u64>,
    /// The record they are of, where it is known.
    pub key: Option<String>,
    /// Reason.
    pub why: String,
}

impl FoundRecords {
    /// The bytes of every record.
    pub fn ranges(&self) -> Vec<Range<u64>> {
        self.records.iter().map(|record| record.range.clone()).collect()
    }

    /// Adds a loss, or lengthens the last where it goes on.
    fn lose(&mut self, range: Range<u64>, key: Option<String>, why: String) {
        match self.lost.last_mut() {
            Some(last) if last.range.end == range.start && key.is_none() => last.range.end = range.end,
            _ => self.lost.push(Loss { range, key, why }),
        }
    }
}

/// Searches a pack for records without its index. `progress` receives the offset now and then.
pub fn find_records(source: &dyn Source, mut progress: impl FnMut(u64)) -> Result<FoundRecords, Error> {
    let mut window = Window::new(source)?;
    let mut found = FoundRecords { size: window.size(), ..FoundRecords::default() };
    let mut at = 0;
    while at < found.size {
        progress(at);
        match structure_at(&mut window, at)? {
            Structure::Record { end, key } if end > found.size => {
                found.lose(
                    at..found.size,
                    Some(key),
                    format!("cut off: {} bytes are missing", end - found.size),
                );
                at = found.size;
            }
            Structure::Record { end, key } => {
                let lands =
                    end == found.size || !matches!(structure_at(&mut window, end)?, Structure::Nothing(_));
                if lands || is_sound(&mut window, at..end)? {
                    found.records.push(FoundRecord { range: at..end });
                    at = end;
                } else {
                    // Bytes are missing or too many inside: what follows may begin before its stated end.
                    let next = find_next(&mut window, at + 8)?;
                    found.lose(at..next, Some(key), "damaged inside".into());
                    at = next;
                }
            }
            Structure::Marker => {
                found.marker = Some(at);
                return Ok(found);
            }
            Structure::Nothing(why) => {
                let next = find_next(&mut window, at + 8)?;
                found.lose(at..next, None, why);
                at = next;
            }
        }
    }
    Ok(found)
}

/// Structure at an offset.
enum Structure {
    Record { end: u64, key: String },
    Marker,
    Nothing(String),
}

fn structure_at(window: &mut Window<'_>, at: u64) -> Result<Structure, Error> {
    let head = window.bytes(at, HEAD_BYTES)?;
    if head.get(8..12) == Some(&EndMarker::MAGIC) && EndMarker::parse(&mut Reader::at(head, at)).is_ok() {
        return Ok(Structure::Marker);
    }
    // Magic first: a length without it is no reason to read more.
    if head.get(8..12) != Some(&RecordHeader::MAGIC) || head.len() < RecordHeader::LEN {
        return Ok(Structure::Nothing("no record header".into()));
    }
    let mut lengths = Reader::at(head.get(20..26).unwrap_or_default(), at + 20);
    let strings = u64::from(lengths.u32("metadata length")?) + u64::from(lengths.u16("key length")?);
    let len = (RecordHeader::LEN as u64 + strings).next_multiple_of(8);
    if len > window.size() - at {
        return Ok(Structure::Nothing("a record header that is damaged or cut".into()));
    }
    let head = window.bytes(at, len)?;
    Ok(match RecordHeader::parse(&mut Reader::at(head, at)) {
        Ok(header) => match at.checked_add(header.record_size) {
            Some(end) => Structure::Record { end, key: header.key.to_owned() },
            None => Structure::Nothing("a record of impossible size".into()),
        },
        Err(error) => Structure::Nothing(error.to_string()),
    })
}

/// Offset of the next record or end marker, from `at` on; the end when there is none.
fn find_next(window: &mut Window<'_>, mut at: u64) -> Result<u64, Error> {
    while at < window.size() {
        let head = window.bytes(at, HEAD_BYTES)?;
        let magic = head.get(8..12);
        if magic == Some(&RecordHeader::MAGIC) {
            if let Structure::Record { end, .. } = structure_at(window, at)?
                && is_plausible(window, at, end)?
            {
                return Ok(at);
            }
        } else if magic == Some(&EndMarker::MAGIC) {
            if matches!(structure_at(window, at)?, Structure::Marker) {
                return Ok(at);
            }
        } else if let Some(end) = end_of_entry(window, at)? {
            at = end;
            continue;
        }
        at += 8;
    }
    Ok(window.size())
}

/// Whether a header that was searched for is one: its record lands on something, or its entries are sound.
fn is_plausible(window: &mut Window<'_>, at: u64, end: u64) -> Result<bool, Error> {
    if end > window.size() {
        // Cut off at the end of the pack: the header's CRC is all there is to go by.
        return Ok(true);
    }
    Ok(end == window.size()
        || !matches!(structure_at(window, end)?, Structure::Nothing(_))
        || is_sound(window, at..end)?)
}

/// Whether a record holds, data included.
fn is_sound(window: &mut Window<'_>, range: Range<u64>) -> Result<bool, Error> {
    let block = window.bytes(range.start, range.end - range.start)?;
    let record = crate::record::RecordRef::parse(block, range.start, crate::record::Verify::Crc);
    Ok(record.is_ok_and(|record| record.check().is_ok()))
}

/// End of the whole entry that begins at `at`, data and padding included; none when there is no such entry.
fn end_of_entry(window: &mut Window<'_>, at: u64) -> Result<Option<u64>, Error> {
    let left = window.size() - at;
    let head = window.bytes(at, HEAD_BYTES)?;
    let Some(len) = plausible_entry_len(head, left) else { return Ok(None) };
    let head = window.bytes(at, len)?;
    let mut r = Reader::at(head, at);
    let Ok(header) = EntryHeader::parse(&mut r) else { return Ok(None) };
    let (data_at, data_crc) = (r.offset(), header.data_crc);
    let Some(end) = data_at.checked_add(header.stored_size).filter(|&end| end <= window.size()) else {
        return Ok(None);
    };
    if window.crc(data_at..end)? != data_crc {
        return Ok(None);
    }
    Ok(Some(end.next_multiple_of(8).min(window.size())))
}

/// Bytes of header, strings and padding if these could be the first 32 of an entry. Cheap, and false for nearly all.
fn plausible_entry_len(head: &[u8], left: u64) -> Option<u64> {
    let mut r = Reader::at(head.get(..EntryHeader::LEN)?, 0);
    let (file_size, stored_size) = (r.u64("").ok()?, r.u64("").ok()?);
    r.take("", 8).ok()?;
    let (name_len, type_len) = (r.u16("").ok()?, r.u16("").ok()?);
    let (compression, code, data_pad) = (Compression::from(r.u8("").ok()?), r.u8("").ok()?, r.u16("").ok()?);
    let len = EntryHeader::LEN as u64 + u64::from(name_len) + u64::from(type_len) + u64::from(data_pad);
    let plausible = stored_size > 0
        && stored_size < left
        && len <= left - stored_size
        && !matches!(compression, Compression::Unknown(_))
        && (compression != Compression::None || file_size == stored_size)
        && (code == 0 || type_len == 0)
        && data_pad < 4096;
    plausible.then_some(len)
}

/// Fixed part of a header, and key and metadata of most.
const HEAD_BYTES: u64 = 32;

impl Window<'_> {
    /// The CRC of bytes that need not fit in memory.
    fn crc(&mut self, range: Range<u64>) -> io::Result<u32> {
        let (mut at, mut sum) = (range.start, CrcSum::default());
        while at < range.end {
            let piece = self.bytes(at, (range.end - at).min(PIECE_BYTES))?;
            sum.push(piece);
            at += piece.len() as u64;
        }
        Ok(sum.finish())
    }
}

const PIECE_BYTES: u64 = 1 << 20;
