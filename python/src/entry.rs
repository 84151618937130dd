//! Entry: a named file of a sample, as Python sees it. Copied and decoded when it is first read.

use std::ops::Range;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView, PyString};
use shardpack::cursor::Reader;
use shardpack::record::EntryRef;
use shardpack::{Compression, EntryHeader, Error, codec};

use crate::block::{Block, to_len};
use crate::error::{invalid, raise};

/// A named file of a sample.
#[pyclass(frozen, module = "shardpack")]
#[derive(Debug)]
pub(crate) struct Entry {
    block: Block,
    /// Offset of its header in the record.
    header_at: usize,
    name: Range<usize>,
    data: Range<usize>,
    file_size: u64,
    compression: Compression,
    entry_bytes_max: u64,
}

impl Entry {
    pub(crate) fn new(block: &Block, entry: &EntryRef<'_>, entry_bytes_max: u64) -> Self {
        let start = block.offset;
        let header_at = to_len(entry.header_offset() - start);
        let (name_at, data_at) = (header_at + EntryHeader::LEN, to_len(entry.data_offset() - start));
        Self {
            block: block.clone(),
            header_at,
            name: name_at..name_at + entry.name().len(),
            data: data_at..data_at + entry.stored().len(),
            file_size: entry.file_size(),
            compression: entry.compression(),
            entry_bytes_max,
        }
    }

    fn part(&self, range: &Range<usize>) -> &[u8] {
        self.block.bytes().get(range.clone()).unwrap_or_default()
    }

    fn name_str(&self) -> &str {
        std::str::from_utf8(self.part(&self.name)).unwrap_or_default()
    }

    fn header(&self) -> Result<EntryHeader<'_>, Error> {
        let bytes = self.block.bytes().get(self.header_at..).unwrap_or_default();
        let at = self.block.offset + self.header_at as u64;
        Ok(EntryHeader::parse_with(&mut Reader::at(bytes, at), false)?)
    }

    fn decoded(&self) -> Result<Vec<u8>, Error> {
        codec::decode(self.compression, self.part(&self.data), self.file_size)
            .map_err(|why| Error::from(shardpack::error::Cause::Decode(why)))
    }
}

#[pymethods]
impl Entry {
    /// Names it in its record, e.g. `left.jpg`.
    #[getter]
    fn name<'py>(&self, py: Python<'py>) -> Bound<'py, PyString> {
        PyString::new(py, self.name_str())
    }

    /// The same as `name`.
    #[getter]
    fn file_name<'py>(&self, py: Python<'py>) -> Bound<'py, PyString> {
        self.name(py)
    }

    /// Media type, e.g. `image/jpeg`.
    #[getter]
    fn content_type<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        let header = self.header().map_err(|error| raise(&error))?;
        Ok(PyString::new(py, header.content_type.as_str().unwrap_or_default()))
    }

    /// Bytes of the content.
    #[getter]
    fn size(&self) -> u64 {
        self.file_size
    }

    /// Bytes of the stored form.
    #[getter]
    fn stored_size(&self) -> usize {
        self.data.len()
    }

    /// Compression: `none`, `gzip`, `lz4` or `zstd`.
    #[getter]
    fn compression(&self) -> &'static str {
        self.compression.name()
    }

    /// The content, decompressed.
    #[getter]
    fn data<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        if self.compression == Compression::None {
            return Ok(PyBytes::new(py, self.part(&self.data)));
        }
        if self.file_size > self.entry_bytes_max {
            let (found, max) = (self.file_size, self.entry_bytes_max);
            let why = format!("entry {:?} has {found} bytes, more than the {max} allowed", self.name_str());
            return Err(invalid(why));
        }
        let content =
            if self.file_size < DETACH_BYTES { self.decoded() } else { py.detach(|| self.decoded()) };
        Ok(PyBytes::new(py, &content.map_err(|error| raise(&error))?))
    }

    /// The content as a memoryview: of the file itself where it is mapped and not compressed, of `data` otherwise.
    ///
    /// >>> pixels = numpy.frombuffer(entry.view, dtype="uint8")
    #[getter]
    fn view<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        if self.compression == Compression::None
            && let Some(view) = self.block.view(py, &self.data)?
        {
            return Ok(view);
        }
        Ok(PyMemoryView::from(self.data(py)?.as_any())?.into_any())
    }

    /// An array over `view`: of the type and shape that an .npy file states, of bytes otherwise. Needs numpy.
    fn numpy<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("shardpack.decode")?.getattr("to_numpy")?.call1((slf,))
    }

    /// The content as what its type says it is; see `shardpack.decode`.
    fn decode<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("shardpack.decode")?.getattr("decode")?.call1((slf,))
    }

    fn __bytes__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.data(py)
    }

    fn __len__(&self) -> usize {
        to_len(self.file_size)
    }

    fn __repr__(&self) -> PyResult<String> {
        let header = self.header().map_err(|error| raise(&error))?;
        let content_type = header.content_type.as_str().unwrap_or("unknown type");
        let stored = match self.compression {
            Compression::None => String::new(),
            other => format!(", {} in {} B", other.name(), self.data.len()),
        };
        Ok(format!("<Entry {:?}: {content_type}, {} B{stored}>", self.name_str(), self.file_size))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Rebuild<'py>)> {
        let (py, this) = (slf.py(), slf.get());
        let item = py.import("operator")?.getattr("getitem")?;
        let record = py.import("drystone._native")?.getattr("record_of")?;
        let bytes = PyBytes::new(py, this.block.bytes());
        let record = record.call1((bytes, this.block.offset, this.block.ordinal, this.entry_bytes_max))?;
        Ok((item, (record, this.name_str().to_owned())))
    }
}

/// Arguments that a pickle calls `getitem` with: the record and the name.
type Rebuild<'py> = (Bound<'py, PyAny>, String);

/// Decoding fewer bytes is over before another thread would have begun.
const DETACH_BYTES: u64 = 16 << 10;
