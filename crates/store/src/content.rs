//! Content: the bytes of a file, put together here for those who do not speak the protocol.

pub(crate) mod plain;

use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{StreamExt as _, TryStreamExt as _};
use xet::FileHash;
use xet::compress::Decompressor;
use xet::xorb::{ChunkHeader, XorbInfo, read_chunks};

use crate::Store;
use crate::access::Grant;
use crate::error::{Error, ErrorKind, Result};
use crate::layout::{LaidXorb, Layout};
use crate::objects::{FilePart, ObjectKey};

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

/// Bytes of a file on their way out.
#[derive(Debug, Clone)]
pub enum Slice {
    /// Here they are.
    Bytes(Bytes),
    /// They lie in a file as they are, and the system can send them from there.
    Part(FilePart),
}

impl Slice {
    fn into_bytes(self) -> Result<Bytes> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Part(_) => Err(Error::new(ErrorKind::Internal, "part of a file where bytes were expected")),
        }
    }
}

impl Store {
    /// The bytes `range` of a file the grant's repository may read, each chunk checked against its hash. The range must
    /// lie in the file.
    pub async fn content(
        &self,
        grant: &Grant,
        file: FileHash,
        range: Range<u64>,
    ) -> Result<BoxStream<'static, Result<Bytes>>> {
        let slices = self.slices(grant, file, range, Sender::Program).await?;
        Ok(slices.map(|slice| slice.and_then(Slice::into_bytes)).boxed())
    }

    /// The same for whoever can send parts of files: chunks that were checked a short while ago are not read again.
    pub async fn content_by_parts(
        &self,
        grant: &Grant,
        file: FileHash,
        range: Range<u64>,
    ) -> Result<BoxStream<'static, Result<Slice>>> {
        self.slices(grant, file, range, Sender::System).await
    }

    async fn slices(
        &self,
        grant: &Grant,
        file: FileHash,
        range: Range<u64>,
        sender: Sender,
    ) -> Result<BoxStream<'static, Result<Slice>>> {
        let layout = self.layout(grant, file).await?;
        if range.end > layout.file_bytes() {
            let message = format!("file {file} has {} bytes, {range:?} is asked for", layout.file_bytes());
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let terms = terms(&layout, &range);
        if sender == Sender::System
            && range.end - range.start <= PIECE_RAW_BYTES
            && let Some(slices) = self.plain_slices(&terms).await?
        {
            return Ok(stream::iter(slices).map(Ok).boxed());
        }
        Ok(self.pieces_of(terms, sender))
    }

    /// All bytes of a file, whoever may read it, each chunk checked against its hash.
    pub(crate) fn whole_content(&self, layout: &Layout) -> BoxStream<'static, Result<Bytes>> {
        let terms = terms(layout, &(0..layout.file_bytes()));
        let slices = self.pieces_of(terms, Sender::Program);
        slices.map(|slice| slice.and_then(Slice::into_bytes)).boxed()
    }

    fn pieces_of(&self, terms: Vec<Wanted>, sender: Sender) -> BoxStream<'static, Result<Slice>> {
        let store = self.clone();
        let pieces = stream::iter(terms).then(move |term| {
            let store = store.clone();
            async move { store.pieces(&term, sender).await }
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
        let slices = read.buffered(PIECES_AHEAD).map_ok(|slices| stream::iter(slices).map(Ok));
        slices.try_flatten().boxed()
    }

    /// A few terms at once, if all that is wanted of them lies in files as it is.
    async fn plain_slices(&self, terms: &[Wanted]) -> Result<Option<Vec<Slice>>> {
        let mut slices = Vec::new();
        for term in terms {
            for piece in self.pieces(term, Sender::System).await? {
                match self.plain_piece(&piece).await? {
                    Some(parts) => slices.extend(parts),
                    None => return Ok(None),
                }
            }
        }
        Ok(Some(slices))
    }

    /// Cuts what is wanted of a term into pieces of bounded size, at chunk borders.
    async fn pieces(&self, term: &Wanted, sender: Sender) -> Result<Vec<Piece>> {
        let info = self.footers.of(&term.xorb).await?;
        let marks = match sender {
            Sender::System => self.plain.of(&term.xorb.key),
            Sender::Program => None,
        };
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
            let is_plain = marks.as_ref().is_some_and(|marks| marks.has(chunk));
            match pieces.last_mut() {
                Some(piece) if is_plain == piece.is_plain && raw.end - piece.raw.start <= PIECE_RAW_BYTES => {
                    piece.chunks.end = chunk + 1;
                    piece.raw.end = raw.end;
                }
                _ => pieces.push(Piece {
                    xorb: term.xorb,
                    info: info.clone(),
                    chunks: chunk..chunk + 1,
                    raw,
                    wanted: term.raw.clone(),
                    is_plain,
                }),
            }
        }
        Ok(pieces)
    }

    /// A piece that lies in a file as it is.
    async fn plain_piece(&self, piece: &Piece) -> Result<Option<Vec<Slice>>> {
        if !piece.is_plain {
            return Ok(None);
        }
        let key = ObjectKey::Xorb(piece.xorb.key);
        let stored = piece.stored()?;
        let Some(file) = self.objects().file(&key, &stored).await? else { return Ok(None) };
        piece.parts(&file).ok_or_else(|| piece.wrong()).map(Some)
    }

    async fn read_piece(&self, piece: Piece) -> Result<Vec<Slice>> {
        if let Some(parts) = self.plain_piece(&piece).await? {
            return Ok(parts);
        }
        let key = ObjectKey::Xorb(piece.xorb.key);
        let stored = piece.stored()?;
        let bytes = self.objects().positioned(&key, stored.clone()).await?;
        let marks = self.plain.clone();
        let decoded = self.workers.run(move || {
            let bytes = bytes.read(&key)?;
            let mut out = Vec::new();
            let Piece { xorb, info, chunks, .. } = &piece;
            read_chunks(info, chunks.clone(), &bytes, stored.start, &mut Decompressor::new(), &mut out)
                .map_err(|source| Error::corrupt(key.to_string(), source))?;
            marks.put(xorb.key, info, chunks.clone(), &bytes);
            Ok((piece, Bytes::from(out)))
        });
        let (piece, decoded) = decoded.await??;
        let inside = piece.inside().filter(|inside| inside.end <= decoded.len());
        inside.map(|inside| vec![Slice::Bytes(decoded.slice(inside))]).ok_or_else(|| piece.wrong())
    }
}

