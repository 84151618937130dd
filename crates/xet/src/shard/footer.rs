//! The footer of a stored shard, and the entries of the lookup tables before it.
//!
//! # Footer
//!
//! | offset | size | field                                   |
//! |-------:|-----:|-----------------------------------------|
//! |      0 |    8 | version, 1                              |
//! |      8 |    8 | file section offset, 48                 |
//! |     16 |    8 | xorb section offset                     |
//! |     24 |    8 | file table offset                       |
//! |     32 |    8 | file table entries                      |
//! |     40 |    8 | xorb table offset                       |
//! |     48 |    8 | xorb table entries                      |
//! |     56 |    8 | chunk table offset                      |
//! |     64 |    8 | chunk table entries                     |
//! |     72 |   32 | key of the chunk hashes, zeros for none |
//! |    104 |    8 | creation time, Unix seconds             |
//! |    112 |    8 | expiry, Unix seconds                    |
//! |    120 |   48 | reserved, zero                          |
//! |    168 |    8 | stored bytes of all xorbs               |
//! |    176 |    8 | raw bytes of all files                  |
//! |    184 |    8 | raw bytes of all xorbs                  |
//! |    192 |    8 | footer offset                           |
//!
//! # Table entry
//!
//! | offset | size | field                                  |
//! |-------:|-----:|----------------------------------------|
//! |      0 |    8 | first 8 bytes of the file or xorb hash |
//! |      8 |    4 | row in the section, header counted     |
//!
//! # Chunk table entry
//!
//! | offset | size | field                                    |
//! |-------:|-----:|------------------------------------------|
//! |      0 |    8 | first 8 bytes of the chunk hash as shown |
//! |      8 |    4 | row of the xorb in its section           |
//! |     12 |    4 | chunk in the xorb                        |

use crate::cursor::Reader;
use crate::error::{FormatError, expect_number};
use crate::hash::HashKey;
use crate::shard::row::{FOOTER_LEN, ROW_LEN};

/// Footer of a stored shard: offsets of all parts, and totals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Footer {
    /// Offset of the file section.
    pub file_section_offset: u64,
    /// Offset of the xorb section.
    pub xorb_section_offset: u64,
    /// Offset of the file table: the end of the xorb section, with or without a table.
    pub file_table_offset: u64,
    /// Entries of the file table; 0 when it is absent.
    pub file_table_entries: u64,
    /// Offset of the xorb table, also when it is absent.
    pub xorb_table_offset: u64,
    /// Entries of the xorb table; 0 when it is absent.
    pub xorb_table_entries: u64,
    /// Offset of the chunk table, also when it is absent.
    pub chunk_table_offset: u64,
    /// Entries of the chunk table; 0 when it is absent.
    pub chunk_table_entries: u64,
    /// Key of the chunk hashes.
    pub key: HashKey,
    /// When the shard was made, Unix seconds; 0 when it is unknown.
    pub created_s: u64,
    /// After this Unix second the shard is no longer to be used.
    pub expires_s: u64,
    /// Sum over the xorbs of what they say; [`check`](super::check) compares the totals, parsing does not.
    pub xorbs_stored_bytes: u64,
    /// Sum over the terms of the files.
    pub files_raw_bytes: u64,
    /// Sum over the xorbs.
    pub xorbs_raw_bytes: u64,
    /// Offset of this footer.
    pub footer_offset: u64,
}

impl Footer {
    /// Bytes of the footer.
    pub(crate) const LEN: usize = FOOTER_LEN;
    /// The only footer version.
    pub const VERSION: u64 = 1;

    /// Parses the footer at the reader's position.
    pub(crate) fn parse(r: &mut Reader<'_>) -> Result<Self, FormatError> {
        const WHAT: &str = "shard footer";
        let at = r.offset();
        let version = r.u64(WHAT)?;
        if version != Self::VERSION {
            return Err(FormatError::Version { at, what: WHAT, expected: Self::VERSION, found: version });
        }
        let file_section_offset = r.u64(WHAT)?;
        let xorb_section_offset = r.u64(WHAT)?;
        let file_table_offset = r.u64(WHAT)?;
        let file_table_entries = r.u64(WHAT)?;
        let xorb_table_offset = r.u64(WHAT)?;
        let xorb_table_entries = r.u64(WHAT)?;
        let chunk_table_offset = r.u64(WHAT)?;
        let chunk_table_entries = r.u64(WHAT)?;
        let key = HashKey::new(r.array(WHAT)?);
        let created_s = r.u64(WHAT)?;
        let expires_s = r.u64(WHAT)?;
        r.take(WHAT, 48)?;
        Ok(Self {
            file_section_offset,
            xorb_section_offset,
            file_table_offset,
            file_table_entries,
            xorb_table_offset,
            xorb_table_entries,
            chunk_table_offset,
            chunk_table_entries,
            key,
            created_s,
            expires_s,
            xorbs_stored_bytes: r.u64(WHAT)?,
            files_raw_bytes: r.u64(WHAT)?,
            xorbs_raw_bytes: r.u64(WHAT)?,
            footer_offset: r.u64(WHAT)?,
        })
    }

