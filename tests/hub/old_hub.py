"""Older pairs of huggingface_hub and hf_xet work against `drystone serve`.

usage: old_hub.py DRYSTONE FOLDER...

Each FOLDER has one pair, as `pip install --target` puts it there. Uploads a file, a folder and, by upload_large_folder, a
large folder; downloads each; then again without XET. Ends with a line `old_hub: N passed, M failed`.
"""

import io
import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from harness import check, child, client_environment, folder_place, noise, raises, run_child, show_logs


def run(pair, work):
    import hf_xet  # noqa: F401, the pair's own
    import huggingface_hub
    from huggingface_hub import HfApi, HfFileSystem, hf_hub_download, snapshot_download
    from huggingface_hub.errors import EntryNotFoundError, RepositoryNotFoundError

    way = "lfs" if os.environ.get("HF_HUB_DISABLE_XET") else "xet"
    check.place = f"{Path(pair).name}, {way}"
    check("the pair is the one to be tested", Path(pair).name.endswith(huggingface_hub.__version__), huggingface_hub.__version__)
    api = HfApi()
    repo = f"ann/{Path(pair).name.replace('.', '-')}-{way}"
    api.create_repo(repo, private=True)
    data = noise(1, 2_000_000)

    def fetched(path, **more):
        return Path(hf_hub_download(repo, path, cache_dir=work / "cache", **more)).read_bytes()

    api.upload_file(path_or_fileobj=data, path_in_repo="a.bin", repo_id=repo)
    check("upload_file", fetched("a.bin") == data)
    edited = data[:500_000] + b"an insertion" + data[500_000:]
    api.upload_file(path_or_fileobj=io.BytesIO(edited), path_in_repo="b.bin", repo_id=repo)
    check("a file object", fetched("b.bin") == edited)
    folder = work / "folder"
    for n in range(60):
        file = folder / f"{n % 3}" / (f"{n}.bin" if n % 2 else f"{n}.txt")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(noise(n, 20_000 + n) if n % 2 else f"text {n}".encode())
    files = [file.relative_to(folder) for file in folder.rglob("*.*")]
    api.upload_folder(folder_path=folder, path_in_repo="folder", repo_id=repo)
    if way == "xet":  # its workers wait for each other: once is enough
        api.upload_large_folder(repo_id=repo, folder_path=folder, repo_type="model", print_report=False, num_workers=2)
    copy = Path(snapshot_download(repo, cache_dir=work / "snapshots"))
    check("upload_folder, then snapshot_download", all((copy / "folder" / file).read_bytes() == (folder / file).read_bytes() for file in files))
    check("upload_large_folder", way != "xet" or len(files) == 60 and all((copy / file).read_bytes() == (folder / file).read_bytes() for file in files))
    pull = api.upload_file(path_or_fileobj=b"new", path_in_repo="new.txt", repo_id=repo, create_pr=True)
    api.merge_pull_request(repo, pull.pr_num)
    check("create_pr and merge_pull_request", fetched("new.txt", force_download=True) == b"new")
    with HfFileSystem().open(f"{repo}/a.bin", block_size=50_000) as file:
        file.seek(1_999_990)
        check("HfFileSystem", file.read(100) == data[-10:])
    check("a missing file", raises(EntryNotFoundError, lambda: fetched("none")))
    check("a private repository", raises(RepositoryNotFoundError, lambda: HfApi(token=False).model_info(repo)))


def main(drystone, pairs):
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        with folder_place(drystone, folder) as place:
            for pair in pairs:
                for way in ("xet", "lfs"):
                    env = client_environment(place, folder / f"home-{Path(pair).name}-{way}")
                    env["PYTHONPATH"] = pair
                    if way == "lfs":
                        env["HF_HUB_DISABLE_XET"] = "1"
                    run_child([__file__, "child", pair], env)
            show_logs(place)
    check("there are pairs to test", bool(pairs))
    check.finish("old_hub")


if __name__ == "__main__":
    if sys.argv[1] == "child":
        child(lambda work: run(sys.argv[2], work))
    else:
        main(os.path.abspath(sys.argv[1]), [os.path.abspath(pair) for pair in sys.argv[2:]])
