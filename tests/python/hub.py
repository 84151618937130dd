"""Files in a hub from Python: `import drystone`, fsspec, pandas, pyarrow, and packs that stay in the hub.

usage: hub.py DRYSTONE

Ends with a line `hub from python: N passed, M failed`.
"""

import asyncio
import io
import json
import multiprocessing
import os
import pickle
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path

import drystone
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


class Server:
    """The binary on a folder. Started again, it is at the same port."""

    def __init__(self, program, data):
        self.program, self.data, self.port = program, data, 0
        self.log = open(data.parent / "server.log", "ab")
        self.start()

    def start(self):
        command = [self.program, "serve", "--listen", f"127.0.0.1:{self.port}", "--data", self.data]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log, text=True)
        for line in self.process.stdout:
            if line.startswith("listening on "):
                self.url = line.split()[-1]
                self.port = int(self.url.rpartition(":")[2])
                self.token = (self.data / "admin.token").read_text().strip()
                return
        raise SystemExit(f"the server ended: {self.process.wait()}")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=60)
        self.process.stdout.close()


def noise(seed, size):
    return random.Random(seed).randbytes(size)


def limited_s(client, folder):
    """How long 3 MB take at a MB each second."""
    slow = drystone.Client(client.endpoint, bandwidth=1_000_000)
    begin = time.monotonic()
    slow.pull("admin/model:weights.bin", folder / "slow.bin")
    return time.monotonic() - begin


def offline(client, folder, tree):
    cache = folder / "offline-cache"
    drystone.Client(client.endpoint, cache_dir=cache).pull("admin/model", folder / "block_file")
    # Whatever it would ask would go to a proxy where nobody is.
    alone = drystone.Client(client.endpoint, cache_dir=cache, offline=True, proxy="http://127.0.0.1:9")
    alone = pickle.loads(pickle.dumps(alone))
    result = alone.pull("admin/model", folder / "alone")
    got = {path: (folder / "alone" / path).read_bytes() for path in tree}
    check("what was pulled once needs no hub", got == tree and result["failed"] == [], result)
    with alone.open("admin/model", "weights.bin") as file:
        file.seek(1_000_000)
        check("nor does a file that is opened", file.read(5000) == tree["weights.bin"][1_000_000:1_005_000])
    check("nor a small one", alone.open("admin/model", "config.json").read() == tree["config.json"])
    names = sorted(entry["path"] for entry in alone.ls("admin/model", recursive=True) if entry["type"] == "file")
    check("nor a list", names == sorted([".gitattributes", *tree]), names)
    check("what was not pulled is missed", raises(drystone.NotFoundError, lambda: alone.pull("admin/none", folder / "none")))
    check("offline needs a cache", raises(drystone.InvalidError, lambda: drystone.Client(client.endpoint, offline=True)))


