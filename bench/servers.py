"""Measures `drystone serve` with the published hf_xet client, and a rival beside it if one is named.

usage: servers.py [--scale S] [--rounds N] [--only ROW,…] [--rival-endpoint URL --rival-pid PID [--rival-token T]]

Every round starts our server on a fresh folder: local disk, SQLite, default settings. What counts is the server's own CPU
time (user and system, /proc/PID/stat) and its peak resident memory (VmHWM); clients are other processes. Figures are
medians over the rounds. With a rival the two take turns, on the same bytes, and every round has bytes of its own.
The results go to bench/results/ as JSON and Markdown. The status is 1 when bytes came back wrong or something failed,
not when a target is missed: on a loaded machine that would say little.
"""

import argparse
import datetime
import json
import os
import shutil
import statistics
import subprocess
import sys
import threading
from pathlib import Path

from hosts import Ours, Rival
from machine import machine, processor

ROOT = Path(__file__).resolve().parent.parent
TARGET_DIR = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()

# row: what it is, unit, comparison, target
ROWS = {
    "receive-big": ("receive 2 GiB, verified and durable", "GB per CPU s", ">=", 0.9),
    "serve-big": ("serve 2 GiB", "GB per CPU s", ">=", 2.0),
    "receive-small": ("receive 10,000 small files", "CPU s", "<=", 1.0),
    "serve-small": ("serve 10,000 small files", "CPU s", "<=", 2.5),
    "plan-small": ("one reconstruction, warm, small file", "ms of CPU", "<=", 0.2),
    "plan-big": ("one reconstruction, warm, 2 GiB file", "ms of CPU", "<=", 0.5),
    "plans-per-s": ("reconstructions of one-term files", "per second", ">=", 3000),
    "uploads": ("64 uploads of 64 MiB at once", "failed", "<=", 0),
    "growth": ("a reconstruction among 1,000,000 files, against 10,000", "times the CPU", "<=", 1.5),
}
BIG_MIB, SMALL_FILES, SMALL_MB = 2048, 10_000, 339


def main():
    options = parse_arguments()
    bench = Bench(options)
    rows = {}
    for name, measure in bench.plan():
        rows |= {name: row for name, row in measure().items() if options.only is None or name in options.only}
        print(flush=True)
    report = {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M"),
        "cpus": os.cpu_count(),
        "processor": processor(),
        "load_before": bench.load,
        "load_after": os.getloadavg()[0],
        "scale": options.scale,
        "rounds": options.rounds,
        "program": subprocess.run([options.drystone, "--version"], capture_output=True, text=True).stdout.strip(),
        "rows": rows,
        "failures": bench.failures,
    }
    text = table(report)
    print(text)
    if rows:
        stem = options.results / f"{report['date'][:10]}-{report['date'][11:].replace(':', '')}-servers"
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
    parser.add_argument("--rival-endpoint", help="another XET server, to be measured beside ours")
    parser.add_argument("--rival-pid", type=int, help="its process")
    parser.add_argument("--rival-token", help="what it wants as a CAS token")
    parser.add_argument("--work", type=Path, default=ROOT / "bench" / "work", help="where the data live")
    parser.add_argument("--results", type=Path, default=ROOT / "bench" / "results", help="where the results go")
    for program in ("drystone", "corpus", "load", "examples/fill"):
        name = program.rsplit("/", 1)[-1]
        parser.add_argument(f"--{name}", type=Path, default=TARGET_DIR / "release" / program)
    parser.add_argument("--hf-python", default=sys.executable, help="an interpreter that has hf_xet")
    options = parser.parse_args()
    options.only = options.only and options.only.split(",")
    unknown = set(options.only or []) - set(ROWS)
    if unknown:
        parser.error(f"no row {', '.join(sorted(unknown))}: there are {', '.join(ROWS)}")
    if bool(options.rival_endpoint) != bool(options.rival_pid):
        parser.error("a rival needs --rival-endpoint and --rival-pid")
    for program in (options.drystone, options.corpus, options.load, options.fill):
        if not program.exists():
            parser.error(f"{program} does not exist: run `make bench-servers`, or build it with cargo")
    options.work = options.work.resolve()
    return options


