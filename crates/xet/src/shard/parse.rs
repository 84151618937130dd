//! Reads shards: whole, or in pieces as they arrive.

use crate::cursor::Reader;
use crate::error::{FormatError, expect_number, expect_range};
use crate::hash::{RangeHash, Sha256};
use crate::limits;
use crate::shard::footer::Footer;
use crate::shard::record::{FileHead, Header, RECORD_LEN, Record, XorbHead};
use crate::shard::tables::Tables;
use crate::shard::{FileEntry, Shard, Term, XorbEntry};

/// What a parser has seen, each with the offset where it began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The header, which may lie about the footer.
    Header(Header),
    /// One file, whole.
    File {
        /// Offset of its block.
        at: u64,
        /// What it says.
        file: FileEntry,
    },
    /// The xorb section begins.
    Xorbs {
        /// Its offset.
        at: u64,
    },
    /// One xorb, whole.
    Xorb {
        /// Offset of its block.
        at: u64,
        /// What it says.
        xorb: XorbEntry,
    },
    /// The second bookend has passed. Whatever follows is not looked at.
    End {
        /// Offset after it.
        at: u64,
    },
}

/// Takes a shard in pieces of any size and tells what is in it. Holds one file or xorb, and one partial record.
///
/// ```
/// # use xet::shard::{Event, Form, ShardBuilder, ShardParser};
/// # let bytes = ShardBuilder::default().encode(&Form::Upload)?;
/// let mut parser = ShardParser::default();
/// for mut piece in bytes.chunks(7) {
///     while let Some(event) = parser.next(&mut piece)? {
///         if let Event::File { file, .. } = event {
///             println!("{}", file.hash);
///         }
///     }
/// }
/// parser.finish()?;
/// # Ok::<(), xet::FormatError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct ShardParser {
    state: State,
    /// The record that is arriving.
    partial: Vec<u8>,
    /// Where it began.
    offset: u64,
    /// Whether the files have range hashes, once one file told.
    verified: Option<bool>,
}

#[derive(Debug, Clone, Default)]
enum State {
    #[default]
    Header,
    /// Between files.
    Files,
    File(FileBlock),
    /// Between xorbs.
    Xorbs,
    Xorb(XorbBlock),
    End,
}

#[derive(Debug, Clone)]
struct FileBlock {
    at: u64,
    head: FileHead,
    file: FileEntry,
}

#[derive(Debug, Clone)]
struct XorbBlock {
    at: u64,
    head: XorbHead,
    xorb: XorbEntry,
}

impl ShardParser {
    /// A parser that begins at the block of a file, which stands at `offset`.
    pub(crate) fn at_file(offset: u64) -> Self {
        Self { state: State::Files, offset, ..Self::default() }
    }

    /// A parser that begins at the block of a xorb, which stands at `offset`.
    pub(crate) fn at_xorb(offset: u64) -> Self {
        Self { state: State::Xorbs, offset, ..Self::default() }
    }

    /// Takes bytes off `piece` up to the next event. `None`: the piece is used up, or the end has passed.
    pub fn next(&mut self, piece: &mut &[u8]) -> Result<Option<Event>, FormatError> {
        while !matches!(self.state, State::End) {
            let missing = RECORD_LEN - self.partial.len();
            let Some((taken, rest)) = piece.split_at_checked(missing) else {
                self.partial.extend_from_slice(piece);
                *piece = &[];
                return Ok(None);
            };
            *piece = rest;
            let event = match <&[u8; RECORD_LEN]>::try_from(taken) {
                Ok(record) => self.take(record),
                Err(_) => {
                    let mut record = [0; RECORD_LEN];
                    let (head, tail) = record.split_at_mut(self.partial.len());
                    head.copy_from_slice(&self.partial);
                    tail.copy_from_slice(taken);
                    self.partial.clear();
                    self.take(&record)
                }
            };
            if let Some(event) = event? {
                return Ok(Some(event));
            }
        }
        Ok(None)
    }

