//! Intake: a whole file arrives, is cut here and stored like what clients cut themselves.
//!
//! So a file that came by plain HTTP shares its chunks with all others. What is found again is not stored again, and the
//! shard that tells of the file is proven like anybody's.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use futures::{Stream, StreamExt as _, stream};
use sha2::Digest as _;
use xet::chunk::Chunker;
use xet::compress::Policy;
use xet::hash::RangeHash;
use xet::merkle::MerkleBuilder;
use xet::shard::build::Form as ShardForm;
use xet::shard::{ChunkEntry, FileEntry, ShardBuilder, Term, XorbEntry};
use xet::xorb::{Form, SealedXorb, XorbBuilder};
use xet::{ChunkHash, FileHash, Sha256, XorbHash};

use crate::Store;
use crate::access::Grant;
use crate::body::{BodyError, Segments};
use crate::error::{Error, ErrorKind, Result};
use crate::quota::Need;
use crate::register::Progress;

/// Bytes of memory that the intake of a file takes at most: a xorb that grows, one that is stored, what is known to be
/// there, and a line for each chunk.
pub const fn intake_bytes(file_bytes: u64) -> u64 {
    let chunks = file_bytes / 8192 + 1;
    let chunks = if chunks > CHUNKS_MAX as u64 { CHUNKS_MAX as u64 } else { chunks };
    4 * XORB_BYTES + 160 * chunks
}

/// The longest file that can arrive whole or by parts: more chunks than allowed, were each as long as it may be.
pub const FILE_BYTES_MAX: u64 = CHUNKS_MAX as u64 * xet::limits::CHUNK_BYTES_MAX as u64;
/// Chunks of one file. More do not fit into a shard; whoever has such a file sends it by parts.
const CHUNKS_MAX: usize = 1_000_000;
/// Raw bytes of the xorbs made here: fewer than may be, as each is in memory twice.
const XORB_BYTES: u64 = 16 * 1024 * 1024;
/// Chunks of other xorbs that are remembered.
const KNOWN_CHUNKS_MAX: usize = 200_000;

/// How far an intake is. Anyone may look.
#[derive(Debug, Default)]
pub struct IntakeProgress {
    received_bytes: AtomicU64,
    new_bytes: AtomicU64,
}

impl IntakeProgress {
    /// Bytes that were looked at, and how many of them were not there before.
    pub fn now(&self) -> (u64, u64) {
        (self.received_bytes.load(Ordering::Relaxed), self.new_bytes.load(Ordering::Relaxed))
    }
}

/// A file that was taken in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TakenIn {
    /// Names it.
    pub file: FileHash,
    /// The digest of its bytes.
    pub sha256: Sha256,
    /// Its length.
    pub bytes: u64,
    /// Raw bytes that were not there before.
    pub new_bytes: u64,
}

impl Store {
    /// Takes in a file that must have this digest and length. Anything else leaves at most xorbs that nobody refers to.
    pub async fn take_in<S>(&self, grant: &Grant, sha256: Sha256, bytes: u64, pieces: S) -> Result<TakenIn>
    where
        S: Stream<Item = std::result::Result<Bytes, BodyError>> + Send,
    {
        self.take(grant, Some(sha256), bytes, pieces, &IntakeProgress::default()).await
    }

