"""Compilation of the loops of this package: without the GIL, cached, with minimal wrappers."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from pathlib import Path
from types import CellType, FunctionType
from typing import Any

from numba import njit


def _digest_of_sources() -> str:
    """Digest of the sources of this package and its parent, whose code the loops use."""
    digest = hashlib.sha256()
    for folder in Path(__file__).parents[:2]:
        for path in sorted(folder.glob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()


SOURCES = _digest_of_sources()


# With Python's error model, divisions force reference counts of passed arrays: three times slower.
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
INNER = OPTIONS | {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def compile_kernel(function: Callable) -> Any:
    """Compile a CPU loop that is called from Python, and keep the machine code on disk."""
    # Numba recompiles when the file of the function changes, but not when a function it calls in
    # another file does. Its cache key includes the closure of the function, so a digest of all
    # sources is put there.
    code = function.__code__
    if code.co_freevars:
        raise TypeError(f"{function.__name__} may not have a closure of its own")
    stamped = FunctionType(
        code.replace(co_freevars=("sources",)),
        function.__globals__,
        function.__name__,
        function.__defaults__,
        (CellType(SOURCES),),
    )
    loop = functools.update_wrapper(stamped, function)
    try:
        return njit(cache=True, **OPTIONS)(loop)
    except RuntimeError:  # no folder is writable for the machine code
        return njit(**OPTIONS)(loop)


def compile_inner(function: Callable) -> Any:
    """Compile a CPU loop that only other compiled loops call: without wrappers or a cache file."""
    return njit(**INNER)(function)


def compile_inlined(function: Callable) -> Any:
    """As `compile_inner`, but inlined: an array argument takes eight words or more."""
    return njit(forceinline=True, **INNER)(function)
