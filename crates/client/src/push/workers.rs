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

use super::buffer_pool::Rooms;
use super::compress::records;
use super::dedup_index::Known;
use super::file_draft::Draft;
use super::open_xorb::{self, Bin, Sealing, Segment, SharedBin, lock};
use super::reader::{self, BUFFER_BYTES};
use super::sender::Placed;
use super::{PushOptions, shard_cache};
use crate::budget::Memory;
use crate::cas::Cas;
use crate::error::{Error, ErrorKind, Result};
use crate::progress::Progress;

/// What reading came to.
pub(super) struct Read {
    pub(super) unread: Vec<Error>,
}

/// Reading that goes on.
pub(super) struct Reading(JoinHandle<Read>);

impl Reading {
    /// Waits for the end of it.
    pub(super) async fn join(self) -> Result<Read> {
        self.0.await.map_err(|source| Error::caused(ErrorKind::Internal, "reading files", source))
    }
}

/// Starts the workers. What they make goes to `placed`; when that is closed they stop.
pub(super) fn start(
    cas: Arc<dyn Cas>,
    paths: Vec<PathBuf>,
    known: Known,
    options: &PushOptions,
    progress: Arc<Progress>,
    placed: mpsc::Sender<Placed>,
) -> Reading {
    let threads = options.threads.get();
    // A lane keeps up to one xorb that is being filled, and needs room for one that is being sent.
    let lanes = options.memory_bytes / (2 * limits::XORB_BYTES_MAX);
    let lanes = usize::try_from(lanes).unwrap_or(usize::MAX).clamp(1, threads);
    let sending_bytes = options.memory_bytes.saturating_sub(lanes as u64 * limits::XORB_BYTES_MAX);
    let todo = Todo {
        paths: paths.into_iter().enumerate(),
        jobs: VecDeque::new(),
        lanes: 0,
        stopped: false,
        unread: Vec::new(),
    };
    let pool = Pool {
        cas,
        runtime: Handle::current(),
        options: options.clone(),
        progress,
        lanes_max: lanes,
        known: Mutex::new(known),
        queries: Mutex::new(Queries { left: QUERIES_AT_ONCE, credit_bytes: 0, failures: 0 }),
        todo: Mutex::new(todo),
        moved: Condvar::new(),
        bins: Mutex::default(),
        next_bin: AtomicU64::new(0),
        // What is kept was in use a moment ago, and counted.
        rooms: Rooms::new(sending_bytes),
        buffers: Mutex::default(),
        memory: Memory::new(sending_bytes),
        placed,
    };
    Reading(tokio::task::spawn_blocking(move || pool.run()))
}

pub(super) struct Pool {
    cas: Arc<dyn Cas>,
    runtime: Handle,
    pub(super) options: PushOptions,
    pub(super) progress: Arc<Progress>,
    lanes_max: usize,
    known: Mutex<Known>,
    queries: Mutex<Queries>,
    todo: Mutex<Todo>,
    /// There may be something to take: a job, a path, or the end.
    moved: Condvar,
    /// Bins that no lane fills at the moment.
    bins: Mutex<Vec<SharedBin>>,
    next_bin: AtomicU64,
    /// Where records are until they are sent.
    rooms: Rooms,
    buffers: Mutex<Vec<Vec<u8>>>,
    memory: Memory,
    placed: mpsc::Sender<Placed>,
}

struct Todo {
    paths: std::iter::Enumerate<std::vec::IntoIter<PathBuf>>,
    jobs: VecDeque<Job>,
    /// Files being read.
    lanes: usize,
    stopped: bool,
    unread: Vec<(usize, Error)>,
}

/// Chunks of a block to be compressed into their place.
#[derive(Debug)]
pub(super) struct Compress {
    pub(super) bin: SharedBin,
    pub(super) slot: usize,
    pub(super) chunks: Vec<Range<usize>>,
}

struct Job {
    compress: Vec<Compress>,
    buffer: Vec<u8>,
}

enum Taken {
    Job(Job),
    File(usize, PathBuf),
}

/// What a worker keeps from file to file.
pub(super) struct Worker {
    pub(super) buffer: Vec<u8>,
    writer: RecordWriter,
    segment: Segment,
}

/// Nobody takes what we make any more.
#[derive(Debug)]
pub(super) struct Stopped;

/// How much we ask: at first freely, then in step with what is read and with how often it helped.
struct Queries {
    left: u32,
    credit_bytes: u64,
    failures: u32,
}

impl Pool {
    fn run(self) -> Read {
        std::thread::scope(|scope| {
            for _ in 1..self.options.threads.get() {
                scope.spawn(|| self.work());
            }
            self.work();
        });
        self.ship_rest();
        let mut unread = std::mem::take(&mut self.todo().unread);
        unread.sort_by_key(|(index, _)| *index);
        Read { unread: unread.into_iter().map(|(_, error)| error).collect() }
    }

