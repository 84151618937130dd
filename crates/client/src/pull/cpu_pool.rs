//! CPU pool: runs decoding and hashing off the async threads, with buffers that are reused.

use std::sync::{Arc, Mutex};

use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::decoder::Scratch;
use crate::error::{Error, ErrorKind, Result};

/// Threads for decoding, hashing and writing, a limited number at a time, and their buffers.
#[derive(Debug, Clone)]
pub(super) struct CpuPool {
    permits: Arc<Semaphore>,
    scratch: Arc<Mutex<Vec<Scratch>>>,
}

impl CpuPool {
    pub(super) fn new(threads: usize) -> Self {
        Self { permits: Arc::new(Semaphore::new(threads.max(1))), scratch: Arc::default() }
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
    pub(super) fn take_scratch(&self) -> Scratch {
        self.scratch.lock().expect("no thread panics while it holds the lock").pop().unwrap_or_default()
    }

    pub(super) fn return_scratch(&self, scratch: Scratch) {
        let mut unused = self.scratch.lock().expect("no thread panics while it holds the lock");
        if unused.len() < TOOLS_MAX {
            unused.push(scratch);
        }
    }
}

/// Waits for started work and returns its result.
pub(super) async fn join<T>(work: JoinHandle<T>) -> Result<T> {
    work.await.map_err(|source| Error::caused(ErrorKind::Internal, "work on a thread", source))
}

const TOOLS_MAX: usize = 64;
