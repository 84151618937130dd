//! Content: the bytes of a file, put together here for those who do not speak the protocol.

pub(crate) mod verified_raw;

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{StreamExt as _, TryStreamExt as _};
use xet::FileHash;
use xet::compress::Decompressor;
use xet::xorb::{ChunkHeader, XorbInfo, read_chunks};

use crate::access::Grant;
use crate::content::Content;
use crate::content::recipe::{FileRecipe, RecipeXorb};
use crate::error::{Error, ErrorKind, Result};
use crate::objects::key::ObjectKey;

/// Bytes of memory that one stream takes at most: pieces on their way, stored and raw.
pub const STREAM_BYTES: u64 =
    PIECES_AHEAD as u64 * 2 * (PIECE_RAW_BYTES + xet::limits::CHUNK_BYTES_MAX as u64);

/// Memory to reserve for a stream of this many bytes.
pub fn stream_bytes(bytes: u64) -> u64 {
    let whole_chunks = bytes.saturating_add(2 * u64::from(xet::limits::CHUNK_BYTES_MAX));
    STREAM_BYTES.min(whole_chunks.saturating_mul(2))
}

/// Raw bytes of one piece, to the next chunk.
const PIECE_RAW_BYTES: u64 = 2 * 1024 * 1024;

/// Pieces that are read and decoded while others are sent.
const PIECES_AHEAD: usize = 2;

impl Content {
    /// The bytes `range` of a file the grant's repository may read. Each chunk is checked against its hash, unless it is
    /// stored uncompressed and was checked a short while ago. The range must lie in the file.
    pub async fn read_file(
        &self,
        grant: &Grant,
        file: FileHash,
        range: Range<u64>,
    ) -> Result<BoxStream<'static, Result<Bytes>>> {
        let recipe = self.recipe(grant, file).await?;
        if range.end > recipe.file_bytes() {
            let message =
                format!("file {file} has {} bytes, requested range: {range:?}", recipe.file_bytes());
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        Ok(self.pieces_of(terms(&recipe, &range), Check::UnlessRecent))
    }

