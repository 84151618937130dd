"""huggingface_hub and the `hf` command work against `drystone serve`, with HF_ENDPOINT and HF_TOKEN set and nothing else.

usage: hub.py DRYSTONE [S3D]

Runs everything twice: as it comes, through XET, and with HF_HUB_DISABLE_XET=1, through LFS and plain HTTP. With S3D, the
test kit's server of buckets and databases, does so again on two servers over a bucket and PostgreSQL.
Ends with a line `hub: N passed, M failed`.
"""

import hashlib
import io
import json
import os
import random
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from harness import bytes_under, check, child, client_environment, folder_place, noise, raises, replicas_place, run_child, show_logs


class Server:
    """A hub as its clients see it, and where its objects are."""

    def __init__(self, url, data, objects, admin):
        self.url, self.data, self.objects, self.admin = url, Path(data), Path(objects), admin

    def stored_bytes(self):
        return bytes_under(self.objects / "xorbs")


def run_all(server, drystone, work):
    """In a process of its own: the library reads its settings when it is imported."""
    from huggingface_hub import CommitOperationAdd, CommitOperationCopy, CommitOperationDelete, HfApi, HfFileSystem
    from huggingface_hub import hf_hub_download, snapshot_download
    from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError, RepositoryNotFoundError, RevisionNotFoundError

    api = HfApi()
    me = api.whoami()["name"]
    check("whoami", me == "admin")
    way = "lfs" if os.environ.get("HF_HUB_DISABLE_XET") else "xet"
    repo = f"ann/model-{way}"

    def fetched(path, **more):
        more.setdefault("repo_id", repo)
        return Path(hf_hub_download(filename=path, cache_dir=work / f"cache-{random.random()}", **more)).read_bytes()

    commands(repo, work)
    api.create_repo(repo, exist_ok=True)
    check("a repository that is there is a conflict", raises(HfHubHTTPError, lambda: api.create_repo(repo)))

    info = api.model_info(repo)
    check("repository info", info.id == repo and len(info.sha) == 40 and "cli/big.bin" in [s.rfilename for s in info.siblings])
    blobs = {s.rfilename: s for s in api.model_info(repo, files_metadata=True).siblings}
    check("info with blobs", blobs["cli/big.bin"].size == 3_000_000 and blobs["cli/big.bin"].lfs.size == 3_000_000)

    uploads(api, repo, work, fetched, server)
    commits(api, repo, fetched, CommitOperationAdd, CommitOperationCopy, CommitOperationDelete)
    refs(api, repo, fetched, RevisionNotFoundError)
    trees(api, repo)
    snapshots(api, repo, work, snapshot_download)
    file_system(repo, work, HfFileSystem)
    check("a missing file", raises(EntryNotFoundError, lambda: fetched("no/such.file")))
    check("a missing revision", raises(RevisionNotFoundError, lambda: fetched("cli/big.bin", revision="nowhere")))
    check("a missing repository", raises(RepositoryNotFoundError, lambda: api.model_info("ann/nothing")))
    other_kinds(api, way, work, fetched)
    rights(api, server, drystone, way, work, fetched, RepositoryNotFoundError, HfHubHTTPError)
    whole(api, way, fetched, RepositoryNotFoundError)


def commands(repo, work):
    """The `hf` command."""
    big, small = work / "big.bin", work / "small.txt"
    big.write_bytes(noise(1, 3_000_000))
    small.write_text("a small file\n")
    hf = Path(sys.executable).parent / "hf"

    def hf_run(*arguments):
        ran = subprocess.run([hf, *map(str, arguments)], capture_output=True, text=True, timeout=600)
        if ran.returncode != 0:
            print(ran.stdout[-1000:], ran.stderr[-3000:])
        return ran.returncode == 0

    check("hf upload of a large file, which makes the repository", hf_run("upload", repo, big, "cli/big.bin"))
    check("hf upload of a small file", hf_run("upload", repo, small, "cli/small.txt"))
    check("hf download", hf_run("download", repo, "cli/big.bin", "cli/small.txt", "--local-dir", work / "down"))
    same = all((work / "down/cli" / f.name).read_bytes() == f.read_bytes() for f in (big, small))
    check("brings the same bytes", same)


