"""`read_table`: from a file, a frame, an array or lists to rows of bits with their names."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any

import numpy as np

from hopfed import kernels
from hopfed._lib.memory_limits import require_memory
from hopfed.data.readers import as_examples
from hopfed.errors import DataError, shown
from hopfed.kernels import MaskedBits
from hopfed.tables.choices import Choices
from hopfed.tables.coding import UNKNOWN, Code, Coding
from hopfed.tables.contents import Contents, as_numbers, distinct
from hopfed.tables.deciding import Decider, Decision
from hopfed.tables.oddities import oddities
from hopfed.tables.sources import Block, Source, source_of
from hopfed.tables.table import Table, check_columns, is_made_up, listed, made_up, matched
from hopfed.tables.vocabulary import GONE, MISSING, canonical, number


def read_table(
    source: Any,
    *,
    id: str | None = None,  # noqa: A002  (what everybody calls it)
    ignore: Sequence[str] = (),
    words: Mapping[str, Any] | None = None,
    binarize: Any = None,
    coding: Coding | None = None,
) -> Table:
    """Read a table of yes and no, of numbers or of categories.

    Words for yes and no, true and false, present and absent, + and -, 0 and 1, 1 and 2 or -1 and +1
    become +-1, in any case; blank cells, NA, null, ?, . and the like are missing, and 0 is where -1
    occurs. A column of other words becomes one column of +-1 for each. A first row of names, and a
    column that names the rows, are found.

    Parameters
    ----------
    source : path of a file (.csv, .tsv, .npy, .npz, .h5), a mapping from names to columns, an
        array, or rows in lists.
    id : name of the column that names the rows; "" for none, one is looked for when left out.
    ignore : names of columns to leave out, such as labels.
    words : word -> True (+1), False (-1) or None (missing), for words that are not known; name of
        a column -> such words of its own, or "category".
    binarize : what becomes of columns with more than two numbers: +1 above their "median",
        "mean", "quantile:Q" or a number; "levels" for a column of each value; or a mapping from
        names of columns to these.
    coding : `Table.coding` of another table: this one is coded in the same way, its columns found
        by name.

    Raises
    ------
    DataError : one line, with the names of row and column: no such file, not a table, a word or a
        number of which it is not known what it stands for.

    Examples
    --------
    >>> table = read_table({"name": ["Ann", "Ben", "Cem"], "tea": ["yes", "no", "?"]})
    >>> table.columns, table.ids.tolist(), kernels.unpack(table.rows).ravel().tolist()
    (('tea',), ['Ann', 'Ben', 'Cem'], [1, -1, 0])
    """
    choices = Choices(id, tuple(ignore), words, binarize)
    return read_tables([source], choices=choices, coding=coding)[0]


def read_tables(
    sources: Sequence[Any], *, choices: Choices | None = None, coding: Coding | None = None
) -> list[Table]:
    """Read tables that are coded alike: what a column holds is looked at in all of them.

    Parameters
    ----------
    sources : as of `read_table`; their columns are matched by name.
    choices : what is told of them.
    coding : of another table; made from these when left out.

    Examples
    --------
    >>> tables = read_tables([{"tree": ["ash", "yew"]}, {"tree": ["oak", "oak"]}])
    >>> [table.columns for table in tables][1]
    ('tree=ash', 'tree=oak', 'tree=yew')
    """
    choices, least = choices or Choices(), 2 if coding is None else 1
    opened = [source_of(source) for source in sources]
    whats = [source.what for source in opened]
    if coding is None and all(is_made_up(s.names) and s.ids is None for s in opened):
        alone = [_alone(source, choices) for source in opened]
        if all(code.kind == "words" for table in alone for code in table.coding.codes):
            return matched(alone, whats)  # each has its own values for yes and no
    notes: list[str] = []
    if coding is None:
        decision = _decide(opened, choices)
        coding, notes = decision.coding, decision.notes
    return [_coded(source, coding, [*source.notes, *notes], least) for source in opened]


def _alone(source: Source, choices: Choices) -> Table:
    """Read one source that has no names."""
    if source.array is not None and choices == Choices():
        return _binary(source)
    decision = _decide([source], choices)
    return _coded(source, decision.coding, [*source.notes, *decision.notes])


def _decide(sources: Sequence[Source], choices: Choices) -> Decision:
    """Look at all that the columns hold, and choose a coding."""
    names = sources[0].names
    places = [_places(source, sources[0]) for source in sources]
    fresh = [
        Contents(
            kept=[] if choices.cut(name) is not None else None,
            missing=MISSING | {w for w, sign in choices.signs(name).items() if sign == GONE},
        )
        for name in names
    ]
    parts = [deepcopy(fresh) for _ in sources]
    for source, place, held in zip(sources, places, parts, strict=True):
        for block in source.blocks():
            for contents, j in zip(held, place, strict=True):
                contents.add(block[j])

    def where(j: int, word: str) -> tuple[str, int]:
        for source, place in zip(sources, places, strict=True):
            row = source.row_of(place[j], lambda said: canonical(said) == word)
            if row:
                return source.what, row
        return sources[0].what, 0

    return Decider([source.what for source in sources], names, parts, choices, where).decide()


def _places(source: Source, first: Source) -> list[int]:
    """Where the columns of the first source are in another one; by name if both have names."""
    if is_made_up(source.names) or is_made_up(first.names):
        if len(source.names) != len(first.names):
            raise DataError(
                f"files must be of equal width; {first.what} has {len(first.names)} columns, "
                f"got {source.what} with {len(source.names)}"
            )
        return list(range(len(source.names)))
    place = {name: j for j, name in enumerate(source.names)}
    check_columns(source.names, first.names, source.what, first.what)
    return [place[name] for name in first.names]


def _coded(source: Source, coding: Coding, notes: Sequence[str], least: int = 2) -> Table:
    """Turn the cells of a source into rows of bits."""
    places = _coded_places(source, coding)
    id_place = _id_place(source, coding)
    signs, seen, ids = [], [], []
    for start, block in _counted(source.blocks()):
        parts = [
            _column(source, name, code, block[j], start)
            for name, code, j in zip(coding.names, coding.codes, places, strict=True)
        ]
        codes = np.concatenate(parts, axis=1)
        signs.append(kernels.pack(codes > 0))
        seen.append(kernels.pack(codes != GONE))
        if id_place is not None:
            ids += [_name(word) for word in block[id_place].to_pylist()]
    plus, present = kernels.concatenate(signs), kernels.concatenate(seen)
    complete = int(kernels.column_sums(present).sum()) == math.prod(present.shape)
    rows = plus if complete else MaskedBits(plus, present)
    rows = as_examples(rows, name=source.what, gaps=True, least=least)
    names = source.ids if id_place is None else _names(ids, source.what)
    odd = oddities(rows, coding.columns)
    return Table(rows, coding.columns, names, coding, (*notes, *odd))


def _counted(blocks: Iterable[Block]) -> Iterator[tuple[int, Block]]:
    """Blocks with the number of rows before each."""
    before = 0
    for block in blocks:
        yield before, block
        before += len(block[0])


def _coded_places(source: Source, coding: Coding) -> list[int]:
    """Where the columns of a coding are in a source."""
    place = {name: j for j, name in enumerate(source.names)}
    lacks = [name for name in coding.names if name not in place]
    if not lacks:
        return [place[name] for name in coding.names]
    if is_made_up(source.names) and len(source.names) == len(coding.names):
        return list(range(len(source.names)))
    raise DataError(f"{source.what}: lacks the column(s) {listed(lacks)}")


def _id_place(source: Source, coding: Coding) -> int | None:
    found = [source.names.index(name) for name in coding.ids if name in source.names]
    return found[0] if found else None


def _column(source: Source, name: str, code: Code, array: Any, start: int) -> np.ndarray:
    """Columns (rows, width) of -1, 0 and +1 of one column of cells."""
    if code.kind == "number":
        values = as_numbers(array, MISSING | {word for word, _ in code.words})
        if values is not None:
            above = np.where(values > code.threshold, np.int8(1), np.int8(-1))
            above[np.isnan(values)] = GONE
            return above[:, None]
    words, places = distinct(array)
    if code.kind == "number":
        known = {word for word, _ in code.words} | MISSING
        codes = np.array(
            [0 if canonical(w) in known or number(w) is not None else UNKNOWN for w in words]
        )
    else:
        codes = code.codes(words)
    odd = np.flatnonzero(codes == UNKNOWN)
    if len(odd):
        row = start + int(np.flatnonzero(np.isin(places, odd))[0]) + 1
        word = words[places[row - start - 1]]
        raise DataError(
            f"{source.what}: row {row}, column '{shown(name, 60)}': '{shown(word, 40)}' was not "
            f"there when the coding was made: {shown(code)}"
        )
    return code.signs(np.append(codes, GONE)[places])


def _name(word: object) -> str:
    return "" if word is None else str(word).strip()


def _names(ids: list[str], what: str) -> np.ndarray:
    require_memory(4 * len(ids) * max(map(len, ids), default=0), what)
    return np.array(ids, dtype=str)


def _binary(source: Source) -> Table:
    """Pack an array of +-1, 0/1 or booleans, as `hopfed.data.readers` does."""
    rows = as_examples(source.array, name=source.what, gaps=True)
    minus = isinstance(rows, MaskedBits) and bool((source.array == -1).any())
    low = {"-1": -1, "0": GONE} if minus else {"0": -1, "-1": -1}
    code = Code("words", tuple({**low, "1": 1, "false": -1, "true": 1}.items()))
    columns = made_up(rows.shape[1])
    coding = Coding(columns, (code,) * len(columns))
    return Table(rows, columns, source.ids, coding, tuple(oddities(rows, columns)))
