//! Verification of a whole pack: structure, every CRC, padding, index and sections against the records.

use std::sync::Arc;

use twox_hash::XxHash3_64;

use crate::error::{Error, ErrorKind};
use crate::index::PackIndex;
use crate::layout::SectionKind;
use crate::read::{OnError, ReadOptions, ShardPackReader};
use crate::record::{RecordRef, Verify};
use crate::recover::find_records;
use crate::source::Source;

/// Options of a verification.
#[derive(Debug, Clone, Copy, Default)]
pub struct VerifyOptions {
    /// Reads footer, index and sections only.
    pub quick: bool,
    /// Content of more bytes is not decoded, only compared with its CRC; 0 decodes nothing.
    pub decode_bytes_max: u64,
}

/// Result of a verification.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Bytes of the pack.
    pub bytes: u64,
    /// Records that are sound; of a quick look, those the index names.
    pub records: u64,
    /// Faults, in the order they were found; the first thousand.
    pub faults: Vec<Fault>,
    /// Number of faults.
    pub fault_count: u64,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Where.
    pub offset: u64,
    /// In which record, where that is known.
    pub key: Option<String>,
    /// In which entry, where that is known.
    pub entry: Option<String>,
    /// What.
    pub what: String,
}

impl Report {
    /// Whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.fault_count == 0
    }

    fn fault(&mut self, offset: u64, key: Option<&str>, what: String) {
        self.push(Fault { offset, key: key.map(str::to_owned), entry: None, what });
    }

    fn fail(&mut self, offset: u64, key: Option<&str>, error: &Error) {
        self.push(Fault {
            offset: error.offset().unwrap_or(offset),
            key: error.key().or(key).map(str::to_owned),
            entry: error.entry().map(str::to_owned),
            what: match error.cause() {
                crate::error::Cause::Format(error) => error.to_string(),
                crate::error::Cause::Decode(why) => why.clone(),
                _ => error.to_string(),
            },
        });
    }

    fn push(&mut self, fault: Fault) {
        self.fault_count += 1;
        if self.faults.len() < FAULTS_MAX {
            self.faults.push(fault);
        }
    }
}

/// Verifies a pack. An error is a failure to read it, or bytes that are no pack; damage is in the report. `progress` is
/// called with the offset now and then.
pub fn verify(
    source: &Arc<dyn Source>,
    options: VerifyOptions,
    mut progress: impl FnMut(u64),
) -> Result<Report, Error> {
    let mut report = Report {
        bytes: source.size().map_err(|error| Error::from(error).in_pack(source.name()))?,
        ..Report::default()
    };
    let read_options = ReadOptions {
        verify: Verify::Crc,
        on_error: OnError::Raise,
        record_bytes_max: u64::MAX,
        ..ReadOptions::default()
    };
    let reader = match ShardPackReader::from_source(Arc::clone(source), read_options) {
        Ok(reader) => reader,
        Err(error) if error.kind() == ErrorKind::Corrupt => {
            report.fail(report.bytes, None, &error);
            if !options.quick {
                report.records = find_records(source.as_ref(), progress)?.records.len() as u64;
            }
            return Ok(report);
        }
        Err(error) => return Err(error),
    };
    let index = reader.index();
    let tail_at = index.footer().records_end();
    if let Some(damage) = index.section_damage() {
        report.fault(damage.at(), None, damage.to_string());
    }
    report.records = reader.len();
    if options.quick {
        return Ok(report);
    }

    let mut sums = Sums::default();
    let mut records = reader.iter_records();
    let mut ordinal = 0;
    loop {
        let at = index.record_range(ordinal).map_or(tail_at, |range| range.start);
        progress(at);
        let seen =
            records.next_with(|record| Ok(sums.add_record(record, ordinal, index, options, &mut report)));
        match seen {
            None => break,
            Some(Ok(true)) => {}
            Some(Ok(false)) => report.records -= 1,
            Some(Err(error)) if error.kind() == ErrorKind::Io => return Err(error),
            Some(Err(error)) => {
                report.records -= 1;
                sums.broken = true;
                report.fail(at, None, &error);
            }
        }
        ordinal += 1;
    }
    sums.compare(index, tail_at, &mut report);
    Ok(report)
}

