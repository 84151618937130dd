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
        # What is read of a private repository stays out of caches that serve others.
        plan = hub.request("GET", f"/v1/reconstructions/{secret.file}", ann).json()
        fetch = next(iter(plan["fetch_info"].values()))[0]
        url = urllib.parse.urlsplit(fetch["url"])
        query = {"Range": f"bytes={fetch['url_range']['start']}-{fetch['url_range']['end']}"}
        data_answer = hub.request("GET", f"{url.path}?{url.query}", headers=query)
        cached = data_answer.headers.get("Cache-Control", "")
        check(f"{policy}: range data of a private repository is private", data_answer.status == 206 and cached.startswith("private"), f"{data_answer.status} {cached}")
        opened = hub.request("GET", f"{url.path}?{url.query.replace('&X-Xet-Cache=private', '')}", headers=query)
        check(f"{policy}: and nobody can make it public", opened.status == 403, str(opened)[:200])
        # A repository that is set to `off` is in nobody's reach, and reaches nobody.
        hub.repo("ann/closed", private=True)
        closed = hub.token("--scope", "write", "--repo", "ann/closed")
        narrowed = hub.request("PUT", "/api/models/ann/closed/dedup", closed, {"dedup": "off"})
        check(f"{policy}: a writer narrows dedup", narrowed.status == 200 and narrowed.json()["effective"] == "off", str(narrowed))
        widened = hub.request("PUT", "/api/models/ann/closed/dedup", closed, {"dedup": "global"})
        check(f"{policy}: and does not widen it", widened.status == 403, str(widened))
        inner = Upload(folder, noise(4, 1_200_000)).send(hub, closed)
        # A file sent whole follows the same policy.
        words = data[:1_000_000] + noise(5, 300_000)
        batch = {"operation": "upload", "transfers": ["basic"], "objects": [{"oid": hashlib.sha256(words).hexdigest(), "size": len(words)}]}
        answer = hub.request("POST", "/ann/closed.git/info/lfs/objects/batch", closed, batch)
        url = urllib.parse.urlsplit(answer.json()["objects"][0]["actions"]["upload"]["href"])
        whole = hub.request("PUT", f"{url.path}?{url.query}", None, words)
        check(f"{policy}: a file sent whole to it is taken, whatever others have", whole.status == 200, str(whole))
        reached = hub.request("POST", "/v1/shards", hub.token("--scope", "write", "--repo", "ann/sibling"), inner.forge(lambda dump: dump.update(xorbs=[])))
        check(f"{policy}: nobody reaches what is off", reached.status >= 400, str(reached))
        reaching = hub.request("POST", "/v1/shards", closed, secret.forge(lambda dump: dump.update(xorbs=[])))
        check(f"{policy}: nor does it reach others", reaching.status >= 400, str(reaching))
        # What one repository uploads does not show whether another has it.
        hub.repo("eve/own", private=True)
        eve = hub.token("--scope", "write", "--repo", "eve/own")
        for what, upload in (("stored by another", secret), ("new", Upload(folder, noise(3, 1_200_000)))):
            answers = [hub.request("POST", f"/v1/xorbs/default/{name}", eve, body) for name, body in upload.xorbs.items()]
            answers.append(hub.request("POST", "/v1/shards", eve, upload.shard))
            if what == "new":
                check(f"{policy}: uploads of new and of stored content get the same answers", [(a.status, a.body) for a in answers] == before, f"{before} / {[str(a) for a in answers]}")
            before = [(a.status, a.body) for a in answers]
        # Dedup answers and HEAD are for those who write.
        hub.repo("ann/public")
        anonymous = hub.cas_token("ann/public", None, "read").json()["accessToken"]
        first = secret.dump["xorbs"][0]["chunks"][0]["hash"]
        reply = hub.request("GET", f"/v1/chunks/default/{first}", anonymous)
        check(f"{policy}: a reader gets no dedup answer", reply.status in (401, 403, 404), str(reply))
        seen = hub.request("HEAD", f"/v1/xorbs/default/{xorb}", anonymous)
        check(f"{policy}: a reader learns of no xorb", seen.status in (401, 403, 404), str(seen))
        bob = hub.token("--scope", "write", "--repo", "bob/own")
        reply = hub.request("GET", f"/v1/chunks/default/{small.dump['xorbs'][0]['hash']}", bob)
        check(f"{policy}: a xorb of one chunk is named to nobody else", reply.status == 404, str(reply))


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
        word = b"a few words"
        query = {"operation": "upload", "transfers": ["basic"], "objects": [{"oid": hashlib.sha256(word).hexdigest(), "size": len(word)}]}
        answer = hub.request("POST", "/ann/secret.git/info/lfs/objects/batch", ann, query)
        signed = urllib.parse.urlsplit(answer.json()["objects"][0]["actions"]["upload"]["href"])
        query = {"operation": "download", "objects": [{"oid": upload.sha256, "size": upload.size}]}
        answer = hub.request("POST", "/ann/secret.git/info/lfs/objects/batch", ann, query)
        fetched = urllib.parse.urlsplit(answer.json()["objects"][0]["actions"]["download"]["href"])
        read = hub.request("GET", f"{fetched.path}?{fetched.query}")
        check("a signed download reads", read.status == 200 and len(read.body) == upload.size, read.status)
        hub.run("token", "revoke", "laptop")
        time.sleep(2.5)
        check("a CAS token ends with the token it came from", reads(cas) in (401, 403), reads(cas))
        for what, method, url, body in (("download", "GET", fetched, None), ("upload", "PUT", signed, word)):
            answer = hub.request(method, f"{url.path}?{url.query}", None, body)
            check(f"a signed {what} ends with the token it was made for", answer.status == 403, str(answer)[:200])

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


        # A token made by hand ends with what it was made from, too.
        made = hub.run("token", "create", "--cas", "--scope", "write", "--repo", "ann/later", "--label", "by hand")
        assert made.returncode == 0, made.stderr
        cas = made.stdout.strip()
        upload = Upload(folder, noise(24, 120_000)).send(hub, cas)
        status = lambda: hub.request("GET", f"/v1/reconstructions/{upload.file}", cas).status
        check("a CAS token made by hand reads what it wrote", status() == 200, status())
        hub.repo("ann/later", private=True)
        time.sleep(2.5)
        check("also when its repository was created since", status() == 200, status())
        hub.run("token", "revoke", "by hand")
        time.sleep(2.5)
        check("and ends with its token", status() == 401, status())

        # URLs of whole files are for one repository, not for its name.
        hub.repo("ann/lfs", private=True)
        token = hub.token("--scope", "write", "--namespace", "ann", "--label", "lfs")
        data = noise(25, 5_000)
        batch = {"operation": "upload", "transfers": ["basic"], "objects": [{"oid": hashlib.sha256(data).hexdigest(), "size": len(data)}]}
        answer = hub.request("POST", "/ann/lfs.git/info/lfs/objects/batch", token, batch)
        href = urllib.parse.urlsplit(answer.json()["objects"][0]["actions"]["upload"]["href"])
        hub.request("POST", "/api/repos/move", hub.admin, {"fromRepo": "ann/lfs", "toRepo": "ann/lfs-moved", "type": "model"})
        hub.repo("ann/lfs", private=True)
        sent = hub.request("PUT", f"{href.path}?{href.query}", None, data)
        check("a signed upload does not reach another repository of the name", sent.status == 403, str(sent))


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
        # Nor does a text that others read a thousand at a time.
        words = "m" * 8_000_000
        line = json.dumps({"key": "header", "value": {"summary": words}})
        for path, body in (("commit/main", line.encode()), ("discussions", {"title": words[:900_000], "pullRequest": True}), ("super-squash/main", {"message": words[:900_000]})):
            answer = hub.request("POST", f"/api/models/ann/m/{path}", hub.admin, body)
            check(f"{path} with a very long text is refused", answer.status == 400, str(answer))
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


