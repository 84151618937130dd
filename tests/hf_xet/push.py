"""`drystone cas put` pushes, the published hf_xet wheel downloads: from a server, from a folder that is then served, and from the
store that hf_xet itself keeps in a folder, with our xorbs and shards in place of its own.

usage: push.py DRYSTONE

Ends with a line `push: N passed, M failed`.
"""

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

warnings.simplefilter("ignore")
sys.path.insert(0, str(Path(__file__).parent))

import roundtrip
from pull import SIZES
from roundtrip import Server, check, edits, make_files, same, stored_bytes, token


def put(drystone, work, files, *flags, env=None):
    command = [drystone, "cas", "put", "--json", "--cache-dir", work / "cache", *flags, *files]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **(env or {})})
    if done.returncode != 0:
        raise SystemExit(f"cas put failed: {done.stderr}")
    return json.loads(done.stdout)


def download(report, folder, url, access):
    folder.mkdir()
    wanted = [
        roundtrip.hf_xet.PyXetDownloadInfo(str(folder / str(n)), file["hash"], file["size"])
        for n, file in enumerate(report["files"])
    ]
    roundtrip.hf_xet.download_files(wanted, url, access, None, None)
    return [folder / str(n) for n in range(len(wanted))]


def every_size(drystone, work):
    """Sizes around every limit of the chunker, large ones, and thousands of small ones."""
    data = work / "data"
    data.parent.mkdir()
    server = Server(drystone, data)
    write, read = (token(drystone, data, scope, "ann/sizes") for scope in ("write", "read"))
    folder = work / "files"
    folder.mkdir()
    noise = b"".join(random.Random(seed).randbytes(7 << 20) for seed in range(43))
    files = [folder / str(size) for size in SIZES]
    for file, size in zip(files, SIZES, strict=True):
        file.write_bytes(noise[size % 1000 : size % 1000 + size])
    report = put(drystone, work, files, "--endpoint", server.url, env={"DRYSTONE_TOKEN": write[0]})
    for file, copy in zip(files, download(report, work / "sizes", server.url, read), strict=True):
        check(f"hf_xet downloads {file.name} bytes", file.read_bytes() == copy.read_bytes())

    rng = random.Random(9)
    small = [folder / f"small-{n}" for n in range(5000)]
    for file in small:
        start = rng.randrange(0, 60 << 20)
        file.write_bytes(noise[start : start + int(rng.lognormvariate(9, 1))])
    listed = work / "listed"
    report = put(drystone, work, small, "--endpoint", server.url, env={"DRYSTONE_TOKEN": write[0]})
    check("hf_xet downloads 5000 small files", same(small, download(report, listed, server.url, read)))
    check("which share xorbs", report["xorbs"] <= 2, report["xorbs"])
    server.stop()


