//! Digests: the SHA-256 that a client claims for a file is computed from the stored bytes before anything relies on it.
//!
//! A shard claims a digest for each of its files, and only the bytes can tell whether it is true. LFS batches, commits and
//! downloads use digests that were computed: by the server while it cut the file, by this module, or for a repository whose
//! chunks the dedup policy lets this one know of. A claim that turns out to be false is removed and noted in the audit log.
//!
//! On a server the computation begins when a shard is registered, so that the commit that follows seldom waits. Requests that
//! need the digest of the same file share one computation, which goes on when they are gone.

pub(crate) mod claims;
pub(crate) mod small_files;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::TryStreamExt as _;
use sha2::Digest as _;
use tokio::sync::{Semaphore, mpsc, watch};
use xet::{FileHash, Sha256};

use crate::access::Scope;
use crate::content::digests::claims::DigestClaim;
use crate::content::files::{self, LinkedFile};
use crate::content::reach::Reach;
use crate::content::read::STREAM_BYTES;
use crate::content::recipe::FileRecipe;
use crate::content::rows::FileRow;
use crate::content::{Content, xorbs};
use crate::error::{Error, ErrorKind, Result};

/// Computations under way and how many may run.
#[derive(Debug)]
pub(crate) struct Digests {
    running: Mutex<HashSet<FileHash>>,
    /// Changes whenever computations end.
    ended: watch::Sender<u64>,
    large: Semaphore,
    small: Semaphore,
    /// One computation of large and one of small files for each namespace: a writer who registers much delays others little.
    turns: Mutex<HashMap<(String, bool), Arc<Semaphore>>>,
    /// Files that wait for a computation that nobody asked for yet.
    queued: AtomicUsize,
    is_early: AtomicBool,
}

impl Default for Digests {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self {
            running: Mutex::default(),
            ended: watch::Sender::new(0),
            large: Semaphore::new((cores / 2).clamp(1, 4)),
            small: Semaphore::new(2),
            turns: Mutex::default(),
            queued: AtomicUsize::new(0),
            is_early: AtomicBool::new(false),
        }
    }
}

impl Digests {
    fn turn_of(&self, scope: &Scope, is_small: bool) -> Arc<Semaphore> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        turns.retain(|_, turn| Arc::strong_count(turn) > 1);
        let turn = turns.entry((scope.namespace().to_owned(), is_small));
        turn.or_insert_with(|| Arc::new(Semaphore::new(1))).clone()
    }
}

/// The digest of a file, or why its bytes could not be read.
pub(crate) type Computed = std::result::Result<Sha256, String>;

impl Content {
    /// Computes digests as soon as files are registered, not only when something relies on them: for servers.
    pub fn compute_digests_early(&self) {
        self.digests.is_early.store(true, Ordering::Relaxed);
    }

    /// The files of a repository under these digests. What was only claimed is computed first.
    pub async fn linked_files(&self, scope: &Scope, digests: &[Sha256]) -> Result<Vec<LinkedFile>> {
        let claims = claims::digest_claims(&self.db, scope, digests).await?;
        if !claims.is_empty() {
            let work = tokio::spawn(self.clone().check_claims(scope.clone(), claims));
            work.await.map_err(|source| Error::caused(ErrorKind::Internal, "compute digests", source))??;
        }
        files::linked_files(&self.db, scope, digests).await
    }

    /// Those of them that need not be uploaded: their digest is computed and their xorbs are sound. With a limit on the time to
    /// wait, a file whose digest is not computed by then is left out, and the computation goes on.
    pub async fn stored_files(
        &self,
        scope: &Scope,
        digests: &[Sha256],
        patience: Option<Duration>,
    ) -> Result<Vec<LinkedFile>> {
        let computed = self.linked_files(scope, digests);
        let mut found = match patience {
            None => computed.await?,
            Some(patience) => match tokio::time::timeout(patience, computed).await {
                Ok(found) => found?,
                Err(_) => files::linked_files(&self.db, scope, digests).await?,
            },
        };
        let files: Vec<_> = found.iter().map(|found| found.file).collect();
        let broken = self.broken_files(&files).await?;
        found.retain(|found| !broken.contains(&found.file));
        Ok(found)
    }

    /// Those of these files that cannot be read whole as far as the catalog knows: a xorb of theirs is marked as damaged, or
    /// missing.
    pub async fn broken_files(&self, files: &[FileHash]) -> Result<HashSet<FileHash>> {
        let mut broken = HashSet::new();
        for files in files.chunks(FILES_AT_ONCE) {
            let rows = files::recipes(&self.db, files).await?;
            let xorbs: HashSet<_> =
                rows.iter().flat_map(|row| row.recipe.xorbs.iter().map(|xorb| xorb.key.hash)).collect();
            let xorbs: Vec<_> = xorbs.into_iter().collect();
            let xorbs: HashMap<_, _> =
                xorbs::xorbs(&self.db, &xorbs).await?.into_iter().map(|row| (row.key.hash, row)).collect();
            let is_sound = |recipe: &FileRecipe| {
                let mut keys = recipe.xorbs.iter().map(|xorb| xorb.key);
                keys.all(|key| xorbs.get(&key.hash).is_some_and(|row| row.key == key && row.is_there()))
            };
            let sound: HashSet<_> =
                rows.iter().filter(|row| is_sound(&row.recipe)).map(|row| row.hash).collect();
            broken.extend(files.iter().filter(|file| !sound.contains(file)));
        }
        Ok(broken)
    }

