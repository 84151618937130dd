//! End marker: the 16 bytes where the next record would be and there is none.
//!
//! # End marker
//!
//! | offset | size | field                                                                 |
//! |-------:|-----:|-----------------------------------------------------------------------|
//! |      0 |    8 | `tail_size`: bytes from this marker to the end of the pack            |
//! |      8 |    4 | magic, `53 50 49 01`                                                  |
//! |     12 |    4 | CRC over bytes 0-11                                                   |

use crate::cursor::Reader;
use crate::error::{FormatError, expect_aligned, expect_crc, expect_magic, expect_range};
use crate::layout::crc;

/// Says that the records are over. A stream that ends without it is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndMarker {
    /// Bytes from this marker to the end of the pack.
    pub tail_size: u64,
}

impl EndMarker {
    /// Bytes of the marker.
    pub const LEN: usize = 16;
    /// "SPI" and the version of markers; stands where a record has its magic.
    pub(crate) const MAGIC: [u8; 4] = *b"SPI\x01";
    /// Bytes of a marker, an empty index (8) and a footer (64).
    pub(crate) const TAIL_BYTES_MIN: u64 = Self::LEN as u64 + 8 + 64;

    /// Parses the marker at the reader's position.
    pub(crate) fn parse(r: &mut Reader<'_>) -> Result<Self, FormatError> {
        const WHAT: &str = "end marker";
        let at = r.offset();
        let before_crc: [u8; 12] = r.clone().array(WHAT)?;
        let tail_size = r.u64(WHAT)?;
        expect_magic(at + 8, "end marker magic", &Self::MAGIC, &r.array::<4>(WHAT)?)?;
        expect_crc(at, WHAT, r.u32(WHAT)?, crc(&[&before_crc]))?;
        expect_range(at, "tail size", Self::TAIL_BYTES_MIN, u64::MAX, tail_size)?;
        expect_aligned(at, "tail size", tail_size)?;
        Ok(Self { tail_size })
    }

    /// Appends the marker's bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let tail_size = self.tail_size.to_le_bytes();
        out.extend(tail_size);
        out.extend(Self::MAGIC);
        out.extend(crc(&[&tail_size, &Self::MAGIC]).to_le_bytes());
    }
}
