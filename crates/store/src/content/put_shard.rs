//! Register: a shard arrives and says what files are made of; what it says is proven, then it holds.
//!
//! Every xorb it refers to must be stored, and the caller must have a right to refer to it: the caller sent it, its repository
//! has registered it, or the dedup policy reaches it. Every term is compared with the footer of the stored xorb: its range hash,
//! its length, and the file hash over all of them; no xorb is read. A shard holds whole or not at all.
//!
//! A caller may have guessed the name of a xorb. So everything that is wrong about a xorb that the caller did not send gets one
//! refusal, at one time, whether the xorb is stored or not; and no refusal holds a value that was read from the store.

pub(crate) mod proof;
pub(crate) mod registration;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use tokio::time::Instant;
use xet::limits::{SHARD_BYTES_MAX, XORB_CHUNKS_MAX};
use xet::shard::check::check_xorb;
use xet::shard::{FileEntry, Form, Shard, ShardBuilder, StoredOptions, XorbEntry};
use xet::{ChunkHash, FileHash, FormatError, Sha256, ShardHash, XorbHash};

use crate::access::{Grant, Scope};
use crate::content::body::{self, BodyError, Segments};
use crate::content::dedup_policy::DedupPolicy;
use crate::content::put_shard::registration::{Registration, RegistrationOutcome};
use crate::content::rows::{DedupRow, ShardRow, XorbRow};
use crate::content::{Content, files, relocate, xorbs};
use crate::error::{Error, ErrorKind, Result};
use crate::objects::key::ObjectKey;

/// What became of a shard. It holds either way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Registered {
    /// Whether it told the repository of anything new. What others have registered does not count.
    pub was_inserted: bool,
    /// Number of files in the shard.
    pub files: u64,
}

/// How far a registration is. Anyone may look.
#[derive(Debug, Default)]
pub struct Progress {
    verified: AtomicU64,
    total: AtomicU64,
}

impl Progress {
    /// Terms proven so far, and terms to prove. The total is 0 until the shard was read.
    pub fn terms(&self) -> (u64, u64) {
        (self.verified.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed))
    }
}

impl Content {
    /// Stores a shard: from then on the grant's repository may read its files. `declared_bytes` as for
    /// `put_xorb`.
    pub async fn register<S>(
        &self,
        grant: &Grant,
        declared_bytes: Option<u64>,
        pieces: S,
        progress: &Progress,
    ) -> Result<Registered>
    where
        S: Stream<Item = std::result::Result<Bytes, BodyError>> + Send,
    {
        grant.expect_write()?;
        let bytes_max = body::limit("shard", declared_bytes, SHARD_BYTES_MAX)?;
        // The body, what was parsed of it, the rows, and the shard as it is stored.
        let memory = self.memory.reserve(bytes_max.saturating_mul(4)).await;
        let mut segments = Vec::new();
        let mut arriving = Segments::new("shard", &self.objects.blocks, bytes_max, pieces);
        while let Some(segment) = arriving.next().await? {
            segments.push(segment);
        }

        let shard = self.workers.run(move || parse(&segments.concat())).await?.map_err(refuse)?;
        let shard = Arc::new(shard);
        let begin = Instant::now();
        let named = Arc::new(self.named_xorbs(grant, &shard).await?);
        let registered = self.prove_and_add(grant, &shard, &named, progress).await;
        if registered.is_err()
            && let Some(steps) = refusal_steps(&shard, &named, self.shard_chunks_max)
        {
            drop(memory);
            wait_for_step(begin, steps).await;
        }
        registered
    }

