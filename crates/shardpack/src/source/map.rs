//! A local file mapped into memory: the fastest way to read at random, for files that are not truncated while they are read.
#![allow(unsafe_code)] // one call that maps; ADR 6 says why

use std::fs::File;
use std::io;
use std::path::Path;

use memmap2::Mmap;

use crate::source::{Source, part};

/// A mapped file.
///
/// Reading a map whose file was cut meanwhile ends the process with a signal. So this is never the default: take it for
/// files that are yours, and [`FileSource`](super::FileSource) for all others.
#[derive(Debug)]
pub struct MapSource {
    map: Mmap,
    name: String,
}

impl MapSource {
    /// Maps a file as long as it is now. A reader compares that length with the footer before it trusts anything.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref();
        let file = File::open(path)?;
        // SAFETY: the map is read only and lives as long as this source, which hands out nothing that outlives it. That
        // nobody changes the file meanwhile is what the caller promises by choosing this source; every access is
        // checked against the length of the map, and every CRC is computed from the bytes at the time they are read.
        let map = unsafe { Mmap::map(&file)? };
        Ok(Self { map, name: path.display().to_string() })
    }
}

impl Source for MapSource {
    fn name(&self) -> &str {
        &self.name
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.map.len() as u64)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        buffer.copy_from_slice(part(&self.map, offset, buffer.len())?);
        Ok(())
    }

    fn as_slice(&self) -> Option<&[u8]> {
        Some(&self.map)
    }
}
