"""Attacks on a running server, by callers who know the protocol: none may obtain, learn or break anything.

usage: attacks.py DRYSTONE

Each attack runs against the real program with nothing but HTTP and its own commands. Ends with a line
`attacks: N passed, M failed`.
"""

import base64
import concurrent.futures
import hashlib
import http.client
import itertools
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from harness import Server, check, noise

DRYSTONE = Path(sys.argv[1]).resolve()


class Answer:
    def __init__(self, status, headers, body, seconds):
        self.status, self.headers, self.body, self.seconds = status, headers, body, seconds

    def json(self):
        return json.loads(self.body)

    def __str__(self):
        return f"{self.status} {self.body[:300]!r}"


class Hub:
    """One server on a directory, and requests to it."""

    def __init__(self, folder, **settings):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.data = self.folder / "data"
        self.config = self.folder / "hub.toml"
        lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
        self.config.write_text("\n".join(lines) + "\n")
        self.start()

    def start(self):
        self.server = Server(DRYSTONE, self.data, "--config", self.config)
        self.url = urllib.parse.urlsplit(self.server.url)
        self.admin = (self.data / "admin.token").read_text().strip()

    def stop(self):
        self.server.stop()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def request(self, method, path, token=None, body=None, headers=None, timeout=60, cookie=None):
        connection = http.client.HTTPConnection(self.url.hostname, self.url.port, timeout=timeout)
        headers = dict(headers or {})
        if token:
            headers["Authorization"] = f"Bearer {token}"
        if cookie:
            headers["Cookie"] = cookie
        if isinstance(body, (dict, list)):
            body = json.dumps(body).encode()
            headers.setdefault("Content-Type", "application/json")
        started = time.monotonic()
        try:
            connection.request(method, path, body=body, headers=headers)
            answer = connection.getresponse()
            return Answer(answer.status, answer.headers, answer.read(), time.monotonic() - started)
        finally:
            connection.close()

    def run(self, *arguments, data=True, **more):
        command = [DRYSTONE, *arguments, *(["--data", self.data] if data else [])]
        return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120, **more)

    def token(self, *arguments):
        ran = self.run("token", "create", *arguments)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout.strip().splitlines()[0].strip()

    def repo(self, name, private=False, token=None):
        namespace, name = name.split("/")
        body = {"name": name, "organization": namespace, "type": "model", "private": private}
        answer = self.request("POST", "/api/repos/create", token or self.admin, body)
        assert answer.status in (200, 201), answer

    def cas_token(self, repo, token, scope="write"):
        return self.request("GET", f"/api/models/{repo}/xet-{scope}-token/main", token)

    def commit(self, repo, files, token=None):
        lines = [{"key": "header", "value": {"summary": "a commit"}}]
        for path, content in files.items():
            value = {"path": path, "content": base64.b64encode(content).decode(), "encoding": "base64"}
            lines.append({"key": "file", "value": value})
        body = "\n".join(json.dumps(line) for line in lines).encode()
        return self.request("POST", f"/api/models/{repo}/commit/main", token or self.admin, body, {"Content-Type": "application/x-ndjson"})

    def commit_lfs(self, repo, path, oid, size, token=None):
        lines = [{"key": "header", "value": {"summary": "a large file"}},
                 {"key": "lfsFile", "value": {"path": path, "algo": "sha256", "oid": oid, "size": size}}]
        body = "\n".join(json.dumps(line) for line in lines).encode()
        return self.request("POST", f"/api/models/{repo}/commit/main", token or self.admin, body, {"Content-Type": "application/x-ndjson"})


class Upload:
    """What a client sends for one file: xorbs and a shard, as the command line makes them."""

    def __init__(self, folder, data):
        self.folder = Path(tempfile.mkdtemp(dir=folder))
        source = self.folder / "file"
        source.write_bytes(data)
        self.shard_file = self.folder / "shard"
        run(DRYSTONE, "shard", "build", "-o", self.shard_file, "--xorbs", self.folder / "xorbs", source)
        self.shard = self.shard_file.read_bytes()
        self.dump = json.loads(run(DRYSTONE, "shard", "dump", self.shard_file))
        self.xorbs = {path.name: path.read_bytes() for path in (self.folder / "xorbs").iterdir()}
        self.file = self.dump["files"][0]["hash"]
        self.sha256, self.size = hashlib.sha256(data).hexdigest(), len(data)

    def send(self, hub, token):
        for name, body in self.xorbs.items():
            answer = hub.request("POST", f"/v1/xorbs/default/{name}", token, body)
            assert answer.status == 200, answer
        answer = hub.request("POST", "/v1/shards", token, self.shard)
        assert answer.status == 200, answer
        return self

    def forge(self, change):
        """The shard after a change of its JSON."""
        dump = json.loads(json.dumps(self.dump))
        change(dump)
        made = subprocess.run([DRYSTONE, "shard", "build", "--from", "-", "-o", "-"], input=json.dumps(dump).encode(), capture_output=True)
        assert made.returncode == 0, made.stderr
        return made.stdout


