//! Dedup index: chunks that need not be sent, because this push has them already or the server is known to have them.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::path::Path;

use xet::pack::{ChunkLocation, XorbRef};
use xet::shard::row::ROW_LEN;
use xet::shard::{Shard, ShardView};
use xet::{ChunkHash, HashKey, XorbHash};

use super::shard_cache;

/// A run of chunks that are all in one xorb, one behind the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) first: ChunkLocation,
    pub(super) chunks: usize,
}

/// Location of known chunks.
#[derive(Debug, Default)]
pub(super) struct DedupIndex {
    /// Of this push, the newest; when it is full it takes the place of `older`.
    recent: Map<(u64, u32)>,
    older: Map<(u64, u32)>,
    /// Shards of the cache, looked up by their tables.
    cached: Vec<ShardView<Vec<u8>>>,
    /// Chunks of shards that came during this push, by the key that hides their hashes.
    groups: Vec<Group>,
    xorbs: Vec<IndexedXorb>,
    by_hash: HashMap<XorbHash, u32>,
    /// How many more chunks of shards may be kept in memory.
    capacity_left: usize,
}

#[derive(Debug)]
struct Group {
    key: HashKey,
    places: Map<(u32, u32)>,
}

#[derive(Debug)]
struct IndexedXorb {
    hash: XorbHash,
    group: usize,
    /// As the shard shows them: keyed.
    chunks: Box<[ChunkHash]>,
}

impl DedupIndex {
    /// Everything that a cache of at most `bytes_max` bytes holds.
    pub(super) fn load(cache: Option<&Path>, bytes_max: u64) -> Self {
        let cached = cache.map_or_else(Vec::new, |cache| shard_cache::load(cache, bytes_max));
        let cached_bytes: usize = cached.iter().map(|shard| shard.bytes().len()).sum();
        let bytes = usize::try_from(bytes_max).unwrap_or(usize::MAX).saturating_sub(cached_bytes);
        Self { capacity_left: bytes / ROW_LEN, cached, ..Self::default() }
    }

    /// Learns the xorbs of a shard, as far as there is room.
    pub(super) fn learn_shard(&mut self, shard: &Shard) {
        let key = shard.footer.as_ref().map_or(HashKey::ZERO, |footer| footer.key);
        for xorb in &shard.xorbs {
            let chunks: Vec<_> = xorb.chunks.iter().map(|entry| entry.hash).collect();
            self.learn_xorb(xorb.hash, key, &chunks);
        }
    }

    /// Learns the chunks of a xorb, hidden by a key or not, as far as there is room. Places that are zero are not known.
    pub(super) fn learn_xorb(&mut self, hash: XorbHash, key: HashKey, chunks: &[ChunkHash]) {
        if self.by_hash.contains_key(&hash) || chunks.len() > self.capacity_left {
            return;
        }
        self.capacity_left -= chunks.len();
        let group = self.groups.iter().position(|group| group.key == key).unwrap_or_else(|| {
            self.groups.push(Group { key, places: Map::default() });
            self.groups.len() - 1
        });
        let number = u32::try_from(self.xorbs.len()).expect("far fewer xorbs than chunks");
        for (place, chunk) in (0..).zip(chunks).filter(|(_, chunk)| **chunk != ChunkHash::ZERO) {
            self.groups[group].places.entry(*chunk).or_insert((number, place));
        }
        self.by_hash.insert(hash, number);
        self.xorbs.push(IndexedXorb { hash, group, chunks: chunks.into() });
    }

    /// A chunk of this push has got a place.
    pub(super) fn insert(&mut self, hash: ChunkHash, open: u64, chunk: u32) {
        if self.recent.len() >= RECENT_CHUNKS_MAX {
            self.older = std::mem::take(&mut self.recent);
        }
        self.recent.insert(hash, (open, chunk));
    }

    /// The longest run that holds these chunks from the first on. Among equals the one that goes on at `next` wins.
    pub(super) fn find(&self, chunks: &[ChunkHash], next: Option<ChunkLocation>) -> Option<Run> {
        let runs = [
            self.run_after(chunks, next),
            self.run_of_push(chunks),
            self.run_of_shards(chunks),
            self.run_of_cache(chunks),
        ];
        // The first of equals: `max_by_key` would take the last.
        runs.into_iter().flatten().reduce(|best, run| if run.chunks > best.chunks { run } else { best })
    }