def moving(client, folder):
    tree = {"config.json": b'{"a": 1}\n', "weights.bin": noise(1, 3_000_001), "deep/er/x.bin": noise(2, 700_000), "empty": b""}
    for path, content in tree.items():
        (folder / "in" / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / "in" / path).write_bytes(content)
    ticks = []
    result = client.push(folder / "in", "admin/model", create=True, message="first", progress=ticks.append)
    check("push a folder", result["files"] == 4 and result["failed"] == [] and len(result["commit"]) == 40, result)
    check("progress was reported", ticks and ticks[-1]["done_bytes"] >= 3_700_001 and ticks[-1]["wire_bytes"] > 0, ticks[-1:])
    again = client.push(folder / "in", "admin/model")
    check("pushed again, nothing is sent", again["files"] == 0 and again["unchanged"] == 4 and again["sent_bytes"] == 0, again)
    ticks.clear()
    result = client.pull("admin/model", folder / "out", progress=ticks.append)
    got = {path: (folder / "out" / path).read_bytes() for path in tree}
    # The hub adds a .gitattributes of its own.
    check("pull it", got == tree and result["files"] == 5 and result["bytes"] > sum(map(len, tree.values())), result)
    check("progress of a pull", ticks and ticks[-1]["done_bytes"] == result["bytes"], ticks[-1:])
    result = client.pull("admin/model", folder / "out")
    check("pulled again, it is there", result["unchanged"] == 5 and result["files"] == 0, result)
    client.pull("admin/model:weights.bin", folder / "one.bin")
    check("pull a file", (folder / "one.bin").read_bytes() == tree["weights.bin"])
    result = client.pull("admin/model", folder / "some", include=["*.bin"], exclude=["deep/*"])
    check("pull what patterns name", [path.name for path in (folder / "some").iterdir()] == ["weights.bin"], result)
    client.push(folder / "in" / "config.json", "admin/model:other/name.json")
    names = sorted(entry["path"] for entry in client.ls("admin/model", recursive=True) if entry["type"] == "file")
    check("list", names == sorted([".gitattributes", *tree, "other/name.json"]), names)
    check("info", client.info("admin/model:weights.bin")["size"] == 3_000_001 and client.info("admin/model:deep")["type"] == "directory")
    client.rm("admin/model:other/name.json")
    check("delete", raises(drystone.NotFoundError, lambda: client.info("admin/model:other/name.json")))
    os.environ["DRYSTONE_ENDPOINT"], os.environ["DRYSTONE_TOKEN"] = client.endpoint, pickle.loads(pickle.dumps(client)).__reduce__()[1][1]
    check("the environment says which hub", drystone.pull("admin/model:config.json", folder / "env.json")["files"] == 1)
    check("a limit of bandwidth is block_file", limited_s(client, folder) >= 2)
    nowhere = drystone.Client(client.endpoint, proxy="http://127.0.0.1:9")
    check("a proxy is used", raises(drystone.DrystoneError, lambda: nowhere.ls("admin/model")))
    check("a missing file of certificates is named",
          "none.pem" in str(raises(drystone.DrystoneError, lambda: drystone.Client(client.endpoint, ca_files=["none.pem"]).ls("admin/model"))))
    check("options survive pickling", pickle.loads(pickle.dumps(nowhere)).__reduce__()[0].keywords["proxy"] == "http://127.0.0.1:9")
    offline(client, folder, tree)
    check("a client does not show its token", os.environ["DRYSTONE_TOKEN"] not in repr(client))
    return tree


def errors(client, server, folder):
    outsider = drystone.Client(server.url, "drystone_wrong")
    error = raises(drystone.DrystoneError, lambda: outsider.push(folder / "in", "admin/model"))
    check("a wrong token is refused, with a request id", isinstance(error, (drystone.DeniedError, drystone.NotFoundError)) and error.request_id, repr(error))
    check("a missing repository", isinstance(raises(FileNotFoundError, lambda: client.pull("admin/none", folder / "x")), drystone.NotFoundError))
    check("a missing file", raises(FileNotFoundError, lambda: client.open("admin/model", "none")))
    check("a name that is none", isinstance(raises(ValueError, lambda: client.pull("nonsense", folder / "x")), drystone.InvalidError))
    check("a missing local file", raises(FileNotFoundError, lambda: client.push(folder / "nothing", "admin/model")))
    check("a token is not sent in the clear", raises(drystone.DrystoneError, lambda: drystone.Client("http://192.0.2.1", "secret").ls("a/b")))

    def stop(_):
        raise KeyError("enough")

    check("an exception of the callback ends the call", raises(KeyError, lambda: client.pull("admin/model", folder / "stopped", progress=stop)))


