"""Packs from Python against plain reads and other containers: CPU seconds, alternating, medians.

usage: packs.py [--folder DIR] [--rounds 5] [--samples-a 5000] [--samples-b 60000] [--drystone PROGRAM] [--out FILE]

Workload A: 30 to 70 KB of noise and a JSON of some 300 bytes. B: 400 to 1,600 bytes of text. DIR should be in memory (tmpfs), so that
software is measured and not a disk. Each way is measured in a process of its own; in each round all ways come once, so that
noise of the machine spreads over all. Rates are samples for each second of CPU time, all threads. bagz is measured where it is installed
(`pip install bagz`). The packs are also pushed to a hub of their own and read from there with a warm cache, where the program is built; and one
of 300,000 records is opened.
"""

import argparse
import json
import mmap
import os
import random
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from machine import machine

TARGET_DIR = Path(os.environ.get("CARGO_TARGET_DIR", Path(__file__).resolve().parent.parent / "target")).resolve()
READS = {"A": 6000, "B": 60000}


def samples(workload, count):
    """Yields (key, {name: bytes})."""
    numbers = random.Random(1234)
    pool = numbers.randbytes(64 << 20) if workload == "A" else " ".join(numbers.choices(WORDS, k=2_000_000)).encode()
    for n in range(count):
        at = numbers.randrange(len(pool) - 80_000)
        if workload == "A":
            meta = {"id": n, "label": numbers.randrange(1000), "caption": f"sample number {n} " + "lorem ipsum dolor sit amet " * 9}
            yield f"train/{n:09}", {"jpg": pool[at : at + numbers.randrange(30_000, 70_000)], "json": json.dumps(meta).encode()}
        else:
            yield f"doc/{n:09}", {"txt": pool[at : at + numbers.randrange(400, 1600)]}


WORDS = ["".join(random.Random(n).choices("bcdfghklmnprstvzaeiou", k=2 + n % 9)) for n in range(4000)]


def touch(parts):
    for part in parts:
        len(part), part[0]


class Raw:
    """Contents one after another, offsets beside them: what no container can beat without checking less."""

    def write(self, folder, workload, count):
        offsets, at = [], 0
        with open(folder / "raw.bin", "wb", buffering=1 << 20) as file:
            for _, sample in samples(workload, count):
                row = [at]
                for content in sample.values():
                    file.write(content)
                    at += len(content)
                    row.append(at)
                offsets.append(row)
        (folder / "raw.json").write_text(json.dumps(offsets))

    def open(self, folder):
        self.path = folder / "raw.bin"
        self.offsets = json.loads((folder / "raw.json").read_text())
        self.file = os.open(self.path, os.O_RDONLY)

    def get(self, n):
        row = self.offsets[n]
        data = os.pread(self.file, row[-1] - row[0], row[0])
        return (data,) if len(row) == 2 else (data[: row[1] - row[0]], data[row[1] - row[0] :])

    def all(self):
        with open(self.path, "rb", buffering=1 << 20) as file:
            for row in self.offsets:
                yield [file.read(b - a) for a, b in zip(row, row[1:])]


class RawViews(Raw):
    write = None

    def open(self, folder):
        super().open(folder)
        self.view = memoryview(mmap.mmap(self.file, 0, prot=mmap.PROT_READ))

    def get(self, n):
        row = self.offsets[n]
        return [self.view[a:b] for a, b in zip(row, row[1:])]

    def all(self):
        return map(self.get, range(len(self.offsets)))


class Pack:
    options = {}

    def write(self, folder, workload, count):
        import shardpack

        with shardpack.Writer(folder / "x.shardpack") as writer:
            for key, sample in samples(workload, count):
                writer.write(key, sample)

    def open(self, folder):
        import shardpack

        self.dataset = shardpack.open(folder / "x.shardpack", **self.options)

    def get(self, n):
        return [entry.data for entry in self.dataset[n].file_entries()]

    def all(self):
        for record in self.dataset.records():
            yield [entry.data for entry in record.file_entries()]


