"""Measures the keeping of a store: a sweep of a large catalog, a deep verification, and what both cost those who work.

usage: sweep.py [--scale S] [--rounds N]

The catalog is made by `fill` (crates/store/examples): 1,000,000 files in 100,000 xorbs, all in one commit; its objects are rows
only. CPU time and peak memory are the program's own (user and system). The rate of BLAKE3 is that of `kernels`
(crates/xet/examples), one core, the same build. Throughput is of uploads and downloads of 1 MiB files by `drystone cas`, beside a
sweep of the large catalog at the rate a server sweeps at and without, in turns. The results go to bench/results/ as JSON and Markdown. The status
is 1 when something failed, not when a target is missed.
"""

import argparse
import datetime
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

from hosts import Ours
from machine import machine, processor

ROOT = Path(__file__).resolve().parent.parent
TARGET_DIR = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()

# row: what it is, unit, comparison, target
ROWS = {
    "sweep-cpu": ("a sweep of 1,000,000 files in 100,000 xorbs that finds nothing to drop", "CPU s", "<=", 60.0),
    "sweep-rss": ("its peak memory", "MiB", "<=", 256),
    "drop-cpu": ("the same after the repository was deleted: all of it goes", "CPU s", "<=", 60.0),
    "drop-rss": ("its peak memory", "MiB", "<=", 256),
    "verify": ("deep verification of incompressible data: bytes per CPU second", "of BLAKE3's", ">=", 0.7),
    "foreground": ("throughput of uploads and downloads beside a sweep", "of that without", ">=", 0.9),
}


def measured(command, **more):
    """Runs a program; its CPU seconds, its peak memory in MiB, and what it printed."""
    process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True, **more)
    out = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{command} ended with {process.returncode}: {out}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, out


def large_catalog(options, data):
    """A stopped store with a large catalog."""
    shutil.rmtree(data, ignore_errors=True)
    (data / "objects").mkdir(parents=True)
    files = max(1000, int(1_000_000 * options.scale))
    seconds, _, _ = measured([options.fill, data / "catalog.db", "ann", "models/big", files, 0, 10])
    return files, seconds


def sweeps(options, rows):
    data = options.work / "large"
    files, filled_s = large_catalog(options, data)
    size = sum(file.stat().st_size for file in data.glob("catalog.db*"))
    print(f"{files} files: {filled_s:.1f} CPU s to fill, {size / files:.0f} bytes of catalog for each")
    gc = [options.drystone, "gc", "--data", data, "--json"]
    runs = []
    for _ in range(options.rounds):
        # Anything that moved since makes a sweep look through a repository again.
        subprocess.run([sys.executable, "-c", "import sqlite3, sys; db = sqlite3.connect(sys.argv[1]); db.execute('UPDATE repos SET swept = -1'); db.commit()", data / "catalog.db"], check=True)
        runs.append(measured(gc))
    note(rows, "sweep-cpu", [cpu for cpu, _, _ in runs], options.scale)
    note(rows, "sweep-rss", [rss for _, rss, _ in runs])
    rows["catalog"] = {"files": files, "bytes_per_file": size / files, "fill_cpu_s": filled_s}
    foreground(options, rows, data)
    environment = os.environ | {"DRYSTONE_TRASH_S": "0"}
    if options.scale < 1 or not options.keep:
        measured([options.drystone, "admin", "repo", "delete", "ann/big", "--data", data], env=environment)
        cpu, rss, out = measured([*gc[:4], "--offline", "--grace", "0", "--json"])
        print("all of it goes:", out.strip())
        note(rows, "drop-cpu", [cpu], options.scale)
        note(rows, "drop-rss", [rss])
    shutil.rmtree(data, ignore_errors=True)


def note(rows, name, values, scale=1.0):
    # Figures of a smaller catalog are shown as what they would be: sweep is linear, or the targets are missed.
    values = [value / scale for value in values]
    rows[name] = {"median": statistics.median(values), "all": values}


def verification(options, rows):
    folder = options.work / "verify"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    noise = folder / "noise"
    mib = max(64, int(2048 * options.scale))
    generator = random.Random(1)
    with open(noise, "wb") as out:
        for _ in range(mib):
            out.write(generator.randbytes(1 << 20))
    measured([options.drystone, "cas", "put", noise, "--store", folder / "data"])
    # What the disk still has to write is no part of it.
    noise.unlink()
    os.sync()
    rates, blake = [], []
    for _ in range(options.rounds):
        cpu, _, out = measured([options.drystone, "verify", "--deep", "--data", folder / "data", "--json"])
        rates.append(json.loads(out.splitlines()[-1])["bytes"] / cpu / 1e9)
        _, _, out = measured([options.kernels, 64, 5])
        blake.append(float(re.search(r"(?m)^blake3, chunk by chunk\s+([\d.]+)", out).group(1)))
    rows["verify"] = {"median": statistics.median(rates) / statistics.median(blake), "gb_per_cpu_s": rates, "blake3_gb_per_s": blake}
    shutil.rmtree(folder, ignore_errors=True)


