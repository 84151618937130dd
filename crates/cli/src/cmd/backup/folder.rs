//! The directory of a backup:
//!
//! | name             | what                                                                      |
//! |------------------|---------------------------------------------------------------------------|
//! | `backup.json`    | what the backup holds; written last, so without it a backup is not whole   |
//! | `catalog.db`     | the snapshot of the catalog, a SQLite file                                 |
//! | `objects/`       | the objects, unless they are elsewhere                                     |
//! | `signing.key`    | the key of the server                                                      |
//! | `verify.db`      | while the backup is verified: a copy of the snapshot                       |
//! | `backup.partial` | while a backup is taken: since when                                        |
//! | `backup.lock`    | held while a backup is taken or restored                                   |

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use server::ServeConfig;
use store::Objects;
use store::backup::{BackedUp, copy_snapshot, remove_database};

use crate::output::{CliError, fail};

/// Description of a backup, as JSON.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Manifest {
    /// Which layout of the directory this is.
    pub(crate) version: u32,
    /// The program that wrote it.
    pub(crate) drystone: String,
    /// When the snapshot was taken, Unix seconds.
    pub(crate) snapshot_s: u64,
    /// When the backup was whole, Unix seconds.
    pub(crate) finished_s: u64,
    /// Database of the catalog: `sqlite` or `postgresql`.
    pub(crate) engine: String,
    /// URL of the objects, if not in the directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) objects: Option<String>,
    /// Objects that the snapshot needs.
    pub(crate) needed: u64,
    /// Those that the store itself had lost.
    pub(crate) damaged: Vec<String>,
    /// SHA-256 of `catalog.db`.
    pub(crate) catalog_sha256: String,
}

impl Manifest {
    /// The version this program writes and reads.
    const VERSION: u32 = 1;

    pub(super) fn of(done: &BackedUp, engine: &str, objects: Option<String>, now_s: u64) -> Self {
        Self {
            version: Self::VERSION,
            drystone: env!("CARGO_PKG_VERSION").to_owned(),
            snapshot_s: done.snapshot_s,
            finished_s: now_s,
            engine: engine.to_owned(),
            objects,
            needed: done.needed,
            damaged: done.damaged.clone(),
            catalog_sha256: done.catalog_sha256.clone(),
        }
    }
}

/// The directory, locked against other backups and restores.
#[derive(Debug)]
pub(crate) struct BackupFolder {
    folder: PathBuf,
    /// None where nothing can be written, not even by another backup.
    _lock: Option<File>,
}

impl BackupFolder {
    /// Opens the directory to back up to, and makes it if need be.
    pub(super) fn open(folder: &Path, config: &ServeConfig) -> Result<Self, CliError> {
        let failed = |error| CliError::io(folder, error);
        let refuse = |why: &str| fail(format!("{}: {why}", folder.display()));
        if is_in_store(folder, config).map_err(failed)? {
            return refuse("this is the store itself; name another directory for the backup");
        }
        make_private(folder).map_err(failed)?;
        let opened = Self { _lock: Some(lock(folder)?), folder: folder.to_owned() };
        let is_backup = opened.path(MANIFEST).exists() || opened.path(PARTIAL).exists();
        if !is_backup && opened.catalog().exists() {
            return refuse("there is a catalog that is not a backup's; name another directory");
        }
        Ok(opened)
    }

    /// Opens a whole backup.
    pub(crate) fn open_whole(folder: &Path) -> Result<(Self, Manifest), CliError> {
        let refuse = |why: &str| CliError::Message(format!("{}: {why}", folder.display()));
        if !folder.join(MANIFEST).exists() {
            let why = match folder.join(PARTIAL).exists() {
                true => "the backup is not whole: run `drystone backup` again",
                false => "no backup is here: there is no backup.json",
            };
            return Err(refuse(why));
        }
        let opened = Self { _lock: lock_to_read(folder)?, folder: folder.to_owned() };
        let manifest =
            opened.manifest()?.ok_or_else(|| refuse("no backup is here: there is no backup.json"))?;
        match opened.catalog().exists() {
            true => Ok((opened, manifest)),
            false => Err(refuse("the backup has no catalog.db")),
        }
    }

