//! Parts of files: ranges that the system has in memory and can send by itself, so that nobody copies them here.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use futures::stream::{self, BoxStream, StreamExt as _};

use super::ObjectKey;
use super::read::read_at;
use crate::error::{Error, ErrorKind, Result};

/// A range of a file that was in memory a moment ago. At most [`PART_BYTES`] long, and never empty.
#[derive(Debug, Clone)]
pub struct FilePart {
    /// The file.
    pub file: Arc<File>,
    /// The range of it.
    pub range: Range<u64>,
}

impl FilePart {
    /// Bytes of it.
    #[allow(clippy::len_without_is_empty, reason = "it never is")]
    pub fn len(&self) -> usize {
        usize::try_from(self.range.end.saturating_sub(self.range.start)).unwrap_or(usize::MAX)
    }
}

/// Bytes of a part: enough that the disk reads one while the one before is on its way.
pub const PART_BYTES: usize = 1 << 20;

/// The parts of a range. Each is brought into memory before it is handed out, by a thread that may wait for a disk, and
/// the one after it is asked for.
pub(super) fn of(key: ObjectKey, file: Arc<File>, range: Range<u64>) -> BoxStream<'static, Result<FilePart>> {
    let parts = stream::try_unfold(range, move |range| {
        let file = file.clone();
        async move {
            if range.is_empty() {
                return Ok(None);
            }
            let middle = range.end.min(range.start + PART_BYTES as u64);
            let (part, rest) = (range.start..middle, middle..range.end);
            bring(&key, &file, &part, range.end).await?;
            Ok(Some((FilePart { file, range: part }, rest)))
        }
    });
    parts.boxed()
}

/// Sees to it that a part is in memory, and asks for the one after it. `end` is where all ends.
pub(super) async fn bring(key: &ObjectKey, file: &Arc<File>, part: &Range<u64>, end: u64) -> Result<()> {
    if is_in_memory(file, part) {
        return Ok(());
    }
    let (file, later) = (file.clone(), part.clone());
    let loaded = tokio::task::spawn_blocking(move || load(&file, &later, end)).await;
    let failed = || format!("read {key}");
    let loaded = loaded.map_err(|source| Error::caused(ErrorKind::Internal, failed(), source))?;
    loaded.map_err(|source| match source.kind() {
        io::ErrorKind::UnexpectedEof => {
            Error::new(ErrorKind::Corrupt, format!("read {key}: {part:?} passes its end"))
        }
        _ => Error::caused(ErrorKind::Unavailable, failed(), source),
    })
}

/// Whether the ends of a part are in memory, which its middle then is too, as a rule: if not, whoever sends it waits.
#[cfg(target_os = "linux")]
fn is_in_memory(file: &File, part: &Range<u64>) -> bool {
    use rustix::io::{ReadWriteFlags, preadv2};
    let has = |at| {
        let mut byte = [0];
        preadv2(file, &mut [io::IoSliceMut::new(&mut byte)], at, ReadWriteFlags::NOWAIT) == Ok(1)
    };
    has(part.start) && has(part.end - 1)
}

#[cfg(not(target_os = "linux"))]
fn is_in_memory(_: &File, _: &Range<u64>) -> bool {
    false
}

/// Reads a part into memory, without its bytes coming here, and begins with the one after it. `end` is where all ends.
fn load(file: &File, part: &Range<u64>, end: u64) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        let wanted = end.min(part.end + PART_BYTES as u64) - part.start;
        // Advice; what is not taken is read by the lines below.
        let _ = rustix::fs::fadvise(file, part.start, wanted.try_into().ok(), rustix::fs::Advice::WillNeed);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = end;
    let mut byte = [0];
    // Pages come in order: with the last all are there.
    match read_at(file, &mut byte, part.end - 1)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}
