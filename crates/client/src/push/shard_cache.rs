//! Shard cache on disk: dedup responses of the server, and the xorbs it acknowledged.
//!
//! A cache: whatever is wrong with it costs time, never a push. Files are written whole under another name first.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use xet::HashKey;
use xet::ShardHash;
use xet::limits::SHARD_BYTES_MAX;
use xet::shard::{Footer, Form, LookupTables, Shard, ShardBuilder, ShardView, StoredOptions, XorbEntry};

/// The shards that have not expired, the newest first, as far as they have at most `bytes_max` bytes together. The rest is
/// deleted: shards that have expired, those over the limit, and files that are no shards. Many small shards become one file.
pub(super) fn load(folder: &Path, bytes_max: u64) -> Vec<ShardView<Vec<u8>>> {
    let mut files = files(folder);
    files.sort_by_key(|file| std::cmp::Reverse(file.modified));
    let now_s = unix_s(SystemTime::now());
    let mut left = bytes_max;
    let mut found = Vec::new();
    for file in files {
        let shard = match file.bytes <= left.min(SHARD_BYTES_MAX) {
            true => fs::read(&file.path).ok().and_then(open),
            false => None,
        };
        match shard.filter(|shard| !shard.footer().is_expired(now_s)) {
            Some(shard) => {
                left -= file.bytes;
                found.push((file.path, shard));
            }
            None => drop(fs::remove_file(&file.path)),
        }
    }
    if found.len() > SHARDS_MAX {
        found = join(folder, found);
        found.truncate(SHARDS_MAX);
    }
    found.into_iter().map(|(_, shard)| shard).collect()
}

/// A shard that can be looked up by its tables. One without tables is read whole and gets them.
fn open(bytes: Vec<u8>) -> Option<ShardView<Vec<u8>>> {
    let view = ShardView::new(bytes).ok()?;
    if view.footer().chunk_table_entries > 0 {
        return Some(view);
    }
    let shard = Shard::parse_stored(view.bytes()).ok()?;
    ShardView::new(with_tables(shard.xorbs, view.footer())?).ok()
}

/// Joins shards under one key that expire on the same day, in memory and on disk.
fn join(folder: &Path, shards: Vec<(PathBuf, ShardView<Vec<u8>>)>) -> Vec<(PathBuf, ShardView<Vec<u8>>)> {
    let mut groups: Vec<Vec<(PathBuf, ShardView<Vec<u8>>)>> = Vec::new();
    let class = |shard: &ShardView<Vec<u8>>| (*shard.key(), shard.footer().expires_s / DAY_S);
    for shard in shards {
        match groups
            .iter_mut()
            .find(|group| group.first().is_some_and(|first| class(&first.1) == class(&shard.1)))
        {
            Some(group) => group.push(shard),
            None => groups.push(vec![shard]),
        }
    }
    let joined =
        groups.into_iter().flat_map(|group| join_group(folder, &group).map_or(group, |one| vec![one]));
    joined.collect()
}

fn join_group(
    folder: &Path,
    group: &[(PathBuf, ShardView<Vec<u8>>)],
) -> Option<(PathBuf, ShardView<Vec<u8>>)> {
    let footers = group.iter().map(|(_, shard)| shard.footer());
    let first = footers.min_by_key(|footer| footer.expires_s).filter(|_| group.len() > 1)?;
    let mut xorbs = Vec::new();
    for (_, shard) in group {
        xorbs.extend(Shard::parse_stored(shard.bytes()).ok()?.xorbs);
    }
    let bytes = with_tables(xorbs, first)?;
    let path = write(folder, &bytes).ok()?;
    for (old, _) in group.iter().filter(|(old, _)| *old != path) {
        let _ = fs::remove_file(old);
    }
    Some((path, ShardView::new(bytes).ok()?))
}

/// A stored shard of these xorbs with lookup tables, and with key and times of `footer`.
fn with_tables(xorbs: Vec<XorbEntry>, footer: &Footer) -> Option<Vec<u8>> {
    let mut builder = ShardBuilder::default();
    for xorb in xorbs {
        builder.push_xorb(xorb);
    }
    let &Footer { key, created_s, expires_s, .. } = footer;
    builder.encode(&Form::Stored(StoredOptions { tables: TABLES, key, created_s, expires_s })).ok()
}

