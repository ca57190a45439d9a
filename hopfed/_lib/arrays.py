"""Arrays of NumPy, CuPy and torch: the namespace of an array, and copies to the host."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

from hopfed.errors import ArgumentError


@cache
def _blas() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()  # cached, since finding the libraries takes milliseconds


_lock = threading.Lock()
_limits: dict[object, int] = {}  # limits set by threads of this process, in order
_now: int | None = None  # current limit of BLAS
_own: Any = None  # restores BLAS's own number of threads


def _follow() -> None:
    """Set BLAS to the limit that was set last, or restore its own number if none is left."""
    global _now, _own
    last = next(reversed(_limits.values()), None)
    if last is None:
        _own.restore_original_limits()
    elif last != _now:  # setting the limit is slow
        made = _blas().limit(limits=last, user_api="blas")
        _own = made if _now is None else _own
    _now = last


@contextmanager
def blas_threads(limit: int | None) -> Iterator[None]:
    """Let BLAS use at most `limit` threads for arrays in this context; None sets no limit."""
    if not limit:
        yield
        return
    mine = object()
    with _lock:
        _limits[mine] = limit
        _follow()
    try:
        yield
    finally:
        with _lock:
            del _limits[mine]
            _follow()


Array = Any  # an array of NumPy, CuPy or torch; the array API has no runtime type


def is_torch(x: object) -> bool:
    """Whether `x` is an array of torch, a tensor, without importing torch."""
    return type(x).__module__.partition(".")[0] == "torch"


def namespace(*arrays: Array) -> Any:
    """Return the array-API namespace of `arrays` of one library: NumPy, CuPy or torch."""
    if all(type(a) is np.ndarray for a in arrays) and arrays:
        import array_api_compat.numpy as xp  # a general look-up would take longer than many sums

        return xp
    from array_api_compat import array_namespace

    try:
        return array_namespace(*arrays)
    except TypeError:
        kinds = ", ".join(sorted({type(a).__module__.partition(".")[0] for a in arrays}))
        raise ArgumentError("arrays", "all of one array library", kinds) from None


def to_host(x: Array) -> np.ndarray:
    """Return an array `x` of any library as a NumPy array, copied from its device if on one."""
    if type(x) is np.ndarray:
        return x
    if hasattr(x, "get"):  # CuPy's way
        return x.get()
    if is_torch(x):
        return x.detach().cpu().numpy()
    return np.asarray(x)


def all_to_host(*arrays: Array) -> tuple[np.ndarray, ...]:
    """Return arrays of one device as NumPy arrays, in one copy; host arrays are unchanged."""
    if not hasattr(arrays[0], "get"):
        return tuple(to_host(x) for x in arrays)
    xp = namespace(*arrays)
    order = sorted(range(len(arrays)), key=lambda i: -arrays[i].itemsize)  # for alignment
    parts = [xp.reshape(arrays[i], (-1,)).view(xp.uint8) for i in order]
    held, found, start = to_host(xp.concat(parts)), {}, 0
    for i in order:
        part = held[start : start + arrays[i].nbytes]
        found[i] = part.view(arrays[i].dtype).reshape(arrays[i].shape)
        start += arrays[i].nbytes
    return tuple(found[i] for i in range(len(arrays)))


def like(x: np.ndarray, other: Array) -> Array:
    """Return host array `x` as an array of the library, and on the device, of array `other`."""
    if type(other) is np.ndarray:
        return np.asarray(x)
    from array_api_compat import device

    return namespace(other).asarray(x, device=device(other))
