//! Cutting files into chunks and hashing them, on all cores, in constant memory.
//!
//! Small files go whole to one worker. A large file is cut into *runs*; each worker cuts its run from the first
//! likely place on, and the runs are joined in order: where the true cuts and a run's cuts meet, they stay together
//! (see [`xet::chunk`]). The result is exactly that of reading from the start.

mod blocks;
pub(crate) mod cutter;
mod join;
mod pool;
pub(crate) mod reader;
mod run;

use std::fs::File;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use xet::{ChunkHash, FileHash, Sha256};

use crate::error::Result;

/// How to cut.
#[derive(Debug, Clone)]
pub struct CutOptions {
    /// Workers; by default one for each core.
    pub threads: NonZeroUsize,
    /// Whether to compute the SHA-256 of each file too.
    pub sha256: bool,
}

impl Default for CutOptions {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        Self { threads, sha256: false }
    }
}

/// A file that was read and hashed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CutFile {
    /// As named by the caller.
    pub path: PathBuf,
    /// Its length.
    pub bytes: u64,
    /// Its XET hash.
    pub hash: FileHash,
    /// Its SHA-256, when the options say so.
    pub sha256: Option<Sha256>,
}

/// Counters that any thread may read while work goes on.
#[derive(Debug, Default)]
pub struct Progress {
    bytes: AtomicU64,
    files: AtomicU64,
}

impl Progress {
    /// Bytes cut so far.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Files cut so far.
    #[cfg(test)]
    fn files(&self) -> u64 {
        self.files.load(Ordering::Relaxed)
    }

    fn add_bytes(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn add_file(&self) {
        self.files.fetch_add(1, Ordering::Relaxed);
    }
}

/// Hashes every file and hands the results to `each` in the order of `paths`. A file that cannot be read is one
/// error among the results; the others are still hashed.
pub fn hash_files<P, E>(paths: P, options: &CutOptions, progress: &Progress, each: E)
where
    P: Iterator<Item = Result<PathBuf>> + Send,
    E: FnMut(Result<CutFile>) + Send,
{
    pool::run(paths, options, progress, None, each);
}

/// Hashes one file and hands each of its chunks to `chunk`, in file order.
pub fn chunk_file(
    path: PathBuf,
    options: &CutOptions,
    progress: &Progress,
    mut chunk: impl FnMut(ChunkHash, u32) + Send,
) -> Result<CutFile> {
    let mut result = None;
    pool::run(std::iter::once(Ok(path)), options, progress, Some(&mut chunk), |file| result = Some(file));
    result.expect("one path gives one result")
}

/// Reads one file from start to end on this thread and hands each chunk with its bytes to `each`, until that fails.
pub fn read_chunks<X: From<crate::Error>>(
    path: &Path,
    mut each: impl FnMut(ChunkHash, &[u8]) -> std::result::Result<(), X>,
) -> std::result::Result<(), X> {
    let file = File::open(path).map_err(|error| crate::Error::io(path, error))?;
    let mut result = Ok(());
    let cut = blocks::Scratch::default().cut(0, reader::Source::from(file), |chunk, raw| {
        result = each(chunk.hash, raw);
        if result.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    cut.map_err(|error| crate::Error::io(path, error))?;
    result
}

#[cfg(test)]
mod tests;