    async fn prove_and_add(
        &self,
        grant: &Grant,
        shard: &Arc<Shard>,
        named: &Arc<NamedXorbs>,
        progress: &Progress,
    ) -> Result<Registered> {
        self.check_sections(shard, named)?;
        let mut proven = self.prove(shard, named, progress).await?;
        // Rows that come in the order of their keys go to few pages each.
        proven.files.sort_unstable_by_key(|file| file.hash);
        let uncounted = named.values().filter(|named| !named.is_counted).map(|named| named.row.object_bytes);
        let _reserved = self.reserve_quota_for(grant.scope(), &proven.files, uncounted.sum()).await?;
        let now_s = self.clock.now_s();
        let files = proven.files.len() as u64;
        let is_off = self.dedup_policy(grant.scope()).await? == DedupPolicy::Off;
        let mut registration = Registration {
            scope: grant.scope().clone(),
            shard: self.store_shard(shard, named, 0).await?,
            xorbs: named.keys().copied().collect(),
            files: proven.files,
            sha256s: sha256s(shard),
            dedup: if is_off { Vec::new() } else { eligible(shard, proven.dedup) },
            now_s,
        };
        let mut registered = registration::register_shard(&self.db, &registration).await?;
        if registered == RegistrationOutcome::ShardSwept {
            // Its object may be deleted at any time. With a date in it the shard is another object.
            registration.shard = self.store_shard(shard, named, now_s.max(1)).await?;
            registered = registration::register_shard(&self.db, &registration).await?;
        }
        match registered {
            RegistrationOutcome::Done { was_inserted } => {
                self.move_broken(&registration).await?;
                self.check_claims_soon(grant.scope(), &registration.sha256s);
                Ok(Registered { was_inserted, files })
            }
            RegistrationOutcome::Missing(hash) => Err(missing(&hash)),
            RegistrationOutcome::ShardSwept => {
                Err(Error::new(ErrorKind::Unavailable, "the shard was just swept: send it again"))
            }
        }
    }

    /// Files that were registered before keep the xorbs they are made of, unless one of those is damaged or missing: then the
    /// file is made of those that were registered just now.
    async fn move_broken(&self, registration: &Registration) -> Result<()> {
        let new: HashMap<_, _> = registration.files.iter().map(|file| (file.hash, &file.recipe)).collect();
        let files: Vec<_> = new.keys().copied().collect();
        let mut rows = files::recipes(&self.db, &files).await?;
        rows.retain(|row| new.get(&row.hash).is_some_and(|recipe| **recipe != row.recipe));
        if rows.is_empty() {
            return Ok(());
        }
        let files: Vec<_> = rows.iter().map(|row| row.hash).collect();
        let broken = self.broken_files(&files).await?;
        for row in rows.iter().filter(|row| broken.contains(&row.hash)) {
            if let Some(recipe) = new.get(&row.hash) {
                let shard = registration.shard.hash;
                relocate::move_file(&self.db, row.hash, &row.recipe, recipe, shard).await?;
            }
        }
        if !broken.is_empty() {
            self.recipes.forget();
        }
        Ok(())
    }

    /// Registers those files of a stored shard that are `wanted`, for a catalog that is rebuilt; returns how many.
    pub(crate) async fn restore_shard(
        &self,
        scope: &Scope,
        shard: &Arc<Shard>,
        row: &ShardRow,
        wanted: &HashSet<FileHash>,
    ) -> Result<u64> {
        let xorbs = Arc::new(self.stored_xorbs(shard).await?);
        let proven = self.prove(shard, &xorbs, &Progress::default()).await?;
        let is_whole = shard.files.iter().all(|file| wanted.contains(&file.hash));
        let files: Vec<_> = proven.files.into_iter().filter(|file| wanted.contains(&file.hash)).collect();
        let restored = files.len() as u64;
        let registration = Registration {
            scope: scope.clone(),
            shard: row.clone(),
            xorbs: xorbs.keys().copied().collect(),
            files,
            sha256s: sha256s(shard).into_iter().filter(|(_, file)| wanted.contains(file)).collect(),
            // Whose the others are is not known here, so their chunks are nobody's to find.
            dedup: if is_whole { eligible(shard, proven.dedup) } else { Vec::new() },
            now_s: self.clock.now_s(),
        };
        match registration::register_shard(&self.db, &registration).await? {
            RegistrationOutcome::Done { .. } => Ok(restored),
            RegistrationOutcome::Missing(hash) => Err(missing(&hash)),
            RegistrationOutcome::ShardSwept => {
                Err(Error::new(ErrorKind::Internal, "a new catalog has tombstones"))
            }
        }
    }

