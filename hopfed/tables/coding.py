"""Codings say how cells become +-1: by the words of a column, or where its numbers are cut."""

from __future__ import annotations

import datetime
import json
import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any
from unicodedata import is_normalized, normalize

import numpy as np

from hopfed._lib.settings import require
from hopfed.errors import DataError, safe_line

__all__ = ["Code", "Coding"]

GONE = 0  # code of a missing entry; -1 and +1 are the two others
# Words for -1 and for +1 of each family. A column is of one family.
_PAIRS = (
    "no n:yes y;false f 0:true t 1;nay:aye yea;absent:present;-:+;nein nee nej:ja;non:oui;"
    "no:si sí sì;não nao:sim;falsch:wahr;faux:vrai;✗ ✘:✓ ✔"
)
FAMILIES = [[frozenset(side.split()) for side in pair.split(":")] for pair in _PAIRS.split(";")]
_GAPS = " na n/a n.a. #n/a #na #null! <na> null none nan nat ? . - --"
MISSING = frozenset(_GAPS.split(" "))
# Beside yes and no, or beside numbers, these are no entries; elsewhere they are words.
UNSAID = frozenset(("dk", "unknown", "missing", "don't know", "no answer", "not known"))
LEVEL_GAPS = MISSING - {"none"}  # which is a category beside others
SHORT = frozenset(word for family in FAMILIES for side in family for word in side)
FULL = frozenset(word for word in SHORT if len(word) > 1)
KNOWN = SHORT | MISSING  # no names of columns
# Numbers that usually stand for no answer.
NO_ANSWERS = frozenset((7, 8, 9, 66, 77, 88, 97, 98, 99, 777, 888, 997, 998, 999))
JOINING = (";", "|", ",", "/")  # what stands between several answers in one cell

NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
COMMA = re.compile(r"[+-]?[0-9]*,[0-9]+([eE][+-]?[0-9]+)?")  # with a decimal comma
FLOAT = re.compile(rf"{NUMBER.pattern}|[+-]?inf(inity)?", re.IGNORECASE)
EXACT = 2.0**53  # from which several whole numbers are one float


def number(word: str) -> float | None:
    """Return the value of a word for a coding; None if it is no number, or NaN."""
    word = word.strip().replace("\u2212", "-")  # a minus sign, as some spreadsheets write it
    return float(word) if FLOAT.fullmatch(word) else None


def spell(cell: Any) -> str:
    """Return the word to be coded for a cell of any kind: the same for all forms of a number."""
    if cell is None or type(cell).__name__ == "NAType" or cell != cell:  # pandas' NA among them
        return ""
    if isinstance(cell, bool | np.bool_):
        return str(bool(cell)).lower()
    if isinstance(cell, float | np.floating):
        value = float(cell)
        return str(round(value)) if abs(value) < 1e15 and value == round(value) else repr(value)
    if isinstance(cell, datetime.datetime):
        return str(cell).removesuffix(" 00:00:00")
    if isinstance(cell, list | dict | tuple):
        return json.dumps(cell, default=str, ensure_ascii=False)
    return str(cell)


def token(word: str) -> str:
    """Return a word in the form that codings compare: stripped, composed, in lower case."""
    word = word.strip().lower()
    return word if word.isascii() or is_normalized("NFC", word) else normalize("NFC", word)


@lru_cache(maxsize=1 << 14)
def canonical(word: str) -> str:
    """Return a word as codings know it: a number by its value, others as their token."""
    value = number(word)
    return token(word) if value is None or EXACT <= abs(value) < np.inf else spell(value)


def level(word: str) -> str:
    """Return the category that codes a word; digits that zeros lead are a name, as of a place."""
    word = word.strip()
    if number(word) is not None and not re.fullmatch("0[0-9]+", word):
        return canonical(word)
    return word if word.isascii() else normalize("NFC", word)


def sorted_levels(levels: Iterable[str]) -> tuple[str, ...]:
    """Return categories of a coding in order: numbers first, by size."""
    values = {word: number(word) for word in levels}
    return tuple(sorted(values, key=lambda word: (values[word] is None, values[word] or 0, word)))


SCALES = (
    "never<almost never<rarely<seldom<occasionally<sometimes<often<usually<mostly<always<none<"
    "not at all<very low<low<little<a little<some<mid<middle<medium<moderate<much<high<very high<"
    "very bad<very poor<bad<poor<fair<ok<average<good<very good<excellent<strongly disagree<"
    "disagree<very dissatisfied<dissatisfied<neither<neutral<undecided<agree<strongly agree<"
    "satisfied<very satisfied"
)


