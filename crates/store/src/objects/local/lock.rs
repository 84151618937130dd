//! Lock of a folder of objects: shared by every process that uses it, exclusive for the one that removes what killed ones left.
//!
//! `flock` on the file `.lock`. It ends with the process, however that ends. Where a file system has no locks nothing is
//! known about others, and leftovers are recognised by their age.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::Path;

/// A shared lock on a folder, held until this is dropped.
#[derive(Debug)]
pub(crate) struct FolderLock(File);

impl FolderLock {
    /// Takes the lock; `None` where that cannot be done.
    pub(crate) fn take(folder: &Path) -> Option<Self> {
        let file = OpenOptions::new().create(true).append(true).open(folder.join(LOCK_FILE)).ok()?;
        // An exclusive holder keeps it for a moment only.
        file.lock_shared().ok()?;
        Some(Self(file))
    }

    /// Whether another process, or another store of this one, uses the folder.
    pub(crate) fn is_shared(&self) -> bool {
        let tried = self.0.try_lock();
        self.0.lock_shared().ok();
        matches!(tried, Err(TryLockError::WouldBlock))
    }

    /// Does work if no other process, and no other store of this one, uses the folder.
    pub(crate) fn alone<T>(&self, work: impl FnOnce() -> T) -> Option<T> {
        let done = match self.0.try_lock() {
            Ok(()) => Some(work()),
            Err(TryLockError::WouldBlock | TryLockError::Error(_)) => None,
        };
        // A lock that could not be made exclusive may be gone.
        self.0.lock_shared().ok();
        done
    }
}

pub(crate) const LOCK_FILE: &str = ".lock";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_alone_who_shares_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let one = FolderLock::take(folder.path()).unwrap();
        assert_eq!(one.alone(|| 1), Some(1));
        let two = FolderLock::take(folder.path()).unwrap();
        assert_eq!((one.alone(|| 1), two.alone(|| 2)), (None, None));
        assert!(one.is_shared() && two.is_shared());
        drop(one);
        assert_eq!(two.alone(|| 2), Some(2));
        assert!(!two.is_shared());
        assert!(FolderLock::take(&folder.path().join("nowhere")).is_none());
    }
}
