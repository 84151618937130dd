//! The one bridge from async to CPU work, and the buffers that takes.

use std::sync::{Arc, Mutex};

use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::decode::Tools;
use crate::error::{Error, ErrorKind, Result};

/// Threads for decoding, hashing and writing, so many at a time, and their buffers.
#[derive(Debug, Clone)]
pub(super) struct Pool {
    permits: Arc<Semaphore>,
    tools: Arc<Mutex<Vec<Tools>>>,
}

impl Pool {
    pub(super) fn new(threads: usize) -> Self {
        Self { permits: Arc::new(Semaphore::new(threads.max(1))), tools: Arc::default() }
    }

    /// Starts work once a thread is free, and does not wait for it. Keep pieces short: they cannot be stopped.
    pub(super) async fn start<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let permit = self.permits.clone().acquire_owned().await.expect("the semaphore is never closed");
        tokio::task::spawn_blocking(move || {
            let _permit = permit;
            work()
        })
    }

    /// Does work, and waits for it.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        join(self.start(work).await).await
    }

    /// Buffers for decoding: used ones where there are some, since new pages cost more than decoding does.
    pub(super) fn take_tools(&self) -> Tools {
        self.tools.lock().expect("nobody panics with the lock").pop().unwrap_or_default()
    }

    pub(super) fn return_tools(&self, tools: Tools) {
        let mut kept = self.tools.lock().expect("nobody panics with the lock");
        if kept.len() < TOOLS_MAX {
            kept.push(tools);
        }
    }
}

/// What started work came to.
pub(super) async fn join<T>(work: JoinHandle<T>) -> Result<T> {
    work.await.map_err(|source| Error::caused(ErrorKind::Internal, "work on a thread", source))
}

/// What transfers may occupy unless somebody says otherwise: a quarter of the machine, or of what this process may have of it,
/// and no more than is ever of use.
pub(super) fn memory_bytes_default() -> u64 {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let cgroup = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
    let limits = cgroup.iter().filter_map(|path| read(path)?.trim().parse::<u64>().ok());
    let machine = read("/proc/meminfo").and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
    });
    let least = limits.chain(machine).min().unwrap_or(MEMORY_BYTES_MAX);
    (least / 4).clamp(MEMORY_BYTES_MIN, MEMORY_BYTES_MAX)
}

const MEMORY_BYTES_MIN: u64 = 16 << 20;
const MEMORY_BYTES_MAX: u64 = 1 << 30;
const TOOLS_MAX: usize = 64;
