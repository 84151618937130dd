//! Answers and small files of a hub, stored so that a repository that was pulled once can be pulled again offline.
//!
//! An answer is a checksum (CRC-32C, little-endian) and the bytes it is of. It is named by the digest of the question. A blob is
//! the file itself, named by its digest, by which readers check it.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::Arc;

use super::{Cache, rename, touch};

impl Cache {
    /// The last answer to a question.
    pub(crate) fn answer(&self, question: &[u8]) -> Option<Vec<u8>> {
        let path = self.answer_path(question);
        let mut answer = fs::read(&path).ok()?;
        let sum = answer.first_chunk().map(|sum| u32::from_le_bytes(*sum));
        if sum != answer.get(SUM_LEN..).map(crc32c::crc32c) {
            let _ = fs::remove_file(&path);
            return None;
        }
        touch(&path);
        Some(answer.split_off(SUM_LEN))
    }

    /// Keeps an answer in place of an earlier one.
    pub(crate) fn keep_answer(&self, question: &[u8], answer: &[u8]) {
        let staged = self.staged();
        let sum = crc32c::crc32c(answer).to_le_bytes();
        let stored = fs::write(&staged, [&sum, answer].concat())
            .and_then(|()| rename(&staged, &self.answer_path(question)));
        match stored {
            Ok(()) => self.grew((SUM_LEN + answer.len()) as u64),
            Err(_) => drop(fs::remove_file(&staged)),
        }
    }

    /// A small file. Callers check it, and call [`forget_blob`](Self::forget_blob) where it is wrong.
    pub(crate) fn blob(&self, name: &str) -> Option<File> {
        let path = self.blob_path(name);
        let file = File::open(&path).ok()?;
        touch(&path);
        Some(file)
    }

    pub(crate) fn forget_blob(&self, name: &str) {
        let _ = fs::remove_file(self.blob_path(name));
    }

    /// Takes a small file as it comes. `None` where it cannot be stored.
    pub(crate) fn store_blob(self: &Arc<Self>, name: &str) -> Option<BlobWriter> {
        let staged = self.staged();
        let file = File::create_new(&staged).ok()?;
        Some(BlobWriter {
            cache: self.clone(),
            file,
            staged,
            path: self.blob_path(name),
            bytes: 0,
            failed: false,
        })
    }

    fn answer_path(&self, question: &[u8]) -> PathBuf {
        let digest = <sha2::Sha256 as sha2::Digest>::digest(question);
        self.below(ANSWERS, &xet::hash::hex(&digest))
    }

    fn blob_path(&self, name: &str) -> PathBuf {
        self.below(BLOBS, name)
    }

    fn below(&self, folder: &str, name: &str) -> PathBuf {
        self.folder.join(folder).join(name.get(..2).unwrap_or_default()).join(name)
    }
}

/// A small file on its way into the cache. Dropped unfinished, it leaves nothing.
#[derive(Debug)]
pub(crate) struct BlobWriter {
    cache: Arc<Cache>,
    file: File,
    staged: PathBuf,
    path: PathBuf,
    bytes: u64,
    failed: bool,
}

impl BlobWriter {
    pub(crate) fn write(&mut self, piece: &[u8]) {
        self.failed |= self.file.write_all(piece).is_err();
        self.bytes += piece.len() as u64;
    }

    /// It was verified: keeps it.
    pub(crate) fn finish(self) {
        let stored = match self.failed {
            true => Err(io::ErrorKind::Other.into()),
            false => rename(&self.staged, &self.path),
        };
        if stored.is_ok() {
            self.cache.grew(self.bytes);
        }
    }
}

impl Drop for BlobWriter {
    fn drop(&mut self) {
        // Gone already, if it has its name.
        let _ = fs::remove_file(&self.staged);
    }
}

const ANSWERS: &str = "answers";
const BLOBS: &str = "blobs";
const SUM_LEN: usize = 4;
