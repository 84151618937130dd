//! Packer: the state that workers share to turn chunks into xorbs: files to read, open xorbs, the dedup index, memory.

use std::collections::VecDeque;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use tokio::runtime::Handle;
use tokio::sync::mpsc;
use xet::compress::Policy;
use xet::xorb::ChunkWriter;
use xet::{ChunkHash, limits};

use super::buffer_pool::BufferPool;
use super::compress::compress_chunks;
use super::dedup_index::DedupIndex;
use super::dedup_query::{QUERY_TIMEOUT, QueryBudget, QueryOutcome};
use super::file_draft::DraftedFile;
use super::lock::lock;
use super::open_xorb::{self, CompleteXorb, CompressedChunks, OpenXorb, SharedXorb};
use super::sender::Produced;
use super::{PushOptions, shard_cache};
use crate::budget::MemoryBudget;
use crate::cas::Cas;
use crate::error::Error;
use crate::progress::Progress;

/// State of the workers of one push. A reader puts chunks in; xorbs and files come out over a channel.
pub(super) struct Packer {
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
    /// Buffers of stored chunks until they are sent.
    pool: BufferPool,
    buffers: Mutex<Vec<Vec<u8>>>,
    memory: MemoryBudget,
    sender: mpsc::Sender<Produced>,
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

/// Chunks in a buffer that wait to be compressed.
pub(super) struct Job {
    compress: Vec<CompressTask>,
    buffer: Vec<u8>,
}

/// Next task of a worker.
pub(super) enum Task {
    Job(Job),
    File(usize, PathBuf),
}

/// Buffers of a worker, used for one file after another.
pub(super) struct Worker {
    pub(super) buffer: Vec<u8>,
    writer: ChunkWriter,
    segment: CompressedChunks,
}

impl Worker {
    pub(super) fn new(compression: Policy) -> Self {
        let writer = ChunkWriter::new(compression);
        Self { buffer: Vec::new(), writer, segment: CompressedChunks::default() }
    }
}

/// The receiver was dropped: workers must stop.
#[derive(Debug)]
pub(super) struct ReceiverDropped;

impl Packer {
    /// A packer for `paths`, which sends to `sender` what it produces.
    pub(super) fn new(
        cas: Arc<dyn Cas>,
        paths: Vec<PathBuf>,
        known: DedupIndex,
        options: &PushOptions,
        progress: Arc<Progress>,
        sender: mpsc::Sender<Produced>,
    ) -> Self {
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
        Self {
            cas,
            runtime: Handle::current(),
            options: options.clone(),
            progress,
            readers_max: readers,
            known: Mutex::new(known),
            queries: Mutex::default(),
            queue: Mutex::new(queue),
            moved: Condvar::new(),
            open_xorbs: Mutex::default(),
            next_open: AtomicU64::new(0),
            // What is kept was in use a moment ago, and counted.
            pool: BufferPool::new(sending_bytes),
            buffers: Mutex::default(),
            memory: MemoryBudget::new(sending_bytes),
            sender,
        }
    }

