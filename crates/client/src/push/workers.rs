//! The workers: each reads files of its own, or compresses for those who do.

use std::collections::VecDeque;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use xet::shard::Shard;
use xet::xorb::RecordWriter;
use xet::{ChunkHash, limits};

use super::buffer_pool::BufferPool;
use super::compress::compress_chunks;
use super::dedup_index::DedupIndex;
use super::file_draft::DraftedFile;
use super::open_xorb::{self, CompleteXorb, CompressedChunks, OpenXorb, SharedXorb, lock};
use super::reader::{self, BUFFER_BYTES};
use super::sender::Produced;
use super::{PushOptions, shard_cache};
use crate::budget::MemoryBudget;
use crate::cas::Cas;
use crate::error::{Error, ErrorKind, Result};
use crate::progress::Progress;

/// Result of reading.
pub(super) struct Read {
    pub(super) unread: Vec<Error>,
}

/// Handle of the workers.
pub(super) struct ReadHandle(JoinHandle<Read>);

impl ReadHandle {
    /// Waits for the end of it.
    pub(super) async fn join(self) -> Result<Read> {
        self.0.await.map_err(|source| Error::caused(ErrorKind::Internal, "reading files", source))
    }
}

/// Starts the workers. They send to `placed` what they produce; when that is closed they stop.
pub(super) fn start(
    cas: Arc<dyn Cas>,
    paths: Vec<PathBuf>,
    known: DedupIndex,
    options: &PushOptions,
    progress: Arc<Progress>,
    placed: mpsc::Sender<Produced>,
) -> ReadHandle {
    let threads = options.threads.get();
    // A reader keeps up to one xorb that is being filled, and needs room for one that is being sent.
    let readers = options.memory_bytes / (2 * limits::XORB_BYTES_MAX);
    let readers = usize::try_from(readers).unwrap_or(usize::MAX).clamp(1, threads);
    let sending_bytes = options.memory_bytes.saturating_sub(readers as u64 * limits::XORB_BYTES_MAX);
    let queue = WorkQueue {
        paths: paths.into_iter().enumerate(),
        jobs: VecDeque::new(),
        readers: 0,
        stopped: false,
        unread: Vec::new(),
    };
    let workers = Workers {
        cas,
        runtime: Handle::current(),
        options: options.clone(),
        progress,
        readers_max: readers,
        known: Mutex::new(known),
        queries: Mutex::new(QueryBudget { left: QUERIES_AT_ONCE, credit_bytes: 0, failures: 0 }),
        queue: Mutex::new(queue),
        moved: Condvar::new(),
        open_xorbs: Mutex::default(),
        next_open: AtomicU64::new(0),
        // What is kept was in use a moment ago, and counted.
        pool: BufferPool::new(sending_bytes),
        buffers: Mutex::default(),
        memory: MemoryBudget::new(sending_bytes),
        placed,
    };
    ReadHandle(tokio::task::spawn_blocking(move || workers.run()))
}

pub(super) struct Workers {
    cas: Arc<dyn Cas>,
    runtime: Handle,
    pub(super) options: PushOptions,
    pub(super) progress: Arc<Progress>,
    readers_max: usize,
    known: Mutex<DedupIndex>,
    queries: Mutex<QueryBudget>,
    queue: Mutex<WorkQueue>,
    /// There may be something to take: a job, a path, or the end.
    moved: Condvar,
    /// Open xorbs that no reader fills at the moment.
    open_xorbs: Mutex<Vec<SharedXorb>>,
    next_open: AtomicU64,
    /// Where records are until they are sent.
    pool: BufferPool,
    buffers: Mutex<Vec<Vec<u8>>>,
    memory: MemoryBudget,
    placed: mpsc::Sender<Produced>,
}

struct WorkQueue {
    paths: std::iter::Enumerate<std::vec::IntoIter<PathBuf>>,
    jobs: VecDeque<Job>,
    /// Files being read.
    readers: usize,
    stopped: bool,
    unread: Vec<(usize, Error)>,
}

