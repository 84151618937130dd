//! Decoder: decompresses and verifies the chunks of one fetched range, and writes each to every place that uses it.
//!
//! A range is decoded while it arrives. Each chunk is decompressed straight into a buffer that fits a core's cache, hashed there,
//! and written from there in runs, to one place or to many: files that share chunks share the fetch.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;

use bytes::Bytes;
use xet::compress::Decompressor;
use xet::cursor::Reader;
use xet::limits::CHUNK_BYTES_MAX;
use xet::xorb::ChunkHeader;
use xet::{ChunkHash, FormatError, XorbHash};

use crate::cache::CacheWriter;
use crate::chunk::Chunk;
use crate::error::{Error, ErrorKind, Result};

/// Destination of decoded chunks. Called from several threads at once, never twice for the same bytes at once.
pub(crate) trait Sink: Send + Sync + fmt::Debug {
    /// Takes whole chunks, which begin at `at` of a file.
    fn write(&self, file: usize, at: u64, raw: &[u8], chunks: &[Chunk]) -> Result<()>;

    /// Says that a file reaches to `end` at least.
    fn reserve(&self, _file: usize, _end: u64) {}
}

/// One place that needs a run of a range's chunks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Destination {
    /// Which file of those that are pulled together.
    pub(crate) file: usize,
    /// Chunk numbers in the xorb.
    pub(crate) chunks: Range<u32>,
    /// Offset in the file of its bytes that are not written yet.
    pub(crate) bytes: Range<u64>,
    /// How often it failed since any of it was written.
    pub(crate) failures: u32,
}

/// Decodes one range of a xorb.
pub(crate) struct RangeDecoder {
    xorb: XorbHash,
    /// Offset in the xorb of the next stored chunk.
    at: u64,
    /// Chunks not yet decoded.
    left: Range<u32>,
    /// Ascending by first chunk.
    uses: Vec<Destination>,
    /// Uses before this one are finished.
    first_open: usize,
    pieces: VecDeque<Bytes>,
    held_bytes: usize,
    /// Buffers reused from one chunk to the next.
    scratch: Scratch,
    batch: Vec<Chunk>,
    /// Filled bytes of the output buffer.
    filled: usize,
    cache_writer: Option<CacheWriter>,
    /// Hashes and lengths that the chunks must have, from a trusted source; in order of the range.
    expected: Option<Vec<Chunk>>,
    first: u32,
    written_bytes: u64,
}

/// Buffers that outlive a range.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    decompressor: Decompressor,
    /// A stored chunk that lies in two pieces.
    joined: Vec<u8>,
    out: Vec<u8>,
}

impl fmt::Debug for RangeDecoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RangeDecoder({} {:?})", self.xorb, self.left)
    }
}

impl RangeDecoder {
    /// Decodes the chunks `chunks` of a xorb, whose first stored chunk begins at `at`.
    pub(crate) fn new(
        xorb: XorbHash,
        chunks: Range<u32>,
        at: u64,
        mut uses: Vec<Destination>,
        scratch: Scratch,
    ) -> Self {
        uses.sort_by_key(|place| (place.chunks.start, place.file, place.bytes.start));
        Self {
            xorb,
            at,
            first: chunks.start,
            left: chunks,
            uses,
            first_open: 0,
            pieces: VecDeque::new(),
            held_bytes: 0,
            scratch,
            batch: Vec::new(),
            filled: 0,
            cache_writer: None,
            expected: None,
            written_bytes: 0,
        }
    }

    /// Keeps what is decoded in a cache, too.
    pub(crate) fn with_cache(mut self, cache_writer: Option<CacheWriter>) -> Self {
        self.cache_writer = cache_writer;
        self
    }

    /// Refuses chunks that are not these.
    pub(crate) fn expect(mut self, chunks: Vec<Chunk>) -> Self {
        self.expected = Some(chunks);
        self
    }

    /// Decodes all whole stored chunks among what came before and `pieces`, and writes their chunks.
    pub(crate) fn push(&mut self, pieces: Vec<Bytes>, sink: &dyn Sink) -> Result<()> {
        self.held_bytes += pieces.iter().map(Bytes::len).sum::<usize>();
        self.pieces.extend(pieces);
        let decoded = self.decode_all(sink);
        // What was decoded before an error is valid and is not fetched again.
        let flushed = self.flush(sink);
        decoded.and(flushed)
    }

