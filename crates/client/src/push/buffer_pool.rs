//! Buffer pool for stored chunks: fresh memory would cost a page fault and clearing for every page.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use bytes::Bytes;

use super::lock::lock;

/// Buffers that are not in use at the moment. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct BufferPool {
    unused: Arc<Mutex<VecDeque<Vec<u8>>>>,
    unused_bytes_max: usize,
}

impl BufferPool {
    /// A pool that keeps at most `unused_bytes_max` bytes of unused buffers.
    pub(super) fn new(unused_bytes_max: u64) -> Self {
        let unused_bytes_max = usize::try_from(unused_bytes_max).unwrap_or(usize::MAX);
        Self { unused: Arc::default(), unused_bytes_max }
    }

    /// Makes `buffer` an empty buffer that takes `bytes` bytes without growing: itself, a recycled one, or a new one.
    pub(super) fn reserve(&self, buffer: &mut Vec<u8>, bytes: usize) {
        buffer.clear();
        if buffer.capacity() >= bytes {
            return;
        }
        // Skip buffers over 125 % of the request: their full capacity counts against the memory budget.
        let fits = |unused: &Vec<u8>| {
            (bytes..=bytes.next_multiple_of(STEP_BYTES) / 4 * 5).contains(&unused.capacity())
        };
        let mut unused = lock(&self.unused);
        let found = unused.iter().rposition(fits).and_then(|at| unused.remove(at));
        drop(unused);
        *buffer = found.unwrap_or_else(|| Vec::with_capacity(bytes.next_multiple_of(STEP_BYTES)));
    }

    /// The bytes, to be shared. Their memory comes back when the last share is dropped.
    pub(super) fn freeze(&self, bytes: Vec<u8>) -> Bytes {
        Bytes::from_owner(PooledBytes { bytes, pool: self.clone() })
    }

    fn recycle(&self, mut buffer: Vec<u8>) {
        buffer.clear();
        let mut unused = lock(&self.unused);
        unused.push_back(buffer);
        // The oldest goes first: what came back last is in the cache, and of the size that is needed now.
        let mut over = unused.iter().map(Vec::capacity).sum::<usize>().saturating_sub(self.unused_bytes_max);
        while over > 0
            && let Some(oldest) = unused.pop_front()
        {
            over = over.saturating_sub(oldest.capacity());
        }
    }
}

/// A buffer that is shared.
struct PooledBytes {
    bytes: Vec<u8>,
    pool: BufferPool,
}

impl AsRef<[u8]> for PooledBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for PooledBytes {
    fn drop(&mut self) {
        self.pool.recycle(std::mem::take(&mut self.bytes));
    }
}

/// Sizes are multiples of this, so that a buffer fits again.
const STEP_BYTES: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_comes_back_once_nothing_uses_it_and_the_pool_has_a_limit() {
        let pool = BufferPool::new(64 << 20);
        let mut buffer = Vec::new();
        pool.reserve(&mut buffer, 100_000);
        assert_eq!(buffer.capacity(), 2 * STEP_BYTES);
        buffer.extend_from_slice(b"letters");
        let address = buffer.as_ptr();
        let shared = pool.freeze(std::mem::take(&mut buffer));
        let part = shared.slice(3..);
        drop(shared);
        pool.reserve(&mut buffer, 100_000);
        assert_ne!(buffer.as_ptr(), address, "a part is still in use");
        assert_eq!(&part[..], b"ters");
        drop(part);
        for bytes in [10_000, 200_000] {
            let mut other = Vec::new();
            pool.reserve(&mut other, bytes);
            assert_ne!(other.as_ptr(), address, "far too large, or too small");
        }
        let mut again = Vec::new();
        pool.reserve(&mut again, 100_001);
        assert_eq!((again.as_ptr(), again.len()), (address, 0));

        let step = 1 << 20;
        let all: Vec<_> = (0..80).map(|_| pool.freeze(Vec::with_capacity(step))).collect();
        drop(all);
        assert_eq!(lock(&pool.unused).len(), 64);
    }
}
