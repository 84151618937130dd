"""Packs from Python: what `import shardpack` promises, without torch.

usage: pack.py

Ends with a line `packs from python: N passed, M failed`.
"""

import io
import itertools
import json
import multiprocessing
import os
import pickle
import random
import sys
import tempfile
import threading
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


def raises(kind, work):
    """The exception of this kind that work ends in; anything else is shown, and is nothing."""
    try:
        work()
    except kind as error:
        return error
    except Exception as error:
        print(f"  {type(error).__name__}: {error}")
    return None


def make(path, count, **options):
    """A pack of samples with a picture that is noise, a JSON and an array; returns what it holds."""
    noise = random.Random(str(path.name))
    samples = {}
    with shardpack.Writer(path, metadata={"creator": "MyName"}, **options) as writer:
        for n in range(count):
            key = f"images17/image{n:04}"
            samples[key] = {"left.jpg": noise.randbytes(noise.randrange(20_000)), "meta.json": json.dumps({"n": n}).encode()}
            array = numpy.arange(n % 50, dtype="<f4").reshape(-1, 1)
            writer.write(key, {**samples[key], "depth.npy": array}, {"label": n})
            out = io.BytesIO()
            numpy.save(out, array)
            samples[key]["depth.npy"] = out.getvalue()
    return samples


def contents(record):
    return {entry.name: entry.data for entry in record.file_entries()}


def the_two_snippets(folder):
    path = str(folder / "dataset-train-000000.shardpack")
    samples = make(Path(path), 200)
    seen = []
    decode_jpeg = bytes

    dataset = shardpack.open(path)
    for record in dataset.records():
        for entry in record.file_entries():
            if entry.content_type == "image/jpeg":
                image = decode_jpeg(entry.data)
            elif entry.content_type == "application/json":
                annotation = json.loads(entry.data)
        seen.append((image, annotation["n"]))
    check("the specification's loop sees every sample", seen == [(sample["left.jpg"], n) for n, sample in enumerate(samples.values())])

    index = dataset.get_index()
    random_record_offset = index[123]
    record = dataset.read_record_at_offset(random_record_offset)
    check("a record at an offset of the index", f"Record key: {record.key}" == "Record key: images17/image0123")
    check("the index has an offset for each record", len(index) == 200 and list(index) == sorted(index) and index[0] == 0)
    check("an offset that no record begins at is refused", raises(ValueError, lambda: dataset.read_record_at_offset(index[1] + 8)))


