//! Index: how many records there are and where each begins.
//!
//! # Index
//!
//! | offset | size | field                                                                 |
//! |-------:|-----:|-----------------------------------------------------------------------|
//! |      0 |    8 | number of records                                                     |
//! |      8 |    8 | offset of the first record, 0; then 8 bytes for each further record   |
//!
//! The offsets count from the start of the pack, rise strictly and stay below the end marker.

use crate::cursor::Reader;
use crate::error::{FormatError, expect_aligned, expect_crc, expect_number, expect_range};
use crate::layout::{Footer, crc};

/// Where every record begins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Index {
    /// From the start of the pack, in the order of the records.
    pub offsets: Vec<u64>,
}

impl Index {
    /// Parses the index at the reader's position and compares it with the footer.
    pub fn parse(r: &mut Reader<'_>, footer: &Footer) -> Result<Self, FormatError> {
        const WHAT: &str = "index";
        let at = r.offset();
        let counted = r.take("number of records", 8)?;
        let count = Reader::at(counted, at).u64(WHAT)?;
        expect_number(at, "number of records", footer.record_count, count)?;
        // What was taken is there: only then may the count size anything.
        let taken = r.take("record offsets", count.saturating_mul(8))?;
        expect_crc(at, WHAT, footer.index_crc, crc(&[counted, taken]))?;

        let records_end = footer.records_end();
        let mut offsets = Vec::with_capacity(taken.len() / 8);
        let mut fields = Reader::at(taken, at + 8);
        while fields.left() > 0 {
            let at = fields.offset();
            let found = fields.u64(WHAT)?;
            match offsets.last() {
                None => expect_number(at, "offset of the first record", 0, found)?,
                Some(&below) if found <= below => {
                    return Err(FormatError::Order { at, what: "record offset", below, found });
                }
                Some(_) => {}
            }
            expect_aligned(at, "record offset", found)?;
            expect_range(at, "record offset", 0, records_end.saturating_sub(8), found)?;
            offsets.push(found);
        }
        if offsets.is_empty() {
            expect_number(at, "end of the records in a pack without any", 0, records_end)?;
        }
        Ok(Self { offsets })
    }

    /// Appends the index's bytes and returns their CRC for the footer.
    pub fn encode(&self, out: &mut Vec<u8>) -> u32 {
        let count = self.offsets.len() as u64;
        let numbers = std::iter::once(&count).chain(&self.offsets);
        numbers.fold(0, |crc, number| {
            out.extend(number.to_le_bytes());
            crc32c::crc32c_append(crc, &number.to_le_bytes())
        })
    }
}