def run(*command):
    ran = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def other(hash):
    return ("0" if hash[0] != "0" else "1") + hash[1:]


def hashes(body):
    return set(re.findall(r"[0-9a-f]{64}", body.decode(errors="replace")))


def steal(folder, policy):
    """A caller who knows the name of a xorb gets neither its bytes nor what would open them."""
    with Hub(folder / policy, dedup=policy) as hub:
        for repo in ("ann/secret", "ann/sibling", "bob/own"):
            hub.repo(repo, private=True)
        ann = hub.token("--scope", "write", "--repo", "ann/secret")
        data = noise(1, 1_200_000)
        secret = Upload(folder, data).send(hub, ann)
        small = Upload(folder, noise(2, 8_000)).send(hub, ann)
        assert len(small.dump["xorbs"][0]["chunks"]) == 1, small.dump["xorbs"]
        chunks = len(secret.dump["xorbs"][0]["chunks"])
        xorb = secret.dump["xorbs"][0]["hash"]
        for who, repo in (("another namespace", "bob/own"), ("a sibling repository", "ann/sibling")):
            name = f"{policy}, {who}"
            bob = hub.token("--scope", "write", "--repo", repo)

            def shard_of(name_of, verification, length, end, raw=None):
                def change(dump):
                    term = dump["files"][0]["terms"][0]
                    term.update(xorb=name_of, chunks=[0, end], raw_bytes=length)
                    term["verification"] = verification
                    dump["files"][0]["terms"] = [term]
                    dump["files"][0].update(hash="ab" * 32, size=length)
                    if raw is None:
                        dump["xorbs"] = []
                    else:
                        dump["xorbs"][0]["hash"] = name_of
                return secret.forge(change)

            absent = other(xorb)
            wrong = "cd" * 32
            for what, length, end in (("one chunk", 40_000, 1), ("all chunks", len(data), chunks), ("too many chunks", len(data), chunks + 5), ("another length", 77, 2)):
                for path in ("/v1/shards", "/shards"):
                    sent = shard_of(xorb, wrong, length, end)
                    here = hub.request("POST", path, bob, sent)
                    away = hub.request("POST", path, bob, shard_of(absent, wrong, length, end))
                    same = (here.status, here.body.replace(xorb.encode(), b"X")) == (away.status, away.body.replace(absent.encode(), b"X"))
                    check(f"{name}: {what} at {path}: stored and absent xorbs get one answer", same and here.status >= 400, f"{here} / {away}")
                    check(f"{name}: {what} at {path}: no hash of stored content", hashes(here.body) <= {xorb, wrong, "ab" * 32}, str(here))
            # The range hash of a xorb of one chunk follows from its name: it proves nothing.
            taken = hub.request("POST", "/v1/shards", bob, small.forge(lambda dump: dump.update(xorbs=[])))
            read = hub.request("GET", f"/v1/reconstructions/{small.file}", bob)
            check(f"{name}: a xorb of one chunk cannot be registered by its name", taken.status >= 400 and read.status == 404, f"{taken} {read}")
            # Proof of possession: who has the bytes of a longer xorb may refer to it where the policy says so.
            proven = hub.request("POST", "/v1/shards", bob, secret.forge(lambda dump: dump.update(xorbs=[])))
            allowed = policy == "global" or (policy == "namespace" and repo.startswith("ann/"))
            check(f"{name}: a right range hash {'is accepted' if allowed else 'opens nothing'}", (proven.status == 200) == allowed, str(proven))
            if not allowed:
                read = hub.request("GET", f"/v1/reconstructions/{secret.file}", bob)
                check(f"{name}: and the file stays closed", read.status == 404, str(read))
        # What one repository uploads does not show whether another has it.
        hub.repo("eve/own", private=True)
        eve = hub.token("--scope", "write", "--repo", "eve/own")
        for what, upload in (("stored by another", secret), ("new", Upload(folder, noise(3, 1_200_000)))):
            said = [hub.request("POST", f"/v1/xorbs/default/{name}", eve, body) for name, body in upload.xorbs.items()]
            said.append(hub.request("POST", "/v1/shards", eve, upload.shard))
            if what == "new":
                check(f"{policy}: uploads of new and of stored content get the same answers", [(a.status, a.body) for a in said] == before, f"{before} / {[str(a) for a in said]}")
            before = [(a.status, a.body) for a in said]
        # Dedup answers and HEAD are for those who write.
        hub.repo("ann/public")
        anonymous = hub.cas_token("ann/public", None, "read").json()["accessToken"]
        first = secret.dump["xorbs"][0]["chunks"][0]["hash"]
        told = hub.request("GET", f"/v1/chunks/default/{first}", anonymous)
        check(f"{policy}: a reader gets no dedup answer", told.status in (401, 403, 404), str(told))
        seen = hub.request("HEAD", f"/v1/xorbs/default/{xorb}", anonymous)
        check(f"{policy}: a reader learns of no xorb", seen.status in (401, 403, 404), str(seen))
        bob = hub.token("--scope", "write", "--repo", "bob/own")
        told = hub.request("GET", f"/v1/chunks/default/{small.dump['xorbs'][0]['hash']}", bob)
        check(f"{policy}: a xorb of one chunk is named to nobody else", told.status == 404, str(told))


