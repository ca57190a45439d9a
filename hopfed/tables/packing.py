"""Cells of a source packed to bits by a coding, a block at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from hopfed import kernels
from hopfed._lib.memory_limits import require_memory
from hopfed._lib.settings import require
from hopfed.errors import ColumnsError, DataError, shown
from hopfed.kernels import MaskedBits, PackedBits
from hopfed.spectral.reread_rows import Gathered, Reread
from hopfed.tables.coding import UNKNOWN, Code, Coding
from hopfed.tables.held import MOST, doubtful
from hopfed.tables.options import Choices
from hopfed.tables.source import Source
from hopfed.tables.table import SHOWN, columns_error, is_made_up, listed, misspelt
from hopfed.tables.words import GONE, Cells, as_numbers, canonical, meanings, number, outsiders

ROOM = 1 << 29  # bytes that names of rows may take in any case
SPREAD = 64  # bytes for each letter of them that they may take beyond
WORDS = 5  # words of a column that it names


class Unknown(NamedTuple):
    """What a coding does not know of a column: row and words, the first of them first, and why."""

    name: str
    row: int
    words: tuple[str, ...]
    why: str
    signed: bool


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
    """

    def __init__(
        self, source: Source, coding: Coding, most: int | None = None, judge: bool = False
    ):
        self.source, self.coding = source, coding
        self.places = _places(source, coding)
        names = [source.names.index(name) for name in coding.ids if name in source.names]
        self._id = names[0] if names else None
        self._count = self._letters = 0
        self._ids: list[str] = []
        self._gathered = Gathered(source.what, most)
        cut = []
        if judge and pointed(source) is not None:
            pairs = zip(coding.codes, self.places, strict=True)
            cut = [j for code, j in pairs if code.kind == "number" and j not in source.commas]
        self._points: dict[int, set[str]] = {j: set() for j in cut if j is not None}

    @property
    def lacking(self) -> list[str]:
        """Names of the columns that the source lacks."""
        return [n for n, j in zip(self.coding.names, self.places, strict=True) if j is None]

    def packed(self, cells: list[Cells]) -> PackedBits | MaskedBits:
        """Pack the rows of a block."""
        for j, words in self._points.items():
            if len(words) <= MOST:
                words.update(cells[j].words)
        rows = len(cells[0]) if cells else 0
        parts: list[np.ndarray] = []
        unknown: list[Unknown] = []
        columns = zip(self.coding.names, self.coding.codes, self.places, strict=True)
        for name, code, j in columns:
            part = (
                np.full((code.width, rows), GONE, np.int8) if j is None else _signs(code, cells[j])
            )
            if (part == UNKNOWN).any():
                unknown.append(self._unknown(name, code, cells[j or 0], part))
            parts.append(part)
        if unknown:
            raise _unknown_words(self.source.what, unknown)
        codes = np.concatenate(parts)
        self._count += codes.shape[1]
        signs, gone = kernels.pack(codes.T > 0), codes == GONE
        return MaskedBits(signs, kernels.pack(~gone.T)) if gone.any() else signs

    def judge(self) -> None:
        """Refuse numbers whose points may be of thousands, once all rows were seen."""
        doubts = doubtful(list(self._points.values()), bool(pointed(self.source)))
        for j, why in zip(self._points, doubts, strict=True):
            if why:
                name = shown(self.source.names[j], 60)
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

    def _unknown(self, name: str, code: Code, cells: Cells, signs: np.ndarray) -> Unknown:
        odd = np.flatnonzero((signs == UNKNOWN).any(axis=0))
        places = dict.fromkeys(cells.places[odd].tolist())
        words = tuple(cells.words[k].strip() for k in list(places)[: WORDS + 1])
        why = f"was not there when the coding was made: {shown(code)}"
        if code.kind == "number":
            why = "is not a number"
        return Unknown(name, self._count + int(odd[0]) + 1, words, why, code.kind == "words")


def _signs(code: Code, cells: Cells) -> np.ndarray:
    """Rows (width, rows) of -1, 0, +1 and UNKNOWN for a column of cells."""
    if code.kind == "number":
        values = as_numbers(cells.array, code.missing)
        if values is not None:
            above = np.where(values > code.threshold, np.int8(1), np.int8(-1))
            above[np.isnan(values)] = GONE
            return above[None]
        fits = [canonical(w) in code.missing or number(w) is not None for w in cells.words]
        entries = np.where(fits, 0, UNKNOWN)[None]
    else:
        entries = code.entries(cells.words)
    none = np.full((len(entries), 1), GONE, np.int8)
    return np.hstack([entries, none])[:, cells.places]