    /// Begins to compute digests that were claimed just now, unless too many wait for that already: those are computed when
    /// something relies on them.
    pub(crate) fn check_claims_soon(&self, scope: &Scope, claims: &[(Sha256, FileHash)]) {
        let digests = &self.digests;
        if claims.is_empty() || !digests.is_early.load(Ordering::Relaxed) {
            return;
        }
        let count = claims.len();
        if digests.queued.fetch_add(count, Ordering::Relaxed).saturating_add(count) > QUEUED_MAX {
            digests.queued.fetch_sub(count, Ordering::Relaxed);
            return;
        }
        let (store, scope) = (self.clone(), scope.clone());
        let sha256s: Vec<_> = claims.iter().map(|(sha256, _)| *sha256).collect();
        tokio::spawn(async move {
            // What fails here fails again, and is reported, when something relies on it.
            if let Ok(claims) = claims::digest_claims(&store.db, &scope, &sha256s).await {
                store.clone().check_claims(scope, claims).await.ok();
            }
            store.digests.queued.fetch_sub(count, Ordering::Relaxed);
        });
    }

    /// Records digests that the server computed itself.
    pub(crate) async fn note_computed(&self, scope: &Scope, sha256: Sha256, file: FileHash) -> Result<()> {
        claims::resolve_claims(&self.db, scope, &[(file, sha256)], &[]).await
    }

    /// Compares claims of one repository with the bytes of their files. Returns those that are false, which are removed, and
    /// those whose files cannot be read, which stay as they are.
    pub(crate) async fn check_claims(self, scope: Scope, claims: Vec<DigestClaim>) -> Result<CheckedClaims> {
        let mut checked = CheckedClaims::default();
        let mut known: HashMap<FileHash, Sha256> =
            claims.iter().filter_map(|claim| Some((claim.file, claim.computed?))).collect();
        let open = |known: &HashMap<FileHash, Sha256>| -> Vec<FileHash> {
            let files: HashSet<_> = claims.iter().map(|claim| claim.file).collect();
            files.into_iter().filter(|file| !known.contains_key(file)).collect()
        };
        // Where the policy does not let this repository know what others have, it must not see it by the time either.
        let reach = self.dedup_policy(&scope).await?.reach(&scope);
        let reach = reach.unwrap_or_else(|| Reach::Repo(scope.clone()));
        let mut unreadable: HashMap<FileHash, String> = HashMap::new();
        loop {
            let files = open(&known);
            known.extend(claims::computed_sha256s(&self.db, &reach, &files).await?);
            let mut ended = self.digests.ended.subscribe();
            let mut left = open(&known);
            left.retain(|file| !unreadable.contains_key(file));
            if left.is_empty() {
                break;
            }
            let ours = Running::begin(&self, &left);
            if ours.files.is_empty() {
                // Another task computes it. One that gave up leaves the file to the next caller.
                ended.changed().await.ok();
                continue;
            }
            for (file, computed) in self.compute(&scope, &ours.files).await? {
                match computed {
                    Ok(sha256) => _ = known.insert(file, sha256),
                    Err(why) => _ = unreadable.insert(file, why),
                }
            }
            // Before others check again: they find recorded digests in the catalog.
            self.resolve(&scope, &claims, &known, &mut checked).await?;
        }
        self.resolve(&scope, &claims, &known, &mut checked).await?;
        let broken = claims.into_iter().filter_map(|claim| {
            let why = unreadable.get(&claim.file)?.clone();
            Some((claim, why))
        });
        checked.unreadable = broken.collect();
        Ok(checked)
    }

    async fn resolve(
        &self,
        scope: &Scope,
        claims: &[DigestClaim],
        known: &HashMap<FileHash, Sha256>,
        checked: &mut CheckedClaims,
    ) -> Result<()> {
        let is_refuted = |claim: &&DigestClaim| known.get(&claim.file).is_some_and(|is| *is != claim.sha256);
        let refuted: Vec<_> = claims.iter().filter(is_refuted).cloned().collect();
        let files: HashSet<_> = claims.iter().map(|claim| claim.file).collect();
        let computed: Vec<_> = known
            .iter()
            .filter(|(file, _)| files.contains(file))
            .map(|(file, sha256)| (*file, *sha256))
            .filter(|known| checked.recorded.insert(*known))
            .collect();
        if computed.is_empty() && refuted.len() == checked.refuted.len() {
            return Ok(());
        }
        claims::resolve_claims(&self.db, scope, &computed, &refuted).await?;
        let new = refuted.len().saturating_sub(checked.refuted.len());
        metrics::counter!("drystone_digests_refused_total").increment(new as u64);
        checked.refuted = refuted;
        Ok(())
    }