    /// All bytes of a file, without an access check, each chunk checked against its hash.
    pub(crate) fn whole_content(&self, recipe: &FileRecipe) -> BoxStream<'static, Result<Bytes>> {
        self.pieces_of(terms(recipe, &(0..recipe.file_bytes())), Check::Always)
    }

    fn pieces_of(&self, terms: Vec<TermRange>, check: Check) -> BoxStream<'static, Result<Bytes>> {
        let store = self.clone();
        let pieces = stream::iter(terms).then(move |term| {
            let store = store.clone();
            async move { store.pieces(&term, check).await }
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
        let blocks = read.buffered(PIECES_AHEAD).map_ok(|blocks| stream::iter(blocks).map(Ok));
        blocks.try_flatten().boxed()
    }

    /// Cuts what is wanted of a term into pieces of bounded size, at chunk borders.
    async fn pieces(&self, term: &TermRange, check: Check) -> Result<Vec<Piece>> {
        let info = self.footers.of(&term.xorb).await?;
        let verified = match check {
            Check::UnlessRecent => self.verified_raw.of(&term.xorb.key),
            Check::Always => None,
        };
        let wrong =
            || Error::new(ErrorKind::Corrupt, format!("the recipe of a file in xorb {}", info.hash()));
        let raw_of = |chunk: u32| info.raw_range(chunk..chunk + 1).ok_or_else(wrong);
        let base = raw_of(term.chunks.start)?.start;
        let mut pieces: Vec<Piece> = Vec::new();
        // The chunks before are passed over in a few steps: one range of many is requested at a time.
        let passed = info.chunks().partition_point(|place| u64::from(place.raw_end) <= base + term.raw.start);
        let first = u32::try_from(passed).unwrap_or(u32::MAX).max(term.chunks.start);
        for chunk in first..term.chunks.end {
            let raw = raw_of(chunk)?;
            let raw = raw.start - base..raw.end - base;
            if raw.start >= term.raw.end {
                break;
            }
            let is_plain = verified.as_ref().is_some_and(|verified| verified.has(chunk));
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

    async fn read_piece(&self, piece: Piece) -> Result<Vec<Bytes>> {
        let key = ObjectKey::Xorb(piece.xorb.key);
        let stored = piece.stored()?;
        if piece.is_plain {
            let missing = || Error::new(ErrorKind::NotFound, format!("read {key}: it is not there"));
            let reader = self.objects.reader(&key).await?.ok_or_else(missing)?;
            let blocks: Vec<Bytes> = reader.stream(stored.clone()).try_collect().await?;
            return piece.payloads(stored.start, &blocks).ok_or_else(|| piece.wrong());
        }
        let bytes = self.objects.positioned(&key, stored.clone()).await?;
        // What a bucket sends is checked each time: it comes over a network.
        let (verified, is_local) = (self.verified_raw.clone(), self.objects.path_of(&key).is_some());
        let decoded = self.workers.run(move || {
            let bytes = bytes.read(&key)?;
            // At most one piece: the lengths are those of a xorb that was checked.
            let mut out = Vec::with_capacity(usize::try_from(piece.raw.end - piece.raw.start).unwrap_or(0));
            let Piece { xorb, info, chunks, .. } = &piece;
            read_chunks(info, chunks.clone(), &bytes, stored.start, &mut Decompressor::new(), &mut out)
                .map_err(|source| Error::corrupt(key.to_string(), source))?;
            if is_local {
                verified.put(xorb.key, info, chunks.clone(), &bytes);
            }
            Ok((piece, Bytes::from(out)))
        });
        let (piece, decoded) = decoded.await??;
        let inside = piece.inside().filter(|inside| inside.end <= decoded.len());
        inside.map(|inside| vec![decoded.slice(inside)]).ok_or_else(|| piece.wrong())
    }
}

/// Whether chunks are checked that were checked a short while ago.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Check {
    Always,
    UnlessRecent,
}

/// What is wanted of one term: raw bytes counted from its beginning.
struct TermRange {
    xorb: RecipeXorb,
    chunks: Range<u32>,
    raw: Range<u64>,
}

/// Some chunks of a term. Raw bytes are counted from the beginning of the term.
struct Piece {
    xorb: RecipeXorb,
    info: Arc<XorbInfo>,
    chunks: Range<u32>,
    raw: Range<u64>,
    wanted: Range<u64>,
    /// Whether the chunks are stored uncompressed and were checked a short while ago.
    is_plain: bool,
}

impl Piece {
    fn wrong(&self) -> Error {
        let key = ObjectKey::Xorb(self.xorb.key);
        Error::new(ErrorKind::Corrupt, format!("the recipe of a file in {key}"))
    }

    /// Where its chunks lie in the object.
    fn stored(&self) -> Result<Range<u64>> {
        self.info.stored_range(self.chunks.clone()).ok_or_else(|| self.wrong())
    }

    /// Which bytes of the piece are wanted: chunks at the ends are whole, the requested range need not be.
    fn inside(&self) -> Option<Range<usize>> {
        let start = self.wanted.start.saturating_sub(self.raw.start);
        let end = self.wanted.end.min(self.raw.end).saturating_sub(self.raw.start);
        let inside = usize::try_from(start).ok()?..usize::try_from(end).ok()?;
        (inside.start <= inside.end).then_some(inside)
    }

    /// What is wanted of a plain piece, out of its stored bytes: a header lies before each chunk. Copies nothing.
    fn payloads(&self, stored_start: u64, blocks: &[Bytes]) -> Option<Vec<Bytes>> {
        let wanted = self.payload_ranges()?;
        let (mut out, mut block_start) = (Vec::new(), stored_start);
        for block in blocks {
            let block_end = block_start.checked_add(block.len() as u64)?;
            for range in &wanted {
                let (start, end) = (range.start.max(block_start), range.end.min(block_end));
                if start < end {
                    let (start, end) = (start - block_start, end - block_start);
                    out.push(block.slice(usize::try_from(start).ok()?..usize::try_from(end).ok()?));
                }
            }
            block_start = block_end;
        }
        Some(out)
    }

    /// Bytes of the object that hold what is wanted of a plain piece, chunk by chunk.
    fn payload_ranges(&self) -> Option<Vec<Range<u64>>> {
        let mut raw_start = self.raw.start;
        let mut ranges = Vec::new();
        for chunk in self.chunks.clone() {
            let stored = self.info.stored_range(chunk..chunk + 1)?;
            let payload = stored.start.checked_add(ChunkHeader::LEN as u64)?;
            let raw = raw_start..raw_start + stored.end.checked_sub(payload)?;
            raw_start = raw.end;
            let wanted = self.wanted.start.max(raw.start)..self.wanted.end.min(raw.end);
            if !wanted.is_empty() {
                ranges.push(payload + (wanted.start - raw.start)..payload + (wanted.end - raw.start));
            }
        }
        (raw_start == self.raw.end).then_some(ranges)
    }
}

/// The terms that a range of a file touches.
fn terms(recipe: &FileRecipe, range: &Range<u64>) -> Vec<TermRange> {
    let mut terms = Vec::new();
    let mut at = 0;
    for term in &recipe.terms {
        let span = at..at + u64::from(term.raw_bytes);
        at = span.end;
        let inside = range.start.max(span.start)..range.end.min(span.end);
        if !inside.is_empty() {
            let raw = inside.start - span.start..inside.end - span.start;
            terms.push(TermRange { xorb: *recipe.xorb_of(term), chunks: term.chunks.clone(), raw });
        }
    }
    terms
}

#[cfg(test)]
mod tests {
    use sha2::Digest as _;

    use super::*;
    use crate::Options;
    use crate::Store;
    use crate::clock::SystemClock;
    use crate::db::Catalog;
    use crate::objects::Objects;

    async fn read_all(store: &Store, file: FileHash, range: Range<u64>) -> Result<Vec<u8>> {
        let grant = Grant::read("ann/models/a".parse().unwrap());
        let pieces: Vec<Bytes> = store.content().read_file(&grant, file, range).await?.try_collect().await?;
        Ok(pieces.concat())
    }

    fn xorbs(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
        let inside =
            |path: &std::path::Path| std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
        inside(folder).flat_map(|prefix| inside(&prefix).collect::<Vec<_>>()).collect()
    }

    #[tokio::test]
    async fn ranges_of_compressed_and_uncompressed_chunks_read_what_was_stored() {
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
        let file = store.content().put_file(&grant, sha256, data.len() as u64, body).await.unwrap().file;

        let whole = 0..data.len() as u64;
        for _ in 0..2 {
            assert!(read_all(&store, file, whole.clone()).await.unwrap() == data);
        }
        for start in (0..4_500_000_u64).step_by(97_003) {
            let end = (start + 70_000).min(data.len() as u64);
            let bytes = read_all(&store, file, start.min(end)..end).await.unwrap();
            assert!(bytes == data[start.min(end) as usize..end as usize], "{start}");
        }
        // What must be checked is checked, however recently it was.
        for xorb in xorbs(&folder.path().join("objects/xorbs")) {
            let mut bytes = std::fs::read(&xorb).unwrap();
            bytes[1000] ^= 1;
            std::fs::write(&xorb, bytes).unwrap();
        }
        let recipe =
            store.content().recipe(&Grant::read("ann/models/a".parse().unwrap()), file).await.unwrap();
        let read: Result<Vec<Bytes>> = store.content().whole_content(&recipe).try_collect().await;
        assert_eq!(read.unwrap_err().kind(), ErrorKind::Corrupt);
        // A file that was cut breaks the answer off, checked or not.
        for xorb in xorbs(&folder.path().join("objects/xorbs")) {
            std::fs::File::options().write(true).open(&xorb).unwrap().set_len(1_000_000).unwrap();
        }
        let error = read_all(&store, file, whole).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
    }
}
