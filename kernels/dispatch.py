"""Dispatch by the location of an array; `TABLE` lists the functions with CPU and CUDA versions.

Rows with gaps are two planes of bits, so these functions take the words of both, or None for the
second; arguments were checked by the public functions.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from importlib import import_module
from typing import Any

import numpy as np

from hopfed.errors import ArgumentError, BackendError

TABLE = {  # function -> the module of `cpu` and of `cuda` that has it
    "pack": "bits",
    "unpack": "bits",
    "transpose": "bits",
    "count_columns": "bits",
    "inner_products": "gram",
    "product": "products",
    "run_chains": "heatbath",
    "run_layers": "layered",
}


def on_device(x: Any) -> bool:
    """For dispatch: whether an array, or packed rows, are on a CUDA device, real or emulated."""
    x = getattr(x, "home", x)
    kind = type(x)  # the usual one first: a name takes longer
    return kind is not np.ndarray and (kind.__module__.startswith("cupy") or hasattr(x, "emulated"))


def array_library(x: Any) -> Any:
    """For dispatch: NumPy, or the library for arrays on the device of `x`."""
    if not on_device(x):
        return np
    from hopfed.kernels.cuda.device import device_of

    return device_of("x", getattr(x, "home", x)).xp


def find_kernel(x: Any, name: str) -> Callable[..., Any]:
    """Dispatch: return the function `name` of TABLE for the host or device of `x`."""
    return _function(name, on_device(x))


@cache
def _function(name: str, there: bool) -> Callable[..., Any]:
    home = import_module(f"hopfed.kernels.{'cuda' if there else 'cpu'}.{TABLE[name]}")
    return _within_memory(getattr(home, name)) if there else getattr(home, name)


def check_beside(name: str, x: Any, other: Any) -> Any:
    """For dispatch, return `x` as an array, checked to be on the host or device of `other`."""
    if on_device(other):
        from hopfed.kernels.cuda.device import device_of

        device, found = device_of("x", getattr(other, "home", other)), device_of(name, x)
        if found is not device:
            rule = f"on device {device.ordinal} like the arguments before it"
            raise ArgumentError(name, rule, f"an array on device {found.ordinal}")
        return x
    if on_device(x):
        raise ArgumentError(name, "on the host, as the first argument is", "a device")
    return np.asarray(x)


def _within_memory(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        try:
            return function(*args, **options)
        except MemoryError as error:  # CuPy's out-of-memory error is a MemoryError
            rule = "use fewer rows or columns, or another device"
            fault = f"out of device memory in {function.__name__}: {rule} ({error})"
            raise BackendError(fault) from None

    return call
