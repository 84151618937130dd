//! An object on its way in: its bytes are taken as they come, before anyone knows its name.
//!
//! In a folder they go straight into a file beside the place the object will have, so an upload holds a few blocks of
//! memory however long it is. Past the page cache where the system allows it: what was just uploaded was synced anyway,
//! copying it into pages nobody asked for costs more than everything else together, and drives out what is being read.
//! For a bucket they are kept in memory: its parts may not be that small.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::hash::BuildHasher as _;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use xet::XorbHash;

use crate::error::{Error, ErrorKind, Result};
use crate::ids::XorbKey;
use crate::objects::Objects;
use crate::objects::key::{ObjectKey, XORBS};
use crate::objects::local::buffers::{ALIGN_BYTES, Block, Blocks};
use crate::objects::timed::timed;

/// The bytes of a xorb that is not proven yet. Dropped unfinished, it leaves nothing behind.
pub(crate) enum Staged {
    /// For a bucket.
    Memory(Objects, Vec<Bytes>),
    /// In a folder.
    File(StagedFile),
}

impl Staged {
    /// Makes room for a xorb.
    pub(crate) async fn begin(objects: &Objects, hash: XorbHash) -> Result<Self> {
        let Some(folder) = objects.folder.clone() else {
            return Ok(Self::Memory(objects.clone(), Vec::new()));
        };
        let draft = blocking(move || Draft::create(&folder, &hash.to_string())).await?;
        Ok(Self::File(StagedFile { draft: Some(draft), writing: None }))
    }

    /// Takes the next bytes: whole blocks, and after them at most one that is not full.
    pub(crate) async fn push(&mut self, segment: Bytes) -> Result<()> {
        match self {
            Self::Memory(_, segments) => segments.push(segment),
            Self::File(file) => {
                let mut draft = file.idle().await?;
                let write = move || draft.push(segment).map(|()| draft);
                file.writing = Some(tokio::task::spawn_blocking(write));
            }
        }
        Ok(())
    }

    /// Makes an object of the first `stored_bytes` that were pushed, and the footer. When this returns it is durable.
    pub(crate) async fn finish(self, key: XorbKey, stored_bytes: u64, footer: Bytes) -> Result<()> {
        match self {
            Self::Memory(objects, segments) => {
                let mut left = stored_bytes;
                let mut parts = Vec::with_capacity(segments.len() + 1);
                for mut segment in segments {
                    segment.truncate(usize::try_from(left).unwrap_or(usize::MAX));
                    left -= segment.len() as u64;
                    parts.push(segment);
                }
                parts.push(footer);
                objects.put(&ObjectKey::Xorb(key), parts).await
            }
            Self::File(mut file) => {
                let draft = file.idle().await?;
                timed("put", blocking(move || draft.publish(key, stored_bytes, &footer))).await
            }
        }
    }
}

/// The records of a xorb that this process makes, in a file while it makes them: past the page cache, as what arrives. Dropped
/// unfinished, it leaves nothing behind.
pub struct GrowingXorb {
    staged: Staged,
    blocks: Blocks,
    /// What is not with the disk yet.
    block: Block,
    stored_bytes: u64,
    /// Since this nothing was written.
    failed: Option<Error>,
    runtime: Handle,
}

impl fmt::Debug for GrowingXorb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GrowingXorb({} bytes)", self.stored_bytes)
    }
}

impl GrowingXorb {
    /// Opens the file; `None` when objects are not in a folder, or nothing can be written there.
    pub(crate) fn begin(objects: &Objects, runtime: Handle) -> Option<Self> {
        let draft = Draft::create(objects.folder.as_deref()?, NAMELESS).ok()?;
        let staged = Staged::File(StagedFile { draft: Some(draft), writing: None });
        let blocks = objects.large_blocks.clone();
        Some(Self { staged, block: blocks.take(), blocks, stored_bytes: 0, failed: None, runtime })
    }

    /// Appends records. Waits for the disk when it has not taken what came before: not for threads that serve. A failure is
    /// reported when the xorb is published.
    pub fn write(&mut self, mut records: &[u8]) {
        self.stored_bytes += records.len() as u64;
        while !records.is_empty() && self.failed.is_none() {
            let taken = self.block.fill(records);
            records = records.get(taken..).unwrap_or_default();
            if self.block.room().is_empty() {
                let full = std::mem::replace(&mut self.block, self.blocks.take());
                self.failed = self.runtime.block_on(self.staged.push(full.freeze())).err();
            }
        }
    }

