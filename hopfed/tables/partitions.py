"""Tables in partitions, which Dask's workers read where they are: arrays, frames, many files, zarr.

One table, whose partitions are read apart: each is a task, that gives packed bits. Where columns
hold words a first reading says what is in them, a line for each column of each partition, and
here it is decided how all of them are coded; the second reading packs. Numbers are read once.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from hopfed import kernels
from hopfed._lib.cluster import dask_itself
from hopfed.errors import ArgumentError, DataError
from hopfed.kernels import MaskedBits, PackedBits
from hopfed.spectral.partitions import Partitioned
from hopfed.tables import arrays
from hopfed.tables.choosing import Decider
from hopfed.tables.coding import Coding
from hopfed.tables.examples import not_binary
from hopfed.tables.formats import of_groups, parquet_groups, source_of
from hopfed.tables.held import Held
from hopfed.tables.many_files import files_of
from hopfed.tables.options import Choices
from hopfed.tables.packing import Packing, pointed
from hopfed.tables.remarks import ZERO_IS_MISSING, oddities
from hopfed.tables.source import Source
from hopfed.tables.table import Table, made_up, places_of
from hopfed.tables.words import Cells

PART = 1 << 24  # entries of a partition of a large file
Bits = PackedBits | MaskedBits


def is_partitioned(given: Any) -> bool:
    """Whether something is a collection of Dask: an array or a frame."""
    return hasattr(given, "__dask_graph__")


def read_partitions(
    given: Any, *, choices: Choices | None = None, coding: Coding | None = None
) -> Table:
    """Read a table that is in partitions, on Dask's workers; its bits stay there."""
    dask_itself()
    choices = choices or Choices()
    parts = _parts_of(given)
    if all(part.plain for part in parts) and choices == Choices() and coding is None:
        return _plain(parts)
    return _coded(parts, choices, coding)


@dataclass(frozen=True)
class _Part:
    """A partition: what it is called, what is read (delayed, or a path), and if it is numbers."""

    what: str
    given: Any
    plain: bool


def _parts_of(given: Any) -> list[_Part]:
    if is_partitioned(given):
        return _parts_of_collection(given)
    paths = [given] if isinstance(given, str | os.PathLike) else list(given)
    return [part for path in paths for part in _parts_of_path(str(path))]


def _parts_of_collection(given: Any) -> list[_Part]:
    plain = False
    if hasattr(given, "rechunk"):
        if given.ndim < 2:
            raise DataError(f"examples must be rows of a table, got {given.ndim} axes")
        given = given.rechunk(dict.fromkeys(range(1, given.ndim), -1))
        plain = given.dtype.kind in "biuf"
    blocks = np.ravel(given.to_delayed()).tolist() if hasattr(given, "to_delayed") else [given]
    return [_Part(f"partition {i}", block, plain) for i, block in enumerate(blocks)]


def _parts_of_path(path: str) -> list[_Part]:
    return [part for file in files_of(path) for part in _parts_of_file(str(file))]


