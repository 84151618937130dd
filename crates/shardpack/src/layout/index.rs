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

/// Offsets of all records.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Index {
    /// From the start of the pack, in the order of the records.
    pub offsets: Vec<u64>,
}

impl Index {
    /// Parses the index at the reader's position and compares it with the footer.
    pub(crate) fn parse(r: &mut Reader<'_>, footer: &Footer) -> Result<Self, FormatError> {
        const WHAT: &str = "index";
        let at = r.offset();
        let counted = r.take("number of records", 8)?;
        let count = Reader::at(counted, at).u64(WHAT)?;
        expect_number(at, "number of records", footer.record_count, count)?;
        // What was taken is there: only then may the count size anything.
        let taken = r.take("record offsets", count.saturating_mul(8))?;
        expect_crc(at, WHAT, footer.index_crc, crc(&[counted, taken]))?;

        let records_end = footer.records_end();
        let last = records_end.saturating_sub(8);
        let mut offsets: Vec<u64> = Vec::with_capacity(taken.len() / 8);
        let (fields, _) = taken.as_chunks::<8>();
        let mut field_at = at + 8;
        for field in fields {
            let found = u64::from_le_bytes(*field);
            match offsets.last() {
                None => expect_number(field_at, "offset of the first record", 0, found)?,
                Some(&below) if found <= below => {
                    return Err(FormatError::Order { at: field_at, what: "record offset", below, found });
                }
                Some(_) => {}
            }
            expect_aligned(field_at, "record offset", found)?;
            expect_range(field_at, "record offset", 0, last, found)?;
            offsets.push(found);
            field_at += 8;
        }
        if offsets.is_empty() {
            expect_number(at, "end of the records in a pack without any", 0, records_end)?;
        }
        Ok(Self { offsets })
    }

    /// Appends the index's bytes and returns their CRC for the footer.
    pub fn encode(&self, out: &mut Vec<u8>) -> u32 {
        let at = out.len();
        let count = self.offsets.len() as u64;
        out.reserve(8 * (self.offsets.len() + 1));
        for number in std::iter::once(&count).chain(&self.offsets) {
            out.extend_from_slice(&number.to_le_bytes());
        }
        crc(&[out.get(at..).unwrap_or_default()])
    }
}