    /// Gives up, and gives what was written back; itself, if that cannot be read. Waits for the disk, as [`Self::write`] does.
    pub fn take_back(mut self: Box<Self>) -> std::result::Result<Vec<u8>, Box<Self>> {
        let Staged::File(file) = &mut self.staged else { return Err(self) };
        let draft = match self.runtime.block_on(file.idle()) {
            Ok(draft) => draft,
            Err(error) => {
                self.failed.get_or_insert(error);
                return Err(self);
            }
        };
        let written = fs::read(&draft.path).map(|written| [&written, self.block.as_ref()].concat());
        match written {
            Ok(records) if records.len() as u64 == self.stored_bytes => Ok(records),
            _ => {
                file.draft = Some(draft);
                Err(self)
            }
        }
    }

    /// Bytes that were written.
    pub(crate) fn stored_bytes(&self) -> u64 {
        self.stored_bytes
    }

    /// Makes an object of it. When this returns it is durable.
    pub(crate) async fn finish(self, key: XorbKey, footer: Vec<u8>) -> Result<()> {
        let Self { mut staged, block, stored_bytes, failed, .. } = self;
        if let Some(error) = failed {
            return Err(error);
        }
        if block.len() > 0 {
            staged.push(block.freeze()).await?;
        }
        staged.finish(key, stored_bytes, footer.into()).await
    }
}

/// What a xorb is called in its draft's name before it has a name. Its directory exists anyway.
const NAMELESS: &str = "00";

/// A draft, or the thread that writes to it: at most one block is with it.
pub(crate) struct StagedFile {
    draft: Option<Draft>,
    writing: Option<JoinHandle<io::Result<Draft>>>,
}

impl StagedFile {
    async fn idle(&mut self) -> Result<Draft> {
        if let Some(draft) = self.draft.take() {
            return Ok(draft);
        }
        let gone = || Error::new(ErrorKind::Unavailable, "write an object: an earlier write failed");
        joined(self.writing.take().ok_or_else(gone)?.await)
    }
}

/// A file that is not an object yet. It has the kind of name that listing leaves out.
struct Draft {
    root: PathBuf,
    path: PathBuf,
    blocks: File,
    is_direct: bool,
    /// Where the next bytes go.
    at: u64,
    /// What does not fill a page: the end.
    rest: Bytes,
    is_published: bool,
}

