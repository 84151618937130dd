//! Records from a stream: a pipe, a download, standard input. The index is not needed, and nothing is sought.

use std::io::{self, Read};

use crate::cursor::Reader;
use crate::error::{Cause, Error, FormatError};
use crate::layout::{EndMarker, RecordHeader};
use crate::record::{Record, RecordRef, Verify};

/// Reads records in the order they come.
///
/// A stream that ends before the end marker was cut: that is an error, after every whole record was given.
#[derive(Debug)]
pub struct StreamReader<R> {
    input: R,
    name: String,
    verify: Verify,
    record_bytes_max: u64,
    buffer: Vec<u8>,
    /// Bytes of `buffer` that were read and not yet given.
    start: usize,
    end: usize,
    /// Offset of `start` in the pack.
    at: u64,
    ordinal: u64,
    /// After the end, and after damage that hides where the next record begins.
    over: bool,
}

impl<R: Read> StreamReader<R> {
    /// Reads a pack from its first byte on. A record of more than `record_bytes_max` bytes is refused.
    pub fn new(input: R, name: impl Into<String>, verify: Verify, record_bytes_max: u64) -> Self {
        Self {
            input,
            name: name.into(),
            verify,
            record_bytes_max,
            buffer: Vec::new(),
            start: 0,
            end: 0,
            at: 0,
            ordinal: 0,
            over: false,
        }
    }

    /// The next record, decoded; none after the end marker.
    pub fn next_record(&mut self) -> Result<Option<Record>, Error> {
        let max = self.record_bytes_max;
        self.next_with(|record| record.to_record(max))
    }

    /// Lets `visit` see the next record where it lies in the buffer; none after the end marker.
    ///
    /// After an error in a record's data the next call goes on behind it; after one in a record's header nothing follows.
    pub fn next_with<T>(
        &mut self,
        mut visit: impl FnMut(&RecordRef<'_>) -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        if self.over {
            return Ok(None);
        }
        let (ordinal, at) = (self.ordinal, self.at);
        let size = match self.next_size() {
            Ok(Some(size)) => size,
            ended => {
                self.over = true;
                return ended.map(|_| None).map_err(|error| error.at_ordinal(ordinal).in_pack(&self.name));
            }
        };
        let block = self.buffer.get(self.start..self.start + size).unwrap_or_default();
        let record = match RecordRef::parse(block, at, self.verify) {
            Ok(record) => record,
            Err(error) => {
                // A size that cannot be believed leads nowhere.
                self.over = true;
                return Err(Error::from(error).at_ordinal(ordinal).in_pack(&self.name));
            }
        };
        let seen = visit(&record);
        self.start += size;
        self.at += size as u64;
        self.ordinal += 1;
        seen.map(Some).map_err(|error| error.at_ordinal(ordinal).in_pack(&self.name))
    }

    /// The size of the next record if all of it seems to be in the buffer. Its CRC is compared with the rest of it.
    #[inline]
    fn buffered_size(&self) -> Option<usize> {
        let head: &[u8; 12] = self.buffer.get(self.start..self.end)?.first_chunk()?;
        let (size, magic) = head.split_first_chunk::<8>()?;
        let size = u64::from_le_bytes(*size);
        let fits = size >= RecordHeader::LEN as u64
            && size.is_multiple_of(8)
            && size <= (self.end - self.start) as u64
            && size <= self.record_bytes_max;
        if fits && magic == RecordHeader::MAGIC { usize::try_from(size).ok() } else { None }
    }

    /// Makes the next record whole in the buffer and tells its size; none at the end marker.
    fn next_size(&mut self) -> Result<Option<usize>, Error> {
        if let Some(size) = self.buffered_size() {
            return Ok(Some(size));
        }
        self.fill(16, "record header or end marker")?;
        let head = self.buffer.get(self.start..self.end).unwrap_or_default();
        let mut r = Reader::at(head, self.at);
        if head.get(8..12) == Some(&EndMarker::MAGIC) {
            EndMarker::parse(&mut r)?;
            return Ok(None);
        }
        self.fill(RecordHeader::LEN, "record header")?;
        let head = self.buffer.get(self.start..self.start + RecordHeader::LEN).unwrap_or_default();
        let mut r = Reader::at(head, self.at);
        let record_size = r.u64("record header")?;
        crate::error::expect_magic(
            self.at + 8,
            "record magic",
            &RecordHeader::MAGIC,
            &r.array::<4>("record header")?,
        )?;
        if self.verify != Verify::Off {
            // The size is believed only after its CRC: a wrong one would be waited for.
            r.take("record header", 8)?;
            let (meta_len, key_len) = (r.u32("record header")?, r.u16("record header")?);
            let strings = u64::from(meta_len) + u64::from(key_len);
            self.expect_room(strings)?;
            self.fill(RecordHeader::LEN + as_len(strings).next_multiple_of(8), "record key and metadata")?;
            let head = self.buffer.get(self.start..self.end).unwrap_or_default();
            RecordHeader::parse(&mut Reader::at(head, self.at))?;
        }
        self.expect_room(record_size)?;
        if record_size < RecordHeader::LEN as u64 || !record_size.is_multiple_of(8) {
            return Err(
                FormatError::Unaligned { at: self.at, what: "record size", found: record_size }.into()
            );
        }
        let size = as_len(record_size);
        self.fill(size, "record")?;
        Ok(Some(size))
    }

    fn expect_room(&self, found: u64) -> Result<(), Error> {
        let max = self.record_bytes_max;
        if found <= max {
            return Ok(());
        }
        Err(Error::from(Cause::TooLarge { what: "record", found, max }).at_offset(self.at))
    }

    /// Reads until there are `needed_bytes` bytes. The buffer grows with what arrives, at most doubled at a time.
    fn fill(&mut self, needed_bytes: usize, what: &'static str) -> Result<(), Error> {
        while self.end - self.start < needed_bytes {
            if self.start > 0 && self.start + needed_bytes > self.buffer.len() {
                self.buffer.copy_within(self.start..self.end, 0);
                self.end -= self.start;
                self.start = 0;
            }
            if self.end == self.buffer.len() {
                let len = (self.buffer.len() * 2).max(BUFFER_BYTES);
                self.buffer.resize(len, 0);
            }
            let room = self.buffer.get_mut(self.end..).unwrap_or_default();
            match self.input.read(room) {
                Ok(0) => {
                    let (needed, left) = (needed_bytes as u64, (self.end - self.start) as u64);
                    return Err(FormatError::Truncated { at: self.at, what, needed, left }.into());
                }
                Ok(read) => self.end += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::from(error).at_offset(self.at)),
            }
        }
        Ok(())
    }
}

impl<R: Read> Iterator for StreamReader<R> {
    type Item = Result<Record, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_record().transpose()
    }
}

fn as_len(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// Bytes of one read. A larger one leaves the processor's cache before it is checked.
const BUFFER_BYTES: usize = 1 << 20;
