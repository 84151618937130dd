//! Dataset: one pack or many as Python sees them, read by number, key, offset, batch or from end to end.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::exceptions::{PyIndexError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyMemoryView, PySlice, PyString};
use shardpack::set::{PackSet, resolve};
use shardpack::source::{FileSource, MapSource};
use shardpack::{Error, OnError, ReadOptions, ShardPackReader, Source, Verify};

use crate::block::Pack;
use crate::connection::Connection;
use crate::error::{invalid, raise};
use crate::hub::Client;
use crate::open_packs::OpenPacks;
use crate::record::Record;
use crate::records::Records;
use crate::remote::{self, SCHEME};

/// Packs that are one dataset: what `shardpack.open` returns.
///
/// It is a sequence of records, so `torch.utils.data.DataLoader` takes it as it is. It can be pickled, and used after a
/// fork: it has no thread and no position.
#[pyclass(frozen, module = "shardpack")]
#[derive(Debug)]
pub(crate) struct Dataset {
    pub(crate) packs: Arc<OpenPacks>,
    inputs: Vec<String>,
    mmap: bool,
    client: Option<Py<Client>>,
}

impl Dataset {
    /// The number of a record, counted from the end when it is negative.
    fn ordinal(&self, index: i64) -> PyResult<u64> {
        let len = self.packs.set.len();
        let ordinal =
            if index < 0 { len.checked_sub(index.unsigned_abs()) } else { Some(index.unsigned_abs()) };
        let no_record = || PyIndexError::new_err(format!("record {index} of {len}: index out of range"));
        ordinal.filter(|&ordinal| ordinal < len).ok_or_else(no_record)
    }

    fn read(&self, py: Python<'_>, ordinal: u64) -> PyResult<Record> {
        let read = match self.packs.locate(ordinal) {
            // In a map there is nothing to wait for.
            Some((pack, within)) if pack.is_mapped() => pack.read(within),
            _ => py.detach(|| self.packs.read(ordinal)),
        };
        read.map(|block| self.packs.record(block)).map_err(|error| raise(&error))
    }

    fn read_many<'py>(&self, py: Python<'py>, ordinals: &[u64]) -> PyResult<Bound<'py, PyList>> {
        let blocks = py.detach(|| self.packs.read_blocks(ordinals)).map_err(|error| raise(&error))?;
        PyList::new(py, blocks.into_iter().map(|block| block.map(|block| self.packs.record(block))))
    }
}

#[pymethods]
impl Dataset {
    #[new]
    #[pyo3(signature = (inputs, *, verify="crc", on_error="raise", mmap=false, recover=false, entry_bytes_max=1 << 30, client=None))]
    #[expect(clippy::too_many_arguments, reason = "keywords of the Python class")]
    fn new(
        py: Python<'_>,
        inputs: Vec<String>,
        verify: &str,
        on_error: &str,
        mmap: bool,
        recover: bool,
        entry_bytes_max: u64,
        client: Option<Py<Client>>,
    ) -> PyResult<Self> {
        let options = ReadOptions {
            verify: parse_verify(verify)?,
            on_error: parse_on_error(on_error)?,
            recover,
            entry_bytes_max,
            ..ReadOptions::default()
        };
        let hub = client.as_ref().map(|client| Arc::clone(&client.get().connection));
        let set = py.detach(|| open(&inputs, hub.as_ref(), mmap, &options)).map_err(|error| raise(&error))?;
        let is_local = !inputs.iter().any(|input| input.starts_with(SCHEME));
        let reads_alone = is_local && (mmap || set.mean_record_bytes() >= options.runs.gap_bytes_max);
        let packs = set.packs().iter().map(|reader| Arc::new(Pack::new(reader.clone()))).collect();
        let mut next = 0_u64;
        let base = |reader: &ShardPackReader| {
            let base = next;
            next = next.saturating_add(reader.index().footer().file_size);
            base
        };
        let bases = set.packs().iter().map(base).collect();
        let packs = Arc::new(OpenPacks { packs, set, options, reads_alone, bases });
        Ok(Self { packs, inputs, mmap, client })
    }

    fn __len__(&self) -> usize {
        usize::try_from(self.packs.set.len()).unwrap_or(usize::MAX)
    }

