"""Memory of a server over time: many clients of every sort, half an hour, and a line through its resident memory.

usage: soak.py DRYSTONE [--seconds 1800] [--clients 200] [--think 5] [--warm 600] [--warm-think S] [--slope 24] [--only SORT…] [--out FILE] [--work DIR]

Each client keeps a connection and waits `--think` seconds on average between two requests. Of 100 clients 40 read files by XET
(reconstruction, then data), 20 ask for information, 20 read ranges, 5 whole files, 5 commit small files, 5 send large ones whole,
and 5 look at pages. What is read is compared byte for byte. Memory is read every 5 seconds; from `--warm` seconds on a line is
laid through it, which may rise by at most `--slope` MiB per hour. Caches fill by what is written: with `--warm-think` clients wait less
until then, so that what still rises afterwards is no cache. Prints one line of a table per minute and ends with a line
`soak: N passed, M failed`; `--out` gets all samples as JSON.
"""

import argparse
import base64
import hashlib
import http.client
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from harness import Server, check, noise
from machine import machine

STEP_S = 5


class Client:
    """One connection, opened again when the server closes it between two requests."""

    def __init__(self, soak, number):
        self.soak, self.random = soak, random.Random(number)
        self.number, self.connection = number, None

    def request(self, method, path, body=None, headers=None, token=True):
        headers = dict(headers or {})
        if token:
            headers["Authorization"] = f"Bearer {self.soak.token}"
        for attempt in range(2):
            reused = self.connection is not None
            if not reused:
                self.connection = http.client.HTTPConnection(self.soak.host, self.soak.port, timeout=60)
            try:
                self.connection.request(method, path, body=body, headers=headers)
                answer = self.connection.getresponse()
                data = answer.read()
                if answer.will_close:
                    self.close()
                return answer.status, answer.headers, data
            except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
                self.close()
                # A connection that was idle may be closed by the server at any time.
                if not reused or attempt:
                    raise

    def close(self):
        if self.connection:
            self.connection.close()
        self.connection = None

    def expect(self, ok, what):
        if not ok:
            raise AssertionError(what)

    def get(self, path, status=200, **more):
        found, headers, data = self.request("GET", path, **more)
        self.expect(found == status, f"{path}: {found} {data[:200]!r}")
        return headers, data

    def reconstruction(self):
        name, data = self.random.choice(self.soak.files)
        _, body = self.get(f"/v1/reconstructions/{self.soak.hashes[name]}", headers={"Authorization": f"Bearer {self.soak.cas_token()}"}, token=False)
        plan = json.loads(body)
        self.expect(sum(term["unpacked_length"] for term in plan["terms"]) == len(data), "a plan of another length")
        fetch = self.random.choice([fetch for fetches in plan["fetch_info"].values() for fetch in fetches])
        first, last = fetch["url_range"]["start"], fetch["url_range"]["end"]
        url = urllib.parse.urlsplit(fetch["url"])
        _, part = self.get(f"{url.path}?{url.query}", 206, headers={"Range": f"bytes={first}-{last}"}, token=False)
        self.expect(len(part) == last - first + 1, "a part of another length")

    def info(self):
        path = self.random.choice(["", "/revision/main?blobs=true", "/tree/main?recursive=true", "/refs", "/commits/main?limit=10"])
        self.get(f"/api/models/ann/files{path}")

    def range(self):
        name, data = self.random.choice(self.soak.files)
        start = self.random.randrange(len(data))
        end = min(len(data), start + self.random.randrange(1, 200_000))
        _, part = self.get(f"/ann/files/resolve/main/{name}", 206, headers={"Range": f"bytes={start}-{end - 1}"})
        self.expect(part == data[start:end], "other bytes")

    def whole(self):
        name, data = self.random.choice(self.soak.files)
        self.expect(self.get(f"/ann/files/resolve/main/{name}")[1] == data, "other bytes")

    def commit(self):
        lines = [{"key": "header", "value": {"summary": "soak"}}]
        content = base64.b64encode(self.random.randbytes(500)).decode()
        lines.append({"key": "file", "value": {"path": f"{self.random.randrange(50)}.txt", "content": content, "encoding": "base64"}})
        self.send_commit(lines)

    def send_commit(self, lines):
        body = "\n".join(map(json.dumps, lines)).encode()
        found, _, data = self.request("POST", f"/api/models/ann/writer-{self.number}/commit/main", body, {"Content-Type": "application/x-ndjson"})
        self.expect(found == 200, f"commit: {found} {data[:200]!r}")

    def lfs(self):
        data = self.random.randbytes(self.random.randrange(20_000, 120_000))
        oid = hashlib.sha256(data).hexdigest()
        batch = {"operation": "upload", "transfers": ["basic"], "objects": [{"oid": oid, "size": len(data)}]}
        found, _, body = self.request("POST", f"/ann/writer-{self.number}.git/info/lfs/objects/batch", json.dumps(batch))
        self.expect(found == 200, f"batch: {found} {body[:200]!r}")
        url = urllib.parse.urlsplit(json.loads(body)["objects"][0]["actions"]["upload"]["href"])
        found, _, body = self.request("PUT", f"{url.path}?{url.query}", data, token=False)
        self.expect(found == 200, f"upload: {found} {body[:200]!r}")
        value = {"path": "large.bin", "algo": "sha256", "oid": oid, "size": len(data)}
        self.send_commit([{"key": "header", "value": {"summary": "soak"}}, {"key": "lfsFile", "value": value}])

    def page(self):
        path = self.random.choice(["/", "/ann/files", "/ann/files/tree/main", "/ann/files/blob/main/README.md", "/ann/files/commits/main", "/-/dedup"])
        self.get(path, headers={"Accept": "text/html"})

    def run(self):
        sort = self.soak.sorts[self.number % len(self.soak.sorts)]
        time.sleep(self.random.uniform(0, 2 * self.soak.think))
        while time.monotonic() < self.soak.end:
            began = time.monotonic()
            try:
                getattr(self, sort)()
                self.soak.count(sort, time.monotonic() - began)
            except Exception as error:
                self.close()
                self.soak.fail(f"{sort}: {type(error).__name__}: {error}")
            is_warm = time.monotonic() >= self.soak.warm_end
            time.sleep(self.random.expovariate(1 / (self.soak.think if is_warm else self.soak.warm_think)))
        self.close()