def reading(folder):
    samples = {}
    for number in range(3):
        samples.update(make(folder / f"read-{number:06}.shardpack", 40 + number, compression=["none", "lz4", "zstd"][number]))
    # Keys repeat from pack to pack: the same numbers, other noise.
    packs = [make(folder / f"many-{number:06}.shardpack", 40 + number, compression=["none", "lz4", "zstd"][number]) for number in range(3)]
    wanted = [(key, sample) for pack in packs for key, sample in pack.items()]
    pattern = str(folder / "many-{000000..000002}.shardpack")
    for mmap in (False, True):
        way = "mapped" if mmap else "read"
        dataset = shardpack.open(pattern, mmap=mmap)
        check(f"packs count as one, {way}", len(dataset) == 123)
        check(f"all records, {way}", [(record.key, contents(record)) for record in dataset] == wanted)
        order = random.Random(1).sample(range(123), 123)
        check(f"records by number, {way}", all(contents(dataset[n]) == wanted[n][1] for n in order))
        check(f"numbers from the end, {way}", dataset[-1].key == wanted[-1][0] and contents(dataset[-123]) == wanted[0][1])
        batch = dataset.read_batch(order + order[:5])
        check(f"a batch comes in the order asked for, {way}", [contents(record) for record in batch] == [wanted[n][1] for n in order + order[:5]])
        check(f"a slice, {way}", [record.key for record in dataset[100:10:-30]] == [wanted[n][0] for n in (100, 70, 40)][:3])
        check(f"a part of the records, {way}", [contents(record) for record in dataset.records(38, 45)] == [sample for _, sample in wanted[38:45]])
        index = dataset.get_index()
        check(f"offsets of many packs, {way}", all(contents(dataset.read_record_at_offset(index[n])) == wanted[n][1] for n in order[:20]))
        check(f"a record by key, {way}", contents(dataset["images17/image0007"]) == wanted[7][1] and "images17/image0041" in dataset)
        check(f"records outlives_others do not change when others are read, {way}", outlives_others(dataset, wanted))
        held = list(dataset)
        check(f"all records held at once, {way}", [contents(record) for record in held] == [sample for _, sample in wanted])
        check(f"threads read at the same time, {way}", in_threads(dataset, wanted))
    dataset = shardpack.open(pattern)
    check("a number too high is an IndexError", raises(IndexError, lambda: dataset[123]) and raises(IndexError, lambda: dataset[-124]))
    check("a key that is not there is a KeyError", raises(KeyError, lambda: dataset["nobody"]) and "nobody" not in dataset)
    check("an entry that is not there is a KeyError", raises(KeyError, lambda: dataset[0]["nothing"]) and dataset[0].get("nothing") is None)
    check("a file that is not there is a FileNotFoundError", raises(FileNotFoundError, lambda: shardpack.open(folder / "no.shardpack")))
    (folder / "text.shardpack").write_text("no pack " * 100)
    check("a file that is no pack is refused", raises(shardpack.PackError, lambda: shardpack.open(folder / "text.shardpack")))
    check("metadata of pack and record", dataset.metadata == {"creator": "MyName"} and dataset[7].metadata == {"label": 7})
    check("folders and lists are datasets", len(shardpack.open([folder / "many-000000.shardpack", folder / "many-000001.shardpack"])) == 81)
    check("what is shown of them", "123 records" in repr(dataset) and "left.jpg" in repr(dataset[0]) and "image/jpeg" in repr(dataset[0]["left.jpg"]),
          f"{dataset!r} {dataset[0]!r} {dataset[0]['left.jpg']!r}")
    check("a bad option names what it may be", "crc" in str(raises(ValueError, lambda: shardpack.open(pattern, verify="maybe"))))


def outlives_others(dataset, wanted):
    records = [dataset[n] for n in range(0, 120, 7)]
    entries = [record["left.jpg"] for record in records]
    list(dataset)
    return all(entry.data == wanted[n][1]["left.jpg"] for n, entry in zip(range(0, 120, 7), entries))


def in_threads(dataset, wanted):
    wrong = []

    def work(seed):
        for n in random.Random(seed).choices(range(123), k=300):
            if contents(dataset[n]) != wanted[n][1]:
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return not wrong


