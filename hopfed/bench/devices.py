"""Where ways are run: the CPU, and a CUDA device if CuPy finds one."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from hopfed.bench.record import Data


@dataclass(frozen=True)
class Device:
    """A device and the array library that speaks for it.

    Attributes
    ----------
    name : "cpu" or "cuda".
    xp : NumPy or CuPy.
    synchronise : returns when the device has done all it was asked to.
    """

    name: str
    xp: ModuleType
    synchronise: Callable[[], Any]

    def put(self, data: Data) -> dict[str, Any]:
        """Move the arrays of `data` here; they find the library under the name "xp"."""
        moved = {k: self.xp.asarray(v) if _is_array(v) else v for k, v in data.items()}
        return {**moved, "xp": self.xp}


def _is_array(value: object) -> bool:
    return isinstance(value, np.ndarray)


CPU = Device("cpu", np, lambda: None)


def cuda() -> tuple[Device | None, str]:
    """Return the CUDA device and its name, or None and what is missing."""
    if importlib.util.find_spec("cupy") is None:
        return None, "CuPy is not installed"
    import cupy

    try:
        if cupy.cuda.runtime.getDeviceCount() == 0:
            return None, f"CuPy {cupy.__version__} finds no CUDA device"
        name = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return None, f"CuPy {cupy.__version__} finds no CUDA device ({error})"
    return Device("cuda", cupy, cupy.cuda.Device(0).synchronize), name
