//! Order: which record comes at which position of an epoch, computed and never stored.
//!
//! An order is a permutation of all records, a pure function of seed and epoch. Every rank and worker takes a stripe of
//! its positions, so the state of a whole training run is a handful of integers, and it may go on with another number of
//! ranks.

mod permutation;

pub use permutation::Permutation;

use serde::{Deserialize, Serialize};

/// In which order records come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Order {
    /// As they lie.
    Sequential,
    /// Any record may come at any position.
    Full,
    /// Blocks of neighbours are permuted, and their records mixed over `window_blocks` blocks: reads stay near each other.
    /// Two records of one block are at most `block_records * window_blocks` positions apart.
    Block {
        /// Records of a block.
        block_records: u64,
        /// Blocks that are mixed.
        window_blocks: u64,
    },
}

impl Order {
    /// Blocks of about 8 MiB, 16 of them mixed, for records of that many bytes on average.
    pub fn block_for(mean_record_bytes: u64) -> Self {
        Self::Block { block_records: ((8 << 20) / mean_record_bytes.max(1)).max(1), window_blocks: 16 }
    }
}

/// The order of one epoch.
#[derive(Debug, Clone)]
pub struct Epoch {
    len: u64,
    seed: u64,
    epoch: u64,
    plan: Plan,
}

#[derive(Debug, Clone)]
enum Plan {
    Sequential,
    Full(Permutation),
    Block { blocks: Permutation, block_records: u64, window_blocks: u64, short_slot: u64 },
}

impl Epoch {
    /// The order of epoch `epoch` over `len` records.
    pub(crate) fn new(order: Order, len: u64, seed: u64, epoch: u64) -> Self {
        let plan = match order {
            Order::Sequential => Plan::Sequential,
            Order::Full => Plan::Full(Permutation::new(len, &[seed, epoch, 0])),
            Order::Block { block_records, window_blocks } => {
                let (block_records, window_blocks) = (block_records.max(1), window_blocks.max(1));
                let count = len.div_ceil(block_records);
                let blocks = Permutation::new(count, &[seed, epoch, 1]);
                // Only the last block may be short: where it went shifts what comes after it.
                let short_slot = if count == 0 { 0 } else { blocks.position_of(count - 1) };
                Plan::Block { blocks, block_records, window_blocks, short_slot }
            }
        };
        Self { len, seed, epoch, plan }
    }

    /// Number of records.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// The record at `position`; none from the end on.
    pub(crate) fn record_at(&self, position: u64) -> Option<u64> {
        if position >= self.len {
            return None;
        }
        Some(match &self.plan {
            Plan::Sequential => position,
            Plan::Full(permutation) => permutation.at(position),
            Plan::Block { blocks, block_records, window_blocks, .. } => {
                let (slot, _) = self.slot_of(position);
                let window = slot / window_blocks;
                let first_slot = window * window_blocks;
                let last_slot = (first_slot + window_blocks).min(blocks.len());
                let (start, end) = (self.start_of(first_slot), self.start_of(last_slot));
                let mix = Permutation::new(end - start, &[self.seed, self.epoch, 2, window]);
                let (slot, within) = self.slot_of(start + mix.at(position - start));
                blocks.at(slot) * block_records + within
            }
        })
    }

    /// Position of the first record of the block in `slot`.
    fn start_of(&self, slot: u64) -> u64 {
        let Plan::Block { block_records, short_slot, .. } = &self.plan else { return 0 };
        let missing = self.len.next_multiple_of(*block_records) - self.len;
        slot * block_records - if slot > *short_slot { missing } else { 0 }
    }

    /// The slot a position lies in, and where in it.
    fn slot_of(&self, position: u64) -> (u64, u64) {
        let Plan::Block { block_records, short_slot, .. } = &self.plan else { return (0, position) };
        let after_short = self.start_of(short_slot + 1);
        let slot = if position < after_short {
            position / block_records
        } else {
            short_slot + 1 + (position - after_short) / block_records
        };
        (slot, position - self.start_of(slot))
    }
}

/// Which positions are taken: every `world * workers`-th.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stripe {
    /// This rank.
    pub rank: u64,
    /// Number of ranks.
    pub world: u64,
    /// This worker of the rank.
    pub worker: u64,
    /// Number of its workers.
    pub workers: u64,
}

impl Default for Stripe {
    fn default() -> Self {
        Self { rank: 0, world: 1, worker: 0, workers: 1 }
    }
}

/// Action where positions do not divide evenly among ranks and workers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Remainder {
    /// Some get one more than others.
    #[default]
    Keep,
    /// Positions are taken again from the beginning, so that all get equally many.
    Pad,
    /// The rest is left out, so that all get equally many.
    Drop,
}

/// Position in a run. World size and workers are no part of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// Layout of this state: 1.
    pub version: u32,
    /// Digest of the dataset, so that a state is not used with another.
    pub dataset: String,
    /// Chooses the permutations.
    pub seed: u64,
    /// The pass over the data.
    pub epoch: u64,
    /// In which order records come.
    pub order: Order,
    /// All positions below were delivered.
    pub position: u64,
}

impl State {
    /// The beginning of a run.
    pub fn new(dataset: impl Into<String>, seed: u64, order: Order) -> Self {
        Self { version: 1, dataset: dataset.into(), seed, epoch: 0, order, position: 0 }
    }

    /// The positions that `stripe` takes from here to the end of the epoch of `len` records, with their records.
    pub fn positions(&self, len: u64, stripe: Stripe, remainder: Remainder) -> Positions {
        let stride = stripe.world.max(1).saturating_mul(stripe.workers.max(1));
        // The rank's own sequence is dealt to its workers in turn.
        let first = stripe.rank + stripe.world.max(1).saturating_mul(stripe.worker);
        let left = len.saturating_sub(self.position);
        let count = match remainder {
            Remainder::Keep => left.saturating_sub(first).div_ceil(stride),
            Remainder::Pad => left.div_ceil(stride),
            Remainder::Drop => left / stride,
        };
        let epoch = Epoch::new(self.order, len, self.seed, self.epoch);
        Positions { epoch, next: self.position.saturating_add(first), stride, left: count }
    }

    /// The state after every rank has delivered `each` more records, in a world of `world` ranks. From the end of an epoch
    /// it goes on with the next.
    pub fn after(&self, each: u64, world: u64, len: u64) -> Self {
        let position = self.position.saturating_add(each.saturating_mul(world.max(1)));
        if position >= len {
            return Self { epoch: self.epoch + 1, position: 0, ..self.clone() };
        }
        Self { position, ..self.clone() }
    }
}

/// Positions of a stripe with their records, up to the end of an epoch.
#[derive(Debug, Clone)]
pub struct Positions {
    epoch: Epoch,
    next: u64,
    stride: u64,
    left: u64,
}

impl Iterator for Positions {
    /// Position and record.
    type Item = (u64, u64);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let position = self.next;
        self.next = self.next.saturating_add(self.stride);
        // Only padding goes beyond the end, and then from the beginning again.
        let record = self.epoch.record_at(position % self.epoch.len().max(1))?;
        Some((position, record))
    }

    /// Costs the same however many are skipped: their records are not computed.
    fn nth(&mut self, n: usize) -> Option<Self::Item> {
        self.left = self.left.saturating_sub(n as u64);
        self.next = self.next.saturating_add(self.stride.saturating_mul(n as u64));
        self.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = usize::try_from(self.left).unwrap_or(usize::MAX);
        (left, Some(left))
    }
}

#[cfg(test)]
mod tests;