/// Chunks of a block to be compressed into their place.
#[derive(Debug)]
pub(super) struct CompressTask {
    pub(super) open: SharedXorb,
    pub(super) slot: usize,
    pub(super) chunks: Vec<Range<usize>>,
}

struct Job {
    compress: Vec<CompressTask>,
    buffer: Vec<u8>,
}

enum Task {
    Job(Job),
    File(usize, PathBuf),
}

/// Buffers of a worker, used for one file after another.
pub(super) struct Worker {
    pub(super) buffer: Vec<u8>,
    writer: RecordWriter,
    segment: CompressedChunks,
}

/// The receiver was dropped: workers must stop.
#[derive(Debug)]
pub(super) struct ReceiverDropped;

/// Budget of dedup queries: at first free, then in step with the bytes read and with how often queries helped.
struct QueryBudget {
    left: u32,
    credit_bytes: u64,
    failures: u32,
}

impl Workers {
    fn run(self) -> Read {
        std::thread::scope(|scope| {
            for _ in 1..self.options.threads.get() {
                scope.spawn(|| self.work());
            }
            self.work();
        });
        self.ship_rest();
        let mut unread = std::mem::take(&mut self.queue().unread);
        unread.sort_by_key(|(index, _)| *index);
        Read { unread: unread.into_iter().map(|(_, error)| error).collect() }
    }

    fn work(&self) {
        let _end = StopOnPanic(self);
        let writer = RecordWriter::new(self.options.compression);
        let mut worker = Worker { buffer: Vec::new(), writer, segment: CompressedChunks::default() };
        while let Some(taken) = self.take() {
            match taken {
                Task::Job(Job { compress, buffer }) => {
                    let own = std::mem::replace(&mut worker.buffer, buffer);
                    if self.compress(&mut worker, compress).is_err() {
                        self.stop();
                    }
                    lock(&self.buffers).push(std::mem::replace(&mut worker.buffer, own));
                }
                Task::File(index, path) => {
                    let read = reader::read(self, &mut worker, index, path);
                    let mut queue = self.queue();
                    queue.readers -= 1;
                    queue.stopped |= read.is_err();
                    drop(queue);
                    self.moved.notify_all();
                }
            }
        }
    }

    /// The next thing to do; none when there is no more.
    fn take(&self) -> Option<Task> {
        let mut queue = self.queue();
        loop {
            if queue.stopped {
                return None;
            }
            if let Some(job) = queue.jobs.pop_front() {
                return Some(Task::Job(job));
            }
            if queue.readers < self.readers_max
                && let Some((index, path)) = queue.paths.next()
            {
                queue.readers += 1;
                return Some(Task::File(index, path));
            }
            if queue.readers == 0 && queue.paths.len() == 0 {
                return None;
            }
            queue = self.moved.wait(queue).expect("no worker panics with the lock");
        }
    }

    /// One more file for a worker that reads already.
    pub(super) fn next_path(&self) -> Option<(usize, PathBuf)> {
        let mut queue = self.queue();
        if queue.stopped { None } else { queue.paths.next() }
    }

    /// A file could not be read.
    pub(super) fn report_unread(&self, index: usize, error: Error) {
        self.progress.files.add(1);
        self.queue().unread.push((index, error));
    }

    fn stop(&self) {
        self.queue().stopped = true;
        self.moved.notify_all();
    }

    /// Compresses what was placed: here and now, while it is in the cache; or by a worker with nothing to read. `open`
    /// is moved to the front of the worker's buffer.
    pub(super) fn compress_or_offer(
        &self,
        worker: &mut Worker,
        compress: Vec<CompressTask>,
        open: Range<usize>,
    ) -> std::result::Result<(), ReceiverDropped> {
        if !compress.is_empty() && open.start >= OFFER_BYTES_MIN && self.has_idle_workers() {
            let mut next = lock(&self.buffers).pop().unwrap_or_default();
            next.resize(BUFFER_BYTES, 0);
            next[..open.len()].copy_from_slice(&worker.buffer[open]);
            let buffer = std::mem::replace(&mut worker.buffer, next);
            self.queue().jobs.push_back(Job { compress, buffer });
            self.moved.notify_one();
            return Ok(());
        }
        self.compress(worker, compress)?;
        worker.buffer.copy_within(open, 0);
        Ok(())
    }

