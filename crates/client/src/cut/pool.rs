//! Worker pool: distributes files and runs over threads, and returns results in order.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io;
use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use sha2::Digest;
use xet::constants::CHUNK_BYTES_MAX;
use xet::{FileHash, Sha256};

use super::blocks::Scratch;
use super::join::{Join, Sink};
use super::reader::{FileRange, Source};
use super::run::{self, Run};
use super::{CutFile, CutOptions, Progress};
use crate::error::{Error, Result};

/// Runs `options.threads` workers over `paths` until all results were handed to `each`, in order.
pub(super) fn run<'a, P, E>(
    paths: P,
    options: &CutOptions,
    progress: &Progress,
    sink: Option<Sink<'a>>,
    each: E,
) where
    P: Iterator<Item = Result<PathBuf>> + Send,
    E: FnMut(Result<CutFile>) + Send,
{
    let pool = Pool {
        options,
        progress,
        todo: Mutex::new(WorkState {
            paths: Some(paths.enumerate()),
            opening: 0,
            large: VecDeque::new(),
            sink,
        }),
        moved: Condvar::new(),
        done: Mutex::new(OrderedResults { next: 0, waiting: BTreeMap::new(), each }),
    };
    std::thread::scope(|scope| {
        for _ in 1..options.threads.get() {
            scope.spawn(|| pool.work());
        }
        pool.work();
    });
}

struct Pool<'o, 'a, P, E> {
    options: &'o CutOptions,
    progress: &'o Progress,
    todo: Mutex<WorkState<'a, P>>,
    /// There may be more to take: a run was joined, or a file was opened.
    moved: Condvar,
    done: Mutex<OrderedResults<E>>,
}

struct WorkState<'a, P> {
    paths: Option<std::iter::Enumerate<P>>,
    /// Paths taken of which it is not known yet whether they will be shared.
    opening: usize,
    /// Large files with work left to take, oldest first.
    large: VecDeque<Arc<Large<'a>>>,
    /// Destination of chunks; the first file takes it.
    sink: Option<Sink<'a>>,
}

/// Results, handed over in the order of the paths.
struct OrderedResults<E> {
    next: usize,
    waiting: BTreeMap<usize, Result<CutFile>>,
    each: E,
}

/// A file that several workers share.
struct Large<'a> {
    index: usize,
    path: PathBuf,
    file: File,
    bytes: u64,
    run_bytes: u64,
    state: Mutex<LargeState<'a>>,
}

struct LargeState<'a> {
    /// The next run to take.
    next_run: u64,
    /// Whether a worker may still take the digest; it needs the whole file in order, so it is one job.
    digest_untaken: bool,
    /// Jobs taken and not yet finished.
    active: usize,
    /// Runs cut, the first of them being `joined`; a missing one is still at work.
    cut: VecDeque<Option<Run>>,
    joined: u64,
    joining: bool,
    join: Option<Join<'a>>,
    digest: Option<Sha256>,
    error: Option<io::Error>,
}

