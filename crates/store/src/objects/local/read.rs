//! Objects as streams: large pieces of local files, and a check that all of a range came.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use futures::future::TryFutureExt as _;
use futures::stream::{self, BoxStream, StreamExt as _, TryStreamExt as _};

use crate::error::{Error, ErrorKind, Result};
use crate::objects::Objects;
use crate::objects::key::ObjectKey;
use crate::objects::local::buffers::{Block, Blocks};

/// An object that was found. As long as this is there it can be read, also when it was deleted meanwhile from a folder.
#[derive(Debug, Clone)]
pub struct ObjectReader {
    key: ObjectKey,
    total_bytes: u64,
    /// `None` for what is not in a folder.
    file: Option<Arc<File>>,
    objects: Objects,
}

impl ObjectReader {
    /// How long the object is.
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// The bytes of a range, as [`Objects::stream`] gives them.
    pub fn stream(&self, range: Range<u64>) -> BoxStream<'static, Result<Bytes>> {
        let Some(opened) = self.file.clone() else {
            let (objects, key) = (self.objects.clone(), self.key);
            return async move { objects.stream(&key, range).await }.try_flatten_stream().boxed();
        };
        let key = self.key.to_string();
        whole(key.clone(), range.clone(), file(key, opened, range, self.objects.blocks.clone()))
    }

    /// The file, for what is in a folder.
    pub(crate) fn into_file(self) -> Option<Arc<File>> {
        self.file
    }
}

/// A requested range of an object: here, or in a file that is read where its bytes are needed.
pub(crate) enum Positioned {
    Here(Bytes),
    File { file: Arc<File>, range: Range<u64> },
}

impl Positioned {
    /// The bytes. May wait for a disk: not for threads that serve.
    pub(crate) fn read(self, key: &ObjectKey) -> Result<Bytes> {
        use std::os::unix::fs::FileExt as _;
        let (file, range) = match self {
            Self::Here(bytes) => return Ok(bytes),
            Self::File { file, range } => (file, range),
        };
        let len = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(usize::MAX);
        let mut bytes = vec![0; len];
        file.read_exact_at(&mut bytes, range.start).map_err(|source| match source.kind() {
            io::ErrorKind::UnexpectedEof => {
                Error::new(ErrorKind::Corrupt, format!("read {key}: {range:?}: the object is too short"))
            }
            _ => Error::caused(ErrorKind::Unavailable, format!("read {key}"), source),
        })?;
        Ok(bytes.into())
    }
}

impl Objects {
    /// Where the file of an object is, or would be; `None` for what is not in a folder.
    pub(crate) fn path_of(&self, key: &ObjectKey) -> Option<PathBuf> {
        Some(self.folder.as_ref()?.join(key.to_string()))
    }

    /// A range, which must lie in the object, to be read where CPU work is done. A file is only opened.
    pub(crate) async fn positioned(&self, key: &ObjectKey, range: Range<u64>) -> Result<Positioned> {
        if self.folder.is_none() {
            return Ok(Positioned::Here(self.range(key, range).await?));
        }
        let missing = || Error::new(ErrorKind::NotFound, format!("read {key}: it is not there"));
        let file = self.reader(key).await?.and_then(|reader| reader.file).ok_or_else(missing)?;
        Ok(Positioned::File { file, range })
    }
}

pub(crate) async fn reader(objects: &Objects, key: &ObjectKey) -> Result<Option<ObjectReader>> {
    let found = |total_bytes, file| ObjectReader { key: *key, total_bytes, file, objects: objects.clone() };
    let Some(folder) = &objects.folder else {
        return Ok(objects.head(key).await?.map(|total_bytes| found(total_bytes, None)));
    };
    let path = folder.join(key.to_string());
    let opened = match open_now(&path) {
        Some(opened) => opened,
        None => {
            let opened = tokio::task::spawn_blocking(move || open(&path)).await;
            opened.map_err(|source| Error::caused(ErrorKind::Internal, format!("open {key}"), source))?
        }
    };
    match opened {
        Ok((file, total_bytes)) => Ok(Some(found(total_bytes, Some(file.into())))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::caused(ErrorKind::Unavailable, format!("open {key}"), source)),
    }
}

fn open(path: &Path) -> io::Result<(File, u64)> {
    let file = File::open(path)?;
    let bytes = file.metadata()?.len();
    Ok((file, bytes))
}

/// Opens what the system need not look for on a disk; `None` for what it must.
#[cfg(target_os = "linux")]
fn open_now(path: &Path) -> Option<io::Result<(File, u64)>> {
    use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = File::from(openat2(CWD, path, flags, Mode::empty(), ResolveFlags::CACHED).ok()?);
    Some(file.metadata().map(|meta| (file, meta.len())))
}

#[cfg(not(target_os = "linux"))]
fn open_now(_: &Path) -> Option<io::Result<(File, u64)>> {
    None
}

/// A range of a file. The file is read while the stream is polled, one block at a time.
pub(crate) fn file(
    key: String,
    file: Arc<File>,
    range: Range<u64>,
    blocks: Blocks,
) -> BoxStream<'static, Result<Bytes>> {
    let pieces = stream::try_unfold(range, move |range| {
        let (file, blocks, key) = (file.clone(), blocks.clone(), key.clone());
        async move {
            if range.is_empty() {
                return Ok(None);
            }
            let failed = || format!("read {key}");
            let piece = match fill_now(&file, blocks.take(), &range) {
                Filled::Now(block) => block.freeze(),
                Filled::Later(block) => {
                    let later = range.clone();
                    let read = tokio::task::spawn_blocking(move || fill(&file, block, &later))
                        .await
                        .map_err(|source| Error::caused(ErrorKind::Internal, failed(), source))?;
                    read.map_err(|source| Error::caused(ErrorKind::Unavailable, failed(), source))?.freeze()
                }
            };
            // The file was truncated since it was opened: the caller, which counts the bytes, reports it.
            let end = if piece.is_empty() { range.start } else { range.end };
            let rest = range.start + piece.len() as u64..end;
            Ok(Some((piece, rest)))
        }
    });
    pieces.boxed()
}