    /// The digests of these files, from their bytes.
    async fn compute(&self, scope: &Scope, files: &[FileHash]) -> Result<Vec<(FileHash, Computed)>> {
        let mut computed = Vec::with_capacity(files.len());
        for files in files.chunks(FILES_AT_ONCE) {
            let rows = files::recipes(&self.db, files).await?;
            let (small, large): (Vec<_>, Vec<_>) =
                rows.into_iter().partition(|row| small_files::is_small(&row.recipe));
            let found: HashSet<_> = small.iter().chain(&large).map(|row| row.hash).collect();
            let gone = files.iter().filter(|file| !found.contains(file));
            computed.extend(gone.map(|file| (*file, Err(format!("file {file} is no longer there")))));
            if !small.is_empty() {
                let of_namespace = self.digests.turn_of(scope, true);
                let _turn = of_namespace.acquire().await;
                let _turn = self.digests.small.acquire().await;
                computed.extend(self.compute_small(small).await?);
            }
            for row in large {
                let of_namespace = self.digests.turn_of(scope, false);
                let _turn = of_namespace.acquire().await;
                let sha256 = readable(self.compute_large(&row).await)?;
                computed.push((row.hash, sha256));
            }
        }
        Ok(computed)
    }

    /// The digest of one file, read piece by piece. The next pieces are read while one is hashed.
    async fn compute_large(&self, row: &FileRow) -> Result<Sha256> {
        let _memory = self.memory.reserve(2 * STREAM_BYTES).await;
        let (pieces, mut arriving) = mpsc::channel(1);
        let mut stream = self.whole_content(&row.recipe);
        let reading = tokio::spawn(async move {
            while let Some(piece) = stream.try_next().await? {
                if pieces.send(piece).await.is_err() {
                    break;
                }
            }
            Ok::<_, Error>(())
        });
        let mut hasher = sha2::Sha256::new();
        let mut turn = self.digests.large.acquire().await;
        let mut turn_bytes = 0;
        while let Some(piece) = arriving.recv().await {
            turn_bytes += piece.len() as u64;
            if turn_bytes > TURN_BYTES {
                // Others are let in between: a small file need not wait for all of a huge one.
                drop(turn);
                turn = self.digests.large.acquire().await;
                turn_bytes = 0;
            }
            let update = move || {
                hasher.update(&piece);
                hasher
            };
            hasher = self.workers.run(update).await?;
        }
        drop(turn);
        reading.await.map_err(|source| Error::caused(ErrorKind::Internal, "read a file", source))??;
        Ok(Sha256::new(hasher.finalize().into()))
    }
}

/// What became of claims.
#[derive(Debug, Default)]
pub(crate) struct CheckedClaims {
    /// The bytes have another digest.
    pub(crate) refuted: Vec<DigestClaim>,
    /// The bytes cannot be read, and why.
    pub(crate) unreadable: Vec<(DigestClaim, String)>,
    recorded: HashSet<(FileHash, Sha256)>,
}

/// Bytes that are damaged or gone are an answer; a store that does not answer is an error.
pub(crate) fn readable<T>(done: Result<T>) -> Result<std::result::Result<T, String>> {
    match done {
        Ok(done) => Ok(Ok(done)),
        Err(error) if matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::NotFound) => {
            Ok(Err(error.to_string()))
        }
        Err(error) => Err(error),
    }
}

/// Files whose digests this computation has taken on; others wait until it ends, in whatever way.
struct Running {
    digests: Arc<Digests>,
    files: Vec<FileHash>,
}

impl Running {
    fn begin(content: &Content, files: &[FileHash]) -> Self {
        let digests = content.digests.clone();
        let mut running = digests.running.lock().unwrap_or_else(PoisonError::into_inner);
        let files = files.iter().filter(|file| running.insert(**file)).copied().collect();
        drop(running);
        Self { digests, files }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut running = self.digests.running.lock().unwrap_or_else(PoisonError::into_inner);
        for file in &self.files {
            running.remove(file);
        }
        drop(running);
        if !self.files.is_empty() {
            self.digests.ended.send_modify(|count| *count = count.wrapping_add(1));
        }
    }
}

/// Bytes that are hashed before others get their turn.
const TURN_BYTES: u64 = 256 * 1024 * 1024;

/// Recipes held at once.
const FILES_AT_ONCE: usize = 256;

/// Files that may wait for an early computation.
const QUEUED_MAX: usize = 200_000;
