"""From what the columns of a table hold to a coding, or to one error about all that is in the way.

A column is one of words for yes and no (0 and 1, 1 and 2, -1 and +1 among them), of two numbers, of
a few other words (each becomes a column), of answers, several in a cell (where that is said), or of
numbers that are cut (likewise). Another one may name the rows. All others are refused together.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from hopfed.errors import ColumnsError, DataError, shown
from hopfed.tables.coding import EMPTY, Code, Coding
from hopfed.tables.examples import RULE
from hopfed.tables.options import Choices
from hopfed.tables.remarks import remarks
from hopfed.tables.table import Source, columns_error, is_made_up, listed, places_of
from hopfed.tables.words import (
    FULL,
    GONE,
    KNOWN,
    MAYBE_LEVEL,
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
    outsiders,
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
BINARY, TWO = {-1.0, 0.0, 1.0}, {1.0, 2.0}
NAMING = re.compile(
    r"(.*[ ._-])?(id|ids|name|names|key|index|row|rownames?|rowid)|unnamed: 0|__index_level_0__|"
    r"seqn|idno|patid|patnr|__null_dask_index__|column 1|",
    re.IGNORECASE,
)
INDEX = re.compile(r"__index_level_\d+__|__null_dask_index__")  # a column that nobody made
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
Way = tuple[str, dict[str, Any]]  # when it is one out of a fault ("" of the first), what to give


@dataclass
class Held:
    """What the rows of a column that were read so far hold."""

    label: str = ""  # of the table
    missing: frozenset[str] = MISSING | UNSAID  # words that stand for no entry
    most: int = MOST  # different words that are kept
    kept: list[np.ndarray] | None = None  # numbers, once there are many and if they are asked for
    words: Counter[str] = field(default_factory=Counter)  # as they stand; "" of a missing entry
    first: dict[str, tuple[str, int]] = field(default_factory=dict)  # table and row of each word
    many: bool = False  # whether there are more than `most`, and `words` are the first
    numeric: bool = True  # whether so far all words are numbers or missing
    different: bool = True  # whether no two of the rows were alike
    rows: int = 0
    why: str = ""  # it cannot be used, whatever the words are

    def add(self, cells: Cells) -> None:
        """Look at some more rows."""
        import pyarrow.types as types

        before, self.rows = self.rows, self.rows + len(cells)
        kind = cells.array.type
        kind = kind.value_type if types.is_dictionary(kind) else kind
        if types.is_nested(kind) or types.is_temporal(kind):
            self.why = f"holds {'lists or records' if types.is_nested(kind) else 'dates or times'}"
        if self.many:
            self._add_numbers(cells)
        if self.many or self.why:
            return
        counts = dict(zip(cells.words, cells.counts.tolist(), strict=True))
        counts[""] = counts.get("", 0) + len(cells) - sum(counts.values())
        fresh = [word for word, n in counts.items() if n and word not in self.words]
        self.different = self.different and len(fresh) == len(cells)
        self.many = len(self.words) + len(fresh) > self.most
        first = fresh[: self.most]
        known = (number(w) is not None or canonical(w) in self.missing for w in first)
        self.numeric = self.numeric and all(known)
        if self.many:
            self._add_numbers(cells)
            fresh = first if self.numeric else fresh  # the first numbers will do
        rows = np.empty(len(cells.words) + 1, int)
        rows[cells.places[::-1]] = np.arange(self.rows, before, -1)  # the first comes last
        self.words.update(dict.fromkeys(fresh, 0))
        for (word, count), row in zip(counts.items(), rows.tolist(), strict=False):
            if word in self.words:
                self.words[word] += count
                self.first.setdefault(word, (self.label, row))

    def _add_numbers(self, cells: Cells) -> None:
        """Look at some more rows of a column of many words: whether they are numbers, and which."""
        if self.kept == []:
            self.kept.append(self.numbers())
        values = as_numbers(cells.array, self.missing) if self.numeric else None
        self.numeric = values is not None
        if values is not None and self.kept is not None:
            self.kept.append(values[~np.isnan(values)])

    @classmethod
    def together(cls, parts: Sequence[Held]) -> Held:
        """Return what one column holds in several tables."""
        if len(parts) == 1:
            return parts[0]
        whole = cls("", parts[0].missing, parts[0].most)
        for part in parts:
            whole.words.update(part.words)
            whole.first = {**part.first, **whole.first}
            whole.rows += part.rows
            whole.why = whole.why or part.why
        known = [part for part in parts if part.words.keys() - {""}] or parts
        whole.numeric = all(part.numeric for part in parts)
        whole.different = all(part.different for part in known)  # an owner may lack the column
        whole.many = len(whole.words) > whole.most or any(part.many for part in parts)
        if whole.many and parts[0].kept is not None:
            whole.kept = [part.numbers() for part in parts if part.numeric]
        return whole

    def numbers(self) -> np.ndarray:
        """Return all numbers that it holds."""
        if self.kept:
            return np.concatenate(self.kept)
        held = ((number(w), n) for w, n in self.words.items() if canonical(w) not in self.missing)
        found = [(value, n) for value, n in held if value is not None]
        values, counts = np.array(found, float).reshape(-1, 2).T
        return np.repeat(values, counts.astype(int))

    def commonest(self) -> str:
        """Say what it mostly holds."""
        held = [(word, n) for word, n in self.words.most_common() if word.strip()]
        said = [f"{shown(word.strip(), 30)} ({n:,}x)" for word, n in held[:5]]
        return ", ".join(said + ["..."] * (self.many or len(held) > 5))

    def threshold(self, how: str) -> float:
        """Value above which a number of the column is +1."""
        kind, _, share = how.partition(":")
        if kind not in ("median", "mean", "quantile"):
            return float(how)
        values, counts = np.unique(self.numbers(), return_counts=True)
        if not len(values):
            return math.nan
        if kind == "mean":
            return float(np.average(values, weights=counts))
        due = float(share or 0.5)
        cut = float(np.quantile(np.repeat(values, counts), due))
        misses = np.abs(np.cumsum(counts)[:-1] - due * counts.sum())
        if not len(misses):
            return cut
        missed = abs(counts[values <= cut].sum() - due * counts.sum())
        near = kind == "quantile" or missed <= misses.min() + EVEN * counts.sum()
        return cut if cut < values[-1] and near else float(values[misses.argmin()])


def looked(source: Source, choices: Choices) -> Iterator[list[Cells]]:
    """Look at what the columns of a source hold but for those left out, and yield its blocks."""
    source.held = []
    for name in source.names:
        gone = {word for word, sign in choices.signs(name).items() if sign == GONE}
        missing = Held.missing | gone if gone else Held.missing  # one set for all, as a rule
        most = COMBINED if choices.of(name) == "answers" else MOST
        kept = None if choices.cut(name) is None else list[np.ndarray]()
        source.held.append(Held(source.label, missing, most, kept))
    for block in source.blocks():
        cells = [Cells(array) for array in block]
        for name, held, some in zip(source.names, source.held, cells, strict=True):
            if name not in choices.ignore:
                held.add(some)
        yield cells


def together(parts: Sequence[Source], label: str) -> Source:
    """Return one table that is in partitions, which errors call `label`."""
    full = [part for part in parts if any(held.rows for held in part.held)] or list(parts[:1])
    names = full[0].names
    for part in full:
        places = places_of(part.names, names, part.label, full[0].label)
        part.held = [part.held[j] for j in places]
    held = [Held.together(each) for each in zip(*(part.held for part in full), strict=True)]
    for column in held:
        column.different &= column.many or len(column.words) == column.rows
    return replace(full[0], label=label, held=held)


class Column:
    """What a column of some tables holds, and what was said of it."""

    def __init__(self, place: int, name: str, parts: Sequence[Held], choices: Choices, free: bool):
        self.place, self.name, self.free = place, name, free  # free: nobody said anything of it
        self.held = Held.together(parts)
        self.given = choices.signs(name)  # codes of the words that were given
        self.gone = {word: GONE for word, sign in self.given.items() if sign == GONE}
        self.unsaid: set[str] = set()  # words that are taken for no answer
        self.code: Any = None  # how it is coded, once that is decided
        self.tokens = self._tokens(self.held)  # words that may be entries
        self.each = [self._tokens(part) for part in parts] if parts[1:] else [self.tokens]
        self.numbers = set() if self.held.many else self.numbers_of(self.tokens)
        self.shown = shown(name, 60)  # its name in a line
        self.called = f"column '{self.shown}'"

    @cached_property
    def levels(self) -> set[str]:
        """Categories that its words stand for."""
        missing = MISSING - MAYBE_LEVEL | self.gone.keys()
        return {level(word) for word in self.held.words if canonical(word) not in missing}

    def _tokens(self, held: Held) -> set[str]:
        """Words of a table, or of all, that may be entries."""
        found = {canonical(word) for word in held.words} - self.gone.keys()
        found = found - MISSING | ({"-"} & found if "+" in found else set())
        unsaid = found & UNSAID - self.given.keys()
        rest = found - unsaid
        if not unsaid or not rest or "present" in found:
            return found
        if None in map(number, rest) and meanings([rest]) is None:
            return found
        self.unsaid |= unsaid
        return rest

    def numbers_of(self, tokens: set[str]) -> set[float]:
        """The words that were not given as numbers, if all of them are."""
        values = {number(word) for word in tokens - self.given.keys()}
        return set() if None in values else {v for v in values if v is not None}

    def meanings(self, known: Collection[str] = ()) -> dict[str, int] | None:
        """Code of each word that is not known, if those of each table are of one family."""
        return meanings([tokens.difference(known) for tokens in self.each])

    def rows_of(self, words: Collection[str]) -> int:
        """Number of rows that hold one of some words."""
        return sum(n for word, n in self.held.words.items() if canonical(word) in words)


class Fault(NamedTuple):
    """What is in the way in a column, and the ways out, of which the first settles it."""

    column: Column
    why: str
    ways: list[Way]


class Decider:
    """Chooses how each column is coded, from what `tables` hold, whose columns are alike."""

    def __init__(self, tables: Sequence[Source], choices: Choices):
        self.tables, self.names, self.label = tables, tables[0].names, tables[0].label
        self.choices, self.unnamed = choices.among(self.names), is_made_up(self.names)
        mentioned, parts = self.choices.named(), zip(*(table.held for table in tables), strict=True)
        self.columns = [
            Column(j, name, held, self.choices, name not in mentioned)
            for j, (name, held) in enumerate(zip(self.names, parts, strict=True))
        ]
        self.notes: list[str] = []
        self.id: Column | None = None
        for c in self.columns if self.unnamed else ():
            c.called = c.name

    def decide(self) -> tuple[Coding, list[str]]:
        """Return the coding of all columns that are used and what was noticed, or refuse them."""
        unknown = sorted(self.choices.named() - set(self.names))
        if unknown:
            raise no_columns(self.label, unknown, self.names)
        naming = self._name_rows()
        used = [c for c in self.columns if c not in naming and self._is_used(c)]
        if not used:
            why = f": '{self.id.shown}' names the rows" if self.id else ""
            raise DataError(f"{self.label}: no column is left to use{why}")
        self._look_at_zeros(used)
        made = [self._code(c) for c in used]
        if faults := [each for each in made if isinstance(each, Fault)]:
            raise self._error(faults, used)
        kinds = {code: code for code in made}  # columns that are coded alike share one
        for c, code in zip(used, made, strict=True):
            c.code = kinds[code]
        kept = {c.name for c in (*used, self.id) if c}
        left = tuple(name for name in self.names if name not in kept)
        ids = (self.id.name,) if self.id else ()
        coding = Coding(tuple(c.name for c in used), tuple(c.code for c in used), ids, left)
        return coding, [*self.notes, *remarks(used, self.choices, self.minus)]

    def _is_used(self, c: Column) -> bool:
        """Whether a column is one to compute with; a line says so if it is not."""
        if c.name in self.choices.ignore or (c.free and INDEX.fullmatch(c.name)):
            return False
        named = self.unnamed or not c.name.startswith("column ")
        if named or c.tokens or c.held.many or c.held.why:
            return True
        self.notes.append(f"left out: '{c.shown}', which has no name and no entry")
        return False

    def _look_at_zeros(self, used: Sequence[Column]) -> None:
        """Find out what 0 stands for, and 1 where there is 2: that is one rule for a table."""
        each = [[c.numbers_of(c.each[k]) for c in used] for k in range(len(self.tables))]
        small = [[values for values in own if values <= BINARY | TWO] for own in each]
        signs = [set[float]().union(*own) & BINARY for own in small]
        self.ones = set[float]().union(*signs) <= {1.0} and any(TWO in own for own in small)
        self.minus = any({-1.0, 0.0} <= values for values in signs)
        plain = sum(c.numbers == {0.0, 1.0} for c in used)
        lower = sum(-1.0 in c.numbers and c.numbers <= BINARY for c in used)
        self.mixed = self.minus and not self.unnamed and RARE * plain > lower
        self.minus = self.minus and not self.mixed
        for table, values in zip(self.tables, signs, strict=True):
            if self.minus and 0.0 in values and -1.0 not in values:
                raise DataError(
                    f"{table.label}: 0 occurs and -1 does not, while another table has both: say "
                    f"what 0 stands for ({self.choices.give(words={'0': -1})})"
                )

    # Names of rows

    def _name_rows(self) -> list[Column]:
        """Return the column that names the rows, and others that could: a line says so."""
        if self.choices.id is not None:
            self.id = next((c for c in self.columns if c.name == (self.choices.id or None)), None)
            return [self.id] if self.id else []
        found = [c for c in self.columns if c.free and self._names_rows(c)]
        if not found:
            return []
        best = sorted(found, key=lambda c: (not NAMING.fullmatch(c.name), c.name == "column 1"))
        self.id = best[0]
        self.notes.append(f"column '{self.id.shown}' names the rows")
        sums = sorted(word for word in self.id.held.words if token(word).rstrip(" :") in SUMS)
        if sums:
            self.notes.append(f"a row is named {listed(sums)}: remove it if it sums up others")
        others = [c.name for c in found if c is not self.id]
        if others:
            line = f"left out: {listed(others)}, in which no two rows have the same word"
            self.notes.append(line)
        return found

    def _names_rows(self, c: Column) -> bool:
        """Whether the words of a column are names of rows: all differ, and they are no entries."""
        held, first, tokens = c.held, c.place == 0, c.tokens
        named = bool(NAMING.fullmatch(c.name)) and not self.unnamed
        if held.why or held.rows < 3 or not (held.different or first or named):
            return False
        if not tokens or tokens & FULL or c.meanings():
            return False
        given = tokens & c.given.keys()
        if given and not (held.different and len(tokens - given) > FEW):  # 1 and 2 of 1 to 450
            return False
        if held.numeric:
            values = np.array([number(word) for word in held.words], float)
            whole = held.different and bool((values == np.floor(values)).all())
            rising = first and bool((np.diff(values) == 1).all())
            return whole and (named or rising) and not set(values) <= BINARY
        numbers = np.mean([DRESSED.fullmatch(word.strip()) is not None for word in tokens])
        if not named and numbers >= (1 if first else MOSTLY):
            return False  # though some may have to be written in another way
        if held.different:
            return named or first or held.rows > FEW
        mostly = held.many or len(held.words) >= MOSTLY * held.rows
        return mostly and len(held.words) > FEW

    # Codes

    def _code(self, c: Column) -> Code | Fault:
        """How a column is coded, or why it cannot be used as it is."""
        kind, cut = self.choices.of(c.name), self.choices.cut(c.name)
        rest, said = c.tokens - c.given.keys(), c.tokens & c.given.keys()
        if c.held.why:
            return self._fault(c, c.held.why)
        if kind == "answers":
            return self._answers(c)
        if kind == "ordinal":
            return self._ordinal(c)
        sure = kind == "category" or cut == "levels"
        if kind or (c.held.many and not c.held.numeric):
            return self._category(c, sure)
        if c.held.many or (rest and c.numbers and None not in map(number, said)):
            return self._number(c, cut)
        words = c.given if said else c.gone
        if not rest:
            return Code("words", tuple((dict(() if said else EMPTY) | words).items()))
        known = c.meanings(c.given)
        if known is not None:
            return Code("words", tuple((known | words | c.gone).items()))
        if said:
            return self._odd(c, outsiders(rest) or rest, "is not among the words that were given")
        return self._category(c, sure)

    def _number(self, c: Column, how: Any) -> Code | Fault:
        """Code of a column of numbers, which may be cut."""
        values, gone = c.numbers_of(c.tokens), tuple(c.gone.items())
        has_cut = how is not None and c.name in self.choices.cuts
        if not c.held.many:
            if values <= TWO and (2.0 in values or self.ones):
                return Code("words", (("1", -1), ("2", 1), *gone))
            if values <= BINARY and not (self.mixed and values >= {-1.0, 0.0}):
                none = self.minus or (self.mixed and -1.0 in values)
                low = {"-1": -1, "0": GONE if none else -1, "1": 1}
                return Code("words", tuple((low | c.given).items()))
            if not has_cut and any(re.fullmatch(r"0\d\d+", word.strip()) for word in c.held.words):
                return self._category(c, sure=True)  # codes of places and the like
        if how == "levels":
            return self._category(c, sure=True)
        if why := next((t.doubts[c.name] for t in self.tables if c.name in t.doubts), ""):
            return self._fault(c, why)
        rest = sorted_levels(c.tokens - c.given.keys())  # as floats, long numbers may be equal
        if endless := {word for word in rest if abs(number(word) or 0) == math.inf}:
            return self._odd(c, endless, "is no number to use")
        codes = {spelt(v): GONE for v in sorted(values) if abs(v) in NO_ANSWERS}
        coded = bool(codes) and values - set(map(float, codes)) in ({0.0, 1.0}, TWO)
        if how is not None and (has_cut or not coded):
            return Code("number", gone, threshold=c.held.threshold(str(how)))
        if how is None and len(rest) <= 2 and not c.held.many:
            return Code("words", (*zip(rest, (-1, 1)[-len(rest) :], strict=True), *gone))
        cut = {"binarize": {c.name: "median" if self.choices.by_rows else 20.5}}
        ways: list[Way] = [("", cut)]
        if coded:
            ways = [("", {"words": {c.name: codes}})]
            ways.append(("if these are numbers", {"binarize": {c.name: 1.5}}))
        if values == BINARY:
            ways.append(("if 0 means no answer", {"words": {c.name: {"0": GONE}}}))
        if aside := ASIDE.fullmatch(c.name):
            ways = [("", {"ignore": [c.name]}), ("if it is a feature", cut)]
            if aside["weight"] and self.choices.options:
                ways.append(("if rows count so", {"weights": c.name}))
        odd = next((word for word in rest if number(word) not in BINARY), "")
        if self.unnamed and odd:
            place = f"{self._where(c, {odd})[0]}, column {c.place + 1}"
            return self._fault(c, f"got {odd} at {place}", *ways, called=f"{RULE},")
        return self._fault(c, "holds numbers", *ways)

    def _category(self, c: Column, sure: bool = False) -> Code | Fault:
        """Code of a column of categories; too many may be names of rows that occur again."""
        held, few = c.held, not c.held.many and len(c.levels) <= LEVELS
        if not sure and (fault := self._of_another_kind(c)):
            return fault
        if few:
            return Code("category", tuple(c.gone.items()), levels=sorted_levels(c.levels))
        why = f"holds {'more than 1,000' if held.many else len(c.levels)} different words"
        mark, answers = several_answers(c.levels)
        if mark:
            why += f", combinations of {len(answers)} answers with '{mark}' between them"
        few = bool(mark) and len(answers) <= LEVELS
        return self._fault(c, why, *[("", {"words": {c.name: "answers"}})] * few)

    def _ordinal(self, c: Column) -> Code | Fault:
        """Code of a column of ordered answers."""
        gone = c.gone | dict.fromkeys(c.unsaid, GONE)
        levels = {word for word in c.levels if canonical(word) not in c.unsaid}
        order = tuple(map(level, map(str, self.choices.ordinal[c.name])))
        if len(levels) > LEVELS or c.held.many:
            return self._fault(c, f"holds more than {LEVELS} levels")
        if not order and None in map(number, levels):
            why = "holds words: give its levels from the lowest to the highest"
            return self._fault(c, why, ("", {"ordinal": {c.name: in_order(levels)}}))
        if order and (odd := set(map(canonical, levels - {*order}))):
            return self._odd(c, odd, "is not among the levels told")
        return Code("ordinal", tuple(gone.items()), levels=order or sorted_levels(levels) or ("0",))

    def _answers(self, c: Column) -> Code | Fault:
        """Code of a column whose cells hold several answers each."""
        whole = {word: sign for word, sign in c.given.items() if sign <= GONE}
        said = [word for word in c.held.words if canonical(word) not in whole]
        mark, answers = several_answers(said, sure=True)
        if not mark:
            return self._fault(c, "holds no cell of several answers, with ; or | or , between")
        if len(answers) > LEVELS or c.held.many:
            return self._fault(c, f"holds {len(answers):,} or more different answers")
        return Code("answers", tuple(whole.items()), levels=answers, mark=mark)

    # Faults

    def _of_another_kind(self, c: Column) -> Fault | None:
        """The fault of words that look like entries of another kind than categories."""
        odd = sorted(word for word in c.levels if number(word) is None)
        if odd and len(c.levels) > 2 and all(map(DRESSED.fullmatch, c.levels)):
            word = shown(min(odd, key=len), 40)
            why = f"holds numbers that are written like '{word}': write them like 1234.5"
            return self._fault(c, why)
        if c.held.many:
            return None
        tokens = {canonical(word) for word in c.levels}
        numbers = {canonical(word) for word in c.levels if number(word) is not None}
        known, rest, strange = tokens & FULL, tokens - numbers, tokens - KNOWN
        if numbers and c.rows_of(numbers) < c.rows_of(rest):  # as of a row of totals
            return self._odd(c, numbers, f"is a number beside {listed(sorted(rest)[:5])}")
        if numbers:
            return self._odd(c, rest, "is not a number")
        if all(map(DATE.fullmatch, c.levels)):
            return self._fault(c, "holds dates")
        rare = len(strange) >= OTHERS and c.rows_of(tokens & KNOWN) < c.rows_of(strange)
        if not known or len(tokens) == 1 or rare:  # SI and NO: places
            return None
        return self._odd(c, outsiders(tokens) or tokens - FULL or tokens, "stands beside", known)

    def _odd(
        self, c: Column, odd: Collection[str], why: str, beside: Collection[str] = ()
    ) -> Fault:
        """The fault of some words of a column that do not fit to the others."""
        place, word = self._where(c, odd)
        why += f" {listed(sorted({*beside} - {canonical(word)}))}" * bool(beside)
        written = {canonical(w): w.strip() for w in reversed(list(c.held.words))}
        words = {written[w]: GONE for w in sorted(odd) if w in written}
        ways: list[Way] = [
            ("if there is no answer", {"words": {c.name: words}}),
            ("if these are categories", {"words": {c.name: "category"}}),
        ]
        few = len(odd) <= 3
        if not few or c.rows_of(odd) > max(1, RARELY * c.held.rows):
            ways.reverse()
        ways = [("", ways[0][1]), *ways[1:] * few]
        return self._fault(c, why, *ways, called=f"{place}, {c.called}: '{shown(word, 40)}'")

    def _fault(self, c: Column, why: str, *given: Way, called: str = "") -> Fault:
        """What is in the way in a column: it can always be left out, or may name the rows."""
        left: Way = ("", {"ignore": [c.name]})
        ways, held, called = list(given), c.held, called or c.called
        whole = all(v is None or v.is_integer() for v in map(number, held.words))
        naming = NAMING.fullmatch(c.name) and not self.unnamed
        if own := self._owners(c):
            called, why, ways = c.called, f"holds {own}: write them in one way", [left]
            if "1" in c.tokens:
                low = dict.fromkeys(sorted(c.tokens & {"-1", "0", "2"}), -1)
                ways.append(("if 1 means yes", {"words": {c.name: {"1": 1} | low}}))
        elif not ways or (naming and whole and held.numeric):
            ways.insert(0, left)
        if self.id is None and self.choices.id is None and not (self.unnamed or held.why):
            may = held.different and (whole or not held.numeric)
            if may or naming or (c.place == 0 and not held.numeric and len(held.words) > FEW):
                ways.append(("if it names the rows", {"id": c.name}))
        ways += [left] * (left not in ways)
        return Fault(c, f"{called} {why}", ways)

    def _owners(self, c: Column) -> str:
        """What each table holds of several that write yes and no in different ways, else ""."""
        labels = [table.label for table in self.tables]
        each = [(t, c.numbers_of(t), label) for t, label in zip(c.each, labels, strict=True) if t]
        plain = all(len(t) < 3 and (values or meanings([t])) for t, values, _ in each)
        if not plain or all(values == each[0][1] for _, values, _ in each):
            return ""
        return ", ".join(f"{listed(sorted(t))} in {label}" for t, _, label in each)

    def _where(self, c: Column, odd: Collection[str]) -> tuple[str, str]:
        """Table and row, from 1, that first hold one of some words, and that word as it stands."""
        found = [word for word in c.held.first if canonical(word) in odd] or [*c.held.first]
        word = found[0]
        label, row = c.held.first[word]
        return f"row {row}" if label == self.label else f"{label}, row {row}", word.strip()

    def _error(self, faults: Sequence[Fault], used: Sequence[Column]) -> ColumnsError:
        """All that is in the way: a line for each column, and one to copy that settles it."""
        lines = []
        for c, why, ways in faults:
            held = c.held.commonest()
            give = [f"{when}: " * bool(when) + self.choices.give(**way) for when, way in ways]
            lines.append(f"{why}{f'; commonest {held}' if held else ''}; give {'; or '.join(give)}")
        last = [line for line in self.notes if "it sums up" in line]
        settled = self._settled([fault.ways[0][1] for fault in faults], used)
        if len(settled["ignore"]) == len(used):
            last.append("there is no other column")
        elif len(faults) > 1:
            last.append(f"to settle all of them: {self.choices.give(**settled)}")
        said = f"{len(faults):,} of {len(self.names):,} columns cannot be read as they are"
        names = [fault.column.name for fault in faults]
        return columns_error(self.label, said, lines, names, "; ".join(last))

    def _settled(self, ways: Sequence[dict[str, Any]], used: Sequence[Column]) -> dict[str, Any]:
        """Ways out of all faults together; what is said of all columns is said once."""
        settled: dict[str, Any] = {"words": {}, "binarize": {}, "ordinal": {}, "ignore": []}
        for key, value in (pair for way in ways for pair in way.items()):
            settled[key] = [*settled[key], *value] if key == "ignore" else settled[key] | value
        cuts, words = settled["binarize"], settled["words"]
        if len(cuts) > 2 and len({*cuts.values()}) == 1 and not self.choices.cuts:
            settled["binarize"] = next(iter(cuts.values()))
        own = {name: said for name, said in words.items() if isinstance(said, Mapping)}
        often = Counter(word for said in own.values() for word in said)
        held = Counter(word for c in used for word in c.tokens)
        once = {word: GONE for word, n in often.items() if n == held[canonical(word)] > 1}
        for name, said in own.items():
            words[name] = {word: sign for word, sign in said.items() if word not in once}
        settled["words"] = once | {name: said for name, said in words.items() if said}
        return settled


def no_columns(label: str, unknown: Sequence[str], names: Sequence[str]) -> DataError:
    """Return the error about columns that are not there, with those that they are like."""
    held = {name[:60].strip().lower(): name for name in reversed(names[:10_000])}
    like = [get_close_matches(name[:60].strip().lower(), held, n=1) for name in unknown]
    meant = list(dict.fromkeys(held[name] for found in like for name in found))
    way = f"; did you mean {listed(meant)}?" if meant else f"; there are {listed(names)}"
    return DataError(f"{label}: there is no column {listed(unknown)}{way if names else ''}")