/// What came of reading without waiting.
pub(crate) enum Filled {
    Now(Block),
    Later(Block),
}

/// Reads what the system has in memory: going to another thread and back would cost more than copying it.
#[cfg(target_os = "linux")]
pub(crate) fn fill_now(file: &File, mut block: Block, range: &Range<u64>) -> Filled {
    use rustix::io::{ReadWriteFlags, preadv2};
    let mut room = [io::IoSliceMut::new(room_for(&mut block, range))];
    match preadv2(file, &mut room, range.start, ReadWriteFlags::NOWAIT) {
        Ok(read) if read > 0 => {
            block.filled(read);
            Filled::Now(block)
        }
        // Not in memory, at the end, not known here, or broken: the thread that may wait finds out.
        _ => Filled::Later(block),
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn fill_now(_: &File, block: Block, _: &Range<u64>) -> Filled {
    Filled::Later(block)
}

/// Reads a block of the range, or what is left of it.
pub(crate) fn fill(file: &File, mut block: Block, range: &Range<u64>) -> io::Result<Block> {
    advise_read(file, range);
    loop {
        let at = range.start + block.len() as u64;
        let room = room_for(&mut block, &(at..range.end));
        if room.is_empty() {
            return Ok(block);
        }
        match read_at(file, room, at) {
            Ok(0) => return Ok(block),
            Ok(read) => block.filled(read),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Tells the system what comes next of a range that is not in memory. By itself it reads ahead in steps that cost five times the
/// CPU time and twice the time: 2 GiB took 2.2 to 3.2 and now 0.5 CPU seconds.
fn advise_read(file: &File, range: &Range<u64>) {
    #[cfg(target_os = "linux")]
    {
        let wanted = AHEAD_BYTES.min(range.end.saturating_sub(range.start));
        // Advice: without it all is as it was.
        let _ = rustix::fs::fadvise(file, range.start, wanted.try_into().ok(), rustix::fs::Advice::WillNeed);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (file, range);
}

/// Bytes per request.
#[cfg(target_os = "linux")]
const AHEAD_BYTES: u64 = 4 * 1024 * 1024;

fn room_for<'a>(block: &'a mut Block, range: &Range<u64>) -> &'a mut [u8] {
    let wanted = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(usize::MAX);
    let room = block.room();
    let len = room.len().min(wanted);
    room.get_mut(..len).unwrap_or_default()
}

#[cfg(unix)]
pub(crate) fn read_at(file: &File, room: &mut [u8], at: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, room, at)
}

#[cfg(windows)]
pub(crate) fn read_at(file: &File, room: &mut [u8], at: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, room, at)
}

/// The pieces of a range, and an error where they end too early.
pub(crate) fn whole(
    key: String,
    range: Range<u64>,
    pieces: BoxStream<'static, Result<Bytes>>,
) -> BoxStream<'static, Result<Bytes>> {
    let wanted = range.end - range.start;
    let counted = stream::try_unfold((pieces, wanted, key), move |(mut pieces, left, key)| {
        let range = range.clone();
        async move {
            let short = || Error::new(ErrorKind::Corrupt, format!("read {key}: {range:?} passes its end"));
            match pieces.try_next().await? {
                Some(piece) => {
                    let left = left.checked_sub(piece.len() as u64).ok_or_else(short)?;
                    Ok(Some((piece, (pieces, left, key))))
                }
                None if left == 0 => Ok(None),
                None => Err(short()),
            }
        }
    });
    counted.boxed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Digest;
    use crate::ids::XorbKey;

    #[tokio::test]
    async fn every_range_reads_as_it_was_stored() {
        let folder = tempfile::tempdir().unwrap();
        let objects = Objects::local(folder.path()).unwrap();
        let key =
            ObjectKey::Xorb(XorbKey { hash: xet::XorbHash::new([1; 32]), digest: Digest::new([2; 32]) });
        let data = testkit::corpus::noise(1, 3_000_001);
        objects.put(&key, vec![Bytes::from(data.clone())]).await.unwrap();
        for pass in 0..2 {
            let reader = objects.reader(&key).await.unwrap().unwrap();
            assert_eq!(reader.total_bytes(), 3_000_001);
            for (start, end) in
                [(0, 3_000_001), (1, 2_000_000), (4095, 1_500_003), (2_999_999, 3_000_001), (7, 9)]
            {
                let pieces: Vec<Bytes> = reader.stream(start..end).try_collect().await.unwrap();
                let expected = &data[start as usize..end as usize];
                assert!(pieces.concat() == expected, "pass {pass}: {start}..{end}");
            }
            // A range that passes the end breaks off.
            let beyond: Result<Vec<Bytes>> = reader.stream(1_000_000..3_000_002).try_collect().await;
            assert_eq!(beyond.unwrap_err().kind(), ErrorKind::Corrupt);
        }
        let other = ObjectKey::Shard(xet::ShardHash::ZERO);
        assert!(objects.reader(&other).await.unwrap().is_none());
    }
}
