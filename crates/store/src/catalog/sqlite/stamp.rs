//! How far a catalog in a file has come, told by the head of its write-ahead index: without a statement, a lock or a thread.
//!
//! SQLite keeps that index in a file beside the database, which every process with the database open shares. Its head
//! changes with each transaction, before whoever wrote it is answered; it has the number of frames in the log, their
//! checksum and the salt of the log, so no two states look alike. The last one to close the database deletes the file: what
//! is read from a file that is gone means nothing, and what is read from the next is told apart by a number of our own.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

use crate::catalog::Stamp;

/// The index beside a database.
#[derive(Debug)]
pub(super) struct WalIndex {
    path: PathBuf,
    opened: RwLock<Opened>,
}

#[derive(Debug, Default)]
struct Opened {
    file: Option<File>,
    /// How often a file was opened.
    count: u64,
}

impl WalIndex {
    /// The index of the database in this file.
    pub(super) fn beside(database: &Path) -> Self {
        let mut path = database.as_os_str().to_owned();
        path.push("-shm");
        Self { path: path.into(), opened: RwLock::default() }
    }

    /// What its head says; `None` when there is no index, or an empty log.
    pub(super) fn stamp(&self) -> Option<Stamp> {
        let opened = self.opened.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = &opened.file
            && is_there(file).ok()?
        {
            return head(file, opened.count);
        }
        drop(opened);
        let mut opened = self.opened.write().unwrap_or_else(PoisonError::into_inner);
        opened.file = File::open(&self.path).ok();
        opened.count += 1;
        head(opened.file.as_ref()?, opened.count)
    }
}

fn is_there(file: &File) -> io::Result<bool> {
    Ok(file.metadata()?.nlink() > 0)
}

/// The first of the two copies of the head, which is the one that is written last.
fn head(file: &File, opened: u64) -> Option<Stamp> {
    let mut head = [0; Stamp::HEAD_LEN];
    file.read_exact_at(&mut head, 0).ok()?;
    let (is_made, frames) = (head.get(IS_MADE)?, head.get(FRAMES..FRAMES + 4)?);
    (*is_made == 1 && frames != [0; 4]).then_some(Stamp { opened, head })
}

/// Where the head says whether it is made, and how many frames the log has.
const IS_MADE: usize = 12;
const FRAMES: usize = 16;

#[cfg(test)]
mod tests {
    use crate::catalog::{Catalog as _, SqliteCatalog};

    #[tokio::test]
    async fn every_write_of_anyone_moves_it_and_nothing_else_does() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("catalog.db");
        let ours = SqliteCatalog::open(&path).await.unwrap();
        let theirs = SqliteCatalog::open(&path).await.unwrap();
        let mut last = ours.stamp().expect("the tables were made just now");
        for n in 0..50 {
            let writer = if n % 2 == 0 { &ours } else { &theirs };
            writer.agree(&format!("secret {n}"), b"value").await.unwrap();
            let now = ours.stamp().unwrap();
            assert_ne!(now, last, "write {n}");
            last = now;
            ours.counts().await.unwrap();
            theirs.counts().await.unwrap();
            assert_eq!(ours.stamp(), Some(last), "reads after write {n}");
        }
    }

    /// All close, somebody else writes, all is as fresh as before: the stamp must not be one that was seen.
    #[tokio::test]
    async fn no_stamp_comes_back_after_the_database_was_closed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("catalog.db");
        let kept = super::WalIndex::beside(&path);
        let mut seen = Vec::new();
        for round in 0..5 {
            let catalog = SqliteCatalog::open(&path).await.unwrap();
            for n in 0..3 {
                catalog.agree(&format!("secret {round} {n}"), b"value").await.unwrap();
                let stamp = kept.stamp().unwrap();
                assert!(!seen.contains(&stamp), "round {round}");
                seen.push(stamp);
            }
            catalog.reads.close().await;
            catalog.writes.close().await;
            assert_eq!(kept.stamp(), None, "round {round}");
        }
    }
}