    /// A record by its number or key, or a list of records by a slice.
    fn __getitem__<'py>(&self, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = index.py();
        if let Ok(index) = index.extract::<i64>() {
            let record = self.read(py, self.ordinal(index)?)?;
            return Ok(Bound::new(py, record)?.into_any());
        }
        if let Ok(key) = index.cast::<PyString>() {
            let ordinal = self.find(py, key.to_str()?)?;
            return Ok(Bound::new(py, self.read(py, ordinal)?)?.into_any());
        }
        if let Ok(slice) = index.cast::<PySlice>() {
            let range = slice.indices(isize::try_from(self.packs.set.len())?)?;
            let ordinals: Vec<u64> = (0..range.slicelength)
                .map(|n| u64::try_from(range.start + isize::try_from(n)? * range.step))
                .collect::<Result<_, _>>()?;
            return Ok(self.read_many(py, &ordinals)?.into_any());
        }
        Err(PyTypeError::new_err("expected a number, a key or a slice"))
    }

    /// Many records at once, for `torch.utils.data.DataLoader`: the same as `read_batch`.
    fn __getitems__<'py>(&self, py: Python<'py>, indices: Vec<i64>) -> PyResult<Bound<'py, PyList>> {
        self.read_batch(py, indices)
    }

    /// The records of these numbers, in this order. They are read in the order they lie in the packs, neighbours together,
    /// without holding the interpreter. With `on_error="skip"` a damaged record is None.
    ///
    /// >>> [record.key for record in dataset.read_batch([7, 3, 5])]
    fn read_batch<'py>(&self, py: Python<'py>, indices: Vec<i64>) -> PyResult<Bound<'py, PyList>> {
        let ordinals: Vec<u64> =
            indices.into_iter().map(|index| self.ordinal(index)).collect::<PyResult<_>>()?;
        self.read_many(py, &ordinals)
    }

    /// All records from number `start` to before number `stop`, one after another.
    #[pyo3(signature = (start=0, stop=None))]
    fn records(&self, start: u64, stop: Option<u64>) -> Records {
        Records::new(&self.packs, start, stop.unwrap_or(u64::MAX))
    }

    fn __iter__(&self) -> Records {
        self.records(0, None)
    }

    fn __contains__(&self, py: Python<'_>, key: &str) -> PyResult<bool> {
        Ok(py.detach(|| self.packs.find(key)).map_err(|error| raise(&error))?.is_some())
    }

    /// The number of the record of that key; of several, the first.
    fn find(&self, py: Python<'_>, key: &str) -> PyResult<u64> {
        let found = py.detach(|| self.packs.find(key)).map_err(|error| raise(&error))?;
        found.ok_or_else(|| pyo3::exceptions::PyKeyError::new_err(key.to_owned()))
    }

    /// The key of a record. Reads no more of it than its header.
    fn key(&self, py: Python<'_>, index: i64) -> PyResult<String> {
        let ordinal = self.ordinal(index)?;
        py.detach(|| self.packs.set.read_key_of(ordinal)).map_err(|error| raise(&error))
    }

    /// Offsets of all records, as a memoryview of 64-bit numbers: `index[123]` is the offset of record 123. Of several
    /// packs the offsets count on as if they lay one after another.
    fn get_index<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let packs = self.packs.set.packs().iter().zip(&self.packs.bases);
        let offsets =
            packs.flat_map(|(pack, base)| pack.index().offsets().iter().map(move |offset| base + offset));
        let bytes: Vec<u8> = offsets.flat_map(u64::to_ne_bytes).collect();
        PyMemoryView::from(PyBytes::new(py, &bytes).as_any())?.call_method1("cast", ("Q",))
    }

    /// The record that begins at an offset of `get_index()`.
    fn read_record_at_offset(&self, py: Python<'_>, offset: u64) -> PyResult<Record> {
        let place = self.packs.bases.partition_point(|&base| base <= offset).checked_sub(1);
        let found =
            place.and_then(|place| Some((self.packs.packs.get(place)?, self.packs.bases.get(place)?)));
        let Some((pack, base)) = found else { return Err(invalid("there is no pack")) };
        let Some(ordinal) = pack.reader.index().ordinal_at(offset - base) else {
            let why = format!("no record begins at offset {offset}; offsets are those of get_index()");
            return Err(invalid(why));
        };
        let block = py.detach(|| pack.read(ordinal)).map_err(|error| raise(&error))?;
        Ok(self.packs.record(block))
    }

    /// The names of the packs, in the order of their records.
    #[getter]
    fn packs(&self) -> Vec<String> {
        self.packs.set.packs().iter().map(|pack| pack.name().to_owned()).collect()
    }

    /// User metadata of the first pack: a dict.
    #[getter]
    fn metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self.packs.set.packs().first().and_then(|pack| pack.index().user_metadata()) {
            Some(json) => py.import("json")?.getattr("loads")?.call1((PyBytes::new(py, json),)),
            None => Ok(PyDict::new(py).into_any()),
        }
    }

    /// Names the dataset in a training state: a digest of its keys.
    #[getter]
    fn identity(&self) -> String {
        self.packs.set.identity()
    }

    /// Bytes of a record on average.
    #[getter]
    fn mean_record_bytes(&self) -> u64 {
        self.packs.set.mean_record_bytes()
    }

    fn __repr__(&self) -> String {
        let packs = self.packs.set.packs();
        let bytes: u64 = packs.iter().map(|pack| pack.index().footer().file_size).sum();
        let (records, name) = (self.packs.set.len(), packs.first().map_or("", |pack| pack.name()));
        let more =
            if packs.len() > 1 { format!(" and {} more packs", packs.len() - 1) } else { String::new() };
        format!("<shardpack.Dataset {name:?}{more}: {records} records, {bytes} B>")
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (Vec<String>,))> {
        let (py, this) = (slf.py(), slf.get());
        let settings = PyDict::new(py);
        settings.set_item("verify", verify_name(this.packs.options.verify))?;
        settings.set_item("on_error", on_error_name(this.packs.options.on_error))?;
        settings.set_item("mmap", this.mmap)?;
        settings.set_item("recover", this.packs.options.recover)?;
        settings.set_item("entry_bytes_max", this.packs.options.entry_bytes_max)?;
        settings.set_item("client", &this.client)?;
        let open = py.import("functools")?.getattr("partial")?.call((slf.get_type(),), Some(&settings))?;
        Ok((open, (this.inputs.clone(),)))
    }
}

