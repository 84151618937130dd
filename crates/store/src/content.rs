//! Content: the bytes of a file, put together here for those who do not speak the protocol.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use xet::FileHash;
use xet::compress::Decompressor;
use xet::xorb::{XorbInfo, read_chunks};

use crate::Store;
use crate::access::Grant;
use crate::error::{Error, ErrorKind, Result};
use crate::layout::{LaidXorb, Layout};
use crate::objects::ObjectKey;

/// Bytes of memory that one stream takes at most: pieces on their way, stored and raw.
pub const STREAM_BYTES: u64 =
    PIECES_AHEAD as u64 * 2 * (PIECE_RAW_BYTES + xet::limits::CHUNK_BYTES_MAX as u64);

/// Bytes of memory that a stream of so many bytes takes at most.
pub fn stream_bytes(bytes: u64) -> u64 {
    let whole_chunks = bytes.saturating_add(2 * u64::from(xet::limits::CHUNK_BYTES_MAX));
    STREAM_BYTES.min(whole_chunks.saturating_mul(2))
}

/// Raw bytes of one piece, to the next chunk.
const PIECE_RAW_BYTES: u64 = 2 * 1024 * 1024;
/// Pieces that are read and decoded while others are sent.
const PIECES_AHEAD: usize = 2;

impl Store {
    /// The bytes `range` of a file the grant's repository may read, each chunk checked against its hash. The range must
    /// lie in the file.
    pub async fn content(
        &self,
        grant: &Grant,
        file: FileHash,
        range: Range<u64>,
    ) -> Result<BoxStream<'static, Result<Bytes>>> {
        let layout = self.layout(grant, file).await?;
        if range.end > layout.file_bytes() {
            let message = format!("file {file} has {} bytes, {range:?} is asked for", layout.file_bytes());
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let store = self.clone();
        let terms = terms(&layout, &range);
        let pieces = stream::iter(terms).then(move |term| {
            let store = store.clone();
            async move { store.pieces(term).await }
        });
        let store = self.clone();
        let pieces = pieces.flat_map(|pieces: Result<Vec<Piece>>| match pieces {
            Ok(pieces) => stream::iter(pieces).map(Ok).boxed(),
            Err(error) => stream::iter([Err(error)]).boxed(),
        });
        let read = pieces.map(move |piece| {
            let store = store.clone();
            async move { store.read_piece(piece?).await }
        });
        Ok(read.buffered(PIECES_AHEAD).boxed())
    }

    /// Cuts what is wanted of a term into pieces of bounded size, at chunk borders.
    async fn pieces(&self, term: Wanted) -> Result<Vec<Piece>> {
        let info = self.footers.of(&term.xorb).await?;
        let wrong =
            || Error::new(ErrorKind::Corrupt, format!("the layout of a file in xorb {}", info.hash()));
        let raw_of = |chunk: u32| info.raw_range(chunk..chunk + 1).ok_or_else(wrong);
        let base = raw_of(term.chunks.start)?.start;
        let mut pieces: Vec<Piece> = Vec::new();
        // The chunks before are passed over in a few steps: one range of many is asked for at a time.
        let passed = info.chunks().partition_point(|place| u64::from(place.raw_end) <= base + term.raw.start);
        let first = u32::try_from(passed).unwrap_or(u32::MAX).max(term.chunks.start);
        for chunk in first..term.chunks.end {
            let raw = raw_of(chunk)?;
            let raw = raw.start - base..raw.end - base;
            if raw.start >= term.raw.end {
                break;
            }
            match pieces.last_mut() {
                Some(piece) if raw.end - piece.raw.start <= PIECE_RAW_BYTES => {
                    piece.chunks.end = chunk + 1;
                    piece.raw.end = raw.end;
                }
                _ => pieces.push(Piece {
                    xorb: term.xorb,
                    info: info.clone(),
                    chunks: chunk..chunk + 1,
                    raw,
                    wanted: term.raw.clone(),
                }),
            }
        }
        Ok(pieces)
    }

    async fn read_piece(&self, piece: Piece) -> Result<Bytes> {
        let Piece { xorb, info, chunks, raw, wanted } = piece;
        let key = ObjectKey::Xorb(xorb.key);
        let wrong = || Error::new(ErrorKind::Corrupt, format!("the layout of a file in {key}"));
        let stored = info.stored_range(chunks.clone()).ok_or_else(wrong)?;
        let bytes = self.objects().positioned(&key, stored.clone()).await?;
        let decoded = self.workers.run(move || {
            let bytes = bytes.read(&key)?;
            let mut out = Vec::new();
            read_chunks(&info, chunks, &bytes, stored.start, &mut Decompressor::new(), &mut out)
                .map(|()| Bytes::from(out))
                .map_err(|source| Error::corrupt(key.to_string(), source))
        });
        let decoded = decoded.await??;
        // Chunks at the ends are whole; what is asked for need not be.
        let start = wanted.start.saturating_sub(raw.start);
        let end = wanted.end.min(raw.end).saturating_sub(raw.start);
        let inside = usize::try_from(start).ok().zip(usize::try_from(end).ok());
        let inside = inside.filter(|(start, end)| start <= end && *end <= decoded.len());
        inside.map(|(start, end)| decoded.slice(start..end)).ok_or_else(wrong)
    }
}

/// What is wanted of one term: raw bytes counted from its beginning.
struct Wanted {
    xorb: LaidXorb,
    chunks: Range<u32>,
    raw: Range<u64>,
}

/// Some chunks of a term. Raw bytes are counted from the beginning of the term.
struct Piece {
    xorb: LaidXorb,
    info: Arc<XorbInfo>,
    chunks: Range<u32>,
    raw: Range<u64>,
    wanted: Range<u64>,
}

/// The terms that a range of a file touches.
fn terms(layout: &Layout, range: &Range<u64>) -> Vec<Wanted> {
    let mut terms = Vec::new();
    let mut at = 0;
    for term in &layout.terms {
        let span = at..at + u64::from(term.raw_bytes);
        at = span.end;
        let inside = range.start.max(span.start)..range.end.min(span.end);
        if !inside.is_empty() {
            let raw = inside.start - span.start..inside.end - span.start;
            terms.push(Wanted { xorb: *layout.xorb_of(term), chunks: term.chunks.clone(), raw });
        }
    }
    terms
}
