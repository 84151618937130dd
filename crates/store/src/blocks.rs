//! Blocks: buffers of one size, used again and again.
//!
//! A fresh megabyte costs more than what is done with it: the system hands it out page by page, each a fault, each
//! cleared. Blocks begin at a page, so that a disk can take them as they are.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

/// Bytes of a block: enough to be worth a thread and a disk's time, few enough to stay in a core's own cache.
pub(crate) const BLOCK_BYTES: usize = 512 * 1024;

/// Where a block begins in memory is a multiple of this, which every disk accepts.
pub(crate) const ALIGN_BYTES: usize = 4096;

/// Unused blocks that are kept. More than so many at once are given back to the system.
const FREE_MAX: usize = 64;

/// Hands out blocks and takes them back. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Blocks {
    free: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Blocks {
    /// An empty block.
    pub(crate) fn take(&self) -> Block {
        let kept = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let memory = kept.unwrap_or_else(|| vec![0; BLOCK_BYTES + ALIGN_BYTES]);
        let start = memory.as_ptr().align_offset(ALIGN_BYTES).min(ALIGN_BYTES);
        Block { memory, start, len: 0, home: self.clone() }
    }
}

impl fmt::Debug for Blocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Blocks")
    }
}

/// One block, and how much of it is filled.
#[derive(Debug)]
pub(crate) struct Block {
    memory: Vec<u8>,
    start: usize,
    len: usize,
    home: Blocks,
}

impl Block {
    /// Appends as much as there is room for; tells how much that was.
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
        self.memory.get_mut(self.start + self.len..self.start + BLOCK_BYTES).unwrap_or_default()
    }

    /// Notes that so many bytes of the room are filled now.
    pub(crate) fn filled(&mut self, bytes: usize) {
        self.len = (self.len + bytes).min(BLOCK_BYTES);
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
        self.memory.get(self.start..self.start + self.len).unwrap_or_default()
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let mut free = self.home.free.lock().unwrap_or_else(PoisonError::into_inner);
        if free.len() < FREE_MAX {
            free.push(std::mem::take(&mut self.memory));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_begins_at_a_page_takes_no_more_than_it_holds_and_is_used_again() {
        let blocks = Blocks::default();
        let mut block = blocks.take();
        assert_eq!(block.fill(&vec![7; BLOCK_BYTES - 1]), BLOCK_BYTES - 1);
        assert_eq!((block.fill(b"ab"), block.fill(b"c"), block.len()), (1, 0, BLOCK_BYTES));
        let bytes = block.freeze();
        let address = bytes.as_ptr();
        assert_eq!(address.align_offset(ALIGN_BYTES), 0);
        assert_eq!((bytes[0], bytes[BLOCK_BYTES - 1]), (7, b'a'));
        let part = bytes.slice(5..9);
        drop(bytes);
        assert_ne!(blocks.take().freeze().as_ptr(), address, "a part is still in use");
        drop(part);
        let again = blocks.take();
        assert_eq!((again.len(), again.as_ref()), (0, &[][..]));
        assert_eq!(again.freeze().as_ptr(), address);
    }

    #[test]
    fn only_so_many_blocks_are_kept() {
        let blocks = Blocks::default();
        drop((0..FREE_MAX + 5).map(|_| blocks.take()).collect::<Vec<_>>());
        assert_eq!(blocks.free.lock().unwrap().len(), FREE_MAX);
    }
}