    /// Stores a shard, dated or not; answers with its row.
    async fn store_shard(
        &self,
        shard: &Arc<Shard>,
        xorbs: &Arc<NamedXorbs>,
        dated_s: u64,
    ) -> Result<ShardRow> {
        let sealed = self.workers.run({
            let (shard, xorbs) = (shard.clone(), xorbs.clone());
            move || seal(&shard, &xorbs, dated_s).map(|bytes| (ShardHash::of(&bytes), bytes))
        });
        let (hash, sealed) = sealed.await?.map_err(refuse)?;
        let object_bytes = sealed.len() as u64;
        self.objects.put(&ObjectKey::Shard(hash), vec![sealed.into()]).await?;
        Ok(ShardRow { hash, object_bytes, created_s: self.clock.now_s() })
    }

    /// The xorbs that the shard names and the caller may refer to, if it proves its claims about them. Absent ones are left out
    /// like those that are not for the caller.
    async fn named_xorbs(&self, grant: &Grant, shard: &Shard) -> Result<NamedXorbs> {
        let hashes = hashes(shard);
        let mut found = Vec::new();
        for hashes in hashes.chunks(LOOKUP_XORBS) {
            found.extend(self.references(grant, hashes).await?);
        }
        found.retain(|found| match found.is_own() {
            true => found.row.is_there(),
            false => found.row.is_live() && found.is_provable(),
        });
        // What was condemned lives again from here on: its object must stay while the shard is proven.
        let condemned = found.iter().filter(|found| !found.row.is_live()).map(|found| found.row.key.hash);
        let condemned: Vec<_> = condemned.collect();
        if !condemned.is_empty() {
            let revived = xorbs::touch_xorbs(&self.db, &condemned, self.clock.now_s()).await?;
            found.retain(|found| found.row.is_live() || revived.contains(&found.row.key.hash));
        }
        let named = found.into_iter().map(|found| {
            let is_sent = found.sent_bytes.is_some() || found.is_senders;
            let is_counted = found.sent_bytes.is_some() || found.is_registered;
            (found.row.key.hash, NamedXorb { row: found.row, is_sent, is_counted })
        });
        Ok(named.collect())
    }

    /// All xorbs that a stored shard names, for a catalog that is made again: it was proven when it was stored.
    async fn stored_xorbs(&self, shard: &Shard) -> Result<NamedXorbs> {
        let mut named = NamedXorbs::new();
        for hashes in hashes(shard).chunks(LOOKUP_XORBS) {
            let rows = xorbs::xorbs(&self.db, hashes).await?.into_iter().filter(XorbRow::is_live);
            named.extend(rows.map(|row| (row.key.hash, NamedXorb { row, is_sent: true, is_counted: true })));
            if let Some(hash) = hashes.iter().find(|hash| !named.contains_key(*hash)) {
                return Err(missing(hash));
            }
        }
        Ok(named)
    }

    /// Parsing has seen that each xorb's hash follows from its chunks. Of a single chunk that does not prove the length.
    fn check_sections(&self, shard: &Shard, named: &NamedXorbs) -> Result<()> {
        for xorb in &shard.xorbs {
            let Some(found) = named.get(&xorb.hash) else { return Err(missing(&xorb.hash)) };
            if found.row.raw_bytes != u64::from(xorb.raw_bytes) {
                return Err(match found.is_sent {
                    true => mismatch(Mismatch::Section { xorb: xorb.hash }),
                    false => missing(&xorb.hash),
                });
            }
        }
        Ok(())
    }
}

/// A xorb that the caller may refer to.
#[derive(Debug, Clone)]
pub(super) struct NamedXorb {
    row: XorbRow,
    /// The caller sent all of it, so a refusal may say what is wrong about it.
    is_sent: bool,
    /// Its bytes count against the quotas of the caller's repository already.
    is_counted: bool,
}

pub(super) type NamedXorbs = HashMap<XorbHash, NamedXorb>;

