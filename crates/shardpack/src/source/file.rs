//! A local file, read with `pread`: no shared position, so threads and forks do not disturb each other.

use std::fs::File;
use std::io;
use std::path::Path;

use crate::source::Source;

/// A local file.
#[derive(Debug)]
pub struct FileSource {
    file: File,
    name: String,
}

impl FileSource {
    /// Opens a file.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref();
        Ok(Self { file: File::open(path)?, name: path.display().to_string() })
    }
}

impl Source for FileSource {
    fn name(&self) -> &str {
        &self.name
    }

    fn size(&self) -> io::Result<u64> {
        let metadata = self.file.metadata()?;
        if metadata.is_dir() {
            return Err(io::Error::from(io::ErrorKind::IsADirectory));
        }
        Ok(metadata.len())
    }

    #[cfg(unix)]
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(&self.file, buffer, offset)
    }

    #[cfg(windows)]
    fn read_at(&self, mut offset: u64, mut buffer: &mut [u8]) -> io::Result<()> {
        while !buffer.is_empty() {
            match std::os::windows::fs::FileExt::seek_read(&self.file, buffer, offset)? {
                0 => return Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
                read => {
                    buffer = buffer.get_mut(read..).unwrap_or_default();
                    offset += read as u64;
                }
            }
        }
        Ok(())
    }
}
