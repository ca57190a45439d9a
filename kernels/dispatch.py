"""One function per operation; rows with gaps, and devices, have twins: `DEVICE` is their table.

Rows with gaps (`hopfed.kernels.masked`) are two planes of bits; their twins are made of operations
on planes, which are sent on to a device where the planes are there.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import wraps
from importlib import import_module
from typing import Any, TypeVar

import numpy as np

from hopfed.errors import ArgumentError, BackendError

F = TypeVar("F", bound=Callable[..., Any])
Kind = TypeVar("Kind", bound=type)

DEVICE = {  # module of `hopfed.kernels.cuda` -> what it does with arrays of a device
    "bits": ("pack", "unpack", "transpose", "column_sums"),
    "gram": ("gram", "cross_gram", "second_moment"),
    "heatbath": ("run_chains",),
    "layered": ("run_layers",),
    "planes": ("pack_planes", "unpack_planes", "inner_products", "product", "totals"),
    "products": ("matmat", "rmatmat"),
    "shuffle": ("flipped", "permuted"),
}
_MODULE = {name: module for module, names in DEVICE.items() for name in names}
_HOMES = ("cupy", "hopfed.kernels.cuda")  # homes of device arrays and of packed ones
_GAPS = "hopfed.kernels.masked"  # home of rows with gaps, and of the twins that take them
_HERE: set[type] = {np.ndarray, bool, int, float, str, type(None)}  # on the host, without gaps


def on_device(x: object) -> bool:
    """Tell whether `x` lives on a CUDA device, or on an emulated one, which it names."""
    return type(x).__module__.startswith(_HOMES) or hasattr(x, "emulated")


def has_gaps(x: object) -> bool:
    """Tell whether `x` is a `MaskedBits`, without importing what compiles them."""
    return type(x).__module__ == _GAPS


def on_host(kind: Kind) -> Kind:
    """Decorate a class whose own instances, not those of its subclasses, have no twin."""
    _HERE.add(kind)
    return kind


def library(x: object) -> Any:
    """NumPy, or what takes its place for arrays of the device of `x`."""
    if not on_device(x):
        return np
    from hopfed.kernels.cuda.device import device_of

    return device_of("x", x).xp


def with_twin(function: F) -> F:
    """Decorate a CPU function: a first argument on a device calls its twin there, see `DEVICE`.

    Any argument with gaps calls the twin in `masked`, where there is one. A list or tuple counts as
    what its elements are. The function raises ArgumentError when a later argument is on a device
    and the first is not, BackendError when the device is out of memory.
    """
    names = tuple(inspect.signature(function).parameters)
    module = f"hopfed.kernels.cuda.{_MODULE[function.__name__]}"

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not kwargs and all(type(x) in _HERE for x in args):
            return function(*args)
        given = [*zip(names, args, strict=False), *kwargs.items()]
        if any(has_gaps(x) for _, value in given for x in _parts(value)):
            twin = getattr(import_module(_GAPS), function.__name__, None)
            if twin is not None:
                return twin(*args, **kwargs)
        if given and any(on_device(x) for x in _parts(given[0][1])):
            return _within_memory(getattr(import_module(module), function.__name__), args, kwargs)
        for name, value in given[1:]:
            if any(on_device(x) for x in _parts(value)):
                raise ArgumentError(name, "on the host, as the first argument is", "a device")
        return function(*args, **kwargs)

    return call  # type: ignore[return-value]


def _parts(x: Any) -> Iterator[Any]:
    return iter(x) if isinstance(x, list | tuple) else iter((x,))


def _within_memory(twin: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    try:
        return twin(*args, **kwargs)
    except MemoryError as error:  # what CuPy raises is one, and not only for its own tiles
        rule = "use fewer rows or columns, or another device"
        raise BackendError(f"out of device memory in {twin.__name__}: {rule} ({error})") from None