def order_levels(levels: Iterable[str]) -> tuple[str, ...]:
    """Return levels of a coding in the order of a usual scale, else sorted."""
    found, scale = sorted(levels), SCALES.split("<")
    usual = all(token(word) in scale for word in found)
    return tuple(sorted(found, key=lambda word: scale.index(token(word)) if usual else 0))


def meanings(parts: Iterable[Collection[str]]) -> dict[str, int] | None:
    """Return the code of each word that a column may hold, those in it first; None if unknown."""
    held = [set(words) for words in parts if words]
    said = set[str]().union(*held)
    for sets in ([said], held) if said and said != {"-"} else ():
        fit = [[p for p in FAMILIES if s <= p[0] | p[1]] for s in sets]
        if all(fit):
            low, high = (set[str]().union(*side) for side in zip(*(p[0] for p in fit), strict=True))
            words = sorted(low | high, key=lambda word: (word not in said, word))
            return {word: 1 if word in high else -1 for word in words}
    return None


def answers_in(word: str, mark: str) -> set[str]:
    """Return the answers in a cell, which a coding makes columns."""
    return {level(p) for p in word.split(mark) if token(p) not in LEVEL_GAPS}


def several_answers(words: Collection[str], sure: bool = False) -> tuple[str, tuple[str, ...]]:
    """For a coding, return the mark between answers in cells, and these; "" for single answers."""
    often = {mark: sum(mark in word for word in words) for mark in JOINING}
    parts = {m: set[str]().union(*(answers_in(word, m) for word in words)) for m in JOINING}
    fit = [m for m in JOINING if 3 * often[m] >= len(words) and 1 < len(parts[m]) < len(words)]
    if sure and any(often.values()):
        fit.append(max(JOINING, key=lambda mark: often[mark]))
    return (fit[0], sorted_levels(parts[fit[0]])) if fit else ("", ())


# Arrays of Arrow


@dataclass(eq=False)
class Cells:
    """Cells of a column, an array of Arrow, whose different words are found once and kept."""

    array: Any

    def __len__(self) -> int:
        return len(self.array)

    @cached_property
    def distinct(self) -> tuple[list[str], np.ndarray]:
        """The different words, and the place of each cell's word among them; -1 for null."""
        import pyarrow as pa

        array = self.array
        if pa.types.is_string(array.type) and not array.null_count and len(array):
            _, ends, text = array.buffers()
            at = np.frombuffer(ends, np.int32)[array.offset : array.offset + len(array) + 1]
            lengths = np.diff(at)
            if text is not None and lengths.max() == 1:  # a letter or none, as in most tables
                letters = np.zeros(len(array), np.uint8)  # 0 is in no text
                letters[lengths > 0] = np.frombuffer(text, np.uint8)[at[0] : at[-1]]
                counts = np.bincount(letters)
                if len(counts) <= 128:
                    places = (np.cumsum(counts > 0) - 1)[letters]
                    return [chr(k) if k else "" for k in np.flatnonzero(counts)], places
        if pa.types.is_nested(array.type):  # Arrow cannot look up lists and records
            array = pa.array([spell(cell) or None for cell in array.to_pylist()], pa.string())
        coded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
        words = [spell(word) for word in coded.dictionary.to_pylist()]
        places = _values(coded.indices.cast("int64"), -1)
        first = {word: k for k, word in reversed(list(enumerate(words)))}
        if len(first) < len(words):  # as in a dictionary that came with the array
            places = np.array([first[word] for word in words] + [-1])[places]
        return words, places

    words = property(lambda self: self.distinct[0])
    places = property(lambda self: self.distinct[1])

    def tally(self) -> dict[str, tuple[int, int]]:
        """Count of each word, and its first cell; "" is the word of a missing cell."""
        counts = np.bincount(self.places + 1, minlength=len(self.words) + 1)
        first = np.zeros(len(counts), int)
        first[self.places[::-1] + 1] = np.arange(len(self))[::-1]
        found: dict[str, tuple[int, int]] = {}
        for word, n, row in zip(["", *self.words], counts.tolist(), first.tolist(), strict=True):
            if n:
                found[word] = (n + found.get(word, (0, 0))[0], row)
        return found


def _values(array: Any, null: float) -> np.ndarray:
    """Values of an array of numbers; its own `to_numpy` takes .2 s to import pandas."""
    return np.from_dlpack(array.fill_null(null) if array.null_count else array)