def reading(client, tree):
    content = tree["weights.bin"]
    with client.open("admin/model", "weights.bin") as file:
        check("a whole file", file.read() == content)
        places = random.Random(4)
        same = True
        for _ in range(30):
            at, size = places.randrange(len(content)), places.randrange(200_000)
            file.seek(at)
            same &= file.read(size) == content[at : at + size]
        check("seek and read", same and file.seekable() and not file.writable())
        file.seek(-5, io.SEEK_END)
        check("from the end", file.read() == content[-5:] and file.read() == b"" and file.tell() == len(content))
    check("a closed file refuses", raises(ValueError, file.read))
    with client.open("admin/model", "config.json", "r") as file:
        check("text", json.load(file) == {"a": 1})
    with client.open("admin/model", "empty") as file:
        check("an empty file", file.read() == b"")
    check("writing is refused", raises(ValueError, lambda: client.open("admin/model", "x", "wb")))
    file = client.open("admin/model", "weights.bin", revision="main")
    head = file.read(100)
    ran = []
    thread = threading.Thread(target=lambda: ran.append(client.open("admin/model", "deep/er/x.bin").read()))
    thread.start()
    thread.join()
    check("threads", ran == [tree["deep/er/x.bin"]] and head == content[:100])


def read_in_child(client, file, dataset, results):
    try:
        again = client.open("admin/model", "deep/er/x.bin").read()
        file.seek(1_000_000)
        results.put((len(again), file.read(10), dataset[-1].key, [record.key for record in shardpack.IterableDataset(dataset, order="sequential")][:2]))
    except BaseException:
        results.put(traceback.format_exc())


def beside_others(client, tree, folder):
    """In a notebook a loop runs already, and other threads want to go on while bytes come."""

    async def cell():
        result = client.pull("admin/model:config.json", folder / "cell.json")
        with client.open("admin/model", "weights.bin") as file:
            return result["files"], file.read(10)

    check("calls work where a loop runs already, as in notebooks", asyncio.run(cell()) == (1, tree["weights.bin"][:10]))
    slow = drystone.Client(client.endpoint, os.environ["DRYSTONE_TOKEN"], bandwidth=1_500_000)
    ticks, ended = [], threading.Event()

    def tick():
        while not ended.wait(0.01):
            ticks.append(time.monotonic())

    ticking = threading.Thread(target=tick)
    ticking.start()
    slow.pull("admin/model:weights.bin", folder / "beside.bin")
    ended.set()
    ticking.join()
    longest = max(later - earlier for earlier, later in zip(ticks, ticks[1:]))
    check("other threads go on meanwhile", len(ticks) > 20 and longest < 0.5, (len(ticks), longest))


def forks(client, tree, dataset):
    # There are a runtime, connections and threads before the fork.
    file = client.open("admin/model", "weights.bin")
    file.read(10)
    dataset[0]
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    child = context.Process(target=read_in_child, args=(client, file, dataset, results))
    child.start()
    result = results.get(timeout=120)
    child.join(120)
    check("client, file and packs after a fork", result == (700_000, tree["weights.bin"][1_000_000:1_000_010], "s0299", ["s0000", "s0001"]) and child.exitcode == 0, result)
    check("and in the parent", file.read(10) == tree["weights.bin"][10:20] and dataset[0].key == "s0000")
    check("a pickled dataset of a hub", pickle.loads(pickle.dumps(dataset))[5].key == "s0005")


def packs(client, folder):
    samples = {f"s{n:04}": noise(n, 5000 + n) for n in range(300)}
    (folder / "packs").mkdir()
    with shardpack.Writer(folder / "packs" / "train.shardpack", shard_records=40) as writer:
        for key, content in samples.items():
            writer.write(key, {"x.jpg": content, "n.json": len(content)})
    client.push(folder / "packs", "datasets/admin/pics:data", create=True)
    dataset = shardpack.open("drystone://datasets/admin/pics/data/train-{000000..000007}.shardpack", client=client)
    check("packs in a hub open", len(dataset) == 300, repr(dataset))
    order = random.Random(3).sample(range(300), 60)
    check("records at random", all(dataset[n]["x.jpg"].data == samples[f"s{n:04}"] for n in order))
    check("a batch", [record["x.jpg"].data for record in dataset.read_batch(order)] == [samples[f"s{n:04}"] for n in order])
    check("by key", dataset["s0123"]["x.jpg"].data == samples["s0123"])
    check("from end to end", [(record.key, record["x.jpg"].data) for record in dataset] == list(samples.items()))
    streamed = shardpack.IterableDataset(dataset, seed=1, prefetch_threads=2)
    check("shuffled, read ahead", sorted((record.key, record["x.jpg"].data) for record in streamed) == list(samples.items()))
    check("a folder of packs", len(shardpack.open("drystone://datasets/admin/pics/data")) == 300)
    check("a missing pack", raises(FileNotFoundError, lambda: shardpack.open("drystone://datasets/admin/pics/none.shardpack")))
    return dataset


