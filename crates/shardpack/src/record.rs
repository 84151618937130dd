//! Record: a sample, borrowed from the bytes of its block or owned.

use std::borrow::Cow;

use crate::codec;
use crate::cursor::Reader;
use crate::error::{Cause, Error, FormatError, expect_crc, expect_number};
use crate::layout::{ALIGN_BYTES_MAX, Compression, EntryHeader, MetaFormat, RecordFlags, RecordHeader, crc};

/// CRCs that are verified when a record is read. Bounds are checked at every level.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Verify {
    /// Nothing.
    Off,
    /// Headers: keys, names, types and sizes are right, data may not be.
    Header,
    /// Headers and data.
    #[default]
    Crc,
}

/// A named file of a record, decoded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileEntry {
    /// Names it in its record, e.g. `left.jpg`.
    pub file_name: String,
    /// Content type, such as `image/jpeg`.
    pub content_type: String,
    /// Its content.
    pub data: Vec<u8>,
    /// How it was stored. For a writer, [`Compression::None`] is no wish of its own: the writer's method applies.
    pub compression: Compression,
}

/// A sample: a key, metadata of its own and named files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record {
    /// Names it.
    pub key: String,
    /// Belongs to the sample as a whole; may be empty.
    pub metadata: Vec<u8>,
    /// Format of the metadata.
    pub meta_format: MetaFormat,
    /// Effect in an overlay.
    pub flags: RecordFlags,
    /// Its files, in their order.
    pub file_entries: Vec<FileEntry>,
}

impl Record {
    /// The entry of that name.
    pub fn entry(&self, name: &str) -> Option<&FileEntry> {
        self.file_entries.iter().find(|entry| entry.file_name == name)
    }
}

/// A record in the bytes it was read from. Nothing is copied or decoded before it is used.
#[derive(Debug, Clone)]
pub struct RecordRef<'a> {
    header: RecordHeader<'a>,
    offset: u64,
    block: &'a [u8],
    entries: Reader<'a>,
    verify: Verify,
}

impl<'a> RecordRef<'a> {
    /// The record that `block`, whose first byte stands at `offset` in the pack, is from its first to its last byte.
    #[inline]
    pub fn parse(block: &'a [u8], offset: u64, verify: Verify) -> Result<Self, FormatError> {
        Self::parse_with(block, offset, verify, verify != Verify::Off)
    }

    /// [`parse`](Self::parse) of a record whose header may have been compared with its CRC already.
    #[inline]
    pub(crate) fn parse_with(
        block: &'a [u8],
        offset: u64,
        verify: Verify,
        check_header: bool,
    ) -> Result<Self, FormatError> {
        let mut r = Reader::at(block, offset);
        let header = RecordHeader::parse_with(&mut r, check_header)?;
        expect_number(offset, "record size", block.len() as u64, header.record_size)?;
        Ok(Self { header, offset, block, entries: r, verify })
    }

    /// Names the record.
    pub fn key(&self) -> &'a str {
        self.header.key
    }

    /// Belongs to the record as a whole; may be empty.
    pub fn metadata(&self) -> &'a [u8] {
        self.header.meta
    }

    /// Format of the metadata.
    pub fn meta_format(&self) -> MetaFormat {
        self.header.meta_format
    }

    /// Effect in an overlay.
    pub fn flags(&self) -> RecordFlags {
        self.header.flags
    }

    /// Offset in the pack.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Its bytes, from the first of the header to the last of the padding.
    pub fn block(&self) -> &'a [u8] {
        self.block
    }

    /// Entries it has.
    pub fn entry_count(&self) -> u32 {
        self.header.entry_count
    }

    /// Its entries in their order. What is damaged is an error that names the entry; damaged data ends nothing,
    /// a damaged header ends the list.
    #[inline]
    pub fn entries(&self) -> Entries<'a> {
        Entries {
            key: self.header.key,
            r: self.entries.clone(),
            left: self.header.entry_count,
            verify: self.verify,
        }
    }

    /// The first entry of that name. Only its own data is compared with its CRC.
    pub fn entry(&self, name: &str) -> Result<Option<EntryRef<'a>>, Error> {
        let headers = if self.verify == Verify::Crc { Verify::Header } else { self.verify };
        for entry in (Entries { verify: headers, ..self.entries() }) {
            let entry = entry?;
            if entry.name() == name {
                if self.verify == Verify::Crc {
                    entry.check().map_err(|error| error.in_record(self.key()))?;
                }
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }

    /// Goes through all entries, so that everything the level covers was compared.
    #[inline]
    pub fn check(&self) -> Result<(), Error> {
        self.entries().try_for_each(|entry| entry.map(drop))
    }

    /// Offset of the first padding byte that is not zero.
    pub(crate) fn dirty_padding(&self) -> Option<u64> {
        let mut entries = Entries { verify: Verify::Off, ..self.entries() };
        entries.by_ref().take_while(Result::is_ok).for_each(drop);
        entries.r.dirty_padding()
    }

    /// The record with every entry decoded, each of at most `entry_bytes_max` bytes.
    pub(crate) fn to_record(&self, entry_bytes_max: u64) -> Result<Record, Error> {
        // Not sized by the count: missing entries end the loop before memory does.
        let mut file_entries = Vec::new();
        for entry in self.entries() {
            let entry = entry?;
            let data =
                entry.content(entry_bytes_max).map_err(|error| error.in_record(self.key()))?.into_owned();
            file_entries.push(FileEntry {
                file_name: entry.name().to_owned(),
                content_type: entry.content_type().to_owned(),
                data,
                compression: entry.compression(),
            });
        }
        Ok(Record {
            key: self.key().to_owned(),
            metadata: self.metadata().to_vec(),
            meta_format: self.meta_format(),
            flags: self.flags(),
            file_entries,
        })
    }
}

