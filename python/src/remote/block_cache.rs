//! Cache of blocks of a remote pack on the local disk. Once fetched, a record is read as from a local file.
//!
//! A pack has a file with holes, and beside it one byte for each block that says whether it is there. Several processes may use
//! and fill them at once. Blocks are named by the content of the file they are of, so they never become wrong; what a crash left
//! wrong is found by the CRCs of records, and fetched again with `on_error="refetch"`.

use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

/// The blocks of one file.
#[derive(Debug)]
pub(super) struct BlockCache {
    data: File,
    marks: File,
    /// Blocks that this process knows to be there.
    seen: Vec<AtomicBool>,
    size: u64,
}

impl BlockCache {
    /// The blocks of a file of that name and size in `folder`, which is limited to `bytes_max`: files that were not written for
    /// longest go first. None where the file alone has more.
    pub(super) fn open(folder: &Path, name: &str, size: u64, bytes_max: u64) -> io::Result<Option<Self>> {
        if size > bytes_max {
            return Ok(None);
        }
        fs::create_dir_all(folder)?;
        let path = folder.join(name);
        make_room(folder, &path, bytes_max - size)?;
        let blocks = size.div_ceil(BLOCK_BYTES);
        let open = |path: &Path, len: u64| -> io::Result<File> {
            let file = File::options().read(true).write(true).create(true).truncate(false).open(path)?;
            if file.metadata()?.len() != len {
                file.set_len(len)?;
            }
            Ok(file)
        };
        let data = open(&path, size)?;
        let marks = open(&path.with_extension("blocks"), blocks)?;
        let seen = (0..blocks).map(|_| AtomicBool::new(false)).collect();
        Ok(Some(Self { data, marks, seen, size }))
    }

    /// Ranges to fetch before `range` can be read, in whole blocks.
    pub(super) fn missing(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let mut gaps: Vec<Range<u64>> = Vec::new();
        for block in range.start / BLOCK_BYTES..range.end.div_ceil(BLOCK_BYTES) {
            if self.has(block) {
                continue;
            }
            let (start, end) = (block * BLOCK_BYTES, ((block + 1) * BLOCK_BYTES).min(self.size));
            match gaps.last_mut() {
                Some(gap) if gap.end == start => gap.end = end,
                _ => gaps.push(start..end),
            }
        }
        gaps
    }

    fn has(&self, block: u64) -> bool {
        let Some(seen) = usize::try_from(block).ok().and_then(|block| self.seen.get(block)) else {
            return false;
        };
        if seen.load(Ordering::Relaxed) {
            return true;
        }
        // Another process may have fetched it.
        let mut mark = [0];
        let is_there = self.marks.read_exact_at(&mut mark, block).is_ok() && mark == [1];
        seen.store(is_there, Ordering::Relaxed);
        is_there
    }

    /// Writes whole blocks, from the beginning of the first.
    pub(super) fn write(&self, start: u64, bytes: &[u8]) -> io::Result<()> {
        self.data.write_all_at(bytes, start)?;
        let end = start + bytes.len() as u64;
        for block in start / BLOCK_BYTES..end.div_ceil(BLOCK_BYTES) {
            self.marks.write_all_at(&[1], block)?;
        }
        Ok(())
    }

    pub(super) fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.data.read_exact_at(buffer, offset)
    }

    /// The whole blocks that `range` lies in.
    pub(super) fn blocks_of(&self, range: &Range<u64>) -> Range<u64> {
        range.start / BLOCK_BYTES * BLOCK_BYTES
            ..(range.end.div_ceil(BLOCK_BYTES) * BLOCK_BYTES).min(self.size)
    }
}

/// Removes other files until those that are left take at most that many bytes of the disk.
fn make_room(folder: &Path, except: &Path, bytes_max: u64) -> io::Result<()> {
    let mut files: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
    for entry in fs::read_dir(folder)? {
        let (entry, is_marks) = entry.map(|entry| (entry.path(), entry.path().extension().is_some()))?;
        if is_marks || entry == except {
            continue;
        }
        // Gone since, perhaps: another process makes room too.
        if let Ok(found) = entry.metadata() {
            files.push((found.modified()?, found.blocks() * 512, entry));
        }
    }
    files.sort();
    let mut bytes: u64 = files.iter().map(|(_, bytes, _)| bytes).sum();
    for (_, freed, path) in files {
        if bytes <= bytes_max {
            break;
        }
        bytes -= freed;
        // Marks first: without them, what is left of the data counts as not there.
        for path in [path.with_extension("blocks"), path] {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
    }
    Ok(())
}

/// Smallest fetch: some records of pictures, many of text.
const BLOCK_BYTES: u64 = 256 << 10;
