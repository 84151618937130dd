//! A buffered window of a source, so that many small accesses are few reads.

use std::io;

use crate::source::{Source, zeros};

/// Bytes of a source around where it was last looked at.
#[derive(Debug)]
pub(super) struct Window<'a> {
    source: &'a dyn Source,
    size: u64,
    at: u64,
    held: Vec<u8>,
}

impl<'a> Window<'a> {
    pub(super) fn new(source: &'a dyn Source) -> io::Result<Self> {
        Ok(Self { source, size: source.size()?, at: 0, held: Vec::new() })
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// `len` bytes from `at` on, or as many as there are. What is held follows the size of the source, never `len` alone.
    pub(super) fn bytes(&mut self, at: u64, len: u64) -> io::Result<&[u8]> {
        let len = len.min(self.size.saturating_sub(at));
        if let Some(all) = self.source.as_slice() {
            let start = usize::try_from(at).unwrap_or(usize::MAX).min(all.len());
            let end = usize::try_from(at.saturating_add(len)).unwrap_or(usize::MAX).min(all.len());
            return Ok(all.get(start..end).unwrap_or_default());
        }
        let held = self.at..self.at + self.held.len() as u64;
        if at < held.start || at.saturating_add(len) > held.end {
            let end = at.saturating_add(len.max(READ_BYTES)).min(self.size);
            let mut bytes = zeros(end.saturating_sub(at))?;
            self.source.read_at(at, &mut bytes)?;
            (self.at, self.held) = (at, bytes);
        }
        let start = usize::try_from(at - self.at).unwrap_or(usize::MAX);
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        Ok(self.held.get(start..start.saturating_add(len)).unwrap_or_default())
    }
}

/// Read at once.
const READ_BYTES: u64 = 256 << 10;
