"""Measures `drystone cas put` and `cas get` against the published hf_xet wheel, turn by turn on the same files.

usage: clients.py [--scale S] [--rounds N] [--only ROW,…]

Rows: a local store (`--store` against hf_xet's own `local://`), and one `drystone serve` for both, each into a repository of its
own. What counts is the client's CPU time, user and system; then its peak resident memory and what is stored. A ratio is the
median over the rounds of one pair's ratio, and the one that begins changes from round to round. What is pushed is in the page cache:
it is read once before each push. The results go to bench/results/ as JSON and Markdown. The status is 1 when bytes came back
wrong or something failed, not when a target is missed.
"""

import argparse
import datetime
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

from hosts import Ours
from machine import machine, processor
from run import ROOT, TARGET_DIR, make_files

# row: what it is, measure, comparison, target
ROWS = {
    "push-big": ("push 2 GiB mixed into a local store", "CPU ratio", ">=", 2.0),
    "stored-big": ("what that stores, ours to theirs", "ratio", "<=", 1.0),
    "memory-big": ("memory of that push", "MiB", "<=", 424),
    "pull-big": ("pull it back, verifying", "CPU ratio", ">=", 3.0),
    "push-small": ("push 10,000 small files", "CPU ratio", ">=", 3.0),
    "pull-small": ("pull them back", "CPU ratio", ">=", 10.0),
    "push-server": ("push 2 GiB through a server", "CPU ratio", ">=", 1.5),
    "pull-server": ("pull it back through a server", "CPU ratio", ">=", 1.5),
    "version": ("new bytes of a second version, 1 % changed in 20 places, ours to theirs", "ratio", "<=", 1.1),
}


def main():
    options = parse_arguments()
    bench = Bench(options)
    load = os.getloadavg()[0]
    print(f"{machine()}, load {load:.2f}, scale {options.scale}, {options.rounds} rounds", flush=True)
    rounds = [bench.round(number) for number in range(options.rounds)]
    shutil.rmtree(bench.done_with, ignore_errors=True)
    rows = {}
    for name, (what, measure, comparison, target) in ROWS.items():
        seen = [row[name] for row in rounds if name in row]
        if seen and (options.only is None or name in options.only):
            rows[name] = {"what": what, "measure": measure, "comparison": comparison, "target": target, "seen": statistics.median(seen),
                          "rounds": seen}
    report = {"date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M"), "cpus": os.cpu_count(), "processor": processor(), "load_before": load,
              "load_after": os.getloadavg()[0], "scale": options.scale, "rounds": options.rounds, "rows": rows, "figures": bench.figures,
              "failures": bench.failures}
    text = table(report)
    print(text)
    stem = options.results / f"{report['date'][:10]}-{report['date'][11:].replace(':', '')}-clients"
    options.results.mkdir(parents=True, exist_ok=True)
    stem.with_suffix(".json").write_text(json.dumps(report, indent=2) + "\n")
    stem.with_suffix(".md").write_text(text)
    print(f"written to {stem}.json and .md")
    sys.exit(bool(bench.failures))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full data, for a quick run")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", help=f"some of {', '.join(ROWS)}")
    parser.add_argument("--work", type=Path, default=ROOT / "bench" / "work", help="where the data live")
    parser.add_argument("--results", type=Path, default=ROOT / "bench" / "results")
    parser.add_argument("--drystone", type=Path, default=TARGET_DIR / "release" / "drystone")
    parser.add_argument("--corpus", type=Path, default=TARGET_DIR / "release" / "corpus")
    parser.add_argument("--hf-python", default=sys.executable, help="an interpreter that has hf_xet")
    options = parser.parse_args()
    options.work, options.only = options.work.resolve(), options.only and set(options.only.split(","))
    return options


