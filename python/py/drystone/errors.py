"""What goes wrong with a hub, by what to do next."""

from __future__ import annotations

from typing import Optional


class DrystoneError(Exception):
    """A failure. `request_id` is what the hub's log calls the request; `retry_after` is the wait before a retry, in seconds."""

    request_id: Optional[str] = None
    retry_after: Optional[float] = None


class CorruptError(DrystoneError):
    """Bytes are not what their hash says. Fetch them again."""


class DeniedError(DrystoneError, PermissionError):
    """Not allowed. Use another token, or ask who may give one."""


class InvalidError(DrystoneError, ValueError):
    """The call is wrong. Change it; the same again will not help."""


class NotFoundError(DrystoneError, FileNotFoundError):
    """There is no such repository, revision or file; or it is none of yours."""


class TransferError(DrystoneError, OSError):
    """This machine failed to read or write. Trying again may help."""


class UnavailableError(DrystoneError, ConnectionError):
    """The hub does not answer, or is too busy. Try again later."""