def pointed(source: Source) -> bool | None:
    """Whether a file has decimal commas; None where points in numbers are decimal ones."""
    if source.commas:
        return True
    return False if source.dialect.delimiter == ";" else None


def _places(source: Source, coding: Coding) -> list[int | None]:
    """Where the columns of a coding are in a source; None for one that it may lack."""
    place = {name: j for j, name in enumerate(source.names)}
    lacks = [name for name in coding.names if name not in place]
    if lacks and is_made_up(source.names) and len(source.names) == len(coding.names):
        return list(range(len(source.names)))
    if not lacks or (coding.partial and len(lacks) < len(coding.names)):
        return [place.get(name) for name in coding.names]
    more = [name for name in source.names if name not in {*coding.names, *coding.ids}]
    way = misspelt(more, lacks) or "; add them with blank cells, which are missing"
    raise DataError(f"{source.what}: lacks the column(s) {listed(lacks)}{way}")


def _unknown_words(what: str, columns: list[Unknown]) -> ColumnsError:
    """Return the error about all columns that hold words that a coding does not know."""
    lines = []
    for each in columns[:SHOWN]:
        word, *others = (f"'{shown(word, 40)}'" for word in each.words)
        more = f" (and {', '.join(others)})" if others else ""
        lines.append(f"row {each.row}, column '{shown(each.name, 60)}': {word}{more} {each.why}")
    words = list(dict.fromkeys(word for each in columns for word in each.words))
    signed = all(each.signed for each in columns)
    ways = _meant({canonical(word) for word in words}) if signed else []
    line = "say what they stand for"
    if not ways:
        line = "if there is no answer, read them as missing"
        ways = [dict.fromkeys((word for word in words if shown(word, 60) == word), GONE)]
    said = " or ".join(Choices(options=True).give(words=signs) for signs in ways)
    some = dict(list(ways[0].items())[: None if line.startswith("say") else 1])
    more = " and so on" if len(some) < len(ways[0]) else ""
    last = f"{line}: {said} ({Choices().give(words=some)}{more})"
    said = f"{len(columns):,} column(s) hold words that are not known"
    return columns_error(what, said, lines, [each.name for each in columns], last)


def _meant(words: set[str]) -> list[dict[str, int]]:
    """What words of yes and no may stand for, others being missing; 1 and 2 may be either.

    Where 2 is new, and 1 is not, it is the other one, or a code of no answer beside 0 and 1.
    """
    held = words & {"-1", "0", "1", "2"}
    gone = dict.fromkeys(sorted(outsiders(words) - held), GONE)
    if held == {"2"}:
        return [{"2": sign} | gone for sign in (-1, GONE)]
    if held in ({"1", "2"}, {"1"}):
        both = ({w: s if w == "1" else -s for w in sorted(held)} for s in (1, -1))
        return [signs | gone for signs in both]
    if "-1" in held and "2" not in held:
        return [{word: int(word) for word in sorted(held)} | gone]
    known = meanings([words - gone.keys()])
    if known is None:
        return []
    return [{word: known[word] for word in sorted(words - gone.keys())} | gone]


def with_words(coding: Coding, given: Choices) -> Coding | None:
    """Return a coding that knows more words; None if more was said than words, or in vain.

    Words for no entry are so in every column; those for +1 and -1 in the columns of words. What a
    word stands for already stays so.
    """
    given = given.among(coding.names)
    nothing: dict[str, Any] = {"id": None, "ignore": (), "binarize": None, "kinds": {}}
    only_words = replace(given, words=None) == replace(given, words=None, **nothing)
    if not given.words or not only_words or given.named() - set(coding.names):
        return None
    signed = {w for name in coding.names for w, sign in given.signs(name).items() if sign != GONE}
    codes = []
    for name, code in zip(coding.names, coding.codes, strict=True):
        signs = {w: s for w, s in given.signs(name).items() if s == GONE or code.kind == "words"}
        for word, sign in code.words:
            short = shown(word, 40)
            require(
                signs.get(word, GONE) * sign >= 0,
                given.called("words"),
                f"for other words than '{short}', which is {sign:+d} in '{shown(name, 60)}'",
                f"{short}={signs.get(word, GONE):+d}",
            )
        signed -= signs.keys()
        fresh = [(word, sign) for word, sign in signs.items() if word not in dict(code.words)]
        codes.append(replace(code, words=(*code.words, *fresh)))
    return None if signed else replace(coding, codes=tuple(codes))