    /// Reads the description of the last complete backup.
    pub(super) fn manifest(&self) -> Result<Option<Manifest>, CliError> {
        let file = self.path(MANIFEST);
        let text = match fs::read(&file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read.map_err(|error| CliError::io(&file, error))?,
        };
        let manifest: Manifest = serde_json::from_slice(&text)
            .map_err(|error| CliError::Message(format!("{}: {error}", file.display())))?;
        match manifest.version {
            Manifest::VERSION => Ok(Some(manifest)),
            version => fail(format!(
                "{}: a backup of version {version}; this program reads version {}",
                file.display(),
                Manifest::VERSION
            )),
        }
    }

    pub(crate) fn catalog(&self) -> PathBuf {
        self.path("catalog.db")
    }

    /// The objects of the backup.
    pub(crate) fn objects(&self, url: &Option<String>) -> Result<Objects, CliError> {
        match url {
            Some(url) => server::open_objects(url).map_err(CliError::message),
            None => {
                let folder = self.path("objects");
                make_private(&folder).map_err(|error| CliError::io(&folder, error))?;
                Objects::local(&folder).map_err(CliError::message)
            }
        }
    }

    /// Existing objects of the backup.
    pub(crate) fn objects_to_read(&self, url: &Option<String>) -> Result<Objects, CliError> {
        match url {
            Some(url) => server::open_existing_objects(url).map_err(CliError::message),
            None if self.path("objects").is_dir() => {
                Objects::local(&self.path("objects")).map_err(CliError::message)
            }
            None => fail(format!("{}: the backup has no objects", self.folder.display())),
        }
    }

    /// Records the start of a backup; returns the start of an interrupted earlier one.
    pub(super) fn begin(&self, now_s: u64) -> Result<Option<u64>, CliError> {
        begin(&self.path(PARTIAL), now_s)
    }

    /// Copies the key of the server, if it is in a file.
    pub(super) fn copy_key(&self, file: &Path) -> Result<(), CliError> {
        copy_key(file, &self.path(KEY_FILE))
    }

    /// The key of the server in the backup.
    pub(crate) fn key(&self) -> PathBuf {
        self.path(KEY_FILE)
    }

    /// The backup is whole.
    pub(super) fn finish(&self, manifest: &Manifest) -> Result<(), CliError> {
        let text = serde_json::to_string_pretty(manifest)? + "\n";
        write_whole(&self.path(MANIFEST), text.as_bytes())?;
        end(&self.path(PARTIAL))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

/// A working copy of a backup's snapshot, so that verification does not change the backup.
#[derive(Debug)]
pub(crate) struct SnapshotCopy {
    folder: BackupFolder,
    /// The URL of the objects, if they are not in the directory.
    pub(crate) objects: Option<String>,
    /// The URL of the copy.
    pub(crate) catalog: String,
}

impl SnapshotCopy {
    /// Makes the copy if `folder` is a whole backup. A snapshot that is not as it was written is an error.
    pub(crate) fn of_backup(folder: &Path) -> Result<Option<Self>, CliError> {
        if !folder.join(MANIFEST).exists() {
            return Ok(None);
        }
        let (folder, manifest) = BackupFolder::open_whole(folder)?;
        let draft = folder.path(VERIFIED);
        remove_database(&draft)?;
        copy_snapshot(&folder.catalog(), &draft, &manifest.catalog_sha256)?;
        Ok(Some(Self { catalog: sqlite_url(&draft)?, objects: manifest.objects, folder }))
    }
}

impl Drop for SnapshotCopy {
    fn drop(&mut self) {
        // One that stays is removed by the next verification.
        let _ = remove_database(&self.folder.path(VERIFIED));
    }
}

/// Records the start of an operation; returns the start of an interrupted earlier one.
pub(crate) fn begin(file: &Path, now_s: u64) -> Result<Option<u64>, CliError> {
    let failed = |error| CliError::io(file, error);
    match fs::read_to_string(file) {
        // Whatever it says, something was cut.
        Ok(text) => Ok(Some(text.trim().parse().unwrap_or(0))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            write_whole(file, format!("{now_s}\n").as_bytes()).map(|()| None)
        }
        Err(error) => Err(failed(error)),
    }
}

/// Removes the note of [`begin`].
pub(crate) fn end(file: &Path) -> Result<(), CliError> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(CliError::io(file, error)),
        _ => Ok(()),
    }
}

