//! Writer: samples from Python into a pack, or into packs that follow each other.

use std::path::PathBuf;
use std::sync::Mutex;

use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString, PyTuple};
use shardpack::content_type::ContentTypes;
use shardpack::layout::{MetaFormat, RecordFlags};
use shardpack::sink::{Limits, Rolling};
use shardpack::{FileEntry, Method, WriteOptions};

use crate::error::{invalid, raise};

/// Writes samples to a pack. The file appears under its name when it is closed, whole, or not at all.
///
/// >>> with shardpack.Writer("train-000000.shardpack", compression="auto") as writer:
/// ...     writer.write("images17/image194", {"left.jpg": jpeg, "meta.json": {"stereo": True}})
#[pyclass(frozen, module = "shardpack")]
#[derive(Debug)]
pub(crate) struct Writer {
    rolling: Mutex<Option<Rolling>>,
    path: PathBuf,
}

#[pymethods]
impl Writer {
    #[new]
    #[pyo3(signature = (path, *, compression="none", metadata=None, shard_bytes=0, shard_records=0, align=8,
        chunk_bytes=4 << 20, digests=false, column="", record_bytes_max=1 << 30, threads=1))]
    #[expect(clippy::too_many_arguments, reason = "keywords of the Python class")]
    fn new(
        path: PathBuf,
        compression: &str,
        metadata: Option<&Bound<'_, PyDict>>,
        shard_bytes: u64,
        shard_records: u64,
        align: u64,
        chunk_bytes: usize,
        digests: bool,
        column: &str,
        record_bytes_max: u64,
        threads: usize,
    ) -> PyResult<Self> {
        let options = WriteOptions {
            compression: parse_method(compression)?,
            metadata: metadata.map(|metadata| json(metadata)).transpose()?,
            align_bytes: align,
            chunk_bytes,
            digests,
            column: column.to_owned(),
            record_bytes_max,
            ..WriteOptions::default()
        };
        let limits = Limits { pack_bytes_max: shard_bytes, pack_records_max: shard_records };
        let rolling = Rolling::new(&path, options, limits, threads.max(1));
        // Of writers of these packs that were killed.
        rolling.remove_leftovers();
        Ok(Self { rolling: Mutex::new(Some(rolling)), path })
    }

    /// Appends a sample.
    ///
    /// `entries` maps names to contents: bytes or anything with their interface, str, a numpy array where the name ends in
    /// `npy`, anything else as JSON where it ends in `json`; or `(content_type, content)`. Without a type, the name decides.
    /// `metadata` belongs to the sample as a whole and is stored as JSON, unless it is bytes. `overlay` and `tombstone` are
    /// for packs of changes.
    #[pyo3(signature = (key, entries, metadata=None, *, overlay=false, tombstone=false))]
    fn write(
        &self,
        py: Python<'_>,
        key: String,
        entries: &Bound<'_, PyDict>,
        metadata: Option<&Bound<'_, PyAny>>,
        overlay: bool,
        tombstone: bool,
    ) -> PyResult<()> {
        let mut file_entries = Vec::with_capacity(entries.len());
        for (name, value) in entries {
            file_entries.push(entry(name.cast::<PyString>()?.to_str()?, &value)?);
        }
        let (metadata, meta_format) = match metadata {
            None => (Vec::new(), MetaFormat::Raw),
            Some(metadata) => match metadata.cast::<PyBytes>() {
                Ok(bytes) => (bytes.as_bytes().to_vec(), MetaFormat::Raw),
                Err(_) => (json(metadata)?, MetaFormat::Json),
            },
        };
        let flags = match (overlay, tombstone) {
            (_, true) => RecordFlags::TOMBSTONE,
            (true, _) => RecordFlags::OVERLAY,
            _ => RecordFlags::default(),
        };
        let record = shardpack::Record { key, metadata, meta_format, flags, file_entries };
        py.detach(|| self.with(|rolling| rolling.write(record).map_err(|error| raise(&error))))
    }

    /// Writes the index, makes everything durable and gives the packs their names, which it returns.
    fn close(&self, py: Python<'_>) -> PyResult<Vec<PathBuf>> {
        py.detach(|| {
            let rolling = self.rolling.lock().map_err(|_| poisoned())?.take();
            let Some(rolling) = rolling else { return Ok(Vec::new()) };
            let done = rolling.finish().map_err(|error| raise(&error))?;
            Ok(done.into_iter().map(|(path, _)| path).collect())
        })
    }

    /// Throws away what was written and not closed.
    fn discard(&self) -> PyResult<()> {
        *self.rolling.lock().map_err(|_| poisoned())? = None;
        Ok(())
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*exception))]
    fn __exit__(&self, py: Python<'_>, exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        if exception.get_item(0).is_ok_and(|kind| !kind.is_none()) {
            return self.discard();
        }
        self.close(py).map(drop)
    }

    fn __repr__(&self) -> PyResult<String> {
        let open = self.rolling.lock().map_err(|_| poisoned())?.is_some();
        Ok(format!("<shardpack.Writer {:?}, {}>", self.path.display(), if open { "open" } else { "closed" }))
    }
}

