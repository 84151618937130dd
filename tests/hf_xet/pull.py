"""The published hf_xet wheel uploads to `drystone serve`, and `drystone cas get` brings the same bytes back.

usage: pull.py DRYSTONE

Files of sizes around every limit of the chunker, a large one, an edited one, and thousands of small ones.
Ends with a line `pull: N passed, M failed`.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

warnings.simplefilter("ignore")
sys.path.insert(0, str(Path(__file__).parent))

from roundtrip import Server, check, edits, token, upload
import roundtrip

SIZES = [0, 1, 8191, 8192, 8193, 65535, 65536, 131_071, 131_072, 131_073, 70 << 20, 300 << 20]


def get(drystone, server, access, *args):
    command = [drystone, "cas", "get", "--endpoint", server.url, "--token", access, "--no-cache", "--json", *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        print(done.stderr, flush=True)
        return None
    return json.loads(done.stdout)


def run(drystone, work):
    data = work / "data"
    server = Server(drystone, data)
    write = token(drystone, data, "write", "ann/pull")
    access, _ = token(drystone, data, "read", "ann/pull")
    source = work / "in"
    source.mkdir()
    noise = b"".join(random.Random(seed).randbytes(7 << 20) for seed in range(43))
    files = []
    for size in SIZES:
        files.append(source / str(size))
        files[-1].write_bytes(noise[size % 1000 : size % 1000 + size])
    infos = upload(files, server.url, write)
    for file, info in zip(files, infos, strict=True):
        out = work / "out" / file.name
        totals = get(drystone, server, access, info.hash, "-o", out)
        check(f"{file.name} bytes come back", totals is not None and out.read_bytes() == file.read_bytes())

    large = files[SIZES.index(70 << 20)].read_bytes()
    out = work / "out" / str(70 << 20)
    edited = source / "edited"
    for how, content in edits(large).items():
        edited.write_bytes(content)
        info = upload([edited], server.url, write)[0]
        totals = get(drystone, server, access, info.hash, "-o", out)
        check(f"a file with {how} replaces the old one", totals is not None and out.read_bytes() == content)
        check("and little is fetched for it", totals is not None and totals["fetched_bytes"] < 4 << 20, totals)
    out = work / "out" / "range"
    totals = get(drystone, server, access, info.hash, "-o", out, "--range", "10000000-10000100")
    check("a range comes back", totals is not None and out.read_bytes() == content[10_000_000:10_000_100])

    small = work / "small"
    small.mkdir()
    rng = random.Random(8)
    files = []
    for n in range(5000):
        files.append(small / str(n))
        start = rng.randrange(0, 60 << 20)
        files[-1].write_bytes(noise[start : start + int(rng.lognormvariate(9, 1))])
    infos = upload(files, server.url, write)
    listed = work / "list.json"
    listed.write_text(json.dumps([{"hash": info.hash, "path": f"{n % 10}/{n}"} for n, info in enumerate(infos)]))
    folder = work / "many"
    totals = get(drystone, server, access, "--from-json", listed, "-o", folder)
    same = totals is not None and all(
        (folder / f"{n % 10}/{n}").read_bytes() == file.read_bytes() for n, file in enumerate(files)
    )
    check("5000 small files come back", same and totals["files"] == 5000, totals)
    left = [path.name for path in folder.iterdir() if path.name.startswith(".")]
    check("and nothing else is left", not left, left)
    other, _ = token(drystone, data, "read", "bob/other")
    check("another repository's token gets nothing", get(drystone, server, other, info.hash, "-o", work / "no") is None)
    check("the server ends well", server.stop() == 0)


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HF_HOME"] = os.environ["HF_XET_CACHE"] = str(Path(folder) / "hf")
        os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
        import hf_xet

        roundtrip.hf_xet = hf_xet
        try:
            run(os.path.abspath(sys.argv[1]), Path(folder))
        except Exception as error:
            check("the rest", False, repr(error))
    print(f"pull: {roundtrip.passed} passed, {roundtrip.failed} failed")
    return roundtrip.failed > 0


if __name__ == "__main__":
    sys.exit(main())
