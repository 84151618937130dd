"""Wheels of hf_xet that people still have upload to `drystone serve` and download the same bytes, each other's too.

usage: old_clients.py DRYSTONE FOLDER...

A folder holds one installed version of the wheel (`pip install --target`). 1.1.10 requests unversioned paths, sends shards
under a name and joins fetches that have one URL; 1.3.2 requests version 1. Each version runs in a process of its own.
Ends with a line `old clients: N passed, M failed`.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import roundtrip
from roundtrip import Server, check, same, stored_bytes, token

# Runs in a process that has the old wheel: orders come on standard input, results go to standard output.
CLIENT = """
import json, sys, warnings
warnings.simplefilter("ignore")
import hf_xet
order = json.load(sys.stdin)
refreshes = []
def refresh():
    refreshes.append(1)
    return tuple(order["token"])
first = tuple(order["first_token"]) if order.get("first_token") else tuple(order["token"])
if order["do"] == "upload":
    infos = hf_xet.upload_files(order["files"], order["url"], first, refresh, None, None)
    answer = [[info.hash, info.file_size] for info in infos]
else:
    wanted = [hf_xet.PyXetDownloadInfo(path, file, size) for path, file, size in order["files"]]
    answer = hf_xet.download_files(wanted, order["url"], first, refresh, None)
json.dump({"answer": answer, "refreshed": len(refreshes)}, sys.stdout)
"""


class Client:
    """One version of the wheel."""

    def __init__(self, folder, work):
        self.folder, self.work, self.runs = folder, work, 0
        found = [entry.name for entry in Path(folder).iterdir() if entry.name.endswith(".dist-info")]
        self.version = found[0].removesuffix(".dist-info").split("-")[1]

    def run(self, **order):
        # Every run is a client elsewhere: it has no cache, and finds chunks by asking.
        self.runs += 1
        home = str(self.work / f"home-{self.version}-{self.runs}")
        env = {**os.environ, "PYTHONPATH": str(self.folder), "HF_HOME": home, "HF_XET_CACHE": home}
        made = subprocess.run([sys.executable, "-W", "ignore", "-c", CLIENT], input=json.dumps(order), env=env,
                              capture_output=True, text=True, timeout=600)
        if made.returncode:
            raise RuntimeError(f"hf_xet {self.version}: {made.stderr[-2000:]}")
        return json.loads(made.stdout.splitlines()[-1])

    def upload(self, files, url, access, **more):
        return self.run(do="upload", files=[str(file) for file in files], url=url, token=access, **more)

    def download(self, infos, folder, url, access, **more):
        folder.mkdir()
        files = [(str(folder / str(n)), file, size) for n, (file, size) in enumerate(infos)]
        self.run(do="download", files=files, url=url, token=access, **more)
        return [folder / str(n) for n in range(len(infos))]


def make_files(folder, seed):
    from agree import mixed, text, zeros

    folder.mkdir()
    rng = random.Random(seed)
    files = []
    for n, bytes_ in enumerate([
        rng.randbytes(1), text(100 + seed), rng.randbytes(8192), text(131_073 + seed), zeros(3_000_000 + seed),
        rng.randbytes(10_000_000), mixed(75_000_000 + seed) + rng.randbytes(50_000_000), *(rng.randbytes(20_000) for _ in range(30)),
    ]):  # the largest takes several xorbs, the last ones share one
        files.append(folder / str(n))
        files[-1].write_bytes(bytes_)
    return files


def urls_of(server, file, access):
    request = urllib.request.Request(f"{server.url}/reconstruction/{file}", headers={"Authorization": f"Bearer {access[0]}"})
    with urllib.request.urlopen(request) as answer:
        fetches = json.load(answer)["fetch_info"]
    return [(fetch["url"], json.dumps(fetch["url_range"])) for ranges in fetches.values() for fetch in ranges]


def run(drystone, folders, work):
    data = work / "data"
    server = Server(drystone, data)
    write, read = (token(drystone, data, scope, "ann/model") for scope in ("write", "read"))
    clients = [Client(folder, work) for folder in folders]
    everything = []
    for seed, client in enumerate(clients):
        name = f"hf_xet {client.version}"
        files = make_files(work / f"files-{client.version}", 1000 + seed)
        infos = client.upload(files, server.url, write)["answer"]
        check(f"{name} uploads", len(infos) == len(files))
        copies = client.download(infos, work / f"copies-{client.version}", server.url, read)
        check(f"{name} downloads the same", same(files, copies))
        everything.append((name, files, infos))

        before = stored_bytes(data)
        edited = work / f"edited-{client.version}"
        big = files[5].read_bytes()
        # Made of several ranges of one old xorb, with new bytes between them.
        edited.write_bytes(big[:5_000_000] + b"an insertion" + big[5_000_000:8_000_000] + big[8_000_500:])
        info = client.upload([edited], server.url, write)["answer"]
        grown = stored_bytes(data) - before
        check(f"{name} sends only what changed", 0 < grown < 1_000_000, f"{grown} bytes")
        check(f"{name} downloads what it changed", same([edited], client.download(info, work / f"edited-copy-{client.version}", server.url, read)))

        # A client that joins fetches by their URL must not join different ranges.
        fetches = urls_of(server, info[0][0], read)
        check(f"{name}: every range has a URL of its own", len(fetches) > 2 and len({url for url, _ in fetches}) == len(fetches), str(fetches))

        # The token expires soon: the wheel must ask for another one, and does.
        late = token(drystone, data, "read", "ann/model", ttl=20)
        order = [(str(work / f"late-{client.version}"), *infos[0])]
        made = client.run(do="download", files=order, url=server.url, token=read, first_token=late)
        check(f"{name} requests a new token", made["refreshed"] > 0 and same(files[:1], [Path(order[0][0])]))
        try:
            client.upload(files[:1], server.url, read)
            check(f"{name}: a token for reading uploads nothing", False)
        except RuntimeError:
            check(f"{name}: a token for reading uploads nothing", True)
    for client in clients:
        for name, files, infos in everything:
            folder = work / f"{client.version} of {name}"
            copies = client.download(infos[:8], folder, server.url, read)
            check(f"hf_xet {client.version} downloads what {name} uploaded", same(files[:8], copies))
    check("SIGTERM ends the server cleanly", server.stop() == 0)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        try:
            run(os.path.abspath(sys.argv[1]), sys.argv[2:], Path(folder))
        except Exception as error:
            check("the rest", False, repr(error))
            log = Path(folder) / "server.log"
            if log.exists():
                print(log.read_text()[-3000:])
    print(f"old clients: {roundtrip.passed} passed, {roundtrip.failed} failed")
    sys.exit(roundtrip.failed > 0)
