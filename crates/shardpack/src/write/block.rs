//! Encoding of one record: a pure function of sample and options, so that many can be encoded side by side.

use crate::codec::{self, Frame, Method};
use crate::error::{Cause, Error};
use crate::layout::{Compression, ContentType, EntryHeader, MetaFormat, RecordFlags, RecordHeader, crc};
use crate::record::Record;
use crate::write::WriteOptions;

/// A record to write.
#[derive(Debug, Clone, Default)]
pub struct RecordDraft<'a> {
    /// Names it: 1 to 65,535 bytes.
    pub key: &'a str,
    /// Belongs to the record as a whole; may be empty.
    pub metadata: &'a [u8],
    /// Format of the metadata.
    pub meta_format: MetaFormat,
    /// Effect in an overlay.
    pub flags: RecordFlags,
    /// Its entries.
    pub entries: Vec<EntryDraft<'a>>,
}

/// An entry to write.
#[derive(Debug, Clone, Default)]
pub struct EntryDraft<'a> {
    /// Names it in its record.
    pub name: &'a str,
    /// Content type.
    pub content_type: &'a str,
    /// The content.
    pub data: &'a [u8],
    /// Compression; none means that of the writer.
    pub compression: Option<Method>,
}

impl<'a> From<&'a Record> for RecordDraft<'a> {
    fn from(record: &'a Record) -> Self {
        let entry = |entry: &'a crate::record::FileEntry| EntryDraft {
            name: &entry.file_name,
            content_type: &entry.content_type,
            data: &entry.data,
            compression: match entry.compression {
                Compression::None | Compression::Unknown(_) => None,
                Compression::Gzip => Some(Method::Gzip),
                Compression::Lz4 => Some(Method::Lz4),
                Compression::Zstd => Some(Method::Zstd),
            },
        };
        Self {
            key: &record.key,
            metadata: &record.metadata,
            meta_format: record.meta_format,
            flags: record.flags,
            entries: record.file_entries.iter().map(entry).collect(),
        }
    }
}

/// Appends the bytes of a record to `out`, and returns the frames of entries that have several, by number of the entry.
/// On an error `out` is as it was.
pub(crate) fn encode_block(
    draft: &RecordDraft<'_>,
    options: &WriteOptions,
    out: &mut Vec<u8>,
) -> Result<Vec<(u32, Vec<Frame>)>, Error> {
    encode_noted(draft, options, &mut Vec::new(), out)
}

/// Location of an entry in its record, and its sizes.
#[derive(Debug, Clone, Copy)]
pub(super) struct EntryPlace {
    pub(super) header_at: u64,
    pub(super) stored_bytes: u64,
}

/// [`encode_block`], which also says where the entries are; `places` are forgotten first.
pub(super) fn encode_noted(
    draft: &RecordDraft<'_>,
    options: &WriteOptions,
    places: &mut Vec<EntryPlace>,
    out: &mut Vec<u8>,
) -> Result<Vec<(u32, Vec<Frame>)>, Error> {
    places.clear();
    let start = out.len();
    let encoded = encode_at(draft, options, start, places, out);
    if encoded.is_err() {
        out.truncate(start);
    }
    encoded.map_err(|error| error.in_record(draft.key))
}

fn encode_at(
    draft: &RecordDraft<'_>,
    options: &WriteOptions,
    start: usize,
    places: &mut Vec<EntryPlace>,
    out: &mut Vec<u8>,
) -> Result<Vec<(u32, Vec<Frame>)>, Error> {
    let entry_count = u32::try_from(draft.entries.len())
        .map_err(|_| Error::invalid("a record has at most 4,294,967,295 entries"))?;
    let payload: usize = draft.entries.iter().map(|entry| entry.data.len() + 96).sum();
    expect_room(options, (payload + draft.metadata.len()) as u64)?;
    let align =
        usize::try_from(options.align_bytes).map_err(|_| Error::invalid("alignment is at most 4096"))?;

    // Size and CRC are put in at the end, when the size is known.
    let header = RecordHeader {
        record_size: 0,
        entry_count,
        meta_format: draft.meta_format,
        flags: draft.flags,
        key: draft.key,
        meta: draft.metadata,
    };
    out.reserve(
        RecordHeader::LEN
            + draft.key.len()
            + draft.metadata.len()
            + payload
            + align * (draft.entries.len() + 1),
    );
    let header_len = header.encode_unsealed(out)?;
    let mut frames = Vec::new();
    for (number, entry) in (0..entry_count).zip(&draft.entries) {
        let header_at = (out.len() - start) as u64;
        let (stored_bytes, found) =
            encode_entry(entry, options, align, start, out).map_err(|error| error.in_entry(entry.name))?;
        places.push(EntryPlace { header_at, stored_bytes });
        if !found.is_empty() {
            frames.push((number, found));
        }
    }
    let size = (out.len() - start).next_multiple_of(align);
    out.resize(start + size, 0);
    expect_room(options, size as u64)?;
    if let Some(record) = out.get_mut(start..) {
        RecordHeader::seal(record, header_len, size as u64);
    }
    Ok(frames)
}

/// Appends one entry of the record that begins at `start`. Returns the bytes it is stored in, and its frames.
fn encode_entry(
    entry: &EntryDraft<'_>,
    options: &WriteOptions,
    align: usize,
    start: usize,
    out: &mut Vec<u8>,
) -> Result<(u64, Vec<Frame>), Error> {
    let content_type = ContentType::new(entry.content_type);
    let strings_end = out.len() - start + EntryHeader::LEN + entry.name.len() + content_type.text_len();
    let data_pad = strings_end.next_multiple_of(align) - strings_end;
    let mut header = EntryHeader {
        file_size: entry.data.len() as u64,
        stored_size: entry.data.len() as u64,
        data_crc: 0,
        compression: Compression::None,
        content_type,
        data_pad: u16::try_from(data_pad).map_err(|_| Error::invalid("alignment is at most 4096"))?,
        name: entry.name,
    };
    let method = entry.compression.unwrap_or(options.compression);
    let mut frames = Vec::new();
    if method == Method::None {
        header.data_crc = crc(&[entry.data]);
        header.encode(out)?;
        out.extend_from_slice(entry.data);
    } else {
        let mut stored = Vec::new();
        let (compression, encoded) =
            codec::encode(method, entry.content_type, entry.data, options.chunk_bytes, &mut stored)
                .map_err(Error::from)?;
        frames = encoded.frames;
        header.compression = compression;
        header.stored_size = stored.len() as u64;
        header.data_crc = crc(&[&stored]);
        header.encode(out)?;
        out.extend_from_slice(&stored);
    }
    // The record begins at a multiple of 8 in the pack, not necessarily in the buffer.
    let len = (out.len() - start).next_multiple_of(8);
    out.resize(start + len, 0);
    Ok((header.stored_size, frames))
}

fn expect_room(options: &WriteOptions, found: u64) -> Result<(), Error> {
    let max = options.record_bytes_max;
    if found > max { Err(Cause::TooLarge { what: "record", found, max }.into()) } else { Ok(()) }
}