class Bench:
    def __init__(self, options):
        self.options, self.failures, self.figures = options, [], []
        self.room, self.done_with = options.work / "clients", options.work / "clients-done"
        shutil.rmtree(self.done_with, ignore_errors=True)

    def wants(self, *names):
        return self.options.only is None or self.options.only & set(names)

    def round(self, number):
        shutil.rmtree(self.room, ignore_errors=True)
        self.room.mkdir(parents=True)
        rows = {}
        if self.wants("push-big", "stored-big", "memory-big", "pull-big", "version"):
            rows |= self.store(number, "big", make_files("big", self.options))
        if self.wants("push-small", "pull-small"):
            rows |= self.store(number, "small", make_files("small", self.options))
        if self.wants("push-server", "pull-server"):
            rows |= self.server(number, make_files("big", self.options))
        self.figures.append(rows.pop("figures", None) or {})
        shutil.rmtree(self.room, ignore_errors=True)
        return rows

    def sides(self, number):
        return ["theirs", "ours"] if number % 2 == 0 else ["ours", "theirs"]

    def store(self, number, kind, files):
        """Into a store on this disk and back."""
        folder, paths, total = files
        paths = [str(folder / path) for path in paths]
        places = {"ours": self.room / f"{kind}-ours", "theirs": self.room / f"{kind}-theirs"}
        push, pull, stored, version = {}, {}, {}, {}
        for side in self.sides(number):
            place = places[side]
            place.mkdir()
            push[side] = self.push(side, place, paths)
            stored[side] = stored_bytes(place)
        for side in self.sides(number):
            pull[side] = self.pull(side, places[side], push[side]["files"], paths)
        if kind == "big" and self.wants("version"):
            second = self.room / "second.bin"
            # In another process: what this one holds would be counted to its children.
            subprocess.run([sys.executable, "-c", EDIT, paths[0], second, str(number)], check=True)
            for side in self.sides(number):
                self.push(side, places[side], [str(second)])
                version[side] = stored_bytes(places[side]) - stored[side]
            print(f"  second version: {version}", flush=True)
        print(f"  {kind}: stored {stored}", flush=True)
        rows = {f"push-{kind}": ratio(push), f"pull-{kind}": ratio(pull)}
        if kind == "big":
            rows |= {"stored-big": stored["ours"] / stored["theirs"], "memory-big": push["ours"]["rss_mib"]}
        if version:
            rows["version"] = version["ours"] / max(1, version["theirs"])
        return rows

    def server(self, number, files):
        """Through one server, each side into a repository and a namespace of its own."""
        folder, paths, total = files
        paths = [str(folder / path) for path in paths]
        push, pull = {}, {}
        for side in self.sides(number):
            with_host = Ours(self.options.drystone, self.room / f"server-{side}")
            try:
                push[side] = self.push(side, with_host, paths)
                pull[side] = self.pull(side, with_host, push[side]["files"], paths)
            finally:
                with_host.stop()
            shutil.rmtree(self.room / f"server-{side}", ignore_errors=True)
        return {"push-server": ratio(push), "pull-server": ratio(pull)}

    def push(self, side, place, paths):
        # Systems drop what was not read for a while, and the next run would pay for it: disks are not measured.
        subprocess.run(["xargs", "-0", "cat"], input="\0".join(paths), stdout=subprocess.DEVNULL, text=True, check=True)
        if side == "theirs":
            return self.hf_xet("upload", place, paths=paths)
        done = self.ours(place, "put", *paths)
        done["files"] = [[file["hash"], file["size"]] for file in done["report"]["files"]]
        return done

    def pull(self, side, place, files, paths):
        out = self.room / f"out-{side}"
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        if side == "theirs":
            done = self.hf_xet("download", place, folder=str(out), files=files)
        elif len(files) == 1:
            done = self.ours(place, "get", files[0][0], "-o", str(out / "0"), "--no-sync")
        else:
            listed = self.room / "list.json"
            listed.write_text(json.dumps([{"hash": file[0], "path": str(n)} for n, file in enumerate(files)]))
            done = self.ours(place, "get", "--from-json", str(listed), "-o", str(out), "--no-sync")
        if not all(same(Path(path), out / str(n)) for n, path in enumerate(paths)):
            self.failures.append(f"{side}: other bytes came back")
        if len(files) == 1:
            shutil.rmtree(out)
        else:
            # Removed at the end: ext4 checks every inode that was freed in the last minutes before it makes a new one.
            self.done_with.mkdir(exist_ok=True)
            out.rename(self.done_with / str(len(list(self.done_with.iterdir()))))
        return done

    def ours(self, place, verb, *args):
        where = ["--store", place] if isinstance(place, Path) else ["--endpoint", place.url]
        env = os.environ | ({} if isinstance(place, Path) else {"DRYSTONE_TOKEN": place.token})
        began = time.monotonic()
        with open(self.room / "out.json", "wb") as out:
            process = subprocess.Popen([self.options.drystone, "cas", verb, "--json", "--no-cache", *where, *args], stdout=out, env=env)
            _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            raise SystemExit(f"cas {verb} ended with status {process.returncode}")
        return self.report_run("ours", verb, usage.ru_utime + usage.ru_stime, time.monotonic() - began, usage.ru_maxrss / 1024,
                         report=json.loads((self.room / "out.json").read_bytes()))

    def hf_xet(self, verb, place, **job):
        home = self.room / "hf-home"
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir()
        url, (token, expires_s) = (f"local://{place}", ("none", 2**40)) if isinstance(place, Path) else (place.url, (place.token, place.expires_s))
        env = os.environ | {"HF_HOME": str(home), "HF_XET_CACHE": str(home / "xet"), "HF_HUB_DISABLE_TELEMETRY": "1"}
        child = ROOT / "bench" / "hf_transfer.py"
        job = {"verb": verb, "url": url, "token": token, "expires_s": expires_s, **job}
        done = subprocess.run([self.options.hf_python, child], env=env, input=json.dumps(job), stdout=subprocess.PIPE, text=True, check=True)
        report = json.loads(done.stdout)
        return self.report_run("theirs", verb, report["cpu_s"], report["wall_s"], report.get("rss_mib", 0), files=report["files"])

    def report_run(self, side, verb, cpu_s, wall_s, rss_mib, **more):
        print(f"  {side:6} {verb:8} CPU {cpu_s:6.2f} s, wall {wall_s:6.2f} s, {rss_mib:5.0f} MiB", flush=True)
        return {"cpu_s": cpu_s, "wall_s": wall_s, "rss_mib": rss_mib, **more}


