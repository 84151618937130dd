//! The lookup tables of a stored shard: made from its content, or read and compared with it.
//!
//! Each is sorted by the first word of the hash. Where two entries share it, ours go on by row and chunk; the format
//! leaves that open, so any order among them is accepted.

use crate::cursor::Reader;
use crate::error::{FormatError, expect_number};
use crate::shard::footer::{ChunkTableEntry, Footer, TableEntry};
use crate::shard::{FileEntry, XorbEntry};

/// Which lookup tables a stored shard has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LookupTables {
    /// The file table.
    pub files: bool,
    /// The xorb table.
    pub xorbs: bool,
    /// The chunk table.
    pub chunks: bool,
}

impl LookupTables {
    /// Every table.
    pub const ALL: Self = Self { files: true, xorbs: true, chunks: true };
    /// No table.
    pub const NONE: Self = Self { files: false, xorbs: false, chunks: false };
}

/// The three tables. An empty one is an absent one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tables {
    /// Row of each file's block.
    pub files: Vec<TableEntry>,
    /// Row of each xorb's block.
    pub xorbs: Vec<TableEntry>,
    /// Xorb row and number of each chunk.
    pub chunks: Vec<ChunkTableEntry>,
}

impl Tables {
    /// The tables of these blocks, which must stand in this order in their sections.
    pub(crate) fn of(files: &[FileEntry], xorbs: &[XorbEntry]) -> Self {
        let mut tables = Self::default();
        let mut row = 0;
        for file in files {
            tables.files.push(TableEntry { prefix: file.hash.0.prefix(), row: narrow(row) });
            row += file.rows();
        }
        let mut row = 0;
        for xorb in xorbs {
            tables.xorbs.push(TableEntry { prefix: xorb.hash.0.prefix(), row: narrow(row) });
            tables.chunks.extend((0..).zip(&xorb.chunks).map(|(chunk, entry)| ChunkTableEntry {
                prefix: entry.hash.0.prefix(),
                row: narrow(row),
                chunk,
            }));
            row += xorb.rows();
        }
        tables.files.sort_unstable();
        tables.xorbs.sort_unstable();
        tables.chunks.sort_unstable();
        tables
    }

    /// The same, without the tables not chosen.
    pub(crate) fn chosen(mut self, choice: LookupTables) -> Self {
        if !choice.files {
            self.files.clear();
        }
        if !choice.xorbs {
            self.xorbs.clear();
        }
        if !choice.chunks {
            self.chunks.clear();
        }
        self
    }

    /// Whether all three are absent.
    pub(crate) fn is_empty(&self) -> bool {
        self.files.is_empty() && self.xorbs.is_empty() && self.chunks.is_empty()
    }

    /// Reads the tables that the footer lists, and fails unless each is absent or exactly the table of these blocks.
    pub(crate) fn parse(
        bytes: &[u8],
        footer: &Footer,
        files: &[FileEntry],
        xorbs: &[XorbEntry],
    ) -> Result<Self, FormatError> {
        let no_tables = footer.file_table_entries == 0
            && footer.xorb_table_entries == 0
            && footer.chunk_table_entries == 0;
        if no_tables {
            return Ok(Self::default());
        }
        let whole = Self::of(files, xorbs);
        let at = footer.footer_offset;
        Ok(Self {
            files: Table {
                count_at: at + 32,
                count: footer.file_table_entries,
                offset: footer.file_table_offset,
                what: "file table",
                len: TableEntry::LEN,
            }
            .parse(bytes, &whole.files, TableEntry::parse, |entry| entry.prefix)?,
            xorbs: Table {
                count_at: at + 48,
                count: footer.xorb_table_entries,
                offset: footer.xorb_table_offset,
                what: "xorb table",
                len: TableEntry::LEN,
            }
            .parse(bytes, &whole.xorbs, TableEntry::parse, |entry| entry.prefix)?,
            chunks: Table {
                count_at: at + 64,
                count: footer.chunk_table_entries,
                offset: footer.chunk_table_offset,
                what: "chunk table",
                len: ChunkTableEntry::LEN,
            }
            .parse(bytes, &whole.chunks, ChunkTableEntry::parse, |entry| entry.prefix)?,
        })
    }
}

/// One table as the footer describes it.
struct Table {
    count_at: u64,
    count: u64,
    offset: u64,
    what: &'static str,
    len: usize,
}

impl Table {
    fn parse<E: Ord + Copy>(
        &self,
        bytes: &[u8],
        whole: &[E],
        entry: impl Fn(&mut Reader<'_>) -> Result<E, FormatError>,
        prefix: impl Fn(&E) -> u64,
    ) -> Result<Vec<E>, FormatError> {
        if self.count == 0 {
            return Ok(Vec::new());
        }
        expect_number(self.count_at, self.what, whole.len() as u64, self.count)?;
        let rest =
            usize::try_from(self.offset).ok().and_then(|offset| bytes.get(offset..)).unwrap_or_default();
        let mut r = Reader::at(rest, self.offset);
        let mut found: Vec<E> = Vec::with_capacity(whole.len());
        for _ in whole {
            let at = r.offset();
            let entry = entry(&mut r)?;
            if found.last().is_some_and(|last| prefix(last) > prefix(&entry)) {
                return Err(FormatError::Order { at, what: self.what });
            }
            found.push(entry);
        }
        // In one order now, an entry that is not exactly ours names a wrong place, or one place twice.
        let mut ordered = found.clone();
        ordered.sort_unstable();
        match ordered.iter().zip(whole).position(|(found, expected)| found != expected) {
            None => Ok(found),
            Some(n) => {
                let at = self.offset + n as u64 * self.len as u64;
                Err(FormatError::Payload {
                    at,
                    reason: format!("entry {n} of the {} names no such row", self.what),
                })
            }
        }
    }
}

/// Row numbers of a shard within its limit always fit; beyond it, `encode` has refused already.
fn narrow(row: u64) -> u32 {
    u32::try_from(row).unwrap_or(u32::MAX)
}
