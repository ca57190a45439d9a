"""Cells of a source packed to bits by a coding, a block at a time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hopfed import kernels
from hopfed._lib.memory_limits import require_memory
from hopfed.data.arrow_cells import Cells, as_numbers, measured
from hopfed.errors import DataError, shown
from hopfed.kernels import MaskedBits, PackedBits
from hopfed.spectral.reread_rows import Gathered, Reread
from hopfed.tables.coding import UNKNOWN, Code, Coding
from hopfed.tables.refusals import Unknown, unknown_words
from hopfed.tables.sources import Source
from hopfed.tables.table import SHOWN, is_made_up, listed, misspelt
from hopfed.tables.thousands import Points, doubtful, why_doubtful
from hopfed.tables.vocabulary import GONE, MISSING, canonical

ROOM = 1 << 29  # bytes that names of rows may take in any case
SPREAD = 64  # bytes for each letter of them that they may take beyond


class Packing:
    """Packs rows block by block, as they are read.

    Parameters
    ----------
    source : of the rows.
    coding : of its columns, which are found by name.
    most : bytes that the rows may take; where they take more they are read again later, and have no
        names. None for as many as there are.
    judge : whether to look at points in numbers, which may be of thousands; where the coding was
        made from these rows that was done.

    Raises
    ------
    DataError : it lacks columns, or holds a word that the coding does not know.
    """

    def __init__(
        self, source: Source, coding: Coding, most: int | None = None, judge: bool = False
    ):
        self.source, self.coding = source, coding
        self.places = _places(source, coding)
        names = [source.names.index(name) for name in coding.ids if name in source.names]
        self._id = names[0] if names else None
        self._count = 0
        self._ids: list[str] = []
        self._letters = 0
        self._gathered = Gathered(source.what, most)
        self._points = {
            j: points
            for name, code, j in zip(coding.names, coding.codes, self.places, strict=True)
            if judge and j is not None and code.kind == "number"
            if (points := Points.of(source.dialect, name)) is not None
        }

    @property
    def lacking(self) -> list[str]:
        """Names of the columns that the source lacks."""
        return [n for n, j in zip(self.coding.names, self.places, strict=True) if j is None]

    def packed(self, cells: list[Cells]) -> PackedBits | MaskedBits:
        """Pack the rows of a block."""
        for place, points in self._points.items():
            self._points[place] = points.after_cells(cells[place].array)
        triples = zip(self.coding.names, self.coding.codes, self.places, strict=True)
        rows = len(cells[0]) if cells else 0
        parts: list[np.ndarray] = []
        unknown: list[Unknown] = []
        for name, code, j in triples:
            part = self._column(name, code, None if j is None else cells[j], rows)
            if isinstance(part, Unknown):
                unknown.append(part)
            else:
                parts.append(part)
        if unknown:
            raise unknown_words(self.source.what, unknown)
        codes = np.concatenate(parts).T
        self._count += len(codes)
        gone = codes == GONE
        signs = kernels.pack(codes > 0)
        return MaskedBits(signs, kernels.pack(~gone)) if gone.any() else signs

    def judge(self) -> None:
        """Refuse numbers whose points may be of thousands, once all rows were seen."""
        doubts = doubtful(self._points.values())
        for (j, points), word in zip(self._points.items(), doubts, strict=True):
            if word:
                name, why = shown(self.source.names[j], 60), why_doubtful(word, points.sure)
                raise DataError(f"{self.source.what}: column '{name}' {why}")

    def add(self, cells: list[Cells]) -> None:
        """Take the rows of a block."""
        self._gathered.add(self.packed(cells))
        if not self._gathered.holds:
            self._ids = []
        elif self._id is not None:
            words = [*(word.strip() for word in cells[self._id].words), ""]
            self._letters += sum(map(len, words))
            require_memory(self._letters, self.source.what)
            self._ids += [words[place] for place in cells[self._id].places.tolist()]

    def rows(self) -> PackedBits | MaskedBits | Reread:
        """Return all rows, or what reads them again."""
        self.judge()

        def again() -> Iterator[PackedBits | MaskedBits]:
            packing = Packing(self.source, self.coding)
            for block in self.source.blocks():
                yield packing.packed([Cells(array) for array in block])

        return self._gathered.rows(again, lambda: self.source.readings)

    def ids(self) -> np.ndarray | None:
        """Return the names of the rows, None where they have none."""
        if not self._gathered.holds:
            return None
        if self._id is None:
            return self.source.ids
        longest = max(map(len, self._ids), default=0)
        needed = 4 * len(self._ids) * longest  # an array keeps as much for each as for the longest
        if needed > max(SPREAD * self._letters, ROOM):
            raise DataError(
                f"{self.source.what}: a row has a name of {longest:,} characters; name another "
                "column of names, or '' for none (--id, id=)"
            )
        require_memory(needed, self.source.what)
        return np.array(self._ids, dtype=str)

    def _column(
        self, name: str, code: Code, cells: Cells | None, rows: int
    ) -> np.ndarray | Unknown:
        """Rows (width, rows) of -1, 0 and +1 for a column of cells, or one that is lacking."""
        if cells is None:
            return np.full((code.width, rows), GONE, np.int8)
        if code.kind == "number":
            values = as_numbers(cells.array, MISSING | {word for word, _ in code.words}, sides=True)
            if values is not None:
                above = np.where(values > code.threshold, np.int8(1), np.int8(-1))
                above[np.isnan(values)] = GONE
                return above[None]
            known = {word for word, _ in code.words} | MISSING
            fits = [canonical(w) in known or measured(w) is not None for w in cells.words]
            entries = np.where(fits, 0, UNKNOWN)[None]
        else:
            entries = code.entries(cells.words)
        odd = np.flatnonzero((entries == UNKNOWN).any(axis=0))
        if len(odd):
            row = int(np.flatnonzero(np.isin(cells.places, odd))[0])
            order = dict.fromkeys([int(cells.places[row]), *odd[:SHOWN].tolist()])
            words = tuple(cells.words[k].strip() for k in order)
            why = f"was not there when the coding was made: {shown(code)}"
            if code.kind == "number":
                why = "is not a number"
            return Unknown(name, self._count + row + 1, words, why, code.kind == "words")
        none = np.full((len(entries), 1), GONE, np.int8)
        return np.hstack([entries, none])[:, cells.places]


def _places(source: Source, coding: Coding) -> list[int | None]:
    """Where the columns of a coding are in a source; None for one that it may lack."""
    place = {name: j for j, name in enumerate(source.names)}
    lacks = [name for name in coding.names if name not in place]
    if not lacks:
        return [place[name] for name in coding.names]
    if is_made_up(source.names) and len(source.names) == len(coding.names):
        return list(range(len(source.names)))
    if coding.partial and len(lacks) < len(coding.names):
        return [place.get(name) for name in coding.names]
    more = [name for name in source.names if name not in {*coding.names, *coding.ids}]
    way = misspelt(more, lacks) or "; add them with blank cells, which are missing"
    raise DataError(f"{source.what}: lacks the column(s) {listed(lacks)}{way}")
