//! Digests by which a hub names a file: SHA-256 of a large one, git id of a small one. Compared with files on the local disk.

use std::fs::File;
use std::io::Read as _;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use sha2::Digest as _;
use xet::Sha256;

use super::Entry;
use crate::error::{Error, ErrorKind, Result};

/// The bytes a file must have, by their digest.
#[derive(Debug, Clone)]
pub(super) enum Expected {
    Sha256(Sha256),
    /// SHA-1 of the git object, in hexadecimal, and the length, which is part of that.
    Blob(String, u64),
    /// The hub names no digest.
    Anything,
}

impl Expected {
    pub(super) fn of(entry: &Entry) -> Self {
        match entry.sha256 {
            Some(sha256) => Self::Sha256(sha256),
            None if entry.oid.len() == 40 => Self::Blob(entry.oid.clone(), entry.bytes),
            None => Self::Anything,
        }
    }

    pub(super) fn check(&self) -> Check {
        match self {
            Self::Sha256(expected) => Check::Sha256(sha2::Sha256::new(), *expected),
            Self::Blob(expected, bytes) => {
                let head = format!("blob {bytes}\0");
                Check::Blob(sha1::Sha1::new_with_prefix(head), expected.clone())
            }
            Self::Anything => Check::Nothing,
        }
    }
}

/// Bytes on their way through a digest.
#[derive(Debug)]
pub(super) enum Check {
    Sha256(sha2::Sha256, Sha256),
    Blob(sha1::Sha1, String),
    Nothing,
}

impl Check {
    pub(super) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha256(digest, _) => digest.update(bytes),
            Self::Blob(digest, _) => digest.update(bytes),
            Self::Nothing => {}
        }
    }

    /// Whether the bytes were those, now that all came.
    pub(super) fn finish(self) -> bool {
        match self {
            Self::Sha256(digest, expected) => Sha256::new(digest.finalize().into()) == expected,
            Self::Blob(digest, expected) => {
                xet::hash::hex(&digest.finalize()) == expected.to_ascii_lowercase()
            }
            Self::Nothing => true,
        }
    }
}

/// Which of these files have the bytes they should, looked at by many workers. One that cannot be read has not.
pub(super) async fn unchanged(files: Vec<(PathBuf, Expected)>, threads: NonZeroUsize) -> Result<Vec<bool>> {
    let work = move || {
        let (next, found) = (AtomicUsize::new(0), Mutex::new(vec![false; files.len()]));
        let compare_next = || {
            let mut buffer = vec![0; 256 * 1024];
            while let Some((place, (path, expected))) = {
                let place = next.fetch_add(1, Ordering::Relaxed);
                files.get(place).map(|file| (place, file))
            } {
                let same = is_same(path, expected, &mut buffer);
                found.lock().expect("no thread panics while it holds the lock")[place] = same;
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..threads.get().min(files.len()) {
                scope.spawn(compare_next);
            }
            compare_next();
        });
        found.into_inner().expect("no thread panics while it holds the lock")
    };
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|source| Error::caused(ErrorKind::Internal, "comparing files", source))
}

fn is_same(path: &Path, expected: &Expected, buffer: &mut [u8]) -> bool {
    let mut check = expected.check();
    // Opening a FIFO waits for its writer, and a device may have no end.
    if matches!(check, Check::Nothing) || !path.is_file() {
        return false;
    }
    let Ok(mut file) = File::open(path) else { return false };
    loop {
        match file.read(buffer) {
            Ok(0) => return check.finish(),
            Ok(bytes) => check.update(&buffer[..bytes]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn files_are_compared_by_either_digest() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        std::fs::write(&path, "hello\n").unwrap();
        let blob = |oid: &str| Expected::Blob(oid.to_owned(), 6);
        let sha256 = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03";
        let files = vec![
            (path.clone(), blob("ce013625030ba8dba906f756967f9e9ca394464a")),
            (path.clone(), Expected::Sha256(sha256.parse().unwrap())),
            (path.clone(), blob("ce013625030ba8dba906f756967f9e9ca394464b")),
            (path.clone(), Expected::Anything),
            (dir.path().join("none"), Expected::Sha256(sha256.parse().unwrap())),
        ];
        let threads = NonZeroUsize::new(3).unwrap();
        assert_eq!(unchanged(files, threads).await.unwrap(), [true, true, false, false, false]);
        assert!(unchanged(Vec::new(), threads).await.unwrap().is_empty());
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn what_is_no_regular_file_is_not_opened() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let expected = || Expected::Sha256("00".repeat(32).parse().unwrap());
        let files = vec![(fifo, expected()), (PathBuf::from("/dev/zero"), expected())];
        let compared = unchanged(files, NonZeroUsize::MIN);
        let compared = tokio::time::timeout(std::time::Duration::from_secs(10), compared).await;
        assert_eq!(compared.expect("nothing waits for a writer").unwrap(), [false, false]);
    }
}
