"""`read_table`: from a file, a frame, an array or lists to rows of bits with their names."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hopfed import kernels
from hopfed._lib.cluster import dask_itself
from hopfed._lib.memory_limits import require_memory
from hopfed._lib.settings import require
from hopfed.errors import ColumnsError, DataError, shown
from hopfed.kernels import Rows
from hopfed.spectral.reread_rows import Partitioned, Reread, Totals
from hopfed.tables import arrays
from hopfed.tables.choosing import Decider, looked, together
from hopfed.tables.coding import UNKNOWN, Code, Coding
from hopfed.tables.examples import NotBinaryError, as_examples, packed
from hopfed.tables.files import files_of, reading
from hopfed.tables.formats import source_of
from hopfed.tables.options import Choices
from hopfed.tables.remarks import ZERO_IS_MISSING, oddities
from hopfed.tables.table import (
    SHOWN,
    Source,
    Table,
    aligned_sources,
    check_choice,
    check_joined,
    columns_error,
    is_made_up,
    lacking,
    listed,
    made_up,
    matched,
)
from hopfed.tables.words import GONE, Cells, as_numbers

__all__ = ["read_table", "read_tables"]

LONG = 1_000  # characters of the name of a row, at most
WORDS = 5  # unknown words of a column that an error names


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
    ordinal : names of columns of ordered answers, such as 1 to 5, or one such name; or a mapping
        from names to levels, the lowest first, which words need. Each level but the last becomes a
        column: +1 above it, -1 at it, and missing below it, so that columns of one answer depend
        on each other in no other way, and there is one number fewer for each class than levels.
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
    left = (ignore,) if isinstance(ignore, str) else tuple(ignore)
    choices = Choices(id, left, words, binarize, ordinal=ordinal)
    if coding is not None and words:
        coding = with_words(coding, Choices(words=words))
        rule = "for missing entries, or words of columns of words, beside a coding"
        require(coding is not None, "words", rule, words)
    [table] = read_tables([source], choices=choices, coding=coding, memory=memory)
    label = str(source) if isinstance(source, str | os.PathLike) else "examples"
    for line in table.notes:
        if line.startswith("0 is missing"):
            warnings.warn(f"{label}: {line}", stacklevel=2)
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
    labels = ["examples"] if len(sources) == 1 else [f"examples[{i}]" for i in range(len(sources))]
    given = [source_of(source, label, words) for source, label in zip(sources, labels, strict=True)]
    check_choice(columns)
    for source in given:
        source.watch = None if watch is None else partial(watch, source.label)
    if coding is not None:
        return [_coded(Packing(source, coding, most), source.notes, least or 1) for source in given]
    opened = aligned_sources(given, columns)
    if all(source.numbers is not None or is_made_up(source.names) for source in opened):
        alone = [_decided([source], choices, most, least or 2)[0] for source in opened]
        codes = [code for table in alone for code in table.coding.codes]
        if all(code.kind == "words" and "2" not in dict(code.words) for code in codes):
            return matched(alone, [source.label for source in opened])  # each with its own values
    found = _decided(opened, choices, most, least or 2)
    if columns == "union":
        check_joined(given, set(found[0].coding.names))
        found = [replace(t, coding=replace(t.coding, partial=True)) for t in found]
    return found


def _decided(
    sources: Sequence[Source], choices: Choices, most: int | None, least: int
) -> list[Table]:
    """Look at all that the columns hold, choose a coding, and pack."""
    first = sources[0]
    if len(sources) == 1 and first.numbers is not None and choices == Choices():
        with suppress(NotBinaryError):  # then its columns are as those of any table
            return [_binary(first, most)]
    choices = choices.among(first.names)
    packing: Packing | None = None

    def bits() -> Iterator[Rows]:
        """Look at a table alone, and pack it as its first rows say as long as that will do."""
        nonlocal packing
        for k, cells in enumerate(looked(first, choices)):
            try:
                if k == 0:
                    packing = Packing(first, Decider(sources, choices).decide()[0], most)
                rows = None if packing is None else packing.packed(cells)
            except DataError:
                if k == 0 and first.numbers is not None:
                    raise
                rows = packing = None
            if rows is not None:
                yield rows

    rows = None
    if len(sources) == 1:
        rows = gathered(first, bits(), lambda: Packing(first, coding).blocks(), most)
    else:
        for _ in chain(*(looked(source, choices) for source in sources)):
            pass
    coding, said = Decider(sources, choices).decide()
    if packing is not None and packing.coding == coding:
        return [_coded(packing, [*first.notes, *said], least, rows)]
    packings = [Packing(source, coding, most) for source in sources]
    return [_coded(packing, [*packing.source.notes, *said], least) for packing in packings]


def _coded(packing: Packing, notes: Sequence[str], least: int, rows: Rows | None = None) -> Table:
    """Turn cells into rows of bits, unless that was done, and say what is odd about them."""
    source, coding = packing.source, packing.coding
    if rows is None:
        blocks, most = packing.blocks(), packing.most
        rows = gathered(source, blocks, lambda: Packing(source, coding).blocks(), most)
    if rows is None:
        raise DataError(f"{source.label}: at least two examples are needed, got 0")
    if rows.held:
        rows = as_examples(rows, name=source.label, gaps=True, least=least)
    lacks = [n for n, j in zip(coding.names, packing.places, strict=True) if j is None]
    lines = [lacking(source.label, lacks)] if lacks else []
    return _table(rows, coding, [*notes, *lines], packing.ids())


def gathered(
    source: Source,
    parts: Iterable[Rows],
    again: Callable[[], Iterator[Rows]],
    most: int | None = None,
) -> Rows | None:
    """Return rows that come in parts, held while they fit; else what reads them `again`."""
    held: list[Rows] = []
    nbytes, totals = 0, None
    for part in parts:
        if totals is not None:
            totals.add(part)
            continue
        held.append(part)
        nbytes += part.nbytes
        if most is None:
            require_memory(nbytes, source.label)  # to put them together
        elif nbytes > most:
            totals = Totals.none(part.n)
            while held:
                totals.add(held.pop(0))
    if totals is not None:
        return Reread(again, totals, lambda: source.readings)
    return kernels.concatenate(held) if held else None


def _table(
    rows: Rows, coding: Coding, notes: Sequence[str], ids: np.ndarray | None = None
) -> Table:
    """A table, and what is odd about its rows."""
    if isinstance(rows, Partitioned) and len(rows) < 2:
        raise DataError(f"examples: at least two examples are needed, got {len(rows)}")
    return Table(rows, coding.columns, ids, coding, (*notes, *oddities(rows, coding)))


def _binary(source: Source, most: int | None) -> Table:
    """Pack an array of +-1, 0/1 or booleans, as `hopfed.tables.examples` does."""
    minus = zeros = False
    rows = source.rows
    for part in source.parts() if rows is None else ():
        minus, zeros = minus or bool((part == -1).any()), zeros or bool((part == 0).any())
        if minus and zeros:
            break

    def again() -> Iterator[Rows]:
        before = 0
        for part in source.parts():  # 0 is missing where -1 occurs
            yield packed(part, source.label, (part == 0) if minus else None, before)
            before += len(part)

    rows = gathered(source, again(), again, most) if rows is None else rows
    if rows is None or rows.held:
        rows = as_examples(rows, name=source.label, gaps=True)
    zero = [ZERO_IS_MISSING] if rows.gaps and minus and zeros else []
    coding = Coding.of_bits(source.names, minus and rows.gaps)
    return _table(rows, coding, [*source.notes, *zero], source.ids)


# Cells to bits


class Packing:
    """Packs rows block by block, as they are read, and keeps the names of at most `most` bytes."""

    def __init__(self, source: Source, coding: Coding, most: int | None = 0):
        self.source, self.coding, self.most = source, coding, most
        self.places = self._places()
        self._id = next((source.names.index(n) for n in coding.ids if n in source.names), None)
        self._count = self._letters = self._bytes = 0
        self._ids: list[str] = []
        for name, code, j in zip(coding.names, coding.codes, self.places, strict=True):
            own = "" if j is None else source.doubts.get(source.names[j], "")
            if own and code.kind == "number":
                raise DataError(f"{source.label}: column '{shown(name, 60)}' {own}")

    def _places(self) -> list[int | None]:
        """Where the columns of the coding are in the source; None for one that it may lack."""
        coding, names = self.coding, self.source.names
        place = {name: j for j, name in enumerate(names)}
        lacks = [name for name in coding.names if name not in place]
        if lacks and is_made_up(names) and len(names) == len(coding.names):
            return list(range(len(names)))
        if not lacks or (coding.partial and len(lacks) < len(coding.names)):
            return [place.get(name) for name in coding.names]
        known = {*coding.names, *coding.ids, *coding.ignored}
        more = [name for name in names if name not in known]
        way = f"rename {listed(more)}, or " if more else ""
        way += "add them with blank cells, which are missing"
        raise DataError(f"{self.source.label}: lacks the column(s) {listed(lacks)}; {way}")

    def packed(self, cells: list[Cells]) -> Rows:
        """Pack the rows of a block."""
        rows = len(cells[0]) if cells else 0
        parts: list[np.ndarray] = []
        odd: dict[str, tuple[str, list[str]]] = {}  # by column: a line, and the first words
        columns = zip(self.coding.names, self.coding.codes, self.places, strict=True)
        for name, code, j in columns:
            if j is None:
                parts.append(np.full((code.width, rows), GONE, np.int8))
                continue
            parts.append(signs(code, cells[j]))
            unknown = parts[-1][0] == UNKNOWN
            if not unknown.any():
                continue
            places = dict.fromkeys(cells[j].places[unknown].tolist())
            words = [cells[j].words[k].strip() for k in islice(places, WORDS + 1)]
            word, *others = (f"'{shown(word, 40)}'" for word in words)
            word += f" (and {', '.join(others)})" * bool(others)
            row = self._count + int(unknown.argmax()) + 1
            why = f"was not there when the coding was made: {shown(code)}"
            why = "is not a number" if code.kind == "number" else why
            odd[name] = f"row {row}, column '{shown(name, 60)}': {word} {why}", words
        if odd:
            raise _unknown_words(self.source.label, odd)
        codes = np.concatenate(parts)
        self._count += codes.shape[1]
        found, blank = kernels.pack(codes.T > 0), codes == GONE
        found = replace(found, seen=kernels.pack(~blank.T).signs) if blank.any() else found
        self._bytes += found.nbytes
        if not self.holds:
            self._ids = []
        elif self._id is not None:
            names = [*(word.strip() for word in cells[self._id].words), ""]
            self._letters += sum(map(len, names))
            require_memory(self._letters, self.source.label)
            self._ids += [names[place] for place in cells[self._id].places.tolist()]
        return found

    @property
    def holds(self) -> bool:
        """Whether the rows so far take no more bytes than they may."""
        return self.most is None or self._bytes <= self.most

    def blocks(self) -> Iterator[Rows]:
        """Read the source, and pack its blocks."""
        for block in self.source.blocks():
            yield self.packed([Cells(array) for array in block])

    def ids(self) -> np.ndarray | None:
        """Return the names of the rows, None where they have none."""
        if self._id is None or not self.holds:
            return self.source.ids if self.holds else None
        longest = max(map(len, self._ids), default=0)
        if longest > LONG:  # an array keeps as much for each as for the longest
            raise DataError(
                f"{self.source.label}: a row has a name of {longest:,} characters; name another "
                "column of names, or '' for none (--id, id=)"
            )
        return np.array(self._ids, dtype=str)


def signs(code: Code, cells: Cells) -> np.ndarray:
    """Rows (width, rows) of -1, 0, +1 and UNKNOWN for a column of cells."""
    values = as_numbers(cells.array, code.missing) if code.kind == "number" else None
    if values is not None:
        above = np.where(values > code.threshold, np.int8(1), np.int8(-1))
        above[np.isnan(values)] = GONE
        return above[None]
    entries = code.entries(cells.words)
    return np.hstack([entries, np.full((len(entries), 1), GONE, np.int8)])[:, cells.places]


def _unknown_words(label: str, columns: dict[str, tuple[str, list[str]]]) -> ColumnsError:
    """Return the error about columns that hold words that a coding does not know."""
    lines, words = zip(*columns.values(), strict=True)
    gone = {word: GONE for word in chain(*words) if shown(word, 60) == word}
    own = Choices().give(words=dict(list(gone.items())[:1]))
    more = " and so on" if len(gone) > 1 else ""
    way = f"{Choices(options=True).give(words=gone)} ({own}{more})"
    last = f"if there is no answer, read them as missing, or say +1 or -1: {way}"
    said = f"{len(columns):,} column(s) hold words that are not known"
    return columns_error(label, said, lines[:SHOWN], list(columns), last)


def with_words(coding: Coding, given: Choices) -> Coding | None:
    """Return a coding that knows more words; None if more was said than words, or in vain."""
    given = given.among(coding.names)
    only_words = given == Choices(words=given.words, options=given.options)
    if not given.words or not only_words or given.named() - set(coding.names):
        return None
    codes, taken, wanted = [], set[str](), set[str]()
    for name, code in zip(coding.names, coding.codes, strict=True):
        said, known = given.signs(name), dict(code.words)
        wanted |= {word for word, sign in said.items() if sign != GONE}
        signs = {w: s for w, s in said.items() if s == GONE or code.kind == "words"}
        for word, sign in known.items():
            short = shown(word, 40)
            rule = f"for other words than '{short}', which is {sign:+d} in '{shown(name, 60)}'"
            got = f"{short}={signs.get(word, GONE):+d}"
            require(signs.get(word, GONE) * sign >= 0, given.called("words"), rule, got)
        taken |= signs.keys()
        fresh = [(word, sign) for word, sign in signs.items() if word not in known]
        codes.append(replace(code, words=(*code.words, *fresh)))
    return None if wanted - taken else replace(coding, codes=tuple(codes))


PART = 1 << 24  # entries of a partition of a zarr store


def is_partitioned(given: Any) -> bool:
    """Whether something is a collection of Dask: an array or a frame."""
    return hasattr(given, "__dask_graph__")


def read_partitions(
    given: Any, *, choices: Choices | None = None, coding: Coding | None = None
) -> Table:
    """Read a table that is in partitions, on Dask's workers; its bits stay there."""
    dask, parts = dask_itself(), _parts_of(given)
    choices, notes = choices or Choices(), list[str]()

    def run(work: Any, *more: Any) -> list[Any]:
        return [dask.delayed(work, pure=False)(part.given, part.label, *more) for part in parts]

    if all(part.plain for part in parts) and choices == Choices() and coding is None:
        with suppress(NotBinaryError):  # then columns are as those of any table
            bits = dask.persist(*run(_packed))
            # Whether 0 is -1 or missing is known once all of them were looked at.
            minus, zeros = map(any, zip(*dask.compute(*(held[1:] for held in bits)), strict=True))
            settle = dask.delayed(_settled, pure=False)
            rows = Partitioned.of([settle(held[0], held[1], minus) for held in bits])
            notes += [ZERO_IS_MISSING] if minus and zeros else []
            return _table(rows, Coding.of_bits(made_up(rows.shape[1]), minus), notes)
    if coding is None:
        label = "examples" if is_partitioned(given) else parts[0].label
        whole = together(dask.compute(*run(_looked, choices)), label)
        coding, said = Decider([whole], choices).decide()
        notes = [*whole.notes, *said]
    return _table(Partitioned.of(run(_packed_by, choices, coding)), coding, notes)


