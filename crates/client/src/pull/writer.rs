//! Writer: a file grows under a temporary name and is renamed when its hash is right.
//!
//! A large file grows as `NAME.part` with a [journal](super::journal) beside it, and a later pull goes on with both. Small files are
//! staged in one folder, verified there and renamed together. Until then whatever lies at the target stays as it is.

mod leftovers;
mod staging;
mod written_ranges;

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock};

use sha2::Digest as _;
use xet::{ChunkHash, FileHash, Sha256};

use super::decoder::Sink;
use super::journal::{Journal, OpenJournal, Run, is_still_at};
use crate::chunk::Chunk;
use crate::error::{Error, ErrorKind, Result};

pub(crate) use leftovers::remove_leftover;
pub(crate) use staging::StagingDir;
pub(super) use written_ranges::WrittenRanges;

/// A file that grows.
#[derive(Debug)]
pub(super) struct PartFile {
    file: FileHash,
    target: PathBuf,
    path: PathBuf,
    place: TempPath,
    state: Mutex<WriteState>,
    expected: OnceLock<Expected>,
    /// Temporary files of killed pulls that opening it removed or wrote over.
    leftovers: u64,
}

#[derive(Debug)]
enum TempPath {
    /// A file of its own that stays open, with a journal if a later pull may go on.
    Open { file: File, journal: Option<(PathBuf, Mutex<Journal>)> },
    /// One of many: opened for each write, of which most files need one.
    Staged,
}

#[derive(Debug, Default)]
struct WriteState {
    runs: WrittenRanges,
    /// The first thing that went wrong with the disk. Others who share a fetch are not bothered by it.
    error: Option<Error>,
}

/// The chunks a file must have: where each begins, and its hash.
#[derive(Debug, Clone)]
pub(super) struct Expected(Vec<(u64, ChunkHash)>);

impl Expected {
    pub(super) fn new(chunks: &[(ChunkHash, u32)]) -> Self {
        let mut at = 0;
        Self(
            chunks
                .iter()
                .map(|(hash, bytes)| {
                    at += u64::from(*bytes);
                    (at - u64::from(*bytes), *hash)
                })
                .collect(),
        )
    }

    /// Refuses chunks that are not in the list.
    pub(super) fn check(&self, file: FileHash, at: u64, chunks: &[Chunk]) -> Result<()> {
        let mut start = at;
        for chunk in chunks {
            if !self.has(start, chunk.hash) {
                let message = format!("file {file}: a chunk at byte {start} is not the one it should be");
                return Err(Error::new(ErrorKind::Corrupt, message));
            }
            start += u64::from(chunk.bytes);
        }
        Ok(())
    }

    fn has(&self, at: u64, hash: ChunkHash) -> bool {
        let place = self.0.binary_search_by_key(&at, |(at, _)| *at);
        place.is_ok_and(|place| self.0.get(place).is_some_and(|(_, expected)| *expected == hash))
    }
}

