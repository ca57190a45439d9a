"""HDF5 files are opened here, to be read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# No lock, as files are replaced and never changed. Who has the file open in this process has chosen
# before us, and the library wants the same choice again: that of h5py, or locks in any case.
_LOCKINGS = (False, None, True)


@contextmanager
def opened(path: str | Path) -> Iterator[Any]:
    """Open an HDF5 file for reading, also while this process has it open by itself."""
    with _file(path) as file:
        yield file


def _file(path: str | Path) -> Any:
    import h5py

    *first, last = _LOCKINGS
    for locking in first:
        try:
            return h5py.File(path, "r", locking=locking)
        except OSError as error:
            if "flag values don't match" not in str(error):
                raise
    return h5py.File(path, "r", locking=last)