    /// Whether any place of this chunk is known.
    pub(super) fn has(&self, chunk: &ChunkHash) -> bool {
        self.of_push(chunk).is_some()
            || self.groups.iter().any(|group| group.places.contains_key(&chunk.keyed(&group.key)))
            || self.cached.iter().any(|shard| shard.chunk(chunk).is_ok_and(|found| found.is_some()))
    }

    /// Whether nothing of a stored xorb is known from this place on: what follows may begin the next one.
    pub(super) fn is_end(&self, (xorb, chunk): ChunkLocation) -> bool {
        let XorbRef::Stored(xorb) = xorb else { return false };
        let count = match self.by_hash.get(&xorb).and_then(|number| self.xorbs.get(*number as usize)) {
            Some(known) => Some(known.chunks.len()),
            None => self.cached.iter().find_map(|shard| Some(shard.chunk_count(&xorb).ok()?? as usize)),
        };
        count.is_some_and(|count| count <= chunk as usize)
    }

    /// Whether anything is known but this push.
    pub(super) fn has_stored(&self) -> bool {
        !self.xorbs.is_empty() || !self.cached.is_empty()
    }

    fn of_push(&self, chunk: &ChunkHash) -> Option<(u64, u32)> {
        self.recent.get(chunk).or_else(|| self.older.get(chunk)).copied()
    }

    fn run_of_push(&self, chunks: &[ChunkHash]) -> Option<Run> {
        let (open, first) = self.of_push(chunks.first()?)?;
        let follows = |&(n, chunk): &(u32, &ChunkHash)| self.of_push(chunk) == Some((open, first + n));
        let run = (0..).zip(chunks).take_while(follows).count();
        Some(Run { first: (XorbRef::New(open), first), chunks: run })
    }

    fn run_of_shards(&self, chunks: &[ChunkHash]) -> Option<Run> {
        let first = chunks.first()?;
        self.groups
            .iter()
            .filter_map(|group| {
                let &(xorb, start) = group.places.get(&first.keyed(&group.key))?;
                self.follow(xorb, start, chunks)
            })
            .max_by_key(|run| run.chunks)
    }

    fn run_after(&self, chunks: &[ChunkHash], next: Option<ChunkLocation>) -> Option<Run> {
        let (XorbRef::Stored(xorb), start) = next? else { return None };
        if let Some(number) = self.by_hash.get(&xorb) {
            return self.follow(*number, start, chunks);
        }
        let follow =
            |shard: &ShardView<_>| shard.follow(&xorb, start, chunks).ok().filter(|chunks| *chunks > 0);
        let chunks = self.cached.iter().find_map(follow)?;
        Some(Run { first: (XorbRef::Stored(xorb), start), chunks })
    }

    fn run_of_cache(&self, chunks: &[ChunkHash]) -> Option<Run> {
        // A shard that cannot be read has nothing: chunks that are not found are sent.
        let found = self.cached.iter().filter_map(|shard| shard.dedup(chunks).ok()?);
        let run = found.max_by_key(|found| found.matched)?;
        Some(Run { first: (XorbRef::Stored(run.xorb), run.chunks.start), chunks: run.matched })
    }

    fn follow(&self, xorb: u32, first: u32, chunks: &[ChunkHash]) -> Option<Run> {
        let xorb = self.xorbs.get(xorb as usize)?;
        let key = &self.groups[xorb.group].key;
        let there = xorb.chunks.get(first as usize..)?;
        let run = there.iter().zip(chunks).take_while(|(there, chunk)| **there == chunk.keyed(key)).count();
        (run > 0).then_some(Run { first: (XorbRef::Stored(xorb.hash), first), chunks: run })
    }
}

type Map<V> = HashMap<ChunkHash, V, BuildHasherDefault<PrefixHasher>>;

/// Chunk hashes are random already: eight of their bytes are as good as any hash of them.
#[derive(Debug, Default)]
struct PrefixHasher(u64);

impl Hasher for PrefixHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        // From the end: the suffix decides eligibility, so the word before it is taken.
        if let Some(word) = bytes.get(16..24).and_then(|word| word.try_into().ok()) {
            self.0 = u64::from_le_bytes(word);
        }
    }
}