def tokens(folder):
    """A CAS token ends with what it came from, renews nothing and opens nothing else."""
    with Hub(folder / "tokens", token_ttl_s=600) as hub:
        for repo in ("ann/secret", "ann/moved", "ann/gone"):
            hub.repo(repo, private=True)
        hub.repo("ann/public")
        ann = hub.token("--scope", "write", "--namespace", "ann", "--label", "laptop")
        upload = Upload(folder, noise(21, 200_000))
        cas = hub.cas_token("ann/secret", ann).json()["accessToken"]
        upload.send(hub, cas)
        hub.commit("ann/secret", {"a.txt": b"private words"})

        def reads(token):
            return hub.request("GET", f"/v1/reconstructions/{upload.file}", token).status

        check("a CAS token reads", reads(cas) == 200)
        for method, path, body in (
            ("GET", "/api/models/ann/secret/xet-write-token/main", None), ("GET", "/api/models/ann/secret/xet-read-token/main", None),
            ("GET", "/ann/secret/resolve/main/a.txt", None), ("GET", "/api/models/ann/secret", None), ("GET", "/api/whoami-v2", None),
            ("PUT", "/api/models/ann/secret/settings", {"private": False}), ("DELETE", "/api/repos/delete", {"name": "secret", "organization": "ann", "type": "model"}),
            ("POST", "/api/repos/move", {"fromRepo": "ann/secret", "toRepo": "ann/other", "type": "model"}),
            ("POST", "/api/models/ann/secret/branch/new", {}), ("GET", "/api/models/ann/secret/tree/main", None),
            ("POST", "/ann/secret.git/info/lfs/objects/batch", {"operation": "download", "objects": [{"oid": upload.sha256, "size": upload.size}]}),
            ("GET", "/ann/secret", None), ("GET", "/ann/secret/tree/main", None),
        ):
            answer = hub.request(method, path, cas, body)
            # Pages send people without a session to sign in.
            check(f"a CAS token does not open {method} {path}", answer.status in (302, 303, 401, 403, 404), str(answer))
            check(f"nor does {method} {path} say anything", b"private words" not in answer.body and b"accessToken" not in answer.body)
        hub.run("token", "revoke", "laptop")
        time.sleep(2.5)
        check("a CAS token ends with the token it came from", reads(cas) in (401, 403), reads(cas))

        # Anonymous access ends when the repository turns private.
        public = Upload(folder, noise(22, 200_000)).send(hub, hub.cas_token("ann/public", hub.admin).json()["accessToken"])
        anonymous = hub.cas_token("ann/public", None, "read").json()["accessToken"]
        status = hub.request("GET", f"/v1/reconstructions/{public.file}", anonymous).status
        check("anybody reads a public repository", status == 200, status)
        hub.request("PUT", "/api/models/ann/public/settings", hub.admin, {"private": True})
        time.sleep(2.5)
        status = hub.request("GET", f"/v1/reconstructions/{public.file}", anonymous).status
        check("anonymous access ends when a repository turns private", status in (401, 403, 404), status)

        # A token of a repository is not one of its name.
        for how in ("rename", "delete"):
            repo = "ann/moved" if how == "rename" else "ann/gone"
            token = hub.token("--scope", "write", "--repo", repo, "--label", how)
            cas = hub.cas_token(repo, token).json()["accessToken"]
            if how == "rename":
                moved = hub.request("POST", "/api/repos/move", hub.admin, {"fromRepo": repo, "toRepo": "ann/elsewhere", "type": "model"})
            else:
                moved = hub.request("DELETE", "/api/repos/delete", hub.admin, {"name": "gone", "organization": "ann", "type": "model"})
            assert moved.status == 200, moved
            hub.repo(repo, private=True)
            hub.commit(repo, {"b.txt": b"of the new one"})
            fresh = Upload(folder, noise(23, 150_000)).send(hub, hub.cas_token(repo, hub.admin).json()["accessToken"])
            time.sleep(2.5)
            for what, shown in (("personal", token), ("CAS", cas)):
                read = hub.request("GET", f"/{repo}/resolve/main/b.txt", shown)
                check(f"{how}: a {what} token of the old repository does not read the new one", read.status in (401, 403, 404), str(read))
                read = hub.request("GET", f"/v1/reconstructions/{fresh.file}", shown)
                check(f"{how}: nor its content ({what})", read.status in (401, 403, 404), str(read))


