//! Block: the bytes of one record, in a buffer or in a map, shared by everything that Python holds of it.

use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock};

use pyo3::prelude::*;
use pyo3::types::PySlice;
use shardpack::{Error, RecordRef, ShardPackReader, Verify};

/// An open pack, and the buffers that reading from it reuses.
#[derive(Debug)]
pub(crate) struct Pack {
    pub(crate) reader: ShardPackReader,
    mapped: bool,
    /// The buffer of the last record. Once nobody holds that, the next is read into the same memory, which is still in
    /// the cache.
    spare: Mutex<Option<Arc<Vec<u8>>>>,
    /// A map made by Python itself, for views that outlive everything here.
    view: OnceLock<Py<PyAny>>,
}

impl Pack {
    pub(crate) fn new(reader: ShardPackReader) -> Self {
        let mapped = reader.source().as_slice().is_some();
        Self { reader, mapped, spare: Mutex::new(None), view: OnceLock::new() }
    }

    pub(crate) fn is_mapped(&self) -> bool {
        self.mapped
    }

    /// Reads a record and checks what the verify level says.
    pub(crate) fn read(self: &Arc<Self>, ordinal: u64) -> Result<Block, Error> {
        let range = self.reader.record_range(ordinal)?;
        if self.mapped {
            self.reader.with_record(ordinal, check)?;
            return Ok(self.mapped_block(&range, ordinal));
        }
        let mut buffer = self.take_spare();
        let Some(bytes) = Arc::get_mut(&mut buffer) else { unreachable!("nobody else holds it") };
        self.reader.with_record_in(ordinal, bytes, check)?;
        let len = to_len(range.end - range.start);
        let reusable = Arc::clone(&buffer);
        // A fork may have left the lock taken: then there is nothing to use again, and nothing to wait for.
        if let (true, Ok(mut spare)) = (buffer.len() <= SPARE_BYTES_MAX, self.spare.try_lock()) {
            *spare = Some(reusable);
        }
        Ok(Block { source: Bytes::Read(buffer, 0..len), offset: range.start, ordinal })
    }

    /// A record of a mapped pack, nothing compared.
    pub(crate) fn mapped_block(self: &Arc<Self>, range: &Range<u64>, ordinal: u64) -> Block {
        let place = to_len(range.start)..to_len(range.end);
        Block { source: Bytes::Mapped(Arc::clone(self), place), offset: range.start, ordinal }
    }

    fn take_spare(&self) -> Arc<Vec<u8>> {
        let spare = self.spare.try_lock().ok().and_then(|mut spare| spare.take());
        spare.filter(|buffer| Arc::strong_count(buffer) == 1).unwrap_or_default()
    }

    /// The whole pack as a memoryview that Python keeps alive.
    fn view<'a, 'py>(&'a self, py: Python<'py>) -> PyResult<&'a Bound<'py, PyAny>> {
        let view = match self.view.get() {
            Some(view) => view,
            None => {
                let map = py.import("shardpack._map")?.getattr("view_of")?;
                let made = map.call1((self.reader.name(),))?.unbind();
                self.view.get_or_init(|| made)
            }
        };
        Ok(view.bind(py))
    }
}

/// The bytes of one record.
#[derive(Debug, Clone)]
pub(crate) struct Block {
    source: Bytes,
    /// Offset of the record in its pack.
    pub(crate) offset: u64,
    /// Its number in its pack.
    pub(crate) ordinal: u64,
}

#[derive(Debug, Clone)]
enum Bytes {
    Read(Arc<Vec<u8>>, Range<usize>),
    Mapped(Arc<Pack>, Range<usize>),
}

impl Block {
    /// A record that was read, and compared, already.
    pub(crate) fn new(buffer: &Arc<Vec<u8>>, place: Range<usize>, offset: u64, ordinal: u64) -> Self {
        Self { source: Bytes::Read(Arc::clone(buffer), place), offset, ordinal }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        let (all, place) = match &self.source {
            Bytes::Read(buffer, place) => (buffer.as_slice(), place),
            Bytes::Mapped(pack, place) => (pack.reader.source().as_slice().unwrap_or_default(), place),
        };
        all.get(place.clone()).unwrap_or_default()
    }

    /// The record. What was to be compared was compared when it was read.
    pub(crate) fn record(&self) -> Result<RecordRef<'_>, Error> {
        Ok(RecordRef::parse(self.bytes(), self.offset, Verify::Off)?)
    }

    /// A part of it as a memoryview of the map; none when it is not in one.
    pub(crate) fn view<'py>(
        &self,
        py: Python<'py>,
        part: &Range<usize>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Bytes::Mapped(pack, place) = &self.source else { return Ok(None) };
        let (start, end) = (place.start + part.start, place.start + part.end);
        let part = PySlice::new(py, start.try_into()?, end.try_into()?, 1);
        pack.view(py)?.get_item(part).map(Some)
    }
}

/// Checks everything that the reader's verify level says.
pub(crate) fn check(record: &RecordRef<'_>) -> Result<(), Error> {
    record.check()
}

pub(crate) fn to_len(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// Larger buffers are not reused for the next record.
const SPARE_BYTES_MAX: usize = 4 << 20;
