//! Order: which records come when, for ranks and the workers of a rank, from a state of a few integers.

use pyo3::prelude::*;
use shardpack::order::{self, Order, Remainder, State, Stripe};

use crate::error::invalid;

/// The state of a run over a dataset at its beginning, as JSON. `order` is `sequential`, `full` or `block`.
#[pyfunction]
#[pyo3(signature = (dataset, seed, order, mean_record_bytes, block_records=None, window_blocks=None))]
pub(crate) fn state_new(
    dataset: &str,
    seed: u64,
    order: &str,
    mean_record_bytes: u64,
    block_records: Option<u64>,
    window_blocks: Option<u64>,
) -> PyResult<String> {
    let order = match order {
        "sequential" => Order::Sequential,
        "full" => Order::Full,
        "block" => match Order::block_for(mean_record_bytes) {
            Order::Block { block_records: records, window_blocks: window } => Order::Block {
                block_records: block_records.unwrap_or(records),
                window_blocks: window_blocks.unwrap_or(window),
            },
            other => other,
        },
        found => {
            return Err(invalid(format!("order should be sequential, full or block, found {found:?}")));
        }
    };
    to_json(&State::new(dataset, seed, order))
}

/// The state after each of `world` ranks has delivered `each` more of `len` records.
#[pyfunction]
pub(crate) fn state_after(state: &str, each: u64, world: u64, len: u64) -> PyResult<String> {
    to_json(&parse(state)?.after(each, world, len))
}

fn to_json(state: &State) -> PyResult<String> {
    serde_json::to_string(state).map_err(|error| invalid(error.to_string()))
}

pub(crate) fn parse(state: &str) -> PyResult<State> {
    let state: State = serde_json::from_str(state)
        .map_err(|error| invalid(format!("not the state of a run: {error}; use what state_dict() gave")))?;
    if state.version != 1 {
        return Err(invalid(format!("version of the state should be 1, found {}", state.version)));
    }
    Ok(state)
}

/// Which part of the order is taken.
#[derive(Debug, Clone, Copy, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Share {
    pub(crate) rank: u64,
    pub(crate) world: u64,
    pub(crate) worker: u64,
    pub(crate) workers: u64,
    /// Records that a worker takes before the next worker's turn.
    pub(crate) run: u64,
}

/// The numbers of the records that a rank, or one of its workers, takes up to the end of the epoch.
#[pyclass(module = "shardpack")]
#[derive(Debug)]
pub(crate) struct Positions {
    of_rank: order::Positions,
    /// Records that are left of the worker's run, and those of the others that follow it.
    run_left: u64,
    run: u64,
    others: u64,
    /// Records of others that come before the next own one.
    skip: u64,
}

impl Positions {
    pub(crate) fn of(state: &str, len: u64, share: Share, remainder: &str) -> PyResult<Self> {
        let remainder = match remainder {
            "keep" => Remainder::Keep,
            "pad" => Remainder::Pad,
            "drop" => Remainder::Drop,
            found => return Err(invalid(format!("remainder should be keep, pad or drop, found {found:?}"))),
        };
        let Share { rank, world, worker, workers, run } = share;
        if rank >= world || worker >= workers || run == 0 {
            let why = format!("rank {rank} of {world}, worker {worker} of {workers}, runs of {run}");
            return Err(invalid(format!(
                "{why}: ranks and workers are counted from 0, runs have a record at least"
            )));
        }
        let of_rank = parse(state)?.positions(len, Stripe { rank, world, ..Stripe::default() }, remainder);
        let (skip, others) = (run.saturating_mul(worker), run.saturating_mul(workers - 1));
        Ok(Self { of_rank, run_left: run, run, others, skip })
    }
}

impl Iterator for Positions {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        if self.run_left == 0 {
            (self.run_left, self.skip) = (self.run, self.others);
        }
        self.run_left -= 1;
        let skip = usize::try_from(std::mem::take(&mut self.skip)).unwrap_or(usize::MAX);
        self.of_rank.nth(skip).map(|(_, record)| record)
    }
}

#[pymethods]
impl Positions {
    #[new]
    fn new(state: &str, len: u64, share: Share, remainder: &str) -> PyResult<Self> {
        Self::of(state, len, share, remainder)
    }

    /// Records that the rank, with all its workers, still takes.
    #[getter]
    fn left_of_rank(&self) -> usize {
        self.of_rank.size_hint().0
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&mut self) -> Option<u64> {
        self.next()
    }
}
