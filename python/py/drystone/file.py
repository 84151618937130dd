"""File objects over files in a hub."""

from __future__ import annotations

import io
from typing import IO, Any, Optional

from ._native import RemoteFile


def open_file(file: RemoteFile, mode: str = "rb", *, read_ahead_bytes: int = 8 << 20, encoding: Optional[str] = None, errors: Optional[str] = None) -> IO[Any]:
    """A file object for reading: bytes with "rb", text with "r"."""
    check_mode(mode)
    buffered = io.BufferedReader(ReadAhead(file, read_ahead_bytes), _BUFFER_BYTES)
    return buffered if mode == "rb" else io.TextIOWrapper(buffered, encoding=encoding or "utf-8", errors=errors)


def check_mode(mode: str) -> None:
    if mode not in ("r", "rb", "rt"):
        raise ValueError(f"mode should be 'r' or 'rb', found {mode!r}; files are put into a repository by push")


class ReadAhead(io.RawIOBase):
    """A file in a hub, a window of it in memory. The window grows while it is read from front to back, so that large files come in
    few requests; after a jump it is small again, so that a record here and there costs little more than its bytes."""

    def __init__(self, file: RemoteFile, read_ahead_bytes: int) -> None:
        self.name = file.name
        self._file = file
        self._position = 0
        self._window = b""
        self._window_at = 0
        self._ahead = _AHEAD_BYTES_MIN
        self._ahead_max = max(read_ahead_bytes, _AHEAD_BYTES_MIN)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._file.size}[whence]
        if base + offset < 0:
            raise ValueError(f"position {base + offset} is before the beginning")
        self._position = base + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def readinto(self, buffer: Any) -> int:
        if self.closed:
            raise ValueError("the file is closed")
        if self._position >= self._file.size or len(buffer) == 0:
            return 0
        end = self._window_at + len(self._window)
        if not self._window_at <= self._position < end:
            goes_on = self._position == end and end > 0
            self._ahead = min(self._ahead * 2, self._ahead_max) if goes_on else _AHEAD_BYTES_MIN
            wanted = max(len(buffer), self._ahead)
            self._window = self._file.read_range(self._position, self._position + wanted)
            self._window_at = self._position
        start = self._position - self._window_at
        part = memoryview(self._window)[start : start + len(buffer)]
        buffer[: len(part)] = part
        self._position += len(part)
        return len(part)

    def close(self) -> None:
        self._window = b""
        super().close()


_BUFFER_BYTES = 64 << 10
_AHEAD_BYTES_MIN = 128 << 10
