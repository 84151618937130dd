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

mod entry;
mod footer;
mod index;
mod marker;
mod record;
mod section;

pub use entry::{Compression, ContentType, EntryHeader};
pub use footer::{Features, Footer};
pub use index::Index;
pub use marker::EndMarker;
pub use record::{MetaFormat, RecordFlags, RecordHeader};
pub use section::{SectionFlags, SectionHeader, SectionKind};

/// The largest multiple that records and data may be aligned to. A record may therefore end in up to one byte less of
/// padding.
pub const ALIGN_BYTES_MAX: u64 = 4096;

/// The CRC of `parts` one after another.
#[inline]
pub fn crc(parts: &[&[u8]]) -> u32 {
    if let [all] = parts {
        return crc_fast::crc32_iscsi(all);
    }
    let mut sum = CrcSum::default();
    parts.iter().for_each(|part| sum.push(part));
    sum.finish()
}

/// A CRC of bytes that come piece by piece.
#[derive(Debug)]
pub(crate) struct CrcSum(crc_fast::Digest);

impl Default for CrcSum {
    fn default() -> Self {
        Self(crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi))
    }
}

impl CrcSum {
    pub(crate) fn push(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    pub(crate) fn finish(&self) -> u32 {
        u32::try_from(self.0.finalize()).expect("a CRC of 32 bits")
    }
}

/// The CRC of two parts. Short ones are put together first: starting a CRC costs more than copying some bytes.
#[inline]
pub(crate) fn crc_of_two(first: &[u8], second: &[u8]) -> u32 {
    let mut joined = [0; 128];
    let len = first.len() + second.len();
    let Some((head, rest)) = joined.split_at_mut_checked(first.len()) else { return crc(&[first, second]) };
    let Some(tail) = rest.get_mut(..second.len()) else { return crc(&[first, second]) };
    head.copy_from_slice(first);
    tail.copy_from_slice(second);
    crc(&[joined.get(..len).unwrap_or_default()])
}

/// Appends zero bytes up to the next multiple of 8, counted from the start of `out`.
pub fn pad_to_8(out: &mut Vec<u8>) {
    out.resize(out.len().next_multiple_of(8), 0);
}