    /// The next task; none when there is no more.
    pub(super) fn take_task(&self) -> Option<Task> {
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

    /// Compresses chunks that another worker offered.
    pub(super) fn run_job(&self, worker: &mut Worker, Job { compress, buffer }: Job) {
        let own = std::mem::replace(&mut worker.buffer, buffer);
        if self.compress(worker, compress).is_err() {
            self.stop();
        }
        lock(&self.buffers).push(std::mem::replace(&mut worker.buffer, own));
    }

    /// A worker is done with reading; `stop` when what it read is not needed any more.
    pub(super) fn end_file(&self, stop: bool) {
        let mut queue = self.queue();
        queue.readers -= 1;
        queue.stopped |= stop;
        drop(queue);
        self.moved.notify_all();
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

    /// Ends the work of all workers; also called by one that panics.
    pub(super) fn stop(&self) {
        if let Ok(mut queue) = self.queue.lock() {
            queue.stopped = true;
        }
        self.moved.notify_all();
    }

    /// Compresses new chunks: here and now, while it is in the cache; or by a worker with nothing to read. `open`
    /// is moved to the front of the worker's buffer.
    pub(super) fn compress_or_offer(
        &self,
        worker: &mut Worker,
        compress: Vec<CompressTask>,
        open: Range<usize>,
    ) -> Result<(), ReceiverDropped> {
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
    ) -> Result<(), ReceiverDropped> {
        for CompressTask { open, slot, chunks } in compress {
            compress_chunks(writer, &self.pool, chunks.iter().map(|range| &buffer[range.clone()]), segment);
            let grow = || if self.options.dry_run { None } else { self.cas.start_xorb() };
            let complete = open_xorb::fill(&open, slot, segment, grow);
            complete.map_or(Ok(()), |complete| self.ship(complete))?;
        }
        Ok(())
    }

    /// Sends a complete xorb on its way, once there is memory for it.
    pub(super) fn ship(&self, complete: CompleteXorb) -> Result<(), ReceiverDropped> {
        let memory = self.runtime.block_on(self.memory.reserve(complete.memory_bytes()));
        self.send(Produced::Xorb(complete.seal(), memory))
    }

    /// Files were read to their end.
    pub(super) fn send_files(&self, drafts: Vec<DraftedFile>) -> Result<(), ReceiverDropped> {
        self.progress.files.add(drafts.len() as u64);
        self.send(Produced::Files(drafts))
    }

    fn send(&self, produced: Produced) -> Result<(), ReceiverDropped> {
        self.sender.blocking_send(produced).map_err(|_| ReceiverDropped)
    }

    /// Joins the open xorbs into as few xorbs as hold them, and ships those. Called when all was read.
    pub(super) fn ship_rest(&self) {
        if self.queue().stopped {
            return;
        }
        let open_xorbs = std::mem::take(&mut *lock(&self.open_xorbs));
        let mut rest: Vec<_> = open_xorbs.iter().filter_map(|open| lock(open).close()).collect();
        rest.sort_by_key(|complete| std::cmp::Reverse(complete.raw_bytes()));
        let mut joined: Vec<CompleteXorb> = Vec::new();
        for complete in rest {
            let mut left = Some(complete);
            for into in &mut joined {
                left = left.and_then(|complete| into.append(complete).err());
            }
            joined.extend(left);
        }
        // When the receiver was dropped, the sender has the error.
        let _ = joined.into_iter().try_for_each(|complete| self.ship(complete));
    }

    /// Errors of the files that could not be read, in the order of the files.
    pub(super) fn into_unread(self) -> Vec<Error> {
        let mut unread = std::mem::take(&mut self.queue().unread);
        unread.sort_by_key(|(index, _)| *index);
        unread.into_iter().map(|(_, error)| error).collect()
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
        let query = async |chunk| tokio::time::timeout(QUERY_TIMEOUT, self.cas.dedup(chunk)).await;
        let answers = self.runtime.block_on(futures::future::join_all(chunks.into_iter().map(query)));
        for answer in answers {
            let answer = QueryOutcome::parse(answer.ok().and_then(Result::ok));
            lock(&self.queries).observe(&answer);
            if let QueryOutcome::Shard(bytes, shard) = answer {
                if let Some(cache) = &self.options.cache {
                    shard_cache::store_shard(cache, &bytes, &shard);
                }
                self.index().learn_shard(&shard);
            }
        }
    }

    fn queue(&self) -> MutexGuard<'_, WorkQueue> {
        lock(&self.queue)
    }
}

/// Space for short files, and for a block behind an open chunk. That is shorter than the longest, or it would be closed.
pub(super) const BUFFER_BYTES: usize = 3 * 1024 * 1024;
/// Shorter blocks are compressed faster than handed over.
const OFFER_BYTES_MIN: usize = 128 * 1024;
