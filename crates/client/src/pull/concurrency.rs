//! Concurrency limit of data requests: raised while that increases the rate, lowered when requests fail.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Limit of requests at a time, which adapts to what they bring.
#[derive(Debug)]
pub(super) struct ConcurrencyLimit {
    permits: Arc<Semaphore>,
    limit_max: usize,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    limit: usize,
    /// Requests to end before the limit is true again.
    owed: usize,
    since: Instant,
    bytes: u64,
    /// Bytes per second when the limit was last raised.
    rate: f64,
    raised: bool,
    probe: Instant,
}

/// The right to run one request.
#[derive(Debug)]
pub(super) struct Slot<'a> {
    concurrency: &'a ConcurrencyLimit,
    permit: Option<OwnedSemaphorePermit>,
}

impl ConcurrencyLimit {
    pub(super) fn new(limit_max: usize) -> Self {
        let limit_max = limit_max.max(1);
        let limit = LIMIT_FIRST.min(limit_max);
        let now = Instant::now();
        let state = State { limit, owed: 0, since: now, bytes: 0, rate: 0.0, raised: false, probe: now };
        Self { permits: Arc::new(Semaphore::new(limit)), limit_max, state: Mutex::new(state) }
    }

    /// Waits for a turn.
    pub(super) async fn enter(&self) -> Slot<'_> {
        let permit = self.permits.clone().acquire_owned().await.expect("the semaphore is never closed");
        Slot { concurrency: self, permit: Some(permit) }
    }

    /// Counts bytes that arrived, and raises the limit when the last raise paid.
    pub(super) fn received(&self, bytes: u64, now: Instant) {
        let mut state = self.lock();
        state.bytes += bytes;
        let elapsed = now.saturating_duration_since(state.since);
        if elapsed < SAMPLE_EVERY {
            return;
        }
        let rate = state.bytes as f64 / elapsed.as_secs_f64();
        let is_full = self.permits.available_permits() == 0;
        let pays = rate > state.rate * 1.05;
        let probes = now.saturating_duration_since(state.probe) > PROBE_EVERY;
        match () {
            () if is_full && (pays || probes) && state.limit < self.limit_max => {
                let more = (state.limit / 4).max(1).min(self.limit_max - state.limit);
                self.raise(&mut state, more);
                (state.rate, state.raised, state.probe) = (rate, true, now);
            }
            // The raise before brought nothing, or worse: take it back, and try again in a while.
            () if state.raised && rate < state.rate * 0.9 => {
                let fewer = (state.limit / 5).max(1);
                self.lower(&mut state, fewer);
                (state.raised, state.probe) = (false, now);
            }
            () => state.raised = false,
        }
        (state.since, state.bytes) = (now, 0);
    }

    /// A request failed for reasons of the network or the server.
    pub(super) fn failed(&self) {
        let mut state = self.lock();
        let fewer = (state.limit / 3).max(1);
        self.lower(&mut state, fewer);
        (state.raised, state.probe) = (false, Instant::now());
    }

    pub(super) fn limit_max(&self) -> usize {
        self.limit_max
    }

    fn raise(&self, state: &mut State, more: usize) {
        state.limit += more;
        let forgiven = state.owed.min(more);
        state.owed -= forgiven;
        self.permits.add_permits(more - forgiven);
    }

    fn lower(&self, state: &mut State, fewer: usize) {
        let fewer = fewer.min(state.limit - 1);
        state.limit -= fewer;
        state.owed += fewer - self.permits.forget_permits(fewer);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics while it holds the lock")
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        let mut state = self.concurrency.lock();
        if state.owed > 0
            && let Some(permit) = self.permit.take()
        {
            state.owed -= 1;
            permit.forget();
        }
    }
}

const LIMIT_FIRST: usize = 4;
const SAMPLE_EVERY: Duration = Duration::from_millis(400);
const PROBE_EVERY: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_limit_grows_while_it_pays_and_shrinks_on_failures() {
        let concurrency = ConcurrencyLimit::new(16);
        let mut now = Instant::now();
        let mut entries = Vec::new();
        for bytes in [1_000_u64, 2_000, 4_000, 8_000, 16_000] {
            while concurrency.permits.available_permits() > 0 {
                entries.push(concurrency.enter().await);
            }
            now += SAMPLE_EVERY;
            concurrency.received(bytes, now);
        }
        let grown = concurrency.lock().limit;
        assert!(grown >= 9, "{grown}");
        now += SAMPLE_EVERY;
        concurrency.received(16_100, now);
        assert_eq!(concurrency.lock().limit, grown, "no more bytes, no more requests");
        for _ in 0..50 {
            concurrency.failed();
        }
        assert_eq!(concurrency.lock().limit, 1);
        let running = entries.len();
        drop(entries);
        assert!(running > 1);
        assert_eq!(concurrency.permits.available_permits(), 1, "those that ended do not count any more");
    }
}
