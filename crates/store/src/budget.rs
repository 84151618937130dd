//! The one bridge from async to CPU work, and the one budget of memory for bodies.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::{Error, ErrorKind, Result};

/// Runs CPU work on threads of its own, at most N jobs at a time.
#[derive(Debug, Clone)]
pub(crate) struct Workers {
    permits: Arc<Semaphore>,
}

impl Workers {
    pub(crate) fn new(threads: usize) -> Self {
        Self { permits: Arc::new(Semaphore::new(threads.max(1))) }
    }

    /// Does work once a thread is free, and waits for it. Keep pieces short: they cannot be stopped.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        let permit = self.permits.clone().acquire_owned().await.expect("the semaphore is never closed");
        let done = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            work()
        });
        done.await.map_err(|source| Error::caused(ErrorKind::Internal, "work on a thread", source))
    }
}

/// Bytes that bodies of requests may occupy together. Who finds none left waits in line.
#[derive(Debug, Clone)]
pub(crate) struct Memory {
    permits: Arc<Semaphore>,
    blocks: u32,
}

impl Memory {
    pub(crate) fn new(bytes: u64) -> Self {
        let blocks = u32::try_from(bytes / BLOCK_BYTES).unwrap_or(u32::MAX / 16).clamp(1, u32::MAX / 16);
        Self { permits: Arc::new(Semaphore::new(blocks as usize)), blocks }
    }

    /// Waits until that many bytes are free and reserves them until the result is dropped. A request for more than there
    /// ever is gets all of it, alone: the limits of bodies bound what that can be.
    pub(crate) async fn reserve(&self, bytes: u64) -> OwnedSemaphorePermit {
        let blocks = u32::try_from(bytes.div_ceil(BLOCK_BYTES)).unwrap_or(u32::MAX).min(self.blocks);
        self.permits.clone().acquire_many_owned(blocks).await.expect("the semaphore is never closed")
    }
}

const BLOCK_BYTES: u64 = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn memory_is_handed_out_until_it_is_gone() {
        let memory = Memory::new(3 * BLOCK_BYTES);
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

    #[tokio::test]
    async fn work_that_panics_is_an_error() {
        let workers = Workers::new(1);
        assert_eq!(workers.run(|| 5).await.unwrap(), 5);
        assert!(workers.run(|| panic!("on purpose")).await.is_err());
        assert_eq!(workers.run(|| 6).await.unwrap(), 6);
    }
}