def counts(folder):
    """No number from the wire sizes anything."""
    with Hub(folder / "counts") as hub:
        hub.repo("ann/m")
        hub.commit("ann/m", {"a.txt": b"a"})
        pid = hub.server.process.pid
        before = rss(pid)
        for size in (10**14, 10**15, 2**63, 2**63 - 1, 2**64 - 1):
            for number in (1, 500):
                body = {"operation": "upload", "transfers": ["multipart", "basic"], "objects": [{"oid": hashlib.sha256(bytes([n % 256])).hexdigest(), "size": size} for n in range(number)]}
                answer = hub.request("POST", "/ann/m.git/info/lfs/objects/batch", hub.admin, body)
                # An answer may refuse objects one by one.
                refused = answer.status >= 400 or all("error" in each for each in answer.json()["objects"])
                check(f"{number} objects of {size} bytes are refused", refused and answer.status != 500, str(answer))
                check(f"within 2 s ({number} of {size})", answer.seconds < 2, answer.seconds)
        huge = 2**63
        for method, path, body in (
            ("GET", f"/api/models?limit={huge}", None), ("GET", f"/api/models?limit={2**64}", None), ("GET", f"/api/models/ann/m/tree/main?limit={huge}", None),
            ("GET", f"/api/models/ann/m/commits/main?limit={huge}&p={huge}", None), ("GET", f"/api/models/ann/m/commits/main?p={2**64 - 1}", None),
            ("POST", "/api/models/ann/m/paths-info/main", {"paths": ["x"] * 100_000}),
            ("POST", "/api/models/ann/m/preupload/main", {"files": [{"path": "big", "size": huge, "sample": ""}]}),
            ("POST", "/api/models/ann/m/commit/main", b"[" * 1_000_000),
            ("POST", "/api/repos/create", b'{"name":' + b"[" * 1_000_000),
        ):
            answer = hub.request(method, path, hub.admin, body)
            check(f"{method} {path[:60]} with a huge number or depth: no fault", answer.status < 500 and answer.seconds < 5, f"{answer} {answer.seconds}")
        ranges = "bytes=" + ",".join(f"{n}-{n}" for n in range(100_000))
        for header in (ranges[:7000], f"bytes={huge}-", f"bytes=-{2**64}", f"bytes=0-{2**65}"):
            answer = hub.request("GET", "/ann/m/resolve/main/a.txt", hub.admin, headers={"Range": header})
            check(f"Range {header[:40]}: no fault", answer.status in (200, 206, 400, 416), str(answer))
        check("memory did not move", rss(pid) - before < 100 << 20, f"{before >> 20} to {rss(pid) >> 20} MiB")


def rss(pid):
    return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text()).group(1)) << 10