def uploads(api, repo, work, fetched, server):
    data = noise(2, 5_000_000)
    before = server.stored_bytes()
    first = api.upload_file(path_or_fileobj=data, path_in_repo="bytes.bin", repo_id=repo, commit_message="bytes\n\nand why")
    check("upload_file of bytes", first.oid == api.model_info(repo).sha and fetched("bytes.bin") == data)
    grown = server.stored_bytes()
    edited = data[:2_000_000] + b"an insertion" + data[2_000_000:]
    api.upload_file(path_or_fileobj=edited, path_in_repo="edited.bin", repo_id=repo)
    check("a modified file is stored by what changed", fetched("edited.bin") == edited and server.stored_bytes() - grown < 600_000,
          f"{grown - before} then {server.stored_bytes() - grown} bytes")
    again = api.upload_file(path_or_fileobj=edited, path_in_repo="edited.bin", repo_id=repo)
    check("the same file again makes no commit", again.oid == api.model_info(repo).sha and len(api.list_repo_commits(repo)) == 5)

    api.upload_file(path_or_fileobj=io.BytesIO(data[:100_000]), path_in_repo="object.bin", repo_id=repo)
    check("upload_file of a file object", fetched("object.bin") == data[:100_000])
    for name, content in [("empty.bin", b""), ("one.bin", b"\0"), ("läng/ümlaut %41.txt", "grün".encode()),
                          ("middle.txt", b"line\n" * 100_000), ("README.md", b"---\nlicense: mit\n---\n# card\n")]:
        api.upload_file(path_or_fileobj=content, path_in_repo=name, repo_id=repo)
        check(f"{name} of {len(content)} bytes", fetched(name) == content)

    folder = work / "folder"
    folder.mkdir()
    for n in range(50):
        file = folder / f"part-{n % 5}" / (f"{n}.txt" if n % 5 == 0 else f"{n}.bin")
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(f"text {n}\n".encode() if n % 5 == 0 else noise(100 + n, 50_000 + n))
    api.upload_folder(folder_path=folder, path_in_repo="folder", repo_id=repo)
    files = [file for file in api.list_repo_files(repo) if file.startswith("folder/")]
    check("upload_folder of 50 files", len(files) == 50)
    check("each as it was", all(fetched(f"folder/{f.relative_to(folder)}") == f.read_bytes() for f in sorted(folder.rglob("*.*"))[:8]))

    pull = api.upload_file(path_or_fileobj=b"proposed", path_in_repo="proposed.txt", repo_id=repo, create_pr=True)
    check("upload_file with create_pr", pull.pr_num == 1 and fetched("proposed.txt", revision="refs/pr/1") == b"proposed")
    check("leaves main alone", "proposed.txt" not in api.list_repo_files(repo))
    pull = api.upload_folder(folder_path=folder, path_in_repo="again", repo_id=repo, create_pr=True)
    check("upload_folder with create_pr", len(api.list_repo_files(repo, revision="refs/pr/2")) > 50)
    reviews(api, repo, fetched)
    ignored(api, repo, work)
    many(api, work)


def reviews(api, repo, fetched):
    opened = list(api.get_repo_discussions(repo, discussion_status="open"))
    check("get_repo_discussions", [one.num for one in opened] == [2, 1] and all(one.is_pull_request for one in opened))
    api.merge_pull_request(repo, 1)
    merged = api.get_discussion_details(repo, 1)
    check("merge_pull_request", fetched("proposed.txt") == b"proposed" and merged.status == "merged"
          and merged.merge_commit_oid == api.model_info(repo).sha)
    api.change_discussion_status(repo, 2, "closed")
    check("change_discussion_status", api.get_discussion_details(repo, 2).status == "closed")


def ignored(api, repo, work):
    folder = work / "ignoring"
    folder.mkdir()
    for name, content in [(".gitignore", b"*.tmp\nscratch/\n"), ("kept.txt", b"1"), ("left.tmp", b"2")]:
        (folder / name).write_bytes(content)
    api.upload_folder(folder_path=folder, path_in_repo="", repo_id=repo, commit_message="with .gitignore")
    files = api.list_repo_files(repo)
    check("a .gitignore keeps files out", "kept.txt" in files and "left.tmp" not in files)