def previews(folder):
    """Neither do diffs, tables, JSON, headers of tensors, large folders or long histories; and nobody waits meanwhile."""
    deep = b'{"a":' * 100 + b"[" + b"1," * 14_000 + b"1]" + b"}" * 100
    tensors = b'{"a":{"dtype":"F32","shape":[' + b"0," * 3_900_000 + b'0],"data_offsets":[0,4]}}'
    files = {
        "deep.json": deep, "wide.csv": b"," * 32_000, "quotes.csv": b'"' * 32_000, "rows.tsv": b"\n" * 32_000,
        "deep.md": b"> " * 16_000, "x.safetensors": len(tensors).to_bytes(8, "little") + tensors,
        "end.parquet": b"PAR1" + b"\x15" * 1_000_000 + (1_000_000).to_bytes(4, "little") + b"PAR1",
    }
    with Hub(folder / "previews") as hub:
        hub.repo("ann/m")
        assert hub.commit("ann/m", files).status == 200
        # Each file differs from itself in every line, and each line is like many others.
        for turn in (1, 2):
            lines = {f"d{n}.txt": b"\n".join(str((n * turn + line * 7) % 11).encode() for line in range(1000)) for n in range(40)}
            made = hub.commit("ann/m", lines)
            assert made.status == 200, made
        many = {f"d/{n:05}": b"" for n in range(20_000)}
        assert hub.commit("ann/m", many).status == 200
        oid = made.json()["commitOid"]
        paths = [f"/ann/m/blob/main/{name}" for name in files] + [
            f"/ann/m/commit/{oid}", "/ann/m/tree/main/d", "/ann/m/tree/main/d?after=d/19000", "/ann/m/commits/main?p=99999999",
            "/api/models/ann/m/tree/main/d?recursive=true&expand=true", "/?search=" + "%25_" * 10_000, "/api/models?search=" + "a" * 60_000,
        ]
        for path in paths:
            with concurrent.futures.ThreadPoolExecutor(6) as pool:
                views = [pool.submit(hub.request, "GET", path) for _ in range(4)]
                time.sleep(0.05)
                slow = max(hub.request("GET", "/health", timeout=60).seconds for _ in range(5))
                answers = [view.result() for view in views]
            seconds = max(answer.seconds for answer in answers)
            check(f"{path[:50]}: others are served meanwhile", slow < 1, f"{slow:.2f} s")
            check(f"{path[:50]}: it comes", all(answer.status in (200, 503) or "search=" in path and answer.status == 400 for answer in answers) and seconds < 8, f"{[a.status for a in answers]} {seconds:.2f} s")


