//! Backup: a snapshot of the catalog, then every object that the copy does not have yet, each checked where it arrives.
//!
//! The order is what makes it whole: an object is stored before a row names it, and garbage collection deletes no object that
//! was needed less than its grace ago. So every object that the snapshot names is there when it is copied. Works beside
//! servers that write, and beside garbage collection; can be killed at any moment and run again.
//!
//! The snapshot is a SQLite file, whatever the catalog is in, so that a backup can be restored to either database.

mod snapshot;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use futures::stream::{self, StreamExt as _, TryStreamExt as _};

use crate::catalog::Catalog;
use crate::catalog::sweep::{Kept, Use};
use crate::copy::{Copied, CopyOptions, CopyProgress, copy};
use crate::error::{Error, ErrorKind, Result};
use crate::objects::{Folder, ObjectKey, Objects};

pub use snapshot::{SnapshotProgress, snapshot};

/// What is backed up.
#[derive(Debug)]
pub struct BackupSource {
    /// The objects.
    pub objects: Objects,
    /// The URL of the catalog.
    pub catalog: String,
}

/// Where to.
#[derive(Debug)]
pub struct BackupTarget {
    /// The objects.
    pub objects: Objects,
    /// The file of the snapshot.
    pub catalog: PathBuf,
    /// A run before was killed after this Unix second: what it wrote since may not be checked.
    pub interrupted_s: Option<u64>,
    /// Delete objects that are neither in the source any more nor needed by the snapshot.
    pub prune: bool,
}

/// What a backup did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BackedUp {
    /// When the snapshot was taken, Unix seconds.
    pub snapshot_s: u64,
    /// Objects that were copied.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Objects that the copy had already.
    pub known: u64,
    /// Objects that were deleted from the copy.
    pub pruned: u64,
    /// Objects that the snapshot needs.
    pub needed: u64,
    /// Those of them that are damaged or missing in the source, and so not in the copy.
    pub damaged: Vec<String>,
}

/// How far a backup or a restoration is.
#[derive(Debug, Default)]
pub struct BackupProgress {
    step: Mutex<&'static str>,
    /// Rows of the snapshot.
    pub snapshot: SnapshotProgress,
    /// Objects and bytes.
    pub copy: CopyProgress,
}

impl BackupProgress {
    /// What is being done.
    pub fn step(&self) -> &'static str {
        *self.step.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(crate) fn begin(&self, step: &'static str) {
        *self.step.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = step;
    }
}

/// Backs a store up.
pub async fn backup(
    source: &BackupSource,
    target: &BackupTarget,
    now_s: impl Fn() -> u64,
    progress: &BackupProgress,
) -> Result<BackedUp> {
    let draft = with_suffix(&target.catalog, ".part");
    let mut done = BackedUp::default();
    let options = CopyOptions { dry_run: false, recheck_since_s: target.interrupted_s };
    for round in 1..=ROUNDS {
        progress.begin("snapshot of the catalog");
        done.snapshot_s = now_s();
        remove_database(&draft)?;
        snapshot(&source.catalog, &draft, &progress.snapshot).await?;
        progress.begin("objects");
        let Copied { objects, bytes, known, .. } =
            copy(&source.objects, &target.objects, options, &progress.copy).await?;
        done.objects += objects;
        done.bytes += bytes;
        done.known = known;
        progress.begin("check of the copy");
        let catalog = Catalog::open_file(&draft).await?;
        let checked = check(&catalog, &target.objects, now_s()).await;
        catalog.close().await;
        let checked = checked?;
        (done.needed, done.damaged) = (checked.needed, checked.missing);
        // What went while the objects were copied is in no later snapshot; what is lost for good stays missing.
        if done.damaged.is_empty() || round == ROUNDS {
            break;
        }
    }
    if target.prune {
        progress.begin("prune");
        let catalog = Catalog::open_file(&draft).await?;
        let pruned = prune(&catalog, &source.objects, &target.objects).await;
        catalog.close().await;
        done.pruned = pruned?;
    }
    publish(&draft, &target.catalog)?;
    Ok(done)
}

/// How often a new snapshot is taken when objects of the last one were deleted meanwhile.
const ROUNDS: u32 = 4;

/// What the catalog of a copy needs.
#[derive(Debug, Default)]
pub(crate) struct CheckedCopy {
    pub(crate) needed: u64,
    pub(crate) missing: Vec<String>,
}

