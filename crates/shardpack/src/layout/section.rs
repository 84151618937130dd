//! Section: one piece of information about the pack as a whole.
//!
//! # Section header
//!
//! | offset | size | field                                                                 |
//! |-------:|-----:|-----------------------------------------------------------------------|
//! |      0 |    4 | section type                                                          |
//! |      4 |    4 | flags: bit 0 critical, refuse the pack when the type is not known     |
//! |      8 |    8 | bytes of the payload                                                  |
//! |     16 |    4 | CRC of the payload                                                    |
//! |     20 |    4 | reserved, zero                                                        |
//!
//! Then the payload and zero bytes to a multiple of 8.
//!
//! # Section types
//!
//! | type | payload                                                                        |
//! |-----:|--------------------------------------------------------------------------------|
//! |    1 | user metadata, one JSON object                                                 |
//! |    2 | writer facts, JSON                                                             |
//! |    3 | key hashes: XXH3-64 of each key, 8 bytes each, in record order                 |
//! |    4 | key order: record numbers sorted by hash and number, 4 bytes each, 8 from 2^32 |
//! |    5 | key digest: BLAKE3 over length (4 bytes) and key of all records, column name   |
//! |    6 | entry directory                                                                |
//! |    7 | record digests: BLAKE3 of each record, 32 bytes each                           |
//! |    8 | statistics, JSON                                                               |
//!
//! # Entry directory
//!
//! | numbers           | each of 8 bytes                                                        |
//! |-------------------|------------------------------------------------------------------------|
//! | 1                 | E: entries of all records                                              |
//! | 1                 | F: frames of entries that have more than one                           |
//! | records + 1       | first entry of each record, counted through all records; then E        |
//! | E                 | where each entry's header begins, from the first byte of its record    |
//! | E + 1             | first frame of each entry, counted through all entries; then F         |
//! | 2 for each of F   | where a frame begins: in the content, and in the stored data           |

use serde::Serialize;

use crate::cursor::Reader;
use crate::error::{FormatError, expect_number, expect_range};

/// Header of a section, before its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SectionHeader {
    /// Kind of the payload.
    pub kind: SectionKind,
    /// Whether it must be understood.
    pub flags: SectionFlags,
    /// Bytes of the payload.
    pub payload_len: u64,
    /// CRC of the payload.
    pub payload_crc: u32,
}

impl SectionHeader {
    /// Bytes of the header.
    #[cfg(test)]
    pub(crate) const LEN: usize = 24;

    /// Parses the header at the reader's position, which then is that of the payload. Refuses a critical section of a
    /// type that is not known; `payload_len` is not compared with the bytes left: taking the payload does that.
    pub(crate) fn parse(r: &mut Reader<'_>) -> Result<Self, FormatError> {
        const WHAT: &str = "section header";
        let at = r.offset();
        let kind = SectionKind::from(r.u32(WHAT)?);
        let flags = SectionFlags(r.u32(WHAT)?);
        let payload_len = r.u64(WHAT)?;
        let payload_crc = r.u32(WHAT)?;
        r.u32(WHAT)?;
        match kind {
            SectionKind::Unknown(found) if flags.is_critical() => Err(FormatError::Section { at, found }),
            _ => Ok(Self { kind, flags, payload_len, payload_crc }),
        }
    }

    /// Appends the header's bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend(u32::from(self.kind).to_le_bytes());
        out.extend(self.flags.0.to_le_bytes());
        out.extend(self.payload_len.to_le_bytes());
        out.extend(self.payload_crc.to_le_bytes());
        out.extend([0; 4]);
    }

    /// `Ok` when the payload of this section, whose header stands at `at`, is as long as that many records make it.
    pub(crate) fn check_len(&self, at: u64, record_count: u64) -> Result<(), FormatError> {
        let len_at = at + 8;
        let each = |bytes: u64| record_count.saturating_mul(bytes);
        match self.kind {
            SectionKind::KeyHashes => expect_number(len_at, "bytes of key hashes", each(8), self.payload_len),
            SectionKind::KeyOrder => {
                let bytes = if record_count < 1 << 32 { 4 } else { 8 };
                expect_number(len_at, "bytes of the key order", each(bytes), self.payload_len)
            }
            SectionKind::KeyDigest => {
                expect_range(len_at, "bytes of the key digest", 32, u64::MAX, self.payload_len)
            }
            SectionKind::RecordDigests => {
                expect_number(len_at, "bytes of record digests", each(32), self.payload_len)
            }
            _ => Ok(()),
        }
    }
}

/// Kind of a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(into = "u32")]
pub enum SectionKind {
    /// Metadata of the user: one JSON object.
    UserMetadata,
    /// Facts of the writer: JSON.
    WriterFacts,
    /// XXH3-64 of each key, in record order.
    KeyHashes,
    /// Record numbers, sorted by key hash.
    KeyOrder,
    /// One digest of all keys: equal in packs that are columns of one dataset.
    KeyDigest,
    /// Offsets of entries and their frames.
    EntryDirectory,
    /// BLAKE3 of each record.
    RecordDigests,
    /// Sums over the pack: JSON.
    Statistics,
    /// A type this version does not know: ignored unless critical.
    Unknown(u32),
}

impl SectionKind {
    /// Whether the payload is JSON text.
    pub(crate) fn is_json(self) -> bool {
        matches!(self, Self::UserMetadata | Self::WriterFacts | Self::Statistics)
    }
}

impl From<u32> for SectionKind {
    fn from(kind: u32) -> Self {
        match kind {
            1 => Self::UserMetadata,
            2 => Self::WriterFacts,
            3 => Self::KeyHashes,
            4 => Self::KeyOrder,
            5 => Self::KeyDigest,
            6 => Self::EntryDirectory,
            7 => Self::RecordDigests,
            8 => Self::Statistics,
            _ => Self::Unknown(kind),
        }
    }
}

impl From<SectionKind> for u32 {
    fn from(kind: SectionKind) -> Self {
        match kind {
            SectionKind::UserMetadata => 1,
            SectionKind::WriterFacts => 2,
            SectionKind::KeyHashes => 3,
            SectionKind::KeyOrder => 4,
            SectionKind::KeyDigest => 5,
            SectionKind::EntryDirectory => 6,
            SectionKind::RecordDigests => 7,
            SectionKind::Statistics => 8,
            SectionKind::Unknown(kind) => kind,
        }
    }
}

/// The flags of a section; bits without a name are kept and mean nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SectionFlags(pub u32);

impl SectionFlags {
    /// A reader that does not know the type must refuse the pack.
    pub(crate) const CRITICAL: Self = Self(1);

    /// Whether the type must be known.
    pub(crate) fn is_critical(self) -> bool {
        self.0 & Self::CRITICAL.0 != 0
    }
}
