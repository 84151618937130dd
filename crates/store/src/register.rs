//! Register: a shard arrives and says what files are made of; what it says is proven, then it holds.
//!
//! Every xorb it refers to must be stored. Every term is compared with the footer of the stored xorb: its range hash, its
//! length, and the file hash over all of them; no xorb is read. A shard holds whole or not at all.

mod prove;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use futures::Stream;
use xet::limits::SHARD_BYTES_MAX;
use xet::shard::check::check_xorb;
use xet::shard::{FileEntry, Footing, Form, Shard, ShardBuilder, XorbEntry};
use xet::{ChunkHash, FileHash, FormatError, Sha256, ShardHash, XorbHash};

use crate::Store;
use crate::access::{Grant, Scope};
use crate::body::{self, BodyError, Segments};
use crate::catalog::rows::{DedupRow, Registered as Row, Registration, ShardRow, XorbRow};
use crate::error::{Error, ErrorKind, Result};
use crate::objects::ObjectKey;

/// What became of a shard. It holds either way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Registered {
    /// Whether it was new.
    pub was_inserted: bool,
    /// How many files it told of.
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

impl Store {
    /// Takes in a shard: from then on the grant's repository may read its files. `declared_bytes` as for
    /// [`Store::ingest`].
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
        let _memory = self.memory.reserve(bytes_max.saturating_mul(4)).await;
        let mut segments = Vec::new();
        let mut arriving = Segments::new("shard", &self.objects.blocks, bytes_max, pieces);
        while let Some(segment) = arriving.next().await? {
            segments.push(segment);
        }

