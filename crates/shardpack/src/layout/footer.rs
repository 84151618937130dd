//! Footer: the last 64 bytes of a pack, from which everything else is found.
//!
//! # Footer
//!
//! | offset | size | field                                                                 |
//! |-------:|-----:|-----------------------------------------------------------------------|
//! |      0 |    8 | `index_offset`: where the index begins, 16 bytes after the end marker |
//! |      8 |    8 | `index_size`: bytes from there to the footer                          |
//! |     16 |    8 | number of records, again                                              |
//! |     24 |    8 | `file_size`: bytes of the whole pack                                  |
//! |     32 |    4 | CRC of the index                                                      |
//! |     36 |    4 | CRC of all sections, headers and padding included                     |
//! |     40 |    2 | major version, 1: readers refuse any other                            |
//! |     42 |    2 | minor version, 0: readers go on                                       |
//! |     44 |    4 | features: bit 0 keys unique, bit 1 keys sorted, bit 2 records aligned |
//! |     48 |    4 | reserved, zero                                                        |
//! |     52 |    4 | CRC of footer bytes 0-51 and 56-63                                    |
//! |     56 |    8 | magic, `89 53 50 4b 0d 0a 1a 0a`                                      |

use serde::{Serialize, Serializer};

use crate::cursor::Reader;
use crate::error::{FormatError, expect_aligned, expect_crc, expect_magic, expect_number, expect_range};
use crate::layout::{EndMarker, crc};

const _: () = assert!(EndMarker::TAIL_BYTES_MIN == (EndMarker::LEN + 8 + Footer::LEN) as u64);

/// Offsets and sizes of everything in a pack. Its JSON leaves out the CRCs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Footer {
    /// Offset of the index.
    pub index_offset: u64,
    /// Bytes from there to the footer.
    pub index_size: u64,
    /// Number of records.
    pub record_count: u64,
    /// Bytes of the whole pack.
    #[serde(skip)]
    pub file_size: u64,
    /// CRC of the index.
    #[serde(skip)]
    pub index_crc: u32,
    /// CRC of all sections, their headers and padding included.
    #[serde(skip)]
    pub sections_crc: u32,
    /// Minor version of the format.
    #[serde(rename = "version", serialize_with = "with_major")]
    pub version_minor: u16,
    /// Features of all records.
    #[serde(flatten)]
    pub features: Features,
}

impl Footer {
    /// Bytes of the footer.
    pub const LEN: usize = 64;
    /// The last bytes of a pack. The high bit and the line ends show when it was handled as text.
    pub(crate) const MAGIC: [u8; 8] = *b"\x89SPK\r\n\x1a\n";
    /// The major version that we read.
    pub const VERSION_MAJOR: u16 = 1;
    /// The minor version that we write.
    pub const VERSION_MINOR: u16 = 0;

    /// Parses the footer at the reader's position, which must be 64 bytes before the end of the pack.
    pub(crate) fn parse(r: &mut Reader<'_>) -> Result<Self, FormatError> {
        const WHAT: &str = "footer";
        let at = r.offset();
        let before_crc: [u8; 52] = r.clone().array(WHAT)?;
        let index_offset = r.u64(WHAT)?;
        let index_size = r.u64(WHAT)?;
        let record_count = r.u64(WHAT)?;
        let file_size = r.u64(WHAT)?;
        let index_crc = r.u32(WHAT)?;
        let sections_crc = r.u32(WHAT)?;
        let version_major = r.u16(WHAT)?;
        let version_minor = r.u16(WHAT)?;
        let features = Features(r.u32(WHAT)?);
        r.u32(WHAT)?;
        let footer_crc = r.u32(WHAT)?;
        let magic: [u8; 8] = r.array(WHAT)?;
        expect_magic(at + 56, "footer magic", &Self::MAGIC, &magic)?;
        expect_crc(at, WHAT, footer_crc, crc(&[&before_crc, &magic]))?;

        let expected = Self::VERSION_MAJOR;
        if version_major != expected {
            return Err(FormatError::Version { at: at + 40, expected, found: version_major });
        }
        expect_number(at + 24, "size of the pack", r.offset(), file_size)?;
        expect_aligned(at + 24, "size of the pack", file_size)?;
        let marker_len = EndMarker::LEN as u64;
        expect_range(at, "index offset", marker_len, at.saturating_sub(8).max(marker_len), index_offset)?;
        expect_aligned(at, "index offset", index_offset)?;
        expect_number(at + 8, "index size", at.saturating_sub(index_offset), index_size)?;
        expect_range(at + 16, "number of records", 0, index_size.saturating_sub(8) / 8, record_count)?;
        Ok(Self {
            index_offset,
            index_size,
            record_count,
            file_size,
            index_crc,
            sections_crc,
            version_minor,
            features,
        })
    }

    /// Appends the footer's bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut before_crc = Vec::with_capacity(52);
        let places = [self.index_offset, self.index_size, self.record_count, self.file_size];
        before_crc.extend(places.into_iter().flat_map(u64::to_le_bytes));
        before_crc.extend([self.index_crc, self.sections_crc].into_iter().flat_map(u32::to_le_bytes));
        before_crc.extend([Self::VERSION_MAJOR, self.version_minor].into_iter().flat_map(u16::to_le_bytes));
        before_crc.extend(self.features.0.to_le_bytes());
        before_crc.extend([0; 4]);
        out.extend(&before_crc);
        out.extend(crc(&[&before_crc, &Self::MAGIC]).to_le_bytes());
        out.extend(Self::MAGIC);
    }

    /// Offset of the end marker, behind the records.
    pub fn records_end(&self) -> u64 {
        self.index_offset.saturating_sub(EndMarker::LEN as u64)
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields so")]
fn with_major<S: Serializer>(minor: &u16, serializer: S) -> Result<S::Ok, S::Error> {
    [Footer::VERSION_MAJOR, *minor].serialize(serializer)
}

/// Features of all records; bits without a name are kept and mean nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(into = "FeatureNames")]
pub struct Features(pub u32);

/// The features by name, as JSON has them.
#[derive(Serialize)]
struct FeatureNames {
    keys_unique: bool,
    keys_sorted: bool,
    records_aligned: bool,
}

impl From<Features> for FeatureNames {
    fn from(features: Features) -> Self {
        Self {
            keys_unique: features.keys_unique(),
            keys_sorted: features.keys_sorted(),
            records_aligned: features.records_aligned(),
        }
    }
}

impl Features {
    /// No key occurs twice.
    pub const KEYS_UNIQUE: Self = Self(1);
    /// The keys rise, compared bytewise.
    pub(crate) const KEYS_SORTED: Self = Self(2);
    /// Records and their data begin at multiples of more than 8.
    pub const RECORDS_ALIGNED: Self = Self(4);

    /// Whether no key occurs twice.
    pub fn keys_unique(self) -> bool {
        self.0 & Self::KEYS_UNIQUE.0 != 0
    }

    /// Whether the keys rise.
    pub fn keys_sorted(self) -> bool {
        self.0 & Self::KEYS_SORTED.0 != 0
    }

    /// Whether records and their data are aligned beyond 8.
    pub fn records_aligned(self) -> bool {
        self.0 & Self::RECORDS_ALIGNED.0 != 0
    }
}
