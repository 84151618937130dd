//! Blocks: buffers of one size, used again and again.
//!
//! A fresh megabyte costs more than what is done with it: the system hands it out page by page, each a fault, each
//! cleared. Blocks begin at a page, so that a disk can take them as they are. Large ones are one page where the system
//! has pages that large: a disk request has one segment instead of five hundred, which is half of what a write costs.

use std::alloc::Layout;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use memmap2::MmapMut;

/// Bytes of a block: enough to be worth a thread and a disk's time, few enough to stay in a core's own cache.
pub(crate) const BLOCK_BYTES: usize = 512 * 1024;

/// Bytes of a large block, and of a large page.
pub(crate) const LARGE_BYTES: usize = 2 * 1024 * 1024;

/// Where a block begins in memory is a multiple of this, which every disk accepts.
pub(crate) const ALIGN_BYTES: usize = 4096;

/// Bytes of unused blocks that are kept. More are returned to the system.
const FREE_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Hands out blocks and takes them back. Clones share them.
#[derive(Clone)]
pub(crate) struct Blocks {
    block_bytes: usize,
    free: Arc<Mutex<Vec<MmapMut>>>,
}

impl Blocks {
    /// Blocks of [`BLOCK_BYTES`].
    pub(crate) fn small() -> Self {
        Self { block_bytes: BLOCK_BYTES, free: Arc::default() }
    }

    /// Blocks of [`LARGE_BYTES`].
    pub(crate) fn large() -> Self {
        Self { block_bytes: LARGE_BYTES, free: Arc::default() }
    }

    /// Bytes of each.
    pub(crate) fn block_bytes(&self) -> usize {
        self.block_bytes
    }

    /// An empty block.
    pub(crate) fn take(&self) -> Block {
        let cached = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let memory = cached.unwrap_or_else(|| memory(self.block_bytes));
        Block { memory: Some(memory), len: 0, home: self.clone() }
    }
}

/// Memory from the system, in large pages where it has them.
fn memory(bytes: usize) -> MmapMut {
    let Ok(memory) = MmapMut::map_anon(bytes) else {
        std::alloc::handle_alloc_error(Layout::array::<u8>(bytes).unwrap_or(Layout::new::<u8>()))
    };
    // A system that knows no large pages gives small ones.
    #[cfg(target_os = "linux")]
    if bytes >= LARGE_BYTES {
        let _ = memory.advise(memmap2::Advice::HugePage);
    }
    memory
}

impl fmt::Debug for Blocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Blocks({})", self.block_bytes)
    }
}

/// One block, and how much of it is filled.
#[derive(Debug)]
pub(crate) struct Block {
    /// `None` only once it went home.
    memory: Option<MmapMut>,
    len: usize,
    home: Blocks,
}

impl Block {
    /// Appends as much as there is room for; returns how much that was.
    pub(crate) fn fill(&mut self, bytes: &[u8]) -> usize {
        let room = self.room();
        let taken = room.len().min(bytes.len());
        if let (Some(room), Some(bytes)) = (room.get_mut(..taken), bytes.get(..taken)) {
            room.copy_from_slice(bytes);
        }
        self.len += taken;
        taken
    }

    /// What is not filled yet. Say with [`Block::filled`] how much of it was.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        self.memory.as_mut().and_then(|memory| memory.get_mut(self.len..)).unwrap_or_default()
    }

    /// Records that this many bytes of the spare space are filled.
    pub(crate) fn filled(&mut self, bytes: usize) {
        self.len = (self.len + bytes).min(self.home.block_bytes);
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The filled part, to be shared. The block goes home when the last share is dropped.
    pub(crate) fn freeze(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for Block {
    fn as_ref(&self) -> &[u8] {
        self.memory.as_ref().and_then(|memory| memory.get(..self.len)).unwrap_or_default()
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let mut free = self.home.free.lock().unwrap_or_else(PoisonError::into_inner);
        if (free.len() + 1) * self.home.block_bytes <= FREE_BYTES_MAX {
            free.extend(self.memory.take());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_begins_at_a_page_takes_no_more_than_it_holds_and_is_used_again() {
        for (blocks, bytes) in [(Blocks::small(), BLOCK_BYTES), (Blocks::large(), LARGE_BYTES)] {
            let mut block = blocks.take();
            assert_eq!(block.fill(&vec![7; bytes - 1]), bytes - 1);
            assert_eq!((block.fill(b"ab"), block.fill(b"c"), block.len()), (1, 0, bytes));
            let filled = block.freeze();
            let address = filled.as_ptr();
            assert_eq!(address.align_offset(ALIGN_BYTES), 0);
            assert_eq!((filled[0], filled[bytes - 1]), (7, b'a'));
            let part = filled.slice(5..9);
            drop(filled);
            assert_ne!(blocks.take().freeze().as_ptr(), address, "a part is still in use");
            drop(part);
            let again = blocks.take();
            assert_eq!((again.len(), again.as_ref()), (0, &[][..]));
            assert_eq!(again.freeze().as_ptr(), address);
        }
    }

    #[test]
    fn at_most_the_limit_of_free_blocks_is_cached() {
        for blocks in [Blocks::small(), Blocks::large()] {
            let cached = FREE_BYTES_MAX / blocks.block_bytes();
            drop((0..cached + 5).map(|_| blocks.take()).collect::<Vec<_>>());
            assert_eq!(blocks.free.lock().unwrap().len(), cached);
        }
    }
}
