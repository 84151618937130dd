//! Cache: ranges of xorbs, recipes of files and answers of hubs, on disk, shared by all processes that name
//! the same folder.
//!
//! An entry holds stored chunks of a xorb as they are stored, with the hash of every chunk; it is named by what it holds, so
//! it never becomes wrong. Readers take no lock: files appear by rename and vanish by removal. What is read is checked; an
//! entry that fails is removed and counts as not there. What was not used for longest goes first when the folder is full.

mod answers;
mod entry;
mod evict;
mod recipe;

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use xet::plan::PlanTerm;
use xet::{FileHash, XorbHash};

use crate::error::{Error, Result};
use crate::temp_name;

pub(crate) use entry::{CacheWriter, CachedRange};

/// A folder with chunks. Cheap to share; every method may be called from any thread, and none but [`Cache::open`] fails:
/// a cache that cannot be written or read is one that has nothing.
#[derive(Debug)]
pub struct Cache {
    folder: PathBuf,
    bytes_max: u64,
    /// Bytes in the folder as far as this process knows; counted when it first matters.
    bytes: AtomicU64,
}

impl Cache {
    /// A cache in `folder`, which is made, of at most about `bytes_max` bytes.
    pub fn open(folder: &Path, bytes_max: u64) -> Result<Self> {
        for name in [XORBS, FILES, STAGED] {
            let path = folder.join(name);
            fs::create_dir_all(&path).map_err(|error| Error::io(&path, error))?;
        }
        Ok(Self { folder: folder.to_owned(), bytes_max, bytes: AtomicU64::new(UNCOUNTED) })
    }

    /// Ranges that together hold these chunks, in order and without overlap; `None` when some chunk is in none.
    pub(crate) fn find(&self, xorb: &XorbHash, chunks: Range<u32>) -> Option<Vec<CachedRange>> {
        let folder = self.folder_of(xorb);
        let mut spans: Vec<(Range<u32>, PathBuf)> = fs::read_dir(&folder)
            .ok()?
            .filter_map(|entry| {
                let path = entry.ok()?.path();
                Some((parse_span(path.file_name()?.to_str()?)?, path))
            })
            .collect();
        spans.sort_by_key(|(span, _)| span.start);
        let mut found = Vec::new();
        let mut at = chunks.start;
        while at < chunks.end {
            let reaching =
                spans.iter().filter(|(span, _)| span.contains(&at)).max_by_key(|(span, _)| span.end);
            let (span, path) = reaching.cloned()?;
            let part = at..span.end.min(chunks.end);
            match CachedRange::open(&path, xorb, &span, part.clone()) {
                Some(range) => {
                    found.push(range);
                    at = part.end;
                }
                None => {
                    // Damaged, or gone since: others may have the chunks.
                    let _ = fs::remove_file(&path);
                    spans.retain(|(_, other)| *other != path);
                }
            }
        }
        Some(found)
    }

    /// Whether these chunks are there, by the names of the entries.
    pub(crate) fn has(&self, xorb: &XorbHash, chunks: Range<u32>) -> bool {
        let Ok(entries) = fs::read_dir(self.folder_of(xorb)) else { return false };
        let mut spans: Vec<_> =
            entries.filter_map(|entry| parse_span(entry.ok()?.file_name().to_str()?)).collect();
        spans.sort_by_key(|span| span.start);
        let reached =
            spans.iter().fold(chunks.start, |at, span| if span.contains(&at) { span.end } else { at });
        reached >= chunks.end
    }

    /// Takes stored chunks of these chunks, one after another. `None` where they cannot be stored.
    pub(crate) fn writer(
        self: &std::sync::Arc<Self>,
        xorb: XorbHash,
        chunks: Range<u32>,
    ) -> Option<CacheWriter> {
        CacheWriter::new(self.clone(), xorb, chunks)
    }

    /// How a file is put together, if it was stored.
    pub(crate) fn recipe(&self, file: &FileHash) -> Option<Vec<PlanTerm>> {
        let path = self.recipe_path(file);
        let bytes = fs::read(&path).ok()?;
        let terms = recipe::parse(&bytes);
        match &terms {
            Some(_) => touch(&path),
            None => drop(fs::remove_file(&path)),
        }
        terms
    }

    /// Keeps how a file is put together.
    pub(crate) fn keep_recipe(&self, file: &FileHash, terms: &[PlanTerm]) {
        let bytes = recipe::encode(terms);
        let staged = self.staged();
        let stored = fs::write(&staged, &bytes).and_then(|()| rename(&staged, &self.recipe_path(file)));
        match stored {
            Ok(()) => self.grew(bytes.len() as u64),
            Err(_) => drop(fs::remove_file(&staged)),
        }
    }

    fn folder_of(&self, xorb: &XorbHash) -> PathBuf {
        let name = xorb.to_string();
        self.folder.join(XORBS).join(name.get(..2).unwrap_or_default()).join(name)
    }

    fn recipe_path(&self, file: &FileHash) -> PathBuf {
        let name = file.to_string();
        self.folder.join(FILES).join(name.get(..2).unwrap_or_default()).join(name)
    }

    fn staged(&self) -> PathBuf {
        self.folder.join(STAGED).join(temp_name::unique())
    }

    /// Counts bytes that were added and makes room when there are too many.
    fn grew(&self, bytes: u64) {
        let known = self.bytes.load(Ordering::Relaxed);
        if known != UNCOUNTED && known + bytes <= self.bytes_max {
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
            return;
        }
        self.bytes.store(evict::down_to(&self.folder, self.bytes_max), Ordering::Relaxed);
    }
}

/// Says that a file was used, so that it stays. Not more than once in a while: it costs a write.
fn touch(path: &Path) {
    let old = path.metadata().and_then(|metadata| metadata.modified());
    let is_recent = old.is_ok_and(|old| old.elapsed().is_ok_and(|age| age < TOUCH_AFTER));
    if !is_recent && let Ok(file) = fs::File::open(path) {
        let _ = file.set_modified(SystemTime::now());
    }
}

/// Renames into a folder that may not be there yet.
fn rename(from: &Path, to: &Path) -> std::io::Result<()> {
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::rename(from, to)
}

fn span_name(chunks: &Range<u32>) -> String {
    format!("{}-{}", chunks.start, chunks.end)
}

fn parse_span(name: &str) -> Option<Range<u32>> {
    let (start, end) = name.split_once('-')?;
    let span = start.parse().ok()?..end.parse().ok()?;
    (!span.is_empty()).then_some(span)
}

const XORBS: &str = "xorbs";
const FILES: &str = "files";
const STAGED: &str = "staged";
const UNCOUNTED: u64 = u64::MAX;
const TOUCH_AFTER: std::time::Duration = std::time::Duration::from_secs(10);

#[cfg(test)]
mod tests;
