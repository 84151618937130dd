//! The memory budget: bytes that all requests share, handed out in the order of the requests.
//!
//! Callers acquire a permit before they hold bytes, and wait when there are none; that is the back-pressure. A request
//! takes one permit for everything it will hold, never a second while it has one: two requests that each wait for what
//! the other has would wait for ever. A permit can be made smaller at any time.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use xet::wire::ErrorCode;

/// Bytes shared by all requests. Clones share the same bytes.
#[derive(Clone)]
pub struct Budget {
    shared: Arc<Shared>,
}

struct Shared {
    /// One permit for each block. Tokio's semaphore is fair: first come, first served, large requests too.
    blocks: Arc<Semaphore>,
    total_blocks: u32,
    waiting_max: u64,
    in_use_blocks: AtomicU64,
    waiting: AtomicU64,
}

/// What a budget looks like at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Bytes there are.
    pub total_bytes: u64,
    /// Bytes handed out, rounded up to blocks.
    pub in_use_bytes: u64,
    /// Requests that wait for bytes.
    pub waiting: u64,
}

/// Why no permit is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// More than there is: waiting would never end.
    #[error("{requested} bytes are more than the memory budget of {total}")]
    TooLarge {
        /// Bytes requested.
        requested: u64,
        /// Bytes there are.
        total: u64,
    },
    /// Too many wait already.
    #[error("too many requests wait for memory")]
    Busy,
}

impl Refusal {
    /// The code it is sent with.
    pub(crate) fn code(self) -> ErrorCode {
        match self {
            Self::TooLarge { .. } => ErrorCode::TooLarge,
            Self::Busy => ErrorCode::Unavailable,
        }
    }
}

impl Budget {
    /// A budget of `total_bytes`, rounded down to blocks, at which at most `waiting_max` requests may wait.
    pub(crate) fn new(total_bytes: u64, waiting_max: u64) -> Self {
        // 2^32 - 1 blocks are 16 TiB.
        let total_blocks = u32::try_from(total_bytes / BLOCK_BYTES).unwrap_or(u32::MAX);
        let permits = usize::try_from(total_blocks).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS);
        let shared = Shared {
            blocks: Arc::new(Semaphore::new(permits)),
            total_blocks,
            waiting_max,
            in_use_blocks: AtomicU64::new(0),
            waiting: AtomicU64::new(0),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Waits for `bytes`. Dropping the future gives up its place in the queue.
    pub async fn acquire(&self, bytes: u64) -> Result<Permit, Refusal> {
        let shared = &self.shared;
        let blocks = self.blocks_of(bytes)?;
        // Those who need not wait are not counted among those who do, nor turned away because others do.
        let held = match shared.blocks.clone().try_acquire_many_owned(blocks) {
            Ok(held) => held,
            Err(_) => {
                let _place = Waiting::enter(shared)?;
                shared.blocks.clone().acquire_many_owned(blocks).await.expect("the semaphore is never closed")
            }
        };
        Ok(self.permit(held, blocks))
    }

    /// `bytes` if they are free and nobody waits before.
    pub fn try_acquire(&self, bytes: u64) -> Result<Permit, Refusal> {
        let blocks = self.blocks_of(bytes)?;
        let held = self.shared.blocks.clone().try_acquire_many_owned(blocks).map_err(|_| Refusal::Busy)?;
        Ok(self.permit(held, blocks))
    }

    /// What is in use now.
    pub fn usage(&self) -> Usage {
        let shared = &self.shared;
        Usage {
            total_bytes: u64::from(shared.total_blocks) * BLOCK_BYTES,
            in_use_bytes: shared.in_use_blocks.load(Ordering::Relaxed) * BLOCK_BYTES,
            waiting: shared.waiting.load(Ordering::Relaxed),
        }
    }

    /// Writes what is in use now to the metrics, under the name of this share of the memory.
    pub(crate) fn record(&self, share: &'static str) {
        let Usage { total_bytes, in_use_bytes, waiting } = self.usage();
        for (name, value) in [
            ("drystone_memory_budget_bytes", total_bytes),
            ("drystone_memory_in_use_bytes", in_use_bytes),
            ("drystone_memory_waiting_requests", waiting),
        ] {
            // Gauges are floating; what is lost above 2^53 does not matter for monitoring.
            #[allow(clippy::cast_precision_loss)]
            metrics::gauge!(name, "share" => share).set(value as f64);
        }
    }

    fn blocks_of(&self, bytes: u64) -> Result<u32, Refusal> {
        let total = self.shared.total_blocks;
        let blocks = u32::try_from(bytes.div_ceil(BLOCK_BYTES)).ok().filter(|blocks| *blocks <= total);
        blocks.ok_or(Refusal::TooLarge { requested: bytes, total: u64::from(total) * BLOCK_BYTES })
    }

    fn permit(&self, held: OwnedSemaphorePermit, blocks: u32) -> Permit {
        self.shared.in_use_blocks.fetch_add(u64::from(blocks), Ordering::Relaxed);
        Permit { held: Some(held), blocks, shared: Arc::clone(&self.shared) }
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Budget").field(&self.usage()).finish()
    }
}

/// Bytes that may be held until this is dropped.
pub struct Permit {
    held: Option<OwnedSemaphorePermit>,
    blocks: u32,
    shared: Arc<Shared>,
}

impl Permit {
    /// Bytes of the permit, at least those requested.
    pub(crate) fn bytes(&self) -> u64 {
        u64::from(self.blocks) * BLOCK_BYTES
    }

