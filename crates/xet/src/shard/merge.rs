//! Joins shards into one, and divides what is too large for one.

use std::collections::BTreeMap;

use crate::error::{FormatError, expect_range};
use crate::hash::XorbHash;
use crate::shard::build::{FRAME_RECORDS, ShardBuilder};
use crate::shard::keyed::expect_plain;
use crate::shard::record::RECORD_LEN;
use crate::shard::{FileEntry, Shard, XorbEntry};

/// All files and xorbs of these shards, each once; of two with one hash the first stays. Keyed shards are refused.
pub fn merge(shards: impl IntoIterator<Item = Shard>) -> Result<ShardBuilder, FormatError> {
    let mut builder = ShardBuilder::default();
    for shard in shards {
        expect_plain(&shard)?;
        for file in shard.files {
            builder.push_file(file);
        }
        for xorb in shard.xorbs {
            builder.push_xorb(xorb);
        }
    }
    Ok(builder)
}

/// Divides the content over as many shards as it takes for each upload to have at most `bytes_max` bytes.
///
/// Greedy: a file goes with the xorbs it is the first to name, so that a shard explains itself where it can; a file and
/// its xorbs that together exceed a shard go block by block. A block is never divided, so one that exceeds a shard alone
/// is refused. Nothing to divide gives no shards.
pub fn split(content: ShardBuilder, bytes_max: u64) -> Result<Vec<ShardBuilder>, FormatError> {
    let (files, xorbs) = content.finish();
    let mut waiting: BTreeMap<XorbHash, XorbEntry> =
        xorbs.into_iter().map(|xorb| (xorb.hash, xorb)).collect();
    let mut parts = Parts { bytes_max, done: Vec::new(), open: ShardBuilder::default() };
    for file in files {
        let needed: Vec<_> = file.terms.iter().filter_map(|term| waiting.remove(&term.xorb)).collect();
        let records = file.records() + needed.iter().map(XorbEntry::records).sum::<u64>();
        if parts.holds_alone(records) {
            parts.make_room(records);
        }
        for xorb in needed {
            parts.push_xorb(xorb)?;
        }
        parts.push_file(file)?;
    }
    for xorb in waiting.into_values() {
        parts.push_xorb(xorb)?;
    }
    parts.close();
    Ok(parts.done)
}

struct Parts {
    bytes_max: u64,
    done: Vec<ShardBuilder>,
    open: ShardBuilder,
}

impl Parts {
    fn push_file(&mut self, file: FileEntry) -> Result<(), FormatError> {
        self.make_room_for_block("bytes of a file's block", file.records())?;
        self.open.push_file(file);
        Ok(())
    }

    fn push_xorb(&mut self, xorb: XorbEntry) -> Result<(), FormatError> {
        self.make_room_for_block("bytes of a xorb's block", xorb.records())?;
        self.open.push_xorb(xorb);
        Ok(())
    }

    fn make_room_for_block(&mut self, what: &'static str, records: u64) -> Result<(), FormatError> {
        let record = RECORD_LEN as u64;
        let max = self.bytes_max.saturating_sub(FRAME_RECORDS * record);
        expect_range(RECORD_LEN as u64, what, record, max, records * record)?;
        self.make_room(records);
        Ok(())
    }

    /// Whether an empty shard has room for so many records.
    fn holds_alone(&self, records: u64) -> bool {
        (records + FRAME_RECORDS) * RECORD_LEN as u64 <= self.bytes_max
    }

    /// Closes the open shard when so many records do not fit it any more.
    fn make_room(&mut self, records: u64) {
        if self.open.upload_bytes() + records * RECORD_LEN as u64 > self.bytes_max {
            self.close();
        }
    }

    fn close(&mut self) {
        let full = std::mem::take(&mut self.open);
        if !full.is_empty() {
            self.done.push(full);
        }
    }
}
