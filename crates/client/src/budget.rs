//! Budgets: bytes in memory, connections, bytes each second.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

/// A number of bytes that many may share. Who finds too few left waits in line.
#[derive(Debug, Clone)]
pub(crate) struct MemoryBudget {
    permits: Arc<Semaphore>,
    blocks: u32,
}

impl MemoryBudget {
    /// A limit in bytes.
    pub(crate) fn new(bytes: u64) -> Self {
        let blocks = u32::try_from(bytes / BLOCK_BYTES).unwrap_or(u32::MAX / 16).clamp(1, u32::MAX / 16);
        Self { permits: Arc::new(Semaphore::new(blocks as usize)), blocks }
    }

    /// Waits until `bytes` bytes are free and takes them until the permit is dropped. A caller that wants more than there
    /// ever is gets all of it, alone.
    pub(crate) async fn reserve(&self, bytes: u64) -> OwnedSemaphorePermit {
        let blocks = u32::try_from(bytes.div_ceil(BLOCK_BYTES)).unwrap_or(u32::MAX).min(self.blocks);
        self.permits.clone().acquire_many_owned(blocks).await.expect("the semaphore is never closed")
    }
}

const BLOCK_BYTES: u64 = 4096;

/// Default memory of a push: 128 MiB for each worker, from 256 MiB to what a transfer may have.
pub(crate) fn memory_default(threads: usize) -> u64 {
    let requested = (threads as u64).saturating_mul(128 << 20).max(256 << 20);
    requested.min(memory_of_transfer()).max(64 << 20)
}

/// Default memory of a transfer: a quarter of the machine, or of what this process may have of it, and no
/// more than is ever of use.
pub(crate) fn memory_of_transfer() -> u64 {
    let least = memory_of_machine().unwrap_or(MEMORY_BYTES_MAX);
    (least / 4).clamp(MEMORY_BYTES_MIN, MEMORY_BYTES_MAX)
}

/// Memory that this process may have: the machine's or the container's limit, where the system reports it.
pub fn memory_of_machine() -> Option<u64> {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let cgroup = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
    let limits = cgroup.iter().filter_map(|path| read(path)?.trim().parse::<u64>().ok());
    let machine = read("/proc/meminfo").and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
    });
    limits.chain(machine).min()
}

const MEMORY_BYTES_MIN: u64 = 16 << 20;
const MEMORY_BYTES_MAX: u64 = 1 << 30;

/// Connections that may be open at once: never more than the system lets us open files, with room for those.
pub(crate) fn connections(requested: usize) -> usize {
    let files = open_files_max().unwrap_or(256);
    requested.clamp(1, (files / 4).max(1))
}

/// The soft limit of open files, where the system reports it.
pub fn open_files_max() -> Option<usize> {
    let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Limits bytes per second, in the order they come.
#[derive(Debug)]
pub(crate) struct Bandwidth {
    bytes_per_s: u64,
    /// When the bytes let through so far are through.
    free_at: Mutex<Instant>,
}

impl Bandwidth {
    /// At most this many bytes each second; at least one.
    pub(crate) fn new(bytes_per_s: u64) -> Self {
        Self { bytes_per_s: bytes_per_s.max(1), free_at: Mutex::new(Instant::now()) }
    }

    /// Waits until `bytes` more bytes may pass.
    pub(crate) async fn pass(&self, bytes: u64) {
        let start = self.next(&mut *self.free_at.lock().await, Instant::now(), bytes);
        tokio::time::sleep_until(start).await;
    }

    /// When bytes that come now may pass.
    fn next(&self, free_at: &mut Instant, now: Instant, bytes: u64) -> Instant {
        let start = (*free_at).max(now);
        *free_at = start + Duration::from_secs_f64(bytes as f64 / self.bytes_per_s as f64);
        start
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn memory_is_handed_out_until_it_is_gone() {
        let memory = MemoryBudget::new(3 * BLOCK_BYTES);
        let two = memory.reserve(BLOCK_BYTES + 1).await;
        let waiting = tokio::spawn({
            let memory = memory.clone();
            async move { memory.reserve(u64::MAX).await.num_permits() }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(two);
        assert_eq!(waiting.await.unwrap(), 3);
    }

    #[test]
    fn connections_leave_room_for_files() {
        assert_eq!(connections(1), 1);
        assert!(connections(usize::MAX) < open_files_max().unwrap_or(256).max(2));
    }

    #[test]
    fn bytes_pass_no_faster_than_allowed() {
        let bandwidth = Bandwidth::new(1_000_000);
        let start = Instant::now();
        let mut free_at = start;
        let mut after_ms = |now_ms, bytes| {
            let at = bandwidth.next(&mut free_at, start + Duration::from_millis(now_ms), bytes);
            (at - start).as_millis()
        };
        // At once; behind the first; behind both; after a pause at once again, for which nothing is saved up.
        let passed = [
            after_ms(0, 20_000),
            after_ms(0, 20_000),
            after_ms(30, 1),
            after_ms(100, 50_000),
            after_ms(100, 1),
        ];
        assert_eq!(passed, [0, 20, 40, 100, 150]);
    }
}
