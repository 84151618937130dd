#!/usr/bin/env python3
"""Selects the committed part of the golden vectors from the full set.

    python3 testdata/select.py FULL_SET

writes testdata/vectors/ anew: a manifest in the same schema and the files it names. The same full set gives the same
bytes. What is kept, and why, is in testdata/README.md.
"""

import json
import pathlib
import shutil
import sys

# Inputs are recipes, so they cost little to store; but each run makes and cuts them.
INPUT_BYTES_MAX = 12 * 1024 * 1024
# Of 257 periods: the small ones, and those around the gear window, a byte's range and round numbers.
PERIODS = {*range(1, 11), 13, 16, 17, 31, 32, 33, 47, 63, 64, 65, 66, 100, 127, 128, 129, 200, 255, 256, 257}
FILE_BYTES_MAX = 32 * 1024
# Larger, but the only ones of their kind: a frame with blocks above 64 KiB; a nonce over all three schemes.
FILES_ANYWAY = {"records/text_131072.lz4.chunk", "xorbs/multi_file.auto.footer_v1_nonce.xorb"}
TOTAL_BYTES_MAX = 3_000_000


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    source = pathlib.Path(sys.argv[1])
    target = pathlib.Path(__file__).resolve().parent / "vectors"
    full = json.loads((source / "manifest.json").read_text())
    part, files = select(full, source)

    if target.exists():
        shutil.rmtree(target)
    for name in sorted(files):
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes((source / name).read_bytes())
    (target / "manifest.json").write_text(one_entry_a_line(part))

    total = sum(path.stat().st_size for path in target.rglob("*") if path.is_file())
    print(f"{len(files) + 1} files, {total} bytes")
    if total > TOTAL_BYTES_MAX:
        sys.exit(f"more than {TOTAL_BYTES_MAX} bytes: choose less")


def select(full, source):
    """The smaller manifest, and the files it names."""

    def fits(name):
        return name in FILES_ANYWAY or (source / name).stat().st_size <= FILE_BYTES_MAX

    part = {key: value for key, value in full.items() if key != "official"}
    part["set"] = f"{full['set']}, committed part"
    part["inputs"] = [entry for entry in full["inputs"] if keep_input(entry)]
    part["chunk_records"] = [entry for entry in full["chunk_records"] if fits(entry["file"])]
    part["xorbs"] = []
    for xorb in full["xorbs"]:
        kept = [file for file in xorb["files"] if fits(file["file"])]
        if kept:
            part["xorbs"].append({**xorb, "files": kept})

    files = {entry["chunks_file"] for entry in part["inputs"] if "chunks_file" in entry}
    files |= {entry["file"] for entry in part["chunk_records"] + part["adversarial"]}
    files |= {file["file"] for group in ("xorbs", "shards") for entry in part[group] for file in entry["files"]}
    return part, files


def keep_input(entry):
    period = entry["recipe"].get("period") if entry["recipe"]["op"] == "period" else None
    return entry["size"] <= INPUT_BYTES_MAX and (period is None or period in PERIODS)


def one_entry_a_line(manifest):
    """Compact, and still readable in a diff."""
    lines = []
    for key, value in manifest.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            entries = ",\n".join(json.dumps(entry, separators=(",", ":")) for entry in value)
            lines.append(f"{json.dumps(key)}:[\n{entries}\n]")
        else:
            lines.append(f"{json.dumps(key)}:{json.dumps(value, separators=(',', ':'))}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    main()
