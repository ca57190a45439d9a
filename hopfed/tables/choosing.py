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
from hopfed.tables.table import (
    SHOWN,
    Source,
    columns_error,
    is_made_up,
    listed,
    places_of,
)
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
EVEN = 0.1  # of the rows, by which another value must come nearer to halving than the median


@dataclass
class Held:
    """What the rows of a column that were read so far hold."""

    words: Counter[str] = field(default_factory=Counter)  # as they stand; "" of a missing entry
    first: dict[str, int] = field(default_factory=dict)  # row of each of them, from 1
    many: bool = False  # whether there are more than `most`, and `words` are the first
    numeric: bool = True  # whether so far all words are numbers or missing
    different: bool = True  # whether no two of the rows were alike, or missing
    rows: int = 0
    kept: list[np.ndarray] | None = None  # numbers, once there are many and if they are asked for
    missing: frozenset[str] = MISSING | UNSAID  # words that stand for no entry
    most: int = MOST  # different words that are kept
    why: str = ""  # it cannot be used, whatever the words are

    def add(self, cells: Cells) -> None:
        """Look at some more rows."""
        import pyarrow.types as types

        before, self.rows = self.rows, self.rows + len(cells)
        kind = cells.array.type
        kind = kind.value_type if types.is_dictionary(kind) else kind
        if types.is_nested(kind) or types.is_temporal(kind):
            self.why = f"holds {'lists or records' if types.is_nested(kind) else 'dates or times'}"
        if self.why:
            self.different = self.different and not before
            return
        if self.many:
            values = as_numbers(cells.array, self.missing) if self.numeric else None
            self.numeric = values is not None
            if values is not None and self.kept is not None:
                self.kept.append(values[~np.isnan(values)])
            return
        pairs = zip(cells.words, cells.counts.tolist(), strict=True)
        held = [(w, n, k) for k, (w, n) in enumerate(pairs) if n]
        fresh = {word: k for word, _, k in held if word not in self.words}
        self.different = self.different and len(fresh) == len(cells)
        if fresh:
            rows = np.empty(len(cells.words) + 1, int)
            rows[cells.places[::-1]] = np.arange(self.rows, before, -1)  # the first comes last
            self.first |= {word: int(rows[k]) for word, k in fresh.items()}
            known = (number(w) is not None or canonical(w) in self.missing for w in fresh)
            self.numeric = self.numeric and all(known)
        for word, count, _ in [*held, ("", len(cells) - sum(n for _, n, _ in held), 0)]:
            if count:
                self.words[word] += count
        self.many = len(self.words) > self.most
        if self.many and self.numeric and self.kept is not None:
            self.kept.append(self.numbers())

    @classmethod
    def together(cls, parts: Sequence[Held]) -> Held:
        """Return what one column holds in several tables."""
        if len(parts) == 1:
            return parts[0]
        whole = cls(missing=parts[0].missing, most=parts[0].most)
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
        if self.many and self.kept:
            return np.concatenate(self.kept)
        held = {w: n for w, n in self.words.items() if canonical(w) not in self.missing}
        found = np.array([(number(w), n) for w, n in held.items() if number(w) is not None], float)
        values, counts = found.reshape(-1, 2).T
        return np.repeat(values, counts.astype(int))

    def commonest(self, most: int = 5) -> str:
        """Say what it mostly holds."""
        held = [(word, n) for word, n in self.words.most_common() if word.strip()]
        said = [f"{shown(word.strip(), 30)} ({n:,}x)" for word, n in held[:most]]
        return ", ".join(said + ["..."] * (self.many or len(held) > most))

    def threshold(self, how: str) -> float:
        """Value above which a number of the column is +1."""
        kind, _, share = how.partition(":")
        if kind not in ("median", "mean", "quantile"):
            return float(how)
        numbers = self.numbers()
        values, counts = np.unique(numbers, return_counts=True)
        if not len(values):
            return math.nan
        if kind == "mean":
            return float(np.average(values, weights=counts))
        q = float(share) if share else 0.5
        cut = float(np.quantile(numbers, q))
        below = np.cumsum(counts)[:-1]
        if not len(below):
            return cut
        misses = np.abs(below - q * counts.sum())
        missed = abs(counts[values <= cut].sum() - q * counts.sum())
        near = kind == "quantile" or missed <= misses.min() + EVEN * counts.sum()
        return cut if cut < values[-1] and near else float(values[misses.argmin()])


