//! Memory for records, used again: of fresh memory every page is a fault, and is cleared first.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use bytes::Bytes;

use super::open_xorb::lock;

/// Buffers that are not in use at the moment. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct BufferPool {
    kept: Arc<Mutex<VecDeque<Vec<u8>>>>,
    kept_bytes_max: usize,
}

impl BufferPool {
    /// A pool that keeps at most `kept_bytes_max` bytes of unused buffers.
    pub(super) fn new(kept_bytes_max: u64) -> Self {
        let kept_bytes_max = usize::try_from(kept_bytes_max).unwrap_or(usize::MAX);
        Self { kept: Arc::default(), kept_bytes_max }
    }

    /// Makes `room` an empty buffer that takes `bytes` bytes without growing: itself, a recycled one, or a new one.
    pub(super) fn reserve(&self, room: &mut Vec<u8>, bytes: usize) {
        room.clear();
        if room.capacity() >= bytes {
            return;
        }
        // Not what is far too large: it would be counted as used, and missing elsewhere.
        let fits =
            |kept: &Vec<u8>| (bytes..=bytes.next_multiple_of(STEP_BYTES) / 4 * 5).contains(&kept.capacity());
        let mut kept = lock(&self.kept);
        let found = kept.iter().rposition(fits).and_then(|at| kept.remove(at));
        drop(kept);
        *room = found.unwrap_or_else(|| Vec::with_capacity(bytes.next_multiple_of(STEP_BYTES)));
    }

    /// The bytes, to be shared. Their memory comes back when the last share is dropped.
    pub(super) fn freeze(&self, bytes: Vec<u8>) -> Bytes {
        Bytes::from_owner(Filled { bytes, home: self.clone() })
    }

    fn recycle(&self, mut room: Vec<u8>) {
        room.clear();
        let mut kept = lock(&self.kept);
        kept.push_back(room);
        // The oldest goes first: what came back last is in the cache, and of the size that is needed now.
        let mut over = kept.iter().map(Vec::capacity).sum::<usize>().saturating_sub(self.kept_bytes_max);
        while over > 0
            && let Some(oldest) = kept.pop_front()
        {
            over = over.saturating_sub(oldest.capacity());
        }
    }
}

/// A buffer that is shared.
struct Filled {
    bytes: Vec<u8>,
    home: BufferPool,
}

impl AsRef<[u8]> for Filled {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Filled {
    fn drop(&mut self) {
        self.home.recycle(std::mem::take(&mut self.bytes));
    }
}

/// Sizes are multiples of this, so that a buffer fits again.
const STEP_BYTES: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_comes_back_once_nobody_looks_at_it_and_no_more_is_kept_than_allowed() {
        let pool = BufferPool::new(64 << 20);
        let mut room = Vec::new();
        pool.reserve(&mut room, 100_000);
        assert_eq!(room.capacity(), 2 * STEP_BYTES);
        room.extend_from_slice(b"records");
        let address = room.as_ptr();
        let shared = pool.freeze(std::mem::take(&mut room));
        let part = shared.slice(3..);
        drop(shared);
        pool.reserve(&mut room, 100_000);
        assert_ne!(room.as_ptr(), address, "a part is still in use");
        assert_eq!(&part[..], b"ords");
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
        assert_eq!(lock(&pool.kept).len(), 64);
    }
}