class _Part(NamedTuple):
    """A partition: what is read (a task, or a path), its name, and whether it is numbers."""

    given: Any
    label: str
    plain: bool


def _parts_of(given: Any, label: str = "partition") -> list[_Part]:
    """Partitions of a collection; files, and of a zarr store as many chunks as make a partition."""
    if is_partitioned(given):
        plain = False
        if hasattr(given, "rechunk"):
            if given.ndim < 2:
                raise DataError(f"examples must be rows of a table, got {given.ndim} axes")
            given = given.rechunk(dict.fromkeys(range(1, given.ndim), -1))
            plain = given.dtype.kind in "biuf"
        blocks = np.ravel(given.to_delayed()).tolist() if hasattr(given, "to_delayed") else [given]
        return [_Part(block, f"{label} {i}", plain) for i, block in enumerate(blocks)]
    found = []
    paths = [given] if isinstance(given, str | os.PathLike) else given
    for path in [file for each in paths for file in files_of(Path(each))]:
        if path.suffix.lower() != ".zarr":
            found.append(_Part(str(path), str(path), path.suffix.lower() in arrays.ENDINGS))
            continue
        import dask.array

        with reading(path, "cannot be read as zarr"):
            held = arrays.zarr_array(path)
        width, chunk = math.prod(held.shape[1:]), held.chunks[0]
        rows = max(PART // max(width * chunk, 1), 1) * chunk
        whole = dask.array.from_zarr(held).rechunk((rows, *(-1,) * (held.ndim - 1)))
        found += _parts_of(whole, f"{path}, partition")
    return found


# Work of a task, once Dask has made what it is given


def _packed(given: Any, label: str) -> tuple[Rows, bool, bool]:
    """Rows of numbers as if there were no others, and whether -1 and 0 occur in them."""
    if not isinstance(given, np.ndarray):
        source = source_of(given, label)
        if source.numbers is None:
            raise DataError(f"{source.label}: an array of words; give words in .csv or .parquet")
        found = list(source.parts())
        given = np.concatenate(found) if found else np.empty((0, len(source.names)))
    x = given.reshape(len(given), -1)
    return packed(x, label), bool((x == -1).any()), bool((x == 0).any())


def _settled(bits: Rows, own: bool, minus: bool) -> Rows:
    """Rows of a partition, whose zeros are missing where -1 occurs in another one only."""
    if own or not minus:
        return bits
    ones = Rows(bits.signs, bits.n)
    whole = (kernels.column_sums(ones) == len(ones)).all()
    return ones if whole else replace(ones, seen=bits.signs)


def _looked(given: Any, label: str, choices: Choices) -> Source:
    source = source_of(given, label, choices.entries())
    for _ in looked(source, choices.among(source.names)):
        pass
    return replace(source, read=lambda: iter(()), numbers=None)


def _packed_by(given: Any, label: str, choices: Choices, coding: Coding) -> Rows:
    found = list(Packing(source_of(given, label, choices.entries()), coding).blocks())
    return kernels.concatenate(found or [kernels.pack(np.ones((0, len(coding.columns))))])
