//! Bytes that are in memory.

use std::io;

use crate::source::{Source, part};

/// Bytes that are in memory.
#[derive(Debug, Clone)]
pub struct MemorySource {
    name: String,
    bytes: Vec<u8>,
}

impl MemorySource {
    /// A source of these bytes, called `name`.
    pub fn new(name: impl Into<String>, bytes: Vec<u8>) -> Self {
        Self { name: name.into(), bytes }
    }
}

impl Source for MemorySource {
    fn name(&self) -> &str {
        &self.name
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.bytes.len() as u64)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        buffer.copy_from_slice(part(&self.bytes, offset, buffer.len())?);
        Ok(())
    }

    fn as_slice(&self) -> Option<&[u8]> {
        Some(&self.bytes)
    }
}