enum Job<'a> {
    Path(usize, Result<PathBuf>, Option<Sink<'a>>),
    Run(Arc<Large<'a>>, u64),
    Digest(Arc<Large<'a>>),
}

impl<'a, P, E> Pool<'_, 'a, P, E>
where
    P: Iterator<Item = Result<PathBuf>> + Send,
    E: FnMut(Result<CutFile>) + Send,
{
    fn work(&self) {
        let mut scratch = Scratch::default();
        while let Some(job) = self.take() {
            match job {
                Job::Path(index, path, sink) => match path {
                    Ok(path) => self.cut_path(index, path, sink, &mut scratch),
                    Err(error) => {
                        self.opened(None);
                        self.finish(index, Err(error));
                    }
                },
                Job::Run(large, run) => self.cut_run(&large, run, &mut scratch),
                Job::Digest(large) => self.digest(&large, &mut scratch),
            }
        }
    }

    /// The next job; none when there is no more to take.
    fn take(&self) -> Option<Job<'a>> {
        let mut todo = lock(&self.todo);
        loop {
            if let Some(taken) = self.take_large(&mut todo) {
                match taken {
                    Some(job) => return Some(job),
                    None => todo = self.moved.wait(todo).expect("no worker panics with the lock"),
                }
                continue;
            }
            if let Some((index, path)) = todo.paths.as_mut().and_then(Iterator::next) {
                todo.opening += 1;
                let sink = todo.sink.take();
                return Some(Job::Path(index, path, sink));
            }
            todo.paths = None;
            if todo.opening == 0 {
                return None;
            }
            todo = self.moved.wait(todo).expect("no worker panics with the lock");
        }
    }

    /// A job of the oldest large file; `Some(None)` when there will be one later, `None` when there is no such file.
    fn take_large(&self, todo: &mut WorkState<'a, P>) -> Option<Option<Job<'a>>> {
        loop {
            let large = todo.large.front()?;
            match large.take(self.options.threads.get() as u64) {
                NextWork::Run(run) => return Some(Some(Job::Run(large.clone(), run))),
                NextWork::Digest => return Some(Some(Job::Digest(large.clone()))),
                NextWork::Later => return Some(None),
                NextWork::Nothing => drop(todo.large.pop_front()),
            }
        }
    }

    /// Cuts a file whole, or shares it out when it is large.
    fn cut_path(&self, index: usize, path: PathBuf, sink: Option<Sink<'a>>, scratch: &mut Scratch) {
        if path == Path::new("-") {
            self.opened(None);
            return self.finish(index, self.cut_whole(path, Source::Stdin(io::stdin()), sink, scratch));
        }
        match File::open(&path).and_then(|file| file.metadata().map(|metadata| (file, metadata))) {
            Err(error) => {
                self.opened(None);
                self.finish(index, Err(Error::io(&path, error)));
            }
            Ok((file, metadata)) if metadata.is_file() && self.is_worth_sharing(metadata.len()) => {
                self.opened(Some(self.share(index, path, file, metadata.len(), sink)));
            }
            Ok((file, _)) => {
                self.opened(None);
                self.finish(index, self.cut_whole(path, file.into(), sink, scratch));
            }
        }
    }

    /// It is known now whether a path that was taken will be shared.
    fn opened(&self, shared: Option<Large<'a>>) {
        let mut todo = lock(&self.todo);
        todo.opening -= 1;
        todo.large.extend(shared.map(Arc::new));
        drop(todo);
        self.moved.notify_all();
    }

    fn is_worth_sharing(&self, bytes: u64) -> bool {
        bytes >= SHARED_BYTES_MIN && self.options.threads.get() > 1
    }

    fn cut_whole(
        &self,
        path: PathBuf,
        source: Source,
        sink: Option<Sink<'a>>,
        scratch: &mut Scratch,
    ) -> Result<CutFile> {
        let mut digest = self.options.sha256.then(sha2::Sha256::new);
        let mut join = Join::new(sink);
        let cut = scratch.cut(0, source, |chunk, raw| {
            join.push(chunk);
            if let Some(digest) = &mut digest {
                digest.update(raw);
            }
            self.progress.add_bytes(u64::from(chunk.bytes));
            ControlFlow::Continue(())
        });
        cut.map_err(|error| Error::io(&path, error))?;
        let (bytes, hash) = join.finish();
        Ok(CutFile { path, bytes, hash, sha256: digest.map(|digest| Sha256::new(digest.finalize().into())) })
    }

    fn share(
        &self,
        index: usize,
        path: PathBuf,
        file: File,
        bytes: u64,
        sink: Option<Sink<'a>>,
    ) -> Large<'a> {
        let per_worker = bytes / (4 * self.options.threads.get() as u64);
        let unit = CHUNK_BYTES_MAX as u64;
        let run_bytes = per_worker.clamp(RUN_BYTES_MIN, RUN_BYTES_MAX) / unit * unit;
        let state = LargeState {
            next_run: 0,
            digest_untaken: self.options.sha256,
            active: 0,
            cut: VecDeque::new(),
            joined: 0,
            joining: false,
            join: Some(Join::new(sink)),
            digest: None,
            error: None,
        };
        Large { index, path, file, bytes, run_bytes, state: Mutex::new(state) }
    }

    fn cut_run(&self, large: &Large<'a>, run: u64, scratch: &mut Scratch) {
        let cut = run::cut(&large.file, large.range(run), large.bytes, scratch, self.progress);
        let mut state = lock(&large.state);
        match cut {
            Ok(cut) => {
                let slot = usize::try_from(run - state.joined).expect("few runs are ahead of the join");
                if state.cut.len() <= slot {
                    state.cut.resize_with(slot + 1, || None);
                }
                state.cut[slot] = Some(cut);
            }
            Err(error) => state.error = Some(error),
        }
        // One worker joins at a time, without holding the lock while it cuts.
        if !state.joining {
            while state.error.is_none()
                && let Some(Some(run)) = state.cut.front_mut().map(Option::take)
            {
                let mut join = state.join.take().expect("only one worker joins");
                state.joining = true;
                drop(state);
                let pushed = join.push_run(&run, &large.file, large.bytes, scratch);
                state = lock(&large.state);
                state.joining = false;
                state.join = Some(join);
                state.cut.pop_front();
                state.joined += 1;
                state.error = state.error.take().or(pushed.err());
            }
        }
        self.leave(large, state);
        drop(lock(&self.todo)); // a worker between its check and `wait()` cannot miss the notification
        self.moved.notify_all();
    }

    fn digest(&self, large: &Large<'a>, scratch: &mut Scratch) {
        let mut digest = sha2::Sha256::new();
        let read =
            scratch.each_block(FileRange::new(&large.file, 0, large.bytes), |block| digest.update(block));
        let mut state = lock(&large.state);
        match read {
            Ok(()) => state.digest = Some(Sha256::new(digest.finalize().into())),
            Err(error) => state.error = Some(error),
        }
        self.leave(large, state);
    }

    /// A job of `large` is done; the last one hands the result over.
    fn leave(&self, large: &Large<'a>, mut state: MutexGuard<'_, LargeState<'a>>) {
        state.active -= 1;
        let failed = state.error.is_some();
        let all_cut = failed || state.joined == large.runs() && !state.joining;
        if state.active > 0 || !all_cut || state.digest_untaken && !failed {
            return;
        }
        let Some(join) = state.join.take() else { return };
        let digest = state.digest;
        let error = state.error.take();
        drop(state);
        let result = match error {
            Some(error) => Err(Error::io(&large.path, error)),
            None => {
                let (bytes, hash): (u64, FileHash) = join.finish();
                debug_assert_eq!(bytes, large.bytes);
                Ok(CutFile { path: large.path.clone(), bytes, hash, sha256: digest })
            }
        };
        self.finish(large.index, result);
    }

    fn finish(&self, index: usize, result: Result<CutFile>) {
        self.progress.add_file();
        let mut done = lock(&self.done);
        done.waiting.insert(index, result);
        while let Some(result) = {
            let next = done.next;
            done.waiting.remove(&next)
        } {
            done.next += 1;
            (done.each)(result);
        }
    }
}

enum NextWork {
    Run(u64),
    Digest,
    /// Too many runs wait to be joined.
    Later,
    Nothing,
}

impl Large<'_> {
    fn runs(&self) -> u64 {
        self.bytes.div_ceil(self.run_bytes)
    }

    fn range(&self, run: u64) -> Range<u64> {
        run * self.run_bytes..self.bytes.min((run + 1) * self.run_bytes)
    }

    fn take(&self, threads: u64) -> NextWork {
        let mut state = lock(&self.state);
        if state.error.is_some() {
            return NextWork::Nothing;
        }
        if std::mem::take(&mut state.digest_untaken) {
            state.active += 1;
            return NextWork::Digest;
        }
        if state.next_run == self.runs() {
            return NextWork::Nothing;
        }
        if state.next_run >= state.joined + RUNS_AHEAD * threads {
            return NextWork::Later;
        }
        state.active += 1;
        state.next_run += 1;
        NextWork::Run(state.next_run - 1)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no worker panics with the lock")
}

/// Files from this size on are shared by the workers.
const SHARED_BYTES_MIN: u64 = 4 * 1024 * 1024;
/// Shorter runs would spend their time on finding the first cut.
const RUN_BYTES_MIN: u64 = 1024 * 1024;
/// Longer runs would gain nothing and leave workers idle at the end of a file.
const RUN_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// How many runs, for each worker, may wait to be joined: a bound on memory.
const RUNS_AHEAD: u64 = 4;