def many(api, work):
    repo = f"ann/many-{work.name}"
    api.create_repo(repo)
    folder = work / "many"
    for n in range(2000):
        file = folder / f"{n % 40:02}" / f"{n}.{'bin' if n % 4 == 0 else 'txt'}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"\0" + noise(n, 300) if n % 4 == 0 else f"file {n}\n".encode() * 10)
    api.upload_folder(folder_path=folder, repo_id=repo)
    listed = {item.path: item.size for item in api.list_repo_tree(repo, recursive=True) if hasattr(item, "size")}
    sent = {str(file.relative_to(folder)): file.stat().st_size for file in folder.rglob("*.*")}
    check("upload_folder of 2,000 files", len(sent) == 2000 and sent.items() <= listed.items(), f"{len(listed)} are there")
    api.delete_repo(repo)


def commits(api, repo, fetched, Add, Copy, Delete):
    big = fetched("cli/big.bin")
    api.create_commit(repo, [Copy("cli/big.bin", "copied.bin"), Copy("cli/small.txt", "copied.txt"), Delete("one.bin")],
                      commit_message="copies")
    check("copies and a deletion in one commit", fetched("copied.bin") == big and fetched("copied.txt") == b"a small file\n")
    check("the deleted file is gone", "one.bin" not in api.list_repo_files(repo))
    api.delete_file("copied.txt", repo)
    api.delete_folder("folder/part-1", repo)
    files = api.list_repo_files(repo)
    check("delete_file and delete_folder", "copied.txt" not in files and not any(f.startswith("folder/part-1") for f in files))
    head = api.model_info(repo).sha
    api.create_commit(repo, [Add("after.txt", b"1")], commit_message="after", parent_commit=head)
    moved = raises(Exception, lambda: api.create_commit(repo, [Add("late.txt", b"1")], commit_message="late", parent_commit=head))
    check("a parent that is not the last commit is refused", moved and "late.txt" not in api.list_repo_files(repo))


def refs(api, repo, fetched, RevisionNotFoundError):
    old = api.model_info(repo).sha
    api.create_branch(repo, branch="feat/x")
    api.create_branch(repo, branch="feat/x", exist_ok=True)
    api.upload_file(path_or_fileobj=noise(7, 200_000), path_in_repo="on-branch.bin", repo_id=repo, revision="feat/x")
    check("a branch with a slash", fetched("on-branch.bin", revision="feat/x") == noise(7, 200_000))
    check("main does not have it", "on-branch.bin" not in api.list_repo_files(repo))
    api.create_tag(repo, tag="v1.0", tag_message="the first")
    api.create_tag(repo, tag="v0", revision=old)
    listed = api.list_repo_refs(repo, include_pull_requests=True)
    check("list_repo_refs", {b.name for b in listed.branches} == {"main", "feat/x"} and {t.name for t in listed.tags} == {"v0", "v1.0"}
          and len(listed.pull_requests) == 2)
    check("a tag names a commit", api.model_info(repo, revision="v0").sha == old)
    api.delete_tag(repo, tag="v0")
    api.delete_branch(repo, branch="feat/x")
    check("a deleted branch", raises(RevisionNotFoundError, lambda: api.model_info(repo, revision="feat/x")))
    past = api.list_repo_commits(repo)
    check("list_repo_commits", past[0].commit_id == api.model_info(repo).sha and past[-1].title == "initial commit"
          and any(c.title == "bytes" and c.message == "and why" for c in past) and past[0].authors == ["admin"])


def trees(api, repo):
    listed = list(api.list_repo_tree(repo, recursive=True, expand=True))
    by_path = {item.path: item for item in listed}
    big = by_path["cli/big.bin"]
    check("list_repo_tree", big.size == 3_000_000 and big.lfs.sha256 == hashlib.sha256(noise(1, 3_000_000)).hexdigest())
    check("with the last commit of each", big.last_commit.title.startswith("Upload") and by_path["after.txt"].last_commit.title == "after")
    names = [item.path for item in api.list_repo_tree(repo, "folder")]
    check("one folder", names == ["folder/part-0", "folder/part-2", "folder/part-3", "folder/part-4"], names)
    infos = api.get_paths_info(repo, ["cli", "cli/big.bin", "nothing"])
    check("get_paths_info", {info.path for info in infos} == {"cli", "cli/big.bin"})


def snapshots(api, repo, work, snapshot_download):
    folder = Path(snapshot_download(repo, local_dir=work / "snapshot"))
    files = {str(f.relative_to(folder)) for f in folder.rglob("*") if f.is_file() and ".cache" not in f.parts}
    check("snapshot_download has every file", files == set(api.list_repo_files(repo)))
    check("as it was", (folder / "cli/big.bin").read_bytes() == noise(1, 3_000_000) and (folder / "empty.bin").read_bytes() == b"")


