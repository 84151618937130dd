//! Objects that are read once and in bulk: to be verified, or to become files of this machine.
//!
//! What the system has in memory is taken from there. The rest goes past the page cache: pages that are not read again cost more
//! than reading, and drive out what others read. In large pieces: each costs a disk's attention.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt as _};

use crate::error::{Error, ErrorKind, Result};
use crate::objects::Objects;
use crate::objects::key::ObjectKey;
use crate::objects::local::buffers::{ALIGN_BYTES, Block, Blocks};
use crate::objects::local::read::{self, Filled, ObjectReader, read_at};

impl Objects {
    /// The bytes of a range as [`stream`](Self::stream) gives them, for who needs them once.
    pub async fn stream_once(
        &self,
        key: &ObjectKey,
        range: Range<u64>,
    ) -> Result<BoxStream<'static, Result<Bytes>>> {
        let is_bulk = range.end.saturating_sub(range.start) >= BULK_BYTES;
        let Some(path) = self.path_of(key).filter(|_| is_bulk) else {
            return self.stream(key, range).await;
        };
        let Some(file) = self.reader(key).await?.and_then(ObjectReader::into_file) else {
            return Err(Error::new(ErrorKind::NotFound, format!("read {key}: it is not there")));
        };
        let source = Source { key: key.to_string(), path, file, direct: Direct::Untried };
        Ok(read::whole(key.to_string(), range.clone(), pieces(source, range, self.large_blocks.clone())))
    }
}

/// A file, and a second way to it.
struct Source {
    key: String,
    path: PathBuf,
    file: Arc<File>,
    direct: Direct,
}

enum Direct {
    Untried,
    Open(File),
    /// Some file systems know no direct reads.
    Refused,
}

fn pieces(source: Source, range: Range<u64>, blocks: Blocks) -> BoxStream<'static, Result<Bytes>> {
    let pieces = stream::try_unfold((source, range), move |(mut source, range)| {
        let blocks = blocks.clone();
        async move {
            if range.is_empty() {
                return Ok(None);
            }
            let next = range.start..range.end.min(range.start + ONCE_BYTES as u64);
            let piece = match source.fill_now(blocks.take(), &next) {
                Filled::Now(block) => block.freeze(),
                Filled::Later(block) => {
                    let key = source.key.clone();
                    let failed = || format!("read {key}");
                    let read = tokio::task::spawn_blocking(move || {
                        let piece = source.fill(block, &next);
                        (source, piece)
                    });
                    let read = read.await;
                    let (back, piece) =
                        read.map_err(|source| Error::caused(ErrorKind::Internal, failed(), source))?;
                    source = back;
                    piece.map_err(|source| Error::caused(ErrorKind::Unavailable, failed(), source))?
                }
            };
            // The file was truncated since it was opened: the caller, which counts the bytes, reports it.
            let end = if piece.is_empty() { range.start } else { range.end };
            let rest = range.start + piece.len() as u64..end;
            Ok(Some((piece, (source, rest))))
        }
    });
    pieces.boxed()
}

impl Source {
    /// What is in memory, until the first that is not: to ask for it brings what follows into the page cache.
    fn fill_now(&self, block: Block, range: &Range<u64>) -> Filled {
        match self.direct {
            Direct::Open(_) => Filled::Later(block),
            Direct::Untried | Direct::Refused => read::fill_now(&self.file, block, range),
        }
    }

    /// The first bytes of a range that is not in memory; none where the file ends. Waits for the disk.
    fn fill(&mut self, mut block: Block, range: &Range<u64>) -> io::Result<Bytes> {
        if matches!(self.direct, Direct::Untried) {
            self.direct = open_direct(&self.path).map_or(Direct::Refused, Direct::Open);
        }
        if let Direct::Open(direct) = &self.direct {
            match fill_direct(direct, &mut block, range) {
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => self.direct = Direct::Refused,
                skipped => return skipped.map(|skipped| block.freeze().slice(skipped..)),
            }
        }
        read::fill(&self.file, block, range).map(Block::freeze)
    }
}

/// Fills the block from the page on that the range begins in; returns how many of its bytes are before the range.
fn fill_direct(file: &File, block: &mut Block, range: &Range<u64>) -> io::Result<usize> {
    let align = ALIGN_BYTES as u64;
    let start = range.start / align * align;
    let wanted = usize::try_from(range.end.next_multiple_of(align) - start).unwrap_or(usize::MAX);
    let room = block.room();
    let len = room.len().min(wanted);
    let room = room.get_mut(..len).unwrap_or_default();
    let read = loop {
        match read_at(file, room, start) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => break read?,
        }
    };
    let [before, upto] = [range.start, range.end].map(|at| usize::try_from(at - start).unwrap_or(usize::MAX));
    block.filled(read.min(upto));
    Ok(before.min(block.len()))
}

