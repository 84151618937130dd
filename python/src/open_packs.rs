//! Open packs: the readers of a dataset, and reading of its records by number, in batches and by key.

use std::sync::Arc;

use shardpack::set::PackSet;
use shardpack::{Error, ErrorKind, OnError, ReadOptions};

use crate::block::{Block, Pack, check, to_len};
use crate::record::Record;

/// Open packs that are one dataset, shared by a dataset and its iterators.
#[derive(Debug)]
pub(crate) struct OpenPacks {
    pub(crate) packs: Vec<Arc<Pack>>,
    pub(crate) set: PackSet,
    pub(crate) options: ReadOptions,
    /// Whether records of a batch gain nothing from being read together: in maps, and local files of large records.
    pub(crate) reads_alone: bool,
    /// Offset at which each pack would begin if they were concatenated.
    pub(crate) bases: Vec<u64>,
}

impl OpenPacks {
    /// The pack that holds a record, and its number there.
    pub(crate) fn locate(&self, ordinal: u64) -> Option<(&Arc<Pack>, u64)> {
        let (pack, within) = self.set.find_pack(ordinal)?;
        self.packs.get(pack).map(|pack| (pack, within))
    }

    /// A record by its number.
    pub(crate) fn read(&self, ordinal: u64) -> Result<Block, Error> {
        match self.locate(ordinal) {
            Some((pack, within)) => pack.read(within),
            None => Err(Error::invalid(format!("there is no record number {ordinal}"))),
        }
    }

    /// Many records at once, in this order: neighbours are read together. A damaged one that is to be skipped is none.
    pub(crate) fn read_blocks(&self, ordinals: &[u64]) -> Result<Vec<Option<Block>>, Error> {
        if self.reads_alone {
            return self.read_alone(ordinals);
        }
        let len = |&ordinal: &u64| {
            let (pack, within) = self.locate(ordinal)?;
            pack.reader.record_range(within).ok().map(|range| to_len(range.end - range.start))
        };
        let len = ordinals.iter().filter_map(len).sum::<usize>();
        let mut buffer = Vec::with_capacity(len.min(BATCH_BYTES_RESERVED_MAX));
        let mut places = vec![None; ordinals.len()];
        self.set.visit_batch(ordinals, |_, place, record| {
            check(record)?;
            let start = buffer.len();
            buffer.extend_from_slice(record.block());
            if let Some(slot) = places.get_mut(place) {
                *slot = Some((start..buffer.len(), record.offset()));
            }
            Ok(())
        })?;
        let buffer = Arc::new(buffer);
        let block = |(place, &ordinal): (Option<(std::ops::Range<usize>, u64)>, &u64)| {
            let within = self.set.find_pack(ordinal).map_or(ordinal, |(_, within)| within);
            place.map(|(place, offset)| Block::new(&buffer, place, offset, within))
        };
        Ok(places.into_iter().zip(ordinals).map(block).collect())
    }

    /// Reads many records one by one, in the order of their offsets.
    fn read_alone(&self, ordinals: &[u64]) -> Result<Vec<Option<Block>>, Error> {
        let mut order: Vec<_> = ordinals.iter().copied().enumerate().collect();
        order.sort_unstable_by_key(|&(_, ordinal)| ordinal);
        let mut blocks = vec![None; ordinals.len()];
        for (place, ordinal) in order {
            match (self.read(ordinal), blocks.get_mut(place)) {
                (Ok(block), Some(slot)) => *slot = Some(block),
                (Err(error), _) if !self.skips(&error) => return Err(error),
                _ => {}
            }
        }
        Ok(blocks)
    }

    /// Whether a failure is a damaged record that the options say to skip.
    pub(crate) fn skips(&self, error: &Error) -> bool {
        self.options.on_error == OnError::Skip && error.kind() == ErrorKind::Corrupt
    }

    /// The record in `block`, as Python sees it.
    pub(crate) fn record(&self, block: Block) -> Record {
        Record { block, entry_bytes_max: self.options.entry_bytes_max }
    }

    /// The number of the record of that key; of several, the first.
    pub(crate) fn find(&self, key: &str) -> Result<Option<u64>, Error> {
        self.set.find(key)
    }
}

/// Memory reserved at once for a batch; it grows as needed.
const BATCH_BYTES_RESERVED_MAX: usize = 256 << 20;