/// Who sends what is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sender {
    /// This program: it needs the bytes.
    Program,
    /// The system, where it can.
    System,
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
    /// Whether the chunks lie in the object as they are.
    is_plain: bool,
}

impl Piece {
    fn wrong(&self) -> Error {
        let key = ObjectKey::Xorb(self.xorb.key);
        Error::new(ErrorKind::Corrupt, format!("the layout of a file in {key}"))
    }

    /// Where its chunks lie in the object.
    fn stored(&self) -> Result<Range<u64>> {
        self.info.stored_range(self.chunks.clone()).ok_or_else(|| self.wrong())
    }

    /// Which bytes of the piece are wanted: chunks at the ends are whole, what is asked for need not be.
    fn inside(&self) -> Option<Range<usize>> {
        let start = self.wanted.start.saturating_sub(self.raw.start);
        let end = self.wanted.end.min(self.raw.end).saturating_sub(self.raw.start);
        let inside = usize::try_from(start).ok()?..usize::try_from(end).ok()?;
        (inside.start <= inside.end).then_some(inside)
    }

    /// What is wanted of a plain piece, chunk by chunk: a header lies between two.
    fn parts(&self, file: &Arc<File>) -> Option<Vec<Slice>> {
        let mut raw_start = self.raw.start;
        let mut parts = Vec::new();
        for chunk in self.chunks.clone() {
            let stored = self.info.stored_range(chunk..chunk + 1)?;
            let at = stored.start.checked_add(ChunkHeader::LEN as u64)?;
            let raw = raw_start..raw_start + stored.end.checked_sub(at)?;
            raw_start = raw.end;
            let wanted = self.wanted.start.max(raw.start)..self.wanted.end.min(raw.end);
            if !wanted.is_empty() {
                let range = at + (wanted.start - raw.start)..at + (wanted.end - raw.start);
                parts.push(Slice::Part(FilePart { file: file.clone(), range }));
            }
        }
        (raw_start == self.raw.end).then_some(parts)
    }
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt as _;

    use sha2::Digest as _;

    use super::*;
    use crate::catalog::Catalog;
    use crate::clock::SystemClock;
    use crate::{Objects, Options};

    async fn gathered(store: &Store, file: FileHash, range: Range<u64>) -> (Vec<u8>, usize) {
        let grant = Grant::read("ann/models/a".parse().unwrap());
        let slices = store.content_by_parts(&grant, file, range).await.unwrap();
        let slices: Vec<Slice> = slices.try_collect().await.unwrap();
        let (mut bytes, mut parts) = (Vec::new(), 0);
        for slice in slices {
            match slice {
                Slice::Bytes(piece) => bytes.extend_from_slice(&piece),
                Slice::Part(part) => {
                    let mut piece = vec![0; part.len()];
                    part.file.read_exact_at(&mut piece, part.range.start).unwrap();
                    bytes.extend_from_slice(&piece);
                    parts += 1;
                }
            }
        }
        (bytes, parts)
    }

    #[tokio::test]
    async fn what_was_checked_is_sent_from_its_file_and_the_rest_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let objects = Objects::local(&folder.path().join("objects")).unwrap();
        let catalog = Arc::new(Catalog::open_file(&folder.path().join("catalog.db")).await.unwrap());
        let store = Store::new(objects, catalog, Arc::new(SystemClock), &Options::default());
        // Stored as it is, compressed, stored as it is.
        let mut data = testkit::corpus::noise(1, 3_000_000);
        data.extend(b"over and over again ".repeat(50_000));
        data.extend(testkit::corpus::noise(2, 500_000));
        let grant = Grant::write("ann/models/a".parse().unwrap());
        let sha256 = xet::Sha256::new(sha2::Sha256::digest(&data).into());
        let body = stream::iter([Ok(Bytes::from(data.clone()))]);
        let file = store.take_in(&grant, sha256, data.len() as u64, body).await.unwrap().file;

        let whole = 0..data.len() as u64;
        let (first, parts) = gathered(&store, file, whole.clone()).await;
        assert!(first == data && parts == 0);
        let (second, parts) = gathered(&store, file, whole).await;
        assert!(second == data);
        assert!(parts > 20, "{parts} parts");
        for start in (0..4_500_000_u64).step_by(97_003) {
            let end = (start + 70_000).min(data.len() as u64);
            let (bytes, _) = gathered(&store, file, start.min(end)..end).await;
            assert!(bytes == data[start.min(end) as usize..end as usize], "{start}");
        }
    }
}
