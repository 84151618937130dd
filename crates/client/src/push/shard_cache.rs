//! Shards on disk that remember what the other side has: its answers, and the xorbs it acknowledged.
//!
//! A cache: whatever is wrong with it costs time, never a push. Files are written whole under another name first.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use xet::HashKey;
use xet::ShardHash;
use xet::limits::SHARD_BYTES_MAX;
use xet::shard::{Footing, Form, Shard, ShardBuilder, TableChoice, XorbEntry};

/// Hands every shard that has not expired to `each`, the newest first, until so many bytes were read. The rest is
/// deleted: what has expired, what is too much, and what is no shard.
pub(super) fn load(folder: &Path, bytes_max: u64, mut each: impl FnMut(Shard)) {
    let mut files = files(folder);
    files.sort_by_key(|file| std::cmp::Reverse(file.modified));
    let now_s = unix_s(SystemTime::now());
    let mut left = bytes_max;
    for file in files {
        let shard = match file.bytes <= left.min(SHARD_BYTES_MAX) {
            true => fs::read(&file.path).ok().and_then(|bytes| Shard::parse_stored(&bytes).ok()),
            false => None,
        };
        match shard.filter(|shard| shard.footer.as_ref().is_some_and(|footer| !footer.is_expired(now_s))) {
            Some(shard) => {
                left -= file.bytes;
                each(shard);
            }
            None => drop(fs::remove_file(&file.path)),
        }
    }
}

/// Keeps an answer of the other side.
pub(super) fn keep(folder: &Path, shard: &[u8]) {
    let _ = write(folder, shard);
}

/// Notes that the other side has these xorbs, and forgets the notes in `instead_of`. Where the note went, if it did.
pub(super) fn note(folder: &Path, xorbs: Vec<XorbEntry>, instead_of: &[PathBuf]) -> Option<PathBuf> {
    let mut builder = ShardBuilder::default();
    for xorb in xorbs {
        builder.push_xorb(xorb);
    }
    let now = SystemTime::now();
    let footing = Footing {
        tables: TableChoice::NONE,
        key: HashKey::ZERO,
        created_s: unix_s(now),
        expires_s: unix_s(now + NOTE_LIFETIME),
    };
    let bytes = builder.encode(&Form::Stored(footing)).ok()?;
    let path = write(folder, &bytes).ok()?;
    for old in instead_of.iter().filter(|old| **old != path) {
        let _ = fs::remove_file(old);
    }
    Some(path)
}

/// Deletes everything: it was wrong.
pub(super) fn forget(folder: &Path) {
    for file in files(folder) {
        let _ = fs::remove_file(file.path);
    }
}

struct CacheFile {
    path: PathBuf,
    bytes: u64,
    modified: SystemTime,
}

fn files(folder: &Path) -> Vec<CacheFile> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let file = |entry: io::Result<fs::DirEntry>| {
        let entry = entry.ok()?;
        let path = entry.path();
        let metadata = entry.metadata().ok()?;
        let is_ours = path.extension().is_some_and(|extension| extension == EXTENSION) && metadata.is_file();
        let modified = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        is_ours.then_some(CacheFile { path, bytes: metadata.len(), modified })
    };
    entries.filter_map(file).collect()
}

fn write(folder: &Path, shard: &[u8]) -> io::Result<PathBuf> {
    fs::create_dir_all(folder)?;
    let name = ShardHash::of(shard).to_string();
    let draft = folder.join(format!(".{name}.{}", std::process::id()));
    let path = folder.join(format!("{name}.{EXTENSION}"));
    fs::write(&draft, shard)?;
    fs::rename(&draft, &path)?;
    Ok(path)
}

fn unix_s(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

const EXTENSION: &str = "mdb";
/// Xorbs that no file refers to are swept one day, so a note of them is not believed for ever.
const NOTE_LIFETIME: Duration = Duration::from_secs(14 * 24 * 3600);

#[cfg(test)]
mod tests {
    use xet::shard::ChunkEntry;
    use xet::{ChunkHash, XorbHash};

    use super::*;

    fn xorb(n: u8) -> XorbEntry {
        let chunk = ChunkEntry { hash: ChunkHash::of(&[n]), raw_start: 0, raw_bytes: 1, flags: 0 };
        XorbEntry {
            hash: XorbHash::new([n; 32]),
            flags: 0,
            raw_bytes: 1,
            stored_bytes: 9,
            chunks: vec![chunk],
        }
    }

    fn loaded(folder: &Path, bytes_max: u64) -> Vec<XorbHash> {
        let mut found = Vec::new();
        load(folder, bytes_max, |shard| found.extend(shard.xorbs.iter().map(|xorb| xorb.hash)));
        found.sort();
        found
    }

    #[test]
    fn notes_are_found_again_and_merged_ones_replace_the_small() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("made/when/needed");
        assert!(loaded(&folder, 1 << 20).is_empty());
        let small: Vec<_> = (1..4).map(|n| note(&folder, vec![xorb(n)], &[]).unwrap()).collect();
        let all: Vec<_> = (1..4).map(|n| xorb(n).hash).collect();
        assert_eq!(loaded(&folder, 1 << 20), all);
        note(&folder, (1..4).map(xorb).collect(), &small).unwrap();
        assert_eq!(loaded(&folder, 1 << 20), all);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        forget(&folder);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    }

    #[test]
    fn what_has_expired_is_damaged_or_too_much_is_deleted() {
        let dir = tempfile::tempdir().unwrap();
        let old = Footing { tables: TableChoice::NONE, key: HashKey::ZERO, created_s: 0, expires_s: 1 };
        let mut builder = ShardBuilder::default();
        builder.push_xorb(xorb(1));
        keep(dir.path(), &builder.encode(&Form::Stored(old)).unwrap());
        fs::write(dir.path().join("broken.mdb"), b"no shard").unwrap();
        fs::write(dir.path().join("other"), b"not ours").unwrap();
        note(dir.path(), vec![xorb(2)], &[]).unwrap();
        assert_eq!(loaded(dir.path(), 1 << 20), [xorb(2).hash]);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
        assert_eq!(loaded(dir.path(), 10), []);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "only what is not ours is left");
    }
}
