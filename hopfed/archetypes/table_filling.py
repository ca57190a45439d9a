"""Fill the gaps of a table by its archetypes, in the words of the table.

Cells with an entry stay as they are. A missing cell gets the commonest word of its column for the
likelier sign, or the likeliest level. A number that was cut stays blank; so do a row and a column
without any entry, and a question that another column's answer marks as skipped. A table is read
twice, a block at a time: for the words that its columns hold, and to fill it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from hopfed import kernels
from hopfed.archetypes.assignment import Completion, coded_as, complete, unknown_columns
from hopfed.errors import DataError
from hopfed.spectral.rows import is_blank
from hopfed.spectral.skips import Skip, find_skips
from hopfed.tables.coding import Cells, Code, Coding, spell
from hopfed.tables.formats import source_of
from hopfed.tables.reading import Packing, read_table
from hopfed.tables.writers import Column, text_cell

if TYPE_CHECKING:
    from hopfed.archetypes.archetypes import Archetypes


class Filled(NamedTuple):
    """A block of a table's rows whose gaps are filled, and counts of its cells."""

    columns: list[Column]  # of the source, in its order, as names and Arrow arrays of cells
    completion: Completion  # its rows of +-1, and how probable their entries are
    gaps: np.ndarray  # (M, N) booleans, which of these were missing
    cells: int  # number of cells in the columns that archetypes know; a category is one of them
    filled: int  # number of these cells that were filled
    right: float  # expected number of filled cells that are right
    blank: int  # rows without any entry, which stay blank
    left: int  # cells that stay blank because their question was skipped


