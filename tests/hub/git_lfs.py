"""git-lfs pushes to, fetches from and locks files on `drystone serve`; a bare git repository beside it has the refs.

It pushes plainly, and by the transfer `xet`, as with git-xet: `xet_agent.py` then uploads with hf_xet.

usage: git_lfs.py DRYSTONE

Ends with a line `git_lfs: N passed, M failed`.
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from harness import bytes_under, check, folder_place, noise, show_logs


class Git:
    """A clone whose large files are on the hub."""

    def __init__(self, folder, home, **variables):
        self.folder = folder
        self.env = {**os.environ, "HOME": str(home), "GIT_TERMINAL_PROMPT": "0", "GIT_CONFIG_NOSYSTEM": "1", "GIT_AUTHOR_NAME": "ann",
                    "GIT_AUTHOR_EMAIL": "ann@example.org", "GIT_COMMITTER_NAME": "ann", "GIT_COMMITTER_EMAIL": "ann@example.org", **variables}

    def __call__(self, *arguments, fails=False):
        ran = subprocess.run(["git", *map(str, arguments)], cwd=self.folder, env=self.env, capture_output=True, text=True, timeout=300)
        if (ran.returncode != 0) != fails:
            raise AssertionError(f"git {arguments}: {ran.stdout[-1000:]} {ran.stderr[-2000:]}")
        return ran.stdout + ran.stderr


def post(place, path, body):
    request = urllib.request.Request(place.url + path, data=json.dumps(body).encode(), method="POST",
                                     headers={"Authorization": f"Bearer {place.admin}", "Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def run(drystone, place, work):
    for verb in (["org", "create", "team"], ["user", "create", "bob"], ["member", "add", "team", "bob", "--write"]):
        subprocess.run([drystone, "admin", *verb, "--data", place.servers[0].data], check=True, capture_output=True)
    post(place, "/api/repos/create", {"name": "team/weights", "private": True})
    made = subprocess.run([drystone, "token", "create", "--data", place.servers[0].data, "--scope", "write", "--repo", "team/weights",
                           "--subject", "bob", "--json"], check=True, capture_output=True, text=True)
    bob = json.loads(made.stdout)["token"]
    bare = work / "bare.git"
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", bare], check=True)

    def clone(name, token, **variables):
        folder, home = work / name, work / f"home-{name}"
        home.mkdir()
        Git(work, home)("lfs", "install", "--skip-repo")
        # Git would fetch the files before their address is configured.
        Git(work, home, GIT_LFS_SKIP_SMUDGE="1")("clone", "-q", bare, folder)
        git = Git(folder, home, **variables)
        url = place.url.replace("http://", f"http://{name}:{token}@")
        git("config", "lfs.url", f"{url}/team/weights.git/info/lfs")
        git("config", f"lfs.{url}/team/weights.git/info/lfs.locksverify", "true")
        return git

    ann = clone("ann", place.admin)
    ann("lfs", "track", "*.bin", "--lockable")
    files = {"a.bin": noise(1, 3_000_000), "dir/b.bin": noise(2, 70_000), "one.bin": b"1"}
    for name, data in files.items():
        (ann.folder / name).parent.mkdir(exist_ok=True)
        (ann.folder / name).write_bytes(data)
    ann("add", "-A")
    ann("commit", "-qm", "files")
    ann("push", "-q", "origin", "main")
    check("git push sends large files", bytes_under(place.objects / "xorbs") > 3_000_000)
    other = clone("bob", bob)
    other("lfs", "pull")
    check("git lfs pull brings them", all((other.folder / name).read_bytes() == data for name, data in files.items()))

    edited = files["a.bin"][:1_000_000] + b"an insertion" + files["a.bin"][1_000_000:]
    before = bytes_under(place.objects / "xorbs")
    (ann.folder / "a.bin").chmod(0o644)
    (ann.folder / "a.bin").write_bytes(edited)
    ann("lfs", "lock", "a.bin")
    ann("commit", "-qam", "edited")
    ann("push", "-q", "origin", "main")
    grown = bytes_under(place.objects / "xorbs") - before
    check("a new version is stored by what changed", 0 < grown < 600_000, f"{grown} bytes")
    check("git lfs locks", "a.bin" in other("lfs", "locks") and "admin" in other("lfs", "locks"))
    other("pull", "-q")
    check("git pull fetches it", (other.folder / "a.bin").read_bytes() == edited)

    check("a locked file is not locked again", "a.bin" in other("lfs", "lock", "a.bin", fails=True))
    (other.folder / "a.bin").chmod(0o644)
    (other.folder / "a.bin").write_bytes(b"mine")
    other("commit", "-qam", "against the lock")
    output = other("push", "origin", "main", fails=True)
    check("nor pushed by others", "a.bin" in output and "admin" in output, output)
    other("lfs", "unlock", "a.bin", "--force")
    check("until it is unlocked", "a.bin" not in ann("lfs", "locks"))
    other("push", "-q", "origin", "main")
    ann("pull", "-q")
    check("then it is", (ann.folder / "a.bin").read_bytes() == b"mine")

    outsider = clone("cleo", "ds_wrong")
    check("a wrong token fetches nothing", outsider("lfs", "pull", fails=True) and (outsider.folder / "a.bin").stat().st_size < 200)
    ann("lfs", "fsck")
    check("git lfs fsck", True)
    by_xet(place, work, clone, ann)


def by_xet(place, work, clone, plain):
    """What git-xet is to git-lfs, pushes; plain git-lfs fetches."""
    log = work / "agent.log"
    log.touch()
    dora = clone("dora", place.admin, XET_AGENT_LOG=str(log), HF_HOME=str(work / "hf"), HF_HUB_DISABLE_TELEMETRY="1")
    dora("config", "lfs.customtransfer.xet.path", sys.executable)
    dora("config", "lfs.customtransfer.xet.args", Path(__file__).parent / "xet_agent.py")
    dora("config", "lfs.customtransfer.xet.concurrent", "true")
    dora("lfs", "pull")
    check("with a transfer xet at hand git lfs pull fetches plainly", (dora.folder / "a.bin").read_bytes() == b"mine")

    files = {f"x/{n}.bin": noise(10 + n, size) for n, size in enumerate([1, 70_000, 3_000_000, 20_000_000])}
    (dora.folder / "x").mkdir()
    for name, data in files.items():
        (dora.folder / name).write_bytes(data)
    dora("add", "-A")
    dora("commit", "-qm", "by xet")
    dora("push", "-q", "origin", "main")
    sent = log.read_text().split("\n")[:-1]
    oids = {hashlib.sha256(data).hexdigest() for data in files.values()}
    check("git push by xet uploads each new file once", {line.split()[0] for line in sent} == oids and len(sent) == 4, sent)
    plain("pull", "-q")
    check("plain git lfs fetches what came by xet", all((plain.folder / name).read_bytes() == data for name, data in files.items()))

    before = bytes_under(place.objects / "xorbs")
    edited = files["x/3.bin"][:9_000_000] + b"an insertion" + files["x/3.bin"][9_000_000:]
    (dora.folder / "x/3.bin").chmod(0o644)
    (dora.folder / "x/3.bin").write_bytes(edited)
    dora("commit", "-qam", "edited by xet")
    dora("push", "-q", "origin", "main")
    grown = bytes_under(place.objects / "xorbs") - before
    check("a new version by xet is stored by what changed", 0 < grown < 1_500_000, f"{grown} bytes")
    dora("lfs", "push", "--all", "origin")
    check("nothing is uploaded a second time", len(log.read_text().split("\n")[:-1]) == 5)
    plain("pull", "-q")
    check("plain git lfs fetches it", (plain.folder / "x/3.bin").read_bytes() == edited)

    reader = clone("eve", "ds_wrong", XET_AGENT_LOG=str(log))
    for key in ("path", "args", "concurrent"):
        reader("config", f"lfs.customtransfer.xet.{key}", dora("config", f"lfs.customtransfer.xet.{key}").strip())
    (reader.folder / "eve.bin").write_bytes(noise(20, 50_000))
    reader("add", "-A")
    reader("commit", "-qm", "with a wrong token")
    reader("push", "-q", "origin", "main", fails=True)
    check("a wrong token uploads nothing by xet", len(log.read_text().split("\n")[:-1]) == 5)


def main(drystone):
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        (folder / "work").mkdir()
        with folder_place(drystone, folder) as place:
            try:
                run(drystone, place, folder / "work")
            except Exception as error:
                check("the rest", False, repr(error))
            show_logs(place)
    check.finish("git_lfs")


if __name__ == "__main__":
    main(os.path.abspath(sys.argv[1]))
