"""Hubs as a file system of fsspec: `drystone://[datasets/]NAMESPACE/NAME[@REVISION]/PATH`.

pandas, pyarrow and datasets find it by its name once the wheel is installed.

>>> pandas.read_parquet("drystone://datasets/ann/words/train.parquet", storage_options={"endpoint": "https://hub.example.com"})
"""

from __future__ import annotations

from typing import Any, Optional

from fsspec.spec import AbstractFileSystem

from . import Client
from .file import open_file

_OPTIONS = ("cache_dir", "cache_bytes", "offline", "memory_bytes", "token_in_clear", "proxy", "ca_files", "bandwidth")
_KINDS = ("datasets", "models", "spaces")


class DrystoneFileSystem(AbstractFileSystem):
    """The repositories of a hub. Options are those of `drystone.Client`."""

    protocol = "drystone"
    root_marker = ""

    def __init__(self, endpoint: Optional[str] = None, token: Optional[str] = None, client: Optional[Client] = None, **options: Any) -> None:
        ours = {name: options.pop(name) for name in _OPTIONS if name in options}
        super().__init__(**options)
        self.client = client or Client(endpoint, token, **ours)

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        path = str(path)
        return path.removeprefix("drystone://").strip("/")

    def info(self, path: str, **options: Any) -> dict[str, Any]:
        repo, inner = _split(self._strip_protocol(path))
        if not inner:
            # Asked, so that a repository that is not there is none.
            self.client.ls(repo)
            return {"name": repo, "size": 0, "type": "directory"}
        return _entry(repo, self.client.info(f"{repo}:{inner}"))

    def ls(self, path: str, detail: bool = True, **options: Any) -> Any:
        repo, inner = _split(self._strip_protocol(path))
        if inner:
            found = self.info(path)
            if found["type"] == "file":
                return [found] if detail else [found["name"]]
        entries = [_entry(repo, entry) for entry in self.client.ls(f"{repo}:{inner}" if inner else repo)]
        return entries if detail else [entry["name"] for entry in entries]

    def _open(self, path: str, mode: str = "rb", block_size: Optional[int] = None, **options: Any) -> Any:
        if mode != "rb":
            raise NotImplementedError("files of a repository are put there as a whole: use put_file, or drystone.push")
        ahead = {} if block_size in (None, "default") else {"read_ahead_bytes": int(block_size)}
        return open_file(self.client.file(_place(path)), "rb", **ahead)

    def cat_file(self, path: str, start: Optional[int] = None, end: Optional[int] = None, **options: Any) -> bytes:
        file = self.client.file(_place(self._strip_protocol(path)))

        def bound(position: Optional[int], default: int) -> int:
            position = default if position is None else position
            return max(position + file.size, 0) if position < 0 else min(position, file.size)

        return file.read_range(bound(start, 0), bound(end, file.size))

    def get_file(self, rpath: str, lpath: Any, callback: Any = None, **options: Any) -> None:
        if self.isdir(rpath):
            return super().get_file(rpath, lpath, **options)
        summary = self.client.pull(_place(self._strip_protocol(rpath)), lpath)
        _raise(summary["failed"])

    def put_file(self, lpath: Any, rpath: str, callback: Any = None, **options: Any) -> None:
        _raise(self.client.push(lpath, _place(self._strip_protocol(rpath)))["failed"])

    def _rm(self, path: str) -> None:
        self.client.rm(_place(self._strip_protocol(path)))

    def rm(self, path: Any, recursive: bool = False, maxdepth: Optional[int] = None) -> None:
        for one in path if isinstance(path, list) else [path]:
            self.client.rm(_place(self._strip_protocol(one)), recursive=recursive)

    def created(self, path: str) -> Any:
        raise NotImplementedError("a hub does not tell when a file was made")

    modified = created

    def ukey(self, path: str) -> str:
        found = self.info(path)
        return f"{found['name']} {found.get('sha256') or found['size']}"


def _split(path: str) -> tuple[str, str]:
    """The repository with its revision, and the path in it."""
    names = path.split("/")
    count = 3 if names[0] in _KINDS else 2
    if len(names) < count:
        raise FileNotFoundError(f"{path!r} names no repository: NAMESPACE/NAME, datasets/NAMESPACE/NAME or spaces/NAMESPACE/NAME")
    return "/".join(names[:count]), "/".join(names[count:])


def _place(path: str) -> str:
    repo, inner = _split(path)
    return f"{repo}:{inner}"


def _entry(repo: str, entry: dict[str, Any]) -> dict[str, Any]:
    return {"name": f"{repo}/{entry['path']}", "size": entry["size"], "type": entry["type"], "sha256": entry["sha256"]}


def _raise(failed: list[str]) -> None:
    if failed:
        raise OSError("; ".join(failed))