class Filling:
    """Filler of the gaps of a table by archetypes, in blocks; `source` is that of `read_table`.

    `skipped` fills questions that were skipped as well. `types` are the result's types of Arrow by
    name; columns in `cut`, of numbers with gaps, and in `unknown` stay as they are.
    """

    def __init__(self, found: Archetypes, source: Any, *, skipped: bool = False):
        import pyarrow as pa

        if not len(found):
            raise DataError(f"no archetypes were found ({found.status}): nothing to fill rows by")
        self.found = found if found.coding is not None else coded_as(found, read_table(source))
        coding = self.coding = cast(Coding, self.found.coding)
        self.columns = coding.columns
        self._source = source_of(source)
        self.dialect = self._source.dialect
        self.cut: list[str] = []
        self.unknown: list[str] = []
        self.skips: list[Skip] = []
        self._fills_skipped = skipped
        self._own: set[str] = set()  # words of the source that look like formulas
        self._starts = np.cumsum([0, *(code.width for code in coding.codes)])[:-1]
        self._void = unknown_columns(self.found)[self._starts]
        self.types = dict(zip(self._source.names, self._look(), strict=True))
        self._ids = self._source.ids
        if self._ids is not None:
            self.types = {"id": pa.string(), **self.types}

    def _look(self) -> list[Any]:
        """Read the table for the words of its columns; return the types of the filled columns."""
        import pyarrow as pa

        packing, codes = Packing(self._source, self.coding), self.coding.codes
        counts: list[Counter[str]] = [Counter() for _ in codes]
        seen, rows = np.zeros(len(self.coding), np.int64), 0
        types: list[Any] = [None] * len(self._source.names)
        for given in self._source.read():
            cells = [Cells(array) for array in self._source.plain(given)]
            part = packing.pack(cells)
            if not rows and not self._fills_skipped:  # the first block decides
                self.skips = [skip for skip in find_skips(part, self.coding.steps) if skip.always]
            seen, rows = seen + kernels.seen_counts(part), rows + len(part)
            if self.skips:
                signs = kernels.unpack(part)
                seen += ((signs == 0) & self._left(signs)).sum(axis=0)
            for count, code, j in zip(counts, codes, packing.places, strict=True):
                if code.kind == "words" and j is not None:  # as written, with its comma
                    held = cells[j] if given[j] is cells[j].array else Cells(given[j])
                    often = np.bincount(held.places[held.places >= 0], minlength=len(held.words))
                    for word, n in zip(held.words, often.tolist(), strict=True):
                        count[word.strip()] += n
                if code.levels and j is not None:
                    self._own.update(word for word in cells[j].words if text_cell(word) != word)
            for j, array in enumerate(given):
                types[j] = array.type if types[j] in (None, array.type) else pa.string()
        if not rows:
            raise DataError(f"{self._source.label}: at least 1 example(s) are needed, got 0")
        commas = [j in self._source.commas for j in packing.places]
        self._words = list(map(_commonest, codes, counts, commas))
        named = zip(self._starts, packing.places, codes, self._words, strict=True)
        for k, (start, j, code, words) in enumerate(named):
            if j is None or seen[start] == rows:
                continue
            if self._void[k] or code.kind == "number":
                (self.unknown if self._void[k] else self.cut).append(self.coding.names[k])
                continue
            if code.kind == "answers" or not _is_of(types[j], code.levels or words.values()):
                types[j] = pa.string()
        return types

    def blocks(self) -> Iterator[Filled]:
        """Read the table again, and yield it filled, a block at a time."""
        import pyarrow as pa
        import pyarrow.compute as pc

        packing, before = Packing(self._source, self.coding), 0
        kinds = [self.types[name] for name in self._source.names]
        for given in self._source.read():
            rows = packing.pack([Cells(array) for array in self._source.plain(given)])
            whole, gaps, right = complete(self.found, rows), kernels.unpack(rows) == 0, 0.0
            answered, left, filled = ~is_blank(rows), self._left(whole.values), 0
            arrays = [of_kind(array, kind) for array, kind in zip(given, kinds, strict=True)]
            start = 0
            each = zip(packing.places, self.coding.codes, self._words, self._void, strict=True)
            for j, code, words, void in each:
                span = slice(start, start + code.width)
                start += code.width
                if j is None or void or code.kind == "number":
                    continue
                gap = gaps[:, span.start] & answered & ~left[:, span.start]
                if gap.any():
                    values, rows_of = whole.values[:, span], np.flatnonzero(gap)
                    texts = self._fill(values, code, words)
                    texts[~gap] = None  # these may be no values of the column's type
                    words_of = pa.array(texts.tolist(), pa.string()).cast(arrays[j].type)
                    arrays[j] = pc.if_else(pa.array(gap), words_of, arrays[j])
                    filled += len(rows_of)
                    chosen = values[gap].argmax(axis=1) if code.width > 1 else 0
                    sure = whole.probability[gap, span][np.arange(len(rows_of)), chosen]
                    right += float(sure.sum(dtype=np.float64))
            if self._ids is not None:
                arrays.insert(0, pa.array(self._ids[before : before + len(rows)].tolist()))
            before += len(rows)
            there = [j is not None for j in packing.places]
            cells = len(rows) * int((there & ~self._void).sum())
            columns = list(zip(self.types, arrays, strict=True))
            kept = int((left & gaps & answered[:, None])[:, self._starts].sum())
            yield Filled(columns, whole, gaps, cells, filled, right, int((~answered).sum()), kept)

    def _fill(self, values: np.ndarray, code: Code, words: dict[int, str]) -> np.ndarray:
        """(M,) texts that stand for values (M, width) of +-1."""
        if code.kind == "answers":
            texts: Iterable[str] = (code.joined(row) for row in values > 0)
        elif code.kind == "ordinal":
            texts = (code.levels[n] for n in (values > 0).sum(axis=1))
        elif code.kind == "category":
            chosen = values.argmax(axis=1) if code.width > 1 else (values[:, 0] > 0).astype(int)
            texts = (code.levels[n] for n in chosen)
        else:
            return np.where(values[:, 0] > 0, words[1], words[-1]).astype(object)
        return np.array([w if w in self._own else text_cell(w) for w in texts], dtype=object)

    def _left(self, values: np.ndarray) -> np.ndarray:
        """(M, N) booleans: columns that rows of these values, 0 where missing, skip."""
        left = np.zeros(values.shape, bool)
        for skip in self.skips:
            left[np.ix_(values[:, skip.column] == skip.sign, skip.blank)] = True
        return left


def of_kind(array: Any, kind: Any) -> Any:
    """Cast an Arrow array of filled cells to a type of Arrow: that of its column, or text."""
    import pyarrow as pa

    if array.type == kind:
        return array
    if kind != pa.string():
        return array.cast(kind)
    return pa.array([None if v is None else spell(v) for v in array.to_pylist()], pa.string())


def _is_of(kind: Any, words: Collection[str]) -> bool:
    """Whether all words of filled cells are values of a type of Arrow: 0 and 1 are numbers."""
    import pyarrow as pa

    t = pa.types
    if not any(of(kind) for of in (t.is_boolean, t.is_integer, t.is_floating, t.is_decimal)):
        return False
    try:
        pa.array(list(words), pa.string()).cast(kind)
    except pa.ArrowException:
        return False
    return True


def _commonest(code: Code, counts: Counter[str], comma: bool) -> dict[int, str]:
    """Word that fills a column's cells, for each sign: its commonest, else one of the coding."""
    found = {}
    for sign in (-1, 1):
        default = text_cell(next((w for w, s in code.words if s == sign), f"{sign:+d}"))
        found[sign] = default.replace(".", ",") if comma else default
    words = [word for word, _ in counts.most_common()][::-1]
    plain = [word.replace(",", ".") if comma else word for word in words]
    signs = code.entries(plain)[0].tolist()
    found.update((sign, word) for word, sign in zip(words, signs, strict=True))
    return found