impl Writer {
    fn with<T>(&self, work: impl FnOnce(&mut Rolling) -> PyResult<T>) -> PyResult<T> {
        match self.rolling.lock().map_err(|_| poisoned())?.as_mut() {
            Some(rolling) => work(rolling),
            None => Err(invalid("the pack is closed already; begin another")),
        }
    }
}

fn poisoned() -> PyErr {
    invalid("the writer failed before; begin another")
}

/// The content type that follows from a name.
#[pyfunction]
pub(crate) fn content_type_of(name: &str) -> String {
    ContentTypes::default().of(name).to_owned()
}

fn entry(name: &str, value: &Bound<'_, PyAny>) -> PyResult<FileEntry> {
    let (content_type, value) = match value.cast::<PyTuple>() {
        Ok(pair) if pair.len() == 2 => (pair.get_item(0)?.extract()?, pair.get_item(1)?),
        _ => (content_type_of(name), value.clone()),
    };
    let data = match content(&value)? {
        Some(data) => data,
        None => {
            let encode = value.py().import("shardpack.decode")?.getattr("encode")?;
            let encoded = encode.call1((name, &content_type, value))?;
            encoded.cast::<PyBytes>()?.as_bytes().to_vec()
        }
    };
    Ok(FileEntry { file_name: name.to_owned(), content_type, data, ..FileEntry::default() })
}

/// The bytes of a value that has no need of being encoded.
fn content(value: &Bound<'_, PyAny>) -> PyResult<Option<Vec<u8>>> {
    if let Ok(bytes) = value.cast::<PyBytes>() {
        return Ok(Some(bytes.as_bytes().to_vec()));
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(Some(text.to_str()?.as_bytes().to_vec()));
    }
    // An array of bytes would fit here too; but it has a shape, and keeps it as .npy.
    if value.hasattr("__array_interface__")? {
        return Ok(None);
    }
    match PyBuffer::<u8>::get(value) {
        Ok(buffer) => buffer.to_vec(value.py()).map(Some),
        Err(_) => Ok(None),
    }
}

fn json(value: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    let text = value.py().import("json")?.getattr("dumps")?.call1((value,))?;
    Ok(text.cast::<PyString>()?.to_str()?.as_bytes().to_vec())
}

fn parse_method(text: &str) -> PyResult<Method> {
    let all = [Method::None, Method::Gzip, Method::Lz4, Method::Zstd, Method::Auto];
    let found = all.into_iter().find(|method| method.name() == text);
    found.ok_or_else(|| {
        invalid(format!("compression should be none, gzip, lz4, zstd or auto, found {text:?}"))
    })
}
