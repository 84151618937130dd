"""Files in a Drystone hub, or any hub that speaks its protocol.

>>> import drystone
>>> drystone.push("model/", "ann/model", create=True)
>>> drystone.pull("ann/model", "copy/")
>>> with drystone.open("ann/model", "model.safetensors") as file:
...     header = file.read(8)

Which hub and which token: the arguments, else DRYSTONE_ENDPOINT and DRYSTONE_TOKEN, else HF_ENDPOINT and HF_TOKEN, else the
configuration file of the `drystone` command.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import IO, Any, Optional, Union

from . import _native
from ._native import RemoteFile
from .errors import CorruptError, DeniedError, DrystoneError, InvalidError, NotFoundError, TransferError, UnavailableError
from .file import check_mode, open_file

__all__ = [
    "Client", "CorruptError", "DeniedError", "DrystoneError", "InvalidError", "NotFoundError", "RemoteFile", "TransferError",
    "UnavailableError", "open", "pull", "push",
]

_Path = Union[str, "os.PathLike[str]"]


class Client(_native.Client):
    """A hub and the account used there. It can be pickled and used after a fork; both make new connections.

    endpoint: such as "https://hub.example.com".
    token: a personal token; without one, what is public.
    cache_dir: where fetched chunks are kept and looked for first; else DRYSTONE_CACHE_DIR, else nowhere.
    cache_bytes: the most it may hold.
    offline: whether everything is read from there and no request is sent.
    memory_bytes: the most that all transfers of a call may hold in memory.
    token_in_clear: whether the token may go over plain HTTP to another machine.
    proxy: for every request; else what HTTPS_PROXY and NO_PROXY say.
    ca_files: certificates (PEM) to trust besides the system's.
    bandwidth: the most bytes to send, and to receive, each second.
    """

    def __new__(cls, endpoint: Optional[str] = None, token: Optional[str] = None, *, cache_dir: Optional[_Path] = None, **options: Any) -> Client:
        cache_dir = cache_dir or os.environ.get("DRYSTONE_CACHE_DIR") or None
        return super().__new__(cls, endpoint, token, cache_dir=cache_dir, **options)

    def push(self, paths: Union[_Path, Iterable[_Path]], to: str, **options: Any) -> dict[str, Any]:
        """Puts files into a repository: `to` is NAMESPACE/NAME, datasets/..., with @BRANCH and :PATH where wanted.

        What is in a folder goes below the path, a single file gets it as its name. Files that the repository has are not sent.

        message: what the commit says.
        create, private: make the repository or the branch if it is missing; and show it to its owners only.
        include, exclude: patterns of names.
        dry_run: change nothing.
        progress: called about ten times a second with a dict of counters: total_bytes, done_bytes, wire_bytes and others.

        Returns a dict: commit, files, unchanged, failed (messages), logical_bytes, new_bytes, sent_bytes.
        """
        return super().push(_paths(paths), to, **options)

    def open(self, repo: str, path: str, mode: str = "rb", *, revision: Optional[str] = None, **options: Any) -> IO[Any]:
        """A file of a repository as a file object; see `drystone.open`."""
        check_mode(mode)
        place = f"{repo}@{revision}:{path}" if revision else f"{repo}:{path}"
        return open_file(self.file(place), mode, **options)


def push(paths: Union[_Path, Iterable[_Path]], to: str, *, client: Optional[Client] = None, **options: Any) -> dict[str, Any]:
    """Puts files into a repository; see `Client.push`."""
    return (client or Client()).push(paths, to, **options)


def pull(place: str, to: _Path, *, client: Optional[Client] = None, **options: Any) -> dict[str, Any]:
    """Pulls REPO[@REVISION][:PATH] to `to`. Files that exist already are not fetched again, and what an earlier try left half
    done is gone on with. Every file is verified before it gets its name.

    include, exclude: patterns of names.
    progress: called about ten times a second with a dict of counters.

    Returns a dict: commit, files, unchanged, failed (messages), bytes.
    """
    return (client or Client()).pull(place, to, **options)


def open(
    repo: str,
    path: str,
    mode: str = "rb",
    *,
    revision: Optional[str] = None,
    client: Optional[Client] = None,
    **options: Any,
) -> IO[Any]:
    """A file of a repository as a file object that can seek. What is read stays that of the commit it was opened at.

    >>> with drystone.open("datasets/ann/words", "words.txt", "r") as file:
    ...     first = file.readline()

    mode: "rb", or "r" for text.
    read_ahead_bytes: the most that is fetched at once when it is read from front to back. Reads here and there fetch little.
    """
    return (client or Client()).open(repo, path, mode, revision=revision, **options)


def _paths(paths: Union[_Path, Iterable[_Path]]) -> list[str]:
    return [os.fspath(paths)] if isinstance(paths, (str, os.PathLike)) else [os.fspath(path) for path in paths]
