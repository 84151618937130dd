//! Upload of a whole file: it is chunked here and stored like what clients chunk themselves.
//!
//! So a file that came by plain HTTP shares its chunks with all others. What is found again is not stored again, and the
//! shard that describes the file is proven like any other.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use futures::{Stream, StreamExt as _, stream};
use sha2::Digest as _;
use xet::chunk::Chunker;
use xet::compress::Policy;
use xet::pack::{ChunkLocation, FilePacker, Packer};
use xet::shard::Form as ShardForm;
use xet::xorb::{Form, SealedXorb};
use xet::{ChunkHash, FileHash, Sha256};

use crate::access::Grant;
use crate::content::body::{BodyError, Segments};
use crate::content::dedup::index;
use crate::content::put_shard::Progress;
use crate::content::quotas::Need;
use crate::content::{Content, xorbs};
use crate::error::{Error, ErrorKind, Result};

/// Memory to reserve for the upload of a whole file: a xorb that grows, one that is stored, what is known to be
/// there, and a line for each chunk.
pub const fn put_file_memory(file_bytes: u64) -> u64 {
    let chunks = file_bytes / 8192 + 1;
    let chunks = if chunks > CHUNKS_MAX as u64 { CHUNKS_MAX as u64 } else { chunks };
    4 * XORB_BYTES + 160 * chunks
}

/// The longest file that can arrive whole or by parts: more chunks than allowed, were each as long as it may be.
pub const FILE_BYTES_MAX: u64 = CHUNKS_MAX as u64 * xet::limits::CHUNK_BYTES_MAX as u64;

/// Chunks of one file. More do not fit into a shard; such a file is sent in parts.
const CHUNKS_MAX: usize = 1_000_000;

/// Raw bytes of the xorbs made here: fewer than may be, as each is in memory twice.
const XORB_BYTES: u64 = 16 * 1024 * 1024;

/// Progress of an upload, readable by any thread.
#[derive(Debug, Default)]
pub struct PutFileProgress {
    received_bytes: AtomicU64,
    new_bytes: AtomicU64,
}

impl PutFileProgress {
    /// Bytes processed, and how many of them were new.
    pub fn now(&self) -> (u64, u64) {
        (self.received_bytes.load(Ordering::Relaxed), self.new_bytes.load(Ordering::Relaxed))
    }
}

/// A file that was taken in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredFile {
    /// Names it.
    pub file: FileHash,
    /// The digest of its bytes.
    pub sha256: Sha256,
    /// Its length.
    pub bytes: u64,
    /// Raw bytes that were new.
    pub new_bytes: u64,
}

impl Content {
    /// Stores a file that must have this digest and length. Anything else leaves at most unreferenced xorbs.
    pub async fn put_file<S>(
        &self,
        grant: &Grant,
        sha256: Sha256,
        bytes: u64,
        pieces: S,
    ) -> Result<StoredFile>
    where
        S: Stream<Item = std::result::Result<Bytes, BodyError>> + Send,
    {
        self.take(grant, Some(sha256), bytes, pieces, &PutFileProgress::default()).await
    }

    /// Stores a file of this length whose digest the client does not know.
    pub async fn put_file_unhashed<S>(
        &self,
        grant: &Grant,
        bytes: u64,
        pieces: S,
        progress: &PutFileProgress,
    ) -> Result<StoredFile>
    where
        S: Stream<Item = std::result::Result<Bytes, BodyError>> + Send,
    {
        self.take(grant, None, bytes, pieces, progress).await
    }