    /// Appends the footer's bytes.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let before_key = [
            Self::VERSION,
            self.file_section_offset,
            self.xorb_section_offset,
            self.file_table_offset,
            self.file_table_entries,
            self.xorb_table_offset,
            self.xorb_table_entries,
            self.chunk_table_offset,
            self.chunk_table_entries,
        ];
        let totals =
            [self.xorbs_stored_bytes, self.files_raw_bytes, self.xorbs_raw_bytes, self.footer_offset];
        out.extend(before_key.into_iter().flat_map(u64::to_le_bytes));
        out.extend(self.key.as_bytes());
        out.extend([self.created_s, self.expires_s].into_iter().flat_map(u64::to_le_bytes));
        out.extend([0; 48]);
        out.extend(totals.into_iter().flat_map(u64::to_le_bytes));
    }

    /// Whether the shard is no longer to be used at `now_s`.
    pub fn is_expired(&self, now_s: u64) -> bool {
        now_s > self.expires_s
    }

    /// Reads the footer at the end of `bytes` and checks that its offsets fit together: sections of whole rows, each
    /// table where the one before ends, the footer where it stands.
    pub(crate) fn parse_at_end(bytes: &[u8]) -> Result<Self, FormatError> {
        // A stored shard holds at least the header, two bookends and the footer.
        let least = 3 * ROW_LEN + Self::LEN;
        let Some(tail) = bytes.last_chunk::<{ Self::LEN }>().filter(|_| bytes.len() >= least) else {
            let left = bytes.len() as u64;
            return Err(FormatError::Truncated { at: 0, what: "stored shard", needed: least as u64, left });
        };
        let start = (bytes.len() - Self::LEN) as u64;
        let footer = Self::parse(&mut Reader::at(tail, start))?;
        footer.check_offsets(start)?;
        Ok(footer)
    }

    fn check_offsets(&self, start: u64) -> Result<(), FormatError> {
        let row = ROW_LEN as u64;
        // A section is at least its bookend; the first follows the header.
        let section_end = |at, what, from: u64, end: u64| {
            let rows = end.checked_sub(from).filter(|len| *len >= row && len.is_multiple_of(row));
            match rows {
                Some(_) => Ok(()),
                None => Err(FormatError::Number { at, what, expected: from.saturating_add(row), found: end }),
            }
        };
        let table_end = |offset: u64, entries: u64, len: usize| {
            entries.checked_mul(len as u64).and_then(|len| offset.checked_add(len)).unwrap_or(u64::MAX)
        };

        expect_number(start + 8, "file section offset", row, self.file_section_offset)?;
        section_end(start + 16, "xorb section offset", self.file_section_offset, self.xorb_section_offset)?;
        section_end(start + 24, "file table offset", self.xorb_section_offset, self.file_table_offset)?;
        let end = table_end(self.file_table_offset, self.file_table_entries, TableEntry::LEN);
        expect_number(start + 40, "xorb table offset", end, self.xorb_table_offset)?;
        let end = table_end(self.xorb_table_offset, self.xorb_table_entries, TableEntry::LEN);
        expect_number(start + 56, "chunk table offset", end, self.chunk_table_offset)?;
        let end = table_end(self.chunk_table_offset, self.chunk_table_entries, ChunkTableEntry::LEN);
        expect_number(start + 192, "end of the chunk table", end, self.footer_offset)?;
        expect_number(start + 192, "footer offset", start, self.footer_offset)
    }
}

/// Names a file or a xorb in its section.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TableEntry {
    /// The first word of the hash.
    pub prefix: u64,
    /// Which row of the section opens the block.
    pub row: u32,
}

impl TableEntry {
    /// Bytes of one entry.
    pub(crate) const LEN: usize = 12;

    /// Parses the entry at the reader's position.
    pub(crate) fn parse(r: &mut Reader<'_>) -> Result<Self, FormatError> {
        Ok(Self { prefix: r.u64("table entry")?, row: r.u32("table entry")? })
    }

    /// Appends the entry's bytes.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.prefix.to_le_bytes());
        out.extend(self.row.to_le_bytes());
    }
}

/// Names a chunk in the xorb section.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChunkTableEntry {
    /// The first word of the hash, as the section shows it.
    pub prefix: u64,
    /// Which row of the section opens the xorb's block.
    pub row: u32,
    /// Which chunk of the xorb.
    pub chunk: u32,
}

impl ChunkTableEntry {
    /// Bytes of one entry.
    pub(crate) const LEN: usize = 16;

    /// Parses the entry at the reader's position.
    pub(crate) fn parse(r: &mut Reader<'_>) -> Result<Self, FormatError> {
        Ok(Self { prefix: r.u64("table entry")?, row: r.u32("table entry")?, chunk: r.u32("table entry")? })
    }

    /// Appends the entry's bytes.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.prefix.to_le_bytes());
        out.extend(self.row.to_le_bytes());
        out.extend(self.chunk.to_le_bytes());
    }
}