def views(folder):
    path = folder / "views.shardpack"
    with shardpack.Writer(path, align=64) as writer:
        for n in range(20):
            writer.write(f"{n}", {"x.npy": numpy.full((3, 5), n, dtype="<i8", order="F" if n % 2 else "C"), "raw": b"abc" * n, "t.txt": f"é{n}",
                                  "j.json": [n, {"a": None}]})
    dataset = shardpack.open(path, mmap=True)
    record = dataset[7]
    array = record["x.npy"].numpy()
    check("an array comes back with its shape", array.shape == (3, 5) and (array == 7).all() and array.dtype == numpy.dtype("<i8"))
    check("an array is a view of the file", not array.flags.owndata and not array.flags.writeable and array.ctypes.data % 64 == 0)
    view = record["raw"].view
    del record, dataset
    check("a view outlives its dataset", bytes(view) == b"abc" * 7 and array.sum() == 105)
    dataset = shardpack.open(path)
    check("a view of bytes that were read", bytes(dataset[5]["raw"].view) == b"abc" * 5 and (dataset[3]["x.npy"].numpy() == 3).all())
    decoded = dataset[6].decode()
    check("entries decode by their types", decoded["__key__"] == "6" and decoded["t.txt"] == "é6" and decoded["j.json"] == [6, {"a": None}]
          and decoded["raw"] == b"abc" * 6 and decoded["x.npy"].shape == (3, 5), decoded)
    shardpack.decode.decoders["text/plain"] = lambda entry: len(entry)
    check("a decoder can be replaced", dataset[6].decode()["t.txt"] == 3)
    del shardpack.decode.decoders["text/plain"]
    objects = io.BytesIO()
    numpy.save(objects, numpy.array([{}], dtype=object))
    with shardpack.Writer(path) as writer:
        writer.write("k", {"x.npy": objects.getvalue()})
    check("an array of objects is refused", raises(ValueError, lambda: shardpack.open(path)[0].decode()))
    try:
        import PIL.Image
    except ImportError:
        print("skipped: images, there is no Pillow")
        return
    out = io.BytesIO()
    PIL.Image.new("RGB", (4, 3), (255, 0, 0)).save(out, "PNG")
    with shardpack.Writer(path) as writer:
        writer.write("k", {"x.png": out.getvalue()})
    image = shardpack.open(path)[0].decode()["x.png"]
    check("a picture decodes", image.size == (4, 3) and image.getpixel((0, 0)) == (255, 0, 0))