def foreground(options, rows, data):
    """Uploads and downloads on a server over the large catalog, in turns beside a sweep and without."""
    data_dir = options.work / "server"
    shutil.rmtree(data_dir, ignore_errors=True)
    data_dir.mkdir()
    data.rename(data_dir / "data")
    server = Ours(options.drystone, data_dir, keep=True, environment={"DRYSTONE_LOG_LEVEL": "warn", "DRYSTONE_SWEEP_INTERVAL_S": "0"})
    try:
        pairs = []
        for n in range(options.rounds):
            alone = transfer(options, server, data_dir, 2 * n)
            subprocess.run([sys.executable, "-c", "import sqlite3, sys; db = sqlite3.connect(sys.argv[1], timeout=60); db.execute('DELETE FROM leases'); db.execute('UPDATE repos SET swept = -1'); db.commit()", data_dir / "data" / "catalog.db"], check=True)
            # As fast as servers sweep by themselves, and for as long as the transfers last.
            sweep = subprocess.Popen([options.drystone, "gc", "--data", data_dir / "data", "--rate", "2000"], stdout=subprocess.DEVNULL)
            beside = transfer(options, server, data_dir, 2 * n + 1)
            if sweep.poll() is not None and options.scale >= 1:
                print("the sweep ended before the transfers did")
            sweep.terminate()
            sweep.wait()
            pairs.append(alone / beside)
        note(rows, "foreground", pairs)
    finally:
        server.stop()
        (data_dir / "data").rename(data)
        shutil.rmtree(data_dir, ignore_errors=True)


def transfer(options, server, data_dir, seed):
    """Seconds for a folder of 1 MiB files up and down again."""
    folder = data_dir / "files"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    generator = random.Random(seed)
    for n in range(max(20, int(600 * options.scale))):
        (folder / f"{n}.bin").write_bytes(generator.randbytes(1 << 20))
    environment = os.environ | {"DRYSTONE_TOKEN": server.token, "HF_TOKEN": server.token, "DRYSTONE_CACHE": str(data_dir / f"cache-{seed}")}
    where = ["--endpoint", server.url, "--token", server.token, "--no-cache"]
    begin = time.monotonic()
    _, _, out = measured([options.drystone, "cas", "put", folder, *where, "--json"], env=environment)
    (data_dir / "list.json").write_text(json.dumps([{"hash": file["hash"], "path": str(n)} for n, file in enumerate(json.loads(out)["files"])]))
    measured([options.drystone, "cas", "get", "--from-json", data_dir / "list.json", "-o", data_dir / "got", *where], env=environment)
    seconds = time.monotonic() - begin
    shutil.rmtree(data_dir / "got")
    return seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full data, for a quick run")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--keep", action="store_true", help="leave out the sweep that drops everything")
    parser.add_argument("--work", type=Path, default=ROOT / "bench" / "work" / "sweep")
    parser.add_argument("--results", type=Path, default=ROOT / "bench" / "results")
    parser.add_argument("--programs", type=Path, default=TARGET_DIR / "release", help="where drystone and the examples are")
    options = parser.parse_args()
    options.drystone = options.programs / "drystone"
    options.fill, options.kernels = options.programs / "examples" / "fill", options.programs / "examples" / "kernels"
    options.work = options.work.resolve()
    for program in (options.drystone, options.fill, options.kernels):
        if not program.exists():
            parser.error(f"{program} does not exist: run `make bench-sweep`, or build it with cargo")
    options.work.mkdir(parents=True, exist_ok=True)
    load_before, rows = os.getloadavg()[0], {}
    sweeps(options, rows)
    verification(options, rows)
    date = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M")
    build = options.programs.name
    report = {"date": date, "cpus": os.cpu_count(), "processor": processor(), "build": build, "load_before": load_before, "load_after": os.getloadavg()[0], "scale": options.scale, "rows": rows}
    lines = [f"{date}, {machine()}, {build} build, load {load_before:.2f} before and {report['load_after']:.2f} after, scale {options.scale}", "",
             "| row | figure | target | |", "|---|---:|---:|---|"]
    for name, (what, unit, sign, target) in ROWS.items():
        if name in rows:
            met = rows[name]["median"] >= target if sign == ">=" else rows[name]["median"] <= target
            lines.append(f"| {what} | {rows[name]['median']:.2f} {unit} | {sign} {target} | {'met' if met else '**missed**'} |")
    text = "\n".join(lines) + "\n"
    print(text)
    options.results.mkdir(parents=True, exist_ok=True)
    stem = options.results / f"{date[:10]}-{date[11:].replace(':', '')}-sweep"
    stem.with_suffix(".json").write_text(json.dumps(report, indent=2) + "\n")
    stem.with_suffix(".md").write_text(text)
    shutil.rmtree(options.work, ignore_errors=True)


if __name__ == "__main__":
    main()
