"""From what the columns of a table hold to a coding, or to one error about all that is in the way.

A column is one of words for yes and no (0 and 1, 1 and 2, -1 and +1 among them), of two numbers, of
a few other words (each becomes a column), of answers, several in a cell (where that is said), or of
numbers that are cut (likewise). Another one may name the rows. All others are refused together.
What could have been meant otherwise is a line each, before any work.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np

from hopfed.errors import ColumnsError, DataError, shown
from hopfed.tables.coding import EMPTY, Code, Coding
from hopfed.tables.examples import RULE
from hopfed.tables.options import Choices
from hopfed.tables.table import Source, columns_error, is_made_up, listed, places_of
from hopfed.tables.words import (
    FULL,
    GONE,
    KNOWN,
    LEVEL_GAPS,
    MISSING,
    NO_ANSWERS,
    UNSAID,
    Cells,
    as_numbers,
    canonical,
    in_order,
    level,
    meanings,
    number,
    several_answers,
    sorted_levels,
    spelt,
    token,
)

MOST = 1000  # different words of a column that are kept
COMBINED = 100_000  # the same where each is a combination of answers
LEVELS = 100  # categories of a column, at most
EVEN = 0.1  # of the rows, by which another value must come nearer to halving than the median
OTHERS = 3  # words beside which rarer ones of yes and no are names of something
RARE = 4  # times as many columns of 0 and 1 as with a -1: these are variables of another kind
FEW = 10  # different words below which a first column is no list of names unless all differ
RARELY = 0.1  # of the rows hold a word that is no answer rather than a category
MOSTLY = 0.9  # of the words in a list of names that differ, or of numbers
FAR = 0.5  # of the range of the other numbers, by which a code of no answer lies beside it
GAPS = MISSING | UNSAID  # words that stand for no entry among numbers
BINARY, TWO = {-1.0, 0.0, 1.0}, {1.0, 2.0}
INDEX = re.compile(r"__index_level_\d+__|__null_dask_index__")  # a column that nobody made
NAMING = re.compile(
    r"(.*[ ._-])?(id|ids|name|names|key|index|row|rownames?|rowid)|unnamed: 0|seqn|idno|patid|"
    rf"patnr|column 1|{INDEX.pattern}|",
    re.IGNORECASE,
)
ASIDE = re.compile(  # numbers that are no feature as a rule
    r"(.*[ ._-])?((?P<weight>weights?|wts?|freq|frequency)|(totals?|sum|gesamt|summe)([ ._-].*)?)",
    re.IGNORECASE,
)
SUMS = {"total", "totals", "sum", "mean", "average", "gesamt", "summe", "mittelwert"}
DATE = re.compile(r"\d{4}-\d{2}-\d{2}\b.*|\d{1,2}[/.]\d{1,2}[/.]\d{2,4}\b.*", re.ASCII)
# Numbers with a comma, marks of thousands, a currency or a per cent sign.
DRESSED = re.compile(
    r"[€$£¥]? ?[+-]?([0-9]+|[0-9]{1,3}([ .,'’\u00a0\u202f][0-9]{3})+)([.,][0-9]+)? ?[%€$£¥]?"
)
Way = dict[str, Any]  # arguments of `hopfed.read_table`


class UnfitError(Exception):
    """What is in the way in a column, led by `called` or its name, and ways out, the first best.

    The second way is right only where something holds that `when` says.
    """

    def __init__(self, why: str, *ways: Way, called: str = "", when: str = ""):
        super().__init__(why)
        self.called, self.ways, self.when = called, ways, when


@dataclass(eq=False)
class Column:
    """What was said of a column, and what the rows that were read so far hold."""

    place: int
    name: str
    label: str  # of the table
    given: dict[str, int]  # codes of the words that were given
    most: int  # different words that are counted; further rows are looked at for numbers only
    cut: bool  # whether these are kept
    words: Counter[str] = field(default_factory=Counter)  # as they stand; "" of a missing entry
    first: dict[str, tuple[str, int]] = field(default_factory=dict)  # table and row of each word
    kept: list[np.ndarray] = field(default_factory=list)  # numbers in further rows
    plain: bool = True  # whether there are only such in these
    different: bool = True  # whether no two of the rows are alike that were counted
    rows: int = 0
    why: str = ""  # it cannot be used, whatever the words are
    parts: Sequence[Column] = ()  # the column in each of several tables

    def __post_init__(self) -> None:
        plain = self.name == f"column {self.place + 1}"
        self.called = self.name if plain else f"column '{shown(self.name, 60)}'"  # in a line
        self.gone = {word: GONE for word, sign in self.given.items() if sign == GONE}
        self.missing = GAPS | self.gone.keys() if self.gone else GAPS  # one set for all, as a rule

    def add(self, cells: Cells) -> None:
        """Look at some more rows."""
        import pyarrow.types as types

        for name in ("_entries", "levels", "values"):  # are of the rows so far
            vars(self).pop(name, None)
        before, self.rows = self.rows, self.rows + len(cells)
        kind = cells.array.type
        kind = kind.value_type if types.is_dictionary(kind) else kind
        if types.is_nested(kind) or types.is_temporal(kind):
            self.why = f"holds {'lists or records' if types.is_nested(kind) else 'dates or times'}"
        elif not self.many:
            rows = np.empty(len(cells.words) + 1, int)
            rows[cells.places[::-1]] = np.arange(self.rows, before, -1)  # the first comes last
            counts = dict(zip(cells.words, cells.counts.tolist(), strict=True))
            counts[""] = counts.get("", 0) + len(cells) - sum(counts.values())
            fresh = [word for word, n in counts.items() if n and word not in self.words]
            self.different = self.different and len(fresh) == len(cells)
            first = fresh[: self.most + 1]
            plain = all(number(w) is not None or canonical(w) in self.missing for w in first)
            if plain and len(self.words) + len(fresh) > self.most:  # the first will do
                fresh = first
                if self.cut:
                    self.kept.append(self.numbers())
            self.words.update(dict.fromkeys(fresh, 0))
            for (word, count), row in zip(counts.items(), rows.tolist(), strict=False):
                if word in self.words:
                    self.words[word] += count
                    self.first.setdefault(word, (self.label, row))
        if self.many and self.plain:
            values = as_numbers(cells.array, self.missing)
            self.plain = values is not None
            if values is not None and self.cut:
                self.kept.append(values[~np.isnan(values)])

    @classmethod
    def together(cls, parts: Sequence[Column]) -> Column:
        """Return a column of several tables."""
        whole = replace(parts[0], words=Counter(), first={}, kept=[], parts=parts)
        for part in parts:
            whole.words.update(part.words)
            whole.first = {**part.first, **whole.first}
        held = [part for part in parts if part.words.keys() - {""}] or parts  # not all may have it
        whole.different = all(part.different for part in held)
        if any(part.kept for part in parts):
            whole.kept = [part.numbers() for part in parts]
        whole.plain = all(part.plain for part in parts)
        whole.rows = sum(part.rows for part in parts)
        whole.why = next((part.why for part in parts if part.why), "")
        return whole

    @property
    def many(self) -> bool:
        """Whether there are more words than are counted."""
        return len(self.words) > self.most

    @property
    def numeric(self) -> bool:
        """Whether all words are numbers or missing."""
        return self.plain and None not in map(number, self.tokens - UNSAID)

    def numbers(self) -> np.ndarray:
        """Return all numbers that it holds."""
        if self.kept:
            return np.concatenate(self.kept)
        held = ((number(w), n) for w, n in self.words.items() if canonical(w) not in self.missing)
        found = [(value, n) for value, n in held if value is not None]
        values, counts = np.array(found, float).reshape(-1, 2).T
        return np.repeat(values, counts.astype(int))

    def threshold(self, how: str) -> float:
        """Value above which a number of the column is +1."""
        kind, _, share = how.partition(":")
        if kind not in ("median", "mean", "quantile"):
            return float(how)
        values, counts = np.unique(self.numbers(), return_counts=True)
        if len(values) < 2:
            return float(values[0]) if len(values) else np.nan
        if kind == "mean":
            return float(np.average(values, weights=counts))
        due = float(share or 0.5)
        cut = float(np.quantile(np.repeat(values, counts), due))
        missed = np.abs(np.cumsum(counts) - due * counts.sum())  # rows, by a cut at each value
        own = missed[np.searchsorted(values, cut, "right") - 1]
        near = kind == "quantile" or own <= missed[:-1].min() + EVEN * counts.sum()
        return cut if cut < values[-1] and near else float(values[missed[:-1].argmin()])

    def commonest(self) -> str:
        """Say what it mostly holds."""
        held = [(word, n) for word, n in self.words.most_common() if word.strip()]
        said = [f"{shown(word.strip(), 30)} ({n:,}x)" for word, n in held[:5]]
        return ", ".join(said + ["..."] * (self.many or len(held) > 5))

    @cached_property
    def levels(self) -> set[str]:
        """Categories that its words stand for."""
        gaps = LEVEL_GAPS | self.gone.keys()
        return {level(word) for word in self.words if canonical(word) not in gaps}

    @cached_property
    def _entries(self) -> tuple[set[str], set[str]]:
        """Words that may be entries, and those that are taken for no answer beside them."""
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
        """The words that were not given as numbers, if all of them are."""
        values = {number(word) for word in self.tokens - self.given.keys()}
        return set() if None in values else {v for v in values if v is not None}

    def meanings(self, known: Collection[str] = ()) -> dict[str, int] | None:
        """Code of each word that is not known, if those of each table are of one family."""
        parts = self.parts if len(self.parts) > 1 else [self]
        return meanings([part.tokens.difference(known) for part in parts])

    def rows_of(self, words: Collection[str]) -> int:
        """Number of rows that hold one of some words."""
        return sum(n for word, n in self.words.items() if canonical(word) in words)


def looked(source: Source, choices: Choices) -> Iterator[list[Cells]]:
    """Look at what the columns of a source hold but for those left out, and yield its blocks."""
    source.held = []
    for j, name in enumerate(source.names):
        most = COMBINED if choices.of(name) == "answers" else MOST
        cut = choices.cut(name) not in (None, "levels")
        source.held.append(Column(j, name, source.label, choices.signs(name), most, cut))
    for block in source.blocks():
        cells = [Cells(array) for array in block]
        for column, each in zip(source.held, cells, strict=True):
            if column.name not in choices.ignore:
                column.add(each)
        yield cells


def together(parts: Sequence[Source], label: str) -> Source:
    """Return one table that is in partitions, which errors call `label`."""
    full = [part for part in parts if any(held.rows for held in part.held)] or list(parts[:1])
    names = full[0].names
    for part in full:
        places = places_of(part.names, names, part.label, full[0].label)
        part.held = [part.held[j] for j in places]
    held = [Column.together(each) for each in zip(*(part.held for part in full), strict=True)]
    for column in held:
        column.parts, alone = (), column.many or len(column.words) == column.rows
        column.different = column.different and alone
    return replace(full[0], label=label, held=held)


class Decider:
    """Chooses how each column is coded, from what `tables` hold, whose columns are alike."""

    def __init__(self, tables: Sequence[Source], choices: Choices):
        self.tables, self.names, self.label = tables, tables[0].names, tables[0].label
        self.choices, self.unnamed = choices.among(self.names), is_made_up(self.names)
        each = zip(*(table.held for table in tables), strict=True)
        self.columns = [Column.together(parts) for parts in each]
        self.named = self.choices.named()
        self.free = {c for c in self.columns if c.name not in self.named}  # nothing was said of it
        self.id: Column | None = None
        self.notes: dict[str, list[str]] = {}  # what was noticed, and what it is said of
        self.ticked: list[Column] = []  # columns of one word and blanks
        self.far: dict[tuple[str, ...], list[Column]] = {}  # columns by numbers far from others

    def decide(self) -> tuple[Coding, list[str]]:
        """Return the coding of all columns that are used and what was noticed, or refuse them."""
        if unknown := sorted(self.named - set(self.names)):
            raise no_columns(self.label, unknown, self.names)
        naming = self._name_rows()
        used = [c for c in self.columns if c not in naming and self._is_used(c)]
        if not used:
            why = f": {self.id.called} names the rows" if self.id else ""
            raise DataError(f"{self.label}: no column is left to use{why}")
        self._look_at_zeros(used)
        codes, faults = list[Code](), list[tuple[Column, UnfitError]]()
        for c in used:
            try:
                codes.append(self._code(c))
            except UnfitError as fault:
                faults.append((c, fault))
            for word in sorted(set[str]().union(*(part.unsaid for part in c.parts))):
                self._note(f"'{word}' is taken for no answer in ", c)
        if faults:
            raise self._error(faults, used)
        for words, columns in self.far.items():
            gone = dict.fromkeys(words, "missing")
            alone = len(columns) == 1 or any(c.rows_of(words) for c in {*used}.difference(columns))
            way = self.choices.give(words={c.name: gone for c in columns} if alone else gone)
            said = f"{' and '.join(words)}, far from others (no answer? give {way}), in "
            self._note(said, *columns)
        if self.ticked:
            own = {min(self.ticked[0].levels): 1, "": -1}
            way = self.choices.give(words={self.ticked[0].name: own})
            said = f"one word and blanks, which are missing (if they mean no: {way}), in "
            self._note(said, *self.ticked)
        kinds = {code: code for code in codes}  # columns that are coded alike share one
        names, ids = tuple(c.name for c in used), (self.id.name,) if self.id else ()
        left = set(self.names).difference(names, ids)
        ignored = tuple(name for name in self.names if name in left)
        coding = Coding(names, tuple(kinds[code] for code in codes), ids, ignored)
        return coding, [line + listed(said) for line, said in self.notes.items()]

    def _note(self, line: str, *columns: Column) -> None:
        """Note something of columns, with others of which the same was noted."""
        self.notes.setdefault(line, []).extend(c.name for c in columns)

    def _is_used(self, c: Column) -> bool:
        """Whether a column is one to compute with."""
        if c.name in self.choices.ignore or (c in self.free and INDEX.fullmatch(c.name)):
            return False
        used = bool(c.tokens or c.many or c.why or self.unnamed) or c.name != c.called
        if not used:
            self._note("left out, as there is neither a name nor an entry: ", c)
        return used

    def _look_at_zeros(self, used: Sequence[Column]) -> None:
        """Find out what 0 stands for, and 1 where there is 2: that is one rule for a table."""
        each = zip(*(c.parts for c in used), strict=True)
        small = [[p.values for p in own if p.values <= BINARY | TWO] for own in each]
        signs = [set[float]().union(*own) & BINARY for own in small]
        self.ones = set[float]().union(*signs) <= {1.0} and any(TWO in own for own in small)
        minus = any({-1.0, 0.0} <= values for values in signs)
        plain = [c.name for c in used if c.values == {0.0, 1.0}]
        lower = sum(-1.0 in c.values and c.values <= BINARY for c in used)
        self.mixed = minus and not self.unnamed and RARE * len(plain) > lower
        self.minus = minus and not self.mixed
        no = self.choices.give(words={plain[0]: {"0": -1}} if plain else {"0": -1})
        zeros = [c for c in used if self.minus and 0.0 in c.values]
        if zeros and not all(-1.0 in values for values in signs if 0.0 in values):
            raise DataError(f"{self.label}: 0 occurs, and -1 in some tables: say what 0 is ({no})")
        if zeros:
            self._note(f"0 is missing, as -1 occurs; where 0 means no, say so: {no}; in ", *zeros)

    # Names of rows

    def _name_rows(self) -> list[Column]:
        """Return the column that names the rows, and others that could: a line says so."""
        if self.choices.id is not None:
            found = [c for c in self.columns if self.choices.id and c.name == self.choices.id]
            self.id = found[0] if found else None
            return found
        found = [c for c in self.columns if c in self.free and self._names_rows(c)]
        found.sort(key=lambda c: (not NAMING.fullmatch(c.name), c.name == "column 1"))
        if found:
            self.id = found[0]
            self._note(f"{self.id.called} names the rows")
            if sums := sorted(w for w in self.id.words if token(w).rstrip(" :") in SUMS):
                self._note(f"a row is named {listed(sums)}: remove it if it sums up others")
        if found[1:]:
            self._note("no two rows have the same word in what is left out, ", *found[1:])
        return found

    def _names_rows(self, c: Column) -> bool:
        """Whether the words of a column are names of rows: all differ, and they are no entries."""
        named = bool(NAMING.fullmatch(c.name)) and not self.unnamed
        first, given = c.place == 0, c.tokens & c.given.keys()
        if c.why or c.rows < 3 or not (c.different or first or named):
            return False
        if not c.tokens or c.tokens & FULL or c.meanings():
            return False
        if given and not (c.different and len(c.tokens - given) > FEW):  # 1 and 2 of 1 to 450
            return False
        if c.numeric:
            values = np.array([number(word) for word in c.words], float)
            whole = c.different and bool((values == np.floor(values)).all())
            rising = first and bool((np.diff(values) == 1).all())
            return whole and (named or rising) and not set(values) <= BINARY
        numbers = np.mean([DRESSED.fullmatch(word.strip()) is not None for word in c.tokens])
        if not named and numbers >= (1 if first else MOSTLY):
            return False  # though some may have to be written in another way
        if c.different:
            return named or first or c.rows > FEW
        return len(c.words) > FEW and (c.many or len(c.words) >= MOSTLY * c.rows)

    # Codes

    def _code(self, c: Column) -> Code:
        """How a column is coded."""
        kind, cut = self.choices.of(c.name), self.choices.cut(c.name)
        rest, said = c.tokens - c.given.keys(), c.tokens & c.given.keys()
        if c.why:
            raise UnfitError(c.why)
        if kind == "answers":
            return self._answers(c)
        if kind == "ordinal":
            return self._ordinal(c)
        if kind or (c.many and not c.numeric):
            return self._category(c, bool(kind) or cut == "levels")
        if c.many or (rest and c.values and None not in map(number, said)):
            return self._number(c, cut)
        words = c.given if said else c.gone
        if not rest:
            return Code("words", tuple((dict(() if said else EMPTY) | words).items()))
        known = c.meanings(c.given)
        if known is not None:
            return Code("words", tuple((known | words | c.gone).items()))
        if said:
            raise self._odd(c, rest - KNOWN or rest, "is not among the words that were given")
        return self._category(c, cut == "levels")

    def _number(self, c: Column, how: Any) -> Code:
        """Code of a column of numbers, which may be cut."""
        values, gone = c.values, tuple(c.gone.items())
        own = how is not None and c.name in self.choices.cuts
        if not c.many:
            if values <= TWO and (2.0 in values or self.ones):
                self._note("2 is +1 and 1 is -1 in ", c)
                return Code("words", (("1", -1), ("2", 1), *gone))
            if values <= BINARY and not (self.mixed and values >= {-1.0, 0.0}):
                none = self.minus or (self.mixed and -1.0 in values)
                low = {"-1": -1, "0": GONE if none else -1, "1": 1}
                return Code("words", tuple((low | c.given).items()))
        zeros = not own and any(re.fullmatch(r"0\d\d+", word.strip()) for word in c.words)
        if how == "levels" or (zeros and not c.many):  # codes of places and the like
            return self._category(c, sure=True)
        numbers = c.numbers()
        if endless := sorted({spelt(v) for v in numbers[np.isinf(numbers)].tolist()}):
            way: Way = {"words": {c.name: dict.fromkeys(endless, "missing")}}
            raise UnfitError(f"holds {listed(endless)}, which is no number to use", way)
        codes = {v for v in values if abs(v) in NO_ANSWERS}
        coded = bool(codes) and values - codes in ({0.0, 1.0}, TWO)
        if how is not None and (own or not coded):
            self._look_at_codes(c)
            return Code("number", gone, threshold=c.threshold(str(how)))
        rest = sorted_levels(c.tokens - c.given.keys())  # as floats, long numbers may be equal
        if how is None and len(rest) <= 2 and not c.many:
            return Code("words", (*zip(rest, (-1, 1)[-len(rest) :], strict=True), *gone))
        each = {p.label: p.values for p in c.parts if p.values}
        if len(set(map(frozenset, each.values()))) > 1 and values <= BINARY | TWO:
            held = [f"{listed(sorted(map(spelt, v)))} in {label}" for label, v in each.items()]
            why = f"holds {', '.join(held)}: write them in one way"
            way = {"words": {c.name: {"1": 1} | {spelt(v): -1 for v in sorted(values - {1.0})}}}
            raise UnfitError(why, {"ignore": [c.name]}, way, when="if 1 means yes: ")
        ways: list[Way] = [{"binarize": {c.name: "median" if self.choices.by_rows else 20.5}}]
        why, when, aside = "holds numbers", "", ASIDE.fullmatch(c.name)
        if coded:
            blank = {spelt(v): "missing" for v in sorted(codes)}
            ways = [{"words": {c.name: blank}}, {"binarize": {c.name: 1.5}}]
            when = "if these are numbers: "
        elif values == BINARY:
            ways.append({"words": {c.name: {"0": "missing"}}})
        elif aside or (NAMING.fullmatch(c.name) and not self.unnamed):
            ways.insert(0, {"ignore": [c.name]})
            if aside and aside["weight"] and self.choices.options:
                why += f" (if rows count so: {self.choices.give(weights=c.name)})"
        odd = [word for word in rest if number(word) not in BINARY]
        if self.unnamed and odd:
            called = f"{RULE}, got {odd[0]} at {self._place(c, odd[:1])[0]}, {c.called}"
            raise UnfitError("", *ways, called=called, when=when)
        raise UnfitError(why, *ways, when=when)

    def _look_at_codes(self, c: Column) -> None:
        """Keep numbers that stand for no answer as a rule, and lie far from all of the others."""
        codes = {v for v in c.values if abs(v) in NO_ANSWERS}
        near = c.values - codes
        far = FAR * (max(near) - min(near)) if len(near) > 1 else np.inf
        while joined := {v for v in codes if min((abs(v - w) for w in near), default=0) <= far}:
            near, codes = near | joined, codes - joined  # what is near to one of them is none
        if codes:
            self.far.setdefault(tuple(spelt(v) for v in sorted(codes)), []).append(c)

    def _category(self, c: Column, sure: bool) -> Code:
        """Code of a column of categories."""
        if not sure:
            self._check_kind(c)
        count, (mark, answers) = len(c.levels), several_answers(c.levels)
        said = f"combinations of {len(answers)} answers with '{mark}' between them"
        ways = [{"words": {c.name: "answers"}}] * bool(mark and len(answers) <= LEVELS)
        if c.many or count > LEVELS:
            why = f"holds {'more than 1,000' if c.many else count} different words"
            raise UnfitError(f"{why}, {said}" if mark else why, *ways)
        if ways and c in self.free:
            self._note(f"{said}; for a column of each: {self.choices.give(**ways[0])}; in ", c)
        if count == 1 and c.words[""]:
            self.ticked.append(c)
        return Code("category", tuple(c.gone.items()), levels=sorted_levels(c.levels))

    def _ordinal(self, c: Column) -> Code:
        """Code of a column of ordered answers."""
        gone = c.gone | dict.fromkeys(c.unsaid, GONE)
        levels = {word for word in c.levels if canonical(word) not in c.unsaid}
        order = tuple(map(level, map(str, self.choices.ordinal[c.name])))
        if not order:
            self._look_at_codes(c)
        if len(levels) > LEVELS or c.many:
            raise UnfitError(f"holds more than {LEVELS} levels")
        if not order and None in map(number, levels):
            why = "holds words: give its levels from the lowest to the highest"
            raise UnfitError(why, {"ordinal": {c.name: in_order(levels)}})
        if order and (odd := set(map(canonical, levels - {*order}))):
            raise self._odd(c, odd, "is not among the levels told")
        return Code("ordinal", tuple(gone.items()), levels=order or sorted_levels(levels) or ("0",))

    def _answers(self, c: Column) -> Code:
        """Code of a column whose cells hold several answers each."""
        whole = {word: sign for word, sign in c.given.items() if sign <= GONE}
        cells = [word for word in c.words if canonical(word) not in whole]
        mark, answers = several_answers(cells, sure=True)
        if not mark or len(answers) > LEVELS or c.many:
            raise UnfitError(f"holds no cell of 2 to {LEVELS} answers, with ; | , or / between")
        if c.words[""] and not whole:
            way = self.choices.give(words={c.name: {"": -1}})
            self._note(f"blanks are missing (if they mean none: {way}), in ", c)
        return Code("answers", tuple(whole.items()), levels=answers, mark=mark)

    # Faults

    def _check_kind(self, c: Column) -> None:
        """Fail where words look like entries of another kind than categories."""
        tokens = {canonical(word) for word in c.levels}
        numbers = {word for word in tokens if number(word) is not None}
        if len(tokens) > 2 and tokens - numbers and all(map(DRESSED.fullmatch, c.levels)):
            word = shown(min(sorted(tokens - numbers), key=len), 40)
            raise UnfitError(f"holds numbers written like '{word}': write them like 1234.5")
        if c.many or len(tokens) < 2:
            return
        if numbers and c.rows_of(numbers) < c.rows_of(tokens - numbers):  # as of a row of totals
            raise self._odd(c, numbers, "stands beside", tokens - numbers)
        if numbers:
            raise self._odd(c, tokens - numbers, "is not a number")
        if all(map(DATE.fullmatch, c.levels)):
            raise UnfitError("holds dates")
        known, strange = tokens & FULL, tokens - KNOWN
        places = len(strange) >= OTHERS and c.rows_of(tokens & KNOWN) < c.rows_of(strange)
        if known and not places:  # SI and NO
            raise self._odd(c, strange or tokens - FULL or tokens, "stands beside", known)

    def _odd(
        self, c: Column, odd: Collection[str], why: str, beside: Collection[str] = ()
    ) -> UnfitError:
        """The fault of some words of a column that do not fit to the others."""
        place, word = self._place(c, odd)
        why += f" {listed(sorted({*beside} - {canonical(word)}))}" * bool(beside)
        gone = {w.strip(): "missing" for w in c.words if canonical(w) in odd}
        rare = len(odd) <= 3 and c.rows_of(odd) <= max(1, RARELY * c.rows)
        called = f"{place}, {c.called}: '{shown(word, 40)}'"
        ways: list[Way] = [{"words": {c.name: gone}}, {"words": {c.name: "category"}}]
        return UnfitError(why, *(ways if rare else ways[::-1]), called=called)

    def _place(self, c: Column, odd: Collection[str]) -> tuple[str, str]:
        """Table and row, from 1, that first hold one of some words, and that word."""
        word = next(w for w in c.first if canonical(w) in odd)
        label, row = c.first[word]
        return f"row {row}" if label == self.label else f"{label}, row {row}", word.strip()

    def _error(
        self, faults: Sequence[tuple[Column, UnfitError]], used: Sequence[Column]
    ) -> ColumnsError:
        """All that is in the way: a line for each column, and one to copy that settles it."""
        lines, best = [], []
        for c, fault in faults:
            ways = (*fault.ways, {"ignore": [c.name]})
            give = f"; or {fault.when}".join(self.choices.give(**way) for way in ways[:2])
            held = f"; commonest {said}" if (said := c.commonest()) else ""
            lines.append(f"{fault.called or c.called} {fault}".rstrip() + f"{held}; give {give}")
            best.append(ways[0])
        last = [line for line in self.notes if "sums up" in line]
        settled: Way = {"words": {}, "binarize": {}, "ordinal": {}, "ignore": []}
        for name, value in (pair for way in best for pair in way.items()):
            settled[name] = settled[name] + value if name == "ignore" else settled[name] | value
        own = {name: said for name, said in settled["words"].items() if isinstance(said, dict)}
        often, held_in = Counter(chain(*own.values())), Counter(chain(*(c.tokens for c in used)))
        once = {w: "missing" for w, n in often.items() if n == held_in[canonical(w)] > 1}
        rest = {k: v for k, v in settled["words"].items() if k not in own or v.keys() - once}
        settled["words"] = once | rest
        cuts = settled["binarize"]
        if len(cuts) > 2 and len({*cuts.values()}) == 1 and not self.choices.cuts:
            settled["binarize"] = next(iter(cuts.values()))
        if len(settled["ignore"]) == len(used):
            last.append("there is no other column")
        elif len(faults) > 1:
            last.append(f"to settle all of them: {self.choices.give(**settled)}")
        said = f"{len(faults):,} of {len(self.names):,} columns cannot be read as they are"
        return columns_error(self.label, said, lines, [c.name for c, _ in faults], "; ".join(last))


def no_columns(label: str, unknown: Sequence[str], names: Sequence[str]) -> DataError:
    """Return the error about columns that are not there, with one that they are like."""
    held = {name[:60].strip().lower(): name for name in reversed(names[:10_000])}
    like = get_close_matches(unknown[0][:60].strip().lower(), held, n=1)
    way = f"did you mean {listed([held[like[0]]])}?" if like else f"there are {listed(names)}"
    return DataError(f"{label}: there is no column {listed(unknown)}; {way}")
