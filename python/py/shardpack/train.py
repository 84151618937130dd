"""Order and resume: which records a rank and its workers get, from a state of a few integers.

Both classes work with torch.utils.data.DataLoader and need no torch. Whatever the number of ranks and workers, an epoch is one
order of all records, and position p of it goes to rank p modulo world. So a run goes on with another number of ranks.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Optional, Union

from drystone._native import Dataset, Positions, Record, Stream, state_after, state_new

from .errors import InvalidError


class _Run:
    """A dataset, an order, a share of it, and where the run stands."""

    def __init__(
        self,
        dataset: Dataset,
        *,
        order: str = "full",
        seed: int = 0,
        rank: int = 0,
        world: int = 1,
        remainder: str = "keep",
        block_records: Optional[int] = None,
        window_blocks: Optional[int] = None,
    ) -> None:
        self.dataset = dataset
        self.rank = rank
        self.world = world
        self.remainder = remainder
        self._state = state_new(dataset.identity, seed, order, dataset.mean_record_bytes, block_records, window_blocks)
        self._delivered = 0
        self._ended = False
        self._positions()

    @property
    def epoch(self) -> int:
        """The pass over the data that comes next, or is under way."""
        return json.loads(self._state)["epoch"]

    def set_epoch(self, epoch: int) -> None:
        """Begins a pass. With workers that end with each pass, call it before each, or all passes are the same."""
        self._begin({**json.loads(self._state), "epoch": epoch, "position": 0})

    def state_dict(self, delivered: Optional[int] = None) -> dict[str, Any]:
        """Where the run stands: a few integers, the same for every rank and independent of their number.

        delivered: samples that this rank was given since the pass began, or since `load_state_dict`. Needed where a DataLoader
            has workers or reads ahead: only who takes its batches knows how many came. Without it, what this object gave.
        """
        if delivered is None and _worker()[1] > 1:
            raise InvalidError("a worker sees its own share only; ask in the main process, with delivered=")
        each = self._delivered if delivered is None else delivered
        state = json.loads(self._state)
        if (delivered is None and self._ended) or each >= max(len(self), 1):
            return {**state, "epoch": state["epoch"] + 1, "position": 0}
        return json.loads(state_after(self._state, each, self.world, len(self.dataset))) if each else state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from where `state_dict` said, in this or another run over the same records."""
        if state.get("dataset") != self.dataset.identity:
            raise InvalidError("the state is that of another dataset: its keys are not the same, or in another order")
        state_after(json.dumps(state), 0, 1, len(self.dataset))
        self._begin(state)

    def __len__(self) -> int:
        """Samples that this rank still gets in this pass."""
        return self._positions().left_of_rank

    def _share(self, worker: int = 0, workers: int = 1, run: int = 1) -> dict[str, int]:
        return {"rank": self.rank, "world": self.world, "worker": worker, "workers": workers, "run": run}

    def _positions(self) -> Positions:
        return Positions(self._state, len(self.dataset), self._share(), self.remainder)

    def _begin(self, state: dict[str, Any]) -> None:
        self._state = json.dumps(state)
        self._delivered = 0
        self._ended = False

    def _start(self) -> None:
        """What an iteration begins with: the pass at hand, or the next when that is over."""
        if self._ended:
            self.set_epoch(self.epoch + 1)
        self._delivered = 0


class Sampler(_Run):
    """Numbers of records for a DataLoader over a `Dataset`. The loader reads batches in workers and gives them in order, so
    the run can stop after any batch and go on exactly.

    >>> sampler = shardpack.Sampler(dataset, seed=7, rank=rank, world=world)
    >>> loader = torch.utils.data.DataLoader(dataset, batch_size=32, sampler=sampler, num_workers=4, collate_fn=collate)
    >>> for n, batch in enumerate(loader, 1):
    ...     if time_to_save():
    ...         save(sampler.state_dict(delivered=32 * n))

    order: "full" is any record anywhere; "block" mixes neighbours within a window, so that reads stay near each other;
        "sequential" is as they lie.
    remainder: where records do not go up evenly in ranks, "keep" gives some ranks one more, "pad" repeats some, "drop" leaves
        some out.
    block_records, window_blocks: for "block"; by default blocks of about 8 MiB, 16 of them mixed.
    """

    def __iter__(self) -> Iterator[int]:
        self._start()
        for ordinal in self._positions():
            self._delivered += 1
            yield ordinal
        self._ended = True

    def __repr__(self) -> str:
        state = json.loads(self._state)
        return f"<shardpack.Sampler {state['order']['kind']}, rank {self.rank} of {self.world}, epoch {state['epoch']} at {state['position']}>"


class IterableDataset(_Run):
    """Samples of a dataset in the order of a run, read ahead by threads. A DataLoader sees an iterable dataset in it, with
    workers or without.

    >>> stream = shardpack.IterableDataset(dataset, seed=7, rank=rank, world=world, run=32, decode=True)
    >>> loader = torch.utils.data.DataLoader(stream, batch_size=32, num_workers=4, collate_fn=collate)

    run: records that a worker takes before the next worker's turn. With the batch size of the loader, a loader with workers gives
        the same batches in the same order as one without.
    decode: whether samples are dicts of decoded entries (`Record.decode`), and not records; or the names of the entries to decode.
    transform: called with each sample; what it returns is given.
    prefetch_bytes: of records that are read ahead, in each worker; 0 is none.
    prefetch_threads: threads that read ahead.

    The others are those of `Sampler`.
    """

    def __init__(
        self,
        dataset: Dataset,
        *,
        run: int = 1,
        decode: Union[bool, Sequence[str]] = False,
        transform: Optional[Callable[[Any], Any]] = None,
        prefetch_bytes: int = 16 << 20,
        prefetch_threads: int = 1,
        **order: Any,
    ) -> None:
        self.run = run
        self.decode = decode
        self.transform = transform
        self.prefetch_bytes = prefetch_bytes
        self.prefetch_threads = prefetch_threads
        super().__init__(dataset, **order)

    def __iter__(self) -> Iterator[Any]:
        self._start()
        worker, workers = _worker()
        share = self._share(worker, workers, self.run)
        records = Stream(self.dataset, self._state, share, self.remainder, self.prefetch_bytes, self.prefetch_threads)
        names = None if isinstance(self.decode, bool) else list(self.decode)
        for record in records:
            sample: Any = record.decode(names) if self.decode else record
            if self.transform is not None:
                sample = self.transform(sample)
            # What was read ahead and not taken is not counted.
            self._delivered += 1
            yield sample
        self._ended = True

    def __repr__(self) -> str:
        state = json.loads(self._state)
        return f"<shardpack.IterableDataset {state['order']['kind']}, rank {self.rank} of {self.world}, epoch {state['epoch']} at {state['position']}>"

    @property
    def __class__(self) -> type:  # type: ignore[override]
        # DataLoader checks that this is an IterableDataset of torch. Once torch is there, it is; we do not bring it in.
        torch_data = sys.modules.get("torch.utils.data")
        return getattr(torch_data, "IterableDataset", IterableDataset)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (dict(self.__dict__),)


def _rebuild(attributes: dict[str, Any]) -> IterableDataset:
    made = object.__new__(IterableDataset)
    made.__dict__.update(attributes)
    return made


def _worker() -> tuple[int, int]:
    """The number of this worker of a DataLoader and of all of them; one of one elsewhere."""
    torch_data = sys.modules.get("torch.utils.data")
    info = torch_data.get_worker_info() if torch_data is not None else None
    return (info.id, info.num_workers) if info is not None else (0, 1)


__all__ = ["IterableDataset", "Record", "Sampler"]
