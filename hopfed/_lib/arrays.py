"""Arrays of NumPy, CuPy and torch: which library one belongs to, and how it comes to the host.

Functions of hopfed take arrays of NumPy, CuPy or torch and answer in kind. This module is the one
place that knows how to find the namespace of an array and how to bring it to the host.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import Any

import numpy as np

from hopfed.errors import ArgumentError


@cache
def _blas() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()  # finding the libraries takes milliseconds: once


class _Limits:
    """Limits that threads of this process have set; the one that was set last holds for all.

    BLAS knows one number for the process. It gets its own back when no limit is left, whatever the
    order in which threads leave.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[object, int] = {}  # in the order in which they were set
        self._now = 0
        self._first: Any = None

    @contextmanager
    def at(self, limit: int) -> Iterator[None]:
        mine = object()
        with self._lock:
            if not self._held:
                self._first, self._now = self._set(limit), limit
            self._held[mine] = limit
            self._follow()
        try:
            yield
        finally:
            with self._lock:
                del self._held[mine]
                self._follow()

    def _follow(self) -> None:
        if not self._held:
            self._first.restore_original_limits()
            return
        last = next(reversed(self._held.values()))
        if last != self._now:  # setting takes long
            self._set(last)
            self._now = last

    @staticmethod
    def _set(limit: int) -> Any:
        return _blas().limit(limits=limit, user_api="blas")


_limits = _Limits()


def blas_threads(limit: int | None) -> Any:
    """Return a context in which BLAS uses at most `limit` threads; None sets no limit."""
    return _limits.at(limit) if limit else nullcontext()


Array = Any  # an array of NumPy, CuPy or torch; the array API has no runtime type of its own


def is_torch(x: object) -> bool:
    """Tell whether `x` is a torch tensor, without importing torch."""
    return type(x).__module__.partition(".")[0] == "torch"


def namespace(*arrays: Array) -> Any:
    """Return the array-API namespace of `arrays`; an error when they are of different libraries."""
    if all(type(a) is np.ndarray for a in arrays) and arrays:
        return _of_numpy()  # finding it takes longer than many a sum
    from array_api_compat import array_namespace

    try:
        return array_namespace(*arrays)
    except TypeError:
        kinds = ", ".join(sorted({type(a).__module__.partition(".")[0] for a in arrays}))
        raise ArgumentError("arrays", "all of one array library", kinds) from None


@cache
def _of_numpy() -> Any:
    import array_api_compat.numpy

    return array_api_compat.numpy


def to_host(x: Array) -> np.ndarray:
    """Return `x` as a NumPy array, copied from its device when it lives on one."""
    if type(x) is np.ndarray:
        return x
    if hasattr(x, "get"):  # CuPy's way
        return x.get()
    if is_torch(x):
        return x.detach().cpu().numpy()
    return np.asarray(x)


def all_to_host(*arrays: Array) -> tuple[np.ndarray, ...]:
    """Return arrays of one device as NumPy arrays, in one copy; those of the host as they are."""
    if not hasattr(arrays[0], "get"):
        return tuple(to_host(x) for x in arrays)
    xp = namespace(*arrays)
    order = sorted(range(len(arrays)), key=lambda i: -arrays[i].itemsize)  # so that all are aligned
    parts = [xp.reshape(arrays[i], (-1,)).view(xp.uint8) for i in order]
    held, found, start = to_host(xp.concat(parts)), {}, 0
    for i in order:
        part = held[start : start + arrays[i].nbytes]
        found[i] = part.view(arrays[i].dtype).reshape(arrays[i].shape)
        start += arrays[i].nbytes
    return tuple(found[i] for i in range(len(arrays)))


def like(x: np.ndarray, other: Array) -> Array:
    """Return host array `x` in the library and on the device of `other`: itself on the host."""
    if type(other) is np.ndarray:
        return np.asarray(x)
    from array_api_compat import device

    return namespace(other).asarray(x, device=device(other))
