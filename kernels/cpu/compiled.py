"""How the loops of this package are compiled: without the GIL, cached, and no more than needed."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from pathlib import Path
from types import CellType, FunctionType
from typing import Any

from numba import njit


def _digest_of_sources() -> str:
    """Digest of this package and the one above, whose constants and generator the loops use."""
    digest = hashlib.sha256()
    for folder in Path(__file__).parents[:2]:
        for path in sorted(folder.glob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()


SOURCES = _digest_of_sources()


# A division that may raise makes every array counted where it is passed: three times the time.
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
INNER = OPTIONS | {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def kernel(function: Callable) -> Any:
    """Compile a loop that is called from Python, and keep the machine code on disk."""
    # Numba renews what it keeps when the file of the function changes, but not when a function that
    # it calls does, in another file. Its key does contain the closure of the function, so a digest
    # of all sources that they may use is put there.
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
    except RuntimeError:  # there is no folder that takes the machine code
        return njit(**OPTIONS)(loop)


def inner(function: Callable) -> Any:
    """Compile a loop that only other compiled loops call: no wrappers, no file of its own."""
    return njit(**INNER)(function)


def inlined(function: Callable) -> Any:
    """As `inner`, merged into its callers: arrays are costly to pass, eight words or more each."""
    return njit(forceinline=True, **INNER)(function)
