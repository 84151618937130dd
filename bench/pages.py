"""What pages cost: CPU time of the server and bytes, with many repositories and with many files in one folder.

usage: pages.py DRYSTONE FILL_PAGES [--repos N] [--files N] [--rounds N]

Prints one line for each page: CPU milliseconds of the server for one answer, milliseconds until it is here, bytes.
Ends with a line for each target that was missed, and status 1 then.
"""

import argparse
import http.client
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from harness import Server
from machine import machine

CPU_MS_MAX = 50
BYTES_MAX = 100_000


def cpu_s(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def fetch(server, path):
    host = server.url.removeprefix("http://")
    connection = http.client.HTTPConnection(host, timeout=120)
    connection.request("GET", path, headers={"Accept": "text/html"})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    if answer.status != 200:
        raise SystemExit(f"{path}: {answer.status} {body[:300]}")
    return len(body)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("drystone", type=Path)
    parser.add_argument("fill", type=Path)
    parser.add_argument("--repos", type=int, default=10_000)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=40)
    options = parser.parse_args()
    missed = []
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        # Makes the folder and the catalog as it wants them.
        Server(options.drystone.absolute(), data).stop()
        subprocess.run([options.fill, data / "catalog.db", str(options.repos), str(options.files)], check=True)
        server = Server(options.drystone.absolute(), data)
        try:
            begin = cpu_s(server.process.pid)
            fetch(server, "/")
            # The first visit has every repository measured.
            while (busy := cpu_s(server.process.pid)) and time.sleep(1) is None and cpu_s(server.process.pid) - busy > 0.05:
                pass
            print(machine())
            print(f"{options.repos} repositories measured once: {cpu_s(server.process.pid) - begin:.2f} s of CPU")
            pages = {"home": "/", "home by size": "/?sort=size", "home, last page": f"/?sort=name&p={options.repos // 50}", "search": "/?search=0099",
                     "dedup": "/-/dedup", "repository": "/ann/many", "folder goes on": f"/ann/many/tree/main?after=part-{options.files * 9 // 10:08}.safetensors"}
            for name, path in pages.items():
                begin = cpu_s(server.process.pid)
                fetch(server, path)
                first_ms = 1000 * (cpu_s(server.process.pid) - begin)
                begin, start = cpu_s(server.process.pid), time.monotonic()
                for _ in range(options.rounds):
                    size = fetch(server, path)
                cpu_ms = 1000 * (cpu_s(server.process.pid) - begin) / options.rounds
                wall_ms = 1000 * (time.monotonic() - start) / options.rounds
                print(f"{name}: {cpu_ms:.1f} ms of CPU ({first_ms:.0f} ms the first time), {wall_ms:.1f} ms, {size} bytes")
                if cpu_ms > CPU_MS_MAX or size > BYTES_MAX:
                    missed.append(name)
        finally:
            server.stop()
    for name in missed:
        print(f"missed: {name}")
    sys.exit(bool(missed))


if __name__ == "__main__":
    main()
