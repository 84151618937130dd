//! Backup: a snapshot of the catalog, then every object that the copy does not have yet, each checked where it arrives.
//!
//! The order is what makes it whole: an object is stored before a row names it, and garbage collection deletes no object that
//! was needed less than its grace ago. So every object that the snapshot names is there when it is copied. Works beside
//! servers that write, and beside garbage collection; can be killed at any moment and run again.
//!
//! The snapshot is a SQLite file, whatever the catalog is in, so that a backup can be restored to either database.

pub(crate) mod catalog_copy;
pub(crate) mod check;
pub(crate) mod prune;

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use sha2::{Digest as _, Sha256};

use crate::db::Catalog;
use crate::db::sqlite::file_of;
use crate::error::{Error, ErrorKind, Result};
use crate::objects::Objects;
use crate::upkeep::backup::catalog_copy::{SnapshotProgress, make_private, snapshot};
use crate::upkeep::backup::check::{CheckedCopy, check};
use crate::upkeep::backup::prune::Prune;
use crate::upkeep::gc::drafts::remove_drafts;
use crate::upkeep::identity::{self, Names};
use crate::upkeep::mirror_copy::{Copied, CopyOptions, CopyProgress, copy};

/// What is backed up.
#[derive(Debug)]
pub struct BackupSource {
    /// The objects.
    pub objects: Objects,
    /// The URL of the catalog.
    pub catalog: String,
    /// Both as messages show them.
    pub names: Names,
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
    /// Which objects to delete that are neither in the source any more nor needed by the snapshot.
    pub prune: Prune,
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
    /// Those of them that the source has lost and the copy has, from an earlier backup.
    pub lost: Vec<String>,
    /// Why nothing was pruned.
    pub prune_refused: Option<String>,
    /// What a killed run before had left, and was removed.
    pub leftovers: Vec<String>,
    /// SHA-256 of the file of the snapshot.
    pub catalog_sha256: String,
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

/// Backs a store up. A catalog that does not belong to the objects is refused, as for every other command: the snapshot would
/// replace a good one.
pub async fn backup(
    source: &BackupSource,
    target: &BackupTarget,
    now_s: impl Fn() -> u64,
    progress: &BackupProgress,
) -> Result<BackedUp> {
    let draft = with_suffix(&target.catalog, ".part");
    let mut done =
        BackedUp { leftovers: remove_leftovers(&target.objects, &draft).await?, ..BackedUp::default() };
    for round in 1..=ROUNDS {
        done.snapshot_s = now_s();
        let checked = match copy_once(source, target, &draft, &mut done, progress).await {
            Ok(checked) => checked,
            Err(error) => {
                // The error that stopped the backup matters more than a draft that stays behind.
                let _ = remove_database(&draft);
                return Err(error);
            }
        };
        (done.needed, done.damaged, done.lost) = (checked.needed, checked.missing, checked.lost);
        // What went while the objects were copied is in no later snapshot; what is lost for good stays missing.
        if done.damaged.is_empty() && done.lost.is_empty() || round == ROUNDS {
            break;
        }
    }
    if target.prune != Prune::Nothing {
        progress.begin("prune");
        let catalog = Catalog::open_file(&draft).await?;
        let pruned = prune::prune(&catalog, &source.objects, target, &done).await;
        catalog.close().await;
        match pruned? {
            Ok(pruned) => done.pruned = pruned,
            Err(refusal) => done.prune_refused = Some(refusal),
        }
    }
    done.catalog_sha256 = sha256_of(&draft)?;
    publish(&draft, &target.catalog)?;
    Ok(done)
}

/// Removes what a killed backup or restoration left half written; returns the names.
pub(crate) async fn remove_leftovers(objects: &Objects, draft: &Path) -> Result<Vec<String>> {
    let mut leftovers = remove_drafts(objects).await?;
    if draft.exists() {
        remove_database(draft)?;
        leftovers.push(draft.display().to_string());
    }
    Ok(leftovers)
}

/// Takes a snapshot, copies what the copy does not have, and checks the copy against the snapshot.
async fn copy_once(
    source: &BackupSource,
    target: &BackupTarget,
    draft: &Path,
    done: &mut BackedUp,
    progress: &BackupProgress,
) -> Result<CheckedCopy> {
    progress.begin("snapshot of the catalog");
    remove_database(draft)?;
    snapshot(&source.catalog, draft, &progress.snapshot).await?;
    let catalog = Catalog::open_file(draft).await?;
    let paired = identity::require_pair(&source.objects, &catalog, &source.names).await;
    let checked = async {
        paired?;
        progress.begin("objects");
        let options = CopyOptions { dry_run: false, recheck_since_s: target.interrupted_s };
        let Copied { objects, bytes, known, .. } =
            copy(&source.objects, &target.objects, options, &progress.copy).await?;
        done.objects += objects;
        done.bytes += bytes;
        done.known = known;
        progress.begin("check of the copy");
        check(&catalog, &target.objects, Some(&source.objects), done.snapshot_s).await
    };
    let checked = checked.await;
    catalog.close().await;
    checked
}

/// How often a new snapshot is taken when objects of the last one were deleted meanwhile.
const ROUNDS: u32 = 4;

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
    if has_log(draft) {
        let message = format!("{}: the snapshot was not written whole", draft.display());
        return Err(Error::new(ErrorKind::Internal, message));
    }
    File::open(draft).and_then(|draft| draft.sync_all()).map_err(failed)?;
    // The write-ahead log of the replaced database belongs to no other.
    remove_log(file)?;
    fs::rename(draft, file).map_err(failed)?;
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)
}

/// Removes a database that nobody has open.
pub fn remove_database(file: &Path) -> Result<()> {
    remove_log(file)?;
    remove(file)
}

/// Whether there are rows beside the file that are not in it yet.
fn has_log(file: &Path) -> bool {
    let has_bytes = |suffix| fs::metadata(with_suffix(file, suffix)).is_ok_and(|metadata| metadata.len() > 0);
    ["-wal", "-journal"].into_iter().any(has_bytes)
}

/// Digest of a database that nobody has open.
fn sha256_of(file: &Path) -> Result<String> {
    let read = || -> std::io::Result<String> {
        let (mut hasher, mut open) = (Sha256::new(), File::open(file)?);
        let mut piece = vec![0; 1 << 20];
        loop {
            match open.read(&mut piece)? {
                0 => break,
                read => hasher.update(piece.get(..read).unwrap_or_default()),
            }
        }
        Ok(xet::hash::hex(&hasher.finalize()))
    };
    read().map_err(|source| failed(file, source))
}

/// Copies the snapshot of a backup, which must be as it was written. Only reads: a backup may be on a medium that cannot be
/// written to, where SQLite does not open a database with a log.
pub fn copy_snapshot(from: &Path, to: &Path, sha256: &str) -> Result<()> {
    make_private(to).and_then(|()| fs::copy(from, to)).map_err(|source| failed(from, source))?;
    if !has_log(from) && sha256_of(to)? == sha256 {
        return Ok(());
    }
    remove(to)?;
    let message = format!(
        "{}: not as the backup was written: it is damaged, or a server or command has written to it. Take another backup, \
         restore an older one, or pass --accept-changed-catalog to restore it as it is",
        from.display()
    );
    Err(Error::new(ErrorKind::Corrupt, message))
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
    file_of(url)
}

/// The path with this at its end.
pub(crate) fn with_suffix(file: &Path, suffix: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

pub(crate) const PAGE: u64 = 500;
