//! Cache entry: consecutive stored chunks of a xorb, and behind them a table of their hashes and ends.
//!
//! |       offset | size | field                                            |
//! |-------------:|-----:|--------------------------------------------------|
//! |            0 |    s | stored chunks, as in the xorb                    |
//! |            s |  40n | chunks: hash, raw length (4), end in s (4)       |
//! |      s + 40n |    4 | CRC-32C of the table and what follows this field |
//! |  s + 40n + 4 |    4 | number of chunks, n                              |
//! |  s + 40n + 8 |    4 | number of the first chunk in the xorb            |
//! | s + 40n + 12 |   32 | xorb hash                                        |
//! | s + 40n + 44 |    8 | `DRYXORB1`                                       |
//!
//! Numbers are little-endian. The table is checked when an entry is opened; stored chunks are checked against it when they are
//! decoded, which computes their hashes anyway.

use std::fs::{self, File};
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use xet::cursor::Reader;
use xet::{ChunkHash, FormatError, XorbHash, limits};

use super::{Cache, parse_span, rename, span_name, touch};
use crate::chunk::Chunk;

/// Chunks of an entry, ready to be read.
#[derive(Debug)]
pub(crate) struct CachedRange {
    path: PathBuf,
    file: File,
    /// Hashes and lengths that they must have.
    pub(crate) expected: Vec<Chunk>,
    /// Range of the stored chunks in the entry.
    stored: Range<u64>,
}

impl CachedRange {
    /// The chunks `requested` of an entry that says to hold `span`; `None` when it does not.
    pub(super) fn open(
        path: &Path,
        xorb: &XorbHash,
        span: &Range<u32>,
        requested: Range<u32>,
    ) -> Option<Self> {
        let mut file = File::open(path).ok()?;
        let table = read_table(&mut file, xorb, span).ok()??;
        let first = (requested.start - span.start) as usize;
        let last = (requested.end - span.start) as usize;
        let chunks = table.get(first..last)?;
        let start = first.checked_sub(1).and_then(|before| table.get(before)).map_or(0, |row| row.1);
        let end = chunks.last()?.1;
        touch(path);
        Some(Self {
            path: path.to_owned(),
            file,
            expected: chunks.iter().map(|row| row.0).collect(),
            stored: u64::from(start)..u64::from(end),
        })
    }

    /// Bytes of the stored chunks.
    pub(crate) fn stored_bytes(&self) -> u64 {
        self.stored.end - self.stored.start
    }

    /// The next stored chunks, at most `bytes_max` bytes; none at the end.
    pub(crate) fn read(&mut self, bytes_max: usize) -> std::io::Result<Bytes> {
        let len = self.stored_bytes().min(bytes_max as u64);
        let mut piece = vec![0; usize::try_from(len).unwrap_or(bytes_max)];
        self.file.seek(SeekFrom::Start(self.stored.start))?;
        self.file.read_exact(&mut piece)?;
        self.stored.start += len;
        Ok(piece.into())
    }

    /// Removes the entry: it was found to be damaged.
    pub(crate) fn remove(&self) {
        let _ = fs::remove_file(&self.path);
    }
}

type Row = (Chunk, u32);

fn read_table(file: &mut File, xorb: &XorbHash, span: &Range<u32>) -> std::io::Result<Option<Vec<Row>>> {
    let len = file.metadata()?.len();
    let count = span.end - span.start;
    let tail = u64::from(count) * ROW_LEN + TRAILER_LEN;
    if count > limits::XORB_CHUNKS_MAX || len < tail {
        return Ok(None);
    }
    let stored = len - tail;
    file.seek(SeekFrom::Start(stored))?;
    let mut bytes = Vec::new();
    file.take(tail).read_to_end(&mut bytes)?;
    Ok(parse_table(&bytes, xorb, span).ok().flatten().filter(|rows| {
        let ascend = rows.windows(2).all(|pair| matches!(pair, [a, b] if a.1 < b.1));
        ascend && rows.last().is_some_and(|row| u64::from(row.1) == stored)
    }))
}

