"""Peak memory of the client: one very long file, and very many small ones, there and back.

usage: memory.py DRYSTONE [--scale S] [--only long|many] [--work DIR]

At scale 1 that is 10 GB pushed and pulled by hash through `drystone serve`, and 100,000 files into a repository and out of it.
The long file is pushed from standard input. Memory is the process's own high
mark, which must stay below the budget it was given and what every process of ours takes. Ends with `memory: N passed, M failed`.
"""

import argparse
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from hosts import Ours
from machine import machine

BYTES, FILES = 10_000_000_000, 100_000
BUDGET_MIB = 256
# The program, its threads and connections, lists of names, and what the allocator keeps.
BESIDE_MIB = 100
BLOCK = 1 << 20

passed = failed = 0


def check(name, ok, detail=""):
    global passed, failed
    passed, failed = passed + bool(ok), failed + (not ok)
    print(f"{'ok' if ok else 'FAILED'}: {name}  {detail}", flush=True)


def blocks(total):
    """Noise: nothing of it is known or shrinks."""
    for start in range(0, total, BLOCK):
        yield random.Random(start).randbytes(min(BLOCK, total - start))


def run(command, env, feed=None):
    """Its JSON, its peak MiB, its CPU seconds."""
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen([str(part) for part in command], stdin=subprocess.PIPE if feed else None, stdout=out, env=os.environ | env)
        if feed:
            for block in feed:
                process.stdin.write(block)
            process.stdin.close()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"{command[1:3]} ended with status {process.returncode}")
        out.seek(0)
        return json.load(out), usage.ru_maxrss / 1024, usage.ru_utime + usage.ru_stime


def long_file(drystone, work, env, scale):
    total = int(BYTES * scale)
    digest = hashlib.sha256()
    for block in blocks(total):
        digest.update(block)
    budget = BUDGET_MIB << 20
    began = time.monotonic()
    report, rss, cpu = run([drystone, "cas", "put", "--json", "--no-cache", "--memory", budget, "-"], env, blocks(total))
    fits = rss < BUDGET_MIB + BESIDE_MIB
    check(f"a push of {total / 1e9:g} GB stays within its budget", fits and report["logical_bytes"] == total,
          f"{rss:.0f} MiB, CPU {cpu:.1f} s, {time.monotonic() - began:.1f} s, sent {report['sent_bytes']}")
    file, began = report["files"][0], time.monotonic()
    out = work / "long"
    _, rss, cpu = run([drystone, "cas", "get", "--json", "--no-cache", "--memory", budget, file["hash"], "-o", out,
                       "--sha256", digest.hexdigest()], env)
    check("and the pull of it", rss < BUDGET_MIB + BESIDE_MIB and out.stat().st_size == total,
          f"{rss:.0f} MiB, CPU {cpu:.1f} s, {time.monotonic() - began:.1f} s")
    out.unlink()


def many_files(drystone, work, env, scale, host):
    count = max(100, int(FILES * scale))
    folder = work / "many"
    for n in range(count):
        path = folder / f"{n % 97:02}" / f"{n}.{'txt' if n % 4 == 0 else 'bin'}"
        if n < 97:
            path.parent.mkdir(parents=True)
        path.write_bytes(b"%d words\n" % n if n % 4 == 0 else n.to_bytes(4, "big") * (1 + n % 700))
    budget = BUDGET_MIB << 20
    began = time.monotonic()
    report, rss, cpu = run([drystone, "push", "--json", "--create", "--no-cache", "--memory", budget, folder, "datasets/ann/many"], env)
    check(f"a push of {count} files stays within its budget", rss < BUDGET_MIB + BESIDE_MIB and report["files"] == count,
          f"{rss:.0f} MiB, CPU {cpu:.1f} s, {time.monotonic() - began:.1f} s, {report['commits']} commits; server {host.peak_rss_mib():.0f} MiB")
    began, out = time.monotonic(), work / "out"
    report, rss, cpu = run([drystone, "pull", "--json", "--no-cache", "--memory", budget, "datasets/ann/many", out], env)
    same = subprocess.run(["diff", "-rq", "--exclude", ".gitattributes", folder, out]).returncode == 0
    check("and the pull of them", rss < BUDGET_MIB + BESIDE_MIB and report["files"] == count + 1 and same,
          f"{rss:.0f} MiB, CPU {cpu:.1f} s, {time.monotonic() - began:.1f} s; server {host.peak_rss_mib():.0f} MiB")
    began = time.monotonic()
    report, rss, cpu = run([drystone, "push", "--json", "--no-cache", "--memory", budget, folder, "datasets/ann/many"], env)
    check("and a push that finds nothing new", rss < BUDGET_MIB + BESIDE_MIB and report["unchanged"] == count and report["commits"] == 0,
          f"{rss:.0f} MiB, CPU {cpu:.1f} s, {time.monotonic() - began:.1f} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("drystone", type=Path)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--only", choices=["long", "many"])
    parser.add_argument("--work", type=Path, default=None, help="where there is room for 22 GB")
    options = parser.parse_args()
    drystone = options.drystone.resolve()
    work = Path(tempfile.mkdtemp(dir=options.work))
    print(machine(), flush=True)
    host = Ours(drystone, work / "server")
    try:
        admin = (work / "server" / "data" / "admin.token").read_text().strip()
        env = {"DRYSTONE_ENDPOINT": host.url, "DRYSTONE_TOKEN": host.token}
        if options.only != "many":
            long_file(drystone, work, env, options.scale)
        if options.only != "long":
            many_files(drystone, work, env | {"DRYSTONE_TOKEN": admin}, options.scale, host)
    except (Exception, SystemExit) as error:
        check("the rest", False, repr(error))
    finally:
        host.stop()
        shutil.rmtree(work, ignore_errors=True)
    print(f"memory: {passed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