def cards(folder):
    """A README cannot stop the server."""
    bad = {
        "quotes": "> " * 120_000, "lists": "- " * 120_000, "brackets": "[" * 240_000, "images": "![" * 120_000, "stars": "*a" * 120_000,
        "underscores": "_a_" * 80_000, "backticks": "".join("`" * n + " " for n in range(1, 680)), "html": "<b>" * 80_000, "divs": "<div>\n" * 40_000,
        "tables": "|" * 120_000 + "\n" + "|-" * 120_000, "links": "[a](<" * 48_000, "entities": "&#" * 120_000, "footnotes": "[^a]: " * 40_000,
        "comment": "<!--" * 60_000, "deep list": "\n".join(" " * n + "- a" for n in range(600)), "autolinks": "<http://" * 30_000,
    }
    with Hub(folder / "cards") as hub:
        for n, (name, text) in enumerate(bad.items()):
            repo = f"ann/card{n}"
            hub.repo(repo)
            assert hub.commit(repo, {"README.md": text[:250_000].encode()}).status == 200
            # Viewers that give up do not leave the server with their work.
            for _ in range(4):
                view = socket.create_connection((hub.url.hostname, hub.url.port))
                view.sendall(f"GET /{repo} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
                view.settimeout(0.05)
                try:
                    view.recv(1)
                except TimeoutError:
                    pass
                view.close()
            slow = max(hub.request("GET", "/health", timeout=60).seconds for _ in range(5))
            page = hub.request("GET", f"/{repo}", timeout=60)
            check(f"a card of {name}: others are served meanwhile", slow < 1, f"{slow:.2f} s")
            check(f"a card of {name}: its page comes", page.status == 200 and page.seconds < 5, f"{page.status} {page.seconds:.2f} s")


def sockets(folder):
    """Idle and half-open connections of one address keep nobody out."""
    with Hub(folder / "sockets", connections_max=400) as hub:
        for name, head in (("idle sockets", b""), ("half headers", b"GET /health HTTP/1.1\r\nHost: x\r\nX-A: ")):
            held = []
            for _ in range(600):
                try:
                    connection = socket.create_connection((hub.url.hostname, hub.url.port), timeout=1)
                    connection.sendall(head)
                    held.append(connection)
                except OSError:
                    break
            for where in ("127.0.0.2", "127.0.0.1"):
                started = time.monotonic()
                try:
                    caller = socket.create_connection((hub.url.hostname, hub.url.port), timeout=5, source_address=(where, 0))
                    caller.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                    answered = caller.recv(100)
                    caller.close()
                except OSError as error:
                    answered = str(error).encode()
                if where == "127.0.0.2" or head == b"":
                    check(f"{name}: {where} is served", answered.startswith(b"HTTP/1.1 200") and time.monotonic() - started < 1, f"{answered} {time.monotonic() - started:.2f} s")
            for connection in held:
                connection.close()
            time.sleep(0.3)
        # A client that has said all it wants to say still gets its answer.
        whole = 0
        for _ in range(20):
            caller = socket.create_connection((hub.url.hostname, hub.url.port), timeout=10)
            caller.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            caller.shutdown(socket.SHUT_WR)
            got = b""
            while piece := caller.recv(4096):
                got += piece
            whole += got.startswith(b"HTTP/1.1 200")
            caller.close()
        check("a half-closed client gets its answer", whole == 20, whole)


def listing(folder):
    return sorted((str(path.relative_to(folder)), path.stat().st_size) for path in folder.rglob("*") if path.is_file())


def catalogs(folder):
    """A lost, mistyped or foreign catalog deletes nothing."""
    with Hub(folder / "lost") as hub:
        hub.repo("ann/m")
        token = hub.cas_token("ann/m", hub.admin).json()["accessToken"]
        for seed in range(5):
            upload = Upload(folder, noise(30 + seed, 300_000)).send(hub, token)
            assert hub.commit_lfs("ann/m", f"{seed}.bin", upload.sha256, upload.size).status == 200
    data, objects = hub.data, hub.data / "objects"
    old = time.time() - 60 * 86_400
    for path in objects.rglob("*"):
        os.utime(path, (old, old))
    before = listing(objects)
    typo = hub.data / "typo.db"
    for verb in (["gc"], ["gc", "--offline"], ["gc", "--compact"], ["verify"], ["stats"]):
        ran = run_quiet(DRYSTONE, *verb, "--data", data, "--catalog", f"sqlite://{typo}")
        check(f"{' '.join(verb)} with a mistyped catalog is refused", ran.returncode not in (0, 101), ran.stdout + ran.stderr)
        check(f"{' '.join(verb)} makes no catalog and deletes nothing", not typo.exists() and listing(objects) == before)
        if typo.exists():
            typo.unlink()
    kept = folder / "kept"
    kept.mkdir()
    for path in list(data.glob("catalog.db*")):
        shutil.move(path, kept / path.name)
    for verb in (["gc"], ["gc", "--offline"]):
        ran = run_quiet(DRYSTONE, *verb, "--data", data)
        check(f"{' '.join(verb)} without the catalog is refused", ran.returncode != 0 and listing(objects) == before, ran.stdout + ran.stderr)
        for path in data.glob("catalog.db*"):
            path.unlink()
    process = subprocess.Popen([DRYSTONE, "serve", "--listen", "127.0.0.1:0", "--data", data], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "DRYSTONE_SWEEP_INTERVAL_S": "1"})
    try:
        said = process.communicate(timeout=8)
        check("a server does not start on an empty catalog over objects", process.returncode != 0 and "rebuild" in said[1], said)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)
        check("a server does not start on an empty catalog over objects", False, "it runs")
    check("and deletes nothing", listing(objects) == before)
    for path in data.glob("catalog.db*"):
        path.unlink()
    for path in kept.iterdir():
        shutil.move(path, data / path.name)
    hub.start()
    read = hub.request("GET", "/ann/m/resolve/main/0.bin", hub.admin)
    hub.stop()
    check("with its own catalog everything is there", read.status == 200 and len(read.body) == 300_000, str(read)[:200])


def run_quiet(*command):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120)


def ignored(folder):
    """What would change the result and is not implemented is refused by its name."""
    with Hub(folder / "ignored") as hub:
        hub.repo("ann/m")
        hub.commit("ann/m", {"a.txt": b"a"})
        name = "xyzzy"
        for method, path, body in (
            ("POST", "/api/repos/create", {"name": "n", "organization": "ann", "type": "model", name: 1}),
            ("PUT", "/api/models/ann/m/settings", {"private": False, name: 1}),
            ("PUT", "/api/models/ann/m/settings", {"gated": "auto"}), ("PUT", "/api/models/ann/m/settings", {"gated": "manual"}),
            ("POST", "/api/models/ann/m/branch/x1", {name: 1}), ("POST", "/api/models/ann/m/tag/main", {"tag": "t", name: 1}),
            ("POST", "/api/models/ann/m/preupload/main", {"files": [], name: 1}), ("POST", "/api/models/ann/m/paths-info/main", {"paths": [], name: 1}),
            ("POST", "/api/models/ann/m/discussions", {"title": "t", "description": "", "pullRequest": True, name: 1}),
            ("POST", "/api/repos/move", {"fromRepo": "ann/m", "toRepo": "ann/z", "type": "model", name: 1}),
            ("DELETE", "/api/repos/delete", {"name": "m", "organization": "ann", "type": "model", name: 1}),
        ):
            answer = hub.request(method, path, hub.admin, body)
            key = "gated" if "gated" in body else name
            check(f"{method} {path} with {key} is refused by name", 400 <= answer.status < 500 and key.encode() in answer.body, str(answer))
        check("and changed nothing", hub.request("GET", "/api/models/ann/m", hub.admin).status == 200)
        for query in ("filter=x", "pipeline_tag=text-generation", "library=x", "tags=x", "xyzzy=1", "gated=true"):
            answer = hub.request("GET", f"/api/models?{query}", hub.admin)
            key = query.split("=")[0]
            # Whoever implements a filter answers with what fits it: nothing here.
            ok = (400 <= answer.status < 500 and key.encode() in answer.body) or (answer.status == 200 and answer.json() == [])
            check(f"GET /api/models?{query} is not ignored", ok, str(answer))