def as_numbers(array: Any, missing: Collection[str] = ()) -> np.ndarray | None:
    """Return numbers to be coded of an array of Arrow, NaN if missing; None if one is a word."""
    import pyarrow as pa
    import pyarrow.compute as pc

    t = pa.types
    if t.is_dictionary(array.type):  # each word is converted once
        used, places = np.unique(_values(array.indices.cast("int64"), -1), return_inverse=True)
        values = as_numbers(array.dictionary.take(pa.array(used, mask=used < 0)), missing)
        return None if values is None else values[places]
    try:
        given = array
        if t.is_string(array.type):
            given = pc.utf8_trim_whitespace(array)
            gone = pc.is_in(pc.utf8_lower(given), value_set=pa.array(sorted(missing)))
            given = pc.if_else(gone, None, given)
        values = _values(given.cast(pa.float64(), safe=False), np.nan)
    except pa.ArrowException:  # slowly: Arrow reads no "+1"
        words, places = Cells(array).distinct
        found = [np.nan if token(w) in ("nan", *missing) else number(w) for w in words]
        if None in found:
            return None
        values = np.array([*found, np.nan], float)[places]
    gone = [value for word in missing if (value := number(word)) is not None]
    return np.where(np.isin(values, gone), np.nan, values) if gone else values


# What columns hold

MOST = 1000  # different words of a column that are kept
EVEN = 0.1  # share of the rows by which another value must halve them better than the median
SUMS = {"total", "totals", "sum", "mean", "average", "gesamt", "summe", "mittelwert"}
GAPS = MISSING | UNSAID  # words that are no entries among numbers