/// Values that sections state, computed from the records.
#[derive(Debug, Default)]
struct Sums {
    keys: blake3::Hasher,
    last_key: String,
    unsorted: bool,
    entries: u64,
    payload_bytes: u64,
    stored_bytes: u64,
    /// A record could not be read, so sums over all mean nothing.
    broken: bool,
}

impl Sums {
    /// Checks one record; false when something is wrong with it.
    fn add_record(
        &mut self,
        record: &RecordRef<'_>,
        ordinal: u64,
        index: &PackIndex,
        options: VerifyOptions,
        report: &mut Report,
    ) -> bool {
        let (key, at, before) = (record.key(), record.offset(), report.fault_count);
        self.keys.update(&u32::try_from(key.len()).unwrap_or(u32::MAX).to_le_bytes());
        self.keys.update(key.as_bytes());
        self.unsorted |= ordinal > 0 && self.last_key.as_str() > key;
        key.clone_into(&mut self.last_key);
        for entry in record.entries() {
            match entry {
                Ok(entry) => {
                    self.entries += 1;
                    self.payload_bytes = self.payload_bytes.saturating_add(entry.file_size());
                    self.stored_bytes = self.stored_bytes.saturating_add(entry.stored().len() as u64);
                    if entry.file_size() <= options.decode_bytes_max
                        && let Err(error) = entry.content(options.decode_bytes_max)
                    {
                        report.fail(entry.data_offset(), Some(key), &error);
                    }
                }
                Err(error) => {
                    self.broken = true;
                    report.fail(at, Some(key), &error);
                }
            }
        }
        if let Some(dirty) = record.dirty_padding() {
            report.fault(dirty, Some(key), "padding should be zero".into());
        }
        if index.key_hash(ordinal).is_some_and(|stated| stated != XxHash3_64::oneshot(key.as_bytes())) {
            report.fault(at, Some(key), "the key hash in the index is not that of the key".into());
        }
        if index
            .record_digest(ordinal)
            .is_some_and(|stated| stated != *blake3::hash(record.block()).as_bytes())
        {
            report.fault(at, Some(key), "the record is not what its digest in the index says".into());
        }
        report.fault_count == before
    }

    fn compare(&self, index: &PackIndex, tail_at: u64, report: &mut Report) {
        let mut wrong = |what: &str| report.fault(tail_at, None, what.to_owned());
        let order = key_order(index);
        if order == Order::Wrong {
            wrong("the key order in the index is not that of the key hashes");
        }
        let features = index.footer().features;
        if features.keys_unique() && order == Order::Repeats {
            wrong("the footer says that keys are unique, and two have the same hash");
        }
        if self.broken {
            return;
        }
        if features.keys_sorted() && self.unsorted {
            wrong("the footer says that keys are sorted, and they are not");
        }
        if index.key_digest().is_some_and(|stated| stated != *self.keys.finalize().as_bytes()) {
            wrong("the key digest is not that of the keys");
        }
        if let Some(stated) = index.statistics() {
            let found = (index.len(), self.entries, self.payload_bytes, self.stored_bytes);
            if (stated.records, stated.entries, stated.payload_bytes, stated.stored_bytes) != found {
                wrong("the statistics are not those of the records");
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Right,
    Repeats,
    Wrong,
}

/// Whether the key order is one of all records, sorted by hash and number.
fn key_order(index: &PackIndex) -> Order {
    let (Some(hashes), Some(order)) =
        (index.section(SectionKind::KeyHashes), index.section(SectionKind::KeyOrder))
    else {
        return Order::Right;
    };
    let (hashes, _) = hashes.as_chunks::<8>();
    let mut last: Option<(u64, usize)> = None;
    let mut found = Order::Right;
    let width = if index.len() < 1 << 32 { 4 } else { 8 };
    for place in order.chunks(width) {
        let ordinal = place.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte));
        let ordinal = usize::try_from(ordinal).unwrap_or(usize::MAX);
        let Some(hash) = hashes.get(ordinal).map(|hash| u64::from_le_bytes(*hash)) else {
            return Order::Wrong;
        };
        // Strictly rising pairs: so no record is there twice, and as many as there are records are all of them.
        if last.is_some_and(|last| last >= (hash, ordinal)) {
            return Order::Wrong;
        }
        if last.is_some_and(|(before, _)| before == hash) {
            found = Order::Repeats;
        }
        last = Some((hash, ordinal));
    }
    found
}

const FAULTS_MAX: usize = 1000;
