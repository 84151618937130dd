"""`drystone push` and `pull` meet `hf`, huggingface_hub and hf_xet at `drystone serve`: what one puts, the others get.

usage: repos.py DRYSTONE

Ends with a line `repos: N passed, M failed`.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
import time
import traceback
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from harness import Server, bytes_under, check

SIZES = [0, 1, 8191, 8192, 8193, 65535, 65536, 131_071, 131_072, 131_073, 70 << 20, 300 << 20]
SMALL = 5000


class Ours:
    """The command, with a cache of its own."""

    def __init__(self, drystone, server, work):
        self.drystone, self.work = drystone, work
        self.env = {**os.environ, "DRYSTONE_ENDPOINT": server.url, "DRYSTONE_TOKEN": server.admin,
                    "DRYSTONE_CACHE_DIR": str(work / "cache"), "XDG_CONFIG_HOME": str(work / "config")}

    def start(self, *args, **more):
        return subprocess.Popen([self.drystone, *map(str, args)], env={**self.env, **more}, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)

    def fails(self, *args, **more):
        running = self.start(*args, **more)
        output = running.communicate()[1]
        return output if running.returncode == 1 else None

    def json(self, *args, **more):
        running = self.start(*args, "--json", **more)
        out, output = running.communicate()
        if running.returncode != 0:
            raise SystemExit(f"{args}: {output}")
        return json.loads(out)


def noisy(seed, size):
    """Python limits the random bytes of one call."""
    rng, step = random.Random(seed), 50 << 20
    return b"".join(rng.randbytes(min(step, size - at)) for at in range(0, size, step))


def same(folder, other, names):
    return all((folder / name).read_bytes() == (other / name).read_bytes() for name in names)


def make(folder, noise):
    """Files of all sizes, text too, and thousands of small ones."""
    folder.mkdir()
    for size in SIZES:
        (folder / f"{size}.bin").write_bytes(noise[size % 1000 : size % 1000 + size])
    (folder / "README.md").write_text("# words\n")
    (folder / "long.txt").write_text("a line of text\n" * 100_000)
    (folder / "small").mkdir()
    rng = random.Random(8)
    for n in range(SMALL):
        start = rng.randrange(0, 60 << 20)
        size = int(rng.lognormvariate(8.5, 1))
        (folder / "small" / f"{n}.bin").write_bytes(noise[start : start + size])
    return [str(path.relative_to(folder)) for path in sorted(folder.rglob("*")) if path.is_file()]


def with_hf_xet(listed, commit, repo, folder):
    """Everything of a repository that hf_xet can download, in one call."""
    import hf_xet

    url = f"{os.environ['HF_ENDPOINT']}/api/datasets/{repo}/xet-read-token/{commit}"
    with urllib.request.urlopen(urllib.request.Request(url, headers={"Authorization": f"Bearer {os.environ['HF_TOKEN']}"})) as answer:
        access = json.load(answer)
    large = [entry for entry in listed if "hash" in entry]
    for entry in large:
        (folder / entry["path"]).parent.mkdir(parents=True, exist_ok=True)
    wanted = [hf_xet.PyXetDownloadInfo(str(folder / entry["path"]), entry["hash"], entry["size"]) for entry in large]
    hf_xet.download_files(wanted, access["casUrl"], (access["accessToken"], access["exp"]), None, None)
    return [entry["path"] for entry in large]


def ours_then_theirs(api, ours, server, work, noise):
    folder = work / "in"
    names = make(folder, noise)
    pushed = ours.json("push", folder, "datasets/ann/ours", "--create", "--private")
    check("every file is pushed", (pushed["files"], pushed["failed"], pushed["commits"]) == (len(names), 0, 1), pushed)
    listed = [entry for entry in ours.json("ls", "-r", "datasets/ann/ours") if entry["type"] == "file"]
    check("ls names them", sorted(entry["path"] for entry in listed) == sorted([*names, ".gitattributes"]))
    theirs = sorted(item.path for item in api.list_repo_tree("ann/ours", repo_type="dataset", recursive=True) if hasattr(item, "blob_id"))
    check("as huggingface_hub does", sorted(entry["path"] for entry in listed) == theirs)
    large = with_hf_xet(listed, pushed["commit"]["oid"], "ann/ours", work / "hf_xet")
    check("hf_xet downloads them, large and small", len(large) > SMALL and same(folder, work / "hf_xet", large), len(large))
    done = subprocess.run([Path(sys.executable).with_name("hf"), "download", "ann/ours", "--repo-type", "dataset", "--exclude", "small/*",
                           "--local-dir", work / "hf"], capture_output=True, text=True)
    rest = [name for name in names if not name.startswith("small/")]
    check("hf download brings the same bytes", done.returncode == 0 and same(folder, work / "hf", rest), done.stderr[-500:])
    again = ours.json("push", folder, "datasets/ann/ours")
    check("pushed again, nothing is sent", (again["files"], again["unchanged"], again["sent_bytes"]) == (0, len(names), 0), again)

    before = bytes_under(server.data / "objects" / "xorbs")
    big = bytearray((folder / f"{70 << 20}.bin").read_bytes())
    big[30 << 20 : 30 << 20] = b"some words more"
    del big[50 << 20 : (50 << 20) + 500]
    big += noise[:1000]
    (folder / f"{70 << 20}.bin").write_bytes(big)
    edited = ours.json("push", folder, "datasets/ann/ours", "-m", "edited", DRYSTONE_CACHE_DIR=str(work / "no-cache"))
    grown = bytes_under(server.data / "objects" / "xorbs") - before
    check("of an edited file only what changed is stored", edited["files"] == 1 and 0 < grown < 1 << 20, f"{grown} {edited}")
    got = api.hf_hub_download("ann/ours", f"{70 << 20}.bin", repo_type="dataset", local_dir=work / "edited")
    check("and huggingface_hub downloads it", Path(got).read_bytes() == big)


def theirs_then_ours(api, ours, work, noise):
    folder = work / "in"
    hf = Path(sys.executable).with_name("hf")
    done = subprocess.run([hf, "upload", "ann/theirs", folder, ".", "--exclude", "small/[1-9]*"], capture_output=True, text=True)
    check("hf upload", done.returncode == 0, done.stderr[-500:])
    names = [name for name in api.list_repo_files("ann/theirs") if name != ".gitattributes"]
    out = work / "theirs"
    pulled = ours.json("pull", "ann/theirs", out, "--exclude", ".gitattributes")
    check("pull brings the same bytes", pulled["files"] == len(names) > 10 and same(folder, out, names), pulled)
    check("of the same commit", pulled["commit"] == api.model_info("ann/theirs").sha)
    again = ours.json("pull", "ann/theirs", out, "--exclude", ".gitattributes")
    check("pulled again, nothing is fetched", (again["unchanged"], again["fetched_bytes"]) == (len(names), 0), again)
    big = noise[: 20 << 20] + b"inserted" + noise[20 << 20 : 90 << 20]
    api.upload_file(path_or_fileobj=big, path_in_repo=f"{70 << 20}.bin", repo_id="ann/theirs")
    changed = ours.json("pull", "ann/theirs", out)
    check("a new version is pulled by what changed", (out / f"{70 << 20}.bin").read_bytes() == big and changed["fetched_bytes"] < 25 << 20, changed)
    api.upload_file(path_or_fileobj=b"by plain LFS" * 10_000, path_in_repo="plain.bin", repo_id="ann/theirs")
    shown = subprocess.run([ours.drystone, "cat", "ann/theirs:plain.bin", "--range", "3-15"], env=ours.env, capture_output=True)
    check("cat shows a range", shown.stdout == b"plain LFSby ", shown)
    gone = ours.json("rm", "ann/theirs:plain.bin", "ann/theirs:README.md")
    check("rm deletes, and huggingface_hub sees it", not {"plain.bin", "README.md"} & set(api.list_repo_files("ann/theirs")), gone)


def rights(api, ours, work):
    api.create_repo("ann/secret", private=True)
    api.upload_file(path_or_fileobj=b"\0 quiet" * 50_000, path_in_repo="a.bin", repo_id="ann/secret")
    for token in ("ds_wrong", ""):
        for args in (["pull", "ann/secret", work / "no"], ["push", work / "in/README.md", "ann/secret"], ["rm", "ann/secret:a.bin"]):
            output = ours.fails(*args, DRYSTONE_TOKEN=token, HF_TOKEN=token)
            check(f"{args[0]} with {'a wrong' if token else 'no'} token fails", output is not None and (not token or token not in output), output)
    check("and nothing came", not (work / "no").exists())
    ours.json("pull", "ann/secret", work / "yes")
    check("with the right one it comes", (work / "yes/a.bin").read_bytes() == b"\0 quiet" * 50_000)


def killed(api, ours, work, noise):
    """Killed as soon as a xorb is acknowledged; gone on with; the others get it whole."""
    folder = work / "killed"
    folder.mkdir()
    (folder / "big.bin").write_bytes(noise[::-1])
    cache = work / "killed-cache"
    running = ours.start("push", folder, "ann/killed", "--create", "--memory", "1", DRYSTONE_CACHE_DIR=str(cache))
    while running.poll() is None and not any(cache.rglob("*.mdb")):
        time.sleep(0.01)
    running.kill()
    running.communicate()
    pushed = ours.json("push", folder, "ann/killed", "--create", DRYSTONE_CACHE_DIR=str(cache))
    check("a killed push goes on", pushed["new_bytes"] < len(noise) - (60 << 20), pushed)
    got = api.hf_hub_download("ann/killed", "big.bin", local_dir=work / "killed-hf")
    check("and huggingface_hub gets the file", Path(got).read_bytes() == noise[::-1])
    running = ours.start("pull", "ann/killed", work / "killed-out")
    while running.poll() is None and not any((work / "killed-out").glob("*.part.journal")):
        time.sleep(0.01)
    running.kill()
    running.communicate()
    ours.json("pull", "ann/killed", work / "killed-out")
    check("a killed pull goes on", (work / "killed-out/big.bin").read_bytes() == noise[::-1])


def main(drystone):
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        server = Server(drystone, work / "data")
        os.environ.update(HF_ENDPOINT=server.url, HF_TOKEN=server.admin, HF_HOME=str(work / "home"), HF_XET_CACHE=str(work / "xet"),
                          HF_HUB_DISABLE_TELEMETRY="1", HF_HUB_DISABLE_UPDATE_CHECK="1", HF_UPDATE_DOWNLOAD_COUNTS="0",
                          HF_HUB_DISABLE_PROGRESS_BARS="1")
        from huggingface_hub import HfApi

        api, ours, noise = HfApi(), Ours(drystone, server, work), noisy(7, (300 << 20) + 1000)
        for part in (lambda: ours_then_theirs(api, ours, server, work, noise), lambda: theirs_then_ours(api, ours, work, noise),
                     lambda: rights(api, ours, work), lambda: killed(api, ours, work, noise[: 200 << 20])):
            started = time.monotonic()
            try:
                part()
            except (Exception, SystemExit):
                check("the rest", False, traceback.format_exc())
            print(f"   {time.monotonic() - started:.0f} s", flush=True)
        server.stop()
        if check.failed:
            print((work / "server.log").read_text()[-3000:])
    check.finish("repos")


if __name__ == "__main__":
    main(os.path.abspath(sys.argv[1]))