/// The entries of a record, one after another.
#[derive(Debug, Clone)]
pub struct Entries<'a> {
    key: &'a str,
    r: Reader<'a>,
    left: u32,
    verify: Verify,
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<EntryRef<'a>, Error>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        match self.parse_next() {
            Ok(entry) => {
                let checked = if self.verify == Verify::Crc { entry.check() } else { Ok(()) };
                let ended = if self.left == 0 { self.check_end() } else { Ok(()) };
                Some(checked.and(ended).map(|()| entry).map_err(|error| error.in_record(self.key)))
            }
            Err(error) => {
                self.left = 0;
                Some(Err(Error::from(error).in_record(self.key)))
            }
        }
    }
}

impl<'a> Entries<'a> {
    #[inline]
    fn parse_next(&mut self) -> Result<EntryRef<'a>, FormatError> {
        let header_at = self.r.offset();
        let header = EntryHeader::parse_with(&mut self.r, self.verify != Verify::Off)?;
        let data_offset = self.r.offset();
        let stored = self.r.take("entry data", header.stored_size)?;
        self.r.skip_to_8("padding after the data")?;
        Ok(EntryRef { header, header_at, data_offset, stored })
    }

    /// After the last entry there is padding only.
    #[inline]
    fn check_end(&mut self) -> Result<(), Error> {
        let (at, bytes) = (self.r.offset(), self.r.left());
        if bytes >= ALIGN_BYTES_MAX {
            return Err(FormatError::Trailing { at, what: "last entry of the record", bytes }.into());
        }
        Ok(self.r.skip_padding("padding after the entries", bytes)?)
    }
}

/// An entry in the bytes it was read from.
#[derive(Debug, Clone)]
pub struct EntryRef<'a> {
    header: EntryHeader<'a>,
    header_at: u64,
    data_offset: u64,
    stored: &'a [u8],
}

impl<'a> EntryRef<'a> {
    /// Names the entry in its record.
    pub fn name(&self) -> &'a str {
        self.header.name
    }

    /// Content type; none for a code this version does not know.
    pub fn content_type(&self) -> &str {
        self.header.content_type.as_str().unwrap_or_default()
    }

    /// Compression of the data.
    pub fn compression(&self) -> Compression {
        self.header.compression
    }

    /// Bytes of the content.
    pub fn file_size(&self) -> u64 {
        self.header.file_size
    }

    /// The data as it is in the pack.
    pub fn stored(&self) -> &'a [u8] {
        self.stored
    }

    /// Offset of the entry's header in the pack.
    pub fn header_offset(&self) -> u64 {
        self.header_at
    }

    /// Offset of the data in the pack.
    pub fn data_offset(&self) -> u64 {
        self.data_offset
    }

    /// Compares the data with its CRC.
    #[inline]
    pub(crate) fn check(&self) -> Result<(), Error> {
        let found = crc(&[self.stored]);
        expect_crc(self.data_offset, "data", self.header.data_crc, found)
            .map_err(|error| Error::from(error).in_entry(self.name()))
    }

    /// The content: borrowed when it is stored as it is, decoded otherwise. More than `bytes_max` is refused unread.
    pub fn content(&self, bytes_max: u64) -> Result<Cow<'a, [u8]>, Error> {
        let place = |cause: Cause| Error::from(cause).in_entry(self.name()).at_offset(self.data_offset);
        let found = self.header.file_size;
        if found > bytes_max {
            return Err(place(Cause::TooLarge { what: "content", found, max: bytes_max }));
        }
        if self.compression() == Compression::None {
            return Ok(Cow::Borrowed(self.stored));
        }
        let content = codec::decode(self.compression(), self.stored, found);
        content.map(Cow::Owned).map_err(|why| place(Cause::Decode(why)))
    }
}
