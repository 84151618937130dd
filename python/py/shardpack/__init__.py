"""Datasets in packs, read by record.

>>> import shardpack
>>> dataset = shardpack.open("dataset-train-000000.shardpack")
>>> for record in dataset.records():
...     for entry in record.file_entries():
...         print(record.key, entry.name, entry.content_type, len(entry.data))
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Optional, Union

from drystone._native import Client as _Client
from drystone._native import Dataset, Entry, Record, Writer

from .errors import CorruptError, InvalidError, NotFoundError, PackError, TooLargeError
from .train import IterableDataset, Sampler

__all__ = [
    "CorruptError", "Dataset", "Entry", "InvalidError", "IterableDataset", "NotFoundError", "PackError", "Record", "Sampler",
    "TooLargeError", "Writer", "open",
]

_Path = Union[str, "os.PathLike[str]"]


def open(
    path: Union[_Path, Iterable[_Path]],
    *,
    verify: Union[str, bool] = "crc",
    on_error: str = "raise",
    mmap: bool = False,
    recover: bool = False,
    entry_bytes_max: int = 1 << 30,
    client: Optional[_Client] = None,
) -> Dataset:
    """Opens a dataset: a pack, a pattern, a folder, or several of them.

    >>> dataset = shardpack.open("train-{000000..000007}.shardpack")
    >>> dataset[123].key
    'images17/image194'

    path: a file, a folder of packs, a catalogue, or a text with braces and wildcards; or a list of those. Packs in a hub are
        "drystone://datasets/NAMESPACE/NAME[@REVISION]/PATH", with braces, or a folder of them.
    verify: what is compared with its CRC: "crc" is everything, "header" all but contents, "off" nothing. True and False are
        "crc" and "off".
    on_error: what happens to a damaged record: "raise"; "skip" leaves it out; "refetch" reads it once more, then raises.
    mmap: maps the files into memory, which is faster and makes `Entry.view` a view of the file itself. For files that nobody
        cuts while they are read: reading a map of a file that was cut ends the process.
    recover: of a pack whose end is missing or damaged, looks for records one by one.
    entry_bytes_max: content of more bytes is not decompressed.
    client: the `drystone.Client` for packs in a hub; else one with the settings of the environment.
    """
    paths = [os.fspath(one) for one in ([path] if isinstance(path, (str, os.PathLike)) else path)]
    if client is None and any(one.startswith("drystone://") for one in paths):
        import drystone

        client = drystone.Client()
    if isinstance(verify, bool):
        verify = "crc" if verify else "off"
    return Dataset(
        paths,
        verify=verify,
        on_error=on_error,
        mmap=mmap,
        recover=recover,
        entry_bytes_max=entry_bytes_max,
        client=client,
    )