SORTS = ["reconstruction"] * 8 + ["info"] * 4 + ["range"] * 4 + ["whole", "commit", "lfs", "page"]


class Soak:
    def __init__(self, server, options):
        url = urllib.parse.urlsplit(server.url)
        self.host, self.port, self.token = url.hostname, url.port, server.admin
        self.warm_think = options.warm_think or options.think
        self.think, self.pid, self.sorts = options.think, server.process.pid, options.only or SORTS
        self.lock, self.done, self.seconds, self.errors = threading.Lock(), {}, {}, []
        self.hashes, self.issued = {}, (None, 0)
        self.files = [(f"{n}.bin", noise(n, 300_000 + 250_000 * n)) for n in range(10)]

    def count(self, sort, seconds):
        with self.lock:
            self.done[sort] = self.done.get(sort, 0) + 1
            self.seconds.setdefault(sort, []).append(seconds)

    def fail(self, what):
        with self.lock:
            self.errors.append(what)
            if len(self.errors) <= 20:
                print("error:", what, file=sys.stderr, flush=True)

    def cas_token(self):
        with self.lock:
            if self.issued[1] - 120 < time.time():
                answer = json.loads(Client(self, 0).get("/api/models/ann/files/xet-read-token/main")[1])
                self.issued = answer["accessToken"], answer["exp"]
            return self.issued[0]

    def fill(self, writers):
        client = Client(self, 0)
        for name in ["files", *(f"writer-{n}" for n in writers)]:
            found, _, data = client.request("POST", "/api/repos/create", json.dumps({"name": name, "organization": "ann"}))
            assert found == 200, data
        lines = [{"key": "header", "value": {"summary": "files"}}]
        readme = base64.b64encode(b"# Files\n\nSome *text*.\n").decode()
        lines.append({"key": "file", "value": {"path": "README.md", "content": readme, "encoding": "base64"}})
        for name, data in self.files:
            oid = hashlib.sha256(data).hexdigest()
            batch = {"operation": "upload", "transfers": ["basic"], "objects": [{"oid": oid, "size": len(data)}]}
            _, _, body = client.request("POST", "/ann/files.git/info/lfs/objects/batch", json.dumps(batch))
            url = urllib.parse.urlsplit(json.loads(body)["objects"][0]["actions"]["upload"]["href"])
            assert client.request("PUT", f"{url.path}?{url.query}", data, token=False)[0] == 200
            lines.append({"key": "lfsFile", "value": {"path": name, "algo": "sha256", "oid": oid, "size": len(data)}})
        body = "\n".join(map(json.dumps, lines)).encode()
        assert client.request("POST", "/api/models/ann/files/commit/main", body)[0] == 200
        for name, _ in self.files:
            _, headers, _ = client.request("HEAD", f"/ann/files/resolve/main/{name}")
            self.hashes[name] = headers["x-xet-hash"]
        client.close()

    def memory(self):
        """Resident MiB: all, and what is no file."""
        lines = dict(line.split(":", 1) for line in Path(f"/proc/{self.pid}/status").read_text().splitlines() if ":" in line)
        return tuple(int(lines[name].split()[0]) / 1024 for name in ("VmRSS", "RssAnon"))

    def cpu_s(self):
        fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / 100


