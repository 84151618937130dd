//! Records one after another: a window of the pack is read at once, and records are taken from it.

use std::ops::Range;
use std::sync::Arc;

use pyo3::prelude::*;
use shardpack::{Error, RecordRef, ShardPackReader};

use crate::block::{Block, Pack, check, to_len};
use crate::error::raise;
use crate::open_packs::OpenPacks;
use crate::record::Record;

/// Records in their order.
#[pyclass(module = "shardpack")]
#[derive(Debug)]
pub(crate) struct Records {
    packs: Arc<OpenPacks>,
    ordinals: Range<u64>,
    /// Place of the pack at hand, and the numbers of its records in the dataset.
    pack: usize,
    of_pack: Range<u64>,
    window: Arc<Vec<u8>>,
    /// The window before: the consumer holds its last record while the next window is read.
    spare: Arc<Vec<u8>>,
    /// The bytes of the pack that the window holds.
    held: Range<u64>,
    skipped: u64,
}

impl Records {
    pub(crate) fn new(packs: &Arc<OpenPacks>, start: u64, stop: u64) -> Self {
        Self {
            packs: Arc::clone(packs),
            ordinals: start..stop.min(packs.set.len()),
            pack: 0,
            of_pack: 0..0,
            window: Arc::default(),
            spare: Arc::default(),
            held: 0..0,
            skipped: 0,
        }
    }

    fn read(&mut self, py: Python<'_>, ordinal: u64) -> Result<Block, Error> {
        if !self.of_pack.contains(&ordinal) {
            self.enter_pack(ordinal);
        }
        let Some(pack) = self.packs.packs.get(self.pack).cloned() else {
            return self.packs.read(ordinal);
        };
        let within = ordinal - self.of_pack.start;
        let range = pack.reader.record_range(within)?;
        if pack.is_mapped() && range.end - range.start <= WINDOW_BYTES {
            return pack.read(within);
        }
        if range.end - range.start > WINDOW_BYTES {
            return py.detach(|| pack.read(within));
        }
        if !(self.held.start <= range.start && range.end <= self.held.end) {
            py.detach(|| self.fill(&pack, &range, within))?;
        }
        let (start, end) = (to_len(range.start - self.held.start), to_len(range.end - self.held.start));
        let block = self.window.get(start..end).unwrap_or_default();
        let verify = pack.reader.options().verify;
        match RecordRef::parse(block, range.start, verify)
            .map_err(Error::from)
            .and_then(|record| check(&record))
        {
            Ok(()) => Ok(Block::new(&self.window, start..end, range.start, within)),
            // Alone, past this window: that names what is wrong, or reads it anew where the options say so.
            Err(_) => pack.read(within),
        }
    }

    fn enter_pack(&mut self, ordinal: u64) {
        let Some((pack, within)) = self.packs.set.find_pack(ordinal) else { return };
        let len = self.packs.set.packs().get(pack).map_or(0, ShardPackReader::len);
        self.pack = pack;
        self.of_pack = ordinal - within..ordinal - within + len;
        self.held = 0..0;
    }

    /// Reads from a record on as far as records reach and the window holds.
    fn fill(&mut self, pack: &Arc<Pack>, range: &Range<u64>, within: u64) -> Result<(), Error> {
        let last = self.ordinals.end.min(self.of_pack.end).saturating_sub(self.of_pack.start + 1).max(within);
        let records_end = pack.reader.record_range(last).map_or(range.end, |last| last.end);
        let end = records_end.min(range.start + WINDOW_BYTES).max(range.end);
        let len = to_len(end - range.start);
        self.held = 0..0;
        std::mem::swap(&mut self.window, &mut self.spare);
        if Arc::get_mut(&mut self.window).is_none_or(|window| window.len() < len) {
            self.window = Arc::new(vec![0; len.max(to_len(WINDOW_BYTES))]);
        }
        if let Some(place) = Arc::get_mut(&mut self.window).and_then(|window| window.get_mut(..len)) {
            pack.reader.source().read_at(range.start, place)?;
            self.held = range.start..end;
        }
        Ok(())
    }
}

#[pymethods]
impl Records {
    /// Damaged records that were left out so far.
    #[getter]
    fn skipped(&self) -> u64 {
        self.skipped
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Option<Record>> {
        loop {
            let Some(ordinal) = self.ordinals.next() else { return Ok(None) };
            match self.read(py, ordinal) {
                Ok(block) => return Ok(Some(self.packs.record(block))),
                Err(error) if self.packs.skips(&error) => self.skipped += 1,
                Err(error) => return Err(raise(&error)),
            }
        }
    }

    fn __length_hint__(&self) -> usize {
        to_len(self.ordinals.end.saturating_sub(self.ordinals.start))
    }
}

/// Bytes of one read. Larger leaves the cache before it is used.
const WINDOW_BYTES: u64 = 512 << 10;