@dataclass(eq=False)
class Column:
    """Options of a column, and its contents in the rows that were read so far."""

    place: int
    name: str
    label: str  # of the table
    given: dict[str, int] = field(default_factory=dict)  # codes of the words that were given
    most: int = MOST  # different words that are counted; in further rows only numbers are read
    cut: bool = False  # whether these numbers are kept
    words: Counter[str] = field(default_factory=Counter)  # as they stand; "" of a missing entry
    first: dict[str, tuple[str, int]] = field(default_factory=dict)  # table and row of each word
    kept: list[np.ndarray] = field(default_factory=list)  # numbers, once there are many words
    plain: bool = True  # whether further rows hold only numbers
    different: bool = True  # whether all counted rows have different words
    rows: int = 0
    why: str = ""  # reason why it cannot be used, whatever its words are
    parts: Sequence[Column] = ()  # the column in each of several tables

    each = property(lambda self: self.parts or [self])

    def __post_init__(self) -> None:
        self.gone = {word: GONE for word, sign in self.given.items() if sign == GONE}
        self.missing = GAPS | self.gone.keys() if self.gone else GAPS  # one set for most columns

    @property
    def title(self) -> str:
        """Name of the column in a line."""
        plain = self.name == f"column {self.place + 1}"
        return self.name if plain else f"column '{safe_line(self.name, 60)}'"

    def add(self, cells: Cells) -> None:
        """Count the words of further rows."""
        import pyarrow.types as types

        for name in ("_entries", "levels", "values"):  # cached for the rows before
            vars(self).pop(name, None)
        before, self.rows = self.rows, self.rows + len(cells)
        kind = cells.array.type
        kind = kind.value_type if types.is_dictionary(kind) else kind
        if types.is_nested(kind) or types.is_temporal(kind):
            self.why = f"holds {'lists or records' if types.is_nested(kind) else 'dates or times'}"
            return
        if not self.many:
            tally = cells.tally()
            fresh = tally.keys() - self.words.keys()
            self.different = self.different and len(fresh) == len(cells)
            if self.cut and len(self.words) + len(fresh) > self.most:
                self.kept.append(self.numbers())
            for word, (count, row) in tally.items():
                if word in self.words or not self.many or token(word).rstrip(" :") in SUMS:
                    self.words[word] += count
                    self.first.setdefault(word, (self.label, before + row + 1))
        if self.many and self.plain:
            values = as_numbers(cells.array, self.missing)
            self.plain = values is not None
            if values is not None and self.cut:
                self.kept.append(values[~np.isnan(values)])

    @classmethod
    def join(cls, parts: Sequence[Column], place: int, name: str) -> Column:
        """Return one column of several tables."""
        held = [part for part in parts if part.words.keys() - {""}] or parts  # not all may have it
        whole = replace(parts[0], place=place, name=name, parts=parts)
        whole.words, whole.first, whole.kept = Counter(), {}, []
        for part in parts:
            whole.words.update(part.words)
            whole.first = part.first | whole.first
        if any(part.kept for part in parts):
            whole.kept = [part.numbers() for part in parts]
        whole.plain = all(part.plain for part in parts)
        whole.different = all(part.different for part in held)
        whole.rows = sum(part.rows for part in parts)
        whole.why = next((part.why for part in parts if part.why), "")
        return whole

    @property
    def many(self) -> bool:
        """Whether the column has more words than are counted."""
        return len(self.words) > self.most

    @property
    def numeric(self) -> bool:
        """Whether all words are numbers or missing."""
        return self.plain and None not in map(number, self.tokens - UNSAID)

    def numbers(self) -> np.ndarray:
        """Return all numbers of the column."""
        if self.kept:
            return np.concatenate(self.kept)
        held = ((number(w), n) for w, n in self.words.items() if canonical(w) not in self.missing)
        found = np.array([pair for pair in held if pair[0] is not None], float).reshape(-1, 2)
        return np.repeat(found[:, 0], found[:, 1].astype(int))

    def threshold(self, how: str) -> float:
        """Value above which a number of the column is +1."""
        kind, _, share = how.partition(":")
        if kind not in ("median", "mean", "quantile"):
            return float(how)
        numbers = self.numbers()
        values, counts = np.unique(numbers, return_counts=True)
        if kind == "mean" or len(values) < 2:
            return float(np.average(values, weights=counts)) if len(values) else np.nan
        due = float(share or 0.5)
        cut = float(np.quantile(numbers, due))
        missed = np.abs(np.cumsum(counts) - due * len(numbers))  # rows, by a cut at each value
        own = missed[np.searchsorted(values, cut, "right") - 1]
        near = kind == "quantile" or own <= missed[:-1].min() + EVEN * len(numbers)
        return cut if cut < values[-1] and near else float(values[missed[:-1].argmin()])

    def commonest(self) -> str:
        """Commonest words of the column, with their counts."""
        held = [(word, n) for word, n in self.words.most_common() if word.strip()]
        said = [f"{safe_line(word.strip(), 30)} ({n:,}x)" for word, n in held[:5]]
        return ", ".join(said + ["..."] * (self.many or len(held) > 5))

    @cached_property
    def levels(self) -> set[str]:
        """Categories of the column."""
        gaps = LEVEL_GAPS | self.gone.keys()
        return {level(word) for word in self.words if canonical(word) not in gaps}

    @cached_property
    def _entries(self) -> tuple[set[str], set[str]]:
        """Words that may be entries, and those beside them that are taken for no answer."""
        found = {canonical(word) for word in self.words} - self.gone.keys()
        found = found - MISSING | ({"-"} & found if "+" in found else set())
        unsaid = found & UNSAID - self.given.keys()
        rest = found - unsaid
        plain = None not in map(number, rest) or meanings([rest]) is not None
        taken = unsaid if rest and plain and "present" not in found else set[str]()
        return found - taken, taken

    tokens = property(lambda self: self._entries[0])
    unsaid = property(lambda self: self._entries[1])

    @cached_property
    def values(self) -> set[float]:
        """Numbers of the words without a given code, if all of them are numbers."""
        values = {number(word) for word in self.tokens - self.given.keys()}
        return set() if None in values else {v for v in values if v is not None}

    def meanings(self, known: Collection[str] = ()) -> dict[str, int] | None:
        """Code of each word not in `known`, if those of each table are of one family."""
        return meanings([part.tokens.difference(known) for part in self.each])

    def rows_of(self, words: Collection[str]) -> int:
        """Number of rows that hold one of some words."""
        return sum(n for word, n in self.words.items() if canonical(word) in words)


# Codes of columns

KINDS = ("words", "number", "category", "answers", "ordinal")
UNKNOWN = -2  # code of a word that a coding does not know
VERSION = 1
EMPTY = (("0", -1), ("1", 1))  # words of a column that held none