/// Opens every pack that the inputs name, on this disk or in a hub.
fn open(
    inputs: &[String],
    hub: Option<&Arc<Connection>>,
    mmap: bool,
    options: &ReadOptions,
) -> Result<PackSet, Error> {
    let local = |path: PathBuf| -> Result<Arc<dyn Source>, Error> {
        let opened: std::io::Result<Arc<dyn Source>> = if mmap {
            MapSource::open(&path).map(|source| Arc::new(source) as _)
        } else {
            FileSource::open(&path).map(|source| Arc::new(source) as _)
        };
        opened.map_err(|error| {
            // The reader names the pack in its own errors; this one never got that far.
            std::io::Error::new(error.kind(), format!("{}: {error}", path.display())).into()
        })
    };
    let mut sources = Vec::new();
    for input in inputs {
        match (input.strip_prefix(SCHEME), hub) {
            (Some(place), Some(hub)) => sources.extend(remote::packs(hub, place)?),
            _ => {
                for path in resolve(&[input])? {
                    sources.push(local(path)?);
                }
            }
        }
    }
    PackSet::from_sources(&sources, options)
}

fn parse_verify(text: &str) -> PyResult<Verify> {
    let all = [Verify::Crc, Verify::Header, Verify::Off];
    let found = all.into_iter().find(|verify| verify_name(*verify) == text);
    found.ok_or_else(|| invalid(format!("verify should be crc, header or off, found {text:?}")))
}

fn verify_name(verify: Verify) -> &'static str {
    match verify {
        Verify::Crc => "crc",
        Verify::Header => "header",
        Verify::Off => "off",
    }
}

fn parse_on_error(text: &str) -> PyResult<OnError> {
    let all = [OnError::Raise, OnError::Skip, OnError::Refetch];
    let found = all.into_iter().find(|on_error| on_error_name(*on_error) == text);
    found.ok_or_else(|| invalid(format!("on_error should be raise, skip or refetch, found {text:?}")))
}

fn on_error_name(on_error: OnError) -> &'static str {
    match on_error {
        OnError::Raise => "raise",
        OnError::Skip => "skip",
        OnError::Refetch => "refetch",
    }
}