def people(folder):
    """Tokens do what their owner may do; who is disabled does nothing."""
    with Hub(folder / "people") as hub:
        for name in ("ann", "bob"):
            assert hub.run("admin", "user", "create", name).returncode == 0
        hub.repo("bob/own", private=True)
        bare = hub.run("token", "create", "--scope", "write")
        check("a write token needs a place", bare.returncode == 2 or (bare.returncode == 1 and "--repo" in bare.stderr), bare.stdout + bare.stderr)
        made = hub.run("token", "create", "--scope", "write", "--subject", "ann", "--everywhere")
        ann = made.stdout.strip().splitlines()[0] if made.returncode == 0 else hub.token("--scope", "write", "--subject", "ann", "--namespace", "ann")
        made = hub.request("POST", "/api/repos/create", ann, {"name": "stolen", "organization": "bob", "type": "model"})
        check("ann's token makes nothing of bob's", made.status in (401, 403, 404), str(made))
        seen = hub.request("GET", "/api/models/bob/own", ann)
        check("and does not see his", seen.status in (401, 403, 404), str(seen))
        hub.repo("ann/hers", private=True, token=ann)
        cas = hub.cas_token("ann/hers", ann).json()["accessToken"]
        upload = Upload(folder, noise(41, 100_000)).send(hub, cas)
        ran = hub.run("admin", "user", "disable", "ann")
        check("a user can be disabled", ran.returncode == 0, ran.stderr)
        time.sleep(2.5)
        check("the token of a disabled user is void", hub.request("GET", "/api/whoami-v2", ann).status == 401)
        check("so is their CAS token", hub.request("GET", f"/v1/reconstructions/{upload.file}", cas).status in (401, 403))
        hub.run("admin", "user", "enable", "ann")
        time.sleep(2.5)
        check("and good again when they are enabled", hub.request("GET", "/api/whoami-v2", ann).status == 200)
        # Names.
        hub.repo("ann/Model")
        twin = hub.request("POST", "/api/repos/create", hub.admin, {"name": "model", "organization": "ANN", "type": "model"})
        check("names are unique without regard to case", twin.status == 409, str(twin))
        found = hub.request("GET", "/api/models/ANN/mODEL", hub.admin)
        check("found in any case, shown as created", found.status == 200 and found.json()["id"] == "ann/Model", str(found))
        bad = hub.request("POST", "/api/repos/create", hub.admin, {"name": "x.GIT", "organization": "ann", "type": "model"})
        check("no name ends in .git in any case", bad.status in (400, 422), str(bad))


def digests(folder):
    """A digest that a shard claims is not believed."""
    with Hub(folder / "digests") as hub:
        hub.repo("ann/m")
        cas = hub.cas_token("ann/m", hub.admin).json()["accessToken"]
        good, evil = noise(51, 150_000), Upload(folder, noise(52, 150_000))
        oid = hashlib.sha256(good).hexdigest()
        for name, body in evil.xorbs.items():
            assert hub.request("POST", f"/v1/xorbs/default/{name}", cas, body).status == 200
        lied = hub.request("POST", "/v1/shards", cas, evil.forge(lambda dump: dump["files"][0].update(sha256=oid)))
        batch = {"operation": "upload", "transfers": ["basic"], "objects": [{"oid": oid, "size": len(good)}]}
        here = hub.request("POST", "/ann/m.git/info/lfs/objects/batch", hub.admin, batch)
        offers = here.status == 200 and "upload" in here.json()["objects"][0].get("actions", {})
        check("a claimed digest is not there for LFS", offers, f"{lied} {here}")
        made = hub.commit_lfs("ann/m", "f.bin", oid, len(good))
        check("nor for a commit", made.status >= 400, str(made))
        read = hub.request("GET", "/ann/m/resolve/main/f.bin", hub.admin)
        check("nor does it resolve", read.status == 404, str(read))
        # The right bytes under that name afterwards.
        right = Upload(folder, good).send(hub, cas)
        made = hub.commit_lfs("ann/m", "f.bin", right.sha256, right.size)
        read = hub.request("GET", "/ann/m/resolve/main/f.bin", hub.admin)
        check("the true bytes take its place", made.status == 200 and read.body == good, f"{made} {read.status}")


