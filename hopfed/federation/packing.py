"""Dicts of arrays as one run of bytes: a header in JSON, then the arrays as they lie in memory.

No pickle, so nothing in the bytes can be executed, and no library's file format, so a state of ten
arrays costs one write.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from hopfed._lib.arrays import to_host
from hopfed.errors import DataError

_MAGIC = b"hopfed-1"
_ALIGN = 64  # bytes, so that an array read back can be used where it lies
_START = len(_MAGIC) + 8  # the magic and the length of the header
_KIND = re.compile(r"[<>|][biufcSUV][0-9]{1,8}")  # a NumPy type of plain numbers, letters or bytes
_AXES = 32
_LARGEST = 1 << 60  # bytes that a shape may speak of, axes of length 0 left out

Chunk = bytes | memoryview


def chunks(arrays: Mapping[str, Any]) -> list[Chunk]:
    """Return the bytes of `arrays` in pieces, which are not copied."""
    entries: list[tuple[str, str, list[int]]] = []
    bodies: list[Chunk] = []
    for name, value in arrays.items():
        array = np.asarray(to_host(value))
        if array.dtype.hasobject:
            raise DataError(f"{name}: arrays of {array.dtype} cannot be kept in a file")
        entries.append((name, array.dtype.str, list(array.shape)))
        flat = np.ascontiguousarray(array).reshape(-1)
        bodies += [flat.view(np.uint8).data, _padding(array.nbytes)]
    header = json.dumps(entries).encode()
    header += b" " * (-(_START + len(header)) % _ALIGN)
    return [_MAGIC, len(header).to_bytes(8, "little"), header, *bodies]


def pack(arrays: Mapping[str, Any]) -> np.ndarray:
    """Return the bytes of `arrays` as one array of uint8."""
    return np.frombuffer(b"".join(chunks(arrays)), dtype=np.uint8)


def unpack(data: np.ndarray, header: int | None = None) -> dict[str, np.ndarray]:
    """Return the arrays in `data`, uint8, as views of it."""
    found: dict[str, np.ndarray] = {}
    entries, at = _entries(data, header)
    for entry in entries:
        name, kind, shape = _entry(entry)
        if name in found:
            raise DataError(f"packed arrays that hold {name!r:.80} twice")
        dtype = _dtype(kind)
        size = math.prod(shape) * dtype.itemsize
        if math.prod(n or 1 for n in shape) * dtype.itemsize > _LARGEST or at + size > len(data):
            raise DataError(f"packed arrays that end within {name!r:.80}")
        try:
            found[name] = data[at : at + size].view(dtype).reshape(shape)
        except (TypeError, ValueError):  # a type of no bytes
            raise DataError(f"packed arrays of type {kind}") from None
        at += size + len(_padding(size))
    return found


def _entries(data: np.ndarray, most: int | None) -> tuple[list[Any], int]:
    """What the header lists, and where it ends."""
    head = data[:_START].tobytes()
    if len(head) < _START or not head.startswith(_MAGIC):
        raise DataError("not packed arrays of hopfed")
    size = int.from_bytes(head[len(_MAGIC) :], "little")
    if size > len(data) - _START or (most is not None and size > most):
        raise DataError("packed arrays whose header is damaged or too long")
    try:
        entries = json.loads(data[_START : _START + size].tobytes())
    except (ValueError, RecursionError):
        entries = None
    if not isinstance(entries, list):
        raise DataError("packed arrays whose header is damaged")
    return entries, _START + size


def _entry(entry: Any) -> tuple[str, str, list[int]]:
    """Name, type and shape, checked before anything is made of them."""
    if isinstance(entry, list) and len(entry) == 3:
        name, kind, shape = entry
        plain = isinstance(name, str) and isinstance(kind, str) and isinstance(shape, list)
        if plain and len(shape) <= _AXES and all(type(n) is int and n >= 0 for n in shape):
            return name, kind, shape
    raise DataError("packed arrays with an entry that is none")


def _dtype(kind: str) -> np.dtype[Any]:
    try:
        if _KIND.fullmatch(kind):
            return np.dtype(kind)
    except (TypeError, ValueError):  # float7
        pass
    raise DataError(f"packed arrays of type {kind!r:.40}")


def _padding(size: int) -> bytes:
    return bytes(-size % _ALIGN)
