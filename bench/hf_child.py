"""Hashes the files named on stdin (a JSON array) with hf_xet and prints what that cost. Started by run.py."""

import json
import resource
import sys
import time

import hf_xet


def cpu_s():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


paths = json.load(sys.stdin)
cpu_before, wall_before = cpu_s(), time.monotonic()
infos = hf_xet.hash_files(paths)
wall_after, cpu_after = time.monotonic(), cpu_s()
json.dump(
    {
        "cpu_s": cpu_after - cpu_before,
        "wall_s": wall_after - wall_before,
        "rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "hashes": [info.hash for info in infos],
    },
    sys.stdout,
)