def restart(server, client, folder, dataset):
    """A server that goes away for a while in the middle of an epoch."""
    caching = drystone.Client(server.url, server.token, cache_dir=folder / "cache")
    cached = shardpack.open("drystone://datasets/admin/pics/data", client=caching)
    run = shardpack.IterableDataset(cached, seed=2, prefetch_bytes=200_000)
    whole = [record.key for record in shardpack.IterableDataset(dataset, seed=2)]
    seen, back = [], None
    for record in run:
        seen.append(record.key)
        if len(seen) == 100:
            server.stop()
            back = threading.Timer(2, server.start)
            back.start()
    back.join()
    check("an epoch survives a restart of the server", seen == whole)
    server.stop()
    offline = [(record.key, record["x.jpg"].data) for record in cached]
    check("what was read is on this disk", offline == [(f"s{n:04}", noise(n, 5000 + n)) for n in range(300)])
    server.start()
    block_file = next(file for file in (folder / "cache" / "packs").iterdir() if not file.suffix)
    with open(block_file, "r+b") as file:
        file.seek(100)
        file.write(b"damaged")
    check("damage on this disk is found", raises(shardpack.CorruptError, lambda: list(cached)))
    repaired = shardpack.open("drystone://datasets/admin/pics/data", client=caching, on_error="refetch")
    check("and fetched again on demand", len(list(repaired)) == 300 and len(list(cached)) == 300)
    tight = drystone.Client(server.url, server.token, cache_dir=folder / "cache", cache_bytes=500_000)
    few = shardpack.open("drystone://datasets/admin/pics/data", client=tight)
    check("the cache has a limit", len(list(few)) == 300 and len(list((folder / "cache" / "packs").glob("*.blocks"))) < 8,
          len(list((folder / "cache" / "packs").glob("*.blocks"))))
    other = shardpack.IterableDataset(cached, seed=2)
    resumed = shardpack.IterableDataset(cached, seed=9)
    taken = []
    for record in other:
        taken.append(record.key)
        if len(taken) == 77:
            break
    resumed.load_state_dict(other.state_dict())
    check("resumed from the hub", taken + [record.key for record in resumed] == whole)


