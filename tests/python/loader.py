"""Packs in torch's DataLoader: every record once in an epoch, and exact resume, whatever the number of workers and ranks.

usage: loader.py

Ends with a line `packs in torch: N passed, M failed`.
"""

import json
import sys
import tempfile
from pathlib import Path

import shardpack

passed = failed = 0
COUNT = 103
BATCH = 4


def check(name, ok, detail=""):
    global passed, failed
    if ok:
        passed += 1
    else:
        failed += 1
    print(f"{'ok' if ok else 'FAILED'}: {name} {detail if not ok else ''}".rstrip(), flush=True)


def keys(records):
    """Collates: what a worker sends back is what was in the pack."""
    for record in records:
        if record["t.txt"].data.decode() != f"text of {record.key}":
            raise ValueError(f"wrong content in {record.key}")
    return [record.key for record in records]


def as_is(records):
    return list(records)


def main():
    with tempfile.TemporaryDirectory() as folder:
        packs = Path(folder) / "train.shardpack"
        with shardpack.Writer(packs, shard_records=30) as writer:
            for n in range(COUNT):
                writer.write(f"{n:04}", {"t.txt": f"text of {n:04}"})
        dataset = shardpack.open(Path(folder) / "train-{000000..000003}.shardpack")
        # Made before torch is there: it has to be recognised all the same.
        early = shardpack.IterableDataset(dataset, seed=1, run=BATCH)
        from torch.utils.data import DataLoader, IterableDataset

        check("an iterable dataset is one for torch", isinstance(early, IterableDataset) and not isinstance(dataset, IterableDataset))
        map_style(dataset, DataLoader)
        iterable(dataset, early, DataLoader)
        spawned(dataset, DataLoader)
    print(f"packs in torch: {passed} passed, {failed} failed")
    sys.exit(failed > 0)


def map_style(dataset, DataLoader):
    everything = [f"{n:04}" for n in range(COUNT)]
    whole = [f"{n:04}" for n in shardpack.Sampler(dataset, seed=1)]

    def loader(workers, sampler):
        return DataLoader(dataset, batch_size=BATCH, sampler=sampler, num_workers=workers, collate_fn=keys)

    for workers in (0, 2, 4):
        plain = DataLoader(dataset, batch_size=BATCH, num_workers=workers, collate_fn=keys)
        check(f"map style as it lies, {workers} workers", sum(plain, []) == everything)
        mixed = DataLoader(dataset, batch_size=BATCH, shuffle=True, num_workers=workers, collate_fn=keys)
        check(f"map style in torch's own order, {workers} workers", sorted(sum(mixed, [])) == everything)
        check(f"map style with a sampler, {workers} workers", sum(loader(workers, shardpack.Sampler(dataset, seed=1)), []) == whole)
        world = 3
        ranks = [sum(loader(workers, shardpack.Sampler(dataset, seed=1, rank=rank, world=world)), []) for rank in range(world)]
        check(f"{world} ranks, {workers} workers", [ranks[n % world][n // world] for n in range(COUNT)] == whole)
        batches = -(-COUNT // BATCH)
        for stop in (0, 1, batches // 2, batches - 1):
            sampler = shardpack.Sampler(dataset, seed=1)
            seen = []
            running = iter(loader(workers, sampler))
            for _ in range(stop):
                seen += next(running)
            state = json.loads(json.dumps(sampler.state_dict(delivered=len(seen))))
            del running
            for world in (1, 2):
                ranks = []
                for rank in range(world):
                    sampler = shardpack.Sampler(dataset, seed=8, rank=rank, world=world)
                    sampler.load_state_dict(state)
                    ranks.append(sum(loader(workers, sampler), []))
                rest = [ranks[n % world][n // world] for n in range(COUNT - len(seen))]
                check(f"resumed after batch {stop} with {world} ranks, {workers} workers", seen + rest == whole)


def iterable(dataset, early, DataLoader):
    whole = [f"{n:04}" for n in shardpack.Sampler(dataset, seed=1)]
    second = shardpack.Sampler(dataset, seed=1)
    second.set_epoch(1)
    second = [f"{n:04}" for n in second]

    def loader(stream, workers, **options):
        return DataLoader(stream, batch_size=BATCH, num_workers=workers, collate_fn=keys, **options)

    for workers in (0, 2, 4):
        early.set_epoch(0)
        check(f"iterable in order, {workers} workers", sum(loader(early, workers), []) == whole)
        early.set_epoch(1)
        check(f"iterable in its second epoch, {workers} workers", sum(loader(early, workers), []) == second)
        one_by_one = shardpack.IterableDataset(dataset, seed=1)
        check(f"iterable dealt one by one, {workers} workers", sorted(sum(loader(one_by_one, workers), [])) == sorted(whole))
        if workers:
            stream = shardpack.IterableDataset(dataset, seed=1, run=BATCH)
            staying = loader(stream, workers, persistent_workers=True)
            check(f"workers that stay go on to the next epoch, {workers} workers", [sum(staying, []), sum(staying, [])] == [whole, second])
        stream = shardpack.IterableDataset(dataset, seed=1, run=BATCH)
        running, seen = iter(loader(stream, workers)), []
        for _ in range(7):
            seen += next(running)
        state = stream.state_dict(delivered=len(seen))
        del running
        ranks = []
        for rank in range(2):
            stream = shardpack.IterableDataset(dataset, run=BATCH, rank=rank, world=2)
            stream.load_state_dict(state)
            ranks.append(sum(loader(stream, workers), []))
        rest = [ranks[n % 2][n // 2] for n in range(COUNT - len(seen))]
        check(f"iterable resumed with 2 ranks, {workers} workers", seen + rest == whole)


def spawned(dataset, DataLoader):
    whole = [f"{n:04}" for n in shardpack.Sampler(dataset, seed=1)]
    options = {"batch_size": BATCH, "num_workers": 2, "multiprocessing_context": "spawn"}
    records = DataLoader(dataset, sampler=shardpack.Sampler(dataset, seed=1), collate_fn=as_is, **options)
    check("records come back from spawned workers", [record.key for batch in records for record in batch] == whole)
    stream = shardpack.IterableDataset(dataset, seed=1, run=BATCH)
    check("iterable in spawned workers", sum(DataLoader(stream, collate_fn=keys, **options), []) == whole)


if __name__ == "__main__":
    main()
