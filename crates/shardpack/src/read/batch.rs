//! Many records at once: sorted by offset, neighbours merged into one read, returned in the order of the request.

use std::ops::Range;

use crate::error::{Error, ErrorKind};
use crate::read::{OnError, ShardPackReader};
use crate::record::{Record, RecordRef};

/// Options for merging reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunOptions {
    /// Records with fewer bytes between them are read together: those bytes cost less than another read.
    pub gap_bytes_max: u64,
    /// One read has at most this many bytes, unless one record alone has more.
    pub run_bytes_max: u64,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self { gap_bytes_max: 32 << 10, run_bytes_max: 8 << 20 }
    }
}

/// Records that are read with one read: their places in the request, and the bytes.
#[derive(Debug)]
struct Run {
    /// Place in the request, number, bytes.
    records: Vec<(usize, u64, Range<u64>)>,
    range: Range<u64>,
}

impl ShardPackReader {
    /// The records of these numbers, in this order; a number may come twice. With [`OnError::Skip`] a damaged record is
    /// none.
    pub fn read_batch(&self, ordinals: &[u64]) -> Result<Vec<Option<Record>>, Error> {
        let max = self.options.entry_bytes_max;
        let mut out: Vec<Option<Record>> = Vec::new();
        out.resize_with(ordinals.len(), || None);
        self.visit_batch(ordinals, |place, record| {
            let record = record.to_record(max)?;
            if let Some(slot) = out.get_mut(place) {
                *slot = Some(record);
            }
            Ok(())
        })?;
        Ok(out)
    }

    /// Lets `visit` see the records of these numbers, each with its place in `ordinals`, in the order they lie in the pack.
    pub(crate) fn visit_batch(
        &self,
        ordinals: &[u64],
        mut visit: impl FnMut(usize, &RecordRef<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let runs = self.plan(ordinals)?;
        // A few runs at a time: what is held is a bounded number of bytes, not the batch.
        let mut rest = runs.as_slice();
        while !rest.is_empty() {
            let (group, later) = rest.split_at(group_len(rest));
            rest = later;
            let ranges: Vec<_> = group.iter().map(|run| run.range.clone()).collect();
            let bytes = self.source.read_ranges(&ranges);
            let bytes = bytes.map_err(|error| Error::from(error).in_pack(self.name()))?;
            for (run, bytes) in group.iter().zip(&bytes) {
                for (place, ordinal, range) in &run.records {
                    let seen = self.see_in_run(bytes, run.range.start, range, |record| visit(*place, record));
                    match seen {
                        Err(error) if error.kind() == ErrorKind::Corrupt => match self.options.on_error {
                            OnError::Raise => return self.named(Err(error), *ordinal),
                            OnError::Skip => {}
                            OnError::Refetch => self.with_record(*ordinal, |record| visit(*place, record))?,
                        },
                        seen => self.named(seen, *ordinal)?,
                    }
                }
            }
        }
        Ok(())
    }

    fn see_in_run(
        &self,
        bytes: &[u8],
        at: u64,
        range: &Range<u64>,
        mut visit: impl FnMut(&RecordRef<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let start = usize::try_from(range.start - at).unwrap_or(usize::MAX);
        let end = usize::try_from(range.end - at).unwrap_or(usize::MAX);
        let block = bytes.get(start..end).unwrap_or_default();
        visit(&RecordRef::parse(block, range.start, self.options.verify)?)
    }

    fn plan(&self, ordinals: &[u64]) -> Result<Vec<Run>, Error> {
        let mut sorted = Vec::with_capacity(ordinals.len());
        for (place, &ordinal) in ordinals.iter().enumerate() {
            sorted.push((place, ordinal, self.record_range(ordinal)?));
        }
        sorted.sort_by_key(|(_, _, range)| range.start);
        let options = self.options.runs;
        let mut runs: Vec<Run> = Vec::new();
        for (place, ordinal, range) in sorted {
            match runs.last_mut() {
                Some(run)
                    if range.start <= run.range.end.saturating_add(options.gap_bytes_max)
                        && range.end.max(run.range.end) - run.range.start <= options.run_bytes_max =>
                {
                    run.range.end = run.range.end.max(range.end);
                    run.records.push((place, ordinal, range));
                }
                _ => runs.push(Run { range: range.clone(), records: vec![(place, ordinal, range)] }),
            }
        }
        Ok(runs)
    }
}

/// Runs from the first on that are read together.
fn group_len(runs: &[Run]) -> usize {
    let mut bytes = 0_u64;
    let fits = |run: &&Run| {
        bytes = bytes.saturating_add(run.range.end - run.range.start);
        bytes <= GROUP_BYTES_MAX
    };
    runs.iter().take_while(fits).count().max(1)
}

/// Bytes held at once while a batch is read.
const GROUP_BYTES_MAX: u64 = 64 << 20;
