"""One public function per operation: arrays on a device go to the CUDA twin of the same name."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

_DEVICE = ("cupy", "hopfed.kernels.cuda")  # homes of device arrays, packed and emulated ones too


def on_device(x: object) -> bool:
    """Tell whether `x` lives on a CUDA device (or on the emulated one of the tests)."""
    return type(x).__module__.startswith(_DEVICE)


def with_twin(module: str) -> Callable[[F], F]:
    """Decorate a CPU function: a first argument on a device calls the twin in `cuda.module`.

    A list or tuple counts as what its first element is.
    """

    def decorate(function: F) -> F:
        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            first = args[0] if args else next(iter(kwargs.values()), None)
            if isinstance(first, list | tuple) and first:
                first = first[0]
            if not on_device(first):
                return function(*args, **kwargs)
            twin = getattr(import_module(f"hopfed.kernels.cuda.{module}"), function.__name__)
            return twin(*args, **kwargs)

        return call  # type: ignore[return-value]

    return decorate