def flood(folder):
    """A quota binds what was never registered, too."""
    with Hub(folder / "flood") as hub:
        hub.repo("ann/m")
        ran = hub.run("admin", "quota", "set", "ann", "--logical", "5MB", "--physical", "5MB")
        assert ran.returncode == 0, ran.stderr
        cas = hub.cas_token("ann/m", hub.admin).json()["accessToken"]
        uploads = [Upload(folder, noise(100 + seed, 1_000_000)) for seed in range(30)]

        def send(upload):
            (name, body), = upload.xorbs.items()
            return hub.request("POST", f"/v1/xorbs/default/{name}", cas, body).status

        sent = []
        for third in range(3):
            with concurrent.futures.ThreadPoolExecutor(4) as pool:
                sent += list(pool.map(send, uploads[third::3]))
            # Longer than the server remembers what it let in.
            time.sleep(6)
        stored = sum(path.stat().st_size for path in (hub.data / "objects" / "xorbs").rglob("*") if path.is_file())
        check("unregistered xorbs stay below the quota and one a connection", stored <= 14_000_000, f"{stored} bytes, {sent.count(200)} taken")


def damaged(folder):
    """What is damaged is not there for an upload, by whatever client, and the next upload heals it."""
    with Hub(folder / "damaged") as hub:
        hub.repo("ann/m")
        cas = hub.cas_token("ann/m", hub.admin).json()["accessToken"]
        data = noise(61, 400_000)
        upload = Upload(folder, data).send(hub, cas)
        assert hub.commit_lfs("ann/m", "f.bin", upload.sha256, upload.size).status == 200
        batch = {"operation": "upload", "transfers": ["basic"], "objects": [{"oid": upload.sha256, "size": upload.size}]}

        def action():
            answer = hub.request("POST", "/ann/m.git/info/lfs/objects/batch", hub.admin, batch)
            assert answer.status == 200, answer
            return answer.json()["objects"][0].get("actions", {}).get("upload")

        check("a whole file is there", action() is None)
        xorb, = (path for path in (hub.data / "objects" / "xorbs").rglob("*") if path.is_file())
        body = bytearray(xorb.read_bytes())
        body[5000] ^= 1
        xorb.write_bytes(body)
        ran = hub.run("verify", "--deep", "--repair")
        check("the damage is found and marked", ran.returncode == 1 and "marked" in ran.stdout, ran.stdout + ran.stderr)
        offered = action()
        check("a damaged file is not there for LFS", offered is not None)
        made = hub.commit_lfs("ann/m", "again.bin", upload.sha256, upload.size)
        check("nor for a commit", made.status >= 400, str(made))
        asked = {"files": [{"path": "f.bin", "size": upload.size, "sample": ""}]}
        decided = hub.request("POST", "/api/models/ann/m/preupload/main", hub.admin, asked)
        check("nor is it unchanged for clients that compare", decided.status == 200 and "oid" not in decided.json()["files"][0], str(decided))
        first = upload.dump["xorbs"][0]
        head = hub.request("HEAD", f"/v1/xorbs/default/{first['hash']}", cas)
        check("its xorb is not there", head.status == 404, str(head))
        if offered:
            url = urllib.parse.urlsplit(offered["href"])
            sent = hub.request("PUT", f"{url.path}?{url.query}", None, data)
            check("it is sent again", sent.status == 200, str(sent))
        read = hub.request("GET", "/ann/m/resolve/main/f.bin", hub.admin)
        check("and reads again", read.status == 200 and read.body == data, read.status)
        ran = hub.run("verify", "--deep")
        check("a verification finds nothing", ran.returncode == 0, ran.stdout + ran.stderr)
        check("and it is there again", action() is None)


