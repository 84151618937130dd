//! Progress counters that any thread may read during a transfer.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that any thread may read while it changes.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// The number now.
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Adds to it.
    pub(crate) fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// Replaces it.
    pub fn set(&self, n: u64) {
        self.0.store(n, Ordering::Relaxed);
    }
}

/// How far a transfer is.
#[derive(Debug, Default)]
pub struct Progress {
    /// Bytes there are to read or to write, as far as known; may grow.
    pub total_bytes: Counter,
    /// Bytes of files read by a push, or written by a pull.
    pub done_bytes: Counter,
    /// Files finished.
    pub files: Counter,
    /// Of a push: raw bytes that were known already. Of a pull: raw bytes that came from the cache.
    pub known_bytes: Counter,
    /// Of a pull: raw bytes that were on this disk already, in an older version or from an earlier try.
    pub reused_bytes: Counter,
    /// Of a push: raw bytes that were not.
    pub new_bytes: Counter,
    /// Bytes that crossed the wire, or went to the store's folder; repeated ones count again.
    pub wire_bytes: Counter,
    /// Of a pull: files that an interrupted pull had left half done, and this one went on with.
    pub resumed_files: Counter,
    /// Of a pull: temporary files of killed pulls that were of no use any more and were removed.
    pub leftovers: Counter,
    /// Requests that were made again.
    pub retries: Counter,
    /// Terms of the shard at hand that the server has proven.
    pub terms_verified: Counter,
    /// Terms of the shard at hand.
    pub terms_total: Counter,
}