    /// Says that all bytes were pushed.
    pub(crate) fn finish(&mut self) -> Result<()> {
        if self.held_bytes > 0 || !self.left.is_empty() {
            let left = self.held_bytes as u64;
            let what = "range of chunks";
            return Err(self.wrong(FormatError::Truncated { at: self.at, what, needed: left + 1, left }));
        }
        if let Some(cache_writer) = self.cache_writer.take() {
            cache_writer.finish();
        }
        Ok(())
    }

    /// Bytes written so far, to all places together.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// Returns what was not written, and the buffers for the next range.
    pub(crate) fn into_rest(self) -> (Vec<Destination>, Scratch) {
        let mut uses = self.uses;
        uses.retain(|place| !place.bytes.is_empty());
        (uses, self.scratch)
    }

    fn decode_all(&mut self, sink: &dyn Sink) -> Result<()> {
        while self.held_bytes > 0 {
            let Some(header) = self.peek_header().map_err(|source| self.wrong(source))? else {
                return Ok(());
            };
            let total_len = header.total_len();
            if self.held_bytes < total_len {
                return Ok(());
            }
            if self.left.is_empty() {
                let (at, bytes) = (self.at, self.held_bytes as u64);
                return Err(self.wrong(FormatError::Trailing { at, what: "range of chunks", bytes }));
            }
            self.decode_one(header, total_len)?;
            if self.filled >= OUT_BYTES {
                self.flush(sink)?;
            }
        }
        Ok(())
    }

    /// Decodes and hashes the stored chunk at hand, which is whole.
    fn decode_one(&mut self, header: ChunkHeader, total_len: usize) -> Result<()> {
        let front = self.pieces.front().map_or(0, Bytes::len);
        let piece;
        let stored_chunk: &[u8] = if front >= total_len {
            piece = self.pieces.front_mut().map(|piece| piece.split_to(total_len)).unwrap_or_default();
            &piece
        } else {
            join(&mut self.pieces, total_len, &mut self.scratch.joined);
            &self.scratch.joined
        };
        while self.pieces.front().is_some_and(Bytes::is_empty) {
            self.pieces.pop_front();
        }
        self.held_bytes -= total_len;

        let chunk_len = header.chunk_len as usize;
        let out = &mut self.scratch.out;
        if out.len() < self.filled + chunk_len {
            // Only until it has its size: zeroing is not free.
            out.resize((self.filled + chunk_len).max(OUT_BYTES + CHUNK_BYTES_MAX as usize), 0);
        }
        let raw = out.get_mut(self.filled..self.filled + chunk_len).unwrap_or_default();
        let stored = stored_chunk.get(ChunkHeader::LEN..).unwrap_or_default();
        let payload_at = self.at + ChunkHeader::LEN as u64;
        let decoded = self.scratch.decompressor.decompress(payload_at, header.scheme, stored, raw);
        decoded.map_err(|source| wrong(&self.xorb, source))?;
        let chunk = Chunk { hash: ChunkHash::of(raw), bytes: header.chunk_len };

        if let Some(expected) = &self.expected {
            let place = (self.left.start - self.first) as usize;
            let expected = expected.get(place).map(|chunk| chunk.hash).unwrap_or_default();
            if expected != chunk.hash {
                let (expected, found) = (expected.0, chunk.hash.0);
                let source = FormatError::Hash { at: self.at, what: "chunk", expected, found };
                return Err(wrong(&self.xorb, source));
            }
        }
        if let Some(cache_writer) = &mut self.cache_writer
            && !cache_writer.push(stored_chunk, chunk)
        {
            self.cache_writer = None;
        }
        self.filled += chunk_len;
        self.batch.push(chunk);
        self.left.start += 1;
        self.at += total_len as u64;
        Ok(())
    }

    /// Writes the decoded chunks to their destinations.
    fn flush(&mut self, sink: &dyn Sink) -> Result<()> {
        let Some(count) = u32::try_from(self.batch.len()).ok().filter(|count| *count > 0) else {
            return Ok(());
        };
        let batch = self.left.start - count..self.left.start;
        let result = self.flush_batch(&batch, sink);
        self.batch.clear();
        self.filled = 0;
        while self.uses.get(self.first_open).is_some_and(|place| place.chunks.end <= batch.end) {
            self.first_open += 1;
        }
        result
    }

