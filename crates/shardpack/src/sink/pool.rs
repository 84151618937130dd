//! Threads that encode records side by side and hand them back in order.

use std::collections::BTreeMap;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use crate::codec::Frame;
use crate::error::Error;
use crate::record::Record;
use crate::write::{WriteOptions, encode_block};

/// Bytes of records that are under way before the giver has to wait.
pub(super) const BYTES_MAX: usize = 64 << 20;

type Block = (Vec<u8>, Vec<(u32, Vec<Frame>)>);
type Done = (u64, usize, Result<Block, Error>);

/// A fixed number of threads, a bounded number of bytes.
#[derive(Debug)]
pub(super) struct Pool {
    jobs: Option<SyncSender<(u64, usize, Record)>>,
    done: Receiver<Done>,
    /// Compressed records that wait for their turn.
    early: BTreeMap<u64, (usize, Result<Block, Error>)>,
    threads: Vec<JoinHandle<()>>,
    given: u64,
    taken: u64,
    held_bytes: usize,
}

impl Pool {
    pub(super) fn new(threads: usize, options: WriteOptions) -> Self {
        // Bounded by bytes in `push`; the number only keeps the queue from blocking it.
        let (jobs, to_do) = mpsc::sync_channel::<(u64, usize, Record)>(QUEUE_RECORDS_MAX);
        let (give, done) = mpsc::channel();
        let to_do = Arc::new(Mutex::new(to_do));
        let options = Arc::new(options);
        let work = |_| {
            let (to_do, give, options) = (Arc::clone(&to_do), give.clone(), Arc::clone(&options));
            std::thread::spawn(move || {
                loop {
                    let job = to_do.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok((number, bytes, record)) = job else { return };
                    let mut block = Vec::new();
                    let encoded = encode_block(&(&record).into(), &options, &mut block);
                    if give.send((number, bytes, encoded.map(|frames| (block, frames)))).is_err() {
                        return;
                    }
                }
            })
        };
        Self {
            jobs: Some(jobs),
            done,
            early: BTreeMap::new(),
            threads: (0..threads).map(work).collect(),
            given: 0,
            taken: 0,
            held_bytes: 0,
        }
    }

    /// Bytes of records that were given and not taken back.
    pub(super) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    pub(super) fn push(&mut self, record: Record) {
        let bytes = RECORD_BYTES_MIN
            + record.metadata.len()
            + record.file_entries.iter().map(|entry| entry.data.len()).sum::<usize>();
        self.held_bytes += bytes;
        if let Some(jobs) = &self.jobs {
            // Threads end only when this sender is gone.
            let _ = jobs.send((self.given, bytes, record));
        }
        self.given += 1;
    }

    /// The next record in the order they were given, once it is encoded.
    pub(super) fn next_done(&mut self) -> Result<Block, Error> {
        loop {
            if let Some((bytes, encoded)) = self.early.remove(&self.taken) {
                self.taken += 1;
                self.held_bytes -= bytes;
                return encoded;
            }
            match self.done.recv() {
                Ok((number, bytes, encoded)) => {
                    self.early.insert(number, (bytes, encoded));
                }
                Err(_) => {
                    self.held_bytes = 0;
                    return Err(Error::invalid("a thread that encodes records has ended too early"));
                }
            }
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            // It has nothing to say that was not said in its results.
            let _ = thread.join();
        }
    }
}

/// Bytes that a record counts at least, so that the bound on bytes bounds their number too.
const RECORD_BYTES_MIN: usize = 16 << 10;

/// More than the bound on bytes lets in.
const QUEUE_RECORDS_MAX: usize = BYTES_MAX / RECORD_BYTES_MIN + 2;