def pages_of_others(folder):
    """Pages and lists show neither names nor sizes nor numbers of what is not one's own, and lead nowhere else."""
    with Hub(folder / "others") as hub:
        hub.repo("ann/shown")
        one = hub.token("--scope", "write", "--repo", "ann/shown", "--label", "first")
        bob = hub.token("--scope", "write", "--namespace", "bob")
        paths = ["/", "/models", "/?search=secret", "/-/dedup", "/-/account", "/api/models", "/api/models?author=ANN", "/api/whoami-v2", "/metrics", "/openapi.json"]

        def seen():
            answers = {}
            for who, token in (("anonymous", None), ("one repository", one), ("bob", bob)):
                for path in paths:
                    answer = hub.request("GET", path, token)
                    text = re.sub(rb'name="word" value="[0-9a-f]+"', b"", answer.body)
                    answers[who, path] = (answer.status, text if path != "/metrics" else b"")
            return answers

        seen()
        time.sleep(0.5)
        before = seen()
        hub.repo("ann/secret-plan", private=True)
        hub.token("--scope", "read", "--repo", "ann/secret-plan", "--label", "secret-label")
        Upload(folder, noise(61, 400_000)).send(hub, hub.cas_token("ann/secret-plan", hub.admin).json()["accessToken"])
        hub.request("GET", "/", hub.admin)
        time.sleep(0.5)
        for key, answer in seen().items():
            check(f"{key[1]} as {key[0]} is the same beside a private repository", answer == before[key], str(answer[1])[:300])
        for hidden, absent in (("secret-plan", "absent-plan"), ("SECRET-plan", "ABSENT-plan")):
            for who, token in (("anonymous", None), ("one repository", one), ("bob", bob)):
                for path in ("/ann/{}", "/ann/{}/resolve/main/x", "/api/models/ann/{}", "/api/models/ann/{}/xet-read-token/main", "/ann/{}/commits/main"):
                    for accept in ("*/*", "text/html"):
                        here, away = (hub.request("GET", path.format(name), token, headers={"Accept": accept}) for name in (hidden, absent))

                        def plain(answer, name):
                            headers = sorted((key, value.replace(name, "N")) for key, value in answer.headers.items() if key.lower() not in ("x-request-id", "date"))
                            body = answer.body.replace(name.encode(), b"N").replace(answer.headers.get("x-request-id", "-").encode(), b"I")
                            return answer.status, headers, body
                        check(f"{path.format(hidden)} as {who} ({accept}) is as if it did not exist", plain(here, hidden) == plain(away, absent), f"{here} / {away}")
        for target in ("/\t/evil.example", "/%09/evil.example", "//evil.example", "/%2f%2fevil.example", "/%2Fevil.example", "/\\evil.example", "/%5cevil.example",
                       "https://evil.example", "http:evil.example", "\t//evil.example", " //evil.example", "/\r\n/evil.example", "/%252fevil.example", "///evil.example", "/\x00/evil.example"):
            form = urllib.parse.urlencode({"token": one, "next": target})
            answer = hub.request("POST", "/-/sign-in", None, form.encode(), {"Content-Type": "application/x-www-form-urlencoded", "Origin": f"http://{hub.url.netloc}"})
            check(f"signing in leads not to {target!r}", answer.status == 303 and answer.headers["Location"] == "/", f"{answer.status} {answer.headers.get('Location')!r}")
            shown = hub.request("GET", "/-/sign-in?" + urllib.parse.urlencode({"next": target}))
            check(f"nor does the form carry {target!r}", b"evil" not in shown.body, "")


