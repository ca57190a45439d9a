"""Tables in zarr: a folder of chunks, read without running or trusting anything in it.

Metadata of a few bytes can name an array of any size, codecs that unpack to more than they say or
that run code (pickle), and chunks can be links and pipes. So a folder of other things than files is
refused, and what it holds is read in a child process (`hopfed._lib.guarded_reading`), in bounded
time and memory.
"""

from __future__ import annotations

import math
import os
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hopfed._lib.guarded_reading import COPIES, in_child_process, raise_limits
from hopfed._lib.memory_limits import require_memory
from hopfed.data.files import pieces, reading
from hopfed.data.hdf5 import check_stated, pick
from hopfed.errors import BackendError, DataError


class Chunks:
    """The table of a zarr folder: the first of `preferred` that it has, or its only one.

    Parameters
    ----------
    path : of the folder.
    preferred : names of arrays.

    Attributes
    ----------
    shape : of the table.
    rows : that are stored together.

    Raises
    ------
    BackendError : zarr is not installed.
    DataError : one line: no such folder, links or pipes in it, no table of numbers, or several.

    Examples
    --------
    >>> Chunks(Path("lost.zarr"), ("examples",))
    Traceback (most recent call last):
        ...
    hopfed.errors.DataError: lost.zarr: no such file
    """

    def __init__(self, path: Path, preferred: tuple[str, ...]):
        if not path.exists():
            raise DataError(f"{path}: no such file")
        try:
            import zarr  # noqa: F401  (loaded here, where it is read may be too late)
        except ImportError:
            raise BackendError("zarr is not installed: pip install 'hopfed[table]'") from None
        self.path, self.preferred = path, preferred
        with self._reading():
            self.size = _files(path)
            with closing(in_child_process(self._shape, self.size)) as parts:
                self.shape, self.rows = next(parts)

    def parts(self, entries: int, start: int = 0, stop: int | None = None) -> Iterator[np.ndarray]:
        """Yield arrays (rows, ...) of about so many entries, whole chunks of rows.

        Parameters
        ----------
        entries : of an array.
        start, stop : rows that are read: all, when left out.
        """
        work = partial(self._rows, entries, start, self.shape[0] if stop is None else stop)
        return pieces(in_child_process(work, self.size), self._reading)

    def _reading(self) -> Any:
        return reading(self.path, "cannot be read as zarr")

    def _shape(self) -> Iterator[tuple[tuple[int, ...], int]]:
        with self._table() as table:
            yield tuple(table.shape), int(table.chunks[0]) if table.chunks else 1

    def _rows(self, entries: int, first: int, last: int) -> Iterator[np.ndarray]:
        with self._table() as table:
            chunk, item = table.chunks, table.dtype.itemsize
            width = math.prod(table.shape[1:])
            rows = max(entries // max(chunk[0] * width, 1), 1) * chunk[0]
            rows = min(rows, table.shape[0])
            needed = item * (COPIES * rows * width + math.prod(chunk))
            require_memory(needed, str(self.path))
            raise_limits(needed + item * math.prod(table.shape))
            for start in range(first, last, max(rows, 1)):
                yield np.asarray(table[start : min(start + rows, last)])

    @contextmanager
    def _table(self) -> Iterator[Any]:
        """Open the array; with the codec gone that runs what it reads."""
        from numcodecs.registry import codec_registry

        pickle = codec_registry.pop("pickle", None)
        try:
            with self._reading():
                held = _open(self.path)
                if not hasattr(held, "shape"):
                    names = [name for name, array in held.arrays() if array.ndim > 1]
                    held = held[pick(self.path, names, self.preferred)]
                if held.dtype.kind not in "biuf":
                    raise DataError(f"{self.path}: examples must be numbers, got {held.dtype}")
                check_stated(held, self.size)
                yield held
        finally:
            if pickle is not None:
                codec_registry["pickle"] = pickle


def _open(path: Path) -> Any:
    import zarr

    try:
        return zarr.open(str(path), mode="r")
    except FileNotFoundError:
        raise ValueError("there is no array in it") from None


def _files(path: Path) -> int:
    """Bytes of all files of a folder, which holds nothing but files and folders."""
    if not path.is_dir():
        raise ValueError("it is no folder")
    total = 0
    for folder, folders, files in os.walk(path):
        for name in (*folders, *files):
            held = os.lstat(os.path.join(folder, name))
            if not (stat.S_ISREG(held.st_mode) or stat.S_ISDIR(held.st_mode)):
                raise ValueError("it holds links, pipes or devices")
            total += held.st_size
    return total