def looked(source: Source, choices: Choices) -> Iterator[list[Cells]]:
    """Look at what the columns of a source hold but for those left out, and yield its blocks."""
    source.held = []
    for name in source.names:
        gone = {word for word, sign in choices.signs(name).items() if sign == GONE}
        held = Held(kept=None if choices.cut(name) is None else [])
        held.missing = held.missing | gone if gone else held.missing  # one set for all, as a rule
        held.most = COMBINED if choices.of(name) == "answers" else MOST
        source.held.append(held)
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
    return replace(full[0], label=label, held=held, partitions=full)


class Column:
    """What a column of some tables holds, and what was told of it."""

    def __init__(self, place: int, name: str, parts: Sequence[Held], choices: Choices, free: bool):
        self.place, self.name = place, name
        self.free = free  # nobody said anything of it
        self.held = Held.together(parts)
        self.given = choices.signs(name)  # codes of the words that were given
        self.gone = {word: GONE for word, sign in self.given.items() if sign == GONE}
        self.unsaid: set[str] = set()  # words that are taken for no answer
        self.code: Any = None  # how it is coded, once that is decided
        self.tokens = self._tokens(self.held)  # words that may be entries
        alone = len(parts) == 1
        self.each = [self.tokens] if alone else [self._tokens(part) for part in parts]
        self.shown = shown(name, 60)  # its name in a line
        self.called = f"column '{self.shown}'"
        self.blanks = self.held.words.get("", 0)

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

    @cached_property
    def numbers(self) -> set[float]:
        """Numbers that are entries, where all words are numbers; none of a column of too many."""
        return set() if self.held.many else self.numbers_of(self.tokens)

    @cached_property
    def levels(self) -> set[str]:
        """Categories that its words stand for."""
        missing = MISSING - MAYBE_LEVEL | self.gone.keys()
        return {level(word) for word in self.held.words if canonical(word) not in missing}

    def meanings(self, known: Collection[str] = ()) -> dict[str, int] | None:
        """Code of each word that is not told, if those of each table are of one family."""
        return meanings([tokens.difference(known) for tokens in self.each])

    def rows_of(self, words: Collection[str]) -> int:
        """Number of rows that hold one of some words."""
        return sum(n for word, n in self.held.words.items() if canonical(word) in words)


LEVELS = 100  # categories of a column, at most
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
DATE = re.compile(r"\d{4}-\d{2}-\d{2}\b.*|\d{1,2}[/.]\d{1,2}[/.]\d{2,4}\b.*", re.ASCII)
# Numbers with a comma, marks of thousands, a currency or a per cent sign.
DRESSED = re.compile(
    r"[€$£¥]? ?[+-]?([0-9]+|[0-9]{1,3}([ .,'’\u00a0\u202f][0-9]{3})+)([.,][0-9]+)? ?[%€$£¥]?"
)
SUMS = {"total", "totals", "sum", "mean", "average", "gesamt", "summe", "mittelwert"}


class Fault(NamedTuple):
    """What is in the way in a column; ways out: when, and what to give. The first settles it."""

    column: Column
    why: str
    ways: list[tuple[str, dict[str, Any]]]