def damage(folder):
    path = folder / "damage.shardpack"
    samples = list(make(path, 50).values())
    whole = path.read_bytes()
    dataset = shardpack.open(path)
    at = dataset.get_index()[20] + 200
    broken = bytearray(whole)
    broken[at] ^= 1
    path.write_bytes(broken)
    for mmap in (False, True):
        dataset = shardpack.open(path, mmap=mmap)
        error = raises(shardpack.CorruptError, lambda: dataset[20])
        check(f"a flipped byte is found and named, mmap={mmap}",
              error and error.ordinal == 20 and error.key == "images17/image0020" and error.pack == str(path) and error.entry == "left.jpg" and error.offset,
              f"{error} {error and vars(error)}")
        check(f"and by the sequence, mmap={mmap}", raises(shardpack.CorruptError, lambda: list(dataset)))
        check(f"and by a batch, mmap={mmap}", raises(shardpack.CorruptError, lambda: dataset.read_batch([1, 20, 2])))
        check(f"others are read, mmap={mmap}", contents(dataset[21]) == samples[21])
        skipping = shardpack.open(path, mmap=mmap, on_error="skip")
        records = skipping.records()
        check(f"skipped, {mmap=}", len([record.key for record in records]) == 49 and records.skipped == 1)
        check(f"skipped in a batch, {mmap=}", [record and record.ordinal for record in skipping.read_batch([19, 20, 21])] == [19, None, 21])
        check(f"unchecked on demand, {mmap=}", contents(shardpack.open(path, verify=False, mmap=mmap)[20]) != samples[20])
    cut = whole[: len(whole) * 3 // 4]
    path.write_bytes(cut)
    check("a cut pack is refused", raises(shardpack.PackError, lambda: shardpack.open(path)))
    recovered = [contents(record) for record in shardpack.open(path, recover=True)]
    check("and its whole records come back", 30 <= len(recovered) < 50 and recovered == samples[: len(recovered)])


def writing(folder):
    path = folder / "new" / "w.shardpack"
    path.parent.mkdir()

    def fails():
        with shardpack.Writer(path) as writer:
            writer.write("a", {"x.bin": b"1"})
            raise RuntimeError("stop")

    check("a pack that was not finished is not there", raises(RuntimeError, fails) and list(path.parent.iterdir()) == [])
    with shardpack.Writer(path, compression="zstd", shard_records=3, threads=2) as writer:
        for n in range(10):
            writer.write(f"{n}", {"a.bin": bytearray(b"x" * n), "b": memoryview(b"yy"), "c": ("image/x-mask", b"z")}, b"raw")
    names = sorted(file.name for file in path.parent.iterdir())
    check("packs are numbered when they are full", names == [f"w-{n:06}.shardpack" for n in range(4)], names)
    dataset = shardpack.open(path.parent)
    check("what was written", [contents(record) for record in dataset] == [{"a.bin": b"x" * n, "b": b"yy", "c": b"z"} for n in range(10)])
    record = dataset[9]
    check("types, metadata and compression", record["c"].content_type == "image/x-mask" and record.metadata == b"raw"
          and shardpack.open(path.parent)[0]["a.bin"].content_type == "application/octet-stream")
    one = folder / "one.shardpack"
    writer = shardpack.Writer(one)
    check("a value that cannot be stored is refused", raises(TypeError, lambda: writer.write("a", {"x.jpg": object()})))
    check("an array under another name is refused", raises(TypeError, lambda: writer.write("a", {"x.bin": numpy.zeros(3)})))
    check("an empty key is refused", raises((ValueError, shardpack.PackError), lambda: writer.write("", {"x": b""})))
    writer.write("a", {"x.cls": 3})
    check("closing names the packs", [str(name) for name in writer.close()] == [str(one)] and writer.close() == [])
    check("a closed writer refuses", raises(ValueError, lambda: writer.write("b", {})))
    check("a number is text", shardpack.open(one)[0]["x.cls"].data == b"3")
    with shardpack.Writer(folder / "empty.shardpack"):
        pass
    empty = shardpack.open(folder / "empty.shardpack")
    check("an empty pack", len(empty) == 0 and list(empty) == [] and len(empty.get_index()) == 0 and list(shardpack.IterableDataset(empty)) == [])


def in_child(dataset, wanted, results):
    try:
        stream = shardpack.IterableDataset(dataset, seed=3)
        keys = [record.key for record in stream]
        results.put(contents(dataset[17]) == wanted and len(set(keys)) == len(dataset))
    except BaseException as error:
        results.put(repr(error))


def processes(folder):
    path = folder / "processes.shardpack"
    samples = list(make(path, 100).values())
    for mmap in (False, True):
        dataset = shardpack.open(path, mmap=mmap, verify="header", on_error="skip")
        # So that there are buffers, views and threads before the fork.
        stream = iter(shardpack.IterableDataset(dataset))
        next(stream), dataset[3], dataset[3]["left.jpg"].view
        for method in ("fork", "spawn"):
            context = multiprocessing.get_context(method)
            results = context.Queue()
            child = context.Process(target=in_child, args=(dataset, samples[17], results))
            child.start()
            result = results.get(timeout=120)
            child.join(120)
            check(f"a dataset in a child by {method}, {mmap=}", result is True and child.exitcode == 0, result)
        again = pickle.loads(pickle.dumps(dataset))
        check(f"a pickled dataset is the same, {mmap=}", contents(again[5]) == samples[5] and again.identity == dataset.identity)
    record = pickle.loads(pickle.dumps(dataset[9]))
    entry = pickle.loads(pickle.dumps(dataset[9]["meta.json"]))
    check("records and entries are pickled", contents(record) == samples[9] and record.ordinal == 9 and entry.data == samples[9]["meta.json"])
    if hasattr(os, "fork"):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            outcome = b"no"
            try:
                list(stream)
            except RuntimeError:
                outcome = b"ok"
            os.write(write, outcome)
            os._exit(0)
        os.waitpid(child, 0)
        check("a stream of another process refuses instead of waiting", os.read(read, 2) == b"ok")
        os.close(read), os.close(write)


def order(folder):
    path = folder / "order.shardpack"
    count = 97
    make(path, count)
    dataset = shardpack.open(path)

    def epoch(**options):
        return [record.ordinal for record in shardpack.IterableDataset(dataset, **options)]

    for kind in ("sequential", "full", "block"):
        options = {"order": kind, "seed": 5, "block_records": 7, "window_blocks": 3}
        whole = epoch(**options)
        check(f"every record once, {kind}", sorted(whole) == list(range(count)))
        check(f"the sampler has the same order, {kind}", list(shardpack.Sampler(dataset, **options)) == whole)
        check(f"reading ahead does not change it, {kind}",
              epoch(prefetch_bytes=0, **options) == whole and epoch(prefetch_bytes=1, prefetch_threads=3, **options) == whole)
        for world in (2, 3, 5):
            ranks = [epoch(rank=rank, world=world, **options) for rank in range(world)]
            woven = [ranks[n % world][n // world] for n in range(count)]
            check(f"{world} ranks share it, {kind}", woven == whole and sum(map(len, ranks)) == count)
        for stop in (0, 1, count // 2, count - 1):
            run = shardpack.IterableDataset(dataset, **options)
            before = [record.ordinal for record in itertools.islice(run, stop)]
            state = json.loads(json.dumps(run.state_dict()))
            after = shardpack.IterableDataset(dataset, order="sequential", seed=99)
            after.load_state_dict(state)
            check(f"resumed at {stop}, {kind}", before + [record.ordinal for record in after] == whole)
            for world in (2, 4):
                ranks = []
                for rank in range(world):
                    sampler = shardpack.Sampler(dataset, rank=rank, world=world)
                    sampler.load_state_dict(state)
                    ranks.append(list(sampler))
                left = count - stop
                check(f"resumed at {stop} with {world} ranks, {kind}", [ranks[n % world][n // world] for n in range(left)] == whole[stop:])
    sampler = shardpack.Sampler(dataset, seed=5)
    first, second = list(sampler), list(sampler)
    check("the next epoch has another order", first != second and sorted(second) == sorted(first) and sampler.epoch == 1)
    again = shardpack.Sampler(dataset, seed=5)
    again.set_epoch(1)
    check("an epoch can be chosen", list(again) == second)
    check("a pass that is over is the next one's beginning", again.state_dict()["epoch"] == 2 and again.state_dict(97)["epoch"] == 2
          and again.state_dict(96) == {**again.state_dict(), "epoch": 1, "position": 96})
    for remainder, lengths in (("keep", [20, 20, 19, 19, 19]), ("pad", [20] * 5), ("drop", [19] * 5)):
        samplers = [shardpack.Sampler(dataset, rank=rank, world=5, remainder=remainder) for rank in range(5)]
        check(f"what is left over, {remainder}", [len(sampler) for sampler in samplers] == lengths == [len(list(sampler)) for sampler in samplers])
    make(folder / "other.shardpack", 96)
    other = shardpack.Sampler(shardpack.open(folder / "other.shardpack"))
    check("the state of another dataset is refused", raises(ValueError, lambda: other.load_state_dict(sampler.state_dict())))
    check("nonsense is refused", raises(ValueError, lambda: shardpack.Sampler(dataset, rank=2, world=2)) and raises(ValueError, lambda: shardpack.Sampler(dataset, order="odd"))
          and raises(ValueError, lambda: sampler.load_state_dict({**sampler.state_dict(), "version": 9})))
    decoded = shardpack.IterableDataset(dataset, decode=["meta.json"], transform=lambda sample: sample["meta.json"]["n"], order="sequential")
    check("samples are decoded and changed on the way", list(decoded) == list(range(count)))
    stream = shardpack.IterableDataset(dataset, order="full", prefetch_bytes=100_000)
    iterator = iter(stream)
    taken = [next(iterator) for _ in range(5)]
    check("an iteration can be left", len(taken) == 5)
    del iterator


def main():
    with tempfile.TemporaryDirectory() as folder:
        for part in (the_two_snippets, reading, views, damage, writing, processes, order):
            print(f"== {part.__name__}", flush=True)
            work = Path(folder) / part.__name__
            work.mkdir()
            try:
                part(work)
            except Exception:
                import traceback

                traceback.print_exc()
                check(part.__name__, False)
    check("torch was not brought in", "torch" not in sys.modules)
    print(f"packs from python: {passed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