def backups(folder):
    """A backup beside writers, deletions and garbage collection is whole, however often it is killed."""
    with Hub(folder / "backups") as hub:
        names = [f"ann/w{n}" for n in range(3)]
        for name in names:
            hub.repo(name)
        written, stop = {}, threading.Event()

        def write(n):
            name = names[n]
            cas = hub.cas_token(name, hub.admin).json()["accessToken"]
            for count in itertools.count():
                if stop.is_set():
                    return
                data = noise(1000 * n + count, 60_000)
                upload = Upload(folder, data).send(hub, cas)
                path = f"{count}.bin"
                written[name, path] = data
                assert hub.commit_lfs(name, path, upload.sha256, upload.size).status == 200
                written[name, f"{count}.txt"] = str(count).encode() * 5000
                assert hub.commit(name, {f"{count}.txt": written[name, f"{count}.txt"]}).status == 200
                if count % 3 == 2:
                    lines = [{"key": "header", "value": {"summary": "less"}}, {"key": "deletedFile", "value": {"path": f"{count - 1}.bin"}}]
                    body = "\n".join(json.dumps(line) for line in lines).encode()
                    hub.request("POST", f"/api/models/{name}/commit/main", hub.admin, body, {"Content-Type": "application/x-ndjson"})

        writers = [threading.Thread(target=write, args=(n,), daemon=True) for n in range(3)]
        for writer in writers:
            writer.start()
        dest = folder / "backup"
        command = [str(word) for word in (DRYSTONE, "backup", dest, "--data", hub.data)]
        killed = 0
        for wait in (0.05, 0.1, 0.2, 0.4, 0.7):
            time.sleep(1)
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(wait)
            killed += process.poll() is None
            process.kill()
            process.wait()
        check("a backup was killed in the middle", killed > 0, killed)
        if not (dest / "backup.json").exists():
            early = run_quiet(DRYSTONE, "restore", dest, "--data", folder / "early")
            check("a backup that is not whole is not restored", early.returncode == 1 and not (folder / "early" / "catalog.db").exists(), early.stderr)
        rounds = []
        for _ in range(3):
            collecting = subprocess.Popen([str(word) for word in (DRYSTONE, "gc", "--data", hub.data)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            rounds.append(run_quiet(*command, "--json"))
            collecting.wait()
            time.sleep(0.5)
        ok = all(ran.returncode == 0 for ran in rounds)
        check("backups beside writers and garbage collection end well", ok, [ran.stdout + ran.stderr for ran in rounds])
        done = [json.loads(ran.stdout) for ran in rounds]
        check("and copy nothing twice", done[-1]["objects"] < done[-1]["known"], done)
        twice = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        twice.wait()
        stop.set()
        for writer in writers:
            writer.join(60)
        key = (hub.data / "signing.key").read_bytes()
        small = folder / "small"
        small.mkdir()
        mounted = os.geteuid() == 0 and run_quiet("mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", small).returncode == 0
        if mounted:
            try:
                full = run_quiet(DRYSTONE, "backup", small, "--data", hub.data)
                told = full.stderr.strip().splitlines()
                check("a full disk is one clear error", full.returncode == 1 and len(told) == 1 and re.search("No space left|full", told[0]), full.stderr)
                check("and nothing is left that looks like a backup", not (small / "backup.json").exists())
            finally:
                run_quiet("umount", small)
        inside = run_quiet(DRYSTONE, "backup", hub.data / "objects" / "b", "--data", hub.data)
        check("a backup into the store is refused", inside.returncode == 1, inside.stdout + inside.stderr)
    modes = {path.name: path.stat().st_mode & 0o777 for path in dest.iterdir() if path.is_file()}
    check("the key is copied for its owner alone, the admin token is not", modes["signing.key"] == 0o600 and "admin.token" not in modes, modes)
    check("a snapshot is for its owner alone", modes["catalog.db"] & 0o077 == 0, modes)
    restored = folder / "restored" / "data"
    used = run_quiet(DRYSTONE, "restore", dest, "--data", hub.data)
    check("a store is not overwritten", used.returncode == 1 and "not empty" in used.stderr, used.stdout + used.stderr)
    for wait in (0.05, 0.3):
        process = subprocess.Popen([str(word) for word in (DRYSTONE, "restore", dest, "--data", restored)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(wait)
        process.kill()
        process.wait()
    ran = run_quiet(DRYSTONE, "restore", dest, "--data", restored)
    check("a restoration that was killed goes on", ran.returncode == 0, ran.stdout + ran.stderr)
    check("with the same key", (restored / "signing.key").read_bytes() == key)
    deep = run_quiet(DRYSTONE, "verify", "--data", restored, "--deep")
    check("a deep verification finds nothing", deep.returncode == 0 and " 0 damaged" in deep.stdout, deep.stdout + deep.stderr)
    (restored / "admin.token").write_text(hub.admin + "\n")
    server = Hub(folder / "restored")
    with server:
        files = bad = 0
        for name in names:
            listed = server.request("GET", f"/api/models/{name}/tree/main", hub.admin)
            for entry in listed.json() if listed.status == 200 else ():
                if (name, entry["path"]) not in written:
                    continue
                read = server.request("GET", f"/{name}/resolve/main/{entry['path']}", hub.admin)
                files += 1
                bad += read.status != 200 or read.body != written[name, entry["path"]]
        check("every file of the snapshot reads", files > 10 and bad == 0, f"{bad} of {files}")


def main():
    attacks = [tokens, counts, cards, sockets, catalogs, ignored, people, digests, damaged, backups, flood]
    only = set(sys.argv[2:])
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        for policy in ("global", "namespace", "repo", "off"):
            if not only or "steal" in only:
                attempt(f"steal {policy}", lambda: steal(folder, policy))
        for attack in attacks:
            if not only or attack.__name__ in only:
                attempt(attack.__name__, lambda: attack(folder))
    check.finish("attacks")


def attempt(name, attack):
    started = time.monotonic()
    try:
        attack()
    except Exception as error:
        check(f"{name} runs to its end", False, f"{type(error).__name__}: {error}")
    print(f"== {name}: {time.monotonic() - started:.1f} s", flush=True)


main()