impl Draft {
    /// A draft of `name`, in the folder that xorbs of that name are in.
    fn create(root: &Path, name: &str) -> io::Result<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        // Another process may write the same xorb into the same folder.
        let random = std::hash::RandomState::new();
        let folder = root.join(XORBS).join(name.get(..2).unwrap_or_default());
        make_folder(root, &folder)?;
        loop {
            let number = random.hash_one(NUMBER.fetch_add(1, Ordering::Relaxed));
            let path = folder.join(format!("{name}#{number}"));
            let (blocks, is_direct) = match create_direct(&path) {
                Ok(blocks) => (blocks, true),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                // Some file systems know no direct writes, and some of those leave an empty file behind.
                Err(_) => (File::create(&path)?, false),
            };
            let (root, rest) = (root.to_owned(), Bytes::new());
            return Ok(Self { root, path, blocks, is_direct, at: 0, rest, is_published: false });
        }
    }

    fn push(&mut self, mut segment: Bytes) -> io::Result<()> {
        let even = segment.split_to(segment.len() / ALIGN_BYTES * ALIGN_BYTES);
        self.rest = segment;
        match self.blocks.write_all(&even) {
            Err(error) if self.is_direct && error.kind() == io::ErrorKind::InvalidInput => {
                let mut plain = OpenOptions::new().write(true).open(&self.path)?;
                io::Seek::seek(&mut plain, io::SeekFrom::Start(self.at))?;
                plain.write_all(&even)?;
                (self.blocks, self.is_direct) = (plain, false);
            }
            written => written?,
        }
        self.at += even.len() as u64;
        Ok(())
    }

    /// Writes the end, syncs, and gives the file its name.
    fn publish(mut self, key: XorbKey, stored_bytes: u64, footer: &[u8]) -> io::Result<()> {
        let mut plain = OpenOptions::new().write(true).open(&self.path)?;
        // What came may have a footer of its own, which may have been written already; ours goes over it.
        let rest = usize::try_from(stored_bytes.saturating_sub(self.at)).unwrap_or(usize::MAX);
        let start = stored_bytes.min(self.at);
        io::Seek::seek(&mut plain, io::SeekFrom::Start(start))?;
        plain.write_all(self.rest.get(..rest).ok_or(io::ErrorKind::UnexpectedEof)?)?;
        plain.write_all(footer)?;
        plain.set_len(stored_bytes + footer.len() as u64)?;
        plain.sync_all()?;
        let place = self.root.join(ObjectKey::Xorb(key).to_string());
        let folder = place.parent().unwrap_or(&self.root);
        make_folder(&self.root, folder)?;
        fs::rename(&self.path, &place)?;
        self.is_published = true;
        sync_folder(folder)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.is_published {
            // If the deletion fails nothing more can be done; it is never taken for an object.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(target_os = "linux")]
fn create_direct(path: &Path) -> io::Result<File> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::DIRECT;
    Ok(File::from(rustix::fs::open(path, flags, Mode::from_raw_mode(0o666))?))
}

#[cfg(not(target_os = "linux"))]
fn create_direct(path: &Path) -> io::Result<File> {
    File::create_new(path)
}

/// Makes a folder below the root, and makes it last.
fn make_folder(root: &Path, folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(folder)?;
    for above in folder.ancestors().skip(1) {
        sync_folder(above)?;
        if above == root {
            break;
        }
    }
    Ok(())
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    // Only Unix lets a folder be opened, and only there must it be synced.
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> Result<T> {
    joined(tokio::task::spawn_blocking(work).await)
}

fn joined<T>(done: std::result::Result<io::Result<T>, tokio::task::JoinError>) -> Result<T> {
    let what = "write an object";
    let written = done.map_err(|source| Error::caused(ErrorKind::Internal, what, source))?;
    written.map_err(|source| Error::caused(ErrorKind::Unavailable, what, source))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Digest;
    use crate::objects::local::buffers::BLOCK_BYTES;
    use crate::objects::local::buffers::LARGE_BYTES;

    fn files(folder: &Path) -> Vec<String> {
        let all = fs::read_dir(folder.join("xorbs/07")).unwrap();
        all.map(|file| file.unwrap().file_name().into_string().unwrap()).collect()
    }

    fn hash() -> XorbHash {
        format!("07{}", "1".repeat(62)).parse().unwrap()
    }

    /// Stages `data`, keeps `stored` bytes of it under a footer, and reads the object.
    async fn stage(objects: &Objects, blocks: &Blocks, data: &[u8], stored: usize) -> Vec<u8> {
        let key = XorbKey { hash: hash(), digest: Digest::new([9; 32]) };
        let mut staged = Staged::begin(objects, hash()).await.unwrap();
        for piece in data.chunks(blocks.block_bytes()) {
            let mut block = blocks.take();
            block.fill(piece);
            staged.push(block.freeze()).await.unwrap();
        }
        staged.finish(key, stored as u64, Bytes::from_static(b"footer")).await.unwrap();
        objects.whole(&ObjectKey::Xorb(key)).await.unwrap().to_vec()
    }

    #[tokio::test]
    async fn what_is_staged_in_a_folder_or_for_a_bucket_is_the_same_object() {
        let folder = tempfile::tempdir().unwrap();
        let bucket = std::sync::Arc::new(object_store::memory::InMemory::new());
        for objects in [Objects::local(folder.path()).unwrap(), Objects::new(bucket)] {
            let lens =
                [1, 4095, 4096, 4097, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, 3 * LARGE_BYTES + 77];
            for (len, blocks) in
                lens.into_iter().flat_map(|len| [(len, &objects.blocks), (len, &objects.large_blocks)])
            {
                let data = testkit::corpus::noise(3, len);
                // The footer that came may lie in the last piece, or reach over several.
                for stored in [len, len - len / 3, len / 4] {
                    let expected = [&data[..stored], b"footer"].concat();
                    assert!(stage(&objects, blocks, &data, stored).await == expected, "{len} {stored}");
                }
            }
        }
        assert_eq!(files(folder.path()).len(), 1, "no drafts are left");
    }

    /// Writes from a thread that may wait, as those who make xorbs do.
    async fn written(mut growing: GrowingXorb, data: Vec<u8>) -> GrowingXorb {
        let write = move || {
            data.chunks(777_777).for_each(|piece| growing.write(piece));
            growing
        };
        tokio::task::spawn_blocking(write).await.unwrap()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_xorb_that_grows_has_no_name_until_it_is_finished() {
        for len in [1, 4096, LARGE_BYTES - 1, LARGE_BYTES, LARGE_BYTES + 1, 3 * LARGE_BYTES + 4097] {
            let folder = tempfile::tempdir().unwrap();
            let objects = Objects::local(folder.path()).unwrap();
            let data = testkit::corpus::noise(3, len);
            let growing =
                written(GrowingXorb::begin(&objects, Handle::current()).unwrap(), data.clone()).await;
            assert_eq!(growing.stored_bytes(), len as u64);
            let listed = async || -> Vec<_> {
                futures::StreamExt::collect(objects.list(crate::objects::Folder::Xorbs)).await
            };
            assert!(listed().await.is_empty());
            let key = XorbKey { hash: hash(), digest: Digest::new([9; 32]) };
            growing.finish(key, b"footer".to_vec()).await.unwrap();
            assert_eq!(listed().await.len(), 1);
            assert!(objects.whole(&ObjectKey::Xorb(key)).await.unwrap() == [&data[..], b"footer"].concat());
            assert_eq!(fs::read_dir(folder.path().join("xorbs/00")).unwrap().count(), 0);
        }
        // A bucket has no room for it.
        let bucket = Objects::new(std::sync::Arc::new(object_store::memory::InMemory::new()));
        assert!(GrowingXorb::begin(&bucket, Handle::current()).is_none());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_failed_write_is_reported_at_the_end_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let objects = Objects::local(folder.path()).unwrap();
        let left = || fs::read_dir(folder.path().join("xorbs/00")).unwrap().count();
        let mut growing = GrowingXorb::begin(&objects, Handle::current()).unwrap();
        // Cannot be written to, as a full disk cannot.
        let Staged::File(StagedFile { draft: Some(draft), .. }) = &mut growing.staged else { panic!() };
        draft.blocks = File::open(&draft.path).unwrap();
        let growing = written(growing, testkit::corpus::noise(3, 3 * LARGE_BYTES)).await;
        let key = XorbKey { hash: hash(), digest: Digest::new([9; 32]) };
        let error = growing.finish(key, b"footer".to_vec()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert_eq!(objects.head(&ObjectKey::Xorb(key)).await.unwrap(), None);
        assert_eq!(left(), 0);
        // Given up before its end, or given back.
        let data = testkit::corpus::noise(3, LARGE_BYTES + 77);
        let growing = written(GrowingXorb::begin(&objects, Handle::current()).unwrap(), data.clone()).await;
        let back = tokio::task::spawn_blocking(move || Box::new(growing).take_back()).await.unwrap();
        assert!(back.unwrap() == data);
        assert_eq!(left(), 0);
        drop(GrowingXorb::begin(&objects, Handle::current()).unwrap());
        assert_eq!(left(), 0);
    }

    #[tokio::test]
    async fn what_is_given_up_leaves_nothing_and_is_never_listed() {
        let folder = tempfile::tempdir().unwrap();
        let objects = Objects::local(folder.path()).unwrap();
        let mut staged = Staged::begin(&objects, hash()).await.unwrap();
        let mut block = objects.blocks.take();
        block.fill(&vec![1; BLOCK_BYTES]);
        staged.push(block.freeze()).await.unwrap();
        assert_eq!(files(folder.path()).len(), 1);
        let listed: Vec<_> = futures::StreamExt::collect(objects.list(crate::objects::Folder::Xorbs)).await;
        assert!(listed.is_empty(), "{listed:?}");
        drop(staged);
        // A write that had begun ends first.
        for _ in 0..1000 {
            if files(folder.path()).is_empty() {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        panic!("the draft is still there");
    }
}
