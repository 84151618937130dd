"""The published hf_xet wheel uploads to `drystone serve` and downloads the same bytes.

usage: roundtrip.py DRYSTONE [S3D]

Starts the real server on a folder that did not exist, uploads files of several kinds and sizes, a modified one and an
empty one, downloads them, restarts the server and downloads again; shows tokens that must not work; then a large file, its
ranges, its next version, and many small files. With S3D, the test kit's server of buckets and databases, does the first
part again on a bucket and PostgreSQL, with data from the server and with data from the bucket.
Ends with a line `roundtrip: N passed, M failed`.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
import warnings
from pathlib import Path

warnings.simplefilter("ignore")
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]

from harness import Server, bucket_and_database, bytes_under

passed = failed = 0
place = "folder"


def check(name, ok, detail=""):
    global passed, failed
    if ok:
        passed += 1
    else:
        failed += 1
    print(f"{'ok' if ok else 'FAILED'}: {place}: {name} {detail if not ok else ''}".rstrip(), flush=True)


class Place:
    """Where a server keeps its objects and its catalog: flags, variables, and the folder that objects end up in."""

    def __init__(self, name, number, objects, flags=(), variables=None, big=150_000_000):
        self.name, self.number, self.objects, self.flags, self.big = name, number, objects, flags, big
        self.variables = {**os.environ, **(variables or {})}

    def stored_bytes(self):
        return bytes_under(self.objects / "xorbs")


def stored_bytes(data):
    return bytes_under(data / "objects" / "xorbs")


def token(drystone, data, scope, repo, ttl=3600, flags=()):
    catalog = [word for flag, value in zip(flags[::2], flags[1::2]) if flag == "--catalog" for word in (flag, value)]
    command = [drystone, "token", "create", "--data", data, *catalog, "--cas", "--scope", scope, "--repo", repo, "--ttl", str(ttl), "--json"]
    made = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return made["token"], made["exp"]


def upload(files, url, access):
    return hf_xet.upload_files([str(file) for file in files], url, access, None, None, None)


def download(infos, folder, url, access):
    folder.mkdir()
    wanted = [hf_xet.PyXetDownloadInfo(str(folder / str(n)), info.hash, info.file_size) for n, info in enumerate(infos)]
    hf_xet.download_files(wanted, url, access, None, None)
    return [folder / str(n) for n in range(len(infos))]


def refused(work):
    try:
        work()
    except Exception as error:  # whatever the wheel makes of a refusal
        return str(error) or type(error).__name__
    return None


def status(request):
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def metric(server, name):
    lines = status(f"{server.url}/metrics")[1].decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.split("{")[0].split(" ")[0] == name)


def edits(content):
    """New versions of a large file, by what was done to it."""
    third = len(content) // 3
    blocks = [content[at : at + (4 << 20)] for at in range(0, len(content), 4 << 20)]
    random.Random(11).shuffle(blocks)
    return {
        "an insertion": content[:third] + b"some words more" + content[third:],
        "a deletion": content[:third] + content[third + 500 :],
        "an appendix": content + random.Random(12).randbytes(100_000),
        "a shuffle": b"".join(blocks),
    }


def make_files(folder, number=0, big=150_000_000):
    from agree import mixed, noise, text, zeros

    folder.mkdir()
    files = []
    for kind, size in [
        (noise, 1), (text, 100), (noise, 8192), (text, 131_073), (zeros, 3_000_000), (noise, 10_000_000),
        (text, 20_000_000), (mixed, big),
    ]:
        size += number * 1_000  # other files in every place, or a client's cache might answer for the server
        files.append(folder / f"{kind.__name__}-{size}")
        files[-1].write_bytes(kind(size))
    files.append(folder / "empty")
    files[-1].write_bytes(b"")
    return files


def same(files, copies):
    return all(file.read_bytes() == copy.read_bytes() for file, copy in zip(files, copies, strict=True))


def run(drystone, work, place):
    work.mkdir()
    data = work / "data"
    server = Server(drystone, data, *place.flags, variables=place.variables)
    check("the key and the admin token are for their owner alone", all(
        (data / name).stat().st_mode & 0o777 == 0o600 for name in ("signing.key", "admin.token")))
    write, read = (token(drystone, data, scope, "ann/model", flags=place.flags) for scope in ("write", "read"))

    files = make_files(work / "files", place.number, place.big)
    infos = upload(files, server.url, write)
    check("files of all kinds are uploaded", len(infos) == len(files))
    check("and downloaded", same(files, download(infos, work / "first", server.url, read)))
    before = place.stored_bytes()
    check("what compresses is stored smaller", before < 0.8 * sum(file.stat().st_size for file in files))

    upload(files, server.url, write)
    check("uploading again stores nothing", place.stored_bytes() == before)
    edited = work / "edited"
    big = files[5].read_bytes()
    edited.write_bytes(big[:5_000_000] + b"an insertion" + big[5_000_000:8_000_000] + big[8_000_500:])
    # A client elsewhere: it has no cache, and finds the chunks by asking.
    code = "import sys, hf_xet; i = hf_xet.upload_files([sys.argv[1]], sys.argv[2], (sys.argv[3], int(sys.argv[4])), None, None, None)[0]; print(i.hash, i.file_size)"
    env = {**os.environ, "HF_HOME": str(work / "elsewhere"), "HF_XET_CACHE": str(work / "elsewhere")}
    made = subprocess.run([sys.executable, "-W", "ignore", "-c", code, edited, server.url, write[0], str(write[1])],
                          env=env, capture_output=True, text=True)
    check("a modified file is uploaded by a client without a cache", made.returncode == 0, made.stderr[-500:])
    grown = place.stored_bytes() - before
    check("and only what changed is stored", 0 < grown < 1_000_000, f"{grown} bytes")
    if made.returncode == 0:
        file_hash, size = made.stdout.split()
        copy = work / "edited-copy"
        hf_xet.download_files([hf_xet.PyXetDownloadInfo(str(copy), file_hash, int(size))], server.url, read, None, None)
        check("and downloaded", same([edited], [copy]))

    check("SIGTERM ends the server cleanly", server.stop() == 0)
    server = Server(drystone, data, *place.flags, variables=place.variables)
    check("a second start makes no new secrets", not any(line.startswith("made ") for line in server.output))
    check("everything is there after a restart", same(files, download(infos, work / "second", server.url, read)))

    new = work / "new"
    new.write_bytes(random.Random(5).randbytes(100_000))
    other = token(drystone, data, "read", "bob/other", flags=place.flags)
    bad = (write[0][:-4] + ("AAAA" if write[0][-4:] != "AAAA" else "BBBB"), write[1])
    before = place.stored_bytes()
    for name, work_ in [
        ("a forged token uploads nothing", lambda: upload([new], server.url, bad)),
        ("a read token uploads nothing", lambda: upload([new], server.url, read)),
        ("a forged token downloads nothing", lambda: download(infos[:1], work / "forged", server.url, bad)),
        ("another repository's token downloads nothing", lambda: download(infos[:1], work / "other", server.url, other)),
    ]:
        check(name, refused(work_) is not None)
    check("refused uploads leave nothing", place.stored_bytes() == before)

    admin = (data / "admin.token").read_text().strip()
    create = urllib.request.Request(f"{server.url}/api/repos/create", method="POST", data=b'{"name": "model", "organization": "ann", "private": true}',
                                    headers={"Authorization": f"Bearer {admin}", "Content-Type": "application/json"})
    check("the admin token makes a repository", status(create)[0] == 200)
    route = urllib.request.Request(f"{server.url}/api/models/ann/model/xet-read-token/main", headers={"Authorization": f"Bearer {admin}"})
    code, body = status(route)
    given = json.loads(body)
    check("the admin token gets CAS tokens", code == 200 and given["casUrl"] == server.url)
    if code == 200:
        access = (given["accessToken"], given["exp"])
        check("which download", same(files[:2], download(infos[:2], work / "given", server.url, access)))
    route.remove_header("Authorization")
    check("nobody else does", status(route)[0] == 401)
    check("/ready and /metrics answer", status(f"{server.url}/ready")[0] == 200 and b"drystone_http_requests_total" in status(f"{server.url}/metrics")[1])
    log = (work / "server.log").read_text()
    check("no token is in the log", admin not in log and write[0] not in log and read[0] not in log)
    secrets = [place.variables.get("AWS_SECRET_ACCESS_KEY"), "X-Amz-Signature"]
    check("and no secret of the bucket", not any(secret and secret in log for secret in secrets))
    from_server = "/v1/data/" in log
    check("data came from where it should", from_server != ("bucket" in place.flags), f"from the server: {from_server}")
    server.stop()
    if place.flags:
        return

    large_and_many(drystone, work)

    server = Server(drystone, work / "open", "--auth", "off")
    info = upload([new], server.url, ("anything", 2**33))
    check("without auth any token will do", same([new], download(info, work / "open-copy", server.url, ("x", 2**33))))
    server.stop()


def large_and_many(drystone, work):
    from agree import text

    data = work / "more"
    server = Server(drystone, data)
    access = token(drystone, data, "write", "ann/large")
    rng = random.Random(11)
    large = work / "large"
    bytes_ = b"".join(part for n in range(7) for part in (rng.randbytes(26_000_000), text(4_000_000 + n)))
    large.write_bytes(bytes_)
    [info] = upload([large], server.url, access)
    xorbs = sum(1 for file in (data / "objects" / "xorbs").rglob("*") if file.is_file())
    check(f"a file of {len(bytes_) // 1_000_000} MB takes several xorbs", xorbs >= 3, str(xorbs))
    check("and comes back", same([large], download([info], work / "large-copy", server.url, access)))

    session = hf_xet.XetSession()
    group = session.new_download_stream_group(endpoint=server.url, token=access[0], token_expiry_unix_secs=access[1])
    wanted = hf_xet.XetFileInfo(info.hash, info.file_size)
    size = len(bytes_)
    ranges = [(0, 1), (0, 100_000), (67_108_863, 67_108_866), (size // 2, size // 2 + 3_000_000), (size - 1, size), (size - 70_000, size), (10_000_000, 90_000_000)]
    good = [b"".join(group.download_stream(wanted, start=a, end=b)) == bytes_[a:b] for a, b in ranges]
    check("ranges of it come back", all(good), str([r for r, ok in zip(ranges, good) if not ok]))
    buffer = bytearray(30_000_000)
    for offset, piece in group.download_unordered_stream(wanted, start=50_000_000, end=80_000_000):
        buffer[offset:offset + len(piece)] = piece
    check("and in any order", buffer == bytes_[50_000_000:80_000_000])
    group.finish()

    before = metric(server, "drystone_received_bytes_total")
    next_version = work / "large-next"
    next_version.write_bytes(bytes_[:1_000_000] + b"new" + bytes_[1_000_000:100_000_000] + rng.randbytes(300_000) + bytes_[100_000_000:-5000])
    infos = upload([next_version], server.url, access)
    sent = metric(server, "drystone_received_bytes_total") - before
    check("its next version sends few bytes", 300_000 < sent < 3_000_000, f"{sent} bytes")
    check("and comes back as well", same([next_version], download(infos, work / "large-next-copy", server.url, access)))

    folder = work / "small"
    folder.mkdir()
    small = [folder / str(n) for n in range(300)]
    for n, file in enumerate(small):
        file.write_bytes(random.Random(n).randbytes(500 + 77 * n))
    before = metric(server, "drystone_xorbs_received_total")
    infos = upload(small, server.url, access)
    xorbs = metric(server, "drystone_xorbs_received_total") - before
    check("300 small files share xorbs", 1 <= xorbs <= 5, str(xorbs))
    check("and come back", same(small, download(infos, work / "small-copies", server.url, access)))
    server.stop()


def all_places(s3d, folder):
    """The folder, and a bucket with each kind of data URL; and the process that keeps buckets, to be ended."""
    yield Place("folder", 0, folder / "0" / "data" / "objects")
    if not s3d:
        return
    for number, urls in enumerate(("server", "bucket"), 1):
        with bucket_and_database(s3d) as said:
            if said is None:
                print("skipped: the round trip on a bucket and PostgreSQL: PostgreSQL is not installed")
            else:
                flags = ("--objects", said["bucket"], "--catalog", said["catalog"], "--data-urls", urls)
                yield Place(f"bucket, data from the {urls}", number, Path(said["folder"]), flags, said["variables"], 60_000_000)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HF_HOME"] = os.environ["HF_XET_CACHE"] = str(Path(folder) / "hf")
        os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
        import hf_xet

        for each in all_places(*sys.argv[2:3] or [None], Path(folder)):
            place, work = each.name, Path(folder) / str(each.number)
            try:
                run(os.path.abspath(sys.argv[1]), work, each)
            except Exception as error:
                check("the rest", False, repr(error))
                log = work / "server.log"
                if log.exists():
                    print(log.read_text()[-3000:])
    print(f"roundtrip: {passed} passed, {failed} failed")
    sys.exit(failed > 0)
