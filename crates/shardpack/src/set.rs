//! Set: many packs as one dataset, its records numbered through.

mod columns;
mod dataset_index;
mod overlay;
mod pattern;

pub use columns::{Columns, MissingPolicy};
pub use dataset_index::{DATASET_INDEX_NAME, DatasetIndex, IndexedPack};
pub use overlay::OverlaidSet;
pub use pattern::{expand_braces, resolve};

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::{Cause, Error};
use crate::index::no_record;
use crate::read::{ReadOptions, ShardPackReader};
use crate::record::{Record, RecordRef};
use crate::source::Source;

/// Many packs as one. Records are numbered from the first of the first pack to the last of the last.
#[derive(Debug, Clone)]
pub struct PackSet {
    packs: Vec<ShardPackReader>,
    /// Number of the first record of each pack, and of all records.
    starts: Vec<u64>,
}

impl PackSet {
    /// Opens packs named by paths, patterns with braces or wildcards, and folders, in the order given.
    pub fn open<S: AsRef<str>>(inputs: &[S], options: &ReadOptions) -> Result<Self, Error> {
        let paths = resolve(inputs)?;
        let open = |path: &std::path::PathBuf| ShardPackReader::open_with(path, options.clone());
        Ok(Self::of(open_all(&paths, open)?))
    }

    /// Opens any sources, several at a time.
    pub fn from_sources(sources: &[Arc<dyn Source>], options: &ReadOptions) -> Result<Self, Error> {
        let open =
            |source: &Arc<dyn Source>| ShardPackReader::from_source(Arc::clone(source), options.clone());
        Ok(Self::of(open_all(sources, open)?))
    }

    /// A set of open packs.
    pub(crate) fn of(packs: Vec<ShardPackReader>) -> Self {
        let mut starts = vec![0];
        let mut next = 0_u64;
        for pack in &packs {
            next = next.saturating_add(pack.len());
            starts.push(next);
        }
        Self { packs, starts }
    }

    /// The packs, in their order.
    pub fn packs(&self) -> &[ShardPackReader] {
        &self.packs
    }

    /// Records of all packs.
    pub fn len(&self) -> u64 {
        self.starts.last().copied().unwrap_or(0)
    }

    /// Whether there is no record.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The pack that holds a record, and its number there.
    pub fn locate(&self, ordinal: u64) -> Result<(&ShardPackReader, u64), Error> {
        let (pack, within) = self.find_pack(ordinal).ok_or_else(|| no_record(ordinal, self.len()))?;
        self.packs.get(pack).map(|reader| (reader, within)).ok_or_else(|| no_record(ordinal, self.len()))
    }

    /// The place of the pack that holds a record, and its number there.
    pub fn find_pack(&self, ordinal: u64) -> Option<(usize, u64)> {
        if ordinal >= self.len() {
            return None;
        }
        let pack = self.starts.partition_point(|&start| start <= ordinal).checked_sub(1)?;
        Some((pack, ordinal - self.starts.get(pack)?))
    }

    /// A record by its number.
    pub fn read_record(&self, ordinal: u64) -> Result<Record, Error> {
        let (pack, within) = self.locate(ordinal)?;
        pack.read_record(within)
    }

    /// The number of the record of that key; of several, the first.
    pub fn find(&self, key: &str) -> Result<Option<u64>, Error> {
        for (pack, start) in self.packs.iter().zip(&self.starts) {
            if let Some(ordinal) = pack.find(key)? {
                return Ok(Some(start + ordinal));
            }
        }
        Ok(None)
    }

    /// A record by its key; of several, the first.
    pub fn read_key(&self, key: &str) -> Result<Record, Error> {
        match self.find(key)? {
            Some(ordinal) => self.read_record(ordinal),
            None => Err(Error::from(Cause::NotFound).in_record(key)),
        }
    }

    /// The key of a record.
    pub fn read_key_of(&self, ordinal: u64) -> Result<String, Error> {
        let (pack, within) = self.locate(ordinal)?;
        pack.read_key_of(within)
    }