    fn work(&self) {
        let _end = StopOnPanic(self);
        let writer = RecordWriter::new(self.options.compression);
        let mut worker = Worker { buffer: Vec::new(), writer, segment: Segment::default() };
        while let Some(taken) = self.take() {
            match taken {
                Taken::Job(Job { compress, buffer }) => {
                    let own = std::mem::replace(&mut worker.buffer, buffer);
                    if self.compress(&mut worker, compress).is_err() {
                        self.stop();
                    }
                    lock(&self.buffers).push(std::mem::replace(&mut worker.buffer, own));
                }
                Taken::File(index, path) => {
                    let read = reader::read(self, &mut worker, index, path);
                    let mut todo = self.todo();
                    todo.lanes -= 1;
                    todo.stopped |= read.is_err();
                    drop(todo);
                    self.moved.notify_all();
                }
            }
        }
    }

    /// The next thing to do; none when there is no more.
    fn take(&self) -> Option<Taken> {
        let mut todo = self.todo();
        loop {
            if todo.stopped {
                return None;
            }
            if let Some(job) = todo.jobs.pop_front() {
                return Some(Taken::Job(job));
            }
            if todo.lanes < self.lanes_max
                && let Some((index, path)) = todo.paths.next()
            {
                todo.lanes += 1;
                return Some(Taken::File(index, path));
            }
            if todo.lanes == 0 && todo.paths.len() == 0 {
                return None;
            }
            todo = self.moved.wait(todo).expect("no worker panics with the lock");
        }
    }

    /// One more file for whoever reads already.
    pub(super) fn next_path(&self) -> Option<(usize, PathBuf)> {
        let mut todo = self.todo();
        if todo.stopped { None } else { todo.paths.next() }
    }

    /// A file could not be read.
    pub(super) fn unread(&self, index: usize, error: Error) {
        self.progress.files.add(1);
        self.todo().unread.push((index, error));
    }

    fn stop(&self) {
        self.todo().stopped = true;
        self.moved.notify_all();
    }

    /// Compresses what was placed: here and now, while it is in the cache; or by a worker with nothing to read. `open`
    /// is moved to the front of the worker's buffer.
    pub(super) fn compress_or_offer(
        &self,
        worker: &mut Worker,
        compress: Vec<Compress>,
        open: Range<usize>,
    ) -> std::result::Result<(), Stopped> {
        if !compress.is_empty() && open.start >= OFFER_BYTES_MIN && self.has_idle_workers() {
            let mut next = lock(&self.buffers).pop().unwrap_or_default();
            next.resize(BUFFER_BYTES, 0);
            next[..open.len()].copy_from_slice(&worker.buffer[open]);
            let buffer = std::mem::replace(&mut worker.buffer, next);
            self.todo().jobs.push_back(Job { compress, buffer });
            self.moved.notify_one();
            return Ok(());
        }
        self.compress(worker, compress)?;
        worker.buffer.copy_within(open, 0);
        Ok(())
    }

    fn has_idle_workers(&self) -> bool {
        let todo = self.todo();
        let idle = self.options.threads.get().saturating_sub(todo.lanes);
        !todo.stopped && todo.jobs.len() < 2 * idle
    }

    /// Compresses chunks that are in the worker's buffer.
    pub(super) fn compress(
        &self,
        Worker { buffer, writer, segment }: &mut Worker,
        compress: Vec<Compress>,
    ) -> std::result::Result<(), Stopped> {
        for Compress { bin, slot, chunks } in compress {
            records(writer, &self.rooms, chunks.iter().map(|range| &buffer[range.clone()]), segment);
            let grow = || if self.options.dry_run { None } else { self.cas.grow() };
            let sealing = open_xorb::fill(&bin, slot, segment, grow);
            sealing.map_or(Ok(()), |sealing| self.ship(sealing))?;
        }
        Ok(())
    }

    /// Sends a complete xorb on its way, once there is memory for it.
    pub(super) fn ship(&self, sealing: Sealing) -> std::result::Result<(), Stopped> {
        let memory = self.runtime.block_on(self.memory.reserve(sealing.memory_bytes()));
        self.send(Placed::Xorb(sealing.seal(), memory))
    }

    /// Files were read to their end.
    pub(super) fn hand_over(&self, drafts: Vec<Draft>) -> std::result::Result<(), Stopped> {
        self.progress.files.add(drafts.len() as u64);
        self.send(Placed::Files(drafts))
    }

    fn send(&self, placed: Placed) -> std::result::Result<(), Stopped> {
        self.placed.blocking_send(placed).map_err(|_| Stopped)
    }

