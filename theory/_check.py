"""Validation shared by `hopfed.theory`: turn an argument into a float64 array or raise an error."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from hopfed.errors import ArgumentError

PLACE = "a number, or infinite"
FITS = "of shapes that broadcast"
Checker: TypeAlias = Callable[[str, ArrayLike], np.ndarray]


def real(
    name: str,
    value: ArrayLike,
    rule: str = "a finite number",
    holds: Callable[[np.ndarray], np.ndarray] | None = None,
) -> np.ndarray:
    """Check an argument of theory: float64 array of `value`, whose elements all keep `rule`."""
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ArgumentError(name, rule, repr(value)) from None
    good = np.isfinite(array) if rule != PLACE else ~np.isnan(array)
    if holds is not None:
        # A comparison with NaN is already False; only the warning needs to be silenced.
        with np.errstate(invalid="ignore"):
            good = good & holds(array)
    if not good.all():
        raise ArgumentError(name, rule, array[~good].flat[0])
    return array


def checker(rule: str, holds: Callable[[np.ndarray], np.ndarray] | None = None) -> Checker:
    """Return a function of a name and a value that checks this rule."""
    return lambda name, value: real(name, value, rule, holds)


place = checker(PLACE)  # infinite numbers are the ends of the line
positive = checker("a finite number above 0", lambda a: a > 0)
nonnegative = checker("a finite number of at least 0", lambda a: a >= 0)
probability = checker("a number in (0, 1)", lambda a: (a > 0) & (a < 1))
fraction = checker("a number in (0, 1]", lambda a: (a > 0) & (a <= 1))
share = checker("a number in [0, 1]", lambda a: (a >= 0) & (a <= 1))
below_one = checker("a number in [0, 1)", lambda a: (a >= 0) & (a < 1))
count = checker("a whole number of at least 1", lambda a: (a >= 1) & (a == np.floor(a)))


def together(**arguments: ArrayLike) -> None:
    """Raise ArgumentError unless the shapes of the arguments broadcast together."""
    shapes = [np.shape(value) for value in arguments.values()]
    try:
        np.broadcast_shapes(*shapes)
    except ValueError:
        got = ", ".join(map(str, shapes))
        raise ArgumentError(", ".join(arguments), FITS, got) from None


def guard(module: str) -> None:
    """Wrap a module's public functions: shapes that do not broadcast raise ArgumentError."""
    names = vars(sys.modules[module])
    for name, thing in list(names.items()):
        own = inspect.isfunction(thing) and thing.__module__ == module
        if own and not name.startswith("_"):
            names[name] = _guarded(thing)


def _guarded(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def guarded(*args: Any, **more: Any) -> Any:
        try:
            return function(*args, **more)
        except ValueError as error:
            if "broadcast" not in str(error):
                raise
            given = inspect.signature(function).bind(*args, **more).arguments
            together(**{k: v for k, v in given.items() if isinstance(v, list | tuple | np.ndarray)})
            raise

    return guarded


def scalar(name: str, value: ArrayLike, check: Checker) -> float:
    """Return the single number `value` after `check`; an array is an error."""
    array = check(name, value)
    if array.ndim != 0:
        raise ArgumentError(name, "a single number", f"an array of shape {array.shape}")
    return float(array)


def one_of(name: str, value: int, allowed: tuple[int, ...]) -> int:
    """Return `value` if it is one of `allowed`."""
    if value not in allowed:
        raise ArgumentError(name, f"one of {allowed}", repr(value))
    return value


def generator(rng: object) -> np.random.Generator:
    """Return `rng` if it is a NumPy Generator, or raise ArgumentError."""
    if not isinstance(rng, np.random.Generator):
        raise ArgumentError("rng", "a numpy.random.Generator", repr(rng))
    return rng
