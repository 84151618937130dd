"""What goes wrong with packs. Files that are missing or cannot be read are Python's own OSError and its kinds."""

from __future__ import annotations

from typing import Optional


class PackError(Exception):
    """A failure to read or write a pack. It says where, as far as that is known."""

    pack: Optional[str] = None
    key: Optional[str] = None
    entry: Optional[str] = None
    offset: Optional[int] = None
    ordinal: Optional[int] = None


class CorruptError(PackError):
    """The pack is damaged. Run `shardpack verify`, then `repair`; other records can be read."""


class InvalidError(PackError, ValueError):
    """The call is wrong. Change it; the same again will not help."""


class NotFoundError(PackError, LookupError):
    """There is no such record or entry."""


class TooLargeError(PackError):
    """A limit was reached. Raise it, or leave the record out."""