/// Keeps a dedup response, with lookup tables.
pub(super) fn store_shard(folder: &Path, bytes: &[u8], shard: &Shard) {
    let has_tables = shard.tables.as_ref().is_some_and(|tables| !tables.chunks.is_empty());
    let made = match (&shard.footer, has_tables) {
        (Some(footer), false) => with_tables(shard.xorbs.clone(), footer),
        _ => None,
    };
    let _ = write(folder, made.as_deref().unwrap_or(bytes));
}

/// Notes that the server has these xorbs, and deletes the notes in `instead_of`. Returns the path of the note, if it was written.
pub(super) fn store_xorbs(folder: &Path, xorbs: Vec<XorbEntry>, instead_of: &[PathBuf]) -> Option<PathBuf> {
    let mut builder = ShardBuilder::default();
    for xorb in xorbs {
        builder.push_xorb(xorb);
    }
    let now = SystemTime::now();
    let footing = StoredOptions {
        tables: TABLES,
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
/// Shards that are looked up one after another for each chunk.
const SHARDS_MAX: usize = 16;
const DAY_S: u64 = 24 * 3600;
const TABLES: LookupTables = LookupTables { files: false, xorbs: true, chunks: true };
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
        let shards =
            load(folder, bytes_max).into_iter().map(|view| Shard::parse_stored(view.bytes()).unwrap());
        let mut found: Vec<_> = shards.flat_map(|shard| shard.xorbs).map(|xorb| xorb.hash).collect();
        found.sort();
        found
    }

    #[test]
    fn notes_are_found_again_and_merged_ones_replace_the_small() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("made/when/needed");
        assert!(loaded(&folder, 1 << 20).is_empty());
        let small: Vec<_> = (1..4).map(|n| store_xorbs(&folder, vec![xorb(n)], &[]).unwrap()).collect();
        let all: Vec<_> = (1..4).map(|n| xorb(n).hash).collect();
        assert_eq!(loaded(&folder, 1 << 20), all);
        store_xorbs(&folder, (1..4).map(xorb).collect(), &small).unwrap();
        assert_eq!(loaded(&folder, 1 << 20), all);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        forget(&folder);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    }

    #[test]
    fn what_has_expired_is_damaged_or_too_much_is_deleted() {
        let dir = tempfile::tempdir().unwrap();
        let old =
            StoredOptions { tables: LookupTables::NONE, key: HashKey::ZERO, created_s: 0, expires_s: 1 };
        let mut builder = ShardBuilder::default();
        builder.push_xorb(xorb(1));
        let old = builder.encode(&Form::Stored(old)).unwrap();
        store_shard(dir.path(), &old, &Shard::parse_stored(&old).unwrap());
        fs::write(dir.path().join("broken.mdb"), b"no shard").unwrap();
        fs::write(dir.path().join("other"), b"not ours").unwrap();
        store_xorbs(dir.path(), vec![xorb(2)], &[]).unwrap();
        assert_eq!(loaded(dir.path(), 1 << 20), [xorb(2).hash]);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
        assert_eq!(loaded(dir.path(), 10), []);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "only what is not ours is left");
    }

    #[test]
    fn many_small_shards_become_one_and_a_shard_without_tables_gets_them() {
        let dir = tempfile::tempdir().unwrap();
        let notes: Vec<_> = (1..40).map(xorb).collect();
        for entry in &notes[1..] {
            store_xorbs(dir.path(), vec![entry.clone()], &[]).unwrap();
        }
        // As earlier versions wrote them.
        let mut builder = ShardBuilder::default();
        builder.push_xorb(notes[0].clone());
        let expires_s = unix_s(SystemTime::now() + NOTE_LIFETIME);
        let bare = StoredOptions { tables: LookupTables::NONE, key: HashKey::ZERO, created_s: 0, expires_s };
        write(dir.path(), &builder.encode(&Form::Stored(bare)).unwrap()).unwrap();

        let shards = load(dir.path(), 1 << 20);
        assert!(shards.len() <= 2 && fs::read_dir(dir.path()).unwrap().count() <= 2, "one for each day");
        for entry in &notes {
            let found = shards.iter().find_map(|shard| shard.chunk(&entry.chunks[0].hash).unwrap());
            assert_eq!(found, Some((entry.hash, 0)));
        }
        let all: Vec<_> = notes.iter().map(|entry| entry.hash).collect();
        assert_eq!(loaded(dir.path(), 1 << 20), all);
    }
}
