//! Records one after another, by the index: neighbours are read together.

use std::ops::Range;

use crate::error::{Error, ErrorKind};
use crate::read::{OnError, ShardPackReader};
use crate::record::{Record, RecordRef};

/// Records in their order.
#[derive(Debug)]
pub struct Records<'a> {
    reader: &'a ShardPackReader,
    ordinals: Range<u64>,
    /// Bytes of the pack from `buffered_at` on.
    buffer: Vec<u8>,
    buffered_at: u64,
    buffered: usize,
}

impl<'a> Records<'a> {
    pub(super) fn new(reader: &'a ShardPackReader, ordinals: Range<u64>) -> Self {
        let ordinals = ordinals.start..ordinals.end.min(reader.len());
        Self { reader, ordinals, buffer: Vec::new(), buffered_at: 0, buffered: 0 }
    }

    /// Lets `visit` see the next record where it lies in the buffer: nothing is copied. None after the last.
    pub fn next_with<T>(
        &mut self,
        mut visit: impl FnMut(&RecordRef<'_>) -> Result<T, Error>,
    ) -> Option<Result<T, Error>> {
        loop {
            let ordinal = self.ordinals.next()?;
            let seen = self.see(ordinal, &mut visit);
            match seen {
                Err(error) if error.kind() == ErrorKind::Corrupt => match self.reader.options.on_error {
                    OnError::Raise => return Some(Err(error)),
                    OnError::Skip => {}
                    // By itself, past this buffer and every other.
                    OnError::Refetch => return Some(self.reader.with_record(ordinal, &mut visit)),
                },
                seen => return Some(seen),
            }
        }
    }

    fn see<T>(
        &mut self,
        ordinal: u64,
        visit: &mut impl FnMut(&RecordRef<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let reader = self.reader;
        let range = reader.record_range(ordinal)?;
        let len = range.end - range.start;
        if reader.source.as_slice().is_some() || len > BUFFER_BYTES {
            return reader.with_record_in(ordinal, &mut self.buffer, |record| {
                self.buffered = 0;
                visit(record)
            });
        }
        let held = self.buffered_at..self.buffered_at + self.buffered as u64;
        if !(held.start <= range.start && range.end <= held.end) {
            let read = self.fill(&range).map_err(|error| error.at_offset(range.start));
            reader.named(read, ordinal)?;
        }
        let start = usize::try_from(range.start - self.buffered_at).unwrap_or(usize::MAX);
        let block = usize::try_from(len).ok().and_then(|len| self.buffer.get(start..start.checked_add(len)?));
        let record = RecordRef::parse(block.unwrap_or_default(), range.start, reader.options.verify);
        reader.named(record.map_err(Error::from).and_then(|record| visit(&record)), ordinal)
    }

    /// Reads from the record at `range` on as far as records reach and the buffer holds.
    fn fill(&mut self, range: &Range<u64>) -> Result<(), Error> {
        let last = self.ordinals.end.checked_sub(1).and_then(|last| self.reader.index.record_range(last));
        let end = last.map_or(range.end, |last| last.end).min(range.start + BUFFER_BYTES).max(range.end);
        let len = usize::try_from(end - range.start).unwrap_or(usize::MAX);
        if self.buffer.len() < len {
            self.buffer.resize(len, 0);
        }
        self.buffered = 0;
        let place = self.buffer.get_mut(..len).unwrap_or_default();
        self.reader.source.read_at(range.start, place)?;
        (self.buffered_at, self.buffered) = (range.start, len);
        Ok(())
    }
}

impl Iterator for Records<'_> {
    type Item = Result<Record, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let max = self.reader.options.entry_bytes_max;
        self.next_with(|record| record.to_record(max))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, usize::try_from(self.ordinals.end - self.ordinals.start).ok())
    }
}

/// Bytes of one read. A larger one leaves the processor's cache before it is checked.
const BUFFER_BYTES: u64 = 1 << 20;
