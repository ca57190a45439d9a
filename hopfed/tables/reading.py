"""`read_table`: from a file, a frame, an array or lists to rows of bits with their names."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, repeat
from typing import Any

from hopfed._lib.settings import require
from hopfed.errors import DataError
from hopfed.kernels import MaskedBits, PackedBits
from hopfed.spectral.reread_rows import Gathered, Reread
from hopfed.tables.arrays import LARGE
from hopfed.tables.choosing import Decider, Decision
from hopfed.tables.coding import Coding
from hopfed.tables.examples import as_examples, packed
from hopfed.tables.formats import source_of
from hopfed.tables.held import Held
from hopfed.tables.options import Choices
from hopfed.tables.packing import Packing, pointed, with_words
from hopfed.tables.partitions import is_partitioned, read_partitions
from hopfed.tables.remarks import ZERO_IS_MISSING, oddities
from hopfed.tables.source import Numbers, Source
from hopfed.tables.table import (
    Table,
    aligned_sources,
    check_joined,
    is_made_up,
    lacking,
    matched,
    places_of,
)
from hopfed.tables.words import Cells

__all__ = ["read_table", "read_tables"]


def read_table(
    source: Any,
    *,
    id: str | None = None,  # noqa: A002  (what everybody calls it)
    ignore: str | Sequence[str] = (),
    words: Mapping[str, Any] | None = None,
    binarize: Any = None,
    coding: Coding | None = None,
    memory: int | None = None,
) -> Table:
    """Read a table of yes and no, of numbers or of categories.

    Words for yes and no, true and false, present and absent, + and -, 0 and 1, 1 and 2 or -1 and +1
    become +-1, in any case; blank cells, NA, null, ?, . and the like are missing, and 0 is where -1
    occurs. A column of other words becomes one column of +-1 for each. A first row of names, and a
    column that names the rows, are found.

    Parameters
    ----------
    source : path of a file of text (.csv, .tsv, .txt; packed as .gz, .bz2, .xz, .zst or .zip), a
        workbook (.xlsx, .xls, .ods; a sheet of it as "book.xlsx:Sheet 2"), a file of SPSS, Stata or
        SAS (.sav, .por, .dta, .xpt, .sas7bdat), .json, .jsonl, .parquet, .feather, .arrow, .orc,
        .npy, .npz, .h5 or .zarr; a frame of pandas, polars or Arrow, an AnnData, a mapping from
        names to columns, an array, dense or sparse, or rows in lists; or an array or a frame of
        Dask, whose bits stay on its workers.
    id : name of the column that names the rows; "" for none, one is looked for when left out.
    ignore : names of columns to leave out, such as labels; or one such name.
    words : word -> True (+1), False (-1) or None (missing), for words that are not known; name of
        a column -> such words of its own, or what it is a column of: "category", or "answers"
        where a cell may hold several, with ; or | or , between them: each becomes a column.
    binarize : what becomes of columns with more than two numbers: +1 above their "median" (where
        many rows hold it, above the value that comes nearest to halving them), "mean",
        "quantile:Q" or a number; "levels" for a column of each value; or a mapping from names of
        columns to these.
    coding : `Table.coding` of another table: this one is coded in the same way, its columns found
        by name; `words` may say what further ones stand for then.
    memory : bytes that the packed rows may take. Those that take more are not held: `recover` and
        whoever needs a sum over them has the file read again. All are held when left out.

    Raises
    ------
    DataError : one line, with the names of row and column: no such file, not a table, a word or a
        number of which it is not known what it stands for.

    Examples
    --------
    >>> from hopfed.kernels import unpack
    >>> table = read_table({"name": ["Ann", "Ben", "Cem"], "tea": ["yes", "no", "?"]})
    >>> table.columns, table.ids.tolist(), unpack(table.rows).ravel().tolist()
    (('tea',), ['Ann', 'Ben', 'Cem'], [1, -1, 0])
    """
    choices = Choices(id, (ignore,) if isinstance(ignore, str) else tuple(ignore), words, binarize)
    if coding is not None and words:
        coding = with_words(coding, Choices(words=words))
        rule = "for missing entries, or words of columns of words, beside a coding"
        require(coding is not None, "words", rule, words)
    [table] = read_tables([source], choices=choices, coding=coding, memory=memory)
    what = str(source) if isinstance(source, str | os.PathLike) else "examples"
    for line in table.notes:
        if line.startswith("0 is missing"):
            warnings.warn(f"{what}: {line}", stacklevel=2)
    return table


def read_tables(
    sources: Sequence[Any],
    *,
    choices: Choices | None = None,
    coding: Coding | None = None,
    watch: Callable[[str, float], None] | None = None,
    memory: int | None = None,
    least: int | None = None,
    columns: str = "same",
) -> list[Table]:
    """Read tables that are coded alike: what a column holds is looked at in all of them.

    Parameters
    ----------
    sources : as of `read_table`; their columns are matched by name.
    choices : what is told of them.
    coding : of another table; made from these when left out.
    watch : is told the source and what part of it is read, from time to time.
    memory : bytes that the rows of all may take, as of `read_table`.
    least : rows that each must have; two when left out, or one with a `coding`.
    columns : what becomes of columns that not all have (`hopfed.tables.table`).

    Examples
    --------
    >>> tables = read_tables([{"tree": ["ash", "yew"]}, {"tree": ["oak", "oak"]}])
    >>> [table.columns for table in tables][1]
    ('tree=ash', 'tree=oak', 'tree=yew')
    """
    choices = choices or Choices()
    if any(is_partitioned(source) for source in sources):
        read = [read_partitions(source, choices=choices, coding=coding) for source in sources]
        return matched(read, [f"examples[{i}]" for i in range(len(read))])
    most = None if memory is None else memory // len(sources)
    words = choices.entries() if coding is None else coding.entries()
    whats = ["examples"] if len(sources) == 1 else [f"examples[{i}]" for i in range(len(sources))]
    given = [source_of(source, what, words) for source, what in zip(sources, whats, strict=True)]
    opened = aligned_sources(given, columns)
    for source in opened:
        source.watch = None if watch is None else partial(watch, source.what)
        source.most = source.most if most is None else min(source.most, most)
    if coding is not None:
        return [_coded(source, coding, source.notes, most, least or 1, True) for source in opened]
    if all(source.numbers is not None or is_made_up(source.names) for source in opened):
        alone = [_decided([source], choices, most, least or 2)[0] for source in opened]
        if all(code.kind == "words" for table in alone for code in table.coding.codes):
            return matched(alone, [source.what for source in opened])  # each with its own values
    found = _decided(opened, choices, most, least or 2)
    if columns == "union":
        used = set(found[0].coding.names)
        held = [[name for name in source.names if name in used] for source in given]
        check_joined(held, [source.what for source in opened])
        found = [replace(t, coding=replace(t.coding, partial=True)) for t in found]
    return found


def _decided(
    sources: Sequence[Source], choices: Choices, most: int | None, least: int
) -> list[Table]:
    """Look at all that the columns hold, choose a coding, and pack.

    What the first rows of a single source show is mostly true of the others: so its rows are packed
    on the way, and the second reading is spared where that was right.
    """
    if len(sources) == 1 and sources[0].numbers is not None and choices == Choices():
        return [_binary(sources[0], sources[0].numbers, most)]
    names = sources[0].names
    choices = choices.among(names)
    places = [places_of(s.names, names, s.what, sources[0].what) for s in sources]
    parts = [[Held.of(choices, name) for name in names] for _ in sources]
    whats, commas = [source.what for source in sources], [pointed(source) for source in sources]

    def decide() -> Decision:
        return Decider(whats, names, parts, choices, commas).decide()

    packing = None
    left = {names.index(name) for name in choices.ignore if name in names}
    for source, place, held in zip(sources, places, parts, strict=True):
        for first, block in zip(chain([True], repeat(False)), source.blocks(), strict=False):
            cells = [Cells(array) for array in block]
            for k, (column, j) in enumerate(zip(held, place, strict=True)):
                if k not in left:
                    column.add(cells[j])
            try:  # the first rows may allow no coding, and later ones hold words that it lacks
                if first and len(sources) == 1:
                    packing = Packing(source, decide().coding, most)
                if packing is not None:
                    packing.add(cells)
            except DataError:
                packing = None
    decision, found = decide(), []
    for source in sources:
        notes = [*source.notes, *decision.notes]
        if packing is not None and packing.coding == decision.coding:
            found.append(_table(packing, notes, least))
        else:
            found.append(_coded(source, decision.coding, notes, most, least))
    return found


def _coded(
    source: Source,
    coding: Coding,
    notes: Sequence[str],
    most: int | None,
    least: int,
    judge: bool = False,
) -> Table:
    """Turn the cells of a source into rows of bits."""
    packing = Packing(source, coding, most, judge)
    for block in source.blocks():
        packing.add([Cells(array) for array in block])
    return _table(packing, notes, least)


def _table(packing: Packing, notes: Sequence[str], least: int) -> Table:
    """Rows that are packed, with their names and what is odd about them."""
    what, rows = packing.source.what, packing.rows()
    if not isinstance(rows, Reread):
        rows = as_examples(rows, name=what, gaps=True, least=least)
    lacks = [lacking(what, packing.lacking)] if packing.lacking else []
    odd = oddities(rows, packing.coding)
    notes = (*notes, *lacks, *odd)
    return Table(rows, packing.coding.columns, packing.ids(), packing.coding, notes)


def _binary(source: Source, numbers: Numbers, most: int | None) -> Table:
    """Pack an array of +-1, 0/1 or booleans, as `hopfed.tables.examples` does."""
    minus = zeros = False
    for part in source.parts():
        minus, zeros = minus or (part == -1).any(), zeros or (part == 0).any()
        if minus and zeros:
            break
    rows: PackedBits | MaskedBits | Reread = numbers.whole
    if rows is None or getattr(rows, "nbytes", 0) > min(LARGE, most or LARGE):
        rows = _gathered(source, bool(minus), most)
    if not isinstance(rows, Reread):
        rows = as_examples(rows, name=source.what, gaps=True)
    gaps = rows.gaps if isinstance(rows, Reread) else isinstance(rows, MaskedBits)
    coding = Coding.of_bits(source.names, bool(minus) and gaps)
    zero = [ZERO_IS_MISSING] if gaps and minus and zeros else []
    notes = (*source.notes, *oddities(rows, coding), *zero)
    return Table(rows, source.names, source.ids, coding, notes)


def _gathered(source: Source, minus: bool, most: int | None) -> PackedBits | MaskedBits | Reread:
    """Pack an array part by part; 0 is missing where -1 occurs."""
    gathered = Gathered(source.what, most)

    def again() -> Iterator[PackedBits | MaskedBits]:
        before = 0
        for part in source.parts():
            yield packed(part, source.what, (part == 0) if minus else None, before)
            before += len(part)

    for bits in again():
        gathered.add(bits)
    return gathered.rows(again, lambda: source.readings)