@dataclass(frozen=True)
class Code:
    """How the cells of one column become +-1.

    Attributes
    ----------
    kind : "words"; "number", +1 above the `threshold`; "category", a column of +-1 for each level,
        or one for the last of two; "answers", a column for each, as a cell may hold several;
        "ordinal", a column for each level but the last, as `hopfed.read_table` says.
    words : (word, code) with code -1, 0 (missing) or +1; of other kinds those for cells that are
        missing, or hold none of the answers (-1).
    levels : of a category, an ordinal (from the lowest), or the answers.
    mark : what stands between the answers in a cell.

    Examples
    --------
    >>> Code("words", (("no", -1), ("yes", 1))).entries(["Yes", "no", "?", "maybe"]).tolist()
    [[1, -1, 0, -2]]
    >>> Code("ordinal", levels=("1", "2", "3")).entries(["1", "2", "3", ""]).tolist()
    [[-1, 1, 1, 0], [0, -1, 1, 0]]
    """

    kind: str
    words: tuple[tuple[str, int], ...] = ()
    threshold: float = math.nan
    levels: tuple[str, ...] = ()
    mark: str = ""

    def __post_init__(self) -> None:
        require(self.kind in KINDS, "kind", f"one of {', '.join(KINDS)}", self.kind)
        signs = all(isinstance(word, str) and sign in (-1, 0, 1) for word, sign in self.words)
        levels = _are_names(self.levels) and bool(self.levels) == (self.kind in KINDS[2:])
        mark = isinstance(self.mark, str) and bool(self.mark) == (self.kind == "answers")
        rule = f"with words for -1, 0 or 1, and the levels and the mark of {self.kind}"
        require(signs and levels and mark, "code", rule, (self.words, self.levels, self.mark))
        object.__setattr__(self, "threshold", float(self.threshold))

    @property
    def width(self) -> int:
        """Number of columns of +-1."""
        if self.kind == "ordinal":
            return max(len(self.levels) - 1, 1)
        return len(self.levels) if self.kind == "answers" or len(self.levels) > 2 else 1

    def names(self, name: str) -> tuple[str, ...]:
        """Names of the columns of +-1 that the column `name` becomes; a step says of which rows."""
        if self.kind == "ordinal":
            steps = [f"{name}>{level}" for level in self.levels[: self.width]]
            return steps[0], *(f"{step} of {below[len(name) :]}" for below, step in pairwise(steps))
        return tuple(f"{name}={level}" for level in self.levels[-self.width :]) or (name,)

    def entries(self, words: Sequence[str]) -> np.ndarray:
        """Return what words stand for: (width, len(words)) of -1, 0, +1 and UNKNOWN, int8."""
        known, places = dict(self.words), {level: k for k, level in enumerate(self.levels)}

        def entries(word: str) -> list[int]:
            said, sign, value = canonical(word), UNKNOWN, number(word)
            if said in known:
                sign = known[said]
            elif self.kind == "number" and value is not None:
                sign = 1 if value > self.threshold else -1
            elif self.levels:
                held = answers_in(word, self.mark) if self.mark else {level(word)}
                if held and held <= places.keys():
                    if self.kind != "ordinal":
                        return [2 * (each in held) - 1 for each in self.levels[-self.width :]]
                    at = places[held.pop()]
                    return [(each < at) - (each == at) for each in range(self.width)]
                sign = GONE if not held or said in MISSING else UNKNOWN
            elif said in MISSING or (said in UNSAID and "present" not in known):
                sign = GONE
            return [sign] * self.width

        return np.array(list(map(entries, words)), np.int8).reshape(len(words), self.width).T

    def said(self, sign: int) -> str:
        """Meaning of a `sign`: a word that the column held, "> 2.5"; "" where names say it."""
        if self.kind == "words":
            return next((word for word, own in self.words if own == sign), f"{sign:+d}")
        return f"{'>' if sign > 0 else '<='} {self.threshold:g}" if self.kind == "number" else ""

    def joined(self, ticked: np.ndarray) -> str:
        """Return the cell that holds some of the answers: those that are `ticked`, (width,)."""
        chosen = zip(self.levels, ticked, strict=True)
        none = next((word for word, sign in self.words if sign < 0), "")
        return self.mark.join(level for level, held in chosen if held) or none

    def __str__(self) -> str:
        if self.kind == "number":
            return f"+1 above {self.threshold:g}"
        if self.levels:
            one = "category" if len(self.levels) == 1 else "categories"
            called = {"answers": "answers", "ordinal": "levels in order"}.get(self.kind, one)
            between = " < " if self.kind == "ordinal" else ", "
            return f"{len(self.levels)} {called}: {between.join(self.levels)}"
        said = {sign: sorted(w for w, code in self.words if code == sign) for sign in (1, -1)}
        return ", ".join(f"{'/'.join(said[s])} is {s:+d}" for s in said if said[s])


