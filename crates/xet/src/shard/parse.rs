//! Reads shards: row by row, block by block.

use crate::cursor::Reader;
use crate::error::{FormatError, expect_number, expect_range};
use crate::hash::{RangeHash, Sha256};
use crate::limits;
use crate::shard::footer::Footer;
use crate::shard::row::{FileHead, Header, ROW_LEN, Row, XorbHead};
use crate::shard::tables::Tables;
use crate::shard::{FileEntry, Shard, Term, XorbEntry};

/// Reads the blocks of the two sections one after another.
#[derive(Debug, Clone)]
pub(crate) struct BlockReader<'a> {
    bytes: &'a [u8],
    /// Offset in the shard of the next row.
    offset: u64,
    /// Whether the files have range hashes, as the first file says.
    verified: Option<bool>,
}

impl<'a> BlockReader<'a> {
    /// A reader of `bytes`, whose first row stands at `offset` of the shard.
    pub(crate) fn new(bytes: &'a [u8], offset: u64) -> Self {
        Self { bytes, offset, verified: None }
    }

    /// The next file; `None` at the bookend of the file section.
    pub(crate) fn file(&mut self) -> Result<Option<FileEntry>, FormatError> {
        const SECTION: &str = "file section";
        let at = self.offset;
        let row = self.row(SECTION)?;
        if row.is_bookend() {
            return Ok(None);
        }
        let head = FileHead::from(row);
        self.check_fits(at, "number of terms", head.terms, head.rows_after())?;
        let verified = *self.verified.get_or_insert(head.with_verification());
        let found = u64::from(head.with_verification());
        expect_number(at + 32, "verification flag", u64::from(verified), found)?;

        // Grows with the rows read, never by their announced number.
        let mut terms = Vec::new();
        for _ in 0..head.terms {
            let at = self.offset;
            terms.push(Term::parse(at, self.row(SECTION)?)?);
        }
        let mut verification = verified.then(Vec::new);
        if let Some(hashes) = &mut verification {
            for _ in 0..head.terms {
                hashes.push(RangeHash(self.row(SECTION)?.hash));
            }
        }
        let sha256 = match head.with_metadata() {
            true => Some(Sha256::from_field(*self.row(SECTION)?.hash.as_bytes())),
            false => None,
        };
        Ok(Some(FileEntry { hash: head.hash, terms, verification, sha256 }))
    }

    /// The next xorb; `None` at the bookend of the xorb section.
    pub(crate) fn xorb(&mut self) -> Result<Option<XorbEntry>, FormatError> {
        const SECTION: &str = "xorb section";
        let at = self.offset;
        let row = self.row(SECTION)?;
        if row.is_bookend() {
            return Ok(None);
        }
        let head = XorbHead::from(row);
        self.check_fits(at, "number of chunks", head.chunks, u64::from(head.chunks))?;
        let mut xorb = XorbEntry::from(head);
        for _ in 0..head.chunks {
            xorb.chunks.push(self.row(SECTION)?.into());
        }
        Ok(Some(xorb))
    }

    fn row(&mut self, section: &'static str) -> Result<Row, FormatError> {
        let Some((row, rest)) = self.bytes.split_first_chunk::<ROW_LEN>() else {
            let (at, needed, left) = (self.offset, ROW_LEN as u64, self.bytes.len() as u64);
            return Err(FormatError::Truncated { at, what: section, needed, left });
        };
        let at = self.offset;
        self.bytes = rest;
        self.offset += ROW_LEN as u64;
        // Inside a block the head was checked already; an endless row of empty blocks must end, too.
        expect_range(at, "bytes of a shard's sections", 0, limits::SHARD_BYTES_MAX, self.offset)?;
        Ok(Row::parse(row))
    }

    /// Refuses a block that cannot end within the largest shard before its first row is read.
    fn check_fits(&self, at: u64, what: &'static str, found: u32, rows: u64) -> Result<(), FormatError> {
        let rows_max = limits::SHARD_BYTES_MAX.saturating_sub(self.offset) / ROW_LEN as u64;
        if rows <= rows_max {
            return Ok(());
        }
        Err(FormatError::Range { at: at + 36, what, min: 0, max: rows_max, found: u64::from(found) })
    }
}

impl Shard {
    /// Parses a shard as clients send it. Ends at the second bookend, whatever the footer size in the header.
    pub fn parse_upload(bytes: &[u8]) -> Result<Self, FormatError> {
        Ok(Sections::parse(bytes)?.shard)
    }

    /// Parses a shard that must have a footer, and checks everything that the footer and the tables say.
    pub fn parse_stored(bytes: &[u8]) -> Result<Self, FormatError> {
        let header = Header::parse(&mut Reader::new(bytes))?;
        let expected = Header::STORED.footer_bytes;
        expect_number(40, "footer size", expected, header.footer_bytes)?;
        let footer = Footer::parse_at_end(bytes)?;

        let until = usize::try_from(footer.file_table_offset).ok();
        let sections = until.and_then(|until| bytes.get(..until)).unwrap_or_default();
        let Sections { mut shard, xorbs_at, end } = Sections::parse(sections)?;
        let at = footer.footer_offset;
        expect_number(at + 16, "xorb section offset", xorbs_at, footer.xorb_section_offset)?;
        expect_number(at + 24, "file table offset", end, footer.file_table_offset)?;
        let tables = Tables::parse(bytes, &footer, &shard.files, &shard.xorbs)?;

        shard.tables = (!tables.is_empty()).then_some(tables);
        shard.footer = Some(footer);
        Ok(shard)
    }
}

/// The two sections and their offsets.
struct Sections {
    shard: Shard,
    xorbs_at: u64,
    end: u64,
}

impl Sections {
    fn parse(bytes: &[u8]) -> Result<Self, FormatError> {
        let header = bytes.first_chunk::<ROW_LEN>().ok_or(FormatError::Truncated {
            at: 0,
            what: "shard header",
            needed: ROW_LEN as u64,
            left: bytes.len() as u64,
        })?;
        let header = Header::parse(&mut Reader::new(header))?;
        let mut blocks = BlockReader::new(bytes.get(ROW_LEN..).unwrap_or_default(), ROW_LEN as u64);
        let (mut files, mut xorbs) = (Vec::new(), Vec::new());
        while let Some(file) = blocks.file()? {
            files.push(file);
        }
        let xorbs_at = blocks.offset;
        while let Some(xorb) = blocks.xorb()? {
            xorbs.push(xorb);
        }
        Ok(Self {
            shard: Shard { header, files, xorbs, tables: None, footer: None },
            xorbs_at,
            end: blocks.offset,
        })
    }
}