fn parse_table(bytes: &[u8], xorb: &XorbHash, span: &Range<u32>) -> Result<Option<Vec<Row>>, FormatError> {
    let r = &mut Reader::new(bytes);
    let mut rows = Vec::new();
    for _ in span.clone() {
        let hash = ChunkHash::new(r.array("chunk hash")?);
        let chunk = Chunk { hash, bytes: r.u32("raw length")? };
        rows.push((chunk, r.u32("end of a chunk")?));
    }
    let table_len = bytes.len() - r.left();
    let sum = r.u32("checksum")?;
    let found = crc32c::crc32c_append(
        crc32c::crc32c(bytes.get(..table_len).unwrap_or_default()),
        bytes.get(table_len + 4..).unwrap_or_default(),
    );
    let agrees = r.u32("number of chunks")? == span.end - span.start
        && r.u32("first chunk")? == span.start
        && XorbHash::new(r.array("xorb hash")?) == *xorb
        && r.array("magic")? == *MAGIC;
    Ok((agrees && found == sum).then_some(rows))
}

/// Writes an entry while the stored chunks are decoded. What is not finished leaves nothing.
#[derive(Debug)]
pub(crate) struct CacheWriter {
    cache: Arc<Cache>,
    xorb: XorbHash,
    chunks: Range<u32>,
    staged: PathBuf,
    out: Option<BufWriter<File>>,
    table: Vec<u8>,
    stored: u64,
    count: u32,
}

impl CacheWriter {
    pub(super) fn new(cache: Arc<Cache>, xorb: XorbHash, chunks: Range<u32>) -> Option<Self> {
        let staged = cache.staged();
        let out = BufWriter::with_capacity(BUFFER_BYTES, File::create_new(&staged).ok()?);
        Some(Self { cache, xorb, chunks, staged, out: Some(out), table: Vec::new(), stored: 0, count: 0 })
    }

    /// Takes the stored chunk of the next chunk. False when it cannot be kept; then nothing more need be pushed.
    pub(crate) fn push(&mut self, stored: &[u8], chunk: Chunk) -> bool {
        let Some(out) = &mut self.out else { return false };
        self.stored += stored.len() as u64;
        let Ok(end) = u32::try_from(self.stored) else { return false };
        self.table.extend(chunk.hash.as_bytes());
        self.table.extend(chunk.bytes.to_le_bytes());
        self.table.extend(end.to_le_bytes());
        self.count += 1;
        self.stored <= self.cache.bytes_max / 2 && out.write_all(stored).is_ok()
    }

    /// Makes the entry known, if all chunks came.
    pub(crate) fn finish(mut self) {
        let Some(mut out) = self.out.take() else { return };
        if self.count != self.chunks.end - self.chunks.start {
            return;
        }
        let mut tail = Vec::new();
        tail.extend(self.count.to_le_bytes());
        tail.extend(self.chunks.start.to_le_bytes());
        tail.extend(self.xorb.as_bytes());
        tail.extend(MAGIC);
        let sum = crc32c::crc32c_append(crc32c::crc32c(&self.table), &tail);
        let written = out
            .write_all(&self.table)
            .and_then(|()| out.write_all(&sum.to_le_bytes()))
            .and_then(|()| out.write_all(&tail))
            .and_then(|()| out.flush());
        let folder = self.cache.folder_of(&self.xorb);
        let stored = written.and_then(|()| rename(&self.staged, &folder.join(span_name(&self.chunks))));
        if stored.is_err() {
            return;
        }
        // What lies inside the new entry is not needed any more.
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let span = entry.file_name().to_str().and_then(parse_span);
            let is_inside = span.is_some_and(|span| {
                span != self.chunks && span.start >= self.chunks.start && span.end <= self.chunks.end
            });
            if is_inside {
                let _ = fs::remove_file(entry.path());
            }
        }
        self.cache.grew(self.stored + self.table.len() as u64 + TRAILER_LEN);
    }
}

impl Drop for CacheWriter {
    fn drop(&mut self) {
        // After `finish` there is nothing under this name.
        self.out = None;
        let _ = fs::remove_file(&self.staged);
    }
}

const MAGIC: &[u8; 8] = b"DRYXORB1";
const ROW_LEN: u64 = 40;
const TRAILER_LEN: u64 = 52;
const BUFFER_BYTES: usize = 256 * 1024;
