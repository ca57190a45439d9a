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
from hopfed.errors import DataError, shown

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
    """Return the arrays in `data`, uint8, as views of it; of a header of so many bytes at most."""
    head = data[:_START].tobytes()
    size = int.from_bytes(head[len(_MAGIC) :], "little")
    if len(head) < _START or not head.startswith(_MAGIC):
        raise DataError("not packed arrays of hopfed")
    if size > len(data) - _START or (header is not None and size > header):
        raise DataError("packed arrays whose header is damaged or too long")
    found: dict[str, np.ndarray] = {}
    try:
        at = _START + size
        for name, kind, shape in json.loads(data[_START:at].tobytes()):
            whole = all(type(n) is int and n >= 0 for n in shape) and len(shape) <= _AXES
            if not (whole and _KIND.fullmatch(kind)) or type(name) is not str or name in found:
                raise ValueError(f"an entry {name!r:.80} that is none, or there twice")
            dtype = np.dtype(kind)
            size = math.prod(shape) * dtype.itemsize
            largest = math.prod(n or 1 for n in shape) * dtype.itemsize
            if not 0 < largest <= _LARGEST or at + size > len(data):
                raise ValueError(f"an end within {name!r:.80}")
            found[name] = data[at : at + size].view(dtype).reshape(shape)
            at += size + len(_padding(size))
    except (ValueError, TypeError, RecursionError) as error:
        raise DataError(f"packed arrays that are damaged: {shown(error, 120)}") from None
    return found


def _padding(size: int) -> bytes:
    return bytes(-size % _ALIGN)
