//! Repair: what is sound in a damaged pack, as a new pack, and a list of what was lost.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crate::codec::Method;
use crate::error::{Error, ErrorKind};
use crate::layout::Compression;
use crate::read::{OnError, ReadOptions, ShardPackReader};
use crate::record::{RecordRef, Verify};
use crate::recover::{Loss, find_records};
use crate::sink::ShardPackWriter;
use crate::source::{Source, zeros};
use crate::write::{EntryDraft, RecordDraft, WriteOptions};

/// Options of a repair.
#[derive(Debug, Clone, Default)]
pub struct RepairOptions {
    /// Of a record with damaged entries, keeps the others. Without it such a record is lost as a whole.
    pub keep_partial: bool,
}

/// Result of a repair.
#[derive(Debug, Clone, Default)]
pub struct RepairSummary {
    /// Records in the new pack.
    pub recovered: u64,
    /// Among them, those that miss entries.
    pub partial: u64,
    /// Lost ranges, in their order.
    pub lost: Vec<Loss>,
    /// Whether the index was used. Without it, records were looked for one by one.
    pub by_index: bool,
}

/// Writes what is sound in `source` to a new pack at `output`. Records are copied byte for byte.
pub fn repair(
    source: &Arc<dyn Source>,
    output: &Path,
    options: &RepairOptions,
    mut progress: impl FnMut(u64),
) -> Result<RepairSummary, Error> {
    let read_options =
        ReadOptions { on_error: OnError::Raise, record_bytes_max: u64::MAX, ..ReadOptions::default() };
    let opened = match ShardPackReader::from_source(Arc::clone(source), read_options) {
        Ok(reader) => Some(reader),
        Err(error) if error.kind() == ErrorKind::Corrupt => None,
        Err(error) => return Err(error),
    };
    let mut repaired = RepairSummary { by_index: opened.is_some(), ..RepairSummary::default() };
    let mut write_options = WriteOptions { record_bytes_max: u64::MAX, ..WriteOptions::default() };
    let ranges = match &opened {
        Some(reader) => {
            write_options.metadata = reader.index().user_metadata().map(<[u8]>::to_vec);
            write_options.column = reader.index().column().to_owned();
            write_options.digests = reader.index().record_digest(0).is_some();
            (0..reader.len()).map(|ordinal| reader.record_range(ordinal)).collect::<Result<Vec<_>, _>>()?
        }
        None => {
            let found =
                find_records(source.as_ref(), |_| {}).map_err(|error| error.in_pack(source.name()))?;
            let ranges = found.ranges();
            repaired.lost = found.lost;
            ranges
        }
    };
    let mut writer = ShardPackWriter::create_with(output, write_options, 1)?;
    for (ordinal, range) in (0..).zip(ranges) {
        progress(range.start);
        let frames = opened.as_ref().map(|reader| reader.frames_of(ordinal)).unwrap_or_default();
        let block = read(source.as_ref(), &range)?;
        let record = match RecordRef::parse(&block, range.start, Verify::Crc) {
            Ok(record) => record,
            Err(error) => {
                repaired.lose(range, None, &error.into());
                continue;
            }
        };
        match record.check() {
            Ok(()) => writer.write_block(&block, frames)?,
            Err(error) if options.keep_partial && write_partial(&mut writer, &record)? => {
                repaired.partial += 1;
                repaired.lose(range, Some(record.key()), &error);
            }
            Err(error) => {
                repaired.lose(range, Some(record.key()), &error);
                continue;
            }
        }
        repaired.recovered += 1;
    }
    writer.finalize()?;
    repaired.lost.sort_by_key(|loss| loss.range.start);
    Ok(repaired)
}

impl RepairSummary {
    fn lose(&mut self, range: Range<u64>, key: Option<&str>, error: &Error) {
        self.lost.push(Loss { range, key: key.map(str::to_owned), why: error.to_string() });
    }
}

/// Writes the entries of a record that are sound; false when there is none.
fn write_partial(writer: &mut ShardPackWriter, record: &RecordRef<'_>) -> Result<bool, Error> {
    let sound: Vec<_> = record.entries().filter_map(Result::ok).collect();
    let mut contents = Vec::new();
    for entry in &sound {
        contents.push(entry.content(u64::MAX)?);
    }
    let entry = |(entry, content)| draft(entry, content);
    let entries: Vec<_> = sound.iter().zip(&contents).map(entry).collect();
    if entries.is_empty() {
        return Ok(false);
    }
    writer.write_draft(&RecordDraft {
        key: record.key(),
        metadata: record.metadata(),
        meta_format: record.meta_format(),
        flags: record.flags(),
        entries,
    })?;
    Ok(true)
}

fn draft<'a>(
    entry: &'a crate::record::EntryRef<'a>,
    content: &'a std::borrow::Cow<'a, [u8]>,
) -> EntryDraft<'a> {
    let compression = match entry.compression() {
        Compression::Gzip => Method::Gzip,
        Compression::Lz4 => Method::Lz4,
        Compression::Zstd => Method::Zstd,
        Compression::None | Compression::Unknown(_) => Method::None,
    };
    EntryDraft {
        name: entry.name(),
        content_type: entry.content_type(),
        data: content,
        compression: Some(compression),
    }
}

fn read(source: &dyn Source, range: &Range<u64>) -> Result<Vec<u8>, Error> {
    let mut block = zeros(range.end - range.start)?;
    let read = source.read_at(range.start, &mut block);
    read.map_err(|error| Error::from(error).at_offset(range.start).in_pack(source.name()))?;
    Ok(block)
}
