//! The bytes of a pack, version 1: each structure with its table, parsed and encoded.
//!
//! | offset              | size                   | part                                    |
//! |---------------------|-----------------------:|-----------------------------------------|
//! | 0                   |  `record_size` of each | records: header, key, metadata, entries |
//! | `index_offset` - 16 |                     16 | end marker                              |
//! | `index_offset`      |  8 + 8 for each record | index: number of records, their offsets |
//! | after the index     | 24 + payload, for each | sections                                |
//! | `file_size` - 64    |                     64 | footer                                  |
//!
//! All numbers are little-endian, strings are UTF-8 without an end sign, lengths are in bytes. Every structure starts at
//! a multiple of 8 from the start of the pack; the gaps are zero bytes, which no CRC covers. CRC is CRC-32C (Castagnoli).

mod crc;
mod entry;
mod footer;
mod index;
mod marker;
mod record;
mod section;

pub(crate) use crc::{CrcSum, crc_of_two};
pub use crc::{crc, crc_target};
pub use entry::{Compression, ContentType, EntryHeader};
pub use footer::{Features, Footer};
pub use index::Index;
pub use marker::EndMarker;
pub use record::{MetaFormat, RecordFlags, RecordHeader};
pub use section::{SectionFlags, SectionHeader, SectionKind};

/// The largest multiple that records and data may be aligned to. A record may therefore end in up to one byte less of
/// padding.
pub(crate) const ALIGN_BYTES_MAX: u64 = 4096;

/// Appends zero bytes up to the next multiple of 8, counted from the start of `out`.
pub fn pad_to_8(out: &mut Vec<u8>) {
    out.resize(out.len().next_multiple_of(8), 0);
}