    /// Gives every event of `piece` to `sink`.
    pub fn push(&mut self, mut piece: &[u8], mut sink: impl FnMut(Event)) -> Result<(), FormatError> {
        while let Some(event) = self.next(&mut piece)? {
            sink(event);
        }
        Ok(())
    }

    /// Whether the second bookend has passed.
    pub fn is_done(&self) -> bool {
        matches!(self.state, State::End)
    }

    /// Fails unless the second bookend has passed; tells the offset after it.
    pub fn finish(self) -> Result<u64, FormatError> {
        let what = match self.state {
            State::Header => "shard header",
            State::Files | State::File(_) => "file section",
            State::Xorbs | State::Xorb(_) => "xorb section",
            State::End => return Ok(self.offset),
        };
        let left = self.partial.len() as u64;
        Err(FormatError::Truncated { at: self.offset, what, needed: RECORD_LEN as u64, left })
    }

    /// Takes the record at `self.offset`.
    fn take(&mut self, bytes: &[u8; RECORD_LEN]) -> Result<Option<Event>, FormatError> {
        let at = self.offset;
        self.offset += RECORD_LEN as u64;
        let record = Record::parse(bytes);
        // Inside a block this was checked at its head; between blocks an endless row of empty ones must end too.
        expect_range(at, "bytes of a shard's sections", 0, limits::SHARD_BYTES_MAX, self.offset)?;
        match std::mem::replace(&mut self.state, State::End) {
            State::Header => {
                let header = Header::parse(&mut Reader::at(bytes, at))?;
                self.state = State::Files;
                Ok(Some(Event::Header(header)))
            }
            State::Files if record.is_bookend() => {
                self.state = State::Xorbs;
                Ok(Some(Event::Xorbs { at: self.offset }))
            }
            State::Files => {
                let head = FileHead::from(record);
                self.check_fits(at, "number of terms", head.terms, head.records_after())?;
                let verified = *self.verified.get_or_insert(head.with_verification());
                let found = u64::from(head.with_verification());
                expect_number(at + 32, "verification flag", u64::from(verified), found)?;
                let file = FileEntry {
                    hash: head.hash,
                    terms: Vec::new(),
                    verification: verified.then(Vec::new),
                    sha256: None,
                };
                Ok(self.file_or_wait(FileBlock { at, head, file }))
            }
            State::File(mut block) => {
                block.take(at, record)?;
                Ok(self.file_or_wait(block))
            }
            State::Xorbs if record.is_bookend() => Ok(Some(Event::End { at: self.offset })),
            State::Xorbs => {
                let head = XorbHead::from(record);
                self.check_fits(at, "number of chunks", head.chunks, u64::from(head.chunks))?;
                Ok(self.xorb_or_wait(XorbBlock { at, head, xorb: head.into() }))
            }
            State::Xorb(mut block) => {
                block.xorb.chunks.push(record.into());
                Ok(self.xorb_or_wait(block))
            }
            State::End => Ok(None),
        }
    }

    /// A block that cannot end within the largest shard is refused before its first record.
    fn check_fits(&self, at: u64, what: &'static str, found: u32, records: u64) -> Result<(), FormatError> {
        let room = limits::SHARD_BYTES_MAX.saturating_sub(self.offset) / RECORD_LEN as u64;
        if records <= room {
            return Ok(());
        }
        Err(FormatError::Range { at: at + 36, what, min: 0, max: room, found: u64::from(found) })
    }

    fn file_or_wait(&mut self, block: FileBlock) -> Option<Event> {
        if block.is_whole() {
            self.state = State::Files;
            return Some(Event::File { at: block.at, file: block.file });
        }
        self.state = State::File(block);
        None
    }

    fn xorb_or_wait(&mut self, block: XorbBlock) -> Option<Event> {
        if block.xorb.chunks.len() as u64 == u64::from(block.head.chunks) {
            self.state = State::Xorbs;
            return Some(Event::Xorb { at: block.at, xorb: block.xorb });
        }
        self.state = State::Xorb(block);
        None
    }
}

