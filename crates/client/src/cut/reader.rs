//! Reads files: whole, from standard input, or a range that other workers read around.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// A file that is read from start to end, or standard input.
pub(crate) enum Source {
    Stdin(io::Stdin),
    /// Read up to `at`; the system was advised that it will be read up to `advised`.
    File {
        file: File,
        at: u64,
        advised: u64,
    },
}

impl Source {
    /// The file at `path`; `-` is standard input.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        if path == Path::new("-") {
            return Ok(Self::Stdin(io::stdin()));
        }
        File::open(path).map(Self::from)
    }
}

impl From<File> for Source {
    fn from(file: File) -> Self {
        Self::File { file, at: 0, advised: SHORT_BYTES }
    }
}

impl Read for Source {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Stdin(stdin) => stdin.read(buffer),
            Self::File { file, at, advised } => {
                // By itself the system reads ahead in steps that cost a file that is not in memory five times the CPU time. Short
                // files are not worth the call.
                #[cfg(target_os = "linux")]
                if *at >= SHORT_BYTES && *at + AHEAD_BYTES / 2 >= *advised {
                    let ahead = std::num::NonZeroU64::new(AHEAD_BYTES);
                    // Advice; pipes and the like refuse it.
                    let _ = rustix::fs::fadvise(&*file, *advised, ahead, rustix::fs::Advice::WillNeed);
                    *advised += AHEAD_BYTES;
                }
                let bytes = file.read(buffer)?;
                *at += bytes as u64;
                Ok(bytes)
            }
        }
    }
}

/// A range of a file, read without moving the file's own position. The file must reach the end of the range.
pub(super) struct FileRange<'a> {
    file: &'a File,
    at: u64,
    end: u64,
}

impl<'a> FileRange<'a> {
    pub(super) fn new(file: &'a File, start: u64, end: u64) -> Self {
        Self { file, at: start, end }
    }
}

impl Read for FileRange<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = usize::try_from(self.end - self.at).unwrap_or(usize::MAX).min(buffer.len());
        let bytes = read_at(self.file, &mut buffer[..len], self.at)?;
        self.at += bytes as u64;
        if bytes == 0 && len > 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the file shrank while it was read"));
        }
        Ok(bytes)
    }
}

/// Reads until `buffer` is full or there is no more.
pub(crate) fn fill(buffer: &mut [u8], source: &mut impl Read) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match source.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(bytes) => filled += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

#[cfg(unix)]
fn read_at(file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, buffer, at)
}

#[cfg(windows)]
fn read_at(file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, buffer, at)
}

/// Small enough that a block stays in a core's second-level cache from reading to hashing and compressing.
pub(crate) const BLOCK_BYTES: usize = 512 * 1024;
/// Files of fewer bytes are not worth advice to the system.
const SHORT_BYTES: u64 = 1024 * 1024;
/// Bytes of a file that the system is advised to read before they are len.
#[cfg(target_os = "linux")]
const AHEAD_BYTES: u64 = 4 * 1024 * 1024;