    /// The records of these numbers, in this order. Each pack is read once; a damaged record that is to be skipped is none.
    pub fn read_batch(&self, ordinals: &[u64]) -> Result<Vec<Option<Record>>, Error> {
        let mut out: Vec<Option<Record>> = Vec::new();
        out.resize_with(ordinals.len(), || None);
        self.visit_batch(ordinals, |pack, place, record| {
            let record = record.to_record(pack.options().entry_bytes_max)?;
            if let Some(slot) = out.get_mut(place) {
                *slot = Some(record);
            }
            Ok(())
        })?;
        Ok(out)
    }

    /// Lets `visit` see the records of these numbers, each with its pack and its place in `ordinals`, pack by pack in the order
    /// they lie there.
    pub fn visit_batch(
        &self,
        ordinals: &[u64],
        mut visit: impl FnMut(&ShardPackReader, usize, &RecordRef<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut by_pack: Vec<(Vec<usize>, Vec<u64>)> = vec![Default::default(); self.packs.len()];
        for (place, &ordinal) in ordinals.iter().enumerate() {
            let (pack, within) = self.find_pack(ordinal).ok_or_else(|| no_record(ordinal, self.len()))?;
            if let Some((places, withins)) = by_pack.get_mut(pack) {
                places.push(place);
                withins.push(within);
            }
        }
        for (pack, (places, withins)) in self.packs.iter().zip(by_pack) {
            if !withins.is_empty() {
                pack.visit_batch(&withins, |n, record| match places.get(n) {
                    Some(&place) => visit(pack, place, record),
                    None => Ok(()),
                })?;
            }
        }
        Ok(())
    }

    /// All records from the first on.
    pub fn iter_records(&self) -> impl Iterator<Item = Result<Record, Error>> + '_ {
        self.packs.iter().flat_map(ShardPackReader::iter_records)
    }

    /// A digest of all keys in their order, however they are divided into packs; none where a pack states no digest.
    /// For a set of one pack it is that pack's own.
    pub(crate) fn key_digest(&self) -> Option<[u8; 32]> {
        if let [one] = self.packs.as_slice() {
            return one.index().key_digest();
        }
        let mut hasher = blake3::Hasher::new();
        for pack in &self.packs {
            hasher.update(&pack.len().to_le_bytes());
            hasher.update(&pack.index().key_digest()?);
        }
        Some(*hasher.finalize().as_bytes())
    }

    /// Names the dataset in a training state: the key digest where there is one, sizes and names otherwise.
    pub fn identity(&self) -> String {
        let digest = self.key_digest().unwrap_or_else(|| {
            let mut hasher = blake3::Hasher::new();
            for pack in &self.packs {
                hasher.update(pack.name().as_bytes());
                hasher.update(&pack.index().footer().file_size.to_le_bytes());
                hasher.update(&pack.len().to_le_bytes());
            }
            *hasher.finalize().as_bytes()
        });
        blake3::Hash::from_bytes(digest).to_hex().to_string()
    }

    /// Bytes of a record on average.
    pub fn mean_record_bytes(&self) -> u64 {
        let bytes: u64 = self.packs.iter().map(|pack| pack.index().footer().records_end()).sum();
        bytes.checked_div(self.len()).unwrap_or(0)
    }
}

/// Opens all, a few at a time: over a network each costs a round trip.
fn open_all<T: Sync>(
    from: &[T],
    open: impl Fn(&T) -> Result<ShardPackReader, Error> + Sync,
) -> Result<Vec<ShardPackReader>, Error> {
    if from.len() < 2 {
        return from.iter().map(open).collect();
    }
    let next = AtomicUsize::new(0);
    let work = || {
        let mut opened = Vec::new();
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(one) = from.get(place) else { return opened };
            opened.push((place, open(one)));
        }
    };
    let mut opened: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..OPEN_THREADS.min(from.len())).map(|_| scope.spawn(work)).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| thread.join().unwrap_or_default();
        threads.into_iter().flat_map(join).collect()
    });
    opened.sort_by_key(|(place, _)| *place);
    opened.into_iter().map(|(_, reader)| reader).collect()
}

const OPEN_THREADS: usize = 8;