        let shard = self.workers.run(move || parse(&segments.concat())).await?.map_err(refuse)?;
        let shard = Arc::new(shard);
        let xorbs = Arc::new(self.live_xorbs(&shard).await?);
        self.check_sections(&shard, &xorbs)?;
        let mut proven = self.prove(&shard, &xorbs, progress).await?;
        // Rows that come in the order of their keys go to few pages each.
        proven.files.sort_unstable_by_key(|file| file.hash);
        let stored: Vec<_> = xorbs.values().map(|row| (row.key.hash, row.object_bytes)).collect();
        self.expect_quota_for(grant.scope(), &proven.files, &stored).await?;
        let now_s = self.clock.now_s();
        let files = proven.files.len() as u64;
        let mut registration = Registration {
            scope: grant.scope().clone(),
            shard: self.store_shard(&shard, &xorbs, 0).await?,
            xorbs: xorbs.keys().copied().collect(),
            files: proven.files,
            sha256s: sha256s(&shard),
            dedup: eligible(&shard, proven.dedup),
            now_s,
        };
        let mut registered = self.catalog.register(&registration).await?;
        if registered == Row::ShardSwept {
            // Its object may be deleted at any time. With a date in it the shard is another object.
            registration.shard = self.store_shard(&shard, &xorbs, now_s.max(1)).await?;
            registered = self.catalog.register(&registration).await?;
        }
        match registered {
            Row::Done { was_inserted } => {
                self.move_broken(&registration).await?;
                self.check_claims_soon(grant.scope(), &registration.sha256s);
                Ok(Registered { was_inserted, files })
            }
            Row::Missing(hash) => Err(missing(&hash)),
            Row::ShardSwept => {
                Err(Error::new(ErrorKind::Unavailable, "the shard was just swept: send it again"))
            }
        }
    }

    /// Files that were registered before keep the xorbs they are made of, unless one of those is damaged or missing: then the
    /// file is made of those that were registered just now.
    async fn move_broken(&self, registration: &Registration) -> Result<()> {
        let new: HashMap<_, _> = registration.files.iter().map(|file| (file.hash, &file.layout)).collect();
        let files: Vec<_> = new.keys().copied().collect();
        let mut rows = self.catalog.sweep().layouts(&files).await?;
        rows.retain(|row| new.get(&row.hash).is_some_and(|layout| **layout != row.layout));
        if rows.is_empty() {
            return Ok(());
        }
        let files: Vec<_> = rows.iter().map(|row| row.hash).collect();
        let broken = self.broken_files(&files).await?;
        for row in rows.iter().filter(|row| broken.contains(&row.hash)) {
            if let Some(layout) = new.get(&row.hash) {
                let shard = registration.shard.hash;
                self.catalog.care().move_file(row.hash, &row.layout, layout, shard).await?;
            }
        }
        if !broken.is_empty() {
            self.layouts.forget();
        }
        Ok(())
    }

    /// Registers those files of a stored shard that are `wanted`, for a catalog that is made again; tells how many.
    pub(crate) async fn restore_shard(
        &self,
        scope: &Scope,
        shard: &Arc<Shard>,
        row: &ShardRow,
        wanted: &HashSet<FileHash>,
    ) -> Result<u64> {
        let xorbs = Arc::new(self.live_xorbs(shard).await?);
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
        match self.catalog.register(&registration).await? {
            Row::Done { .. } => Ok(restored),
            Row::Missing(hash) => Err(missing(&hash)),
            Row::ShardSwept => Err(Error::new(ErrorKind::Internal, "a new catalog has tombstones")),
        }
    }

    /// Stores a shard, dated or not; answers with its row.
    async fn store_shard(
        &self,
        shard: &Arc<Shard>,
        xorbs: &Arc<HashMap<XorbHash, XorbRow>>,
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

    /// The rows of all xorbs the shard refers to. Fails with the first that is not stored.
    async fn live_xorbs(&self, shard: &Shard) -> Result<HashMap<XorbHash, XorbRow>> {
        let terms = shard.files.iter().flat_map(|file| &file.terms).map(|term| term.xorb);
        let mut hashes: Vec<_> = terms.chain(shard.xorbs.iter().map(|xorb| xorb.hash)).collect();
        hashes.sort_unstable();
        hashes.dedup();
        let mut rows = HashMap::new();
        for hashes in hashes.chunks(LOOKUP_XORBS) {
            let mut found = self.catalog.xorbs(hashes).await?;
            found.retain(XorbRow::is_there);
            // What was condemned lives again from here on: its object must stay while the shard is proven.
            let condemned = found.iter().filter(|row| !row.is_live()).map(|row| row.key.hash);
            let condemned: Vec<_> = condemned.collect();
            if !condemned.is_empty() {
                let revived = self.catalog.touch_xorbs(&condemned, self.clock.now_s()).await?;
                found.retain(|row| row.is_live() || revived.contains(&row.key.hash));
            }
            rows.extend(found.into_iter().map(|row| (row.key.hash, row)));
            if let Some(hash) = hashes.iter().find(|hash| !rows.contains_key(*hash)) {
                return Err(missing(hash));
            }
        }
        Ok(rows)
    }

    /// Parsing has seen that each xorb's hash follows from its chunks. Of a single chunk that does not prove the length.
    fn check_sections(&self, shard: &Shard, rows: &HashMap<XorbHash, XorbRow>) -> Result<()> {
        for (at, xorb) in shard.xorbs_at() {
            let Some(row) = rows.get(&xorb.hash) else { return Err(missing(&xorb.hash)) };
            let (expected, found) = (row.raw_bytes, u64::from(xorb.raw_bytes));
            if expected != found {
                let what = "raw bytes of a xorb";
                return Err(refuse(FormatError::Number { at: at + 40, what, expected, found }));
            }
        }
        Ok(())
    }
}

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
fn seal(
    shard: &Shard,
    rows: &HashMap<XorbHash, XorbRow>,
    created_s: u64,
) -> std::result::Result<Vec<u8>, FormatError> {
    let mut builder = ShardBuilder::default();
    for file in &shard.files {
        builder.push_file(file.clone());
    }
    for xorb in &shard.xorbs {
        let object_bytes = rows.get(&xorb.hash).map_or(0, |row| row.object_bytes);
        let stored_bytes = u32::try_from(object_bytes).expect("a xorb is far less than 4 GiB");
        builder.push_xorb(XorbEntry { stored_bytes, ..xorb.clone() });
    }
    builder.flag_file_starts();
    builder.encode(&Form::Stored(Footing { created_s, ..Footing::LOCAL }))
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
/// each xorb: who has found one xorb of a file asks for what follows its end.
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

fn refuse(source: FormatError) -> Error {
    Error::invalid("shard", source)
}

fn missing(hash: &XorbHash) -> Error {
    Error::caused(ErrorKind::Invalid, "shard", MissingXorb(*hash))
}

/// A shard names a xorb that is not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MissingXorb(pub XorbHash);

impl std::fmt::Display for MissingXorb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "xorb {} is not stored: upload it before the shard", self.0)
    }
}

impl std::error::Error for MissingXorb {}
