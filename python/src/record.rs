//! Record: a sample as Python sees it. Its entries are made when they are read.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};
use shardpack::layout::MetaFormat;

use crate::block::Block;
use crate::entry::Entry;
use crate::error::raise;

/// A sample: a key and named entries.
///
/// >>> record = dataset[0]
/// >>> record.key
/// 'images17/image194'
/// >>> record["left.jpg"].data[:2]
/// b'\xff\xd8'
#[pyclass(frozen, module = "shardpack")]
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) block: Block,
    pub(crate) entry_bytes_max: u64,
}

impl Record {
    fn entry(&self, name: &str) -> PyResult<Option<Entry>> {
        let record = self.block.record().map_err(|error| raise(&error))?;
        let found = record.entry(name).map_err(|error| raise(&error))?;
        Ok(found.map(|entry| Entry::new(&self.block, &entry, self.entry_bytes_max)))
    }
}

#[pymethods]
impl Record {
    /// Names the sample.
    #[getter]
    fn key<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        let record = self.block.record().map_err(|error| raise(&error))?;
        Ok(PyString::new(py, record.key()))
    }

    /// Metadata of the sample as a whole: an object where it is JSON, bytes otherwise, None where there is nothing.
    #[getter]
    fn metadata<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let record = self.block.record().map_err(|error| raise(&error))?;
        let bytes = PyBytes::new(py, record.metadata());
        Ok(match (record.metadata().is_empty(), record.meta_format()) {
            (true, _) => None,
            (_, MetaFormat::Json) => Some(py.import("json")?.getattr("loads")?.call1((bytes,))?),
            _ => Some(bytes.into_any()),
        })
    }

    /// Offset of the record in its pack.
    #[getter]
    fn offset(&self) -> u64 {
        self.block.offset
    }

    /// Its number in its pack.
    #[getter]
    fn ordinal(&self) -> u64 {
        self.block.ordinal
    }

    /// All entries, in their order.
    ///
    /// >>> [entry.name for entry in record.file_entries()]
    /// ['left.jpg', 'right.jpg', 'meta.json']
    fn file_entries<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let record = self.block.record().map_err(|error| raise(&error))?;
        let entries = PyList::empty(py);
        for entry in record.entries() {
            let entry = entry.map_err(|error| raise(&error))?;
            entries.append(Py::new(py, Entry::new(&self.block, &entry, self.entry_bytes_max))?)?;
        }
        Ok(entries)
    }

    /// The contents of all entries as bytes, in their order: the least work for a sample.
    fn values<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let record = self.block.record().map_err(|error| raise(&error))?;
        let values = PyList::empty(py);
        for entry in record.entries() {
            let entry = entry.map_err(|error| raise(&error))?;
            let content = entry.content(self.entry_bytes_max).map_err(|error| raise(&error))?;
            values.append(PyBytes::new(py, &content))?;
        }
        Ok(values)
    }

    /// Decoded entries by name, all or those of these names, and the key as `__key__`; see `shardpack.decode`.
    #[pyo3(signature = (names=None))]
    fn decode<'py>(slf: &Bound<'py, Self>, names: Option<Vec<String>>) -> PyResult<Bound<'py, PyDict>> {
        let (py, this) = (slf.py(), slf.get());
        let decoded = PyDict::new(py);
        decoded.set_item("__key__", this.key(py)?)?;
        let entries = match names {
            None => this.file_entries(py)?,
            Some(names) => {
                let entries = names.iter().map(|name| this.__getitem__(name));
                PyList::new(py, entries.collect::<PyResult<Vec<_>>>()?)?
            }
        };
        for entry in entries {
            decoded.set_item(entry.getattr("name")?, entry.call_method0("decode")?)?;
        }
        Ok(decoded)
    }

    fn __getitem__(&self, name: &str) -> PyResult<Entry> {
        self.entry(name)?.ok_or_else(|| pyo3::exceptions::PyKeyError::new_err(name.to_owned()))
    }

    /// The entry of that name, or None.
    fn get(&self, name: &str) -> PyResult<Option<Entry>> {
        self.entry(name)
    }

    fn __contains__(&self, name: &str) -> PyResult<bool> {
        Ok(self.entry(name)?.is_some())
    }

    fn __len__(&self) -> PyResult<usize> {
        let record = self.block.record().map_err(|error| raise(&error))?;
        Ok(record.entry_count() as usize)
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(self.file_entries(py)?.try_iter()?.into_any())
    }

    fn __repr__(&self) -> PyResult<String> {
        let record = self.block.record().map_err(|error| raise(&error))?;
        let entry = |entry: Result<shardpack::record::EntryRef<'_>, _>| {
            entry.map_or("?".to_owned(), |entry| format!("{} ({} B)", entry.name(), entry.file_size()))
        };
        let entries: Vec<_> = record.entries().take(REPR_ENTRIES_MAX).map(entry).collect();
        let more = if record.entry_count() as usize > REPR_ENTRIES_MAX { ", …" } else { "" };
        Ok(format!("<Record {:?}: {}{more}>", record.key(), entries.join(", ")))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Rebuild<'py>)> {
        let (py, this) = (slf.py(), slf.get());
        let rebuild = py.import("drystone._native")?.getattr("record_of")?;
        let bytes = PyBytes::new(py, this.block.bytes());
        Ok((rebuild, (bytes, this.block.offset, this.block.ordinal, this.entry_bytes_max)))
    }
}

type Rebuild<'py> = (Bound<'py, PyBytes>, u64, u64, u64);

/// A record from its bytes, as pickles have it.
#[pyfunction]
pub(crate) fn record_of(bytes: Vec<u8>, offset: u64, ordinal: u64, entry_bytes_max: u64) -> PyResult<Record> {
    let len = bytes.len();
    let block = Block::new(&Arc::new(bytes), 0..len, offset, ordinal);
    block.record().map_err(|error| raise(&error))?;
    Ok(Record { block, entry_bytes_max })
}

/// Entries that a repr names.
const REPR_ENTRIES_MAX: usize = 8;
