"""Measures `drystone hash` against the published hf_xet wheel, turn by turn on the same files.

usage: run.py [--scale S] [--rounds N] [--only big|small] [--json]

The data are made by the `corpus` program under bench/work and kept for the next run. In every round both programs
hash the same files once, and the one that begins changes from round to round. A ratio is the median over the rounds of
one pair's ratio, so a slow minute of the machine weighs on both sides. CPU seconds come first: wall time means
something only on an idle machine, so the load is printed too. Hashes that differ end the run with status 1.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from machine import processor

ROOT = Path(__file__).resolve().parent.parent
TARGET_DIR = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()

BIG_MIB = 2048
SMALL_FILES = 10_000
SMALL_MB = 339

# measure, comparison, bound
TARGETS = {
    "big": [("cpu_ratio", ">=", 1.15), ("wall_ratio", ">=", 1.9), ("rss_mib", "<=", 64), ("thread_speedup", ">=", 1.7)],
    "small": [("cpu_ratio", ">=", 10.0)],
}
LABELS = {"cpu_ratio": "CPU ratio", "wall_ratio": "wall ratio", "rss_mib": "peak RSS, MiB", "thread_speedup": "threads, wall"}


def main():
    options = parse_arguments()
    say = lambda *text: print(*text, file=sys.stderr if options.json else sys.stdout, flush=True)
    report = {
        "cpus": os.cpu_count(),
        "processor": processor(),
        "load": os.getloadavg()[0],
        "scale": options.scale,
        "rounds": options.rounds,
        "rss_floor_mib": rss_floor_mib(),
        "sets": {},
    }
    say(f"{report['cpus']} CPUs: {report['processor']}, load {report['load']:.2f}, scale {options.scale}, {options.rounds} rounds")
    for name in ("big", "small"):
        if options.only in (None, name):
            result = measure_set(name, make_files(name, options), options, say)
            report["sets"][name] = result
            print_set(result, options.scale, say)
    say(f"\nA child's peak RSS reads at least {report['rss_floor_mib']:.0f} MiB here: the size of this script.")
    if options.json:
        print(json.dumps(report, indent=2))
    else:
        run_kernels()
    sys.exit(not all(result["agree"] for result in report["sets"].values()))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full data, for a quick run")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=["big", "small"])
    parser.add_argument("--json", action="store_true", help="print one JSON object, and nothing else, on stdout")
    parser.add_argument("--work", type=Path, default=ROOT / "bench" / "work", help="where the data live")
    parser.add_argument("--drystone", type=Path, default=TARGET_DIR / "release" / "drystone")
    parser.add_argument("--corpus", type=Path, default=TARGET_DIR / "release" / "corpus")
    parser.add_argument("--hf-python", default=sys.executable, help="an interpreter that has hf_xet")
    options = parser.parse_args()
    for program in (options.drystone, options.corpus):
        if not program.exists():
            parser.error(f"{program} does not exist: run `make bench`, or build it with cargo")
    options.work = options.work.resolve()
    options.drystone = options.drystone.resolve()
    options.corpus = options.corpus.resolve()
    options.work.mkdir(parents=True, exist_ok=True)
    return options


def make_files(name, options):
    """Returns (folder, relative paths, total bytes), making the files unless an earlier run left them."""
    if name == "big":
        mib = max(8, round(BIG_MIB * options.scale))
        folder, command = options.work / f"big-{mib}", ["mixed", "mixed.bin", str(mib)]
    else:
        count = max(10, round(SMALL_FILES * options.scale))
        mb = max(1, round(SMALL_MB * options.scale))
        folder, command = options.work / f"small-{count}-{mb}", ["small", ".", str(count), str(mb)]
    complete = folder / ".complete"
    if not complete.exists():
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run([options.corpus, *command], cwd=folder, check=True)
        complete.touch()
    paths = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.bin"))
    total = 0
    for path in paths:
        # Reading once brings the file into the page cache, so the first round is like the others.
        with open(folder / path, "rb", buffering=0) as file:
            while block := file.read(1 << 20):
                total += len(block)
    return folder, paths, total


def measure_set(name, files, options, say):
    folder, paths, total = files
    say(f"\n{name}: {len(paths)} files, {total / 1e9:.3f} GB")
    rounds, agree = [], True
    for number in range(options.rounds):
        turns = [("hf_xet", run_hf_xet), ("drystone", run_drystone)]
        if number % 2:
            turns.reverse()
        pair = {tool: run(folder, paths, options) for tool, run in turns}
        if pair["hf_xet"].pop("hashes") != pair["drystone"].pop("hashes"):
            agree = False
            say("  HASHES DIFFER")
        rounds.append(pair)
        cpu = {tool: side["cpu_s"] for tool, side in pair.items()}
        say(f"  round {number + 1}: CPU seconds hf_xet {cpu['hf_xet']:.2f}, drystone {cpu['drystone']:.2f}")
    result = summarize(rounds, total) | {"files": len(paths), "bytes": total, "agree": agree}
    result["threads"] = measure_threads(folder, paths, options)
    result["thread_speedup"] = result["threads"]["wall_speedup"]
    result["targets"] = [judge(result, *target) for target in TARGETS[name]]
    return result


def run_hf_xet(folder, paths, options):
    """The call alone, without starting the interpreter: the child measures itself."""
    home = options.work / "hf-home"
    home.mkdir(exist_ok=True)
    environment = os.environ | {
        "HF_HOME": str(home),
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_DISABLE_UPDATE_CHECK": "1",
    }
    child = ROOT / "bench" / "hf_child.py"
    done = subprocess.run(
        [options.hf_python, child], cwd=folder, env=environment, input=json.dumps(paths), stdout=subprocess.PIPE,
        text=True, check=True,
    )  # fmt: skip
    return json.loads(done.stdout)


def run_drystone(folder, paths, options, *flags):
    """The whole process, start included."""
    out = options.work / "drystone.json"
    began = time.monotonic()
    with open(out, "wb") as file:
        command = [options.drystone, "hash", "--json", *flags, "--", *paths]
        process = subprocess.Popen(command, cwd=folder, stdout=file)
        _, status, usage = os.wait4(process.pid, 0)
    wall_s = time.monotonic() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"drystone hash ended with status {process.returncode}")
    return {
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "wall_s": wall_s,
        "rss_mib": usage.ru_maxrss / 1024,
        "hashes": [entry["hash"] for entry in json.loads(out.read_bytes())],
    }


def rss_floor_mib():
    """What the kernel reports for a program that needs nothing: it also counts the process that started it."""
    process = subprocess.Popen(["true"])
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_maxrss / 1024


def summarize(rounds, total):
    def median(tool, what):
        return statistics.median(pair[tool][what] for pair in rounds)

    def ratio(what):
        return statistics.median(pair["hf_xet"][what] / pair["drystone"][what] for pair in rounds)

    tools = {
        tool: {
            "gb_per_cpu_s": total / 1e9 / median(tool, "cpu_s"),
            "gb_per_s": total / 1e9 / median(tool, "wall_s"),
            "rss_mib": max(pair[tool]["rss_mib"] for pair in rounds),
        }
        for tool in ("hf_xet", "drystone")
    }
    return {
        "tools": tools,
        "cpu_ratio": ratio("cpu_s"),
        "wall_ratio": ratio("wall_s"),
        "rss_mib": tools["drystone"]["rss_mib"],
        "rounds": rounds,
    }


def measure_threads(folder, paths, options):
    """How much wall time the default number of threads saves over one."""
    pairs = []
    for _ in range(max(3, options.rounds)):
        one = run_drystone(folder, paths, options, "--threads", "1")
        default = run_drystone(folder, paths, options)
        pairs.append((one["wall_s"] / default["wall_s"], default["cpu_s"] / one["cpu_s"]))
    return {
        "wall_speedup": statistics.median(pair[0] for pair in pairs),
        "cpu_overhead": statistics.median(pair[1] for pair in pairs),
    }


def judge(result, what, comparison, bound):
    value = result[what]
    met = value >= bound if comparison == ">=" else value <= bound
    return {"what": what, "comparison": comparison, "bound": bound, "value": value, "met": met}


def print_set(result, scale, say):
    say(f"\n  {'':10} {'GB/CPU s':>9} {'GB/s':>9} {'RSS MiB':>9}")
    for tool, row in result["tools"].items():
        say(f"  {tool:10} {row['gb_per_cpu_s']:9.3f} {row['gb_per_s']:9.3f} {row['rss_mib']:9.0f}")
    say(f"  {'ratio':10} {result['cpu_ratio']:9.2f} {result['wall_ratio']:9.2f}   (medians of pairs)")
    threads = result["threads"]
    say(
        f"  default threads against one: {threads['wall_speedup']:.2f} times as fast by wall time, "
        f"{threads['cpu_overhead']:.2f} times the CPU"
    )
    if scale != 1:
        say("  the targets are meant for the full data")
    for target in result["targets"]:
        say(
            f"  target {LABELS[target['what']]} {target['comparison']} {target['bound']}: "
            f"{target['value']:.2f}, {'met' if target['met'] else 'MISSED'}"
        )
    say(f"  hashes {'agree' if result['agree'] else 'DIFFER'}")


def run_kernels():
    """The table of single kernels on one core."""
    print("\nkernels", flush=True)
    command = ["cargo", "run", "--quiet", "--release", "-p", "drystone-xet", "--example", "kernels"]
    subprocess.run(command, cwd=ROOT, check=True)


if __name__ == "__main__":
    main()