def sockets(folder):
    """Idle and half-open connections of one address keep nobody out."""
    with Hub(folder / "sockets", connections_max=400) as hub:
        hub.repo("ann/m")
        hub.commit("ann/m", {"a.bin": noise(51, 6_000_000)})
        slow = f"Host: x\r\nAuthorization: Bearer {hub.admin}\r\nContent-Length: 100000\r\n\r\nabc".encode()
        heads = {
            "idle sockets": b"", "half headers": b"GET /health HTTP/1.1\r\nHost: x\r\nX-A: ",
            "slow bodies": b"POST /api/models/ann/m/commit/main HTTP/1.1\r\n" + slow, "slow small bodies": b"POST /api/validate-yaml HTTP/1.1\r\n" + slow,
            "slow readers": b"GET /ann/m/resolve/main/a.bin HTTP/1.1\r\nHost: x\r\n\r\n",
        }
        for name, head in heads.items():
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
                # The attacker's own address waits at most for its own half headers to run out of time.
                if where == "127.0.0.2" or name != "half headers":
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
        for path, length in (("/ann/m/resolve/main/a.bin", 6_000_000), ("/api/models/ann/m", 100)):
            caller = socket.create_connection((hub.url.hostname, hub.url.port), timeout=10)
            caller.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            caller.shutdown(socket.SHUT_WR)
            got = 0
            while piece := caller.recv(1 << 16):
                got += len(piece)
            check(f"and all of {path}", got > length, got)
            caller.close()


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
    directory = folder / "directory"
    directory.mkdir()
    for path in list(data.glob("catalog.db*")):
        shutil.move(path, directory / path.name)
    for verb in (["gc"], ["gc", "--offline"]):
        ran = run_quiet(DRYSTONE, *verb, "--data", data)
        check(f"{' '.join(verb)} without the catalog is refused", ran.returncode != 0 and listing(objects) == before, ran.stdout + ran.stderr)
        for path in data.glob("catalog.db*"):
            path.unlink()
    process = subprocess.Popen([DRYSTONE, "serve", "--listen", "127.0.0.1:0", "--data", data], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "DRYSTONE_SWEEP_INTERVAL_S": "1"})
    try:
        output = process.communicate(timeout=8)
        check("a server does not start on an empty catalog over objects", process.returncode != 0 and "rebuild" in output[1], output)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)
        check("a server does not start on an empty catalog over objects", False, "it runs")
    check("and deletes nothing", listing(objects) == before)
    for path in data.glob("catalog.db*"):
        path.unlink()
    for path in directory.iterdir():
        shutil.move(path, data / path.name)
    hub.start()
    read = hub.request("GET", "/ann/m/resolve/main/0.bin", hub.admin)
    hub.stop()
    check("with its own catalog everything is there", read.status == 200 and len(read.body) == 300_000, str(read)[:200])
    # The catalog of another store, by every command and by a server.
    with Hub(folder / "foreign") as other:
        other.repo("bob/m")
    foreign = f"sqlite://{other.data}/catalog.db"
    before = listing(objects)
    for verb in (["gc"], ["gc", "--offline", "--grace", "0", "--allow-large-deletion"], ["gc", "--compact"], ["verify", "--repair"],
                 ["rebuild"], ["stats"], ["token", "list"], ["admin", "repo", "list"], ["serve", "--listen", "127.0.0.1:0"]):
        ran = run_quiet(DRYSTONE, *verb, "--data", data, "--catalog", foreign)
        check(f"{' '.join(verb)} with a foreign catalog is refused", ran.returncode == 1 and listing(objects) == before, ran.stdout + ran.stderr)
    # An old backup of the catalog: what came after it is unknown, and would go little by little.
    aged = Hub(folder / "aged", sweep_interval_s=1)
    aged.repo("ann/m")
    aged.stop()
    backup = folder / "backup"
    backup.mkdir()
    for path in aged.data.glob("catalog.db*"):
        shutil.copy(path, backup / path.name)
    aged.start()
    token = aged.cas_token("ann/m", aged.admin).json()["accessToken"]
    for seed in range(12):
        upload = Upload(folder, noise(60 + seed, 60_000)).send(aged, token)
        assert aged.commit_lfs("ann/m", f"{seed}.bin", upload.sha256, upload.size).status == 200
    aged.stop()
    for path in aged.data.glob("catalog.db*"):
        path.unlink()
    for path in backup.iterdir():
        shutil.copy(path, aged.data / path.name)
    for days in (2, 60):
        old = time.time() - days * 86_400
        for path in (aged.data / "objects").rglob("*"):
            os.utime(path, (old, old))
        before = listing(aged.data / "objects")
        ran = run_quiet(DRYSTONE, "gc", "--data", aged.data)
        check(f"gc after an old backup, objects of {days} days, is refused", ran.returncode == 1 and "--allow-large-deletion" in ran.stderr, ran.stdout + ran.stderr)
        aged.start()
        time.sleep(4)
        alive = aged.request("GET", "/health").status == 200
        audit = aged.run("admin", "audit", "--since", "1h").stdout
        aged.stop()
        check("the server goes on, deletes nothing and notes it once", alive and "upkeep" in audit, audit)
        check("every object is there", listing(aged.data / "objects") == before)


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
            # A server that implements a filter answers with the matches: none here.
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
        # Nor does ann's token reach further by other ways.
        moved = hub.request("POST", "/api/repos/move", ann, {"fromRepo": "ann/hers", "toRepo": "bob/hers", "type": "model"})
        check("ann moves nothing to bob", moved.status in (401, 403, 404), str(moved))
        listed = hub.request("GET", "/api/models?limit=100", ann)
        check("ann lists nothing of bob's", b"bob/" not in listed.body and b"ann/hers" in listed.body, str(listed))
        seen, absent = (hub.request("GET", f"/api/models/bob/{name}", ann) for name in ("own", "none"))
        check("bob's repository is like none", (seen.status, seen.body) == (absent.status, absent.body), f"{seen} {absent}")
        for bound in (("--namespace", "bob"), ("--repo", "bob/own")):
            token = hub.token("--scope", "write", "--subject", "ann", *bound)
            seen = hub.request("GET", "/api/models/bob/own", token)
            check(f"nor by a token of hers with {bound}", seen.status == 404, str(seen))
            seen = hub.request("GET", f"/v1/reconstructions/{upload.file}", token)
            check(f"nor its content with {bound}", seen.status in (401, 403), str(seen))
        # A deleted user's tokens stay void when the name is a user again.
        assert hub.run("admin", "user", "create", "cleo").returncode == 0
        cleo = hub.token("--scope", "write", "--subject", "cleo", "--everywhere")
        check("a user is deleted", hub.run("admin", "user", "delete", "cleo").returncode == 0)
        check("the name is not given away", hub.run("admin", "user", "create", "cleo").returncode == 1)
        hub.run("admin", "user", "enable", "cleo")
        check("and the old tokens stay void", hub.request("GET", "/api/whoami-v2", cleo).status == 401)
        refused = hub.run("admin", "user", "delete", "ann")
        check("a user who owns repositories is not deleted", refused.returncode == 1 and "ann/hers" in refused.stderr, refused.stderr)
        # Names.
        hub.repo("ann/Model")
        twin = hub.request("POST", "/api/repos/create", hub.admin, {"name": "model", "organization": "ANN", "type": "model"})
        check("names are unique without regard to case", twin.status == 409, str(twin))
        found = hub.request("GET", "/api/models/ANN/mODEL", hub.admin)
        check("found in any case, shown as created", found.status == 200 and found.json()["id"] == "ann/Model", str(found))
        bad = hub.request("POST", "/api/repos/create", hub.admin, {"name": "x.GIT", "organization": "ann", "type": "model"})
        check("no name ends in .git in any case", bad.status in (400, 422), str(bad))
        # A token made for a name in another case is for the repository as it was created.
        hub.request("PUT", "/api/models/ann/MODEL/settings", hub.admin, {"private": True})
        one = hub.token("--scope", "write", "--repo", "ANN/model")
        found = hub.request("GET", "/api/models/ANN/Model", one)
        check("a token made for a name in another case opens the repository", found.status == 200 and found.json()["id"] == "ann/Model", str(found))
        cas = hub.cas_token("Ann/mODEL", one)
        check("so does its CAS token", cas.status == 200, str(cas))
        upload = Upload(folder, noise(42, 120_000)).send(hub, cas.json()["accessToken"])
        made = hub.commit_lfs("aNN/model", "f.bin", upload.sha256, upload.size, one)
        read = hub.request("GET", "/ann/Model/resolve/main/f.bin", one)
        check("what it uploads is in the repository as created", made.status == 200 and read.status == 200 and len(read.body) == upload.size, f"{made} {read.status}")
        for verb in (["admin", "repo", "create", "ANN/MODEL"], ["admin", "user", "create", "ANN"], ["admin", "org", "create", "Ann"]):
            ran = hub.run(*verb)
            check(f"{' '.join(verb)} is refused", ran.returncode == 1 and "already" in ran.stderr, ran.stdout + ran.stderr)
        ran = hub.run("admin", "repo", "rename", "ANN/MODEL", "ann/MODEL")
        found = hub.request("GET", "/api/models/ann/model", hub.admin)
        check("a rename may change the case only", ran.returncode == 0 and found.status == 200 and found.json()["id"] == "ann/MODEL", f"{ran.stderr} {found}")
        read = hub.request("GET", "/ann/model/resolve/main/f.bin", hub.admin)
        check("and keeps its content", read.status == 200 and len(read.body) == upload.size, str(read)[:200])
        for namespace in ("API", "reconstructions", "Datasets"):
            made = hub.request("POST", "/api/repos/create", hub.admin, {"name": "x", "organization": namespace, "type": "model"})
            check(f"no namespace {namespace} hides a route", made.status in (400, 422), str(made))