    /// What is left in the bins when all was read: joined into as few xorbs as hold it.
    fn ship_rest(&self) {
        if self.todo().stopped {
            return;
        }
        let bins = std::mem::take(&mut *lock(&self.bins));
        let mut rest: Vec<_> = bins.iter().filter_map(|bin| lock(bin).close()).collect();
        rest.sort_by_key(|sealing| std::cmp::Reverse(sealing.raw_bytes()));
        let mut joined: Vec<Sealing> = Vec::new();
        for sealing in rest {
            let mut left = Some(sealing);
            for into in &mut joined {
                left = left.and_then(|sealing| into.append(sealing).err());
            }
            joined.extend(left);
        }
        // When nobody takes it any more, whoever stopped says why.
        let _ = joined.into_iter().try_for_each(|sealing| self.ship(sealing));
    }

    /// A bin to fill: one that is begun, or a new one.
    pub(super) fn take_bin(&self) -> SharedBin {
        let begun = lock(&self.bins).pop();
        begun.unwrap_or_else(|| self.new_bin())
    }

    pub(super) fn new_bin(&self) -> SharedBin {
        Bin::new(self.next_bin.fetch_add(1, Ordering::Relaxed), self.rooms.clone())
    }

    pub(super) fn return_bin(&self, bin: SharedBin) {
        if !lock(&bin).is_empty() {
            lock(&self.bins).push(bin);
        }
    }

    pub(super) fn known(&self) -> MutexGuard<'_, Known> {
        lock(&self.known)
    }

    /// Asks the other side for those of the chunks that nobody here knows, and learns from the answers. No answer is
    /// worth a failure: then the chunks are sent.
    pub(super) fn ask(&self, mut chunks: Vec<ChunkHash>, read_bytes: u64) {
        let known = self.known();
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
            let answer = Answer::of(answer.ok().and_then(Result::ok));
            lock(&self.queries).heard(&answer);
            if let Answer::Shard(bytes, shard) = answer {
                if let Some(cache) = &self.options.cache {
                    shard_cache::keep(cache, &bytes, &shard);
                }
                self.known().learn(&shard);
            }
        }
    }

    fn todo(&self) -> MutexGuard<'_, Todo> {
        lock(&self.todo)
    }
}

/// Lets the others go when a worker panics: they would wait for it for ever.
struct StopOnPanic<'a>(&'a Pool);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            if let Ok(mut todo) = self.0.todo.lock() {
                todo.stopped = true;
            }
            self.0.moved.notify_all();
        }
    }
}

/// What came of a query.
enum Answer {
    Failed,
    Nothing,
    Shard(bytes::Bytes, Box<Shard>),
}

impl Answer {
    fn of(answer: Option<Option<bytes::Bytes>>) -> Self {
        match answer {
            None => Self::Failed,
            Some(None) => Self::Nothing,
            // A stranger's bytes: parsed and checked before anything in them is believed.
            Some(Some(bytes)) => match Shard::parse_stored(&bytes) {
                Ok(shard) => Self::Shard(bytes, Box::new(shard)),
                Err(_) => Self::Failed,
            },
        }
    }
}

impl Queries {
    /// How many of `wanted` queries may be made, now that so many more bytes were read.
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

    fn heard(&mut self, answer: &Answer) {
        match answer {
            Answer::Failed => self.failures += 1,
            Answer::Nothing => self.failures = 0,
            // Where one chunk was known, its neighbours may be.
            Answer::Shard(..) => (self.failures, self.left) = (0, (self.left + 4).min(QUERIES_AT_ONCE)),
        }
    }
}

/// Shorter blocks are compressed faster than handed over.
const OFFER_BYTES_MIN: usize = 128 * 1024;
/// Queries that may be made before any bytes were read; many small new files soon stop asking.
const QUERIES_AT_ONCE: u32 = 32;
/// Bytes read for each further query.
const QUERY_BYTES: u64 = 4 * 1024 * 1024;
/// So many failures in a row end the asking.
const QUERY_FAILURES_MAX: u32 = 3;
const QUERY_TIMEOUT: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asking_is_free_at_first_then_spaced_and_ends_when_nobody_answers() {
        let mut queries = Queries { left: QUERIES_AT_ONCE, credit_bytes: 0, failures: 0 };
        assert_eq!(queries.grant(1000, 0), 32);
        assert_eq!(queries.grant(1, QUERY_BYTES - 1), 0);
        assert_eq!(queries.grant(5, 1), 1);
        queries.heard(&Answer::Nothing);
        assert_eq!(queries.grant(5, 3 * QUERY_BYTES), 3);
        (0..3).for_each(|_| queries.heard(&Answer::Failed));
        assert_eq!(queries.grant(5, 100 * QUERY_BYTES), 0);
    }
}
