"""Measures the Hub side of `drystone serve`: files by plain HTTP beside nginx, large commits, large listings.

usage: hub.py [--scale S] [--rounds N] [--nginx PROGRAM]

Our server runs on a fresh folder: local disk, SQLite, default settings. nginx serves the same file from the disk, with
sendfile and all workers. Both serve the same client over loopback, in turns. CPU time is the servers' own (user and
system, /proc/PID/stat). The results go to bench/results/ as JSON and Markdown. The status is 1 when something failed, not
when a target is missed.
"""

import argparse
import base64
import datetime
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from hosts import Host, Ours
from machine import machine, processor

ROOT = Path(__file__).resolve().parent.parent
TARGET_DIR = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()

# row: what it is, unit, comparison, target
ROWS = {
    "ranges": ("64 KiB at random offsets of 1 GiB, warm: requests per second", "of nginx's", ">=", 0.4),
    "ranges-cpu": ("the same: requests per CPU second of the server", "of nginx's", None, None),
    "sequential": ("1 GiB in one request: bytes per CPU second", "of nginx's", ">=", 0.5),
    "commit": ("a commit of 10,000 files", "CPU s", "<=", 3.0),
    "commit-rss": ("the server's peak memory in it", "MiB", "<=", 512),
    "tree": ("first page of a listing of 100,000 files", "ms of CPU", "<=", 50),
}


class Nginx(Host):
    """nginx on a folder."""

    name = "nginx"

    def __init__(self, program, folder, root, port):
        folder.mkdir(parents=True, exist_ok=True)
        config = folder / "nginx.conf"
        config.write_text(f"""
            daemon off; worker_processes auto; pid {folder}/pid; error_log {folder}/error.log;
            {"user root;" if os.getuid() == 0 else ""}
            events {{ worker_connections 1024; }}
            http {{ access_log off; sendfile on; keepalive_requests 10000000;
                    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
                    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
                    server {{ listen 127.0.0.1:{port}; root {root}; }} }}""")
        self.process = subprocess.Popen([program, "-c", config, "-p", folder], stderr=subprocess.DEVNULL)
        self.url = f"http://127.0.0.1:{port}"
        for _ in range(100):
            time.sleep(0.05)
            self.pids = [self.process.pid, *map(int, Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split())]
            if len(self.pids) > 1:
                return
        sys.exit("nginx does not start")

    def cpu_s(self):
        total = 0.0
        for self.pid in self.pids:
            total += super().cpu_s()
        return total

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=30)


def call(host, method, path, body=None, token=None):
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    request = urllib.request.Request(host.url + path, method=method, data=data, headers=headers)
    with urllib.request.urlopen(request, timeout=600) as answer:
        return json.load(answer)


def commit(host, token, repo, files):
    lines = [{"key": "header", "value": {"summary": "many"}}]
    lines += [{"key": "file", "value": {"path": path, "content": base64.b64encode(content).decode(), "encoding": "base64"}} for path, content in files]
    call(host, "POST", f"/api/models/{repo}/commit/main", "\n".join(map(json.dumps, lines)).encode(), token)


