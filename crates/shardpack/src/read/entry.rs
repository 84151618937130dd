//! One entry of a record alone, or a part of it: no more is read than that.

use std::ops::Range;

use crate::codec::{self, Frame};
use crate::cursor::Reader;
use crate::error::{Cause, Error};
use crate::layout::{Compression, EntryHeader, SectionKind};
use crate::read::ShardPackReader;
use crate::record::Verify;

impl ShardPackReader {
    /// The content of one entry of a record.
    pub fn read_entry(&self, ordinal: u64, name: &str) -> Result<Vec<u8>, Error> {
        let max = self.options.entry_bytes_max;
        self.with_record(ordinal, |record| match record.entry(name)? {
            Some(entry) => {
                let content = entry.content(max).map_err(|error| error.in_record(record.key()))?;
                Ok(content.into_owned())
            }
            None => Err(Error::from(Cause::NotFound).in_entry(name).in_record(record.key())),
        })
    }

    /// The frames of a record's chunked entries, as the directory states them: what a copy of the record needs.
    pub fn frames_of(&self, ordinal: u64) -> Vec<(u32, Vec<Frame>)> {
        let mut frames = Vec::new();
        // A directory that lies may name the same frames for many entries: no more are taken than it can hold.
        let mut left =
            self.index.section(SectionKind::EntryDirectory).map_or(0, |payload| payload.len() / 16);
        for number in 0.. {
            let Some((_, found)) = self.index.entry_place(ordinal, number) else { break };
            let Some(rest) = left.checked_sub(found.len()) else { break };
            left = rest;
            if !found.is_empty() {
                frames.push((number, found));
            }
        }
        frames
    }

    /// A part of the content of entry `number` of a record, cut off at its end.
    ///
    /// If the pack has an entry directory and the data is stored as it is or in several frames, only the bytes that
    /// are needed are read. A CRC covers all data of an entry, so a part read in this way is not compared with it.
    pub fn read_entry_range(&self, ordinal: u64, number: u32, range: Range<u64>) -> Result<Vec<u8>, Error> {
        let part = self.read_entry_part(ordinal, number, &range);
        self.named(part, ordinal)
    }

    fn read_entry_part(&self, ordinal: u64, number: u32, range: &Range<u64>) -> Result<Vec<u8>, Error> {
        let record = self.record_range(ordinal)?;
        let Some((header_at, frames)) = self.index.entry_place(ordinal, number) else {
            return self.read_whole_part(ordinal, number, range);
        };
        let at = record.start.saturating_add(header_at);
        let end = record.end.min(at.saturating_add(HEADER_READ_BYTES));
        if at >= end {
            return Err(Error::invalid(
                "the entry directory points outside the record; read the record as a whole",
            ));
        }
        let bytes = self.read_range(at..end, ordinal)?;
        let mut r = Reader::at(&bytes, at);
        let Ok(header) = EntryHeader::parse_with(&mut r, self.options.verify != Verify::Off) else {
            return self.read_whole_part(ordinal, number, range);
        };
        let data_at = r.offset();
        let range = range.start.min(header.file_size)..range.end.min(header.file_size);
        let (len, max) = (range.end.saturating_sub(range.start), self.options.entry_bytes_max);
        if len > max {
            return Err(Cause::TooLarge { what: "part", found: len, max }.into());
        }
        if header.stored_size > record.end.saturating_sub(data_at) {
            return Err(Error::invalid("the entry's data reaches beyond its record").at_offset(at));
        }
        if header.compression == Compression::None {
            return self.read_range(data_at + range.start..data_at + range.end, ordinal);
        }
        let first = frames.partition_point(|frame| frame.content_at <= range.start).saturating_sub(1);
        let last = frames.partition_point(|frame| frame.content_at < range.end);
        let (Some(from), true) = (frames.get(first), len > 0) else {
            return if len == 0 { Ok(Vec::new()) } else { self.read_whole_part(ordinal, number, &range) };
        };
        let (content_end, stored_end) = frames
            .get(last)
            .map_or((header.file_size, header.stored_size), |frame| (frame.content_at, frame.stored_at));
        let sound = from.content_at <= range.start
            && range.end <= content_end
            && from.stored_at <= stored_end
            && stored_end <= header.stored_size;
        if !sound {
            return self.read_whole_part(ordinal, number, &range);
        }
        let stored = self.read_range(data_at + from.stored_at..data_at + stored_end, ordinal)?;
        let content = codec::decode(header.compression, &stored, content_end - from.content_at);
        let content = content
            .map_err(|why| Error::from(Cause::Decode(why)).in_entry(header.name).at_offset(data_at))?;
        Ok(cut(&content, range.start - from.content_at..range.end - from.content_at))
    }

    fn read_whole_part(&self, ordinal: u64, number: u32, range: &Range<u64>) -> Result<Vec<u8>, Error> {
        let max = self.options.entry_bytes_max;
        self.with_record(ordinal, |record| {
            let entry = record.entries().nth(number as usize);
            let entry = entry.ok_or_else(|| Error::from(Cause::NotFound).in_record(record.key()))??;
            let content = entry.content(max).map_err(|error| error.in_record(record.key()))?;
            Ok(cut(&content, range.clone()))
        })
    }
}

/// The part of `content` that `range` covers.
fn cut(content: &[u8], range: Range<u64>) -> Vec<u8> {
    let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(content.len());
    let (start, end) = (place(range.start), place(range.end));
    content.get(start..end.max(start)).unwrap_or_default().to_vec()
}

/// Header, name and content type of most entries.
const HEADER_READ_BYTES: u64 = 4096 + 1024;