def ratio(pair):
    return pair["theirs"]["cpu_s"] / pair["ours"]["cpu_s"]


# A copy with 1 % changed, in 20 places: overwritten, inserted, deleted.
EDIT = """
import random, sys
path, to, seed = sys.argv[1:]
rng = random.Random(int(seed))
data = bytearray(open(path, "rb").read())
step = len(data) // 100 // 20
for n in range(20):
    at = rng.randrange(0, len(data) - step)
    new = rng.randbytes(step)
    if n % 4 == 0:
        data[at:at] = new
    elif n % 4 == 1:
        del data[at : at + step]
    else:
        data[at : at + step] = new
open(to, "wb").write(data)
"""


def stored_bytes(folder):
    """Of everything but catalog and shards, which one side keeps twice and the other as its catalog."""
    caches = (file for file in folder.rglob("*") if file.is_file() and "shards" not in file.relative_to(folder).parts)
    return sum(file.stat().st_size for file in caches if "catalog" not in file.name and ".mdb" not in file.name)


def same(one, other):
    return one.stat().st_size == other.stat().st_size and subprocess.run(["cmp", "-s", one, other]).returncode == 0


def table(report):
    lines = [f"{report['date']}, {report['cpus']} CPUs: {report['processor']}, load {report['load_before']:.1f} to {report['load_after']:.1f}, scale {report['scale']}, "
             f"{report['rounds']} rounds", "", "| row | measure | target | seen | |", "|---|---|---:|---:|---|"]
    for row in report["rows"].values():
        met = row["seen"] >= row["target"] if row["comparison"] == ">=" else row["seen"] <= row["target"]
        lines.append(f"| {row['what']} | {row['measure']} | {row['comparison']} {row['target']} | {row['seen']:.2f} | {'met' if met else '**missed**'} |")
    return "\n".join([*lines, *report["failures"], ""])


if __name__ == "__main__":
    main()
