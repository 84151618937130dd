//! Engine: plans the missing byte ranges of files, fetches and writes them, and plans failed ones again.
//!
//! A failed fetch has no state to repair: what it did not write is missing, and what is missing is planned, with fresh URLs and for
//! exactly those bytes. Cut, stalled, corrupt and expired all end here.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use xet::plan::PlanTerm;
use xet::wire::Reconstruction;
use xet::{FileHash, XorbHash};

use super::Puller;
use super::decoder::{Destination, Sink};
use super::fetcher::{self, FetchJob, FetchOutcome};
use crate::error::{Error, ErrorKind, Result};

/// Bytes of a file that are not planned yet.
#[derive(Debug, Clone)]
pub(super) struct MissingRange {
    pub(super) file: usize,
    /// Half-open; an end of `u64::MAX` is wherever the file ends.
    pub(super) range: Range<u64>,
    /// Not before this long.
    wait: Duration,
    /// How often it failed since any of it was written.
    failures: u32,
}

impl MissingRange {
    pub(super) fn new(file: usize, range: Range<u64>) -> Self {
        Self { file, range, wait: Duration::ZERO, failures: 0 }
    }
}

/// One run of the engine over some files.
#[derive(Debug)]
pub(super) struct Engine<'a> {
    puller: &'a Puller,
    sink: Arc<dyn Sink>,
    files: Vec<FileState>,
    units: VecDeque<FetchJob>,
    todo: VecDeque<MissingRange>,
}

/// State of a file.
#[derive(Debug)]
pub(super) struct FileState {
    pub(super) hash: FileHash,
    /// Its length, once its end was seen.
    pub(super) size: Option<u64>,
    /// Why it cannot be had.
    pub(super) error: Option<Error>,
    /// Terms seen, with their offsets in the file, where a cache keeps them.
    pub(super) terms: Vec<(u64, PlanTerm)>,
}

enum Event {
    Planned(MissingRange, Result<Option<Reconstruction>>),
    FetchOutcome(FetchOutcome),
}

impl<'a> Engine<'a> {
    pub(super) fn new(
        puller: &'a Puller,
        files: impl IntoIterator<Item = FileHash>,
        sink: Arc<dyn Sink>,
    ) -> Self {
        let state = |hash| FileState { hash, size: None, error: None, terms: Vec::new() };
        let files = files.into_iter().map(state).collect();
        Self { puller, sink, files, units: VecDeque::new(), todo: VecDeque::new() }
    }

    /// Adds bytes to get.
    pub(super) fn want(&mut self, todo: MissingRange) {
        if !todo.range.is_empty() {
            self.todo.push_back(todo);
        }
    }

    /// Adds something to fetch.
    pub(super) fn push(&mut self, units: impl IntoIterator<Item = FetchJob>) {
        self.units.extend(units);
    }

    /// The state of a file.
    pub(super) fn file(&mut self, file: usize) -> Option<&mut FileState> {
        self.files.get_mut(file)
    }

    /// Gets everything that was added; what failed for good is in the files' states.
    pub(super) async fn run(&mut self) -> Vec<FileState> {
        let puller = self.puller;
        let mut active: FuturesUnordered<BoxFuture<'a, Event>> = FuturesUnordered::new();
        let (mut plans, mut fetches) = (0, 0);
        loop {
            while plans < PLANS_MAX
                && self.units.len() < UNITS_AHEAD
                && let Some(todo) = self.todo.pop_front()
            {
                let Some(file) = self.files.get(todo.file).filter(|file| file.error.is_none()) else {
                    continue;
                };
                let hash = file.hash;
                plans += 1;
                active.push(Box::pin(async move {
                    let answer = plan(puller, hash, &todo).await;
                    Event::Planned(todo, answer)
                }));
            }
            while fetches < puller.concurrency.limit_max()
                && let Some(unit) = self.units.pop_front()
            {
                if unit.uses.iter().all(|place| self.has_failed(place.file)) {
                    continue;
                }
                fetches += 1;
                let sink = self.sink.clone();
                active.push(Box::pin(
                    async move { Event::FetchOutcome(fetcher::unit(puller, unit, sink).await) },
                ));
            }
            match active.next().await {
                None if self.units.is_empty() && self.todo.is_empty() => break,
                None => {}
                Some(Event::Planned(todo, answer)) => {
                    plans -= 1;
                    self.planned(todo, answer);
                }
                Some(Event::FetchOutcome(fetched)) => {
                    fetches -= 1;
                    self.fetched(fetched);
                }
            }
        }
        std::mem::take(&mut self.files)
    }

    fn has_failed(&self, file: usize) -> bool {
        self.files.get(file).is_none_or(|file| file.error.is_some())
    }

