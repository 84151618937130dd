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
        Ok(Self { file: open(path)?, name: path.display().to_string() })
    }
}

/// Opens a file to read it a thousand times a second, without noting each time when that was. Only its owner may.
#[cfg(target_os = "linux")]
fn open(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    const O_NOATIME: i32 = 0o1_000_000;
    File::options().read(true).custom_flags(O_NOATIME).open(path).or_else(|_| File::open(path))
}

#[cfg(not(target_os = "linux"))]
fn open(path: &Path) -> io::Result<File> {
    File::open(path)
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
