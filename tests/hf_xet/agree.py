"""The published hf_xet wheel and `drystone hash` name the same files by the same hashes.

usage: agree.py DRYSTONE

Makes files of many sizes and kinds, always the same ones, and compares file hash, size and SHA-256 of each.
One file is one test. Ends with a line `agree: N passed, M failed`.
"""

import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

# Around every length where the chunker decides something: its window, its smallest and its largest chunk, twice
# the largest, and long enough for Merkle trees of several levels.
SIZES = [
    *(0, 1, 63, 64, 65),
    *(8127, 8128, 8129, 8191, 8192, 8193, 8255, 8256),
    *(65535, 65536, 65537),
    *(131071, 131072, 131073, 139264, 262143, 262144, 262145),
    *(1_000_000, 10_000_000, 40_000_000),
]


def noise(size):
    return random.Random(size).randbytes(size)


def zeros(size):
    return bytes(size)


def text(size):
    """Sentences drawn again and again, as in a log or a corpus."""
    rng = random.Random(size)
    words = ["".join(rng.choices("etaoinshrdlu", k=rng.randint(2, 9))) for _ in range(1000)]
    sentences = [" ".join(rng.choices(words, k=rng.randint(3, 20))) + ".\n" for _ in range(2000)]
    shortest = min(map(len, sentences))
    return "".join(rng.choices(sentences, k=size // shortest + 1)).encode()[:size]


def repeated(size):
    """A period that divides no chunk length, so the same bytes return at every offset."""
    period = random.Random(1).randbytes(70_001)
    return (period * (size // len(period) + 1))[:size]


def mixed(size):
    """Stretches that cut often and stretches that never cut, next to each other."""
    third = size // 3
    return noise(third) + zeros(third) + text(size - 2 * third)


KINDS = [noise, zeros, text, repeated, mixed]


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    drystone = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as home:
        # The wheel reads these when it is imported.
        os.environ.update(HF_HUB_DISABLE_TELEMETRY="1", HF_HUB_DISABLE_UPDATE_CHECK="1", HF_HOME=home)
        import hf_xet

        outcomes = []
        for kind in KINDS:
            with tempfile.TemporaryDirectory() as folder:
                outcomes += compare(hf_xet, drystone, make_files(kind, Path(folder)))
    print(f"agree: {outcomes.count(True)} passed, {outcomes.count(False)} failed")
    sys.exit(not all(outcomes))


def make_files(kind, folder):
    paths = []
    for size in SIZES:
        path = folder / f"{kind.__name__}-{size}"
        data = kind(size)
        assert len(data) == size, path.name
        path.write_bytes(data)
        paths.append(str(path))
    return paths


def compare(hf_xet, drystone, paths):
    theirs = hf_xet.hash_files(paths)
    plain = run_json([drystone, "hash", "--json", *paths])
    with_digest = run_json([drystone, "hash", "--json", "--sha256", *paths])
    return [agrees(*each) for each in zip(paths, theirs, plain, with_digest, strict=True)]


def agrees(path, theirs, plain, with_digest):
    expected = {"path": path, "size": os.path.getsize(path), "hash": theirs.hash}
    digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    good = True
    for wanted, found in (expected, plain), (expected | {"sha256": digest}, with_digest):
        for field, value in wanted.items():
            if found.get(field) != value:
                print(f"FAILED {os.path.basename(path)}: {field} should be {value}, found {found.get(field)}")
                good = False
    return good


def run_json(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command[:3])} ended with status {done.returncode}")
    return json.loads(done.stdout)


if __name__ == "__main__":
    main()