/// Every xorb that the shard names, each once.
fn hashes(shard: &Shard) -> Vec<XorbHash> {
    let terms = shard.files.iter().flat_map(|file| &file.terms).map(|term| term.xorb);
    let mut hashes: Vec<_> = terms.chain(shard.xorbs.iter().map(|xorb| xorb.hash)).collect();
    hashes.sort_unstable();
    hashes.dedup();
    hashes
}

/// Steps of time after which a refusal is answered, where it may depend on xorbs that the caller did not send; `None` where it
/// does not. They follow from the shard alone, and leave far more time than the proof takes: so the proof of what is stored ends
/// in the same step as the search for what is not.
fn refusal_steps(shard: &Shard, named: &NamedXorbs, chunks_max: u64) -> Option<u32> {
    let hashes = hashes(shard);
    if hashes.iter().all(|hash| named.get(hash).is_some_and(|named| named.is_sent)) {
        return None;
    }
    let terms = shard.files.iter().flat_map(|file| &file.terms);
    // No xorb has more chunks, whatever a term says.
    let chunks_of =
        |chunks: &std::ops::Range<u32>| chunks.end.saturating_sub(chunks.start).min(XORB_CHUNKS_MAX);
    let chunks = terms.map(|term| u64::from(chunks_of(&term.chunks)));
    let chunks = chunks.fold(0, u64::saturating_add).min(chunks_max);
    let steps = 1 + hashes.len() as u64 / STEP_XORBS + chunks / STEP_CHUNKS;
    Some(u32::try_from(steps).unwrap_or(u32::MAX))
}

/// Waits until `steps` have passed since `begin`, or as many more as it takes to end with a step.
async fn wait_for_step(begin: Instant, steps: u32) {
    let passed = begin.elapsed().as_millis() / STEP.as_millis();
    let steps = steps.max(u32::try_from(passed).unwrap_or(u32::MAX).saturating_add(1));
    tokio::time::sleep_until(begin + STEP.saturating_mul(steps)).await;
}

/// Refusals are answered at multiples of this.
const STEP: Duration = Duration::from_millis(250);

/// Footers of that many xorbs, or proofs over that many chunks, take less than a step.
const STEP_XORBS: u64 = 64;

const STEP_CHUNKS: u64 = 1 << 18;

/// Xorbs looked up at once.
const LOOKUP_XORBS: usize = 10_000;

/// A shard whose xorbs agree with themselves. Its files are proven against what is stored, not against what it says.
fn parse(bytes: &[u8]) -> std::result::Result<Shard, FormatError> {
    let shard = Shard::parse_upload(bytes)?;
    for (at, xorb) in shard.xorbs_at() {
        check_xorb(at, xorb, true)?;
    }
    Ok(shard)
}

/// The shard as it is stored: sorted, each thing once, with tables, footer and true lengths. The same content gives the
/// same bytes, so there is no date in it, unless the object without one is being deleted.
fn seal(shard: &Shard, named: &NamedXorbs, created_s: u64) -> std::result::Result<Vec<u8>, FormatError> {
    let mut builder = ShardBuilder::default();
    for file in &shard.files {
        builder.push_file(file.clone());
    }
    for xorb in &shard.xorbs {
        let object_bytes = named.get(&xorb.hash).map_or(0, |named| named.row.object_bytes);
        let stored_bytes = u32::try_from(object_bytes).expect("a xorb is far less than 4 GiB");
        builder.push_xorb(XorbEntry { stored_bytes, ..xorb.clone() });
    }
    builder.flag_file_starts();
    builder.encode(&Form::Stored(StoredOptions { created_s, ..StoredOptions::LOCAL }))
}

/// The digests the uploader claims. That of the empty file we know, and genuine clients send zeros for it.
fn sha256s(shard: &Shard) -> Vec<(Sha256, FileHash)> {
    let digest = |file: &FileEntry| match file.terms.is_empty() {
        true => Some(EMPTY_SHA256),
        false => file.sha256,
    };
    let mut digests: Vec<_> =
        shard.files.iter().filter_map(|file| Some((digest(file)?, file.hash))).collect();
    digests.sort_unstable();
    digests
}