    fn has_idle_workers(&self) -> bool {
        let queue = self.queue();
        let idle = self.options.threads.get().saturating_sub(queue.readers);
        !queue.stopped && queue.jobs.len() < 2 * idle
    }

    /// Compresses chunks that are in the worker's buffer.
    pub(super) fn compress(
        &self,
        Worker { buffer, writer, segment }: &mut Worker,
        compress: Vec<CompressTask>,
    ) -> std::result::Result<(), ReceiverDropped> {
        for CompressTask { open, slot, chunks } in compress {
            compress_chunks(writer, &self.pool, chunks.iter().map(|range| &buffer[range.clone()]), segment);
            let grow = || if self.options.dry_run { None } else { self.cas.start_xorb() };
            let sealing = open_xorb::fill(&open, slot, segment, grow);
            sealing.map_or(Ok(()), |sealing| self.ship(sealing))?;
        }
        Ok(())
    }

    /// Sends a complete xorb on its way, once there is memory for it.
    pub(super) fn ship(&self, sealing: CompleteXorb) -> std::result::Result<(), ReceiverDropped> {
        let memory = self.runtime.block_on(self.memory.reserve(sealing.memory_bytes()));
        self.send(Produced::Xorb(sealing.seal(), memory))
    }

    /// Files were read to their end.
    pub(super) fn send_files(&self, drafts: Vec<DraftedFile>) -> std::result::Result<(), ReceiverDropped> {
        self.progress.files.add(drafts.len() as u64);
        self.send(Produced::Files(drafts))
    }

    fn send(&self, placed: Produced) -> std::result::Result<(), ReceiverDropped> {
        self.placed.blocking_send(placed).map_err(|_| ReceiverDropped)
    }

    /// What is left in the open xorbs when all was read: joined into as few xorbs as hold it.
    fn ship_rest(&self) {
        if self.queue().stopped {
            return;
        }
        let open_xorbs = std::mem::take(&mut *lock(&self.open_xorbs));
        let mut rest: Vec<_> = open_xorbs.iter().filter_map(|open| lock(open).close()).collect();
        rest.sort_by_key(|sealing| std::cmp::Reverse(sealing.raw_bytes()));
        let mut joined: Vec<CompleteXorb> = Vec::new();
        for sealing in rest {
            let mut left = Some(sealing);
            for into in &mut joined {
                left = left.and_then(|sealing| into.append(sealing).err());
            }
            joined.extend(left);
        }
        // When the receiver was dropped, the sender has the error.
        let _ = joined.into_iter().try_for_each(|sealing| self.ship(sealing));
    }

    /// An open xorb to fill: one that is begun, or a new one.
    pub(super) fn take_open_xorb(&self) -> SharedXorb {
        let begun = lock(&self.open_xorbs).pop();
        begun.unwrap_or_else(|| self.new_open_xorb())
    }

    pub(super) fn new_open_xorb(&self) -> SharedXorb {
        OpenXorb::new(self.next_open.fetch_add(1, Ordering::Relaxed), self.pool.clone())
    }

    pub(super) fn return_open_xorb(&self, open: SharedXorb) {
        if !lock(&open).is_empty() {
            lock(&self.open_xorbs).push(open);
        }
    }

