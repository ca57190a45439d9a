"""Tables in partitions, which Dask's workers read where they are: arrays, frames, many files, zarr.

One table, whose partitions are read apart: each is a task, that gives packed bits. Where columns
hold words a first reading says what is in them, a line for each column of each partition, and
here it is decided how all of them are coded; the second reading packs. Numbers are read once.
"""

from __future__ import annotations

import math
import os
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from hopfed import kernels
from hopfed._lib.cluster import dask_itself
from hopfed.errors import DataError
from hopfed.kernels import Rows
from hopfed.spectral.partitions import Partitioned
from hopfed.tables import arrays
from hopfed.tables.choosing import Decider
from hopfed.tables.coding import Coding
from hopfed.tables.examples import NotBinaryError, packed
from hopfed.tables.files import files_of, reading
from hopfed.tables.formats import source_of
from hopfed.tables.held import Looked
from hopfed.tables.options import Choices
from hopfed.tables.reading import Packing
from hopfed.tables.remarks import ZERO_IS_MISSING, oddities
from hopfed.tables.table import Table, made_up
from hopfed.tables.words import Cells

PART = 1 << 24  # entries of a partition of a zarr store


def is_partitioned(given: Any) -> bool:
    """Whether something is a collection of Dask: an array or a frame."""
    return hasattr(given, "__dask_graph__")


def read_partitions(
    given: Any, *, choices: Choices | None = None, coding: Coding | None = None
) -> Table:
    """Read a table that is in partitions, on Dask's workers; its bits stay there."""
    dask = dask_itself()
    choices, notes = choices or Choices(), list[str]()
    parts = _parts_of_collection(given) if is_partitioned(given) else _parts_of(given)
    # What a partition is goes to a worker by itself: Dask finds tasks in arguments alone.
    tasks = [(part.given, replace(part, given=None)) for part in parts]

    def run(work: Any, *more: Any) -> list[Any]:
        return [dask.delayed(work, pure=False)(*task, *more) for task in tasks]

    rows = None
    if all(part.plain for part in parts) and choices == Choices() and coding is None:
        with suppress(NotBinaryError):  # then columns are as those of any table
            bits = dask.persist(*run(_packed))
            # Whether 0 is -1 or missing is known once all of them were looked at.
            minus, zeros = map(any, zip(*dask.compute(*(one[1:] for one in bits)), strict=True))
            settle = dask.delayed(_settled, pure=False)
            rows = Partitioned.of([settle(one[0], one[1], minus) for one in bits])
            coding = Coding.of_bits(made_up(rows.shape[1]), minus)
            notes += [ZERO_IS_MISSING] if minus and zeros else []
    if rows is None:
        if coding is None:
            what = "examples" if is_partitioned(given) else parts[0].what
            looked = Looked.together(dask.compute(*run(_looked, choices)), what)
            coding, said = Decider([looked], choices).decide()
            notes = [*looked.notes, *said]
        rows = Partitioned.of(run(_packed_by, choices, coding))
    if len(rows) < 2:
        raise DataError(f"examples: at least two examples are needed, got {len(rows)}")
    return Table(rows, coding.columns, None, coding, (*notes, *oddities(rows, coding)))


@dataclass(frozen=True)
class _Part:
    """A partition: what it is called, what is read (a task, or a path), if it is numbers."""

    what: str
    given: Any
    plain: bool


def _parts_of_collection(given: Any, what: str = "partition") -> list[_Part]:
    plain = False
    if hasattr(given, "rechunk"):
        if given.ndim < 2:
            raise DataError(f"examples must be rows of a table, got {given.ndim} axes")
        given = given.rechunk(dict.fromkeys(range(1, given.ndim), -1))
        plain = given.dtype.kind in "biuf"
    blocks = np.ravel(given.to_delayed()).tolist() if hasattr(given, "to_delayed") else [given]
    return [_Part(f"{what} {i}", block, plain) for i, block in enumerate(blocks)]


def _parts_of(given: Any) -> list[_Part]:
    paths = [given] if isinstance(given, str | os.PathLike) else given
    files = [file for path in paths for file in files_of(Path(path))]
    return [part for file in files for part in _parts_of_file(file)]


def _parts_of_file(path: Path) -> list[_Part]:
    """A file, or of a zarr store as many chunks of its rows as make a partition."""
    if path.suffix.lower() == ".zarr":
        import dask.array

        with reading(path, "cannot be read as zarr"):
            held = arrays.zarr_array(path)
        width, chunk = math.prod(held.shape[1:]), held.chunks[0]
        rows = max(PART // max(width * chunk, 1), 1) * chunk
        whole = dask.array.from_zarr(held).rechunk((rows, *(-1,) * (held.ndim - 1)))
        return _parts_of_collection(whole, f"{path}, partition")
    return [_Part(str(path), str(path), path.suffix.lower() in arrays.ENDINGS)]


# Work of a task, once Dask has made what it is given


def _packed(given: Any, part: _Part) -> tuple[Rows, bool, bool]:
    """Rows of numbers as if there were no others, and whether -1 and 0 occur in them."""
    if not isinstance(given, np.ndarray):
        source = source_of(given, part.what)
        if source.numbers is None:
            raise DataError(f"{source.what}: an array of words; give words in .csv or .parquet")
        found = list(source.parts())
        given = np.concatenate(found) if found else np.empty((0, len(source.names)))
    x = given.reshape(len(given), -1)
    return packed(x, part.what), bool((x == -1).any()), bool((x == 0).any())


def _settled(bits: Rows, own: bool, minus: bool) -> Rows:
    """Rows of a partition, whose zeros are missing where -1 occurs in another one only."""
    if own or not minus:
        return bits
    ones = Rows(bits.signs, bits.n)
    whole = (kernels.column_sums(ones) == len(ones)).all()
    return ones if whole else replace(ones, seen=bits.signs)


def _looked(given: Any, part: _Part, choices: Choices) -> Looked:
    source = source_of(given, part.what, choices.entries())
    choices = choices.among(source.names)
    looked = Looked.begun(source, choices)
    for block in source.blocks():
        looked.add([Cells(array) for array in block], choices.ignore)
    return looked


def _packed_by(given: Any, part: _Part, choices: Choices, coding: Coding) -> Rows:
    packing = Packing(source_of(given, part.what, choices.entries()), coding)
    found = [packing.packed([Cells(a) for a in block]) for block in packing.source.blocks()]
    return kernels.concatenate(found or [kernels.pack(np.ones((0, len(coding.columns))))])