const EMPTY_SHA256: Sha256 = Sha256::new([
    0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4, 0xc8, 0x99, 0x6f, 0xb9, 0x24, 0x27,
    0xae, 0x41, 0xe4, 0x64, 0x9b, 0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55,
]);

/// Chunks to be found again: those the terms showed, and those of the shard's own xorbs that clients ask for. Also the first of
/// each xorb: a client that found one xorb of a file queries what follows its end.
fn eligible(shard: &Shard, of_terms: Vec<DedupRow>) -> Vec<DedupRow> {
    let of_xorb = |xorb: &XorbEntry| {
        let hash = xorb.hash;
        let is_found = |index: u32, chunk: &ChunkHash| index == 0 || chunk.is_dedup_eligible();
        let chunks = (0..).zip(&xorb.chunks).filter(|(index, chunk)| is_found(*index, &chunk.hash));
        chunks
            .map(move |(chunk_index, chunk)| DedupRow { chunk: chunk.hash, xorb: hash, chunk_index })
            .collect::<Vec<_>>()
    };
    let mut rows = of_terms;
    rows.extend(shard.xorbs.iter().flat_map(of_xorb));
    rows.sort_by_key(|row| row.chunk);
    rows
}

pub(crate) fn refuse(source: FormatError) -> Error {
    Error::invalid("shard", source)
}

pub(crate) fn missing(hash: &XorbHash) -> Error {
    Error::caused(ErrorKind::Invalid, "shard", MissingXorb(*hash))
}

pub(crate) fn mismatch(mismatch: Mismatch) -> Error {
    Error::caused(ErrorKind::Invalid, "shard", mismatch)
}

/// A shard names a xorb that is not stored, or that the caller may not refer to, or says something wrong of it: to a caller who
/// did not send the xorb all of this is the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MissingXorb(pub XorbHash);

impl std::fmt::Display for MissingXorb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let hash = self.0;
        write!(
            f,
            "xorb {hash} is not stored for this repository, or a term on it is wrong: upload it before the shard"
        )
    }
}

impl std::error::Error for MissingXorb {}

/// What is wrong with a shard whose xorbs the caller sent. Says where, in the words of the shard, and not what would be right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mismatch {
    /// A term ends behind the last chunk of its xorb.
    End {
        /// The file.
        file: FileHash,
        /// The number of the term in it, from 0.
        term: usize,
    },
    /// The raw bytes of a term are not those of its chunks.
    Length {
        /// The file.
        file: FileHash,
        /// The number of the term in it, from 0.
        term: usize,
    },
    /// The range hash of a term is not that of its chunks.
    RangeHash {
        /// The file.
        file: FileHash,
        /// The number of the term in it, from 0.
        term: usize,
    },
    /// The hash of a file is not that of its chunks.
    FileHash {
        /// The file.
        file: FileHash,
    },
    /// The raw bytes of a xorb are not those of its chunks.
    Section {
        /// The xorb.
        xorb: XorbHash,
    },
}

impl Mismatch {
    /// Whether it is a hash that does not match.
    pub fn is_hash(&self) -> bool {
        matches!(self, Self::RangeHash { .. } | Self::FileHash { .. })
    }
}

impl std::fmt::Display for Mismatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::End { file, term } => {
                write!(f, "file {file}, term {term}: the end of a term's chunks is behind those of its xorb")
            }
            Self::Length { file, term } => {
                write!(f, "file {file}, term {term}: the raw bytes of a term are not those of its chunks")
            }
            Self::RangeHash { file, term } => {
                write!(f, "file {file}, term {term}: the range hash is not that of the term's chunks")
            }
            Self::FileHash { file } => {
                write!(f, "file {file}: the file hash is not that of the file's chunks")
            }
            Self::Section { xorb } => {
                write!(f, "xorb {xorb}: the raw bytes of a xorb are not those of its chunks")
            }
        }
    }
}

impl std::error::Error for Mismatch {}
