"""`read_table` makes rows of bits with their names from a file, a frame, an array or lists."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from hopfed import kernels
from hopfed._lib.arrays import like, to_host
from hopfed._lib.dask_cluster import import_dask
from hopfed._lib.memory_limits import require_memory
from hopfed._lib.random import stream
from hopfed._lib.settings import require
from hopfed.errors import DataError, safe_line
from hopfed.kernels import Rows
from hopfed.kernels.examples import NotBinaryError, as_examples, pack_examples
from hopfed.spectral.reread_rows import DaskRows, Reread, Totals, earlier_totals
from hopfed.spectral.rows import column_moments, is_blank
from hopfed.spectral.skips import Skip, find_skips
from hopfed.tables.choosing import Choices, Decider, examine_columns
from hopfed.tables.coding import GAPS, GONE, UNKNOWN, Cells, Coding, as_numbers
from hopfed.tables.files import files_of
from hopfed.tables.formats import open_array, source_of
from hopfed.tables.table import (
    Source,
    Table,
    check_columns,
    columns_error,
    is_made_up,
    list_names,
    match_sources,
    match_tables,
)

__all__ = ["read_table"]

POINTS = "write thousands without a point, and behind a decimal point a 0 more"
ZERO_IS_MISSING = "0 is missing, as -1 occurs; where 0 means no, say so: words={'0': -1}"


def read_table(
    source: Any,
    *,
    id: str | None = None,  # noqa: A002  (what everybody calls it)
    ignore: str | Sequence[str] = (),
    words: Mapping[str, Any] | None = None,
    binarize: Any = None,
    ordinal: Any = (),
    coding: Coding | None = None,
    memory: int | None = None,
) -> Table:
    """Read a table of yes and no, of numbers or of categories.

    Words for yes and no, true and false, present and absent, + and -, 0 and 1, 1 and 2 or -1 and +1
    become +-1, in any case; blank cells, NA, null, ?, . and the like are missing, and 0 is where -1
    occurs. Each other word of a column becomes a column. Names of columns and rows are found.

    Parameters
    ----------
    source : path of a text, packed or not, a workbook (a sheet as "book.xlsx:Sheet 2"), a file of
        SPSS, Stata, SAS, JSON, Parquet, Feather, ORC, NumPy, HDF5 or zarr; a frame of pandas,
        polars or Arrow, an AnnData, columns by name, an array, dense or sparse, rows in lists; or
        an array or a frame of Dask, whose bits stay on its workers.
    id : column that names the rows; "" for none, one is looked for when left out.
    ignore : columns to leave out, such as labels; or one.
    words : word -> True (+1), False (-1) or None (missing); or column -> such words of its own,
        "category", or "answers": with ; | or , between several in a cell, each becomes a column.
    binarize : where columns of more than two numbers are cut: at their "median" (or near it, where
        many rows hold it), "mean", "quantile:Q" or a number; "levels" for a column of each value;
        or column -> one of these.
    ordinal : columns of ordered answers, such as 1 to 5, or one; or column -> levels, the lowest
        first, which words need. Each level but the last becomes a column, as "q>3 of >2": +1 above
        it, -1 at it, missing below it, so that its rate is one of the rows above the level before.
    coding : `Table.coding` of another table, found by names of columns; `words` may add to it.
    memory : bytes that the packed rows may take; others are read again for every sum over them.

    Raises
    ------
    DataError : one line, with row and column: no such file, no table, or an unknown word or number.

    Examples
    --------
    >>> from hopfed.kernels import unpack
    >>> table = read_table({"name": ["Ann", "Ben", "Cem"], "tea": ["yes", "no", "?"]})
    >>> table.columns, table.ids.tolist(), unpack(table.rows).ravel().tolist()
    (('tea',), ['Ann', 'Ben', 'Cem'], [1, -1, 0])
    """
    choices = Choices(id, ignore, words, binarize, ordinal=ordinal)
    if coding is not None and words:
        coding = with_words(coding, Choices(words=words))
        rule = "for missing entries, or words of columns of words, beside a coding"
        require(coding is not None, "words", rule, words)
    [table] = read_tables([source], choices=choices, coding=coding, memory=memory)
    label = source if isinstance(source, str | os.PathLike) else "examples"
    for line in table.notes:
        if line.startswith("0 is missing"):
            warnings.warn(f"{label}: {line}", stacklevel=2)
    return table


def read_tables(
    sources: Sequence[Any],
    *,
    choices: Choices | None = None,
    coding: Coding | None = None,
    memory: int | None = None,
    least: int | None = None,
    columns: str = "same",
) -> list[Table]:
    """Read tables with one coding, chosen by what the columns of all of them hold.

    `memory` is for all of their rows. Each has `least` rows or more: two, or one with a `coding`.
    """
    choices, labels = choices or Choices(), [f"examples[{i}]" for i in range(len(sources))]
    if any(map(is_partitioned, sources)):
        read = [read_partitions(source, choices=choices, coding=coding) for source in sources]
        return match_tables(read, labels)
    most = None if memory is None else memory // len(sources)
    labels = labels if len(sources) > 1 else ["examples"]
    given = [source_of(source, label) for source, label in zip(sources, labels, strict=True)]
    if coding is not None:
        return [Packing(source, coding, most).table([], least or 1) for source in given]
    given, lost = match_sources(given, columns)
    choices = replace(choices, ignore=(*choices.ignore, *lost))
    if len(given) > 1 and all(s.numbers is not None or is_made_up(s.names) for s in given):
        alone = [_read_together([source], choices, most, least or 2)[0] for source in given]
        codes = [code for table in alone for code in table.coding.codes]
        if all(code.kind == "words" and "2" not in dict(code.words) for code in codes):
            return match_tables(alone, [s.label for s in given])  # each has its own values
    found = _read_together(given, choices, most, least or 2)
    if columns == "union":
        found = [replace(t, coding=replace(t.coding, partial=True)) for t in found]
    return found


def _read_together(
    sources: Sequence[Source], choices: Choices, most: int | None, least: int
) -> list[Table]:
    """Choose a coding by all that columns hold, and pack; a single table in the same reading."""
    first, alone = sources[0], len(sources) == 1
    if alone and first.numbers is not None and choices == Choices():
        with suppress(NotBinaryError):  # then columns of numbers are coded as those of any table
            return [_pack_numbers(first, most)]
    choices = choices.resolve_names([name for source in sources for name in source.names])
    packing: Packing | None = None

    def bits() -> Iterator[Rows]:
        nonlocal packing
        for k, cells in enumerate(chain(*(examine_columns(source, choices) for source in sources))):
            with suppress(DataError):
                if alone and k == 0:
                    packing = Packing(first, Decider(sources, choices).decide()[0], most)
                if packing is not None:
                    yield packing.pack(cells)
                    continue
            packing = None

    rows = gather_rows(first, bits(), lambda: Packing(first, coding).blocks(), most)
    coding, said = Decider(sources, choices).decide()
    if packing is not None and packing.coding == coding:
        return [packing.table(said, least, rows)]
    return [Packing(source, coding, most).table(said, least) for source in sources]


def gather_rows(
    source: Source, parts: Iterable[Rows], again: Callable[[], Iterator[Rows]], most: int | None
) -> Rows | None:
    """While reading, put parts of rows together if they fit; else return rows to read `again`."""
    held: list[Rows] = []
    nbytes, totals = 0, None
    for part in parts:
        held.append(part)
        nbytes += part.nbytes
        if most is None:
            require_memory(nbytes, source.label)  # to put them together
        elif nbytes > most:
            for own in held:
                totals = Totals.of(own) if totals is None else totals + Totals.of(own)
            held.clear()
    if totals is not None:
        return Reread(again, totals, lambda: source.readings)
    return kernels.concatenate(held) if held else None


def _pack_numbers(source: Source, most: int | None) -> Table:
    """Pack an array of +-1, 0/1 or booleans, as `hopfed.kernels.examples` does."""
    minus = zeros = False
    for part in source.parts():
        minus, zeros = minus or bool((part == -1).any()), zeros or bool((part == 0).any())
        if minus and zeros:
            break

    def again() -> Iterator[Rows]:
        before = 0
        for part in source.parts():  # 0 is missing where -1 occurs
            yield pack_examples(part, source.label, (part == 0) if minus else None, before)
            before += len(part)

    rows = gather_rows(source, again(), again, most)
    if rows is None or rows.held:
        rows = as_examples(rows, name=source.label, gaps=True)
    coding = Coding.of_bits(source.names, minus and rows.gaps)
    notes = [*source.notes, *[ZERO_IS_MISSING] * (rows.gaps and minus and zeros)]
    return Table(rows, coding.columns, source.ids, coding, (*notes, *oddities(rows, coding)))


class Packing:
    """Packer of the rows of a source in blocks, and their names while rows take `most` bytes."""

    def __init__(self, source: Source, coding: Coding, most: int | None = 0):
        self.source, self.coding, self.most = source, coding, most
        by_place = is_made_up(source.names) and len(source.names) == len(coding.names)
        place = {name: j for j, name in enumerate((coding if by_place else source).names)}
        self.places = [place.get(name) for name in coding.names]  # None of a column that it lacks
        if None in self.places and not (coding.partial and {*self.places} != {None}):
            others = [n for n in source.names if n not in {*coding.ids, *coding.ignored}]
            way = "; rename columns, or add blank ones, which are missing"
            check_columns(others, coding.names, source.label, "the coding", way)
        self._id = next((place[name] for name in coding.ids if name in place), None)
        for name, code in zip(coding.names, coding.codes, strict=True):
            if code.kind == "number" and name in source.doubts:
                where = f"{source.label}: column '{safe_line(name, 60)}'"
                raise DataError(f"{where} has points that may be of thousands: {POINTS}")
        self._count, self._bytes, self._holds = 0, 0, True
        self._ids = [np.empty(0, str)]

    def pack(self, cells: list[Cells]) -> Rows:
        """Pack the rows of a block."""
        parts: list[np.ndarray] = []
        odd: list[tuple[str, str, list[str]]] = []  # columns, lines and words
        for name, code, j in zip(self.coding.names, self.coding.codes, self.places, strict=True):
            if j is None:
                parts.append(np.full((code.width, len(cells[0])), GONE, np.int8))
                continue
            given, values = cells[j], None
            if code.kind == "number":
                values = as_numbers(given.array, GAPS | dict(code.words).keys())
            if values is not None:
                above = np.where(values > code.threshold, np.int8(1), np.int8(-1))
                parts.append(np.where(np.isnan(values), np.int8(GONE), above)[None])
            else:  # the last of the words is of missing cells
                parts.append(code.entries([*given.words, ""])[:, given.places])
            unknown = np.flatnonzero(parts[-1][0] == UNKNOWN)
            if len(unknown):
                places = dict.fromkeys(given.places[unknown].tolist())
                words = [given.words[k].strip() for k in places]
                at = f"row {self._count + unknown[0] + 1}, column '{safe_line(name, 60)}'"
                said = f"unknown word{'s' * (len(words) > 1)} {list_names(words)}"
                odd.append((name, f"{at}: {said}; {safe_line(code)}", words))
        if odd:
            columns, lines, each = zip(*odd, strict=True)
            gone = {w: "missing" for words in each for w in words if safe_line(w, 60) == w}
            ways = [Choices(options=options).spell_options(words=gone) for options in (True, False)]
            last = f"read them as missing, or as +1 or -1, by {' or '.join(ways)}"
            said = f"{len(odd):,} column(s) hold words that are not known"
            raise columns_error(self.source.label, said, lines, columns, last * bool(gone))
        codes = np.concatenate(parts)
        self._count += codes.shape[1]
        found, blank = kernels.pack(codes.T > 0), codes == GONE
        found = replace(found, seen=kernels.pack(~blank.T).signs) if blank.any() else found
        self._bytes += found.nbytes
        self._holds = self.most is None or self._bytes <= self.most
        if self._id is not None and self._holds:
            held = cells[self._id]
            names = np.array([*(word.strip() for word in held.words), ""], dtype=str)
            require_memory(names.itemsize * self._count, f"{self.source.label}: names of rows")
            self._ids.append(names[held.places])
        return found

    def blocks(self) -> Iterator[Rows]:
        """Read the source, and pack its blocks."""
        for block in self.source.blocks():
            yield self.pack([Cells(array) for array in block])

    def table(self, notes: Sequence[str], least: int, rows: Rows | None = None) -> Table:
        """Return the table, of which all rows are read unless they were."""
        source, coding = self.source, self.coding
        if rows is None:
            again = lambda: Packing(source, coding).blocks()  # noqa: E731
            rows = gather_rows(source, self.blocks(), again, self.most)
        if rows is None:
            raise DataError(f"{source.label}: at least two examples are needed, got 0")
        if rows.held:
            rows = as_examples(rows, name=source.label, gaps=True, least=least)
        lacks = [n for n, j in zip(coding.names, self.places, strict=True) if j is None]
        why = f"{source.label}: lacks {list_names(lacks)}, missing in all of its rows"
        ids = source.ids if self._id is None else np.concatenate(self._ids)
        notes = [*source.notes, *notes, *[why] * bool(lacks), *oddities(rows, coding)]
        return Table(rows, coding.columns, ids if self._holds else None, coding, tuple(notes))


def with_words(coding: Coding, given: Choices) -> Coding | None:
    """For `read_table`, return a coding that knows more words; None if choices do not fit to it."""
    given = given.resolve_names(coding.names)
    more = given != Choices(words=given.words)
    if not given.words or more or given.mentioned_columns() - set(coding.names):
        return None
    codes, wanted = [], set[str]()
    for name, code in zip(coding.names, coding.codes, strict=True):
        said, known = given.signs(name), dict(code.words)
        if any(sign * known.get(word, 0) < 0 for word, sign in said.items()):
            return None
        own = {w: s for w, s in said.items() if s == GONE or code.kind == "words"}
        wanted |= said.keys() - own.keys()
        codes.append(replace(code, words=tuple({**own, **known}.items())))
    taken = {word for code in codes for word, _ in code.words}
    return None if wanted - taken else replace(coding, codes=tuple(codes))


# Notes on the rows of a table


def oddities(rows: Rows, coding: Coding) -> list[str]:
    """For `read_table`, return a line for columns without entries, those of one value, copies."""
    columns, read, (sums, seen) = coding.columns, earlier_totals(rows), column_moments(rows)
    blank = np.zeros(0, bool) if read is not None else is_blank(rows)
    none, first = read.blank if read is not None else (int(blank.sum()), int(blank.argmax()))
    lines = []
    if none:
        lines.append(f"without any entry: {none:,} row(s), the first of them row {first + 1:,}")
    empty, constant = seen == 0, (np.abs(sums) == seen) & (seen > 0)
    said = {"without any entry": empty, "the same in every row": constant}
    for line, which in said.items():
        if held := [columns[j] for j in np.flatnonzero(which).tolist()]:
            lines.append(f"{line}: {list_names(held)}")
    if alike := copies(rows, np.flatnonzero(~empty & ~constant)):
        pairs = [
            f"'{safe_line(columns[i], 60)}' and '{safe_line(columns[j], 60)}'" for i, j in alike[:5]
        ]
        more = f", and {len(alike) - 5:,} more" if len(alike) > 5 else ""
        lines.append(f"equal or opposite in every row: {'; '.join(pairs)}{more}")
    return lines + (describe_skips(find_skips(rows, coding.steps), coding) if rows.held else [])


def describe_skips(found: Iterable[Skip], coding: Coding) -> list[str]:
    """For `read_table`, return lines on columns blank wherever another holds a value."""
    of = np.repeat(np.arange(len(coding.codes)), [code.width for code in coding.codes])
    lines: dict[tuple[str, ...], str] = {}
    for skip in found:
        code, name = coding.codes[of[skip.column]], coding.columns[skip.column]
        value = code.said(skip.sign) or ("yes" if skip.sign > 0 else "no")
        blank = tuple(dict.fromkeys(coding.names[j] for j in of[skip.blank].tolist()))
        line = f"blank wherever {list_names([name])} is {safe_line(value, 60)}: {list_names(blank)}"
        lines.setdefault(blank, line)
    return list(lines.values())


def copies(rows: Rows, of: np.ndarray) -> list[tuple[int, int]]:
    """For `read_table`, return columns with the first each equals up to sign, by sums of draws."""
    if (read := earlier_totals(rows)) is not None:
        if read.products is None or not len(of):
            return []
        products, seen = np.abs(read.products[np.ix_(of, of)]), read.seen[of]
        equal = of[((products == seen) & (products == seen[:, None])).argmax(axis=1)].tolist()
    else:
        draws = stream(0, "copies").integers(1, 1 << 24, (rows.shape[0], 2))  # sums are exact
        marks = to_host(kernels.rmatmat(rows, like(draws, rows.signs)))[of]
        marks, first = marks * np.sign(marks[:, :1]), dict[Any, int]()
        each = zip(map(tuple, marks.tolist()), of.tolist(), strict=True)
        equal = [first.setdefault(mark, j) for mark, j in each]
    return sorted((i, j) for i, j in zip(equal, of.tolist(), strict=True) if i != j)


# Tables in partitions


def is_partitioned(given: Any) -> bool:
    """Whether a table that is to be read is a collection of Dask: an array or a frame."""
    return hasattr(given, "__dask_graph__")


def read_partitions(
    given: Any, *, choices: Choices | None = None, coding: Coding | None = None
) -> Table:
    """Read a table that is in partitions, on Dask's workers; its bits stay there."""
    dask, parts = import_dask(), _parts_of(given)
    chosen, notes = choices or Choices(), list[str]()

    def held(part: Any, label: str) -> Source:
        source = source_of(part, label)
        for _ in examine_columns(source, chosen.resolve_names(source.names)):
            pass
        return replace(source, read=lambda: iter(()), numbers=None)

    def bits(part: Any, label: str, coding: Coding) -> Rows:
        found = list(Packing(source_of(part, label), coding).blocks())
        return kernels.concatenate(found or [kernels.pack(np.ones((0, len(coding.columns))))])

    if coding is None:
        found = dask.compute(*(dask.delayed(held, pure=False)(*part) for part in parts))
        label = "examples" if is_partitioned(given) else parts[0][1]
        coding, said = Decider(match_sources(found, "same")[0], chosen, parts_of=label).decide()
        notes = [*found[0].notes, *said]
    rows = DaskRows.of([dask.delayed(bits, pure=False)(*part, coding) for part in parts])
    if len(rows) < 2:
        raise DataError(f"examples: at least two examples are needed, got {len(rows)}")
    return Table(rows, coding.columns, None, coding, (*notes, *oddities(rows, coding)))


def _parts_of(given: Any, label: str = "partition") -> list[tuple[Any, str]]:
    """Return the parts of a collection, a folder or zarr stores: tasks or paths, with labels."""
    if is_partitioned(given):
        if hasattr(given, "rechunk"):
            given = given.rechunk(dict.fromkeys(range(1, given.ndim), -1))
        return [(task, f"{label} {i}") for i, task in enumerate(np.ravel(given.to_delayed()))]
    found: list[tuple[Any, str]] = []
    paths = [given] if isinstance(given, str | os.PathLike) else given
    for path in chain(*(files_of(Path(each)) for each in paths)):
        if path.suffix.lower() == ".zarr":
            import dask.array

            whole = dask.array.from_zarr(open_array(path)).rechunk({0: "auto"})
            found += _parts_of(whole, f"{path}, partition")
        else:
            found.append((str(path), str(path)))
    return found
