"""Datasets that others wrote become packs, and back, with the contents they had.

usage: peers.py SHARDPACK

WebDataset is written and read by `webdataset`, MDS by `mosaicml-streaming`. Ends with a line `peers: N passed, M failed`.
"""

import importlib.abc
import importlib.machinery
import json
import os
import random
import subprocess
import sys
import tempfile
import types
from pathlib import Path

import numpy
import shardpack

passed = failed = 0


def check(name, ok, detail=""):
    global passed, failed
    if ok:
        passed += 1
    else:
        failed += 1
    print(f"{'ok' if ok else 'FAILED'}: {name} {detail if not ok else ''}".rstrip(), flush=True)


class Absent(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Modules that streaming imports for its tokenizers and pictures, which nothing here uses, and which are huge."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("transformers", "torchvision"):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        module = types.ModuleType(spec.name)
        module.__getattr__ = self.anything
        return module

    def exec_module(self, module):
        pass

    @staticmethod
    def anything(name):
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


def samples(count):
    noise = random.Random(5)
    for n in range(count):
        yield f"train/{n % 3}.d/{n:05}", {
            "left.jpg": noise.randbytes(noise.randrange(30_000)),
            "json": {"n": n, "caption": "schön " * (n % 9)},
            "cls": n % 7,
            "txt": f"text of {n} ö",
            "npy": numpy.arange(n % 40, dtype="<f4"),
        }


def web_dataset(run, folder):
    import webdataset

    tars = str(folder / "wds-%04d.tar")
    with webdataset.ShardWriter(tars, maxcount=30, verbose=0) as writer:
        for key, sample in samples(100):
            writer.write({"__key__": key, **sample})
    run("convert", folder / "wds-{0000..0003}.tar", "--output", folder / "wds.shardpack")
    dataset = shardpack.open(folder / "wds.shardpack")
    wanted = list(samples(100))
    check("WebDataset: the samples and their order", [record.key for record in dataset] == [key for key, _ in wanted])
    names = ("left.jpg", "json", "cls", "txt", "npy")
    check("WebDataset: entries", all(sorted(entry.name for entry in record) == sorted(names) for record in dataset))
    check("WebDataset: raw contents", all(record["left.jpg"].data == sample["left.jpg"] for record, (_, sample) in zip(dataset, wanted)))
    decoded = [record.decode(["json", "cls", "txt", "npy"]) for record in dataset]
    check("WebDataset: decoded contents", all(
        [one["json"], int(one["cls"]), one["txt"]] == [sample["json"], sample["cls"], sample["txt"]] and (one["npy"] == sample["npy"]).all()
        for one, (_, sample) in zip(decoded, wanted)), decoded[:1])

    # And back, read by the reader of the others.
    run("convert", folder / "wds.shardpack", "--to", "webdataset", "--output", folder / "back.tar")
    back = list(webdataset.WebDataset(str(folder / "back.tar"), shardshuffle=False))
    check("WebDataset: back again", [one["__key__"] for one in back] == [key for key, _ in wanted]
          and all(one["left.jpg"] == sample["left.jpg"] and json.loads(one["json"]) == sample["json"] for one, (_, sample) in zip(back, wanted)))


def mosaic(run, folder):
    sys.meta_path.append(Absent())
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    from streaming import MDSWriter

    columns = {"image": "bytes", "label": "int", "score": "float64", "caption": "str", "meta": "json", "small": "uint8", "vector": "ndarray:float32:4"}

    def row(n, sample):
        return {"image": sample["left.jpg"], "label": n - 50, "score": n / 8, "caption": sample["txt"], "meta": sample["json"],
                "small": numpy.uint8(n), "vector": numpy.full(4, n, dtype="float32")}

    wanted = [row(n, sample) for n, (_, sample) in enumerate(samples(100))]
    with MDSWriter(out=str(folder / "mds"), columns=columns, size_limit=1 << 19) as writer:
        for one in wanted:
            writer.write(one)
    run("convert", "--from", "mds", folder / "mds", "--output", folder / "mds.shardpack", "--compression", "zstd")
    dataset = shardpack.open(folder / "mds.shardpack")
    check("MDS: several shards, every sample", len(list((folder / "mds").glob("*.mds"))) > 1 and len(dataset) == 100)
    names = ["caption", "label", "meta", "score", "small"]
    decoded = [record.decode(names) for record in dataset]
    check("MDS: numbers, texts and JSON", all([one[name] for name in names] == [row[name] for name in names] for one, row in zip(decoded, wanted)), decoded[:1])
    check("MDS: bytes", all(record["image"].data == row["image"] for record, row in zip(dataset, wanted)))
    check("MDS: arrays of a fixed shape", all((numpy.frombuffer(record["vector"].data, "<f4") == row["vector"]).all() for record, row in zip(dataset, wanted)))


def main(program):
    def run(*arguments):
        subprocess.run([program, *arguments], check=True, stdout=subprocess.DEVNULL)

    with tempfile.TemporaryDirectory() as folder:
        for part in (web_dataset, mosaic):
            try:
                part(run, Path(folder))
            except Exception:
                import traceback

                traceback.print_exc()
                check(part.__name__, False)
    print(f"peers: {passed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main(os.path.abspath(sys.argv[1]))
