//! Reader: opens a pack with at most two reads and gives any record by number, key or offset.

mod batch;
mod entry;
mod records;
mod stream;

pub use batch::RunOptions;
pub use records::Records;
pub use stream::StreamReader;

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crate::error::{Cause, Error, ErrorKind, FormatError};
use crate::index::{PackIndex, no_record};
use crate::layout::{Footer, RecordHeader};
use crate::outline::has_pack_magic;
use crate::record::{Record, RecordRef, Verify};
use crate::recover;
use crate::source::{FileSource, Source, zeros};

/// Action for damaged records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnError {
    /// It is an error.
    #[default]
    Raise,
    /// It is left out, and counted.
    Skip,
    /// It is read once more, past every cache; then it is an error.
    Refetch,
}

/// Options of a reader.
#[derive(Debug, Clone)]
pub struct ReadOptions {
    /// Parts whose CRC is verified.
    pub verify: Verify,
    /// Action for damaged records.
    pub on_error: OnError,
    /// Content of more bytes is not decoded.
    pub entry_bytes_max: u64,
    /// A record of more bytes is not read: its size is a number of the pack until its bytes are here.
    pub record_bytes_max: u64,
    /// Merging of reads in a batch.
    pub runs: RunOptions,
    /// Of a pack whose end is missing or damaged, records are looked for one by one.
    pub recover: bool,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self {
            verify: Verify::Crc,
            on_error: OnError::Raise,
            entry_bytes_max: 1 << 30,
            record_bytes_max: 16 << 30,
            runs: RunOptions::default(),
            recover: false,
        }
    }
}

/// An open pack. Cheap to share: all methods take `&self`, and there is no position.
#[derive(Debug, Clone)]
pub struct ShardPackReader {
    source: Arc<dyn Source>,
    index: Arc<PackIndex>,
    options: ReadOptions,
}

