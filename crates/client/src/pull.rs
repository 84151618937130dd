//! Pull: files by hash, from a hub to this disk.
//!
//! What an older version, the cache or an earlier try has is taken from there; the rest is planned, fetched in parallel, decoded while
//! it arrives and written to a temporary name. Every chunk is hashed, and the file hash is computed over the chunks as they were
//! delivered, never by cutting again. Only a file whose hash is right gets its name.

mod concurrency;
mod cpu_pool;
mod decoder;
mod engine;
mod fetcher;
mod journal;
mod many_files;
mod old_version;
mod planner;
mod single_file;
mod stream;
mod writer;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use xet::{FileHash, Sha256};

use crate::budget::{self, MemoryBudget};
use crate::cache::Cache;
use crate::cas::Cas;
use crate::cut::CutOptions;
use crate::error::{Error, ErrorKind, Result};
use crate::progress::Progress;
use concurrency::ConcurrencyLimit;
use cpu_pool::CpuPool;

pub use fetcher::Patience;
pub(crate) use single_file::place_of;
pub(crate) use writer::{StagingDir, remove_leftover};

/// How to pull.
#[derive(Debug, Clone)]
pub struct PullOptions {
    /// Bytes that all downloads of this puller may occupy in memory together.
    pub memory_bytes_max: u64,
    /// Requests for data at once, at most; how many there are is learnt.
    pub connections_max: usize,
    /// Threads that decode, hash and write.
    pub threads: NonZeroUsize,
    /// Whether files are on the disk before they get their names.
    pub sync: bool,
    /// Whether to read a file at the target first: it may be the requested one, or have chunks of it.
    pub reuse: bool,
    /// When to stop waiting for one request.
    pub patience: Patience,
    /// When to stop waiting for everything.
    pub deadline: Option<Duration>,
    /// Cache of chunks.
    pub cache: Option<Arc<Cache>>,
}

impl Default for PullOptions {
    fn default() -> Self {
        Self {
            memory_bytes_max: budget::memory_of_transfer(),
            connections_max: 32,
            threads: CutOptions::default().threads,
            sync: true,
            reuse: true,
            patience: Patience::default(),
            deadline: None,
            cache: None,
        }
    }
}

/// A file to pull, and where to.
#[derive(Debug, Clone)]
pub struct FileRequest {
    /// The file.
    pub file: FileHash,
    /// Its name on this disk. Folders are made; a file that is there is replaced once the new one is verified.
    pub target: PathBuf,
    /// Its digest, to be compared, where it is known.
    pub sha256: Option<Sha256>,
}

impl FileRequest {
    /// A file without a known digest.
    pub fn new(file: FileHash, target: impl Into<PathBuf>) -> Self {
        Self { file, target: target.into(), sha256: None }
    }
}

/// A file that was pulled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pulled {
    /// Its length.
    pub bytes: u64,
    /// Whether the target had it already and was left as it is.
    pub unchanged: bool,
}

/// Pulls files from one hub. Cheap to share: all that is pulled at once shares memory, threads and connections.
#[derive(Debug)]
pub struct Puller {
    cas: Option<Arc<dyn Cas>>,
    options: PullOptions,
    cache: Option<Arc<Cache>>,
    memory: MemoryBudget,
    concurrency: ConcurrencyLimit,
    pool: CpuPool,
    progress: Arc<Progress>,
    /// The chunks of the file that was last read by ranges, where the hub lists them.
    last_list: tokio::sync::Mutex<Option<(FileHash, Option<Arc<writer::Expected>>)>>,
}

impl Puller {
    /// Pulls from `cas`.
    pub fn new(cas: Arc<dyn Cas>, options: PullOptions) -> Self {
        Self::build(Some(cas), options)
    }

    /// Pulls from the cache of the options alone.
    pub fn offline(options: PullOptions) -> Self {
        Self::build(None, options)
    }

    fn build(cas: Option<Arc<dyn Cas>>, options: PullOptions) -> Self {
        Self {
            cas,
            cache: options.cache.clone(),
            memory: MemoryBudget::new(options.memory_bytes_max),
            concurrency: ConcurrencyLimit::new(budget::connections(options.connections_max)),
            pool: CpuPool::new(options.threads.get()),
            progress: Arc::default(),
            last_list: tokio::sync::Mutex::default(),
            options,
        }
    }

    /// The same, counting there.
    pub fn with_progress(mut self, progress: Arc<Progress>) -> Self {
        self.progress = progress;
        self
    }

    /// Counters that any thread may read while work goes on.
    #[cfg(test)]
    pub(crate) fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }

    /// Pulls one file. When it fails or is dropped, what was fetched stays beside the target as `NAME.part`, and the next pull
    /// of the same file goes on from there.
    pub async fn file(&self, request: &FileRequest) -> Result<Pulled> {
        self.in_time(single_file::pull(self, request)).await
    }

    /// Pulls many files, small ones together. Each result is reported with its place in the list as soon as it is known; one that
    /// fails does not stop the others. Small files are staged in a folder in `root`, which must be on the same file system as
    /// the targets.
    pub async fn files(
        &self,
        requests: &[FileRequest],
        root: &Path,
        each: &mut (dyn FnMut(usize, Result<Pulled>) + Send),
    ) -> Result<()> {
        self.in_time(many_files::pull(self, requests, root, each)).await
    }

    /// Writes the bytes `range` of a file to `out`, in order, and returns how many there were. An end past the file is the end
    /// of the file. The whole file is verified by its hash, at the end; a part chunk by chunk, where the hub lists the chunks.
    pub async fn stream<W: std::io::Write + ?Sized>(
        &self,
        file: FileHash,
        range: std::ops::Range<u64>,
        out: &mut W,
    ) -> Result<u64> {
        self.in_time(stream::pull(self, file, range, out)).await
    }

    /// Pulls only these ranges of a file to their places in `target`; elsewhere it has holes. Returns its length.
    pub async fn sparse(
        &self,
        file: FileHash,
        ranges: &[std::ops::Range<u64>],
        target: &Path,
    ) -> Result<u64> {
        self.in_time(single_file::pull_sparse(self, file, ranges, target)).await
    }

    async fn in_time<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let Some(deadline) = self.options.deadline else { return work.await };
        let late = |_| {
            let seconds = deadline.as_secs_f32();
            Error::new(ErrorKind::Unavailable, format!("not done after {seconds:.1} s; pull again to go on"))
        };
        tokio::time::timeout(deadline, work).await.map_err(late)?
    }
}

#[cfg(test)]
mod tests;