    fn flush_batch(&mut self, batch: &Range<u32>, sink: &dyn Sink) -> Result<()> {
        let (mut chunk, mut at) = (batch.start, 0);
        for place in self.uses.get_mut(self.first_open..).unwrap_or_default() {
            if place.chunks.start >= batch.end {
                break;
            }
            let inside = place.chunks.start.max(batch.start)..place.chunks.end.min(batch.end);
            if inside.is_empty() {
                continue;
            }
            // Uses come by first chunk, so this walks the batch once unless chunks are shared.
            if inside.start < chunk {
                (chunk, at) = (batch.start, 0);
            }
            let index = |number: u32| (number - batch.start) as usize;
            let bytes_of = |range: Range<u32>| -> usize {
                let chunks = self.batch.get(index(range.start)..index(range.end)).unwrap_or_default();
                chunks.iter().map(|chunk| chunk.bytes as usize).sum()
            };
            at += bytes_of(chunk..inside.start);
            chunk = inside.start;
            let len = bytes_of(inside.clone());
            let left = place.bytes.end - place.bytes.start;
            let ends_here = inside.end == place.chunks.end;
            if len as u64 > left || ends_here && len as u64 != left {
                let what = "raw bytes of a term";
                let source = FormatError::Number { at: self.at, what, expected: left, found: len as u64 };
                return Err(wrong(&self.xorb, source));
            }
            let raw = self.scratch.out.get(at..at + len).unwrap_or_default();
            let chunks = self.batch.get(index(inside.start)..index(inside.end)).unwrap_or_default();
            sink.write(place.file, place.bytes.start, raw, chunks)?;
            place.bytes.start += len as u64;
            place.failures = 0;
            self.written_bytes += len as u64;
        }
        Ok(())
    }

    /// The header of the stored chunk at hand; `None` if it takes more bytes to know.
    fn peek_header(&self) -> std::result::Result<Option<ChunkHeader>, FormatError> {
        if self.held_bytes < ChunkHeader::LEN {
            return Ok(None);
        }
        let mut head = [0; ChunkHeader::LEN];
        let mut filled = 0;
        for piece in &self.pieces {
            let now = piece.len().min(head.len() - filled);
            let (to, from) = (head.get_mut(filled..filled + now), piece.get(..now));
            to.unwrap_or_default().copy_from_slice(from.unwrap_or_default());
            filled += now;
            if filled == head.len() {
                break;
            }
        }
        ChunkHeader::parse(&mut Reader::at(&head, self.at)).map(Some)
    }

    fn wrong(&self, source: FormatError) -> Error {
        wrong(&self.xorb, source)
    }
}

/// Bytes arrived that are not a range of the xorb. They may be right the next time.
fn wrong(xorb: &XorbHash, source: FormatError) -> Error {
    Error::caused(ErrorKind::Corrupt, format!("xorb {xorb}"), source)
}

/// Moves `len` bytes, which must be present, from the front of `pieces` into `joined`.
fn join(pieces: &mut VecDeque<Bytes>, len: usize, joined: &mut Vec<u8>) {
    joined.clear();
    while joined.len() < len {
        let Some(piece) = pieces.front_mut() else { return };
        let now = piece.len().min(len - joined.len());
        joined.extend_from_slice(&piece.split_to(now));
        if piece.is_empty() {
            pieces.pop_front();
        }
    }
}