def file_system(repo, work, HfFileSystem):
    fs = HfFileSystem()
    names = {entry["name"] for entry in fs.ls(repo)}
    check("HfFileSystem ls", f"{repo}/bytes.bin" in names and f"{repo}/folder" in names)
    data = noise(2, 5_000_000)
    with fs.open(f"{repo}/bytes.bin", "rb", block_size=100_000) as file:
        ok = True
        for at, size in [(4_999_990, 100), (0, 10), (1_234_567, 400_000), (2_500_000, 1)]:
            file.seek(at)
            ok = ok and file.read(size) == data[at : at + size]
        check("open, seek and read", ok and file.size == len(data))
    check("a small file", fs.cat(f"{repo}/cli/small.txt") == b"a small file\n")
    with fs.open(f"{repo}/written.bin", "wb") as file:
        file.write(data[:300_000])
    fs.invalidate_cache()
    check("write", fs.cat(f"{repo}/written.bin") == data[:300_000])
    fs.cp(f"{repo}/written.bin", f"{repo}/copied-by-fs.bin")
    fs.invalidate_cache()
    check("cp", fs.cat(f"{repo}/copied-by-fs.bin") == data[:300_000] and fs.info(f"{repo}/copied-by-fs.bin")["size"] == 300_000)
    check("find and du", f"{repo}/folder/part-0/0.txt" in fs.find(f"{repo}/folder") and fs.du(f"{repo}/bytes.bin") == len(data))
    got = work / "by-fs"
    fs.get_file(f"{repo}/bytes.bin", str(got))
    check("get_file", got.read_bytes() == data)
    with fs.open(f"{repo}@refs/pr/2/again/part-0/0.txt", "r") as file:
        check("a text file of another revision", file.read() == "text 0\n")
    fs.rm(f"{repo}/copied-by-fs.bin")
    fs.mv(f"{repo}/written.bin", f"{repo}/moved.bin")
    fs.invalidate_cache()
    check("mv", not fs.exists(f"{repo}/written.bin") and fs.cat(f"{repo}/moved.bin") == data[:300_000])
    fs.rm(f"{repo}/moved.bin")
    fs.invalidate_cache()
    check("rm and exists", not fs.exists(f"{repo}/moved.bin") and fs.glob(f"{repo}/cli/*.txt") == [f"{repo}/cli/small.txt"])


def other_kinds(api, way, work, fetched):
    for kind in ("dataset", "space"):
        name = f"ann/thing-{way}"
        more = {"space_sdk": "static"} if kind == "space" else {}
        url = api.create_repo(name, repo_type=kind, **more)
        api.upload_file(path_or_fileobj=noise(9, 120_000), path_in_repo="a.bin", repo_id=name, repo_type=kind)
        check(f"a {kind}", fetched("a.bin", repo_id=name, repo_type=kind) == noise(9, 120_000) and url.repo_type == kind)
    check("lists", f"ann/thing-{way}" in [d.id for d in api.list_datasets(author="ann")]
          and f"ann/model-{way}" in [m.id for m in api.list_models(search="MODEL")])