    pub(super) fn index(&self) -> MutexGuard<'_, DedupIndex> {
        lock(&self.known)
    }

    /// Queries the server for those of the chunks that are unknown here, and learns from the answers. No answer is
    /// worth a failure: then the chunks are sent.
    pub(super) fn query_dedup(&self, mut chunks: Vec<ChunkHash>, read_bytes: u64) {
        let known = self.index();
        chunks.retain(|chunk| !known.has(chunk));
        drop(known);
        let granted = lock(&self.queries).grant(chunks.len(), read_bytes);
        chunks.truncate(granted);
        if !self.options.query || chunks.is_empty() {
            return;
        }
        let ask = async |chunk| tokio::time::timeout(QUERY_TIMEOUT, self.cas.dedup(chunk)).await;
        let answers = self.runtime.block_on(futures::future::join_all(chunks.into_iter().map(ask)));
        for answer in answers {
            let answer = QueryOutcome::of(answer.ok().and_then(Result::ok));
            lock(&self.queries).observe(&answer);
            if let QueryOutcome::Shard(bytes, shard) = answer {
                if let Some(cache) = &self.options.cache {
                    shard_cache::keep(cache, &bytes, &shard);
                }
                self.index().learn_shard(&shard);
            }
        }
    }

    fn queue(&self) -> MutexGuard<'_, WorkQueue> {
        lock(&self.queue)
    }
}

/// Stops the other workers when one panics: they would wait for it for ever.
struct StopOnPanic<'a>(&'a Workers);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            if let Ok(mut queue) = self.0.queue.lock() {
                queue.stopped = true;
            }
            self.0.moved.notify_all();
        }
    }
}

/// Result of a dedup query.
enum QueryOutcome {
    Failed,
    Nothing,
    Shard(bytes::Bytes, Box<Shard>),
}

impl QueryOutcome {
    fn of(answer: Option<Option<bytes::Bytes>>) -> Self {
        match answer {
            None => Self::Failed,
            Some(None) => Self::Nothing,
            // Untrusted input: parsed and checked before anything in it is believed.
            Some(Some(bytes)) => match Shard::parse_stored(&bytes) {
                Ok(shard) => Self::Shard(bytes, Box::new(shard)),
                Err(_) => Self::Failed,
            },
        }
    }
}

impl QueryBudget {
    /// How many of `wanted` queries may be made, now that `read_bytes` more bytes were read.
    fn grant(&mut self, wanted: usize, read_bytes: u64) -> usize {
        self.credit_bytes += read_bytes;
        let earned = u32::try_from(self.credit_bytes / QUERY_BYTES).unwrap_or(u32::MAX);
        self.credit_bytes %= QUERY_BYTES;
        self.left = self.left.saturating_add(earned).min(QUERIES_AT_ONCE);
        if self.failures >= QUERY_FAILURES_MAX {
            return 0;
        }
        let granted = wanted.min(self.left as usize);
        self.left -= u32::try_from(granted).unwrap_or(self.left);
        granted
    }

    fn observe(&mut self, answer: &QueryOutcome) {
        match answer {
            QueryOutcome::Failed => self.failures += 1,
            QueryOutcome::Nothing => self.failures = 0,
            // Where one chunk was known, its neighbours may be.
            QueryOutcome::Shard(..) => (self.failures, self.left) = (0, (self.left + 4).min(QUERIES_AT_ONCE)),
        }
    }
}

/// Shorter blocks are compressed faster than handed over.
const OFFER_BYTES_MIN: usize = 128 * 1024;
/// Queries that may be made before any bytes were read; many small new files soon make none.
const QUERIES_AT_ONCE: u32 = 32;
/// Bytes read for each further query.
const QUERY_BYTES: u64 = 4 * 1024 * 1024;
/// Failures in a row after which no more queries are made.
const QUERY_FAILURES_MAX: u32 = 3;
const QUERY_TIMEOUT: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asking_is_free_at_first_then_spaced_and_ends_when_nobody_answers() {
        let mut queries = QueryBudget { left: QUERIES_AT_ONCE, credit_bytes: 0, failures: 0 };
        assert_eq!(queries.grant(1000, 0), 32);
        assert_eq!(queries.grant(1, QUERY_BYTES - 1), 0);
        assert_eq!(queries.grant(5, 1), 1);
        queries.observe(&QueryOutcome::Nothing);
        assert_eq!(queries.grant(5, 3 * QUERY_BYTES), 3);
        (0..3).for_each(|_| queries.observe(&QueryOutcome::Failed));
        assert_eq!(queries.grant(5, 100 * QUERY_BYTES), 0);
    }
}
