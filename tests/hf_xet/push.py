"""`drystone cas put` pushes, the published hf_xet wheel downloads: to a server, and into a folder that is then served.

usage: push.py DRYSTONE

Ends with a line `push: N passed, M failed`.
"""

import json
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

warnings.simplefilter("ignore")
sys.path.insert(0, str(Path(__file__).parent))

import roundtrip
from roundtrip import Server, check, edits, make_files, same, stored_bytes, token


def put(drystone, work, files, *flags, env=None):
    command = [drystone, "cas", "put", "--json", "--cache-dir", work / "cache", *flags, *files]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **(env or {})})
    if done.returncode != 0:
        raise SystemExit(f"cas put failed: {done.stderr}")
    return json.loads(done.stdout)


def download(report, folder, url, access):
    folder.mkdir()
    wanted = [
        roundtrip.hf_xet.PyXetDownloadInfo(str(folder / str(n)), file["hash"], file["size"])
        for n, file in enumerate(report["files"])
    ]
    roundtrip.hf_xet.download_files(wanted, url, access, None, None)
    return [folder / str(n) for n in range(len(wanted))]


def run(drystone, work):
    data = work / "data"
    files = make_files(work / "files")
    server = Server(drystone, data)
    write, read = (token(drystone, data, scope, "ann/model") for scope in ("write", "read"))
    report = put(drystone, work, files, "--endpoint", server.url, env={"DRYSTONE_TOKEN": write[0]})
    check("every file is pushed", [Path(file["path"]) for file in report["files"]] == files)
    check("hf_xet downloads the same bytes", same(files, download(report, work / "first", server.url, read)))

    infos = roundtrip.upload(files, server.url, write)
    check("hf_xet names them alike", [info.hash for info in infos] == [file["hash"] for file in report["files"]])
    before = stored_bytes(data)
    subprocess.run([drystone, "admin", "repo", "create", "ann/model", "--private", "--data", data], check=True, capture_output=True)
    for how, content in edits(files[5].read_bytes()).items():
        edited = work / how
        edited.write_bytes(content)
        sofar = stored_bytes(data)
        again = put(drystone, work, [edited], "--endpoint", server.url, "--repo", "ann/model",
                    env={"DRYSTONE_TOKEN": (data / "admin.token").read_text().strip()})
        grown = stored_bytes(data) - sofar
        check(f"of a file with {how} only what changed is stored", 0 < grown < 1_500_000, f"{grown} bytes")
        check("and hf_xet downloads it", same([edited], download(again, work / f"with-{how}", server.url, read)))
    server.stop()

    local = work / "local"
    report = put(drystone, work, files, "--store", local, "--repo", "ann/model")
    check("a folder takes no more room than a server", stored_bytes(local) <= before, f"{stored_bytes(local)} and {before}")
    server = Server(drystone, local)
    read = token(drystone, local, "read", "ann/model")
    check("a folder that was filled without a server is served", same(files, download(report, work / "third", server.url, read)))
    server.stop()

    other = work / "other"
    server = Server(drystone, other)
    write = token(drystone, other, "write", "ann/model")
    roundtrip.upload(files, server.url, write)
    theirs = stored_bytes(other)
    check("we store no more than hf_xet does", stored_bytes(local) <= theirs, f"{stored_bytes(local)} and {theirs}")
    server.stop()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HF_HOME"] = os.environ["HF_XET_CACHE"] = str(Path(folder) / "hf")
        os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
        import hf_xet

        roundtrip.hf_xet = hf_xet
        try:
            run(os.path.abspath(sys.argv[1]), Path(folder))
        except (Exception, SystemExit) as error:
            check("the rest", False, repr(error))
    print(f"push: {roundtrip.passed} passed, {roundtrip.failed} failed")
    sys.exit(roundtrip.failed > 0)
