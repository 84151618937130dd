"""Contents as Python objects, by content type.

    application/json                        what json.loads gives
    application/x-npy                       a numpy array, without a copy where the pack is mapped
    application/x-npz                       the arrays by name
    application/msgpack                     what msgpack gives, where it is installed
    text/*                                  str
    image/jpeg, image/png, image/webp, ...  a PIL.Image, where Pillow is installed
    anything else                           bytes

`decoders[content_type] = function` adds to these or replaces them; the function gets the entry. A type such as "text/*" stands
for all that have no entry of their own.
"""

from __future__ import annotations

import io
import json
from typing import Any, Callable

from drystone._native import Entry, content_type_of

__all__ = ["content_type_of", "decode", "decoders", "encode", "to_numpy"]


def decode(entry: Entry) -> Any:
    """The content as what its type says it is."""
    content_type = entry.content_type
    found = decoders.get(content_type) or decoders.get(content_type.partition("/")[0] + "/*")
    return found(entry) if found else entry.data


def to_numpy(entry: Entry) -> Any:
    """An array over the content: of the type and shape that an .npy file states, of bytes otherwise.

    Nothing is copied from a mapped pack, unless the content is compressed or the array is one of Python objects, which is refused.
    """
    import numpy

    view = entry.view
    if entry.content_type != "application/x-npy":
        return numpy.frombuffer(view, dtype=numpy.uint8)
    head = io.BytesIO(bytes(view[:_NPY_HEAD_BYTES]))
    version = numpy.lib.format.read_magic(head)
    read = numpy.lib.format.read_array_header_1_0 if version == (1, 0) else numpy.lib.format.read_array_header_2_0
    if version not in ((1, 0), (2, 0)):
        return numpy.load(io.BytesIO(entry.data), allow_pickle=False)
    shape, fortran_order, dtype = read(head)
    if dtype.hasobject:
        raise ValueError(f"entry {entry.name!r} is an array of Python objects, which would run code when it is read")
    array = numpy.frombuffer(view[head.tell():], dtype=dtype)
    return array.reshape(shape, order="F" if fortran_order else "C")


def encode(name: str, content_type: str, value: Any) -> bytes:
    """The bytes of a value that is written to a pack under a name and a type."""
    if content_type == "application/x-npy" or hasattr(value, "__array_interface__"):
        import numpy

        if content_type != "application/x-npy":
            raise TypeError(f"entry {name!r} is an array, and its type is {content_type}; call it .npy, or give its bytes")
        out = io.BytesIO()
        numpy.save(out, numpy.asarray(value), allow_pickle=False)
        return out.getvalue()
    if content_type == "application/json":
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    if content_type.startswith("text/") and isinstance(value, (int, float)):
        return str(value).encode()
    raise TypeError(f"entry {name!r} of type {content_type} needs bytes or text, found {type(value).__name__}")


def _json(entry: Entry) -> Any:
    return json.loads(entry.data)


def _npz(entry: Entry) -> Any:
    import numpy

    with numpy.load(io.BytesIO(entry.data), allow_pickle=False) as arrays:
        return dict(arrays)


def _msgpack(entry: Entry) -> Any:
    try:
        import msgpack
    except ImportError:
        return entry.data
    return msgpack.unpackb(entry.data)


def _text(entry: Entry) -> Any:
    return entry.data.decode()


def _image(entry: Entry) -> Any:
    try:
        import PIL.Image
    except ImportError:
        return entry.data
    image = PIL.Image.open(io.BytesIO(entry.data))
    image.load()
    return image


decoders: dict[str, Callable[[Entry], Any]] = {
    "application/json": _json,
    "application/msgpack": _msgpack,
    "application/x-npy": to_numpy,
    "application/x-npz": _npz,
    "image/*": _image,
    # Pictures that Pillow does not know.
    "image/svg+xml": _text,
    "image/x-exr": lambda entry: entry.data,
    "text/*": _text,
}

# Longer headers are refused by numpy itself by default.
_NPY_HEAD_BYTES = 16 << 10