class Bench:
    def __init__(self, options):
        self.options, self.failures, self.load = options, [], os.getloadavg()[0]
        self.scratch = options.work / "servers"
        self.rival = options.rival_endpoint and Rival(
            options.rival_endpoint, options.rival_pid, options.rival_token
        )
        print(f"{machine()}, load {self.load:.2f}, scale {options.scale}, {options.rounds} rounds\n")

    def plan(self):
        """The measurements, each with the rows it gives."""
        sets = [
            (["receive-big", "serve-big", "plan-big"], lambda: self.transfers("big")),
            (["receive-small", "serve-small", "plan-small", "plans-per-s"], lambda: self.transfers("small")),
            (["uploads"], self.uploads),
            (["growth"], self.growth),
        ]
        only = self.options.only
        return [(names, measure) for names, measure in sets if only is None or set(only) & set(names)]

    # Files up and down with hf_xet, and reconstructions of them.

    def transfers(self, kind):
        rounds = {}
        for number in range(self.options.rounds):
            seed = number + 1 if self.rival else 1
            folder, paths, total = self.files(kind, seed)
            hosts = [self.start] + ([lambda: self.rival] if self.rival else [])
            for start in hosts if number % 2 == 0 else reversed(hosts):
                host = start()
                figures = self.transfer(host, kind, folder, paths, total)
                host.stop()
                rounds.setdefault(host.name, []).append(figures)
                shown = ", ".join(f"{name} {value:.3g}" for name, value in figures.items())
                print(f"  {kind}, round {number + 1}, {host.name}: {shown}", flush=True)
            if seed > 1:
                shutil.rmtree(folder)
        measured = {}
        for host, list_of_figures in rounds.items():
            median = {
                name: statistics.median(figures[name] for figures in list_of_figures) for name in list_of_figures[0]
            }
            for name, row in rows_of(kind, median).items():
                measured.setdefault(name, {})[host] = row
        for name, row in measured.items():
            row["rounds"] = {host: list_of_figures for host, list_of_figures in rounds.items()}
        return measured

    def start(self, **more):
        return Ours(self.options.drystone, self.scratch / "server", **more)

    def transfer(self, host, kind, folder, paths, total):
        figures = {}
        sent = self.client(host, "upload", figures, "receive", paths=paths)
        back = self.scratch / "back"
        shutil.rmtree(back, ignore_errors=True)
        back.mkdir(parents=True)
        self.client(host, "download", figures, "serve", files=sent["files"], folder=str(back))
        figures["rss_mib"] = host.peak_rss_mib()
        figures["gb"] = total / 1e9
        for number, path in enumerate(paths):
            if not same(Path(path), back / str(number)):
                self.failures.append(f"{host.name} gave {path} back wrong")
        shutil.rmtree(back)
        figures |= self.plans(host, "plan", [file_hash for file_hash, _ in sent["files"]], connections=1)
        if kind == "small":
            figures |= self.plans(host, "load", [file_hash for file_hash, _ in sent["files"]], connections=8)
        return figures

    def client(self, host, verb, figures, name, **job):
        """Runs hf_xet in a process of its own, with an empty cache."""
        home = self.scratch / "hf-home"
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        environment = os.environ | {
            "HF_HOME": str(home),
            "HF_XET_CACHE": str(home),
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "HF_HUB_DISABLE_UPDATE_CHECK": "1",
        }
        job |= {"verb": verb, "url": host.url, "token": host.token, "expires_s": host.expires_s}
        before = host.cpu_s()
        done = subprocess.run(
            [self.options.hf_python, ROOT / "bench" / "hf_transfer.py"], env=environment, input=json.dumps(job),
            stdout=subprocess.PIPE, text=True, check=True,
        )  # fmt: skip
        result = json.loads(done.stdout)
        figures[f"{name}_cpu_s"] = host.cpu_s() - before
        figures[f"{name}_wall_s"] = result["wall_s"]
        figures[f"{name}_client_cpu_s"] = result["cpu_s"]
        return result

    def plans(self, host, name, hashes, connections):
        """Requests reconstructions on kept-alive connections: once to warm up, then measured."""
        file = self.scratch / "paths"
        version = "v2" if self.answers(host, f"/v2/reconstructions/{hashes[0]}") else "v1"
        file.write_text("".join(f"/{version}/reconstructions/{file_hash}\n" for file_hash in hashes))
        count = max(2000, round(20_000 * self.options.scale)) if len(hashes) > 1 else 2000
        self.request_plans(host, file, connections, min(count, 2000))
        before = host.cpu_s()
        done = self.request_plans(host, file, connections, count)
        cpu_ms = (host.cpu_s() - before) / count * 1e3
        if done["failed"]:
            self.failures.append(f"{host.name}: {done['failed']} of {count} reconstructions failed")
        return {f"{name}_cpu_ms": cpu_ms, f"{name}_p50_ms": done["p50_ms"], f"{name}_per_s": done["per_s"]}

    def answers(self, host, path):
        file = self.scratch / "paths"
        file.write_text(f"{path}\n")
        return self.request_plans(host, file, 1, 1)["failed"] == 0

    def request_plans(self, host, file, connections, count):
        command = [self.options.load, "requests", host.address, host.token, file, str(connections), str(count)]
        return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)

    # Memory.

    def uploads(self):
        """Many large uploads at once, within the memory there is by default."""
        count, mib = max(4, round(64 * self.options.scale)), 64
        server, seen, stop = self.start(), [0.0], threading.Event()

        def watch():
            while not stop.wait(0.05):
                seen.append(server.metric("drystone_memory_in_use_bytes"))

        watcher = threading.Thread(target=watch)
        watcher.start()
        before = server.cpu_s()
        command = [self.options.load, "uploads", server.address, server.token, str(count), str(mib)]
        done = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        stop.set()
        watcher.join()
        row = {
            "value": count - done["stored"],
            "budget_mib": server.metric("drystone_memory_budget_bytes") / 2**20,
            "budget_used_mib": max(seen) / 2**20,
            "rss_mib": server.peak_rss_mib(),
            "wall_s": done["seconds"],
            "gb_per_cpu_s": done["bytes"] / 1e9 / (server.cpu_s() - before),
        }
        server.stop()
        self.failures += [f"an upload failed: {failure}" for failure in done["failures"]]
        print("  uploads: " + ", ".join(f"{name} {value:.3g}" for name, value in row.items()), flush=True)
        return {"uploads": {"drystone": row}}

    # Size.

    def growth(self):
        """The same question to a small catalog and to a large one."""
        costs = {}
        for files in (10_000, 1_000_000):
            files = max(1000, round(files * self.options.scale))
            folder = self.scratch / "server"
            shutil.rmtree(folder, ignore_errors=True)
            (folder / "data").mkdir(parents=True)
            filled = subprocess.run(
                [self.options.fill, folder / "data" / "catalog.db", "bench", "models/files", str(files), "2000"],
                check=True, stdout=subprocess.PIPE, text=True,
            )  # fmt: skip
            server = self.start(keep=True)
            hashes = filled.stdout.split()
            measured = [self.plans(server, "plan", hashes, connections=1) for _ in range(self.options.rounds)]
            costs[files] = {name: statistics.median(one[name] for one in measured) for name in measured[0]}
            costs[files]["rss_mib"] = server.peak_rss_mib()
            costs[files]["catalog_mb"] = (folder / "data" / "catalog.db").stat().st_size / 1e6
            server.stop()
            shutil.rmtree(folder)
            shown = ", ".join(f"{name} {value:.3g}" for name, value in costs[files].items())
            print(f"  growth, {files} files: {shown}", flush=True)
        small, large = costs.values()
        return {"growth": {"drystone": {"value": large["plan_cpu_ms"] / small["plan_cpu_ms"]}, "rounds": costs}}

    # Data.

    def files(self, kind, seed):
        """Returns (folder, paths, total bytes), making the files unless an earlier run left them."""
        scale = self.options.scale
        if kind == "big":
            mib = max(8, round(BIG_MIB * scale))
            name, command = f"big-{mib}", ["mixed", "mixed.bin", str(mib)]
        else:
            count, mb = max(10, round(SMALL_FILES * scale)), max(1, round(SMALL_MB * scale))
            name, command = f"small-{count}-{mb}", ["small", ".", str(count), str(mb)]
        folder = self.options.work / (name if seed == 1 else f"{name}-{seed}")
        complete = folder / ".complete"
        if not complete.exists():
            folder.mkdir(parents=True, exist_ok=True)
            subprocess.run([self.options.corpus.resolve(), *command, str(seed)], cwd=folder, check=True)
            complete.touch()
        paths = sorted(str(path) for path in folder.rglob("*.bin"))
        total = 0
        for path in paths:
            # Reading once brings the file into the page cache, so the first round is like the others.
            with open(path, "rb", buffering=0) as file:
                while block := file.read(1 << 20):
                    total += len(block)
        return folder, paths, total


