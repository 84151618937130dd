//! Change token of a catalog in a file: `PRAGMA data_version` on one connection that never writes.
//!
//! SQLite gives such a connection another version after every commit of any other connection, of this process or another.
//! Versions of two connections cannot be compared, so the same connection is asked for as long as it works. SQLite alone
//! opens the database's files: closing any descriptor of them drops the locks that SQLite holds in this process.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use rusqlite::Connection;

use super::direct::connect;
use crate::catalog::Stamp;

/// The connection, opened at the first question.
#[derive(Debug)]
pub(super) struct ChangeToken {
    file: PathBuf,
    held: Mutex<Option<Held>>,
}

#[derive(Debug)]
struct Held {
    number: u64,
    connection: Connection,
}

impl ChangeToken {
    /// That of the database in this file.
    pub(super) fn new(file: &Path) -> Self {
        Self { file: file.to_owned(), held: Mutex::default() }
    }

    /// The present token; `None` when the database cannot be asked at once.
    pub(super) fn stamp(&self) -> Option<Stamp> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if held.is_none() {
            let number = CONNECTIONS.fetch_add(1, Ordering::Relaxed);
            *held = Some(Held { number, connection: connect(&self.file).ok()? });
        }
        let Held { number, connection } = held.as_ref()?;
        let version = connection
            .prepare_cached("PRAGMA data_version")
            .and_then(|mut query| query.query_row([], |row| row.get(0)))
            .ok()?;
        Some(Stamp { connection: *number, version })
    }
}

static CONNECTIONS: AtomicU64 = AtomicU64::new(0);

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Barrier};
    use std::time::Instant;

    use super::ChangeToken;
    use crate::catalog::{Catalog as _, SqliteCatalog};

    #[tokio::test]
    async fn every_write_of_any_connection_changes_it_and_nothing_else_does() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("catalog.db");
        let ours = SqliteCatalog::open(&path).await.unwrap();
        let theirs = SqliteCatalog::open(&path).await.unwrap();
        let mut last = ours.stamp().expect("the database is there");
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

    #[tokio::test]
    async fn another_process_changes_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("catalog.db");
        let catalog = SqliteCatalog::open(&path).await.unwrap();
        let before = catalog.stamp().unwrap();
        let test = "catalog::sqlite::change_token::tests::writes_for_another_process";
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--ignored"])
            .env("CHANGE_TOKEN_DATABASE", &path)
            .output()
            .unwrap();
        assert!(child.status.success(), "{child:?}");
        assert_eq!(catalog.agreed("another process").await.unwrap().as_deref(), Some(&b"was here"[..]));
        assert_ne!(catalog.stamp().unwrap(), before);
    }

    #[tokio::test]
    #[ignore = "the other side of another_process_changes_it"]
    async fn writes_for_another_process() {
        let path = std::path::PathBuf::from(std::env::var_os("CHANGE_TOKEN_DATABASE").unwrap());
        let catalog = SqliteCatalog::open(&path).await.unwrap();
        catalog.agree("another process", b"was here").await.unwrap();
    }

    /// SQLite's locks belong to the process: any descriptor of its files that we close drops them.
    #[cfg(target_os = "linux")]
    #[tokio::test(flavor = "multi_thread")]
    async fn sixteen_threads_that_ask_at_once_leave_the_locks_of_the_database_alone() {
        use std::os::unix::fs::MetadataExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("catalog.db");
        let catalog = SqliteCatalog::open(&path).await.unwrap();
        catalog.agree("a row", b"so that there is a log").await.unwrap();
        let inode = std::fs::metadata(folder.path().join("catalog.db-shm")).unwrap().ino();
        // The byte that every process with the database open holds a lock on.
        let is_held = || {
            let locks = std::fs::read_to_string("/proc/locks").unwrap();
            locks.lines().any(|line| line.contains(&format!(":{inode} ")) && line.contains(" 128 128"))
        };
        assert!(is_held());
        for _ in 0..50 {
            let token = Arc::new(ChangeToken::new(&path));
            let barrier = Arc::new(Barrier::new(16));
            let threads = (0..16).map(|_| {
                let (token, barrier) = (token.clone(), barrier.clone());
                std::thread::spawn(move || {
                    barrier.wait();
                    token.stamp()
                })
            });
            let stamps: Vec<_> =
                threads.collect::<Vec<_>>().into_iter().map(|it| it.join().unwrap()).collect();
            assert!(stamps.iter().all(|stamp| stamp.is_some() && *stamp == stamps[0]), "{stamps:?}");
            drop(token);
            assert!(is_held(), "the lock of the database is gone");
        }
    }

    #[test]
    fn no_code_of_ours_names_the_files_beside_a_database() {
        let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut folders = vec![source];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if !path.ends_with("change_token.rs") && !path.ends_with("src/backup.rs") {
                    // A backup removes what an unfinished snapshot of its own left, and opens nothing.
                    let text = std::fs::read_to_string(&path).unwrap();
                    assert!(!text.contains("-shm") && !text.contains("-wal"), "{}", path.display());
                }
            }
        }
    }

    /// Resolving a revision asks once for each request.
    #[tokio::test]
    async fn asking_takes_microseconds() {
        let folder = tempfile::tempdir().unwrap();
        let catalog = SqliteCatalog::open(&folder.path().join("catalog.db")).await.unwrap();
        catalog.stamp().unwrap();
        let begin = Instant::now();
        for _ in 0..10_000 {
            catalog.stamp().unwrap();
        }
        let each = begin.elapsed() / 10_000;
        println!("{each:?} each");
        // Far above what it takes, for machines that are busy.
        assert!(each.as_micros() < 500, "{each:?}");
    }
}
