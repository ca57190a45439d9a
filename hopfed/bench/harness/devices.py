"""Devices on which ways run: the CPU, and a CUDA device if CuPy finds one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from hopfed.bench.harness.record import Data
from hopfed.errors import BackendError
from hopfed.kernels.place import Place, place


@dataclass(frozen=True)
class Device:
    """A device and its array library."""

    name: str  # "cpu" or "cuda"
    xp: ModuleType  # NumPy or CuPy
    synchronise: Callable[[], Any]  # waits until the device has finished all work
    there: Any = None  # as the kernels see it, `hopfed.kernels.cuda.device.Cuda`

    def put(self, data: Data) -> dict[str, Any]:
        """Move the arrays of `data` to the device, and add the array library as "xp"."""
        arrays = {k: self.xp.asarray(v) for k, v in data.items() if isinstance(v, np.ndarray)}
        return {**data, **arrays, "xp": self.xp}


CPU = Device("cpu", np, lambda: None)


def of(there: Any) -> Device:
    """Return a CUDA device that the kernels know as `there`."""
    return Device("cuda", there.xp, there.synchronize, there)


def gpu() -> tuple[bool, str]:
    """Tell whether there is a CUDA device, and its name or the reason why there is none."""
    try:
        return True, Place(0).open().name
    except BackendError as error:
        return False, str(error)


def named(word: str) -> Device:
    """Return the device that `--device` names: "cpu" or "cuda:N".

    Raises
    ------
    BackendError : it is not there.
    """
    there = place(word).open()
    return CPU if there is None else of(there)
