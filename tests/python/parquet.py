"""Parquet that pyarrow wrote becomes packs, and packs become Parquet that pyarrow reads.

usage: parquet.py SHARDPACK

Ends with a line `parquet: N passed, M failed`.
"""

import datetime
import json
import os
import random
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

import pyarrow
import pyarrow.parquet
import shardpack

passed = failed = 0


def check(name, ok, detail=""):
    global passed, failed
    if ok:
        passed += 1
    else:
        failed += 1
    print(f"{'ok' if ok else 'FAILED'}: {name} {detail if not ok else ''}".rstrip(), flush=True)


def rows(count):
    noise = random.Random(3)
    for n in range(count):
        yield {
            "image": {"bytes": noise.randbytes(noise.randrange(1, 3000)), "path": f"{n}.png"},
            "blob": noise.randbytes(n % 50),
            "text": f"größe {n}" if n % 5 else None,
            "label": n - 20,
            "score": n / 8,
            "good": n % 2 == 0,
            "tags": [f"t{k}" for k in range(n % 4)],
            "nested": {"a": n, "b": [1.5, None]},
            "day": datetime.date(2020, 1, 1 + n % 28),
        }


def from_parquet(run, folder):
    wanted = list(rows(100))
    table = pyarrow.Table.from_pylist(wanted)
    for codec in ("snappy", "zstd", "gzip", "none"):
        pyarrow.parquet.write_table(table, folder / f"{codec}.parquet", compression=codec, row_group_size=30)
        run("convert", folder / f"{codec}.parquet", "--output", folder / f"{codec}.shardpack")
        dataset = shardpack.open(folder / f"{codec}.shardpack")
        check(f"rows are records, {codec}", len(dataset) == 100 and dataset[7].key == f"{codec}/00000007")
        check(f"bytes and texts as they are, {codec}", all(
            record["blob"].data == row["blob"] and (record["text"].data.decode() == row["text"] if row["text"] else "text" not in record)
            for record, row in zip(dataset, wanted)))
        check(f"pictures are files, {codec}", all(
            record["image"].data == row["image"]["bytes"] and record["image"].content_type == "image/png" for record, row in zip(dataset, wanted)))
        names = ["label", "score", "good", "tags", "nested"]
        decoded = [record.decode(names) for record in dataset]
        check(f"numbers, lists and groups as JSON, {codec}", [[one[name] for name in names] for one in decoded] == [[row[name] for name in names] for row in wanted], decoded[:1])
        check(f"days as people write them, {codec}", json.loads(dataset[3]["day"].data).startswith("2020-01-04"), dataset[3]["day"].data)
    keyed = pyarrow.table({"__key__": ["a/1", "b/2"], "x.json": ['{"k": 1}', "2"]})
    pyarrow.parquet.write_table(keyed, folder / "keyed.parquet")
    run("convert", folder / "keyed.parquet", "--output", folder / "keyed.shardpack")
    dataset = shardpack.open(folder / "keyed.shardpack")
    check("a column of keys, and types by names", [record.key for record in dataset] == ["a/1", "b/2"] and dataset[0].decode()["x.json"] == {"k": 1} and len(dataset[0]) == 1)


def to_parquet(run, folder):
    samples = {f"k/{n:03}": {"x.jpg": random.Random(n).randbytes(n * 10), "t.txt": f"ö{n}", "m.json": json.dumps({"n": n})} for n in range(200)}
    with shardpack.Writer(folder / "out.shardpack", compression="lz4") as writer:
        for n, (key, sample) in enumerate(samples.items()):
            writer.write(key, sample if n % 10 else {"t.txt": sample["t.txt"]})
    run("convert", folder / "out.shardpack", "--to", "parquet", "--output", folder / "out.parquet")
    table = pyarrow.parquet.read_table(folder / "out.parquet")
    types = {field.name: str(field.type) for field in table.schema}
    check("columns and their types", types["__key__"] == "string" and types["x.jpg"] == "binary" and types["t.txt"] == "string" and "m.json" in types, types)
    found = table.to_pylist()
    check("every record is a row", [row["__key__"] for row in found] == list(samples))
    check("contents, and nulls where there is none", all(
        (row["x.jpg"] == sample["x.jpg"] if n % 10 else row["x.jpg"] is None) and row["t.txt"] == sample["t.txt"]
        for n, (row, sample) in enumerate(zip(found, samples.values()))))
    run("convert", folder / "out.parquet", "--output", folder / "again.shardpack")
    again, before = shardpack.open(folder / "again.shardpack"), shardpack.open(folder / "out.shardpack")
    there = [{entry.name: (entry.content_type, entry.data) for entry in record} for record in before]
    check("and back again", [{entry.name: (entry.content_type, entry.data) for entry in record} for record in again] == there
          and [record.key for record in again] == [record.key for record in before])


def damaged(program, folder):
    whole = (folder / "zstd.parquet").read_bytes()
    (folder / "cut.parquet").write_bytes(whole[: len(whole) // 2])
    ran = subprocess.run([program, "convert", folder / "cut.parquet", "--output", folder / "cut.shardpack"], capture_output=True, text=True)
    check("a cut file is refused and named", ran.returncode == 1 and "cut.parquet" in ran.stderr and not (folder / "cut.shardpack").exists(), ran.stderr)


def main(program):
    def run(*arguments):
        subprocess.run([program, *arguments], check=True, stdout=subprocess.DEVNULL)

    with tempfile.TemporaryDirectory() as folder:
        try:
            from_parquet(run, Path(folder))
            to_parquet(run, Path(folder))
            damaged(program, Path(folder))
        except Exception:
            traceback.print_exc()
            check("everything ran", False)
    print(f"parquet: {passed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main(os.path.abspath(sys.argv[1]))