    async fn take<S>(
        &self,
        grant: &Grant,
        expected: Option<Sha256>,
        bytes: u64,
        pieces: S,
        progress: &PutFileProgress,
    ) -> Result<StoredFile>
    where
        S: Stream<Item = std::result::Result<Bytes, BodyError>> + Send,
    {
        grant.expect_write()?;
        if bytes > FILE_BYTES_MAX {
            let message = format!(
                "a file that is sent whole has at most {FILE_BYTES_MAX} bytes, {bytes} are announced"
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        self.expect_quota(grant.scope(), Need { logical_bytes: bytes, ..Need::default() }).await?;
        let mut arriving = Segments::new("file", &self.objects.blocks, bytes, pieces);
        let mut cutter = Cutter::default();
        let mut state = UploadState::default();
        while let Some(segment) = arriving.next().await? {
            let segment_bytes = segment.len() as u64;
            let (back, chunks) = self.workers.run(move || cutter.push(&segment)).await?;
            cutter = back;
            state = self.pack_chunks(grant, state, chunks).await?;
            progress.received_bytes.fetch_add(segment_bytes, Ordering::Relaxed);
            progress.new_bytes.store(state.new_bytes + state.packer.open_bytes(), Ordering::Relaxed);
        }
        let (found, last) = self.workers.run(move || cutter.finish()).await?;
        state = self.pack_chunks(grant, state, last).await?;
        let sha256 = expected.unwrap_or(found.0);
        if found != (sha256, bytes) {
            let message =
                format!("the file's {} bytes do not have the digest it was announced with", found.1);
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        state = self.store_xorb(grant, state).await?;
        let new_bytes = state.new_bytes;
        let packed = state.file.finish();
        let file = packed.hash;
        let shard = move || state.packer.finish([(packed, Some(sha256))]).encode(&ShardForm::Upload);
        let shard = self.workers.run(shard).await?.map_err(|source| Error::invalid("shard", source))?;
        let declared = Some(shard.len() as u64);
        let pieces = stream::iter([Ok(Bytes::from(shard))]);
        self.register(grant, declared, pieces, &Progress::default()).await?;
        self.note_computed(grant.scope(), sha256, file).await?;
        Ok(StoredFile { file, sha256, bytes, new_bytes })
    }

    /// Finds a location for each chunk: where it is already, or in the xorb that grows.
    async fn pack_chunks(
        &self,
        grant: &Grant,
        mut state: UploadState,
        chunks: Vec<Chunk>,
    ) -> Result<UploadState> {
        for Chunk { hash, bytes } in chunks {
            // Where a run of known chunks ends, the next one may begin another xorb: those can be found.
            let may_be_found = state.chunks == 0 || state.last_was_known || hash.is_dedup_eligible();
            if may_be_found && state.packer.find(&hash).is_none() {
                self.find_stored(grant, &mut state, hash).await?;
            }
            let found = state.packer.find(&hash);
            state.last_was_known = found.is_some();
            let location = match found {
                Some(location) => location,
                None => {
                    if state.packer.is_full(bytes.len()) {
                        state = self.store_xorb(grant, state).await?;
                    }
                    let added = state.packer.add(hash, &bytes);
                    added.map_err(|source| Error::caused(ErrorKind::Internal, "a xorb", source))?
                }
            };
            state.push(location, hash, bytes.len())?;
        }
        Ok(state)
    }

    /// Queries dedup for a chunk as clients do, and adds the other chunks of the xorb that has it.
    async fn find_stored(&self, grant: &Grant, state: &mut UploadState, chunk: ChunkHash) -> Result<()> {
        let Some(reach) = self.dedup_policy(grant.scope()).await?.reach(grant.scope()) else { return Ok(()) };
        for hit in index::dedup(&self.db, &reach, &[chunk]).await? {
            let hash = hit.xorb.key.hash;
            // Garbage collection must not delete it before the shard refers to it.
            if xorbs::touch_xorbs(&self.db, &[hash], self.clock.now_s()).await?.is_empty() {
                continue;
            }
            let info = self.footers.of(&hit.xorb.recipe_xorb()).await?;
            state.packer.learn(&info);
        }
        Ok(())
    }

    /// Stores the xorb that grew, if anything is in it.
    async fn store_xorb(&self, grant: &Grant, mut state: UploadState) -> Result<UploadState> {
        let Some(SealedXorb { info, bytes }) = state.packer.seal(Form::Footerless) else {
            return Ok(state);
        };
        let declared = Some(bytes.len() as u64);
        let pieces = stream::iter([Ok(Bytes::from(bytes))]).boxed();
        self.put_xorb(grant, info.hash(), declared, pieces).await?;
        state.new_bytes += info.raw_bytes();
        Ok(state)
    }
}

/// A chunk on its way.
struct Chunk {
    hash: ChunkHash,
    bytes: Bytes,
}

/// Cuts and hashes a stream.
#[derive(Default)]
struct Cutter {
    chunker: Chunker,
    /// What of the stream belongs to a chunk that is not closed.
    open: Vec<u8>,
    sha256: sha2::Sha256,
    bytes: u64,
}

impl Cutter {
    fn push(mut self, segment: &[u8]) -> (Self, Vec<Chunk>) {
        let mut start = self.chunker.start();
        let mut cuts = Vec::new();
        self.chunker.push(segment, &mut cuts);
        self.sha256.update(segment);
        self.bytes += segment.len() as u64;
        self.open.extend_from_slice(segment);
        let open = Bytes::from(std::mem::take(&mut self.open));
        let mut at = 0;
        let mut chunks = Vec::with_capacity(cuts.len());
        for cut in cuts {
            let end = at + usize::try_from(cut - start).unwrap_or(usize::MAX);
            chunks.push(Chunk::new(open.slice(at..end)));
            (at, start) = (end, cut);
        }
        self.open = open.slice(at..).to_vec();
        (self, chunks)
    }

    fn finish(self) -> ((Sha256, u64), Vec<Chunk>) {
        let last = (!self.open.is_empty()).then(|| Chunk::new(self.open.into()));
        let digest = Sha256::new(self.sha256.finalize().into());
        ((digest, self.bytes), last.into_iter().collect())
    }
}

impl Chunk {
    fn new(bytes: Bytes) -> Self {
        Self { hash: ChunkHash::of(&bytes), bytes }
    }
}

/// A file on its way into the store.
struct UploadState {
    packer: Packer,
    file: FilePacker,
    /// Chunks of the file so far.
    chunks: usize,
    last_was_known: bool,
    new_bytes: u64,
}

impl Default for UploadState {
    fn default() -> Self {
        Self {
            packer: Packer::new(Policy::default(), XORB_BYTES),
            file: FilePacker::default(),
            chunks: 0,
            last_was_known: false,
            new_bytes: 0,
        }
    }
}

impl UploadState {
    fn push(&mut self, location: ChunkLocation, hash: ChunkHash, bytes: usize) -> Result<()> {
        if self.chunks >= CHUNKS_MAX {
            let message = "the file is too large to be sent whole: send it with a client that speaks XET";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        self.chunks += 1;
        self.file.push(location, hash, u32::try_from(bytes).unwrap_or(u32::MAX));
        Ok(())
    }
}