    /// Takes in a file of this length whose digest its sender does not know.
    pub async fn take_in_any<S>(
        &self,
        grant: &Grant,
        bytes: u64,
        pieces: S,
        progress: &IntakeProgress,
    ) -> Result<TakenIn>
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
        progress: &IntakeProgress,
    ) -> Result<TakenIn>
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
        let mut intake = Intake::default();
        while let Some(segment) = arriving.next().await? {
            let segment_bytes = segment.len() as u64;
            let (back, chunks) = self.workers.run(move || cutter.push(&segment)).await?;
            cutter = back;
            intake = self.place_chunks(grant, intake, chunks).await?;
            progress.received_bytes.fetch_add(segment_bytes, Ordering::Relaxed);
            progress.new_bytes.store(intake.new_bytes + intake.growing.raw_bytes(), Ordering::Relaxed);
        }
        let (found, last) = self.workers.run(move || cutter.finish()).await?;
        intake = self.place_chunks(grant, intake, last).await?;
        let sha256 = expected.unwrap_or(found.0);
        if found != (sha256, bytes) {
            let message =
                format!("the file's {} bytes do not have the digest it was announced with", found.1);
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        intake = self.store_xorb(grant, intake).await?;
        let new_bytes = intake.new_bytes;
        let (file, shard) = self.workers.run(move || intake.shard(sha256)).await?;
        let shard = shard.map_err(|source| Error::invalid("shard", source))?;
        let declared = Some(shard.len() as u64);
        let pieces = stream::iter([Ok(Bytes::from(shard))]);
        self.register(grant, declared, pieces, &Progress::default()).await?;
        self.note_computed(grant.scope(), sha256, file).await?;
        Ok(TakenIn { file, sha256, bytes, new_bytes })
    }

    /// Finds a place for each chunk: where it is already, or in the xorb that grows.
    async fn place_chunks(&self, grant: &Grant, mut intake: Intake, chunks: Vec<Chunk>) -> Result<Intake> {
        for chunk in chunks {
            // Where a run of known chunks ends, the next one may begin another xorb: those can be found.
            let may_be_found =
                intake.chunks.is_empty() || intake.last_was_known || chunk.hash.is_dedup_eligible();
            if may_be_found && !intake.knows(&chunk.hash) {
                self.look_up(grant, &mut intake, chunk.hash).await?;
            }
            let is_full = intake.growing.raw_bytes() + chunk.bytes.len() as u64 > XORB_BYTES;
            if is_full && !intake.knows(&chunk.hash) {
                intake = self.store_xorb(grant, intake).await?;
            }
            intake.push(&chunk)?;
        }
        Ok(intake)
    }

    /// Asks for a chunk as clients do, and learns the other chunks of the xorb that has it.
    async fn look_up(&self, grant: &Grant, intake: &mut Intake, chunk: ChunkHash) -> Result<()> {
        let Some(reach) = self.dedup_policy(grant.scope()).await?.reach(grant.scope()) else { return Ok(()) };
        if intake.known.len() > KNOWN_CHUNKS_MAX {
            intake.known.clear();
        }
        for hit in self.catalog().dedup(&reach, &[chunk]).await? {
            let hash = hit.xorb.key.hash;
            // Sweep must not take it before the shard refers to it.
            if self.catalog().touch_xorbs(&[hash], self.clock.now_s()).await?.is_empty() {
                continue;
            }
            let info = self.footers.of(&hit.xorb.laid()).await?;
            for (index, place) in (0..).zip(info.chunks()) {
                intake.known.entry(place.hash).or_insert((Place::Stored(hash), index));
            }
        }
        Ok(())
    }

    /// Stores the xorb that grew, if anything is in it.
    async fn store_xorb(&self, grant: &Grant, mut intake: Intake) -> Result<Intake> {
        if intake.growing.is_empty() {
            return Ok(intake);
        }
        let sealed = intake.growing.seal(Form::Footerless);
        let SealedXorb { info, bytes } =
            sealed.map_err(|_| Error::new(ErrorKind::Internal, "an empty xorb"))?;
        let declared = Some(bytes.len() as u64);
        let pieces = stream::iter([Ok(Bytes::from(bytes))]).boxed();
        self.ingest(grant, info.hash(), declared, pieces).await?;
        let mut raw_start = 0;
        let chunk = |place: &xet::xorb::ChunkPlace| {
            let raw_bytes = place.raw_end - raw_start;
            let entry = ChunkEntry { hash: place.hash, raw_start, raw_bytes, flags: 0 };
            raw_start = place.raw_end;
            entry
        };
        let chunks = info.chunks().iter().map(chunk).collect();
        let raw_bytes = u32::try_from(info.raw_bytes()).unwrap_or(u32::MAX);
        intake.xorbs.push(XorbEntry { hash: info.hash(), flags: 0, raw_bytes, stored_bytes: 0, chunks });
        intake.new_bytes += info.raw_bytes();
        Ok(intake)
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

/// Where a chunk is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Stored(XorbHash),
    /// In the xorb of this number among those made here.
    Made(usize),
}

