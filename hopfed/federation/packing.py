"""Dicts of arrays as one run of bytes: a header in JSON, then the arrays as they lie in memory.

No pickle, so nothing in the bytes can be executed, and no library's file format, so a state of ten
arrays costs one write.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from hopfed.arrays import to_host
from hopfed.errors import DataError

_MAGIC = b"hopfed-1"
_ALIGN = 64  # bytes, so that an array read back can be used where it lies
_START = len(_MAGIC) + 8  # the magic and the length of the header

Chunk = bytes | memoryview


def chunks(arrays: Mapping[str, Any]) -> list[Chunk]:
    """Return the bytes of `arrays` in pieces, which are not copied.

    Parameters
    ----------
    arrays : name -> array or scalar, of booleans, numbers or bytes.
    """
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
    """Return the bytes of `arrays` as one array of uint8.

    Examples
    --------
    >>> unpack(pack({"w": np.ones((1, 2), np.float32), "t": 3}))
    {'w': array([[1., 1.]], dtype=float32), 't': array(3)}
    """
    return np.frombuffer(b"".join(chunks(arrays)), dtype=np.uint8)


def unpack(data: np.ndarray) -> dict[str, np.ndarray]:
    """Return the arrays in `data`, uint8, as views of it.

    Raises
    ------
    DataError : `data` is not what `pack` makes, or is not all of it.
    """
    head = data[:_START].tobytes()
    if len(head) < _START or not head.startswith(_MAGIC):
        raise DataError("not packed arrays of hopfed")
    at = _START + int.from_bytes(head[len(_MAGIC) :], "little")
    try:
        entries = json.loads(data[_START:at].tobytes())
    except ValueError:
        raise DataError("packed arrays whose header is damaged") from None
    found = {}
    for name, kind, shape in entries:
        dtype = np.dtype(kind)
        size = math.prod(shape) * dtype.itemsize
        if size < 0 or at + size > len(data):
            raise DataError(f"packed arrays that end within {name}")
        found[name] = data[at : at + size].view(dtype).reshape(shape)
        at += size + len(_padding(size))
    return found


def _padding(size: int) -> bytes:
    return bytes(-size % _ALIGN)