def files_by_http(options, ours, token, rows):
    size = int((1 << 30) * options.scale)
    plain = options.work / "hub" / "plain"
    plain.mkdir(parents=True, exist_ok=True)
    file = plain / "file.bin"
    with open(file, "wb") as out:
        source = random.Random(1)
        for _ in range(max(1, size >> 24)):
            out.write(source.randbytes(1 << 24))
    size = file.stat().st_size
    env = {**os.environ, "HF_ENDPOINT": ours.url, "HF_TOKEN": token, "HF_HOME": str(options.work / "hub" / "home"), "HF_HUB_DISABLE_TELEMETRY": "1",
           "HF_HUB_DISABLE_UPDATE_CHECK": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    code = "import sys; from huggingface_hub import HfApi; HfApi().upload_file(path_or_fileobj=sys.argv[1], path_in_repo='file.bin', repo_id='bench/files')"
    subprocess.run([options.hf_python, "-W", "ignore", "-c", code, file], env=env, check=True)
    nginx = Nginx(options.nginx, options.work / "hub" / "nginx", plain, 18_765)
    hosts = [(ours, "/bench/files/resolve/main/file.bin"), (nginx, "/file.bin")]
    try:
        rng = random.Random(2)
        offsets = [rng.randrange(size - 65_536) for _ in range(20_000)]
        figures = {"ranges": [], "ranges-cpu": [], "sequential": []}
        details = []
        for round_ in range(options.rounds + 1):  # the first warms
            per_s, per_cpu, asked_per_cpu = {}, {}, {}
            for host, path in hosts if round_ % 2 else reversed(hosts):
                lines = options.work / "hub" / f"{host.name}.paths"
                lines.write_text("".join(f"{path} {at}-{at + 65_535}\n" for at in offsets))
                begin = host.cpu_s()
                ran = subprocess.run([options.load, "requests", host.address, "-", lines, "16", str(int(20_000 * options.scale))],
                                     capture_output=True, text=True, check=True)
                loads = json.loads(ran.stdout)
                loads |= {"host": host.name, "cpu_s": host.cpu_s() - begin}
                details.append(loads)
                per_s[host.name] = loads["per_s"]
                asked_per_cpu[host.name] = loads["requests"] / max(loads["cpu_s"], 0.01)
                if loads["failed"]:
                    sys.exit(f"{host.name}: {loads}")
                begin = host.cpu_s()
                subprocess.run(["curl", "-sf", "-o", "/dev/null", host.url + path], check=True)
                per_cpu[host.name] = size / max(host.cpu_s() - begin, 0.01) / 1e9
            if round_:
                figures["ranges"].append(per_s["drystone"] / per_s["nginx"])
                figures["ranges-cpu"].append(asked_per_cpu["drystone"] / asked_per_cpu["nginx"])
                figures["sequential"].append(per_cpu["drystone"] / per_cpu["nginx"])
                print(f"round {round_}: {per_s} requests per second, {asked_per_cpu} per CPU s, {per_cpu} GB per CPU s", flush=True)
        for name, values in figures.items():
            rows[name] = {"median": statistics.median(values), "rounds": values}
        rows["ranges"]["details"] = details
    finally:
        nginx.stop()


def large_commits(options, ours, token, rows):
    count = int(10_000 * options.scale)
    figures = []
    for round_ in range(options.rounds):
        repo = f"bench/commit-{round_}"
        call(ours, "POST", "/api/repos/create", {"name": repo}, token)
        begin = ours.cpu_s()
        commit(ours, token, repo, [(f"{n % 100:02}/{n}.txt", f"file {n} of round {round_}\n".encode() * 8) for n in range(count)])
        figures.append(ours.cpu_s() - begin)
    rows["commit"] = {"median": statistics.median(figures), "rounds": figures}
    rows["commit-rss"] = {"median": ours.peak_rss_mib()}


def large_listings(options, ours, token, rows):
    repo, count = "bench/tree", int(100_000 * options.scale)
    call(ours, "POST", "/api/repos/create", {"name": repo}, token)
    for start in range(0, count, 10_000):
        commit(ours, token, repo, [(f"{n % 10}/{n % 1000:03}/{n}.txt", f"{n}\n".encode()) for n in range(start, min(count, start + 10_000))])
    figures = []
    for query in ("", "?recursive=true", "/0/000?recursive=true"):
        for _ in range(2):  # the second is warm
            begin = ours.cpu_s()
            for _ in range(20):
                call(ours, "GET", f"/api/models/{repo}/tree/main{query}", token=token)
            figures.append((ours.cpu_s() - begin) / 20 * 1000)
    rows["tree"] = {"median": max(figures), "rounds": figures}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full data, for a quick run")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--nginx", default=shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin"))
    parser.add_argument("--work", type=Path, default=ROOT / "bench" / "work")
    parser.add_argument("--results", type=Path, default=ROOT / "bench" / "results")
    parser.add_argument("--drystone", type=Path, default=TARGET_DIR / "release" / "drystone")
    parser.add_argument("--load", type=Path, default=TARGET_DIR / "release" / "load")
    parser.add_argument("--hf-python", default=sys.executable, help="an interpreter that has huggingface_hub")
    options = parser.parse_args()
    options.work = options.work.resolve()
    for program in (options.drystone, options.load):
        if not program.exists():
            parser.error(f"{program} does not exist: run `make bench-hub`, or build it with cargo")
    load_before, rows = os.getloadavg()[0], {}
    ours = Ours(options.drystone, options.work / "hub" / "server", environment={"DRYSTONE_LOG_LEVEL": "warn"})
    try:
        token = (ours.folder / "data" / "admin.token").read_text().strip()
        call(ours, "POST", "/api/repos/create", {"name": "bench/files"}, token)
        if options.nginx:
            files_by_http(options, ours, token, rows)
        else:
            print("skipped: files by HTTP: there is no nginx (apt-get install nginx-light)")
        large_commits(options, ours, token, rows)
        large_listings(options, ours, token, rows)
    finally:
        ours.stop()
    date = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M")
    report = {"date": date, "cpus": os.cpu_count(), "processor": processor(), "load_before": load_before, "load_after": os.getloadavg()[0], "scale": options.scale, "rows": rows}
    lines = [f"{date}, {machine()}, load {load_before:.2f} before and {report['load_after']:.2f} after, scale {options.scale}", "",
             "| row | figure | target | |", "|---|---:|---:|---|"]
    for name, row in rows.items():
        what, unit, sign, target = ROWS[name]
        if target is None:
            lines.append(f"| {what} | {row['median']:.2f} {unit} | | |")
            continue
        met = row["median"] >= target if sign == ">=" else row["median"] <= target
        lines.append(f"| {what} | {row['median']:.2f} {unit} | {sign} {target} | {'met' if met else '**missed**'} |")
    text = "\n".join(lines) + "\n"
    print(text)
    options.results.mkdir(parents=True, exist_ok=True)
    stem = options.results / f"{date[:10]}-{date[11:].replace(':', '')}-hub"
    stem.with_suffix(".json").write_text(json.dumps(report, indent=2) + "\n")
    stem.with_suffix(".md").write_text(text)
    shutil.rmtree(options.work / "hub", ignore_errors=True)


if __name__ == "__main__":
    main()