def cas_token(drystone, data, scope, repo):
    catalog = ["--catalog", os.environ["DRYSTONE_CATALOG"]] if "DRYSTONE_CATALOG" in os.environ else []
    command = [drystone, "token", "create", "--data", data, *catalog, "--scope", scope, "--repo", repo, "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["token"]


def rights(api, server, drystone, way, work, fetched, RepositoryNotFoundError, HfHubHTTPError):
    from huggingface_hub import HfApi

    secret = f"ann/secret-{way}"
    api.create_repo(secret, private=True)
    data = noise(11, 150_000)
    api.upload_file(path_or_fileobj=data, path_in_repo="a.bin", repo_id=secret)
    check("a private repository is read by those who may", fetched("a.bin", repo_id=secret) == data)
    nobody = HfApi(token=False)
    outsider = HfApi(token=cas_token(drystone, server.data, "write", f"bob/other-{way}"))
    reader = HfApi(token=cas_token(drystone, server.data, "read", secret))
    for who, them in [("a user without a token", nobody), ("a token of another repository", outsider)]:
        check(f"{who} does not see a private one", raises(RepositoryNotFoundError, lambda: them.model_info(secret)))
        check("nor its files", raises(RepositoryNotFoundError, lambda: them.hf_hub_download(secret, "a.bin", cache_dir=work / "none")))
        check("nor in a list", secret not in [m.id for m in them.list_models(author="ann")])
    check("a token for reading reads", reader.model_info(secret).private is True)
    check("and does not write", raises(HfHubHTTPError, lambda: reader.upload_file(path_or_fileobj=b"x", path_in_repo="x", repo_id=secret)))
    check("a wrong token is refused", raises(HfHubHTTPError, lambda: HfApi(token="ds_wrong").whoami()))
    public = f"ann/model-{way}"
    check("a public one is read without a token", nobody.model_info(public).id == public)
    got = Path(nobody.hf_hub_download(public, "cli/big.bin", cache_dir=work / "nobody")).read_bytes()
    check("files too", got == noise(1, 3_000_000))
    check("but not written", raises(Exception, lambda: nobody.upload_file(path_or_fileobj=b"x", path_in_repo="x", repo_id=public)))
    knows_the_hash(server, drystone, way, secret)
    api.update_repo_settings(secret, private=False)
    check("made public", nobody.model_info(secret).private is False)


def fetch_url(url, token, method="GET"):
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"}, method=method)
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.headers
    except urllib.error.HTTPError as error:
        return error.code, error.headers


def knows_the_hash(server, drystone, way, secret):
    """A file hash opens nothing in another repository."""
    own, other = (cas_token(drystone, server.data, "write", repo) for repo in (secret, f"bob/other-{way}"))
    file_hash = fetch_url(f"{server.url}/{secret}/resolve/main/a.bin", server.admin, "HEAD")[1]["X-Xet-Hash"]
    url = f"{server.url}/v2/reconstructions/{file_hash}"
    check("a file's hash opens it with a token of its repository", fetch_url(url, own)[0] == 200)
    check("and not with one of another", fetch_url(url, other)[0] == 404)


def whole(api, way, fetched, RepositoryNotFoundError):
    repo = f"ann/secret-{way}"
    past = len(api.list_repo_commits(repo))
    api.super_squash_history(repo_id=repo)
    check("super-squash keeps the files", past > 1 and len(api.list_repo_commits(repo)) == 1 and fetched("a.bin", repo_id=repo) == noise(11, 150_000))
    api.move_repo(repo, f"ann/moved-{way}")
    check("a moved repository has its files", fetched("a.bin", repo_id=f"ann/moved-{way}") == noise(11, 150_000))
    check("and the old name is free", raises(RepositoryNotFoundError, lambda: api.model_info(repo)))
    api.delete_repo(f"ann/moved-{way}")
    check("a deleted repository is gone", raises(RepositoryNotFoundError, lambda: api.model_info(f"ann/moved-{way}")))
    api.create_repo(f"ann/moved-{way}")
    check("one of its name starts anew", api.list_repo_files(f"ann/moved-{way}") == [".gitattributes"])


def main(drystone, s3d):
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        with folder_place(drystone, folder) as place:
            both_ways(drystone, place, folder / "homes-0")
        if s3d:
            with replicas_place(drystone, s3d, folder / "replicas") as place:
                if place is None:
                    print("skipped: the Hub on a bucket and PostgreSQL: PostgreSQL is not installed")
                else:
                    both_ways(drystone, place, folder / "homes-1")
    check.finish("hub")


def both_ways(drystone, place, homes):
    for way in ("xet", "lfs"):
        print(f"== {place.name}, {way}", flush=True)
        env = {**client_environment(place, homes / way), **{k: v for k, v in place.variables.items() if k.startswith(("AWS_", "DRYSTONE_"))}}
        if way == "lfs":
            env["HF_HUB_DISABLE_XET"] = "1"
        run_child([__file__, "child", drystone, place.url, place.servers[0].data, place.objects], env)
    show_logs(place)


if __name__ == "__main__":
    if sys.argv[1] == "child":
        _, _, drystone, url, data, objects = sys.argv
        server = Server(url, data, objects, os.environ["HF_TOKEN"])
        child(lambda work: run_all(server, drystone, work))
    else:
        main(os.path.abspath(sys.argv[1]), *([os.path.abspath(path) for path in sys.argv[2:3]] or [None]))