impl ShardPackReader {
    /// Opens a local file.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::open_with(path, ReadOptions::default())
    }

    /// Opens a local file with all options.
    pub(crate) fn open_with(path: impl AsRef<Path>, options: ReadOptions) -> Result<Self, Error> {
        let path = path.as_ref();
        let source = FileSource::open(path);
        let source = source.map_err(|error| Error::from(error).in_pack(&path.display().to_string()))?;
        Self::from_source(Arc::new(source), options)
    }

    /// Opens any source: one read of its end, and one more when the index is longer than that.
    pub fn from_source(source: Arc<dyn Source>, options: ReadOptions) -> Result<Self, Error> {
        let index = match open_index(source.as_ref()) {
            Err(error) if options.recover && error.kind() == ErrorKind::Corrupt => {
                let found = recover::find_records(source.as_ref(), |_| {});
                found.map(|found| PackIndex::of_found(&found.ranges(), found.size))
            }
            index => index,
        };
        let index = index.map_err(|error| error.in_pack(source.name()))?;
        Ok(Self { source, index: Arc::new(index), options })
    }

    /// Name of the pack in messages: its path or URL.
    pub fn name(&self) -> &str {
        self.source.name()
    }

    /// Source of the bytes.
    pub fn source(&self) -> &Arc<dyn Source> {
        &self.source
    }

    /// Index of the pack.
    pub fn index(&self) -> &PackIndex {
        &self.index
    }

    /// Options it is read with.
    pub fn options(&self) -> &ReadOptions {
        &self.options
    }

    /// The same pack, read in another way.
    pub fn with_options(&self, options: ReadOptions) -> Self {
        Self { options, ..self.clone() }
    }

    /// Number of records.
    pub fn len(&self) -> u64 {
        self.index.len()
    }

    /// Whether there is no record.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// A record by its number.
    pub fn read_record(&self, ordinal: u64) -> Result<Record, Error> {
        self.with_record(ordinal, |record| record.to_record(self.options.entry_bytes_max))
    }

    /// A record by where it begins, as the index states it.
    pub fn read_record_at_offset(&self, offset: u64) -> Result<Record, Error> {
        let ordinal = self.index.ordinal_at(offset).ok_or_else(|| {
            let why = "no record begins here; offsets are those of the index";
            Error::invalid(why).at_offset(offset).in_pack(self.name())
        })?;
        self.read_record(ordinal)
    }

    /// A record by its key; of several with the same, the first.
    pub fn read_key(&self, key: &str) -> Result<Record, Error> {
        match self.find(key)? {
            Some(ordinal) => self.read_record(ordinal),
            None => Err(Error::from(Cause::NotFound).in_record(key).in_pack(self.name())),
        }
    }

    /// The number of the record of that key; of several, the first.
    pub fn find(&self, key: &str) -> Result<Option<u64>, Error> {
        let candidates = self.index.candidates(key);
        let ordinals: Box<dyn Iterator<Item = u64>> = match candidates {
            Some(candidates) => Box::new(candidates.into_iter()),
            // No key hashes: the headers are read once, one after another.
            None => Box::new(0..self.len()),
        };
        for ordinal in ordinals {
            // A hash may be that of two keys: only the stored key decides.
            match self.read_key_of(ordinal) {
                Ok(found) if found == key => return Ok(Some(ordinal)),
                Err(error) if self.options.on_error == OnError::Raise => return Err(error),
                _ => {}
            }
        }
        Ok(None)
    }

    /// The key of a record. Reads no more of it than its header.
    pub fn read_key_of(&self, ordinal: u64) -> Result<String, Error> {
        let range = self.record_range(ordinal)?;
        let mut len = KEY_READ_BYTES;
        loop {
            let end = range.end.min(range.start.saturating_add(len));
            let bytes = self.read_range(range.start..end, ordinal)?;
            let check = self.options.verify != Verify::Off;
            match RecordHeader::parse_with(&mut crate::cursor::Reader::at(&bytes, range.start), check) {
                Ok(header) => return Ok(header.key.to_owned()),
                // Key and metadata are longer than the guess.
                Err(FormatError::Truncated { at, needed, .. }) if end < range.end => {
                    len = (at - range.start).saturating_add(needed).saturating_add(KEY_READ_BYTES);
                }
                Err(error) => {
                    return Err(Error::from(error).at_ordinal(ordinal).in_pack(self.name()));
                }
            }
        }
    }

    /// Lets `visit` see a record without copying or decoding more than it uses.
    pub fn with_record<T>(
        &self,
        ordinal: u64,
        visit: impl FnMut(&RecordRef<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut buffer = Vec::new();
        self.with_record_in(ordinal, &mut buffer, visit)
    }

    /// [`with_record`](Self::with_record) with a buffer that is used again and again: nothing is allocated for each.
    pub fn with_record_in<T>(
        &self,
        ordinal: u64,
        buffer: &mut Vec<u8>,
        mut visit: impl FnMut(&RecordRef<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let range = self.record_range(ordinal)?;
        if let Some(block) = self.mapped(&range) {
            let seen = RecordRef::parse(block, range.start, self.options.verify);
            return self.named(seen.map_err(Error::from).and_then(|record| visit(&record)), ordinal);
        }
        let len = usize::try_from(range.end - range.start).map_err(|_| no_room(&range))?;
        // Grown, never shrunk: zeroing it anew for each record would cost as much as reading it.
        if buffer.len() < len {
            buffer.resize(len, 0);
        }
        let block = buffer.get_mut(..len).unwrap_or_default();
        let read = self
            .source
            .read_at(range.start, block)
            .map_err(|error| Error::from(error).at_offset(range.start));
        let seen = read.and_then(|()| {
            let record = RecordRef::parse(block, range.start, self.options.verify)?;
            visit(&record)
        });
        match seen {
            Err(error) if self.options.on_error == OnError::Refetch && error.kind() == ErrorKind::Corrupt => {
                let again = self.source.read_again(range.start, block).map_err(Error::from).and_then(|()| {
                    let record = RecordRef::parse(block, range.start, self.options.verify)?;
                    visit(&record)
                });
                self.named(again, ordinal)
            }
            seen => self.named(seen, ordinal),
        }
    }

    /// The bytes of a record.
    pub fn record_range(&self, ordinal: u64) -> Result<Range<u64>, Error> {
        let range = self.index.record_range(ordinal);
        let range = range.ok_or_else(|| no_record(ordinal, self.len()).in_pack(self.name()))?;
        let (found, max) = (range.end - range.start, self.options.record_bytes_max);
        if found > max {
            let error = Error::from(Cause::TooLarge { what: "record", found, max }).at_offset(range.start);
            return self.named(Err(error), ordinal);
        }
        Ok(range)
    }

    /// All records from the first on; damaged ones as [`ReadOptions::on_error`] says.
    pub fn iter_records(&self) -> Records<'_> {
        Records::new(self, 0..self.len())
    }

    /// The records of these numbers, in their order: neighbours are read together.
    pub fn records(&self, range: Range<u64>) -> Records<'_> {
        Records::new(self, range)
    }

    fn mapped(&self, range: &Range<u64>) -> Option<&[u8]> {
        let (start, end) = (usize::try_from(range.start).ok()?, usize::try_from(range.end).ok()?);
        self.source.as_slice()?.get(start..end)
    }

    fn read_range(&self, range: Range<u64>, ordinal: u64) -> Result<Vec<u8>, Error> {
        let mut bytes = zeros(range.end.saturating_sub(range.start))?;
        let read = self.source.read_at(range.start, &mut bytes);
        self.named(read.map_err(|error| Error::from(error).at_offset(range.start)), ordinal)?;
        Ok(bytes)
    }

    fn named<T>(&self, result: Result<T, Error>, ordinal: u64) -> Result<T, Error> {
        result.map_err(|error| error.at_ordinal(ordinal).in_pack(self.name()))
    }
}