class PackValues(Pack):
    write = None

    def get(self, n):
        return self.dataset[n].values()

    def all(self):
        for record in self.dataset.records():
            yield record.values()


class PackUnchecked(Pack):
    write = None
    options = {"verify": "off"}


class PackMapped(Pack):
    write = None
    options = {"mmap": True}


class PackMappedValues(PackValues):
    options = {"mmap": True}


class PackMappedUnchecked(PackValues):
    options = {"mmap": True, "verify": "off"}


class PackViewsUnchecked(Pack):
    write = None
    options = {"mmap": True, "verify": "off"}

    def get(self, n):
        return [entry.view for entry in self.dataset[n].file_entries()]

    def all(self):
        for record in self.dataset.records():
            yield [entry.view for entry in record.file_entries()]


class PackBatches(Pack):
    """Records asked for 64 at a time."""

    write = None

    def get_many(self, numbers):
        for at in range(0, len(numbers), 64):
            for record in self.dataset.read_batch(numbers[at : at + 64]):
                touch(record.values())


class PackInHub(PackValues):
    """Pushed by main; all is read once, so that the cache has it."""

    def open(self, folder):
        import drystone
        import shardpack

        client = drystone.Client(os.environ["BENCH_HUB"], os.environ["BENCH_TOKEN"], cache_dir=folder / "cache")
        self.dataset = shardpack.open(f"drystone://datasets/bench/{folder.name.lower()}/x.shardpack", client=client)
        for _ in self.dataset.records():
            pass


class Bagz:
    def write(self, folder, workload, count):
        import bagz

        with bagz.Writer(folder / "x.bag", bagz.Writer.Options(compression=bagz.CompressionNone())) as writer:
            for _, sample in samples(workload, count):
                contents = list(sample.values())
                writer.write(struct.pack(f"<{len(contents)}I", *map(len, contents)) + b"".join(contents))

    def open(self, folder):
        import bagz

        self.reader = bagz.Reader(folder / "x.bag")
        self.count = 2 if folder.name == "A" else 1

    def split(self, data):
        at = 4 * self.count
        parts = []
        for size in struct.unpack_from(f"<{self.count}I", data):
            parts.append(data[at : at + size])
            at += size
        return parts

    def get(self, n):
        return self.split(self.reader[n])

    def all(self):
        return map(self.split, self.reader)


WAYS = {
    "plain reads": Raw, "plain views": RawViews, "bagz": Bagz,
    "pack": Pack, "pack, values": PackValues, "pack, unchecked": PackUnchecked, "pack, batches": PackBatches,
    "mapped pack": PackMapped, "mapped pack, values": PackMappedValues, "mapped pack, unchecked": PackMappedUnchecked,
    "mapped pack, views unchecked": PackViewsUnchecked, "pack in a hub, values": PackInHub,
}