/// Raw bytes decoded before they are written: few enough to be in the second-level cache still.
const OUT_BYTES: usize = 512 * 1024;

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use proptest::prelude::*;
    use testkit::corpus::noise;
    use xet::compress::Policy;
    use xet::xorb::{Form, XorbBuilder};

    use super::*;

    #[derive(Debug, Default)]
    struct Files(Mutex<Vec<Vec<u8>>>);

    impl Sink for Files {
        fn write(&self, file: usize, at: u64, raw: &[u8], chunks: &[Chunk]) -> Result<()> {
            assert_eq!(raw.len(), chunks.iter().map(|chunk| chunk.bytes as usize).sum::<usize>());
            let mut files = self.0.lock().unwrap();
            if files.len() <= file {
                files.resize(file + 1, Vec::new());
            }
            let (start, end) = (at as usize, at as usize + raw.len());
            if files[file].len() < end {
                files[file].resize(end, 0);
            }
            files[file][start..end].copy_from_slice(raw);
            Ok(())
        }
    }

    /// Chunks of a xorb, and the stored chunks.
    fn xorb(lens: &[usize]) -> (Vec<Vec<u8>>, Vec<u8>, Vec<usize>) {
        let mut builder = XorbBuilder::new(Policy::Auto);
        let chunks: Vec<Vec<u8>> = (0..)
            .zip(lens)
            .map(|(n, len)| {
                let mut chunk = noise(n, *len);
                if n % 3 == 0 {
                    chunk[..len / 2].fill(7);
                }
                chunk
            })
            .collect();
        for chunk in &chunks {
            builder.push(ChunkHash::of(chunk), chunk).unwrap();
        }
        let sealed = builder.seal(Form::Footerless).unwrap();
        let ends = sealed.info.chunks().iter().map(|place| place.stored_end as usize).collect();
        (chunks, sealed.bytes, ends)
    }

    fn destination(file: usize, chunks: Range<u32>, at: u64, all: &[Vec<u8>]) -> Destination {
        let len: usize = all[chunks.start as usize..chunks.end as usize].iter().map(Vec::len).sum();
        Destination { file, chunks, bytes: at..at + len as u64, failures: 0 }
    }

    proptest! {
        /// However the bytes arrive and are shared, every destination gets its chunks.
        #[test]
        fn every_use_gets_its_chunks(
            lens in prop::collection::vec(1..60_000_usize, 1..24),
            steps in prop::collection::vec(1..90_000_usize, 1..9),
            spans in prop::collection::vec((0..24_u32, 1..24_u32), 1..12),
        ) {
            let (chunks, stored, ends) = xorb(&lens);
            let count = lens.len() as u32;
            let (first, last) = (count / 3, count);
            let uses: Vec<_> = spans.iter().enumerate().map(|(file, (start, len))| {
                let start = first + start % (last - first);
                destination(file, start..(start + len).min(last), 100 * file as u64, &chunks)
            }).collect();
            let at = if first == 0 { 0 } else { ends[first as usize - 1] };
            let files = Files::default();
            let mut decoder = RangeDecoder::new(XorbHash::ZERO, first..last, at as u64, uses.clone(), Scratch::default());
            let mut rest = Bytes::copy_from_slice(&stored[at..]);
            for step in steps.iter().cycle() {
                let pieces = vec![rest.split_to((*step).min(rest.len())), rest.split_to((step / 3).min(rest.len()))];
                decoder.push(pieces, &files).unwrap();
                if rest.is_empty() { break }
            }
            decoder.finish().unwrap();
            prop_assert!(decoder.into_rest().0.is_empty());
            let files = files.0.into_inner().unwrap();
            for place in uses {
                let expected = chunks[place.chunks.start as usize..place.chunks.end as usize].concat();
                prop_assert_eq!(&files[place.file][place.bytes.start as usize..], &expected[..]);
            }
        }
    }

    #[test]
    fn what_was_decoded_before_a_cut_counts_and_the_rest_is_named() {
        let (chunks, stored, ends) = xorb(&[5000; 9]);
        let uses = vec![destination(0, 0..9, 0, &chunks), destination(1, 2..4, 0, &chunks)];
        let files = Files::default();
        let mut decoder = RangeDecoder::new(XorbHash::ZERO, 0..9, 0, uses, Scratch::default());
        decoder.push(vec![Bytes::copy_from_slice(&stored[..ends[2] + 100])], &files).unwrap();
        assert_eq!(decoder.finish().unwrap_err().kind(), ErrorKind::Corrupt);
        let (rest, _) = decoder.into_rest();
        assert_eq!(
            rest.iter().map(|place| place.bytes.clone()).collect::<Vec<_>>(),
            [15_000..45_000, 5000..10_000]
        );
        assert_eq!(files.0.into_inner().unwrap()[0], chunks[..3].concat());
    }

    #[test]
    fn records_that_are_too_many_too_long_or_broken_are_corrupt() {
        let (chunks, stored, _) = xorb(&[5000; 4]);
        let all = Bytes::from(stored);
        let decode = |bytes: Bytes, uses: Vec<Destination>, count: u32| {
            let mut decoder = RangeDecoder::new(XorbHash::ZERO, 0..count, 0, uses, Scratch::default());
            decoder.push(vec![bytes], &Files::default()).and_then(|()| decoder.finish())
        };
        let whole = destination(0, 0..4, 0, &chunks);
        decode(all.clone(), vec![whole.clone()], 4).unwrap();
        assert!(decode(all.clone(), vec![destination(0, 0..3, 0, &chunks)], 3).is_err(), "a chunk too many");
        let lying = Destination { bytes: 0..19_999, ..whole.clone() };
        assert!(decode(all.clone(), vec![lying], 4).is_err(), "a term that is longer than it says");
        let mut broken = all.to_vec();
        broken[4] = 9;
        assert!(decode(broken.into(), vec![whole.clone()], 4).is_err(), "no such scheme");
        let mut decoder = RangeDecoder::new(XorbHash::ZERO, 0..4, 0, vec![whole], Scratch::default())
            .expect(vec![Chunk { hash: ChunkHash::ZERO, bytes: 5000 }; 4]);
        assert!(decoder.push(vec![all], &Files::default()).is_err(), "not the chunk that is wanted");
    }
}
