use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use testkit::corpus::noise;
use xet::ChunkHash;

use super::*;
use crate::chunk::Chunk;

/// Stored chunks with these numbers: the bytes mean nothing here, only that they come back.
fn stored_chunk(n: u32) -> (Vec<u8>, Chunk) {
    let bytes = noise(u64::from(n), 100 + n as usize);
    let chunk = Chunk { hash: ChunkHash::of(&bytes), bytes: n + 1 };
    (bytes, chunk)
}

fn store(cache: &Arc<Cache>, xorb: XorbHash, chunks: Range<u32>) {
    let mut writer = cache.writer(xorb, chunks.clone()).unwrap();
    for n in chunks {
        let (bytes, chunk) = stored_chunk(n);
        assert!(writer.push(&bytes, chunk));
    }
    writer.finish();
}

fn read(found: Vec<CachedRange>) -> (Vec<u8>, Vec<Chunk>) {
    let (mut bytes, mut chunks) = (Vec::new(), Vec::new());
    for mut range in found {
        while range.stored_bytes() > 0 {
            bytes.extend(range.read(77).unwrap());
        }
        chunks.extend(range.expected);
    }
    (bytes, chunks)
}

fn expected(chunks: Range<u32>) -> (Vec<u8>, Vec<Chunk>) {
    let (bytes, chunks): (Vec<_>, Vec<_>) = chunks.map(stored_chunk).unzip();
    (bytes.concat(), chunks)
}

const XORB: XorbHash = XorbHash::new([7; 32]);

#[test]
fn entries_are_joined_to_what_is_requested_and_swallow_what_they_cover() {
    let dir = tempfile::tempdir().unwrap();
    let cache = Arc::new(Cache::open(dir.path(), 1 << 20).unwrap());
    assert!(cache.find(&XORB, 0..1).is_none());
    store(&cache, XORB, 2..5);
    store(&cache, XORB, 4..9);
    store(&cache, XORB, 12..14);
    for requested in [2..5, 3..4, 2..9, 3..8, 13..14] {
        assert!(cache.has(&XORB, requested.clone()));
        assert_eq!(read(cache.find(&XORB, requested.clone()).unwrap()), expected(requested));
    }
    for missing in [0..3, 8..10, 2..14] {
        assert!(cache.find(&XORB, missing.clone()).is_none() && !cache.has(&XORB, missing));
    }
    store(&cache, XORB, 0..10);
    assert_eq!(fs::read_dir(cache.folder_of(&XORB)).unwrap().count(), 2, "0-10 and 12-14");
    assert!(cache.find(&XorbHash::ZERO, 0..1).is_none());
    assert_eq!(fs::read_dir(dir.path().join(STAGED)).unwrap().count(), 0);
}

#[test]
fn an_entry_that_is_not_finished_is_not_there() {
    let dir = tempfile::tempdir().unwrap();
    let cache = Arc::new(Cache::open(dir.path(), 1 << 20).unwrap());
    let mut writer = cache.writer(XORB, 0..2).unwrap();
    let (bytes, chunk) = stored_chunk(0);
    writer.push(&bytes, chunk);
    writer.finish();
    drop(cache.writer(XORB, 5..6));
    assert!(cache.find(&XORB, 0..1).is_none());
    assert_eq!(fs::read_dir(dir.path().join(STAGED)).unwrap().count(), 0);
}

proptest! {
    /// A damaged entry is a miss and removed, or its damage is in the stored chunks, which are compared with the table.
    #[test]
    fn damage_in_the_table_is_a_miss(place in 0..10_000_usize, bit in 0..8_u8, cut: bool) {
        let dir = tempfile::tempdir().unwrap();
        let cache = Arc::new(Cache::open(dir.path(), 1 << 20).unwrap());
        store(&cache, XORB, 3..6);
        let path = cache.folder_of(&XORB).join("3-6");
        let mut bytes = fs::read(&path).unwrap();
        let place = place % bytes.len();
        match cut {
            true => bytes.truncate(place),
            false => bytes[place] ^= 1 << bit,
        }
        fs::write(&path, &bytes).unwrap();
        let stored = expected(3..6).0.len();
        match cache.find(&XORB, 3..6) {
            None => prop_assert!(!path.exists()),
            Some(found) => {
                prop_assert!(!cut && place < stored);
                prop_assert_eq!(read(found).1, expected(3..6).1, "the table is right, so the damage will be found out");
            }
        }
    }
}

#[test]
fn what_was_not_used_for_longest_goes_first() {
    let dir = tempfile::tempdir().unwrap();
    let cache = Arc::new(Cache::open(dir.path(), 20_000).unwrap());
    let xorb = |n: u8| XorbHash::new([n; 32]);
    for n in 0..10 {
        store(&cache, xorb(n), 0..8); // about 1.2 KiB each
        let path = cache.folder_of(&xorb(n)).join("0-8");
        let old = SystemTime::now() - Duration::from_secs(1000 - 10 * u64::from(n));
        fs::File::open(path).unwrap().set_modified(old).unwrap();
    }
    assert!(cache.find(&xorb(0), 0..8).is_some(), "this use counts");
    for n in 10..24 {
        store(&cache, xorb(n), 0..8);
    }
    assert!(cache.has(&xorb(0), 0..8) && !cache.has(&xorb(1), 0..8) && cache.has(&xorb(23), 0..8));
    let total: u64 = walkdir::WalkDir::new(dir.path())
        .into_iter()
        .flatten()
        .filter(|entry| entry.file_type().is_file())
        .map(|entry| entry.metadata().unwrap().len())
        .sum();
    assert!(total <= 20_000, "{total}");
}

#[test]
fn recipes_come_back_or_not_at_all() {
    let dir = tempfile::tempdir().unwrap();
    let cache = Cache::open(dir.path(), 1 << 20).unwrap();
    let file = FileHash::new([1; 32]);
    let terms = vec![
        PlanTerm { xorb: XORB, chunks: 0..3, raw_bytes: 50 },
        PlanTerm { xorb: XorbHash::ZERO, chunks: 9..10, raw_bytes: 5 },
    ];
    assert_eq!(cache.recipe(&file), None);
    cache.keep_recipe(&file, &terms);
    assert_eq!(cache.recipe(&file), Some(terms));
    let path = cache.recipe_path(&file);
    let mut bytes = fs::read(&path).unwrap();
    bytes[40] ^= 1;
    fs::write(&path, bytes).unwrap();
    assert_eq!(cache.recipe(&file), None);
    assert!(!path.exists());
}