def passwords(folder):
    """Passwords are guessed slowly, a guesser locks out nobody else, and a new password ends old sessions."""
    with Hub(folder / "passwords") as hub:
        for name in ("ann", "bob"):
            assert hub.run("admin", "user", "create", name).returncode == 0
            assert hub.run("admin", "user", "password", name, "--stdin", input=f"the password of {name}\n").returncode == 0

        def sign_in(name, password, source="127.0.0.1"):
            connection = http.client.HTTPConnection(hub.url.hostname, hub.url.port, timeout=60, source_address=(source, 0))
            connection.request("POST", "/-/sign-in", urllib.parse.urlencode({"name": name, "password": password}))
            answer = connection.getresponse()
            answer.read()
            connection.close()
            return answer.status, (answer.headers["Set-Cookie"] or "").split(";")[0]

        with concurrent.futures.ThreadPoolExecutor(50) as pool:
            tried = [status for status, _ in pool.map(lambda n: sign_in("ann", f"guess {n}"), range(150))]
        check("of 150 guesses at once ten are checked", tried.count(401) == 10 and tried.count(429) == 140, f"{tried.count(401)} {tried.count(429)}")
        status, cookie = sign_in("ann", "the password of ann", "127.0.0.2")
        check("from elsewhere ann signs in", status == 303, status)
        check("here she waits", sign_in("ann", "the password of ann")[0] == 429)
        check("others sign in here", sign_in("bob", "the password of bob")[0] == 303)
        opens = lambda: hub.request("GET", "/-/account", cookie=cookie).status
        check("her session opens her page", opens() == 200)
        assert hub.run("admin", "user", "password", "ann", "--stdin", input="another password\n").returncode == 0
        time.sleep(2.5)
        check("and ends with her password", opens() == 401, opens())
        check("the old password is void", sign_in("ann", "the password of ann", "127.0.0.3")[0] == 401)
        status, cookie = sign_in("ann", "another password", "127.0.0.3")
        check("the new one is good", status == 303, status)
        hub.run("admin", "user", "disable", "ann")
        time.sleep(2.5)
        check("a disabled user's session is over", opens() == 401, opens())
        check("and so is the password", sign_in("ann", "another password", "127.0.0.3")[0] == 401)
        hub.run("admin", "user", "enable", "ann")
        time.sleep(2.5)
        check("the session does not come back", opens() == 401, opens())
        audit = hub.request("GET", "/api/admin/audit?limit=1000", hub.admin).json()
        acted = {row["who"] for row in audit}
        nameless = [row for row in audit if row["who"] in ("", "anonymous", "store") and row["action"] not in ("sweep", "verify")]
        check("every event has an actor", not nameless, nameless)
        check("a sign-in is by who signs in", any(row["who"] == "ann" and row["action"] == "token.create" for row in audit), acted)


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
            # Longer than the server caches an authentication.
            time.sleep(6)
        stored = sum(path.stat().st_size for path in (hub.data / "objects" / "xorbs").rglob("*") if path.is_file())
        check("unregistered xorbs stay below the quota and one a connection", stored <= 14_000_000, f"{stored} bytes, {sent.count(200)} taken")
    with Hub(folder / "flood chunked", lfs_part_bytes=1_000_000) as hub:
        for repo in ("ann/m", "bob/m"):
            hub.repo(repo)
            assert hub.run("admin", "quota", "set", repo, "--physical", "5MB").returncode == 0
        objects = lambda of: [path.stat().st_size for path in (hub.data / "objects" / of).rglob("*") if path.is_file() and "#" not in path.name]
        # Bodies whose length is not announced are held against the quota, too.
        cas = hub.cas_token("ann/m", hub.admin).json()["accessToken"]

        def send_chunked(upload):
            (name, body), = upload.xorbs.items()
            pieces = (body[at:at + 100_000] for at in range(0, len(body), 100_000))
            return hub.request("POST", f"/v1/xorbs/default/{name}", cas, pieces).status

        with concurrent.futures.ThreadPoolExecutor(20) as pool:
            sent = list(pool.map(send_chunked, uploads[:20]))
        check("bodies of unknown length stay below the quota", 1 <= sent.count(200) <= 4 and sum(objects("xorbs")) <= 5_000_000, f"{sum(objects('xorbs'))} bytes, {sent}")
        # Two parts of one number, the longer of which is stored last.
        oid = hashlib.sha256(b"parted").hexdigest()

        def part_url(size):
            batch = {"operation": "upload", "transfers": ["multipart"], "objects": [{"oid": oid, "size": size}]}
            answer = hub.request("POST", "/bob/m.git/info/lfs/objects/batch", hub.admin, batch)
            url = urllib.parse.urlsplit(answer.json()["objects"][0]["actions"]["upload"]["header"]["00065"])
            return f"{url.path}?{url.query}"

        long, short = part_url(65_000_000), part_url(64_000_001)
        for path, body in ((long, noise(7, 1_000_000)), (short, b"x")):
            sent = hub.request("PUT", path, None, body)
            check("a part is taken", sent.status == 200, str(sent))
        used = hub.request("GET", "/api/admin/quotas", hub.admin).json()
        used = next(row["physicalBytes"] for row in used if row["of"] == "bob/m" or row["of"] == "bob/models/m")
        check("of two parts with one number the longer counts", used >= 1_000_000, used)
    with Hub(folder / "flood forms") as hub:
        # One hash in many forms at once: the sender chooses how each chunk is compressed.
        hub.repo("ann/m")
        cas = hub.cas_token("ann/m", hub.admin).json()["accessToken"]
        source = folder / "compressible"
        source.write_bytes(b"".join(b"%08d" % n * 64 for n in range(4000)))
        forms = {}
        for scheme in ("none", "lz4", "bg4-lz4"):
            xorbs = folder / f"form {scheme}"
            run(DRYSTONE, "shard", "build", "-o", folder / "form.shard", "--xorbs", xorbs, "--scheme", scheme, source)
            forms |= {(path.name, scheme): path.read_bytes() for path in xorbs.iterdir()}
        assert len({name for name, _ in forms}) == 1 and len(set(map(len, forms.values()))) == 3, list(forms)
        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            sent = [pool.submit(hub.request, "POST", f"/v1/xorbs/default/{name}", cas, body) for (name, _), body in list(forms.items()) * 4]
        # Staged files have a number after a `#`; the last of them may still be written, and is deleted then.
        stored = [path for path in (hub.data / "objects" / "xorbs").rglob("*") if path.is_file() and "#" not in path.name]
        check("of one xorb in many forms one object is stored", len(stored) == 1 and all(done.result().status == 200 for done in sent), len(stored))


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
        query = {"files": [{"path": "f.bin", "size": upload.size, "sample": ""}]}
        decided = hub.request("POST", "/api/models/ann/m/preupload/main", hub.admin, query)
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
        # What git has: a wrong byte in the middle of a file that no pointer stands for.
        text = noise(62, 60_000).hex().encode()
        assert hub.commit("ann/m", {"text.txt": text}).status == 200
    copy = folder / "damaged copy"
    ran = run_quiet(DRYSTONE, "backup", copy, "--data", hub.data)
    check("a backup is made", ran.returncode == 0, ran.stderr)
    bundles = [path for root in (copy, hub.data) for path in (root / "objects" / "commits").rglob("*") if path.is_file() and text in path.read_bytes()]
    check("it is in the store and in the backup", len(bundles) == 2, bundles)
    for path in bundles:
        body = bytearray(path.read_bytes())
        body[len(body) // 2] ^= 1
        path.write_bytes(body)
    ran = hub.run("verify", "--deep")
    check("a wrong byte of a commit is found", ran.returncode == 1 and bundles[1].name in ran.stdout + ran.stderr, ran.stdout + ran.stderr)
    ran = run_quiet(DRYSTONE, "restore", copy, "--data", folder / "damaged restored")
    check("a backup with one is not restored in silence", ran.returncode == 1 and bundles[0].name in ran.stdout, ran.stdout + ran.stderr)
    (copy / "signing.key").write_text("0123456789\n")
    ran = run_quiet(DRYSTONE, "restore", copy, "--data", folder / "damaged key")
    check("nor one with half a key", ran.returncode == 1 and "signing.key" in ran.stderr, ran.stdout + ran.stderr)


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
        dest = folder / "copy"
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
                reply = full.stderr.strip().splitlines()
                check("a full disk is one clear error", full.returncode == 1 and len(reply) == 1 and re.search("No space left|full", reply[0]), full.stderr)
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
    attacks = [
        tokens, counts, cards, previews, pages_of_others, sockets, catalogs, ignored, people, passwords, digests, damaged,
        backups, flood,
    ]
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