/// Copies a key, readable for its owner alone. One that is not there is not copied: some servers share a key in the catalog. A file
/// that holds no key is refused: no server would start with it.
pub(crate) fn copy_key(from: &Path, to: &Path) -> Result<(), CliError> {
    match fs::read(from) {
        Ok(key) => {
            server::DataDir::keys_of(from).map_err(|error| CliError::io(from, error))?;
            write_whole(to, &key)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(CliError::io(from, error)),
    }
}

/// Creates a directory for its owner alone, unless it exists.
pub(crate) fn make_private(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// The URL of a SQLite file.
pub(super) fn sqlite_url(file: &Path) -> Result<String, CliError> {
    let failed = |error| CliError::io(file, error);
    store::backup::sqlite_url(&file.canonicalize().map_err(failed)?).map_err(CliError::message)
}

/// Writes a file that is whole or not there, for its owner alone.
fn write_whole(file: &Path, bytes: &[u8]) -> Result<(), CliError> {
    let mut draft = file.as_os_str().to_owned();
    draft.push(".new");
    let draft = PathBuf::from(draft);
    let write = || {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut open = options.open(&draft)?;
        open.write_all(bytes)?;
        open.sync_all()?;
        fs::rename(&draft, file)?;
        match file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            Some(folder) => File::open(folder)?.sync_all(),
            None => File::open(".")?.sync_all(),
        }
    };
    write().map_err(|error| CliError::io(file, error))
}

/// Whether a directory, there or not, is the data directory or in the objects.
fn is_in_store(folder: &Path, config: &ServeConfig) -> io::Result<bool> {
    let folder = std::path::absolute(folder)?;
    let (there, rest) = folder
        .ancestors()
        .find_map(|there| Some((there.canonicalize().ok()?, folder.strip_prefix(there).ok()?)))
        .unwrap_or((folder.clone(), Path::new("")));
    let folder = there.join(rest);
    let objects = match &config.objects {
        Some(url) => server::file_url(url.expose()),
        None => Some(config.data.join("objects")),
    };
    let is_data = config.data.canonicalize().is_ok_and(|data| folder == data);
    let objects = objects.and_then(|objects| objects.canonicalize().ok());
    Ok(is_data || objects.is_some_and(|objects| folder.starts_with(objects)))
}

/// [`lock`], unless the backup is on a medium that cannot be written to.
fn lock_to_read(folder: &Path) -> Result<Option<File>, CliError> {
    use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    match lock(folder) {
        Err(CliError::Io(_, error)) if matches!(error.kind(), ReadOnlyFilesystem | PermissionDenied) => {
            Ok(None)
        }
        locked => locked.map(Some),
    }
}

fn lock(folder: &Path) -> Result<File, CliError> {
    let file = folder.join(LOCK);
    let failed = |error| CliError::io(&file, error);
    let lock = OpenOptions::new().create(true).truncate(false).write(true).open(&file).map_err(failed)?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(fs::TryLockError::WouldBlock) => {
            fail(format!("{}: another backup or restore is running here", folder.display()))
        }
        Err(fs::TryLockError::Error(error)) => Err(failed(error)),
    }
}

pub(crate) const KEY_FILE: &str = "signing.key";
const MANIFEST: &str = server::BACKUP_FILE;
const VERIFIED: &str = "verify.db";
const PARTIAL: &str = "backup.partial";
const LOCK: &str = "backup.lock";