/// Reads a file piece by piece, for callers that read all of it once. May wait for the disk: not for threads that
/// serve. `block` is the memory for it, a large one.
pub(crate) fn each_piece(
    path: &Path,
    mut block: Block,
    mut each: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let failed = |source| Error::caused(ErrorKind::Unavailable, format!("read {}", path.display()), source);
    let missing = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => Error::new(ErrorKind::NotFound, "it is missing"),
        _ => failed(source),
    };
    let (mut file, mut is_direct) = match open_direct(path) {
        Ok(file) => (file, true),
        Err(_) => (File::open(path).map_err(missing)?, false),
    };
    let room = block.room();
    let len = room.len().min(ONCE_BYTES);
    let room = room.get_mut(..len).unwrap_or_default();
    let mut at = 0;
    loop {
        match read_at(&file, room, at) {
            Ok(0) => return Ok(()),
            Ok(read) => {
                at += read as u64;
                each(room.get(..read).unwrap_or_default())?;
                // The end of a file lies anywhere, and the next read would have to begin there.
                if is_direct && read % ALIGN_BYTES != 0 {
                    (file, is_direct) = (File::open(path).map_err(failed)?, false);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if is_direct && error.kind() == io::ErrorKind::InvalidInput => {
                (file, is_direct) = (File::open(path).map_err(failed)?, false);
            }
            Err(error) => return Err(failed(error)),
        }
    }
}

/// Bytes that are read at once: twice as many have left the caches before they are hashed.
const ONCE_BYTES: usize = 1024 * 1024;

#[cfg(target_os = "linux")]
fn open_direct(path: &Path) -> io::Result<File> {
    use rustix::fs::{Mode, OFlags};
    Ok(File::from(rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::DIRECT, Mode::empty())?))
}

#[cfg(not(target_os = "linux"))]
fn open_direct(_: &Path) -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Shorter ranges are likely to be requested again.
const BULK_BYTES: u64 = 4 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use futures::TryStreamExt as _;

    use super::*;
    use crate::ids::Digest;
    use crate::ids::XorbKey;

    #[test]
    fn pieces_of_a_file_are_all_of_it_however_long_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for len in
            [0, 1, 4095, 4096, 4097, ONCE_BYTES - 1, ONCE_BYTES, ONCE_BYTES + 4096, 2 * ONCE_BYTES + 17]
        {
            let data = testkit::corpus::noise(1, len);
            std::fs::write(&path, &data).unwrap();
            let mut found = Vec::new();
            each_piece(&path, Blocks::large().take(), |piece| {
                found.extend_from_slice(piece);
                Ok(())
            })
            .unwrap();
            assert!(found == data, "{len}");
        }
        std::fs::remove_file(&path).unwrap();
        assert_eq!(
            each_piece(&path, Blocks::large().take(), |_| Ok(())).unwrap_err().kind(),
            ErrorKind::NotFound
        );
    }

    /// Takes a file out of the page cache, as far as the system listens.
    fn forget(path: &Path) {
        let file = File::open(path).unwrap();
        file.sync_all().unwrap();
        #[cfg(target_os = "linux")]
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    }

    #[tokio::test]
    async fn ranges_read_once_are_right_wherever_their_bytes_are() {
        let folder = tempfile::tempdir().unwrap();
        let objects = Objects::local(folder.path()).unwrap();
        let key =
            ObjectKey::Xorb(XorbKey { hash: xet::XorbHash::new([1; 32]), digest: Digest::new([2; 32]) });
        let missing = objects.stream_once(&key, 0..BULK_BYTES).await.err().unwrap();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
        let len = 3 * BULK_BYTES + 12_345;
        let data = testkit::corpus::noise(1, len as usize);
        objects.put(&key, vec![Bytes::from(data.clone())]).await.unwrap();
        let path = objects.path_of(&key).unwrap();
        for (start, end) in
            [(0, len), (1, BULK_BYTES + 1), (4095, len - 1), (4096, len), (len - BULK_BYTES, len), (7, 9)]
        {
            // Not in memory, then there in part, then there.
            for warm in [0..0, 1_000_000..3_000_000, 0..len] {
                forget(&path);
                let _: Vec<Bytes> =
                    objects.stream(&key, warm.clone()).await.unwrap().try_collect().await.unwrap();
                let read = objects.stream_once(&key, start..end).await.unwrap();
                let read: Vec<Bytes> = read.try_collect().await.unwrap();
                assert!(read.concat() == data[start as usize..end as usize], "{start}..{end}, warm {warm:?}");
            }
        }
        for warm in [0..0, 0..len] {
            forget(&path);
            let _: Vec<Bytes> = objects.stream(&key, warm).await.unwrap().try_collect().await.unwrap();
            let beyond = objects.stream_once(&key, BULK_BYTES..len + 1).await.unwrap();
            let beyond: Result<Vec<Bytes>> = beyond.try_collect().await;
            assert_eq!(beyond.unwrap_err().kind(), ErrorKind::Corrupt);
        }
    }
}