/// Looks for every object that the catalog names. Xorbs and shards that no file is made of, and that went, are given up in the
/// catalog, as garbage collection did at the source.
pub(crate) async fn check(catalog: &Catalog, objects: &Objects, now_s: u64) -> Result<CheckedCopy> {
    let mut checked = CheckedCopy::default();
    let care = catalog.care();
    let mut after = Vec::new();
    loop {
        let rows = care.xorb_page(&after, PAGE).await?;
        let Some(last) = rows.last() else { break };
        after = last.key.hash.as_bytes().to_vec();
        let keys = rows.iter().map(|row| (ObjectKey::Xorb(row.key), row.object_bytes));
        let missing = missing(objects, keys.collect()).await?;
        let hashes: Vec<_> = missing.iter().filter_map(hash_of).collect();
        let used: Vec<_> = catalog.sweep().uses(Use::Xorbs, &hashes).await?;
        let is_used = |key: &ObjectKey| {
            hash_of(key).is_none_or(|hash| used.iter().any(|(used, count)| *used == hash && *count > 0))
        };
        checked.needed += rows.len() as u64;
        give_up(catalog, Kept::Xorbs, missing.iter().filter(|key| !is_used(key)), now_s).await?;
        checked.missing.extend(missing.iter().filter(|key| is_used(key)).map(ToString::to_string));
    }
    let mut after = Vec::new();
    loop {
        let rows = care.shard_page(&after, PAGE).await?;
        let Some(last) = rows.last() else { break };
        after = last.hash.as_bytes().to_vec();
        let keys = rows.iter().map(|row| (ObjectKey::Shard(row.hash), row.object_bytes));
        let missing = missing(objects, keys.collect()).await?;
        checked.needed += rows.len() as u64;
        give_up(catalog, Kept::Shards, missing.iter(), now_s).await?;
        let hashes: Vec<_> = missing.iter().filter_map(shard_of).collect();
        let left = catalog.shards(&hashes).await?;
        let is_left = |key: &&ObjectKey| left.iter().any(|row| Some(row.hash) == shard_of(key));
        checked.missing.extend(missing.iter().filter(is_left).map(ToString::to_string));
    }
    let mut after = Vec::new();
    loop {
        let repos = catalog.sweep().all_repos(&after, PAGE).await?;
        let Some(last) = repos.last() else { return Ok(checked) };
        after = last.row.id.as_bytes().to_vec();
        for repo in repos {
            let mut after = Vec::new();
            loop {
                let bundles = care.bundle_page(repo.row.id, &after, PAGE).await?;
                let Some(last) = bundles.last() else { break };
                after = last.as_bytes().to_vec();
                checked.needed += bundles.len() as u64;
                let key = |commit| (ObjectKey::Bundle { repo: repo.row.id, commit }, 0);
                let missing = missing(objects, bundles.into_iter().map(key).collect()).await?;
                checked.missing.extend(missing.iter().map(ToString::to_string));
            }
        }
    }
}

/// Those of these objects that are not there in their length; 0 is any.
async fn missing(objects: &Objects, keys: Vec<(ObjectKey, u64)>) -> Result<Vec<ObjectKey>> {
    let looks = keys.into_iter().map(|(key, bytes)| async move {
        let found = objects.head(&key).await?;
        let is_there = found.is_some_and(|found| bytes == 0 || found == bytes);
        Ok::<_, Error>((!is_there).then_some(key))
    });
    let looks: Vec<_> = looks.collect();
    stream::iter(looks)
        .buffered(HEADS_AT_ONCE)
        .try_filter_map(|key| async move { Ok(key) })
        .try_collect()
        .await
}

async fn give_up<'a>(
    catalog: &Catalog,
    of: Kept,
    keys: impl Iterator<Item = &'a ObjectKey>,
    now_s: u64,
) -> Result<()> {
    let hashes: Vec<_> = keys.filter_map(hash_of).collect();
    let sweep = catalog.sweep();
    sweep.condemn(of, &hashes, u64::MAX, now_s).await?;
    sweep.doom(of, &hashes, u64::MAX, now_s).await?;
    sweep.bury(of, &hashes, now_s).await
}

