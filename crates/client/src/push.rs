//! Push: files become chunks, new chunks become xorbs, and a shard says what the files are made of.
//!
//! Each file is read once, from start to end, by one worker, which cuts and hashes its chunks and packs them into xorbs while they are in
//! the cache; short files are read together, and compressing is shared with workers that have nothing to read. Xorbs are
//! sent while reading goes on, or written while they are made where the store is a local directory.
//! A file is registered only after every xorb it is made of was acknowledged.

mod buffer_pool;
mod compress;
mod dedup_index;
mod dedup_query;
mod file_draft;
mod fragmentation;
mod lock;
mod open_xorb;
mod packer;
mod previous_versions;
mod reader;
mod sender;
mod shard_cache;
mod workers;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use xet::compress::Policy;
use xet::{FileHash, Sha256};

use crate::budget;
use crate::cas::Cas;
use crate::error::{Error, ErrorKind, Result};
use crate::progress::Progress;
use workers::Workers;

/// How to push.
#[derive(Debug, Clone)]
pub struct PushOptions {
    /// Workers; by default one for each core.
    pub threads: NonZeroUsize,
    /// Bytes of memory for what is on its way: xorbs being filled and xorbs being sent.
    pub memory_bytes: u64,
    /// Xorbs sent at the same time, memory allowing.
    pub sends_max: usize,
    /// How to compress.
    pub compression: Policy,
    /// Directory of the shard cache. Without it a push that was killed starts
    /// from the beginning.
    pub cache: Option<PathBuf>,
    /// Limit of the cache.
    pub cache_bytes_max: u64,
    /// Whether to query the server for chunks.
    pub query: bool,
    /// Files of the server that these may be new versions of: their chunks need not be sent.
    pub bases: Vec<FileHash>,
    /// Whether to compute and register the SHA-256 of each file; repositories need it.
    pub sha256: bool,
    /// Whether to leave out everything that changes the server.
    pub dry_run: bool,
}

impl Default for PushOptions {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        Self {
            threads,
            memory_bytes: budget::memory_default(threads.get()),
            sends_max: 8,
            compression: Policy::Auto,
            cache: None,
            cache_bytes_max: 64 * 1024 * 1024,
            query: true,
            bases: Vec::new(),
            sha256: true,
            dry_run: false,
        }
    }
}

/// A file that is registered now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PushedFile {
    /// As named by the caller.
    pub path: PathBuf,
    /// Its length.
    pub bytes: u64,
    /// Its name in the store.
    pub hash: FileHash,
    /// Its digest, when asked for.
    pub sha256: Option<Sha256>,
}

/// Summary of a push.
#[derive(Debug, Default)]
pub struct Pushed {
    /// The files, in the order of their paths.
    pub files: Vec<PushedFile>,
    /// Files that could not be read. The others are registered.
    pub unread: Vec<Error>,
    /// Bytes of all files.
    pub logical_bytes: u64,
    /// Raw bytes that went into new xorbs.
    pub new_bytes: u64,
    /// Raw bytes that were stored already, in this push or before it.
    pub deduplicated_bytes: u64,
    /// Bytes of xorbs and shards that were sent.
    pub sent_bytes: u64,
    /// Xorbs that were sent.
    pub xorbs: u64,
    /// Shards that were registered.
    pub shards: u64,
    /// How long it took.
    pub elapsed: Duration,
}

/// Uploads the files at `paths` and returns what was registered. Directories are for [`crate::walk`].
///
/// Can be repeated: what is there is not sent again, also when an earlier push was killed halfway.
pub async fn push(
    cas: Arc<dyn Cas>,
    paths: Vec<PathBuf>,
    options: PushOptions,
    progress: Arc<Progress>,
) -> Result<Pushed> {
    let start = Instant::now();
    let mut pushed = match push_once(cas.clone(), paths.clone(), options.clone(), progress.clone()).await {
        // The server deleted xorbs that the cache lists. Once, the push is repeated without the cache.
        Err(PushFailure::Refused { borrowed: true, error }) if error.kind() == ErrorKind::Invalid => {
            if let Some(cache) = &options.cache {
                shard_cache::forget(cache);
            }
            let options = PushOptions { query: false, bases: Vec::new(), ..options };
            push_once(cas, paths, options, progress).await
        }
        done => done,
    }
    .map_err(PushFailure::into_error)?;
    pushed.elapsed = start.elapsed();
    Ok(pushed)
}

async fn push_once(
    cas: Arc<dyn Cas>,
    paths: Vec<PathBuf>,
    options: PushOptions,
    progress: Arc<Progress>,
) -> std::result::Result<Pushed, PushFailure> {
    let before = (progress.new_bytes.value(), progress.known_bytes.value());
    let mut known = dedup_index::DedupIndex::load(options.cache.as_deref(), options.cache_bytes_max);
    previous_versions::learn(&*cas, &options.bases, &mut known).await;
    let (sender, produced) = sender::channel();
    // Threads read, cut, hash and compress; complete xorbs come over the channel, in memory they have reserved.
    let reading = Workers::start(cas.clone(), paths, known, &options, progress.clone(), sender);
    let sent = sender::all(&cas, produced, &options, &progress).await;
    let read = reading.join().await;
    let mut pushed = sent?;
    let read = read.map_err(PushFailure::Failed)?;
    pushed.unread = read;
    pushed.new_bytes = progress.new_bytes.value() - before.0;
    pushed.deduplicated_bytes = progress.known_bytes.value() - before.1;
    pushed.logical_bytes = pushed.files.iter().map(|file| file.bytes).sum();
    Ok(pushed)
}

/// Why a push ended early.
#[derive(Debug)]
enum PushFailure {
    /// A shard was refused; `borrowed` when it relied on xorbs this push did not send.
    Refused {
        error: Error,
        borrowed: bool,
    },
    Failed(Error),
}

impl PushFailure {
    fn into_error(self) -> Error {
        match self {
            Self::Refused { error, .. } | Self::Failed(error) => error,
        }
    }
}

impl From<Error> for PushFailure {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}