impl PartFile {
    /// Opens `NAME.part` of a target and returns what its journal claims is there. Where another pull holds it, takes a name of its own.
    pub(super) fn open(file_hash: FileHash, target: PathBuf) -> Result<(Self, Vec<Run>)> {
        let named = |error| Error::io(&target, error);
        if let Some(parent) = target.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            fs::create_dir_all(parent).map_err(named)?;
        }
        let path = with_suffix(&target, ".part");
        let journal_path = Journal::path_of(&path);
        // Without a journal it is a file of the user.
        let opened = match path.exists() && !journal_path.exists() {
            true => None,
            false => {
                Journal::open(&journal_path, file_hash).map_err(|error| Error::io(&journal_path, error))?
            }
        };
        let abandoned = leftovers::remove_abandoned(&target);
        let Some(OpenJournal { journal, claims }) = opened else {
            let (path, file) = leftovers::create_own(&target).map_err(named)?;
            let mut part = Self::new(file_hash, target, path, TempPath::Open { file, journal: None });
            part.leftovers = abandoned;
            return Ok((part, Vec::new()));
        };
        let is_useless = claims.is_empty() && path.exists();
        let file =
            File::options().read(true).write(true).create(true).truncate(claims.is_empty()).open(&path);
        let file = file.map_err(|error| Error::io(&path, error))?;
        let place = TempPath::Open { file, journal: Some((journal_path, Mutex::new(journal))) };
        let mut part = Self::new(file_hash, target, path, place);
        part.leftovers = abandoned + u64::from(is_useless);
        Ok((part, claims))
    }

    /// Path of the finished file.
    pub(super) fn target(&self) -> &Path {
        &self.target
    }

    /// Temporary files of killed pulls that opening it removed or wrote over.
    pub(super) fn leftovers(&self) -> u64 {
        self.leftovers
    }

    /// One of many small files.
    pub(super) fn staged(file: FileHash, target: PathBuf, stage: &StagingDir) -> Self {
        Self::new(file, target, stage.next(), TempPath::Staged)
    }

    fn new(file: FileHash, target: PathBuf, path: PathBuf, place: TempPath) -> Self {
        Self { file, target, path, place, state: Mutex::default(), expected: OnceLock::new(), leftovers: 0 }
    }

    /// From now on refuses chunks that are not in the list. Only the first list counts.
    pub(super) fn expect(&self, expected: Expected) {
        let _ = self.expected.set(expected);
    }

    /// Makes room up to `end`. Blocks that are reserved at once are cheaper to write, and a full disk shows early.
    pub(super) fn reserve(&self, end: u64) -> Result<()> {
        let TempPath::Open { file, .. } = &self.place else { return Ok(()) };
        reserve(file, end).map_err(|error| Error::io(&self.path, error))
    }

    /// Reads claimed chunks and keeps those that are right; returns how many bytes.
    pub(super) fn verify(&self, claim: &Run) -> Result<u64> {
        let TempPath::Open { file, .. } = &self.place else { return Ok(0) };
        let mut buffer = Vec::new();
        let mut at = claim.at;
        let mut good = Run { at, chunks: Vec::new() };
        let mut found = Vec::new();
        for chunk in &claim.chunks {
            buffer.resize(chunk.bytes as usize, 0);
            let is_there = match read_exact_at(file, &mut buffer, at) {
                Ok(()) => ChunkHash::of(&buffer) == chunk.hash,
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => false,
                Err(error) => return Err(Error::io(&self.path, error)),
            };
            at += u64::from(chunk.bytes);
            match is_there {
                true => good.chunks.push(*chunk),
                false => found.push(std::mem::replace(&mut good, Run { at, chunks: Vec::new() })),
            }
        }
        found.push(good);
        let mut locked = self.lock();
        let mut bytes = 0;
        for run in found.into_iter().filter(|run| !run.chunks.is_empty()) {
            locked.runs.push(run.at, &run.chunks);
            bytes += run.end() - run.at;
        }
        Ok(bytes)
    }

    /// Forgets chunks that are not in the list.
    pub(super) fn keep_only(&self, expected: &Expected) {
        self.lock().runs.retain(|at, chunk| expected.has(at, chunk.hash));
    }

    /// Ranges of the bytes up to `size` that are not written yet.
    pub(super) fn missing(&self, size: u64) -> Vec<Range<u64>> {
        self.lock().runs.missing(size)
    }

    /// Whether what is there is the file, all `size` bytes of it.
    pub(super) fn is_right(&self, size: u64) -> bool {
        self.lock().runs.file_hash(size) == Some(self.file)
    }

    /// Forgets everything that was written.
    pub(super) fn forget(&self) -> Result<()> {
        self.lock().runs = WrittenRanges::default();
        match &self.place {
            TempPath::Open { journal: Some((path, journal)), .. } => {
                journal.lock().expect(NO_PANIC).clear().map_err(|error| Error::io(path, error))
            }
            TempPath::Open { .. } => Ok(()),
            // What was wrong may have been longer, too.
            TempPath::Staged => drop_file(&self.path).map_err(|error| Error::io(&self.path, error)),
        }
    }

    /// The first thing that went wrong with the disk.
    pub(super) fn take_error(&self) -> Option<Error> {
        self.lock().error.take()
    }

    pub(super) fn has_failed(&self) -> bool {
        self.lock().error.is_some()
    }

    /// Compares the digest of the written file.
    pub(super) fn check_sha256(&self, expected: Sha256) -> Result<()> {
        let named = |error| Error::io(&self.path, error);
        let mut digest = sha2::Sha256::new();
        let mut file = File::open(&self.path).map_err(named)?;
        let mut buffer = vec![0; 256 * 1024];
        loop {
            match io::Read::read(&mut file, &mut buffer).map_err(named)? {
                0 => break,
                bytes => digest.update(&buffer[..bytes]),
            }
        }
        let found = Sha256::new(digest.finalize().into());
        if found == expected {
            return Ok(());
        }
        let target = self.target.display();
        let message = format!(
            "{target}: the hub's file has SHA-256 {found}, not {expected}; ask its owner which is right"
        );
        Err(Error::new(ErrorKind::Invalid, message))
    }

    /// Gives the file its length and makes it durable.
    pub(super) fn finalize(&self, size: u64, sync: bool) -> Result<()> {
        let named = |error| Error::io(&self.path, error);
        match &self.place {
            TempPath::Open { file, .. } => {
                file.set_len(size).map_err(named)?;
                if let Ok(metadata) = self.target.metadata() {
                    file.set_permissions(metadata.permissions()).map_err(named)?;
                }
                if sync { file.sync_all().map_err(named) } else { Ok(()) }
            }
            TempPath::Staged if size == 0 => File::create(&self.path).map(|_| ()).map_err(named),
            TempPath::Staged => Ok(()),
        }
    }

    /// Renames the file to its target and replaces an older one.
    pub(super) fn rename(&self, sync: bool) -> Result<()> {
        if let TempPath::Open { file, .. } = &self.place
            && !is_still_at(file, &self.path)
        {
            let message = format!("{}: another file took its place; pull again", self.path.display());
            return Err(Error::new(ErrorKind::Io, message));
        }
        let moved = match fs::rename(&self.path, &self.target) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let parent = self.target.parent().unwrap_or(Path::new("."));
                fs::create_dir_all(parent).and_then(|()| fs::rename(&self.path, &self.target))
            }
            moved => moved,
        };
        moved.map_err(|error| Error::io(&self.target, error))?;
        if let TempPath::Open { journal, .. } = &self.place {
            if let Some((path, _)) = journal {
                // Nothing depends on its absence: it claims chunks of a file that was renamed.
                let _ = fs::remove_file(path);
            }
            if sync {
                sync_folder_of(&self.target)?;
            }
        }
        Ok(())
    }

    /// Gives the file its length, compares its digest where that is known, and gives it its name.
    pub(super) fn finish(&self, size: u64, sync: bool, sha256: Option<Sha256>) -> Result<()> {
        self.finalize(size, sync)?;
        sha256.map_or(Ok(()), |sha256| self.check_sha256(sha256))?;
        self.rename(sync)
    }

    /// Whether this is one of many small files.
    pub(super) fn is_staged(&self) -> bool {
        matches!(self.place, TempPath::Staged)
    }

    fn write_at(&self, at: u64, raw: &[u8], chunks: &[Chunk]) -> io::Result<()> {
        match &self.place {
            TempPath::Open { file, journal } => {
                write_all_at(file, raw, at)?;
                match journal {
                    Some((_, journal)) => journal.lock().expect(NO_PANIC).push(at, chunks),
                    None => Ok(()),
                }
            }
            TempPath::Staged if at == 0 => {
                let mut file = File::options().write(true).create(true).truncate(false).open(&self.path)?;
                file.write_all(raw)
            }
            TempPath::Staged => {
                let file = File::options().write(true).create(true).truncate(false).open(&self.path)?;
                write_all_at(&file, raw, at)
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, WriteState> {
        self.state.lock().expect(NO_PANIC)
    }
}

impl Drop for PartFile {
    /// Removes a file that no later pull could resume. A part that was renamed is not there any more, and a stage goes as a whole.
    fn drop(&mut self) {
        if matches!(self.place, TempPath::Open { journal: None, .. }) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Files that are pulled together.
impl Sink for Vec<PartFile> {
    fn write(&self, file: usize, at: u64, raw: &[u8], chunks: &[Chunk]) -> Result<()> {
        let Some(part) = self.get(file) else { return Ok(()) };
        if let Some(expected) = part.expected.get() {
            expected.check(part.file, at, chunks)?;
        }
        if part.has_failed() {
            return Ok(());
        }
        let written = part.write_at(at, raw, chunks);
        let mut state = part.lock();
        match written {
            Ok(()) => state.runs.push(at, chunks),
            Err(error) => state.error = Some(Error::io(&part.path, error)),
        }
        Ok(())
    }

    fn reserve(&self, file: usize, end: u64) {
        if let Some(part) = self.get(file)
            && let Err(error) = part.reserve(end)
        {
            part.lock().error = Some(error);
        }
    }
}

fn drop_file(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn sync_folder_of(path: &Path) -> Result<()> {
    if cfg!(not(unix)) {
        return Ok(());
    }
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(|error| Error::io(folder, error))
}

#[cfg(target_os = "linux")]
fn reserve(file: &File, end: u64) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    match fallocate(file, FallocateFlags::KEEP_SIZE, 0, end) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::NOSPC) => Err(rustix::io::Errno::NOSPC.into()),
        // Some file systems cannot, and none needs to.
        Err(_) => Ok(()),
    }
}

#[cfg(not(target_os = "linux"))]
fn reserve(_: &File, _: u64) -> io::Result<()> {
    Ok(())
}

#[cfg(unix)]
fn write_all_at(file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, at)
}

#[cfg(unix)]
pub(super) fn read_exact_at(file: &File, buffer: &mut [u8], at: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, buffer, at)
}

#[cfg(windows)]
fn write_all_at(file: &File, mut bytes: &[u8], mut at: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        let written = std::os::windows::fs::FileExt::seek_write(file, bytes, at)?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        bytes = &bytes[written..];
        at += written as u64;
    }
    Ok(())
}

#[cfg(windows)]
pub(super) fn read_exact_at(file: &File, mut buffer: &mut [u8], mut at: u64) -> io::Result<()> {
    while !buffer.is_empty() {
        let read = std::os::windows::fs::FileExt::seek_read(file, buffer, at)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        buffer = &mut buffer[read..];
        at += read as u64;
    }
    Ok(())
}

const NO_PANIC: &str = "no thread panics while it holds the lock";

#[cfg(test)]
mod tests;