/// Chunks of this push to remember, twice over: some 64 GiB of files each time. Older ones are stored again.
const RECENT_CHUNKS_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use xet::shard::{ChunkEntry, Form, LookupTables, ShardBuilder, StoredOptions, XorbEntry};

    use super::*;

    fn hashes(range: std::ops::Range<u8>) -> Vec<ChunkHash> {
        range.map(|n| ChunkHash::of(&[n])).collect()
    }

    fn shard(seed: u8, chunks: &[ChunkHash], key: HashKey) -> Shard {
        let entry =
            |(n, hash): (u32, &ChunkHash)| ChunkEntry { hash: *hash, raw_start: n, raw_bytes: 1, flags: 0 };
        let chunks: Vec<_> = (0..).zip(chunks).map(entry).collect();
        let raw_bytes = chunks.len() as u32;
        let mut builder = ShardBuilder::default();
        builder.push_xorb(XorbEntry {
            hash: XorbHash::new([seed; 32]),
            flags: 0,
            raw_bytes,
            stored_bytes: 0,
            chunks,
        });
        if !key.is_zero() {
            builder.key_chunks(&key);
        }
        let footing = StoredOptions { tables: LookupTables::NONE, key, created_s: 0, expires_s: u64::MAX };
        Shard::parse_stored(&builder.encode(&Form::Stored(footing)).unwrap()).unwrap()
    }

    #[test]
    fn the_longest_run_is_found_in_this_push_and_on_the_server() {
        let mut known = DedupIndex { capacity_left: 1000, ..DedupIndex::default() };
        let file = hashes(0..10);
        assert_eq!(known.find(&file, None), None);
        known.insert(file[0], 3, 7);
        known.insert(file[1], 3, 8);
        known.insert(file[2], 4, 9);
        assert_eq!(known.find(&file, None), Some(Run { first: (XorbRef::New(3), 7), chunks: 2 }));
        known.learn_shard(&shard(1, &file[..4], HashKey::new([5; 32])));
        let one = XorbRef::Stored(XorbHash::new([1; 32]));
        assert_eq!(known.find(&file, None), Some(Run { first: (one, 0), chunks: 4 }));
        known.learn_shard(&shard(2, &file[1..8], HashKey::ZERO));
        let two = XorbRef::Stored(XorbHash::new([2; 32]));
        assert_eq!(known.find(&file[1..], None), Some(Run { first: (two, 0), chunks: 7 }));
        assert_eq!(known.find(&file[2..4], Some((one, 2))), Some(Run { first: (one, 2), chunks: 2 }));
        assert!(known.has(&file[7]) && !known.has(&file[8]));
    }

    #[test]
    fn there_is_room_for_so_many_chunks_and_no_more() {
        let mut known = DedupIndex { capacity_left: 5, ..DedupIndex::default() };
        known.learn_shard(&shard(1, &hashes(0..4), HashKey::ZERO));
        known.learn_shard(&shard(2, &hashes(4..8), HashKey::ZERO));
        assert!(known.has(&hashes(0..1)[0]) && !known.has(&hashes(4..5)[0]));
    }

    /// A shard of the cache answers like one that was learnt.
    #[test]
    fn runs_of_the_cache_are_found_and_gone_on_with() {
        let file = hashes(0..10);
        for key in [HashKey::ZERO, HashKey::new([5; 32])] {
            let shard = shard(1, &file[2..8], key);
            let view = ShardView::new(shard.encode().unwrap()).unwrap();
            let known = DedupIndex { cached: vec![view], ..DedupIndex::default() };
            let one = XorbRef::Stored(XorbHash::new([1; 32]));
            assert!(known.has_stored() && known.has(&file[7]) && !known.has(&file[8]));
            assert_eq!(known.find(&file[3..], None), Some(Run { first: (one, 1), chunks: 5 }));
            assert_eq!(known.find(&file[4..6], Some((one, 2))), Some(Run { first: (one, 2), chunks: 2 }));
            assert_eq!(known.find(&file[8..], Some((one, 6))), None);
            assert!(known.is_end((one, 6)) && !known.is_end((one, 5)));
        }
    }
}