class Hub:
    """Our server on a folder, with the packs in it."""

    def __init__(self, program, folder):
        self.process = subprocess.Popen([program, "serve", "--listen", "127.0.0.1:0", "--data", folder / "data"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.url = next(line for line in self.process.stdout if line.startswith("listening on ")).split()[-1]
        self.token = (folder / "data" / "admin.token").read_text().strip()

    def take(self, pack, repo):
        import drystone

        drystone.Client(self.url, self.token).push(pack, f"datasets/bench/{repo}", create=True)

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=60)


def measure(way, folder, count):
    """In a process of its own."""
    folder = Path(folder)
    reader = WAYS[way]()
    if reader.write:
        start = time.process_time()
        reader.write(folder, folder.name, count)
        wrote = time.process_time() - start
    start = time.process_time()
    reader.open(folder)
    opened = time.process_time() - start
    numbers = random.Random(7).choices(range(count), k=READS[folder.name])
    result = {"way": way, "workload": folder.name, "open_ms": opened * 1e3}
    if reader.write:
        result["write"] = count / wrote
    start = time.process_time()
    for parts in reader.all():
        touch(parts)
    result["sequential"] = count / (time.process_time() - start)
    start = time.process_time()
    if hasattr(reader, "get_many"):
        reader.get_many(numbers)
    else:
        for n in numbers:
            touch(reader.get(n))
    result["random"] = len(numbers) / (time.process_time() - start)
    print(json.dumps(result))


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--folder", default="/dev/shm")
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--samples-a", type=int, default=5000)
    arguments.add_argument("--samples-b", type=int, default=60000)
    arguments.add_argument("--drystone", type=Path, default=TARGET_DIR / "release" / "drystone")
    arguments.add_argument("--out")
    options = arguments.parse_args()
    try:
        import bagz  # noqa: F401
    except ImportError:
        del WAYS["bagz"]
        print("bagz is not installed", file=sys.stderr)
    results = []
    root = Path(tempfile.mkdtemp(dir=options.folder))
    hub, environment = None, dict(os.environ)
    if options.drystone.exists():
        hub = Hub(options.drystone, root)
        environment |= {"BENCH_HUB": hub.url, "BENCH_TOKEN": hub.token}
    else:
        del WAYS["pack in a hub, values"]
        print(f"{options.drystone} is not built", file=sys.stderr)
    try:
        for round_number in range(options.rounds):
            for workload, count in (("A", options.samples_a), ("B", options.samples_b)):
                (root / workload).mkdir(exist_ok=True)
                for way in WAYS:
                    if way == "pack in a hub, values" and round_number == 0:
                        hub.take(root / workload / "x.shardpack", workload.lower())
                    ran = subprocess.run([sys.executable, __file__, "--measure", way, root / workload, str(count)], stdout=subprocess.PIPE, text=True, check=True,
                                         env=environment)
                    results.append({"round": round_number, **json.loads(ran.stdout)})
                print(f"round {round_number + 1}, workload {workload}", file=sys.stderr)
        opened = large_pack(root)
    finally:
        if hub:
            hub.stop()
        shutil.rmtree(root)
    if options.out:
        Path(options.out).write_text("".join(json.dumps(result) + "\n" for result in results))
    show(results)
    print(f"a pack of 300,000 records opens in {opened:.1f} ms of CPU (15 at most)")


def large_pack(root):
    """CPU milliseconds that opening takes, median of nine processes."""
    import shardpack

    path = root / "large.shardpack"
    with shardpack.Writer(path) as writer:
        for n in range(300_000):
            writer.write(f"{n:09}", {"txt": b"a few bytes"})
    code = "import sys, time, shardpack; begin = time.process_time(); dataset = shardpack.open(sys.argv[1]); took = time.process_time() - begin; assert len(dataset) == 300_000; print(took * 1e3)"
    return statistics.median(float(subprocess.run([sys.executable, "-c", code, path], stdout=subprocess.PIPE, text=True, check=True).stdout) for _ in range(9))


def show(results):
    """Medians of ratios within each round."""
    print(machine())
    print(f"{'':30} {'sequential A':>12} {'B':>8} {'random A':>12} {'B':>8}")
    for way in WAYS:
        cells = []
        for what in ("sequential", "random"):
            for workload in ("A", "B"):
                def of(name):
                    return {one["round"]: one[what] for one in results if (one["way"], one["workload"]) == (name, workload)}
                ours, plain = of(way), of("plain reads")
                cells.append(f"{statistics.median(ours[n] / plain[n] for n in ours):.2f}")
        print(f"{way:30} {cells[0]:>12} {cells[1]:>8} {cells[2]:>12} {cells[3]:>8}")
    for workload in ("A", "B"):
        plain = [one for one in results if (one["way"], one["workload"]) == ("plain reads", workload)]
        pack = [one for one in results if (one["way"], one["workload"]) == ("pack", workload)]
        print(f"{workload}: plain reads {statistics.median(one['random'] for one in plain):,.0f} a second at random, {statistics.median(one['sequential'] for one in plain):,.0f} in order; "
              f"a pack opens in {statistics.median(one['open_ms'] for one in pack):.1f} ms and is written at {statistics.median(one['write'] for one in pack) / statistics.median(one['write'] for one in plain):.2f} of plain writes")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        measure(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    else:
        main()
