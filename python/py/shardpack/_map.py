"""Files mapped by Python, whose views live as long as anyone holds them."""

from __future__ import annotations

import mmap


def view_of(path: str) -> memoryview:
    with open(path, "rb") as file:
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