    /// Gives back all but `bytes`; does nothing when it has no more than that.
    pub(crate) fn shrink_to(&mut self, bytes: u64) {
        let keep = u32::try_from(bytes.div_ceil(BLOCK_BYTES)).unwrap_or(u32::MAX).min(self.blocks);
        let spare = self.blocks - keep;
        let split = usize::try_from(spare).ok().and_then(|spare| self.held.as_mut()?.split(spare));
        if let Some(rest) = split {
            self.blocks = keep;
            self.shared.in_use_blocks.fetch_sub(u64::from(spare), Ordering::Relaxed);
            drop(rest);
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        // Counted down before others can take the blocks, so that the sum never exceeds the total.
        self.shared.in_use_blocks.fetch_sub(u64::from(self.blocks), Ordering::Relaxed);
        self.held.take();
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Permit({} bytes)", self.bytes())
    }
}

/// A place among those who wait, given up when dropped: the waiting future may be dropped at any time.
struct Waiting<'a>(&'a Shared);

impl<'a> Waiting<'a> {
    fn enter(shared: &'a Shared) -> Result<Self, Refusal> {
        let before = shared.waiting.fetch_add(1, Ordering::Relaxed);
        let place = Self(shared);
        if before >= shared.waiting_max { Err(Refusal::Busy) } else { Ok(place) }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What is handed out at once. Blocks keep the semaphore's numbers small; a few kilobytes more or less hurt nobody.
const BLOCK_BYTES: u64 = 4096;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const MIB: u64 = 1 << 20;

    #[tokio::test]
    async fn bytes_come_back_when_a_permit_is_dropped() {
        let budget = Budget::new(MIB, 8);
        let permit = budget.acquire(MIB / 2 + 1).await.unwrap();
        assert_eq!(budget.usage(), Usage { total_bytes: MIB, in_use_bytes: MIB / 2 + 4096, waiting: 0 });
        assert!(matches!(budget.try_acquire(MIB / 2), Err(Refusal::Busy)));
        drop(permit);
        assert_eq!(budget.usage().in_use_bytes, 0);
        assert!(budget.try_acquire(MIB).is_ok());
        assert_eq!(budget.try_acquire(0).unwrap().bytes(), 0);
    }

    #[tokio::test]
    async fn more_than_there_is_is_refused_at_once() {
        let budget = Budget::new(MIB, 8);
        for requested in [MIB + 1, u64::MAX] {
            assert_eq!(
                budget.acquire(requested).await.unwrap_err(),
                Refusal::TooLarge { requested, total: MIB }
            );
        }
        assert_eq!(Refusal::TooLarge { requested: 1, total: 0 }.code().status(), 413);
        assert!(Budget::new(0, 1).acquire(1).await.is_err());
        assert!(Budget::new(u64::MAX, 1).acquire(1 << 40).await.is_ok());
    }

    #[tokio::test]
    async fn a_permit_can_be_made_smaller() {
        let budget = Budget::new(MIB, 8);
        let mut permit = budget.acquire(MIB).await.unwrap();
        permit.shrink_to(5000);
        assert_eq!((permit.bytes(), budget.usage().in_use_bytes), (8192, 8192));
        permit.shrink_to(MIB);
        assert_eq!(permit.bytes(), 8192);
        let rest = budget.try_acquire(MIB - 8192).unwrap();
        permit.shrink_to(0);
        assert_eq!(budget.usage().in_use_bytes, MIB - 8192);
        drop((permit, rest));
        assert!(budget.try_acquire(MIB).is_ok());
    }

    #[tokio::test]
    async fn a_large_request_is_not_overtaken_by_small_ones() {
        let budget = Budget::new(MIB, 8);
        let first = budget.acquire(MIB / 2).await.unwrap();
        let large = tokio::spawn({
            let budget = budget.clone();
            async move { budget.acquire(MIB).await }
        });
        while budget.usage().waiting == 0 {
            tokio::task::yield_now().await;
        }
        // Half is free, but someone was here before.
        assert!(budget.try_acquire(4096).is_err());
        let small = tokio::time::timeout(Duration::from_millis(20), budget.acquire(4096)).await;
        assert!(small.is_err());
        drop(first);
        assert_eq!(large.await.unwrap().unwrap().bytes(), MIB);
    }

    #[tokio::test]
    async fn giving_up_leaves_the_queue() {
        let budget = Budget::new(MIB, 1);
        let held = budget.acquire(MIB).await.unwrap();
        let given_up = tokio::time::timeout(Duration::from_millis(5), budget.acquire(4096)).await;
        assert!(given_up.is_err());
        assert_eq!(budget.usage().waiting, 0);
        drop(held);
        assert!(budget.try_acquire(MIB).is_ok());
    }

    #[tokio::test]
    async fn no_more_wait_than_may() {
        let budget = Budget::new(MIB, 1);
        let held = budget.acquire(MIB).await.unwrap();
        let waiter = tokio::spawn({
            let budget = budget.clone();
            async move { budget.acquire(4096).await.map(|permit| permit.bytes()) }
        });
        while budget.usage().waiting == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(budget.acquire(4096).await.unwrap_err(), Refusal::Busy);
        assert_eq!(budget.usage().waiting, 1);
        drop(held);
        assert_eq!(waiter.await.unwrap(), Ok(4096));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn many_tasks_never_hold_more_than_there_is_and_all_finish() {
        let budget = Budget::new(MIB, 10_000);
        let held = Arc::new(AtomicU64::new(0));
        let tasks: Vec<_> = (0..500_u64)
            .map(|i| {
                let (budget, held) = (budget.clone(), Arc::clone(&held));
                tokio::spawn(async move {
                    for turn in 0..10 {
                        // From nothing to all of it.
                        let want = (i * 7919 + turn * 104_729) % (MIB + 1);
                        let mut permit = budget.acquire(want).await.unwrap();
                        let sum = held.fetch_add(permit.bytes(), Ordering::SeqCst) + permit.bytes();
                        assert!(sum <= MIB && budget.usage().in_use_bytes <= MIB);
                        tokio::task::yield_now().await;
                        held.fetch_sub(permit.bytes(), Ordering::SeqCst);
                        permit.shrink_to(want / 2);
                    }
                })
            })
            .collect();
        for task in tasks {
            tokio::time::timeout(Duration::from_secs(60), task)
                .await
                .expect("no task waits for ever")
                .unwrap();
        }
        assert_eq!(budget.usage(), Usage { total_bytes: MIB, in_use_bytes: 0, waiting: 0 });
    }
}
