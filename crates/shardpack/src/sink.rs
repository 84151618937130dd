//! Sink: packs written to files. A file appears under its name when it is whole and safe on disk, or not at all.

mod output;
mod pool;
mod rolling;

pub use output::{Destination, OutputFile, remove_leftovers};
pub use rolling::{Limits, Rolling};

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::codec::Frame;
use crate::error::Error;
use crate::record::{Record, Verify};
use crate::sink::pool::Pool;
use crate::write::{PackEncoder, PackSummary, RecordDraft, WriteOptions};

/// Writes one pack to one file.
///
/// ```
/// # fn main() -> Result<(), shardpack::Error> {
/// use shardpack::{FileEntry, Record, ShardPackReader, ShardPackWriter};
///
/// let folder = tempfile::tempdir().unwrap();
/// let path = folder.path().join("train-000000.shardpack");
/// let mut writer = ShardPackWriter::create(&path, Some(br#"{"creator":"MyName"}"#))?;
/// writer.write_record(&Record {
///     key: "images17/image194".into(),
///     file_entries: vec![FileEntry {
///         file_name: "left.jpg".into(),
///         content_type: "image/jpeg".into(),
///         data: vec![1, 2, 3],
///         ..FileEntry::default()
///     }],
///     ..Record::default()
/// })?;
/// writer.finalize()?;
///
/// let reader = ShardPackReader::open(&path)?;
/// assert_eq!(reader.read_record(0)?.key, "images17/image194");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ShardPackWriter {
    path: PathBuf,
    output: Option<OutputFile>,
    encoder: Option<PackEncoder>,
    /// Encoded and not yet handed to the file.
    buffer: Vec<u8>,
    pool: Option<Pool>,
}

impl ShardPackWriter {
    /// Begins a pack that will be at `path`; `shard_metadata` is one JSON object. A pack can also be written to standard output (`-`),
    /// a FIFO or a device: see [`Destination`].
    pub fn create(path: impl AsRef<Path>, shard_metadata: Option<&[u8]>) -> Result<Self, Error> {
        let metadata = shard_metadata.map(<[u8]>::to_vec);
        Self::create_with(path, WriteOptions { metadata, ..WriteOptions::default() }, 1)
    }

    /// [`create`](Self::create) with all options. With more than one thread, records given to
    /// [`write_owned`](Self::write_owned) are compressed side by side; the bytes are the same.
    pub fn create_with(path: impl AsRef<Path>, options: WriteOptions, threads: usize) -> Result<Self, Error> {
        let path = path.as_ref();
        let name = |error: io::Error| Error::from(error).in_pack(&path.display().to_string());
        let pool = (threads > 1).then(|| Pool::new(threads, options.clone()));
        let encoder = PackEncoder::new(options)?;
        let output = Some(OutputFile::create(path).map_err(name)?);
        Ok(Self { path: path.to_owned(), output, encoder: Some(encoder), buffer: Vec::new(), pool })
    }

    /// Appends a record.
    pub fn write_record(&mut self, record: &Record) -> Result<(), Error> {
        self.write_draft(&record.into())
    }

    /// Appends a record that is borrowed piece by piece.
    pub fn write_draft(&mut self, draft: &RecordDraft<'_>) -> Result<(), Error> {
        self.drain_pool(0)?;
        let Self { encoder: Some(encoder), buffer, .. } = self else { return Err(finalized()) };
        encoder.push(draft, buffer)?;
        self.flush_if_full()
    }

    /// Appends a record, perhaps later: it is encoded on another thread while more are given. An error may be that of
    /// an earlier record, and names it.
    pub fn write_owned(&mut self, record: Record) -> Result<(), Error> {
        if self.pool.is_none() {
            return self.write_record(&record);
        }
        self.drain_pool(pool::BYTES_MAX)?;
        if let Some(pool) = &mut self.pool {
            pool.push(record);
        }
        Ok(())
    }

    /// Appends a record as it is in another pack, byte for byte, after comparing its CRCs.
    pub fn write_block(&mut self, block: &[u8], frames: Vec<(u32, Vec<Frame>)>) -> Result<(), Error> {
        self.drain_pool(0)?;
        let Self { encoder: Some(encoder), buffer, .. } = self else { return Err(finalized()) };
        encoder.push_block(block, Verify::Crc, frames, buffer)?;
        self.flush_if_full()
    }

    /// Bytes the pack would have if it were finalized now, within a kilobyte or two.
    pub(crate) fn bytes_if_finalized(&self) -> u64 {
        self.encoder.as_ref().map_or(0, PackEncoder::bytes_if_finished)
    }

    /// Waits until other threads hold no record.
    pub(crate) fn write_pending(&mut self) -> Result<(), Error> {
        self.drain_pool(0)
    }

    /// Writes the index, makes everything durable and gives the file its name.
    pub fn finalize(&mut self) -> Result<PackSummary, Error> {
        self.drain_pool(0)?;
        let encoder = self.encoder.take().ok_or_else(finalized)?;
        let finished = encoder.finish(&mut self.buffer)?;
        self.flush()?;
        let output = self.output.take().ok_or_else(finalized)?;
        output.finish(true).map_err(|error| Error::from(error).in_pack(&self.path.display().to_string()))?;
        Ok(finished)
    }

    /// Takes encoded records from the pool until it holds at most that many bytes.
    fn drain_pool(&mut self, bytes_max: usize) -> Result<(), Error> {
        loop {
            let Self { encoder: Some(encoder), buffer, pool: Some(pool), .. } = self else { return Ok(()) };
            if pool.held_bytes() <= bytes_max {
                return Ok(());
            }
            let (block, frames) = pool.next_done()?;
            encoder.push_block(&block, Verify::Off, frames, buffer)?;
            self.flush_if_full()?;
        }
    }

    fn flush_if_full(&mut self) -> Result<(), Error> {
        if self.buffer.len() < FLUSH_BYTES { Ok(()) } else { self.flush() }
    }

    fn flush(&mut self) -> Result<(), Error> {
        let output = self.output.as_mut().ok_or_else(finalized)?;
        let written = output.write_all(&self.buffer);
        self.buffer.clear();
        written.map_err(|error| Error::from(error).in_pack(&self.path.display().to_string()))
    }
}

fn finalized() -> Error {
    Error::invalid("the pack is finalized already; begin another")
}

/// Bytes are handed to the file when there are this many.
const FLUSH_BYTES: usize = 256 << 10;
