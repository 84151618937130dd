//! Source: where the bytes of a pack come from. A reader needs a size and ranges.

mod file;
#[cfg(feature = "mmap")]
mod map;
mod memory;

pub use file::FileSource;
#[cfg(feature = "mmap")]
pub use map::MapSource;
pub use memory::MemorySource;

use std::fmt::Debug;
use std::io;
use std::ops::Range;

/// The bytes of one pack, read by ranges.
///
/// # Contract
///
/// - The size and the bytes do not change while a source is in use.
/// - A range that reaches beyond the end is an error, never fewer bytes.
/// - Any number of threads may read at once; there is no position.
/// - Errors say what failed and do not name the source: the reader does.
pub trait Source: Debug + Send + Sync {
    /// Name in messages: a path or a URL.
    fn name(&self) -> &str;

    /// Size in bytes.
    fn size(&self) -> io::Result<u64>;

    /// Fills `buffer` with the bytes from `offset` on.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;

    /// The bytes of several ranges, in their order. Worth its own way where a request is expensive.
    fn read_ranges(&self, ranges: &[Range<u64>]) -> io::Result<Vec<Vec<u8>>> {
        let read = |range: &Range<u64>| {
            let mut bytes = zeros(range.end.saturating_sub(range.start))?;
            self.read_at(range.start, &mut bytes)?;
            Ok(bytes)
        };
        ranges.iter().map(read).collect()
    }

    /// The size, and the last `len` bytes or all there are. Over a network this is one request for a suffix.
    fn read_tail(&self, len: u64) -> io::Result<(u64, Vec<u8>)> {
        let size = self.size()?;
        let mut bytes = zeros(size.min(len))?;
        self.read_at(size - size.min(len), &mut bytes)?;
        Ok((size, bytes))
    }

    /// [`read_at`](Self::read_at) past every cache, for bytes that turned out wrong.
    fn read_again(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.read_at(offset, buffer)
    }

    /// All bytes at once, where they are in memory anyway.
    fn as_slice(&self) -> Option<&[u8]> {
        None
    }
}

/// That many zero bytes, or an error where memory is not addressed that far. Callers have compared `len` with the size.
pub(crate) fn zeros(len: u64) -> io::Result<Vec<u8>> {
    let len = usize::try_from(len).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
    Ok(vec![0; len])
}

/// The part of `bytes` that is `len` bytes from `offset`, or the error for a range beyond the end.
fn part(bytes: &[u8], offset: u64, len: usize) -> io::Result<&[u8]> {
    let start = usize::try_from(offset).ok();
    let part = start.and_then(|start| bytes.get(start..start.checked_add(len)?));
    part.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))
}
