//! Overlays: small packs of changes over a set that is not touched. Entries replace by name, tombstones delete.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::error::Error;
use crate::record::Record;
use crate::set::PackSet;

/// A set with overlays over it, the newest last.
///
/// A record of an overlay with the overlay flag replaces and adds entries by name, and its metadata if it has any; one
/// without replaces the whole record; a tombstone deletes it. Keys that are in no older layer are added at the end.
#[derive(Debug, Clone)]
pub struct OverlaidSet {
    base: PackSet,
    overlays: Vec<PackSet>,
    /// Changes of a record of the base: layer and number there, the oldest first.
    changes: HashMap<u64, Vec<(usize, u64)>>,
    /// For each record of the base that is gone, how many before it are kept. Never falls.
    deleted: Vec<u64>,
    /// Records of the base that were deleted and came back: nothing of the base shows in them.
    revived: BTreeSet<u64>,
    /// Records that are not in the base: changes of each, the oldest first.
    added: Vec<Vec<(usize, u64)>>,
}

impl OverlaidSet {
    /// Puts overlays, the oldest first, over a set. The keys of the overlays are read, and nothing else.
    pub fn new(base: PackSet, overlays: Vec<PackSet>) -> Result<Self, Error> {
        let mut changes: HashMap<u64, Vec<(usize, u64)>> = HashMap::new();
        let (mut deleted, mut revived) = (BTreeSet::new(), BTreeSet::new());
        // By the order in which keys first appeared.
        let mut added: BTreeMap<(usize, u64), Vec<(usize, u64)>> = BTreeMap::new();
        let mut added_keys: HashMap<String, (usize, u64)> = HashMap::new();
        for (layer, overlay) in overlays.iter().enumerate() {
            for ordinal in 0..overlay.len() {
                let (pack, within) = overlay.locate(ordinal)?;
                let (key, flags) =
                    pack.with_record(within, |record| Ok((record.key().to_owned(), record.flags())))?;
                let change = (layer, ordinal);
                if let Some(of_base) = base.find(&key)? {
                    if flags.is_tombstone() {
                        deleted.insert(of_base);
                        changes.remove(&of_base);
                        continue;
                    }
                    let returns = deleted.remove(&of_base);
                    if returns {
                        revived.insert(of_base);
                    }
                    let replaces = returns || !flags.is_overlay();
                    let list = changes.entry(of_base).or_default();
                    if replaces {
                        list.clear();
                    }
                    list.push(change);
                } else if flags.is_tombstone() {
                    if let Some(place) = added_keys.remove(&key) {
                        added.remove(&place);
                    }
                } else {
                    let place = *added_keys.entry(key).or_insert(change);
                    let list = added.entry(place).or_default();
                    if !flags.is_overlay() {
                        list.clear();
                    }
                    list.push(change);
                }
            }
        }
        let deleted =
            deleted.into_iter().zip(0..).map(|(ordinal, before): (u64, u64)| ordinal - before).collect();
        Ok(Self { base, overlays, changes, deleted, revived, added: added.into_values().collect() })
    }

    /// Records there are.
    pub fn len(&self) -> u64 {
        self.base.len() - self.deleted.len() as u64 + self.added.len() as u64
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A record by its number, with all changes in it.
    pub fn read_record(&self, ordinal: u64) -> Result<Record, Error> {
        let in_base = self.base.len() - self.deleted.len() as u64;
        if ordinal >= in_base {
            let place = usize::try_from(ordinal - in_base).ok();
            let changes = place.and_then(|place| self.added.get(place));
            let changes = changes.ok_or_else(|| crate::index::no_record(ordinal, self.len()))?;
            return self.apply(None, changes);
        }
        let ordinal = self.base_ordinal(ordinal);
        match self.changes.get(&ordinal) {
            None => self.base.read_record(ordinal),
            Some(changes) => self.apply(Some(ordinal), changes),
        }
    }

    /// All records from the first on.
    pub fn iter_records(&self) -> impl Iterator<Item = Result<Record, Error>> + '_ {
        (0..self.len()).map(|ordinal| self.read_record(ordinal))
    }

    /// The number in the base of the `n`-th record that is not deleted.
    fn base_ordinal(&self, n: u64) -> u64 {
        n + self.deleted.partition_point(|&before| before <= n) as u64
    }

    fn apply(&self, ordinal: Option<u64>, changes: &[(usize, u64)]) -> Result<Record, Error> {
        let mut record: Option<Record> = None;
        for (layer, change) in changes {
            let Some(overlay) = self.overlays.get(*layer) else { continue };
            let mut change = overlay.read_record(*change)?;
            if !change.flags.is_overlay() {
                record = Some(change);
                continue;
            }
            let mut below = match (record.take(), ordinal) {
                (Some(record), _) => record,
                (None, Some(ordinal)) if !self.revived.contains(&ordinal) => {
                    self.base.read_record(ordinal)?
                }
                _ => {
                    change.flags.0 &= !crate::layout::RecordFlags::OVERLAY.0;
                    record = Some(change);
                    continue;
                }
            };
            if !change.metadata.is_empty() {
                (below.metadata, below.meta_format) = (change.metadata, change.meta_format);
            }
            for entry in change.file_entries {
                match below.file_entries.iter_mut().find(|known| known.file_name == entry.file_name) {
                    Some(known) => *known = entry,
                    None => below.file_entries.push(entry),
                }
            }
            record = Some(below);
        }
        record.ok_or_else(|| Error::invalid("a changed record has no change"))
    }
}