/// Deletes from the copy what the source does not have and the snapshot does not need; counts it.
async fn prune(catalog: &Catalog, from: &Objects, to: &Objects) -> Result<u64> {
    let mut pruned = 0;
    for folder in [Folder::Xorbs, Folder::Shards, Folder::Commits, Folder::Repos, Folder::People] {
        let mut pages = to.list(folder).try_chunks(PAGE as usize);
        while let Some(page) = pages.try_next().await.map_err(|cut| cut.1)? {
            let keys = page.iter().filter_map(|listed| Some((listed.key?, 0))).collect();
            let mut gone = Vec::new();
            for key in missing(from, keys).await? {
                if !is_needed(catalog, &key).await? {
                    gone.push(key);
                }
            }
            pruned += gone.len() as u64;
            to.delete_all(gone).await?;
        }
    }
    Ok(pruned)
}

async fn is_needed(catalog: &Catalog, key: &ObjectKey) -> Result<bool> {
    Ok(match key {
        ObjectKey::Xorb(xorb) => {
            let rows = catalog.xorbs(&[xorb.hash]).await?;
            rows.iter().any(|row| row.key == *xorb && !row.is_swept())
        }
        ObjectKey::Shard(hash) => !catalog.shards(&[*hash]).await?.is_empty(),
        ObjectKey::Bundle { repo, commit } => {
            !catalog.sweep().used_bundles(*repo, &[*commit]).await?.is_empty()
        }
        // Records are replaced by later ones, which are in the source.
        _ => false,
    })
}

fn hash_of(key: &ObjectKey) -> Option<[u8; 32]> {
    match key {
        ObjectKey::Xorb(key) => Some(*key.hash.as_bytes()),
        ObjectKey::Shard(hash) => Some(*hash.as_bytes()),
        _ => None,
    }
}

fn shard_of(key: &ObjectKey) -> Option<xet::ShardHash> {
    match key {
        ObjectKey::Shard(hash) => Some(*hash),
        _ => None,
    }
}

/// Fails while a server or another command has the database of a copy open.
pub fn expect_unused(file: &Path) -> Result<()> {
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_WRITE;
    let held = rusqlite::Connection::open_with_flags(file, flags).and_then(|connection| {
        connection.busy_timeout(std::time::Duration::from_secs(2))?;
        connection.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; COMMIT")
    });
    held.map_err(|source| match source.sqlite_error_code() {
        Some(rusqlite::ErrorCode::DatabaseBusy | rusqlite::ErrorCode::DatabaseLocked) => {
            let message = format!("{} is in use: stop the server that runs on the backup", file.display());
            Error::new(ErrorKind::Conflict, message)
        }
        _ => Error::caused(ErrorKind::Corrupt, file.display().to_string(), source),
    })
}

/// Puts a database that nobody has open in the place of another: durable, whole or not at all.
pub(crate) fn publish(draft: &Path, file: &Path) -> Result<()> {
    let failed = |source| failed(file, source);
    File::open(draft).and_then(|draft| draft.sync_all()).map_err(failed)?;
    // The log of the database that was there belongs to no other.
    remove_log(file)?;
    fs::rename(draft, file).map_err(failed)?;
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)
}

/// Removes a database that nobody has open.
pub(crate) fn remove_database(file: &Path) -> Result<()> {
    remove_log(file)?;
    remove(file)
}

fn remove_log(file: &Path) -> Result<()> {
    ["-wal", "-shm", "-journal"].iter().try_for_each(|suffix| remove(&with_suffix(file, suffix)))
}

fn remove(file: &Path) -> Result<()> {
    match fs::remove_file(file) {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => Err(failed(file, source)),
        _ => Ok(()),
    }
}

pub(crate) fn failed(file: &Path, source: std::io::Error) -> Error {
    Error::caused(ErrorKind::Unavailable, file.display().to_string(), source)
}

/// The URL of a SQLite file.
pub fn sqlite_url(file: &Path) -> Result<String> {
    let refuse = || Error::new(ErrorKind::Invalid, format!("{}: not a name for a URL", file.display()));
    let path = std::path::absolute(file).map_err(|source| failed(file, source))?;
    let url = url::Url::from_file_path(path).map_err(|()| refuse())?;
    Ok(url.as_str().replacen("file:", "sqlite:", 1))
}

/// The file of a URL `sqlite:///…`.
pub fn sqlite_file(url: &str) -> Result<PathBuf> {
    crate::catalog::file_of(url)
}

/// The path with this at its end.
pub(crate) fn with_suffix(file: &Path, suffix: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

const PAGE: u64 = 500;
const HEADS_AT_ONCE: usize = 32;
