"""The pickles of CIFAR, read without running anything they may hold.

A pickle names the functions it calls. The official archives name four: the three that rebuild a
NumPy array, and the codec of byte strings. Any other name is refused, and these four are replaced
by stand-ins that can only make arrays of numbers; NumPy's own unpickling is not used.
"""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np

from hopfed._lib.memory_limits import require_memory
from hopfed.data.files import opened, size_of
from hopfed.errors import DataError

_NUMBERS = frozenset(f"{kind}{size}" for kind in "iuf" for size in (1, 2, 4, 8)) - {"f1"}

_PER_BYTE = 64  # bytes of what the shortest opcodes leave, for each of the file


def read_pickle(path: str | Path) -> dict[str, Any]:
    """Return the dictionary pickled in `path`: texts, numbers, lists and arrays of numbers.

    Raises
    ------
    DataError : not there, truncated, not a dictionary, or naming any other function.
    """
    with opened(path) as file:
        require_memory(_PER_BYTE * size_of(file), str(path))
        try:  # from memory: a length in the file cannot ask for more than there is
            value = _Unpickler(io.BytesIO(file.read()), encoding="latin-1").load()
            if not isinstance(value, dict):
                raise pickle.UnpicklingError("it is no dictionary")
            return {k: v.numbers if isinstance(v, _Array) else v for k, v in value.items()}
        except Exception as error:  # a broken pickle can raise anything
            reason = (str(error) or type(error).__name__).splitlines()[0]
            raise DataError(f"{path}: not a pickle of this dataset: {reason}") from None


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
    """Stands in for ``numpy.ndarray``: filled from the state the pickle holds."""

    def __init__(self, *_: object) -> None:
        self.numbers = np.empty(0)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, dtype, fortran, data = state
        raw = data.encode("latin-1") if isinstance(data, str) else data
        numbers = np.frombuffer(raw, dtype=np.dtype(dtype.order + dtype.code))
        self.numbers = numbers.reshape(shape, order="F" if fortran else "C")


def _encode(characters: str, _: str) -> bytes:
    """Stands in for ``codecs.encode``: Python 3 pickles byte strings so."""
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
    """Python's own: the one in C sets aside as many places as a number in the file says."""

    def find_class(self, module: str, name: str) -> Any:
        """Return the harmless stand-in of an allowed name."""
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"it names {module}.{name}, which is refused")
        return _ALLOWED[module, name]

    def load_setitem(self) -> None:
        """Set an item of a dictionary, whose keys are names here: hashing can be made to crash."""
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
    # Sets and other dictionaries hash what they are given; persistent names need a hook.
    dispatch |= dict.fromkeys(
        (code[0] for code in (pickle.DICT, pickle.ADDITEMS, pickle.FROZENSET, pickle.INST)),
        _refuse,
    )
