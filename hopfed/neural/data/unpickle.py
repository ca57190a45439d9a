"""Safe reader of CIFAR's pickles, which runs no code from the file.

A pickle names the functions that it calls. The official archives name four: three that rebuild a
NumPy array, and the codec of byte strings. This module replaces these four by functions that can
only make arrays of numbers, and refuses all other names. It does not use NumPy's own unpickling.
"""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np

from hopfed._lib.memory_limits import require_memory
from hopfed.errors import DataError, shown
from hopfed.tables.files import opened, size_of

_NUMBERS = frozenset(f"{kind}{size}" for kind in "iuf" for size in (1, 2, 4, 8)) - {"f1"}

_PER_BYTE = 64  # bytes of memory per byte of a file that holds only the shortest opcodes


def read_pickle(path: str | Path) -> dict[str, Any]:
    """Return the dictionary pickled in `path`: texts, numbers, lists and arrays of numbers.

    Raises
    ------
    DataError : the file is missing or truncated, holds no dictionary, or names another function.
    """
    with opened(path) as file:
        require_memory(_PER_BYTE * size_of(file), str(path))
        try:  # read from memory, so that a false length in the file cannot allocate more
            value = _Unpickler(io.BytesIO(file.read()), encoding="latin-1").load()
            if not isinstance(value, dict):
                raise pickle.UnpicklingError("it is no dictionary")
            return {k: v.numbers if isinstance(v, _Array) else v for k, v in value.items()}
        except Exception as error:  # a broken pickle can raise anything
            reason = (str(error) or type(error).__name__).splitlines()[0]
            raise DataError(f"{path}: not a pickle of this dataset: {shown(reason)}") from None


class _Dtype:
    """Stands in for ``numpy.dtype``: a kind of number and its byte order."""

    def __init__(self, code: str, *_: object) -> None:
        if code not in _NUMBERS:
            raise pickle.UnpicklingError(f"arrays of {code} are refused")
        self.code = code
        self.order = "|"

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.order = str(state[1])


class _Array:
    """Stands in for ``numpy.ndarray``: takes its numbers from the state in the pickle."""

    def __init__(self, *_: object) -> None:
        self.numbers = np.empty(0)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, dtype, fortran, data = state
        raw = data.encode("latin-1") if isinstance(data, str) else data
        numbers = np.frombuffer(raw, dtype=np.dtype(dtype.order + dtype.code))
        self.numbers = numbers.reshape(shape, order="F" if fortran else "C")


def _encode(characters: str, _: str) -> bytes:
    """Stands in for ``codecs.encode``, with which Python 3 pickles byte strings."""
    return characters.encode("latin-1")


_ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
    ("numpy", "ndarray"): "ndarray",  # only ever an argument of _reconstruct
    ("numpy", "dtype"): _Dtype,
    ("_codecs", "encode"): _encode,
}


_Python: Any = pickle._Unpickler


class _Unpickler(_Python):
    """Unpickler in Python; the one in C allocates as many places as a number in the file asks."""

    def find_class(self, module: str, name: str) -> Any:
        """Return the harmless stand-in of an allowed name."""
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"it names {module}.{name}, which is refused")
        return _ALLOWED[module, name]

    def load_setitem(self) -> None:
        """Set an item of a dictionary; keys must be names, since hashing others could crash."""
        self._check_keys([self.stack[-2]])
        super().load_setitem()

    def load_setitems(self) -> None:
        """Set several items."""
        self._check_keys(self.stack[::2])
        super().load_setitems()

    def _check_keys(self, keys: list[Any]) -> None:
        if not all(isinstance(key, (str, bytes)) for key in keys):
            raise pickle.UnpicklingError("a key of a dictionary is no name")

    def _refuse(self) -> None:
        raise pickle.UnpicklingError("an opcode that these archives do not have")

    dispatch = _Python.dispatch | {
        pickle.SETITEM[0]: load_setitem,
        pickle.SETITEMS[0]: load_setitems,
    }
    # These opcodes hash arbitrary objects (sets, dictionaries) or create instances of classes.
    dispatch |= dict.fromkeys(
        (code[0] for code in (pickle.DICT, pickle.ADDITEMS, pickle.FROZENSET, pickle.INST)),
        _refuse,
    )