impl FileBlock {
    /// Takes the next record of the block: terms, then range hashes, then metadata.
    fn take(&mut self, at: u64, record: Record) -> Result<(), FormatError> {
        let terms = u64::from(self.head.terms);
        if (self.file.terms.len() as u64) < terms {
            self.file.terms.push(Term::parse(at, record)?);
            return Ok(());
        }
        match &mut self.file.verification {
            Some(hashes) if (hashes.len() as u64) < terms => hashes.push(RangeHash(record.hash)),
            _ => self.file.sha256 = Some(Sha256::from_field(*record.hash.as_bytes())),
        }
        Ok(())
    }

    fn is_whole(&self) -> bool {
        self.file.records() == 1 + self.head.records_after()
    }
}

impl Shard {
    /// Parses a shard as clients send it. Ends at the second bookend, whatever the header says of a footer.
    pub fn parse_upload(bytes: &[u8]) -> Result<Self, FormatError> {
        Ok(Sections::parse(bytes)?.shard)
    }

    /// Parses a shard that must have a footer, and checks all the footer and the tables say.
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

/// The two sections, and where they lay.
struct Sections {
    shard: Shard,
    xorbs_at: u64,
    end: u64,
}

impl Sections {
    fn parse(mut bytes: &[u8]) -> Result<Self, FormatError> {
        let shard =
            Shard { header: Header::UPLOAD, files: vec![], xorbs: vec![], tables: None, footer: None };
        let mut sections = Self { shard, xorbs_at: 0, end: 0 };
        let mut parser = ShardParser::default();
        while let Some(event) = parser.next(&mut bytes)? {
            match event {
                Event::Header(header) => sections.shard.header = header,
                Event::File { file, .. } => sections.shard.files.push(file),
                Event::Xorbs { at } => sections.xorbs_at = at,
                Event::Xorb { xorb, .. } => sections.shard.xorbs.push(xorb),
                Event::End { .. } => {}
            }
        }
        sections.end = parser.finish()?;
        Ok(sections)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::{FileHash, XorbHash};
    use crate::shard::record::FILE_WITH_VERIFICATION;

    /// A count that could be true makes no room; only records do.
    #[test]
    fn a_large_count_alone_allocates_nothing() {
        let (flags, terms) = (FILE_WITH_VERIFICATION, 600_000);
        let file = Record::from(FileHead { hash: FileHash::ZERO, flags, terms }).encode();
        let mut parser = ShardParser::default();
        parser.push(&Header::UPLOAD.encode(), |_| {}).unwrap();
        parser.push(&file, |_| panic!("no file yet")).unwrap();
        let State::File(block) = &parser.state else { panic!("inside a file") };
        assert_eq!(block.file.terms.capacity() + block.file.verification.as_ref().unwrap().capacity(), 0);

        let head =
            XorbHead { hash: XorbHash::ZERO, flags: 0, chunks: 1_300_000, raw_bytes: 0, stored_bytes: 0 };
        let mut parser = ShardParser::at_xorb(96);
        parser.push(&Record::from(head).encode(), |_| panic!("no xorb yet")).unwrap();
        let State::Xorb(block) = &parser.state else { panic!("inside a xorb") };
        assert_eq!(block.xorb.chunks.capacity(), 0);
    }

    #[test]
    fn a_finished_parser_takes_nothing_more() {
        let bytes = crate::shard::build::encode(&[], &[], &crate::shard::Form::Upload).unwrap();
        let mut parser = ShardParser::default();
        parser.push(&bytes, |_| {}).unwrap();
        assert!(parser.is_done());
        let mut more: &[u8] = &[1, 2, 3];
        assert_eq!(parser.next(&mut more).unwrap(), None);
        assert_eq!(more.len(), 3);
        assert_eq!(parser.finish().unwrap(), 144);
    }
}
