"""Places of computation, and the transfer of rows to them.

Kernels run where their arrays are. A place says where to put arrays first: by default the
processor, or, for a function that takes arrays, the place of the arrays.
"""

from __future__ import annotations

import re
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from hopfed.errors import ArgumentError
from hopfed.kernels.dispatch import on_device

if TYPE_CHECKING:
    from hopfed.kernels.bits import Rows

RULE = "cpu, cuda or cuda:N, N the number of a device"
_DLPACK_CUDA = 2  # kDLCUDA of dlpack.h


def adopt_array(x: Any) -> Any:
    """Return a CUDA array of another library as CuPy's, in place, not copied; others unchanged."""
    if on_device(x) or not (getattr(x, "is_cuda", False) or hasattr(x, "__cuda_array_interface__")):
        return x
    x = x.detach() if hasattr(x, "detach") else x
    kind, ordinal = x.__dlpack_device__()
    return Place(int(ordinal)).open().xp.from_dlpack(x) if int(kind) == _DLPACK_CUDA else x


@dataclass(frozen=True)
class Place:
    """The processor, or a CUDA device."""

    ordinal: int | None = None  # number of the device; None is the processor

    def __str__(self) -> str:
        return "cpu" if self.ordinal is None else f"cuda:{self.ordinal}"

    def open(self) -> Any:
        """Return the device, or None for the processor."""
        if self.ordinal is None:
            return None
        from hopfed.kernels.cuda import device

        return device.cuda(self.ordinal)

    def current(self) -> AbstractContextManager[Any]:
        """Context in which new arrays of the device's library are made on it."""
        device = self.open()
        return nullcontext() if device is None else device.current()

    def put(self, rows: Rows) -> Rows:
        """Return packed rows at this place, copied if they are elsewhere."""
        here = rows.home.device.id if on_device(rows) else None
        if here == self.ordinal:
            return rows
        words: Any = rows.signs, rows.seen
        if here is not None:
            with Place(here).current():
                words = tuple(None if plane is None else plane.get() for plane in words)
        if self.ordinal is not None:
            xp = self.open().xp
            words = tuple(None if plane is None else xp.asarray(plane) for plane in words)
        return replace(rows, signs=words[0], seen=words[1])


def place_named(word: str, name: str = "device") -> Place:
    """Return the place of computation that `word` names: "cpu", "cuda" (the first) or "cuda:N"."""
    if word == "cpu":
        return Place()
    found = re.fullmatch("cuda(?::([0-9]{1,3}))?", str(word))
    if found is None:
        raise ArgumentError(name, RULE, word)
    return Place(int(found[1] or 0))