def slope(samples):
    """MiB per hour, by least squares."""
    times, values = [t for t, *_ in samples], [rss for _, rss, *_ in samples]
    mean_t, mean_v = sum(times) / len(times), sum(values) / len(values)
    spread = sum((t - mean_t) ** 2 for t in times)
    return 3600 * sum((t - mean_t) * (v - mean_v) for t, v in zip(times, values)) / spread


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("drystone", type=Path)
    parser.add_argument("--seconds", type=float, default=1800)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--think", type=float, default=5)
    parser.add_argument("--warm", type=float, default=600)
    parser.add_argument("--warm-think", type=float)
    parser.add_argument("--slope", type=float, default=24)
    parser.add_argument("--only", nargs="*", choices=sorted(set(SORTS)))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--work", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.work) as work:
        server = Server(options.drystone.resolve(), Path(work) / "data")
        soak = Soak(server, options)
        soak.fill([n for n in range(options.clients) if soak.sorts[n % len(soak.sorts)] in ("commit", "lfs")])
        began = time.monotonic()
        soak.end, soak.warm_end = began + options.seconds, began + options.warm
        threads = [threading.Thread(target=Client(soak, n).run, daemon=True) for n in range(options.clients)]
        for thread in threads:
            thread.start()
        samples = []
        print(f"{machine()}, {options.clients} clients\n")
        print("| minute | RSS MiB | of it no file | requests | errors |\n|---:|---:|---:|---:|---:|", flush=True)
        while (now := time.monotonic()) < soak.end:
            rss, anon = soak.memory()
            requests = sum(soak.done.values())
            samples.append((now - began, rss, anon, requests, len(soak.errors), soak.cpu_s()))
            if len(samples) % (60 // STEP_S) == 1:
                print(f"| {(now - began) / 60:.0f} | {rss:.1f} | {anon:.1f} | {requests} | {len(soak.errors)} |", flush=True)
            time.sleep(STEP_S)
        for thread in threads:
            thread.join(timeout=90)
        for sort, seconds in sorted(soak.seconds.items()):
            seconds.sort()
            at = lambda share: 1000 * seconds[min(len(seconds) - 1, int(share * len(seconds)))]
            print(f"{sort}: {len(seconds)}, p50 {at(0.5):.0f} ms, p99 {at(0.99):.0f} ms")
        print(f"server CPU: {soak.cpu_s():.0f} s of {options.seconds:.0f} s")
        check("no request failed", not soak.errors, soak.errors[:5])
        late = [sample for sample in samples if sample[0] >= options.warm]
        if len(late) > 10:
            rise = slope(late)
            check(f"memory is flat from {options.warm:.0f} s on: {rise:+.1f} MiB per hour", rise <= options.slope, f"at most {options.slope}")
        if options.out:
            options.out.write_text(json.dumps({"samples": samples, "done": soak.done, "errors": soak.errors}))
        check("the server stops cleanly", server.stop() == 0)
    check.finish("soak")


main()