class Decider:
    """Chooses how each column is coded, from what `tables` hold, whose columns are alike."""

    def __init__(self, tables: Sequence[Source], choices: Choices):
        self.tables, self.names, self.label = tables, tables[0].names, tables[0].label
        self.choices = choices.among(self.names)
        mentioned, parts = self.choices.named(), zip(*(table.held for table in tables), strict=True)
        self.columns = [
            Column(j, name, held, self.choices, name not in mentioned)
            for j, (name, held) in enumerate(zip(self.names, parts, strict=True))
        ]
        self.notes: list[str] = []
        self.faults: list[Fault] = []
        self.id: Column | None = None
        self._made_up = is_made_up(self.names)
        if self._made_up:
            for c in self.columns:
                c.called = c.name

    def decide(self) -> tuple[Coding, list[str]]:
        """Return the coding of all columns that are used and what was noticed, or refuse them."""
        unknown = sorted(self.choices.named() - set(self.names))
        if unknown:
            raise no_columns(self.label, unknown, self.names)
        others = self._name_rows()
        used = [
            c for c in self.columns if c is not self.id and c not in others and self._is_used(c)
        ]
        if not used:
            why = f": '{self.id.shown}' names the rows" if self.id else ""
            raise DataError(f"{self.label}: no column is left to use{why}")
        self._look_at_zeros(used)
        kinds: dict[Code, Code] = {}  # columns that are coded alike share one
        for c in used:
            code = self._code(c)
            c.code = code if code is None else kinds.setdefault(code, code)
        if self.faults:
            raise self._error(len(used))
        kept = {c.place for c in (*used, self.id) if c}
        left = tuple(name for j, name in enumerate(self.names) if j not in kept)
        ids = (self.id.name,) if self.id else ()
        coding = Coding(tuple(c.name for c in used), tuple(c.code for c in used), ids, left)
        return coding, [*self.notes, *remarks(used, self.choices, self.minus, self._made_up)]

    def _is_used(self, c: Column) -> bool:
        """Whether a column is one to compute with; a line says so if it is not."""
        if c.name in self.choices.ignore or (c.free and INDEX.fullmatch(c.name)):
            return False
        empty = not c.tokens and not c.held.many and not c.held.why
        if empty and c.name.startswith("column ") and not self._made_up:
            self.notes.append(f"left out: '{c.shown}', which has no name and no entry")
            return False
        return True

    def _look_at_zeros(self, used: Sequence[Column]) -> None:
        """Find out what 0 stands for, and 1 where there is 2: that is one rule for a table."""
        signs, twos = [], False
        for k in range(len(self.tables)):
            held = [c.numbers_of(c.each[k]) for c in used]
            held = [values for values in held if values <= BINARY | TWO]
            twos = twos or TWO in held
            signs.append(set[float]().union(*held) & BINARY)
        self.ones = set[float]().union(*signs) <= {1.0} and twos
        self.minus = any({-1.0, 0.0} <= values for values in signs)
        whole = [] if self._made_up or not self.minus else [c.numbers_of(c.tokens) for c in used]
        plain = sum(values == {0.0, 1.0} for values in whole)
        lower = sum(-1.0 in values and values <= BINARY for values in whole)
        self.mixed = self.minus and RARE * plain > lower
        self.minus = self.minus and not self.mixed
        for table, values in zip(self.tables, signs, strict=True):
            if self.minus and 0.0 in values and -1.0 not in values:
                raise DataError(
                    f"{table.label}: 0 occurs and -1 does not, while another table has both: say "
                    f"what 0 stands for ({self.choices.give(words={'0': -1})})"
                )

    # Names of rows

    def _name_rows(self) -> list[Column]:
        """Find the column that names the rows; others that could are left out with a line."""
        if self.choices.id is not None:
            self.id = next((c for c in self.columns if c.name == (self.choices.id or None)), None)
            if self.id is not None and "lists" in self.id.held.why:
                raise DataError(
                    f"{self.label}: column '{self.id.shown}' {self.id.held.why}, which name no "
                    f"rows: name another column, or '' for none ({self.choices.called('id')})"
                )
            return []
        found = [c for c in self.columns if c.free and self._names_rows(c)]
        if not found:
            return []
        named = [c for c in found if NAMING.fullmatch(c.name)]
        self.id = next((c for c in named if c.name != "column 1"), [*named, *found][0])
        self.notes.append(f"column '{self.id.shown}' names the rows")
        words = self.id.held.words
        sums = sorted(word for word in words if token(word).rstrip(" :") in SUMS)
        if sums:
            self.notes.append(f"a row is named {listed(sums)}: remove it if it sums up others")
        others = [c for c in found if c is not self.id]
        if others:
            names = listed([c.name for c in others])
            self.notes.append(f"left out: {names}, in which no two rows have the same word")
        return others

    def _names_rows(self, c: Column) -> bool:
        """Whether the words of a column are names of rows: all differ, and they are no entries."""
        held, first, tokens = c.held, c.place == 0, c.tokens
        named = bool(NAMING.fullmatch(c.name)) and not self._made_up
        if held.why or held.rows < 3 or not (held.different or first or named):
            return False
        given = tokens & c.given.keys()
        if not tokens or tokens & FULL or c.meanings():
            return False
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

    def _code(self, c: Column) -> Code | None:
        """How a column is coded; None, and a fault, where it cannot be used as it is."""
        kind = self.choices.of(c.name)
        if c.held.why:
            return self._fault(c, c.held.why)
        rest, said = c.tokens - c.given.keys(), c.tokens & c.given.keys()
        if kind == "answers":
            return self._answers(c)
        if kind == "ordinal":
            return self._ordinal(c)
        if kind or (c.held.many and not c.held.numeric):
            return self._category(c)
        worded = any(number(w) is None and c.given[w] != GONE for w in said)
        if c.held.many or (rest and c.numbers and not worded):
            return self._number(c)
        words = dict(c.given) if said else {}
        if not rest:
            return Code("words", tuple({**(words or dict(EMPTY)), **c.gone}.items()))
        known = c.meanings(c.given)
        if known is not None:
            return Code("words", tuple({**known, **words, **c.gone}.items()))
        if any(sign != GONE for sign in words.values()):
            return self._odd(c, outsiders(rest) or rest, "is not among the words that were given")
        return self._category(c)

    def _number(self, c: Column) -> Code | None:
        """Code of a column of numbers."""
        values, how = c.numbers_of(c.tokens), self.choices.cut(c.name)
        gone, cut_all = tuple(c.gone.items()), how is not None and c.name not in self.choices.cuts
        if not c.held.many:
            if values <= TWO and (2.0 in values or self.ones):
                return Code("words", (("1", -1), ("2", 1), *gone))
            if values <= BINARY and not (self.mixed and values >= {-1.0, 0.0}):
                none = self.minus or (self.mixed and -1.0 in values)
                low = {"-1": -1, "0": GONE if none else -1, "1": 1}
                return Code("words", tuple({**low, **c.given}.items()))
            zeros = any(re.fullmatch(r"0\d\d+", word.strip()) for word in c.held.words)
            if zeros and (how is None or cut_all):
                return self._category(c, sure=True)  # codes of places and the like
        if how == "levels":
            return self._category(c)
        if why := next((t.doubts[c.name] for t in self.tables if c.name in t.doubts), ""):
            return self._fault(c, why)
        endless = {spelt(v) for v in values if math.isinf(v)}
        if endless:
            return self._odd(c, endless, "is no number to use")
        codes = sorted(v for v in values if abs(v) in NO_ANSWERS)
        coded = bool(codes) and not c.held.many and values - set(codes) in ({0.0, 1.0}, TWO)
        if how is not None and not (coded and cut_all):
            return Code("number", gone, threshold=c.held.threshold(str(how)))
        rest = c.tokens - c.given.keys()  # as floats, long numbers may be equal
        if how is None and len(rest) <= 2 and not c.held.many:
            words = zip(sorted_levels(rest), (-1, 1)[-len(rest) :], strict=True)
            return Code("words", (*words, *gone))
        return self._uncut(c, values, codes if coded else [])

    def _category(self, c: Column, sure: bool = False) -> Code | None:
        """Code of a column of categories; too many may be names of rows that occur again."""
        held, levels = c.held, c.levels
        sure = sure or bool(self.choices.of(c.name)) or self.choices.cut(c.name) == "levels"
        if not sure and not held.many and self._is_of_another_kind(c, levels):
            return None
        if not held.many and len(levels) <= LEVELS:
            return Code("category", tuple(c.gone.items()), levels=sorted_levels(levels))
        if self._is_dressed(c, {w.strip() for w in held.words if canonical(w) not in MISSING}):
            return None
        why = f"holds {'more than 1,000' if held.many else len(levels)} different words"
        mark, answers = several_answers([word for word in held.words if word.strip()])
        if mark:
            why += f", combinations of {len(answers)} answers with '{mark}' between them"
        few = bool(mark) and len(answers) <= LEVELS
        return self._fault(c, why, *[("", {"words": {c.name: "answers"}})] * few)

    def _ordinal(self, c: Column) -> Code | None:
        """Code of a column of ordered answers."""
        gone = c.gone | dict.fromkeys(c.unsaid, GONE)
        levels = {word for word in c.levels if canonical(word) not in c.unsaid}
        order = tuple(map(level, map(str, self.choices.ordinal[c.name])))
        if len(levels) > LEVELS or c.held.many:
            return self._fault(c, f"holds more than {LEVELS} levels")
        odd = {w for w in levels if number(w) is None} if not order else levels - {*order}
        if odd and not order:
            why = "holds words: give its levels from the lowest to the highest"
            return self._fault(c, why, ("", {"ordinal": {c.name: in_order(levels)}}))
        if odd:
            return self._odd(c, {canonical(w) for w in odd}, "is not among the levels told")
        return Code("ordinal", tuple(gone.items()), levels=order or sorted_levels(levels) or ("0",))

    def _answers(self, c: Column) -> Code | None:
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

    def _is_of_another_kind(self, c: Column, levels: set[str]) -> bool:
        """Whether words look like entries of another kind than categories: a fault."""
        tokens, before = {canonical(word) for word in levels}, len(self.faults)
        numbers = {canonical(word) for word in levels if number(word) is not None}
        known, strange = tokens & FULL, tokens - KNOWN
        if self._is_dressed(c, levels):
            return True
        if numbers:
            rest = tokens - numbers
            if c.rows_of(numbers) < c.rows_of(rest):  # as of a row of totals
                self._odd(c, numbers, f"is a number beside {listed(sorted(rest)[:5])}")
            else:
                self._odd(c, rest, "is not a number")
        elif all(map(DATE.fullmatch, levels)):
            self._fault(c, "holds dates")
        elif known and len(tokens) > 1:
            rare = c.rows_of(tokens & KNOWN) < c.rows_of(strange)
            if not (rare and len(strange) >= OTHERS):  # SI and NO: places
                self._odd(c, outsiders(tokens) or tokens - FULL or tokens, "stands beside", known)
        return len(self.faults) > before

    def _is_dressed(self, c: Column, words: Collection[str]) -> bool:
        """Whether these are numbers that are not written plainly, such as 5 %: a fault."""
        odd = [word for word in words if number(word) is None]
        if not odd or len(words) <= 2 or not all(map(DRESSED.fullmatch, words)):
            return False
        word = shown(min(sorted(odd), key=len), 40)
        self._fault(c, f"holds numbers that are written like '{word}': write them like 1234.5")
        return True

    def _uncut(self, c: Column, values: set[float], codes: Sequence[float]) -> None:
        """Refuse numbers of which nobody said where they are cut."""
        ways: list[tuple[str, dict[str, Any]]] = [
            ("", {"binarize": {c.name: "median" if self.choices.by_rows else 20.5}})
        ]
        if codes:
            gone: dict[str, Any] = {"words": {c.name: {spelt(code): 0 for code in codes}}}
            ways = [("", gone), ("if these are numbers", {"binarize": {c.name: 1.5}})]
        if values == BINARY:
            ways.append(("if 0 means no answer", {"words": {c.name: {"0": GONE}}}))
        odd = next((v for v in sorted(values) if v not in BINARY), None)
        if self._made_up and odd is not None:
            place = f"{self._where(c, {spelt(odd)})[0]}, column {c.place + 1}"
            self._fault(c, f"got {odd:g} at {place}", *ways, called=f"{RULE},")
        else:
            self._fault(c, "holds numbers", *ways)

    def _odd(self, c: Column, odd: Collection[str], why: str, beside: Collection[str] = ()) -> None:
        """Refuse some words of a column that do not fit to the others."""
        place, word = self._where(c, odd)
        if beside:
            why = f"{why} {listed(sorted(set(beside) - {canonical(word)}))}"
        written = {canonical(w): w.strip() for w in reversed(list(c.held.words))}
        words = {written[w]: GONE for w in sorted(odd) if w in written}
        ways: list[tuple[str, dict[str, Any]]] = [
            ("if there is no answer", {"words": {c.name: words}}),
            ("if these are categories", {"words": {c.name: "category"}}),
        ]
        few = len(odd) <= 3
        if not few or c.rows_of(odd) > max(1, RARELY * c.held.rows):
            ways.reverse()
        ways = [("", ways[0][1]), *ways[1:] * few]
        self._fault(c, why, *ways, called=f"{place}, {c.called}: '{shown(word, 40)}'")

    def _fault(
        self, c: Column, why: str, *given: tuple[str, dict[str, Any]], called: str = ""
    ) -> None:
        """Refuse a column: without another way it can only be left out, or name the rows."""
        held, left = c.held, ("", {"ignore": [c.name]})
        if len(self.tables) > 1 and (own := self._several_ways(c)):
            called, given = c.called, tuple(own)
            each = zip(c.each, self.tables, strict=True)
            why = "holds " + ", ".join(f"{listed(sorted(t))} in {s.label}" for t, s in each if t)
            why += ": write them in one way"
        ways = [*(given or [left])]
        named = self.id is not None or self.choices.id is not None or self._made_up
        if not named and "lists" not in held.why:
            whole = all(v is None or v.is_integer() for v in map(number, held.words))
            many = not held.numeric and c.place == 0 and len(held.words) > FEW
            may = held.different and (whole or not held.numeric)
            if may or many or NAMING.fullmatch(c.name):
                ways.append(("if it names the rows", {"id": c.name}))
        if "ignore" not in ways[0][1]:
            ways.append(left)
        self.faults.append(Fault(c, f"{called or c.called} {why}", ways))

    def _several_ways(self, c: Column) -> list[tuple[str, dict[str, Any]]]:
        """Ways out where tables have yes and no in different ways, such as 1 and 2 in one alone."""
        numbers = [c.numbers_of(tokens) for tokens in c.each]
        held = set[float]().union(*numbers)
        worded = [t for t, values in zip(c.each, numbers, strict=True) if t and not values]
        if worded and meanings(worded) is not None and held in (TWO, {-1.0, 1.0}):
            high = [("1", "2"), ("2", "1")] if held == TWO else [("1", "-1")]
            return [(f"if {a} means yes", {"words": {c.name: {a: 1, b: -1}}}) for a, b in high]
        if not worded and held == {0.0, 1.0, 2.0} and all(v < held for v in numbers):
            cut = {"binarize": {c.name: 1.5}}
            return [("", {"ignore": [c.name]}), ("if these are numbers", cut)]
        return []

    def _where(self, c: Column, odd: Collection[str]) -> tuple[str, str]:
        """Table and row, from 1, that first hold one of some words, and that word as it stands."""
        for part in (part for table in self.tables for part in table.partitions or [table]):
            first = part.held[c.place].first
            if found := [(row, word) for word, row in first.items() if canonical(word) in odd]:
                row, word = min(found)
                of = "" if part.label == self.label else f"{part.label}, "
                return f"{of}row {row}", word.strip()
        return "row 0", next(iter(odd), "")

    def _error(self, used: int) -> ColumnsError:
        """All that is in the way: a line for each column, and one to copy that settles it."""
        give, lines = self.choices.give, []
        for fault in self.faults[:SHOWN]:
            held = fault.column.held.commonest()
            most = f"; commonest {held}" if held else ""
            ways = [f"{lead}: {give(**way)}" if lead else give(**way) for lead, way in fault.ways]
            lines.append(f"{fault.why}{most}; give {'; or '.join(ways)}")
        names = [fault.column.name for fault in self.faults]
        settled: dict[str, Any] = {"words": {}, "binarize": {}, "ordinal": {}, "ignore": []}
        for key, value in (pair for fault in self.faults for pair in fault.ways[0][1].items()):
            settled[key] = [*settled[key], *value] if key == "ignore" else settled[key] | value
        cuts = settled["binarize"]
        alike = len(cuts) > 2 and len({*cuts.values()}) == 1
        if alike and not isinstance(self.choices.binarize, Mapping):
            settled["binarize"] = next(iter(cuts.values()))
        leads = "".join(dict.fromkeys(f" {f.ways[0][0]}" for f in self.faults if f.ways[0][0]))
        last = f"to settle all of them{leads}: {give(**settled)}" if len(names) > 1 else ""
        if len(settled["ignore"]) == used:
            last = "there is no other column"
        last = "; ".join(filter(None, [*(n for n in self.notes if "it sums up" in n), last]))
        said = f"{len(names):,} of {len(self.names):,} columns cannot be read as they are"
        return columns_error(self.label, said, lines, names, last)


def no_columns(label: str, unknown: Sequence[str], names: Sequence[str]) -> DataError:
    """Return the error about columns that are not there, with those that they are like."""
    held = {name[:60].strip().lower(): name for name in reversed(names[:10_000])}
    like = [get_close_matches(name[:60].strip().lower(), held, n=1) for name in unknown]
    meant = list(dict.fromkeys(held[name] for found in like for name in found))
    way = f"; did you mean {listed(meant)}?" if meant else f"; there are {listed(names)}"
    return DataError(f"{label}: there is no column {listed(unknown)}{way if names else ''}")
