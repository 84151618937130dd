"""One record more in a large dataset costs little more room in a hub.

usage: dedup.py SHARDPACK DRYSTONE [MEGABYTES]

Samples of 50 kB that nothing compresses, packed, stored; then one more in the middle, packed and stored again.
Ends with a line `dedup: N passed, M failed`.
"""

import io
import json
import random
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

SAMPLE_BYTES = 50_000
passed = failed = 0


def check(name, ok, detail=""):
    global passed, failed
    passed, failed = passed + bool(ok), failed + (not ok)
    print(f"{'ok' if ok else 'FAILED'}: {name} {detail}".rstrip(), flush=True)


def sample(number):
    return random.Random(number).randbytes(SAMPLE_BYTES)


def pack(shardpack, numbers, target):
    """Packs the samples of these numbers as a tar on its standard input tells them."""
    create = subprocess.Popen([shardpack, "create", "-i", "-", "-o", target], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    with tarfile.open(fileobj=create.stdin, mode="w|") as tar:
        for number in numbers:
            entry = tarfile.TarInfo(f"{number:07}.bin")
            entry.size = SAMPLE_BYTES
            tar.addfile(entry, io.BytesIO(sample(number)))
    create.stdin.close()
    check(f"{target.name} is made", create.wait() == 0)


def put(drystone, store, file):
    done = subprocess.run([drystone, "cas", "put", "--store", store, "--json", "--no-cache", file], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout)


def run(shardpack, drystone, megabytes, folder):
    count = megabytes * 1_000_000 // SAMPLE_BYTES
    numbers = [10 * n for n in range(count)]
    first, second = folder / "first.shardpack", folder / "second.shardpack"
    pack(shardpack, numbers, first)
    all_of_it = put(drystone, folder / "store", first)
    check("all of a new dataset is new", all_of_it["new_bytes"] > 0.99 * first.stat().st_size, f"{all_of_it['new_bytes']} bytes")
    pack(shardpack, sorted([*numbers, 5 * count + 5]), second)
    again = put(drystone, folder / "store", second)
    share = again["new_bytes"] / first.stat().st_size
    check("of one record more, at most a hundredth is new", share <= 0.01, f"{again['new_bytes']} bytes, {share:.3%}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        try:
            run(sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 200, Path(folder))
        except (Exception, SystemExit) as error:
            check("the rest", False, repr(error))
    print(f"dedup: {passed} passed, {failed} failed")
    sys.exit(failed > 0)
