//! Stream: records in the order of a run, read ahead by threads within a budget of bytes.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use shardpack::Error;

use crate::block::Block;
use crate::dataset::Dataset;
use crate::error::raise;
use crate::open_packs::OpenPacks;
use crate::order::{Positions, Share};
use crate::record::Record;

/// Records in the order of a run. Reading ahead begins with the first record that is read.
#[pyclass(module = "shardpack")]
#[derive(Debug)]
pub(crate) struct Stream {
    ahead: Arc<ReadAhead>,
    threads: Vec<JoinHandle<()>>,
    threads_max: usize,
    /// The process that the threads are in.
    process: Option<u32>,
    /// Records being delivered, and the bytes they hold.
    current: std::vec::IntoIter<Option<Block>>,
    current_bytes: u64,
    next_group: u64,
}

/// State that the reading threads share with the consumer.
#[derive(Debug)]
struct ReadAhead {
    packs: Arc<OpenPacks>,
    bytes_max: u64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    positions: Positions,
    groups: u64,
    ended: bool,
    stopped: bool,
    held_bytes: u64,
    /// Groups that were read, by number.
    ready: BTreeMap<u64, Group>,
}

/// Bytes of records, and the records; one is none where it is damaged and to be skipped.
type Group = (u64, Result<Vec<Option<Block>>, Error>);

impl ReadAhead {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next records to read together, their number and their bytes.
    fn next_group(&self, state: &mut State) -> Option<(u64, Vec<u64>, u64)> {
        let (mut ordinals, mut bytes) = (Vec::new(), 0_u64);
        let more = |records: usize, bytes: u64| {
            records == 0 || (records < GROUP_RECORDS_MAX && bytes < self.bytes_max / GROUPS_IN_BUDGET)
        };
        while more(ordinals.len(), bytes) {
            let Some(ordinal) = state.positions.next() else {
                state.ended = true;
                break;
            };
            let place = self.packs.locate(ordinal);
            let range = place.and_then(|(pack, within)| pack.reader.index().record_range(within));
            bytes += range.map_or(0, |range| range.end - range.start);
            ordinals.push(ordinal);
        }
        if ordinals.is_empty() {
            return None;
        }
        state.groups += 1;
        state.held_bytes += bytes;
        Some((state.groups - 1, ordinals, bytes))
    }

    /// Reads groups until there are none left.
    fn work(&self) {
        let mut state = self.state();
        loop {
            // Nothing held is always room: so a record larger than the budget comes alone.
            let full = |state: &mut State| {
                !state.stopped && !state.ended && state.held_bytes > 0 && state.held_bytes >= self.bytes_max
            };
            state = self.changed.wait_while(state, full).unwrap_or_else(PoisonError::into_inner);
            if state.stopped || state.ended {
                return;
            }
            let Some((number, ordinals, bytes)) = self.next_group(&mut state) else {
                self.changed.notify_all();
                return;
            };
            drop(state);
            let read = self.packs.read_blocks(&ordinals);
            state = self.state();
            state.ready.insert(number, (bytes, read));
            self.changed.notify_all();
        }
    }
}

impl Stream {
    /// The next group, once it was read; none after the last.
    fn take_group(&self, released_bytes: u64) -> Option<Group> {
        let ahead = &self.ahead;
        let mut state = ahead.state();
        state.held_bytes -= released_bytes;
        ahead.changed.notify_all();
        if self.threads_max == 0 {
            let (_, ordinals, bytes) = ahead.next_group(&mut state)?;
            drop(state);
            return Some((bytes, ahead.packs.read_blocks(&ordinals)));
        }
        let number = self.next_group;
        let missing = |state: &mut State| {
            let over = state.ended && state.groups <= number;
            !over && !state.ready.contains_key(&number)
        };
        let mut state = ahead.changed.wait_while(state, missing).unwrap_or_else(PoisonError::into_inner);
        state.ready.remove(&number)
    }

    fn start(&mut self) {
        let spawn = |_| {
            let ahead = Arc::clone(&self.ahead);
            std::thread::spawn(move || ahead.work())
        };
        self.threads = (0..self.threads_max).map(spawn).collect();
        self.process = Some(std::process::id());
    }
}

#[pymethods]
impl Stream {
    #[new]
    fn new(
        dataset: &Bound<'_, Dataset>,
        state: &str,
        share: Share,
        remainder: &str,
        prefetch_bytes: u64,
        threads: usize,
    ) -> PyResult<Self> {
        let positions = Positions::of(state, dataset.get().packs.set.len(), share, remainder)?;
        let ready = BTreeMap::new();
        let state = State { positions, groups: 0, ended: false, stopped: false, held_bytes: 0, ready };
        let ahead = ReadAhead {
            packs: Arc::clone(&dataset.get().packs),
            bytes_max: prefetch_bytes.max(1),
            state: Mutex::new(state),
            changed: Condvar::new(),
        };
        Ok(Self {
            ahead: Arc::new(ahead),
            threads: Vec::new(),
            threads_max: if prefetch_bytes == 0 { 0 } else { threads },
            process: None,
            current: Vec::new().into_iter(),
            current_bytes: 0,
            next_group: 0,
        })
    }

    /// Bytes of records that were read, or are being read, and not delivered.
    #[getter]
    fn held_bytes(&self) -> u64 {
        self.ahead.state().held_bytes
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Option<Record>> {
        loop {
            match self.current.next() {
                Some(Some(block)) => return Ok(Some(self.ahead.packs.record(block))),
                Some(None) => continue,
                None => {}
            }
            match self.process {
                None => self.start(),
                Some(process) if process != std::process::id() && self.threads_max > 0 => {
                    let why = "records are read ahead by another process; begin a new iteration after a fork";
                    return Err(PyRuntimeError::new_err(why));
                }
                Some(_) => {}
            }
            let released_bytes = std::mem::take(&mut self.current_bytes);
            let Some((bytes, group)) = py.detach(|| self.take_group(released_bytes)) else { return Ok(None) };
            self.next_group += 1;
            self.current_bytes = bytes;
            self.current = group.map_err(|error| raise(&error))?.into_iter();
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.process == Some(std::process::id()) {
            self.ahead.state().stopped = true;
            self.ahead.changed.notify_all();
            for thread in self.threads.drain(..) {
                // It is reading one group at most, and has nothing to say.
                let _ = thread.join();
            }
        }
    }
}

/// Records that are read together, at most.
const GROUP_RECORDS_MAX: usize = 256;

/// Parts that the budget is used in: one is delivered while the others are read.
const GROUPS_IN_BUDGET: u64 = 4;
