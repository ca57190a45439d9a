"""Devices on which ways run: the CPU, and a CUDA device if CuPy finds one."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import numpy as np

from hopfed.bench.harness.record import Data
from hopfed.errors import BackendError
from hopfed.kernels.place import place


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


def cuda(ordinal: int = 0) -> tuple[Device | None, str]:
    """Return a CUDA device and its name, or None and the reason why there is none."""
    if importlib.util.find_spec("cupy") is None:
        return None, "CuPy is not installed"
    import cupy

    try:
        if cupy.cuda.runtime.getDeviceCount() <= ordinal:
            return None, f"CuPy {cupy.__version__} finds no CUDA device {ordinal}"
        name = cupy.cuda.runtime.getDeviceProperties(ordinal)["name"].decode()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return None, f"CuPy {cupy.__version__} finds no CUDA device ({error})"
    return Device("cuda", cupy, cupy.cuda.Device(ordinal).synchronize), name


def named(word: str) -> Device:
    """Return the device that `--device` names: "cpu" or "cuda:N".

    Raises
    ------
    BackendError : it is not there.
    """
    ordinal = place(word).ordinal
    if ordinal is None:
        return CPU
    device, why = cuda(ordinal)
    if device is None:
        raise BackendError(f"device {word}: {why}")
    return replace(device, there=place(word).open())