def rows_of(kind, median):
    """What the medians of one host say in the rows of the table."""
    receive, serve, rss = median["receive_cpu_s"], median["serve_cpu_s"], median["rss_mib"]
    if kind == "big":
        return {
            "receive-big": {"value": median["gb"] / receive, "wall_s": median["receive_wall_s"], "rss_mib": rss},
            "serve-big": {"value": median["gb"] / serve, "wall_s": median["serve_wall_s"], "rss_mib": rss},
            "plan-big": {"value": median["plan_cpu_ms"], "p50_ms": median["plan_p50_ms"]},
        }
    return {
        "receive-small": {"value": receive, "wall_s": median["receive_wall_s"], "rss_mib": rss},
        "serve-small": {"value": serve, "wall_s": median["serve_wall_s"], "rss_mib": rss},
        "plan-small": {"value": median["plan_cpu_ms"], "p50_ms": median["plan_p50_ms"]},
        "plans-per-s": {"value": median["load_per_s"], "p50_ms": median["load_p50_ms"], "cpu_ms": median["load_cpu_ms"]},
    }


def table(report):
    load = f"{report['load_before']:.1f} before, {report['load_after']:.1f} after"
    lines = [
        f"# Server benchmark, {report['date']} UTC",
        "",
        f"{report['program']}; {report['cpus']} CPUs: {report['processor']}, load {load}; scale {report['scale']}, {report['rounds']} rounds, medians.",
        "",
        "| row | server | figure | unit | target | verdict | besides |",
        "|---|---|---:|---|---:|---|---|",
    ]
    for name, row in report["rows"].items():
        what, unit, comparison, target = ROWS[name]
        for host, figures in row.items():
            if host == "rounds":
                continue
            value = figures["value"]
            met = value >= target if comparison == ">=" else value <= target
            verdict = "" if host == "rival" else "met" if met else "MISSED"
            if verdict and report["scale"] != 1:
                verdict = f"({verdict})"
            besides = ", ".join(f"{key} {number:.3g}" for key, number in figures.items() if key != "value")
            bound = f"{comparison} {target}"
            lines.append(f"| {what} | {host} | {value:.3g} | {unit} | {bound} | {verdict} | {besides} |")
    if report["scale"] != 1:
        lines += ["", "The targets are meant for the full data."]
    lines += [f"\nFAILED: {failure}" for failure in report["failures"]]
    return "\n".join(lines) + "\n"


def same(one, other):
    with open(one, "rb") as a, open(other, "rb") as b:
        while block := a.read(1 << 20):
            if b.read(1 << 20) != block:
                return False
        return not b.read(1)


if __name__ == "__main__":
    main()