def _parts_of_file(path: str) -> list[_Part]:
    ending = Path(path).suffix.lower()
    if ending == ".zarr":
        held = arrays.stored(Path(path))
        rows = max(PART // max(math.prod(held.shape[1:]) * held.chunk, 1), 1) * held.chunk
        cuts = pairwise([*range(0, held.shape[0], rows), held.shape[0]])
        return [_Part(f"{path}, row {a + 1} on", _Stored(path, a, b), True) for a, b in cuts]
    if ending == ".parquet":
        return _parts_of_parquet(path)
    return [_Part(path, path, ending in arrays.ENDINGS)]


def _parts_of_parquet(path: str) -> list[_Part]:
    """Groups of rows of a file, as many together as make a partition; a small file is one."""
    width, sizes = parquet_groups(Path(path))
    most, cuts, rows = max(PART // max(width, 1), 1), [0], 0
    for i, size in enumerate(sizes):
        if rows and rows + size > most:
            cuts.append(i)
            rows = 0
        rows += size
    if len(cuts) == 1:
        return [_Part(path, path, False)]
    found = []
    for first, last in pairwise([*cuts, len(sizes)]):
        what = f"{path}, row {sum(sizes[:first]) + 1} on"
        found.append(_Part(what, _Groups(path, tuple(range(first, last))), False))
    return found


@dataclass(frozen=True)
class _Groups:
    """Some groups of rows of a .parquet file."""

    path: str
    groups: tuple[int, ...]


@dataclass(frozen=True)
class _Stored:
    """Some rows of a zarr store."""

    path: str
    start: int
    stop: int

    def read(self) -> np.ndarray:
        held = arrays.stored(Path(self.path))
        found = np.concatenate(list(held.rows(PART, self.start, self.stop)))
        return found.reshape(len(found), -1)


def _opened(given: Any, what: str, choices: Choices) -> Source:
    if isinstance(given, _Groups):
        return of_groups(Path(given.path), given.groups, what)
    given = given.read() if isinstance(given, _Stored) else given
    return source_of(given, what, choices.entries())


# Numbers: +-1, 0/1 or booleans.


def _plain(parts: Sequence[_Part]) -> Table:
    """Pack arrays; whether 0 is -1 or missing is known once all of them were looked at."""
    dask = dask_itself()
    pack = dask.delayed(_packed, pure=False)
    packed = dask.persist(*(pack(part.given, part.what) for part in parts))
    minus, zeros = map(any, zip(*dask.compute(*(one[1:] for one in packed)), strict=True))
    settle = dask.delayed(_settled, pure=False)
    rows = Partitioned.of([settle(one[0], one[1], minus) for one in packed])
    notes = (ZERO_IS_MISSING,) if minus and zeros else ()
    return _table(rows, Coding.of_bits(made_up(rows.shape[1]), minus), notes)


def _packed(given: Any, what: str) -> tuple[Bits, bool, bool]:
    """Rows of one partition as if there were no others, and whether -1 and 0 occur in them."""
    if not isinstance(given, np.ndarray):
        source = _opened(given, what, Choices())
        if source.numbers is None:
            raise DataError(f"{source.what}: an array of words; give words in .csv or .parquet")
        found = list(source.parts())
        given = np.concatenate(found) if found else np.empty((0, len(source.names)))
    x = given.reshape(len(given), -1)
    try:
        bits = kernels.pack_masked(x)
    except ArgumentError:
        raise DataError(f"{what}: {not_binary(x)}") from None
    return bits, _has_minus(x), bool((x == 0).any())


def _has_minus(x: np.ndarray) -> bool:
    """Whether -1 occurs in rows of -1, 0, 1 and what is missing."""
    if x.dtype.kind in "bu" or not x.size:
        return False
    if x.dtype.kind == "O":
        return bool((x == -1).any())
    return bool(np.fmin.reduce(x, axis=None) < 0)


def _settled(bits: Bits, own: bool, minus: bool) -> Bits:
    """Rows of a partition, whose zeros are missing where -1 occurs in another one only."""
    if own or not minus:
        return bits
    ones = bits.signs if isinstance(bits, MaskedBits) else bits
    whole = (kernels.column_sums(ones) == len(ones)).all()
    return ones if whole else MaskedBits(ones, ones)


# Words, categories, and numbers that are cut.


@dataclass(frozen=True)
class _Looked:
    """What is in one partition: its columns' names, what they hold, and what is odd."""

    what: str
    names: tuple[str, ...]
    held: list[Held]
    commas: bool | None
    notes: list[str]


def _coded(parts: Sequence[_Part], choices: Choices, coding: Coding | None) -> Table:
    dask = dask_itself()
    notes: list[str] = []
    if coding is None:
        look = dask.delayed(_looked, pure=False)
        found = dask.compute(*(look(part.given, part.what, choices) for part in parts))
        coding, notes = _decided(found, choices)
    pack = dask.delayed(_packed_by, pure=False)
    rows = Partitioned.of([pack(part.given, part.what, choices, coding) for part in parts])
    return _table(rows, coding, notes)


def _looked(given: Any, what: str, choices: Choices) -> _Looked:
    source = _opened(given, what, choices)
    choices = choices.among(source.names)
    held = [Held.of(choices, name) for name in source.names]
    for block in source.blocks():
        for column, array in zip(held, block, strict=True):
            column.add(Cells(array))
    return _Looked(source.what, source.names, held, pointed(source), source.notes)


def _decided(found: Sequence[_Looked], choices: Choices) -> tuple[Coding, list[str]]:
    """A coding from what all partitions hold; they are one table."""
    full = [one for one in found if any(h.rows for h in one.held)] or list(found[:1])
    first = full[0]
    places = [places_of(one.names, first.names, one.what, first.what) for one in full]
    held = [[one.held[j] for j in place] for one, place in zip(full, places, strict=True)]
    together = [Held.together(column) for column in zip(*held, strict=True)]
    for column in together:
        column.different &= column.many or len(column.words) == column.rows
    decider = Decider([first.what], first.names, [together], choices, [first.commas])
    decider.places = [(one.what, columns) for one, columns in zip(full, held, strict=True)]
    decision = decider.decide()
    return decision.coding, [*first.notes, *decision.notes]


def _packed_by(given: Any, what: str, choices: Choices, coding: Coding) -> Bits:
    packing = Packing(_opened(given, what, choices), coding)
    found = [packing.packed([Cells(a) for a in block]) for block in packing.source.blocks()]
    return kernels.concatenate(found or [kernels.pack(np.ones((0, len(coding.columns))))])


def _table(rows: Partitioned, coding: Coding, notes: Sequence[str]) -> Table:
    if len(rows) < 2:
        raise DataError(f"examples: at least two examples are needed, got {len(rows)}")
    odd = oddities(rows, coding)
    return Table(rows, coding.columns, None, coding, (*notes, *odd))