/// What is known of the file so far.
struct Intake {
    known: HashMap<ChunkHash, (Place, u32)>,
    /// Chunks of xorbs made here; unlike `known` never forgotten.
    made: HashMap<ChunkHash, (Place, u32)>,
    growing: XorbBuilder,
    xorbs: Vec<XorbEntry>,
    /// Every chunk of the file: its hash, length and place.
    chunks: Vec<(ChunkHash, u32, Place, u32)>,
    last_was_known: bool,
    new_bytes: u64,
}

impl Default for Intake {
    fn default() -> Self {
        Self {
            known: HashMap::new(),
            made: HashMap::new(),
            growing: XorbBuilder::new(Policy::default()),
            xorbs: Vec::new(),
            chunks: Vec::new(),
            last_was_known: false,
            new_bytes: 0,
        }
    }
}

impl Intake {
    fn knows(&self, chunk: &ChunkHash) -> bool {
        self.made.contains_key(chunk) || self.known.contains_key(chunk)
    }

    fn push(&mut self, chunk: &Chunk) -> Result<()> {
        if self.chunks.len() >= CHUNKS_MAX {
            let message = "the file is too large to be sent whole: send it with a client that speaks XET";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let found = self.made.get(&chunk.hash).or_else(|| self.known.get(&chunk.hash)).copied();
        self.last_was_known = found.is_some();
        let (place, index) = match found {
            Some(found) => found,
            None => {
                let at = (Place::Made(self.xorbs.len()), self.growing.chunk_count());
                let pushed = self.growing.push(chunk.hash, &chunk.bytes);
                pushed.map_err(|source| Error::caused(ErrorKind::Internal, "a xorb", source))?;
                self.made.insert(chunk.hash, at);
                at
            }
        };
        let bytes = u32::try_from(chunk.bytes.len()).unwrap_or(u32::MAX);
        self.chunks.push((chunk.hash, bytes, place, index));
        Ok(())
    }

    /// The shard that tells of the file.
    fn shard(self, sha256: Sha256) -> (FileHash, std::result::Result<Vec<u8>, xet::FormatError>) {
        let xorb_of = |place: Place| match place {
            Place::Stored(hash) => hash,
            Place::Made(n) => self.xorbs.get(n).map_or(XorbHash::ZERO, |xorb| xorb.hash),
        };
        let mut merkle = MerkleBuilder::default();
        let mut terms: Vec<Term> = Vec::new();
        let mut hashes: Vec<Vec<ChunkHash>> = Vec::new();
        for (hash, bytes, place, index) in &self.chunks {
            merkle.push(*hash, u64::from(*bytes));
            let xorb = xorb_of(*place);
            match terms.last_mut().zip(hashes.last_mut()) {
                Some((term, hashes)) if term.xorb == xorb && term.chunks.end == *index => {
                    term.chunks.end += 1;
                    term.raw_bytes += bytes;
                    hashes.push(*hash);
                }
                _ => {
                    terms.push(Term { xorb, flags: 0, raw_bytes: *bytes, chunks: *index..index + 1 });
                    hashes.push(vec![*hash]);
                }
            }
        }
        let file = merkle.finish_file();
        let verification = Some(hashes.iter().map(RangeHash::of).collect());
        let mut builder = ShardBuilder::default();
        builder.push_file(FileEntry { hash: file, terms, verification, sha256: Some(sha256) });
        for xorb in self.xorbs {
            builder.push_xorb(xorb);
        }
        (file, builder.encode(&ShardForm::Upload))
    }
}
