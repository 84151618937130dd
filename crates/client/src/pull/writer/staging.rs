//! Staging directory: many small files lie there until they are verified.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};
use crate::temp_name::unique;

/// A folder of this pull alone, gone with it. One that a killed pull left is removed by the next.
#[derive(Debug)]
pub(crate) struct StagingDir {
    folder: PathBuf,
    next: AtomicU64,
    /// Folders of killed pulls that were removed.
    removed: u64,
    /// Held for as long as the folder is in use.
    _lock: File,
}

impl StagingDir {
    /// A new folder in `root`, from where files can be renamed to their places.
    pub(crate) fn new(root: &Path) -> Result<Self> {
        let named = |error| Error::io(root, error);
        fs::create_dir_all(root).map_err(named)?;
        let removed = remove_stale(root).map_err(named)?;
        let folder = root.join(format!("{PREFIX}{}", unique()));
        let make = || {
            fs::create_dir(&folder)?;
            let lock = File::create(folder.join(LOCK))?;
            lock.lock()?;
            Ok(lock)
        };
        let lock = make().map_err(named)?;
        Ok(Self { folder, next: AtomicU64::new(0), removed, _lock: lock })
    }

    /// Folders of killed pulls that were removed.
    pub(crate) fn removed(&self) -> u64 {
        self.removed
    }

    /// A name that was not used before.
    pub(crate) fn next(&self) -> PathBuf {
        self.folder.join(self.next.fetch_add(1, Ordering::Relaxed).to_string())
    }

    /// Makes everything written to the folder's file system durable: one wait instead of one for each file.
    pub(crate) fn sync(&self) -> Result<()> {
        sync_all(&self.folder).map_err(|error| Error::io(&self.folder, error))
    }
}

impl Drop for StagingDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Removes folders whose pull is no more, and returns how many.
fn remove_stale(root: &Path) -> io::Result<u64> {
    let mut removed = 0;
    for entry in fs::read_dir(root)? {
        let path = entry?.path();
        let is_stage =
            path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(PREFIX));
        if is_stage
            && let Ok(lock) = File::open(path.join(LOCK))
            && lock.try_lock().is_ok()
        {
            removed += u64::from(fs::remove_dir_all(&path).is_ok());
        }
    }
    Ok(removed)
}

#[cfg(target_os = "linux")]
fn sync_all(folder: &Path) -> io::Result<()> {
    Ok(rustix::fs::syncfs(File::open(folder)?)?)
}

#[cfg(not(target_os = "linux"))]
fn sync_all(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.file_name() != Some(LOCK.as_ref()) {
            File::open(path)?.sync_all()?;
        }
    }
    Ok(())
}

const PREFIX: &str = ".drystone-stage-";
const LOCK: &str = "lock";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_leaves_nothing_and_clears_what_a_killed_pull_left() {
        let dir = tempfile::tempdir().unwrap();
        let names = || fs::read_dir(dir.path()).unwrap().count();
        let stage = StagingDir::new(dir.path()).unwrap();
        fs::write(stage.next(), "x").unwrap();
        stage.sync().unwrap();
        let other = StagingDir::new(dir.path()).unwrap();
        assert_eq!(names(), 2, "a stage in use stays");
        drop(stage);
        let killed = dir.path().join(format!("{PREFIX}killed"));
        fs::create_dir(&killed).unwrap();
        fs::write(killed.join(LOCK), "").unwrap();
        drop(other);
        drop(StagingDir::new(dir.path()).unwrap());
        assert_eq!(names(), 0);
    }
}