def file_systems(client, folder):
    import fsspec
    import pandas
    import pyarrow.dataset
    import pyarrow.fs
    import pyarrow.parquet

    frame = pandas.DataFrame({"n": range(10_000), "text": [f"row {n}" for n in range(10_000)]})
    (folder / "tables").mkdir()
    frame.to_parquet(folder / "tables" / "a.parquet", row_group_size=1000)
    frame.to_csv(folder / "tables" / "a.csv", index=False)
    client.push(folder / "tables", "datasets/admin/tables", create=True)
    options = {"endpoint": client.endpoint, "token": os.environ["DRYSTONE_TOKEN"]}
    root = "drystone://datasets/admin/tables"
    check("pandas reads CSV", pandas.read_csv(f"{root}/a.csv", storage_options=options).equals(frame))
    check("pandas reads Parquet", pandas.read_parquet(f"{root}/a.parquet", storage_options=options).equals(frame))
    fs = fsspec.filesystem("drystone", **options)
    tables = [name for name in sorted(fs.ls(root, detail=False)) if name.endswith(("csv", "parquet"))]
    check("listing", tables == ["datasets/admin/tables/a.csv", "datasets/admin/tables/a.parquet"], tables)
    nowhere = fsspec.filesystem("drystone", **options, proxy="http://127.0.0.1:9")
    check("options are those of the client", raises(drystone.DrystoneError, lambda: nowhere.ls(root)))
    check("globs", fs.glob(f"{root}/*.csv") == ["datasets/admin/tables/a.csv"])
    text = (folder / "tables" / "a.csv").read_bytes()
    check("ranges", fs.cat_file(f"{root}/a.csv", 10, 20) == text[10:20] and fs.cat_file(f"{root}/a.csv", -7) == text[-7:])
    check("whether something is there", fs.exists(f"{root}/a.csv") and not fs.exists(f"{root}/b.csv") and fs.isdir(root) and not fs.exists("drystone://admin/none"))
    fs.get(f"{root}/a.csv", str(folder / "got.csv"))
    check("get", (folder / "got.csv").read_bytes() == text)
    fs.put(str(folder / "got.csv"), f"{root}/sub/b.csv")
    check("put", fs.cat(f"{root}/sub/b.csv") == text and fs.find(f"{root}/sub") == ["datasets/admin/tables/sub/b.csv"])
    fs.rm(f"{root}/sub/b.csv")
    check("rm", not fs.exists(f"{root}/sub/b.csv"))
    arrow = pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(fs))
    table = pyarrow.dataset.dataset("datasets/admin/tables/a.parquet", filesystem=arrow).to_table(filter=pyarrow.dataset.field("n") == 7777)
    check("pyarrow reads what it needs", table.to_pylist() == [{"n": 7777, "text": "row 7777"}])
    for name, value in [("HF_HOME", str(folder / "hf")), ("HF_HUB_DISABLE_TELEMETRY", "1"), ("HF_ENDPOINT", client.endpoint)]:
        os.environ[name] = value
    import datasets

    loaded = {
        kind: datasets.load_dataset(kind, data_files=f"{root}/a.{kind}", storage_options=options, split="train", cache_dir=str(folder / "hf" / kind))
        for kind in ("parquet", "csv")
    }
    check("datasets reads both", all(data.num_rows == 10_000 and data[7777] == {"n": 7777, "text": "row 7777"} for data in loaded.values()), loaded)
    rows = datasets.load_dataset("parquet", data_files=f"{root}/a.parquet", storage_options=options, split="train", streaming=True)
    check("and streams", [row["n"] for row in rows.take(3)] == [0, 1, 2])


def interrupted(client, program, folder):
    """Ctrl-C reaches Python while it waits for a hub that does not answer."""
    code = (
        "import drystone, signal, socket, sys\n"
        # Where the tests run in the background it is ignored.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "listener = socket.create_server(('127.0.0.1', 0))\n"
        "client = drystone.Client(f'http://127.0.0.1:{listener.getsockname()[1]}')\n"
        "print('ready', flush=True)\n"
        "client.ls('a/b')\n"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    child.stdout.readline()
    time.sleep(0.5)
    child.send_signal(signal.SIGINT)
    try:
        _, complaint = child.communicate(timeout=30)
    except subprocess.TimeoutExpired:
        child.kill()
        complaint = "it did not end"
    check("Ctrl-C ends a call", "KeyboardInterrupt" in complaint, complaint)


def main(program):
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        server = Server(program, folder / "data")
        client = drystone.Client(server.url, server.token)
        try:
            tree = moving(client, folder)
            errors(client, server, folder)
            reading(client, tree)
            dataset = packs(client, folder)
            beside_others(client, tree, folder)
            forks(client, tree, dataset)
            file_systems(client, folder)
            restart(server, client, folder, dataset)
            interrupted(client, program, folder)
        except Exception:
            traceback.print_exc()
            check("everything ran", False)
        server.stop()
        if failed:
            print((folder / "server.log").read_text()[-3000:])
    print(f"hub from python: {passed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main(os.path.abspath(sys.argv[1]))