def is_empty(code: Code) -> bool:
    """Whether a code is that of a column without any entry."""
    return code.kind == "words" and tuple(pair for pair in code.words if pair[1] != GONE) == EMPTY


def _are_names(names: Any) -> bool:
    """Whether names are texts that differ."""
    texts = isinstance(names, tuple) and all(isinstance(name, str) for name in names)
    return texts and len(set(names)) == len(names)


@dataclass(frozen=True)
class Coding:
    """How the columns of a table became columns of +-1, for tables that are coded alike.

    Attributes
    ----------
    names, codes : of the columns that were used, in order.
    ids, ignored : names of columns that name the rows, and of those that were left out.
    partial : whether a table may lack columns, which are missing in all of its rows then.

    Examples
    --------
    >>> coding = Coding(("tea", "tree"), (Code("words", (("no", -1), ("yes", 1))),
    ...                                   Code("category", levels=("ash", "oak", "yew"))))
    >>> coding.columns, coding.groups, Coding.from_json(coding.to_json()) == coding
    (('tea', 'tree=ash', 'tree=oak', 'tree=yew'), ((1, 2, 3),), True)
    """

    names: tuple[str, ...]
    codes: tuple[Code, ...]
    ids: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    partial: bool = False

    def __post_init__(self) -> None:
        require(len(self.names) == len(self.codes), "codes", "one for each name", len(self.codes))
        for names in (self.names, self.ids, self.ignored):
            require(_are_names(names), "names", "different texts", names)

    @classmethod
    def of_bits(cls, names: tuple[str, ...], minus: bool) -> Coding:
        """Return the coding of an array of 0 and 1, or of -1 (`minus`) and 1, with 0 for gaps."""
        signs = {"-1": -1, "0": GONE if minus else -1, "1": 1, "false": -1, "true": 1}
        return cls(names, (Code("words", tuple(signs.items())),) * len(names))

    def __len__(self) -> int:
        """Number of columns of +-1, counted without making their names, which may be too many."""
        return sum(code.width for code in self.codes)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of +-1."""
        named = zip(self.codes, self.names, strict=True)
        return tuple(name for code, own in named for name in code.names(own))

    @cached_property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """Columns of +-1 that are the levels of one variable: in a row one of them is +1."""
        return tuple(self._spans("category"))

    @cached_property
    def steps(self) -> tuple[tuple[int, ...], ...]:
        """Columns of +-1 that are thresholds of one ordinal: each is seen above those before."""
        return tuple(self._spans("ordinal"))

    @cached_property
    def later(self) -> list[int]:
        """Steps of ordinals but their first: not asked below the step before, so no gaps."""
        return [j for group in self.steps for j in group[1:]]

    def _spans(self, kind: str) -> Iterator[tuple[int, ...]]:
        """Numbers of the columns of +-1 of each column of a kind, where they are several."""
        ends = np.cumsum([code.width for code in self.codes], dtype=int).tolist()
        for end, code in zip(ends, self.codes, strict=True):
            if code.kind == kind and code.width > 1:
                yield tuple(range(end - code.width, end))

    def to_json(self) -> str:
        """Return the coding as a JSON text."""
        kinds = {code: k for k, code in enumerate(dict.fromkeys(self.codes))}
        fields = (asdict(code).items() for code in kinds)
        codes = [{k: v for k, v in held if v == v and v not in ((), "")} for held in fields]
        columns = [(name, kinds[code]) for name, code in zip(self.names, self.codes, strict=True)]
        held: dict[str, Any] = {"version": VERSION, "codes": codes, "columns": columns}
        held |= {"ids": self.ids, "ignored": self.ignored}
        return json.dumps(held | {"partial": True} if self.partial else held, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Coding:
        """Return the coding that a JSON text describes."""

        def frozen(held: Any) -> Any:
            return tuple(map(frozen, held)) if isinstance(held, list) else held

        broken = ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError
        try:
            held = json.loads(text)
            if held["version"] != VERSION:
                raise ValueError(f"of version {held['version']}")
            codes = [Code(**{k: frozen(v) for k, v in code.items()}) for code in held["codes"]]
            names, used = tuple(zip(*held["columns"], strict=True)) or ((), ())
            partial = held.get("partial") is True
            ids, ignored = tuple(held["ids"]), tuple(held["ignored"])
            return cls(names, tuple(codes[k] for k in used), ids, ignored, partial)
        except broken as error:
            raise DataError(f"no coding of a table: {error}") from None