fn no_room(range: &Range<u64>) -> Error {
    let found = range.end - range.start;
    Cause::TooLarge { what: "record", found, max: usize::MAX as u64 }.into()
}

/// Reads and parses the end of a pack.
fn open_index(source: &dyn Source) -> Result<PackIndex, Error> {
    let (size, tail) = source.read_tail(TAIL_BYTES)?;
    let at = size - tail.len() as u64;
    let footer_at = tail.len().saturating_sub(Footer::LEN);
    let footer_bytes = tail.get(footer_at..).unwrap_or_default();
    if !has_pack_magic(&[], footer_bytes) {
        return Err(not_whole(source, size));
    }
    let range = PackIndex::range(footer_bytes, size)?;
    if range.start >= at {
        let skipped = usize::try_from(range.start - at).unwrap_or(usize::MAX);
        return Ok(PackIndex::parse(tail.get(skipped..).unwrap_or_default(), size)?);
    }
    // Piece by piece: the size is what the source says, and a server may say anything.
    let mut all = Vec::new();
    let mut next = range.start;
    while next < at {
        let mut piece = zeros((at - next).min(INDEX_PIECE_BYTES))?;
        source.read_at(next, &mut piece)?;
        next += piece.len() as u64;
        if all.is_empty() && next == at {
            all = piece;
        } else {
            all.extend_from_slice(&piece);
        }
    }
    all.extend_from_slice(&tail);
    Ok(PackIndex::parse(&all, size)?)
}

/// Says whether bytes without a footer were a pack once.
fn not_whole(source: &dyn Source, size: u64) -> Error {
    let mut first = [0; 12];
    let begins = size >= 12 && source.read_at(0, &mut first).is_ok() && has_pack_magic(&first, &[]);
    if begins {
        let needed = Footer::LEN as u64;
        return FormatError::Truncated { at: size, what: "footer", needed, left: 0 }.into();
    }
    Error::invalid("not a ShardPack file: it neither begins nor ends like one")
}

/// Bytes of the first read: the footer, and the whole index of up to about 3,200 records.
const TAIL_BYTES: u64 = 64 << 10;

/// Bytes of each further read of a longer index: most take one, so opening takes two reads.
const INDEX_PIECE_BYTES: u64 = 256 << 20;

/// Bytes that are read for a key. Most headers with key and metadata are shorter.
const KEY_READ_BYTES: u64 = 256;