    fn planned(&mut self, todo: MissingRange, answer: Result<Option<Reconstruction>>) {
        let MissingRange { file, range, failures, .. } = todo;
        let keeps_terms = self.puller.cache.is_some();
        let Some(state) = self.files.get_mut(file) else { return };
        let requested = window(&range);
        match answer {
            Err(error) => state.error = Some(error),
            Ok(None) => state.size = Some(range.start),
            Ok(Some(found)) => {
                let start = range.start.saturating_sub(found.offset_into_first_range);
                let covered: u64 = found.terms.iter().map(|term| u64::from(term.raw_bytes)).sum();
                let Some(end) = start.checked_add(covered) else {
                    let message = format!("file {} has an impossible length", state.hash);
                    state.error = Some(Error::new(ErrorKind::Invalid, message));
                    return;
                };
                if end < requested.end {
                    // Less than was requested: there is no more.
                    state.size = Some(end);
                } else if end < range.end {
                    self.todo
                        .push_front(MissingRange { failures, ..MissingRange::new(file, end..range.end) });
                }
                if keeps_terms {
                    let mut at = start;
                    state.terms.extend(found.terms.iter().map(|term| {
                        at += u64::from(term.raw_bytes);
                        (at - u64::from(term.raw_bytes), term.clone())
                    }));
                }
                self.sink.reserve(file, end);
                self.puller.progress.total_bytes.add(end.saturating_sub(range.start));
                self.units.extend(units(&found, failures, [(file, start, found.terms.as_slice())]));
            }
        }
    }

    fn fetched(&mut self, fetched: FetchOutcome) {
        let FetchOutcome { rest, by_cache, error } = fetched;
        let Some(error) = error else { return };
        self.puller.progress.retries.add(1);
        let may_help =
            matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Expired | ErrorKind::Unavailable);
        for place in rest {
            let Some(state) = self.files.get_mut(place.file).filter(|state| state.error.is_none()) else {
                continue;
            };
            let failures = if by_cache { 0 } else { place.failures + 1 };
            if !may_help || failures > self.puller.options.patience.attempts_max {
                state.error = Some(again(&error));
                continue;
            }
            let wait = match (error.kind(), failures) {
                (_, 0) | (ErrorKind::Expired, 1) => Duration::ZERO,
                _ => error.retry_after().unwrap_or(WAIT_FIRST * (1 << failures.min(6))).min(WAIT_MAX),
            };
            self.todo.push_front(MissingRange { file: place.file, range: place.bytes, wait, failures });
        }
    }
}

/// Asks how bytes are put together.
async fn plan(puller: &Puller, file: FileHash, todo: &MissingRange) -> Result<Option<Reconstruction>> {
    if !todo.wait.is_zero() {
        tokio::time::sleep(todo.wait).await;
    }
    let Some(cas) = &puller.cas else {
        let message = format!("file {file} is not all in the cache; pull it once without --offline");
        return Err(Error::new(ErrorKind::NotFound, message));
    };
    cas.reconstruction(file, Some(window(&todo.range))).await
}

/// As much of a range as one request covers.
fn window(range: &Range<u64>) -> Range<u64> {
    let bytes = if range.start == 0 { WINDOW_FIRST_BYTES } else { WINDOW_BYTES };
    range.start..range.end.min(range.start.saturating_add(bytes))
}

/// Fetch jobs for terms of one or several files, each with its number and where its terms begin: every range once, however many terms use it.
pub(super) fn units<'t>(
    found: &Reconstruction,
    failures: u32,
    files: impl IntoIterator<Item = (usize, u64, &'t [PlanTerm])>,
) -> Vec<FetchJob> {
    let mut units: Vec<FetchJob> = Vec::new();
    let mut places: HashMap<(XorbHash, u32), usize> = HashMap::new();
    for (file, mut at, terms) in files {
        for term in terms {
            let Some((url, range)) = found.find(term) else { continue };
            let place = *places.entry((term.xorb, range.chunks.start)).or_insert_with(|| {
                units.push(FetchJob {
                    xorb: term.xorb,
                    chunks: range.chunks.clone(),
                    stored: range.stored_bytes.clone(),
                    url: Some(url.to_owned()),
                    uses: Vec::new(),
                });
                units.len() - 1
            });
            let end = at + u64::from(term.raw_bytes);
            if let Some(unit) = units.get_mut(place) {
                unit.uses.push(Destination { file, chunks: term.chunks.clone(), bytes: at..end, failures });
            }
            at = end;
        }
    }
    units
}

/// The same error for another file.
pub(super) fn again(error: &Error) -> Error {
    Error::new(error.kind(), error.to_string()).with_retry_after(error.retry_after())
}

/// Reconstructions asked for at once.
const PLANS_MAX: usize = 8;
/// Waiting fetch jobs above which no more is planned.
const UNITS_AHEAD: usize = 256;
/// Bytes of a file that are planned first, and then at a time. A plan is small; the first answer should come soon.
const WINDOW_FIRST_BYTES: u64 = 256 << 20;
const WINDOW_BYTES: u64 = 1 << 30;
const WAIT_FIRST: Duration = Duration::from_millis(100);
const WAIT_MAX: Duration = Duration::from_secs(60);