def their_store(drystone, work):
    """hf_xet's own store in a folder, with what we made in place of what it made: its readers take it."""
    work.mkdir()
    rng = random.Random(7)
    words = [rng.randbytes(rng.randrange(2, 9)).hex() for _ in range(3000)]
    weights = b"".join((0x3C00 + rng.randrange(0, 0x800)).to_bytes(2, "little") for _ in range(2_000_000))
    content = " ".join(rng.choices(words, k=600_000)).encode() + weights + rng.randbytes(3_000_000)
    file = work / "file"
    file.write_bytes(content)
    theirs = work / "theirs"
    theirs.mkdir()
    ((file_hash, _),) = transfer(work, theirs, "upload", paths=[str(file)])
    report = put(drystone, work, [file], "--store", work / "ours")
    check("its store names the file as we do", report["files"][0]["hash"] == file_hash)

    def only(folder, pattern):
        (found,) = [path for path in folder.rglob(pattern) if path.is_file() and path.suffix != ".tagset"]
        return found

    def replace(path, content):
        path.chmod(0o644)
        path.write_bytes(content)

    our_xorb, our_shard = (only(work / "ours" / "objects" / kind, "*") for kind in ("xorbs", "shards"))
    xorb, shard = only(theirs / "xet" / "xorbs" / "xorbs", "default.*"), only(theirs / "xet" / "xorbs" / "shards", "*.mdb")
    check("and the xorb", xorb.name == "default." + our_xorb.name.split("-")[0])
    replace(xorb, our_xorb.read_bytes())
    replace(shard, our_shard.read_bytes())

    def comes_back(name):
        (work / name).mkdir()
        transfer(work, theirs, "download", folder=str(work / name), files=[[file_hash, len(content)]])
        return (work / name / "0").read_bytes() == content

    check("its reader of xorbs reads ours", comes_back("whole"))
    damaged = bytearray(our_xorb.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    replace(xorb, damaged)
    check("and sees another byte", not comes_back("damaged"))
    replace(xorb, our_xorb.read_bytes())

    edited = work / "edited"
    edited.write_bytes(content[:1_000_000] + b"an insertion" + content[1_000_000:])

    def upload_beside(name, shard_bytes):
        store = shutil.copytree(theirs, work / name, ignore=shutil.ignore_patterns("shard-cache"))
        replace(store / shard.relative_to(theirs), shard_bytes)
        xorbs = store / xorb.parent.relative_to(theirs)
        before = sum(path.stat().st_size for path in xorbs.iterdir())
        uploaded = transfer(work, store, "upload", paths=[str(edited)])
        return uploaded, sum(path.stat().st_size for path in xorbs.iterdir()) - before

    uploaded, grown = upload_beside("with-ours", our_shard.read_bytes())
    check("its reader of shards finds chunks by ours", uploaded and 0 < grown < 500_000, f"{grown} bytes more")
    uploaded, _ = upload_beside("with-none", b"no shard")
    check("and stumbles over one that is none", not uploaded)


def transfer(work, store, verb, **job):
    """In a process and with a cache of its own, so that nothing is known but what the store has. No files when it failed."""
    transfer.calls += 1
    home = work / f"home-{transfer.calls}"
    env = {**os.environ, "HF_HOME": str(home), "HF_XET_CACHE": str(home / "xet")}
    child = Path(__file__).parents[2] / "bench" / "hf_transfer.py"
    job = {"verb": verb, "url": f"local://{store}", "token": "none", "expires_s": 2**40, **job}
    done = subprocess.run([sys.executable, child], env=env, input=json.dumps(job), capture_output=True, text=True)
    return json.loads(done.stdout)["files"] if done.returncode == 0 else []


transfer.calls = 0


def run(drystone, work):
    data = work / "data"
    files = make_files(work / "files")
    server = Server(drystone, data)
    write, read = (token(drystone, data, scope, "ann/model") for scope in ("write", "read"))
    report = put(drystone, work, files, "--endpoint", server.url, env={"DRYSTONE_TOKEN": write[0]})
    check("every file is pushed", [Path(file["path"]) for file in report["files"]] == files)
    check("hf_xet downloads the same bytes", same(files, download(report, work / "first", server.url, read)))

    infos = roundtrip.upload(files, server.url, write)
    check("hf_xet names them alike", [info.hash for info in infos] == [file["hash"] for file in report["files"]])
    before = stored_bytes(data)
    subprocess.run([drystone, "admin", "repo", "create", "ann/model", "--private", "--data", data], check=True, capture_output=True)
    for how, content in edits(files[5].read_bytes()).items():
        edited = work / how
        edited.write_bytes(content)
        sofar = stored_bytes(data)
        again = put(drystone, work, [edited], "--endpoint", server.url, "--repo", "ann/model",
                    env={"DRYSTONE_TOKEN": (data / "admin.token").read_text().strip()})
        grown = stored_bytes(data) - sofar
        check(f"of a file with {how} only what changed is stored", 0 < grown < 1_500_000, f"{grown} bytes")
        check("and hf_xet downloads it", same([edited], download(again, work / f"with-{how}", server.url, read)))
    server.stop()

    local = work / "local"
    report = put(drystone, work, files, "--store", local, "--repo", "ann/model")
    check("a folder takes no more room than a server", stored_bytes(local) <= before, f"{stored_bytes(local)} and {before}")
    server = Server(drystone, local)
    read = token(drystone, local, "read", "ann/model")
    check("a folder that was filled without a server is served", same(files, download(report, work / "third", server.url, read)))
    server.stop()

    other = work / "other"
    server = Server(drystone, other)
    write = token(drystone, other, "write", "ann/model")
    roundtrip.upload(files, server.url, write)
    theirs = stored_bytes(other)
    check("we store no more than hf_xet does", stored_bytes(local) <= theirs, f"{stored_bytes(local)} and {theirs}")
    server.stop()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HF_HOME"] = os.environ["HF_XET_CACHE"] = str(Path(folder) / "hf")
        os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
        import hf_xet

        roundtrip.hf_xet = hf_xet
        try:
            drystone = os.path.abspath(sys.argv[1])
            run(drystone, Path(folder))
            every_size(drystone, Path(folder) / "sizes")
            their_store(drystone, Path(folder) / "theirs")
        except (Exception, SystemExit) as error:
            check("the rest", False, repr(error))
    print(f"push: {roundtrip.passed} passed, {roundtrip.failed} failed")
    sys.exit(roundtrip.failed > 0)
