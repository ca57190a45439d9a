"""From what the columns of a table hold to a coding, or to one error about all that is in the way.

A column is one of words for yes and no (0 and 1, 1 and 2, -1 and +1 among them), of two numbers, of
a few other words (each becomes a column), of answers, several in a cell (where that is said), or of
numbers that are cut (likewise). Another one may name the rows. All others are refused together.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from typing import Any

import numpy as np

from hopfed.errors import ColumnsError, DataError, shown
from hopfed.tables.coding import EMPTY, Code, Coding
from hopfed.tables.examples import RULE
from hopfed.tables.held import Held, doubtful, why_doubtful
from hopfed.tables.options import Choices
from hopfed.tables.remarks import Decided, remarks
from hopfed.tables.table import is_made_up, listed
from hopfed.tables.words import (
    FAMILIES,
    FULL,
    GONE,
    KNOWN,
    MAYBE_LEVEL,
    MISSING,
    NO_ANSWERS,
    UNSAID,
    canonical,
    level,
    meanings,
    number,
    outsiders,
    several_answers,
    sorted_levels,
    spelt,
    token,
)

SHOWN = 10  # columns of which an error has a line
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
COUNTS = re.compile(r"(.*[ ._-])?(n|counts?|freq|frequency|weights?|wt|anzahl|times)", re.I)
DATE = re.compile(r"\d{4}-\d{2}-\d{2}\b.*|\d{1,2}[/.]\d{1,2}[/.]\d{2,4}\b.*", re.ASCII)
# Numbers with a comma, marks of thousands, a currency or a per cent sign.
DRESSED = re.compile(
    r"[€$£¥]? ?[+-]?([0-9]+|[0-9]{1,3}([ .,'’\u00a0\u202f][0-9]{3})+)([.,][0-9]+)? ?[%€$£¥]?"
)
THOUSANDS = re.compile(r"[+-]?[0-9]{1,3}([ .,'’\u00a0\u202f][0-9]{3})+")
SUMS = {"total", "totals", "sum", "mean", "average", "gesamt", "summe", "mittelwert"}
KNOWN_SIGNS = {
    word: sign for low, high in FAMILIES for side, sign in ((low, -1), (high, 1)) for word in side
} | {"-1": -1, "0": -1, "1": 1}


@dataclass(frozen=True)
class Fault:
    """What is in the way in a column, what settles it (of `Choices.give`), and other ways."""

    name: str
    why: str
    told: dict[str, Any]
    ways: Sequence[str] = ()


@dataclass(frozen=True)
class Decision:
    """How the columns of tables are coded, and what was noticed, a line each."""

    coding: Coding
    notes: list[str]


class Decider:
    """Chooses how each column is coded.

    Parameters
    ----------
    whats : the tables, for messages.
    names : of the columns of the first, all different.
    parts : what these columns hold, in each table.
    choices : what was told.
    commas : of each table whether it has decimal commas; None where points are decimal ones.
    """

    def __init__(
        self,
        whats: Sequence[str],
        names: Sequence[str],
        parts: Sequence[Sequence[Held]],
        choices: Choices,
        commas: Sequence[bool | None] = (),
    ):
        self.whats, self.names, self.parts = whats, names, parts
        self.choices = choices.among(names)
        self.commas = commas or [None] * len(whats)
        self.what = whats[0]
        self.places = list(zip(whats, parts, strict=True))  # where words are looked for
        self.held = [Held.together(column) for column in zip(*parts, strict=True)]
        self.notes: list[str] = []
        self.faults: list[Fault] = []
        self.unsaid: dict[int, set[str]] = {}
        self.named_by: int | None = None
        self._others: Sequence[int] = ()
        self._made_up = is_made_up(names)
        self._cache: dict[int, set[str]] = {}

    def decide(self) -> Decision:
        """Return the coding of all columns that are used, or refuse those that cannot be used."""
        unknown = sorted(self.choices.named() - set(self.names))
        if unknown:
            raise _no_columns(self.what, unknown, self.names)
        place = self.named_by = self._id()
        used = [j for j in range(len(self.names)) if j != place and self._is_used(j)]
        if not used:
            why = f": '{self._name(place)}' names the rows" if place is not None else ""
            raise DataError(f"{self.what}: no column is left to use{why}")
        self._look_at_zeros(used)
        kinds: dict[Code, Code] = {}  # columns that are coded alike share one
        codes = [kinds.setdefault(c, c) for c in map(self._code, used) if c is not None]
        if self.faults:
            raise self._error(len(used))
        ids = () if place is None else (self.names[place],)
        kept = {*used, place}
        left = tuple(n for j, n in enumerate(self.names) if j not in kept)
        coding = Coding(tuple(self.names[j] for j in used), tuple(codes), ids, left)
        decided = [
            Decided(self.names[j], self.held[j], code, self._entries(j), self._is_free(j))
            for j, code in zip(used, codes, strict=True)
        ]
        gone = {self.names[j]: sorted(words) for j, words in self.unsaid.items() if j in used}
        self.notes += remarks(decided, self.choices, self.minus, self._made_up, gone)
        return Decision(coding, self.notes)

    # What columns hold

    def _tokens(self, j: int, held: Held | None = None) -> set[str]:
        """Words of a column that may be entries."""
        if held is None and j in self._cache:
            return self._cache[j]
        signs = self.choices.signs(self.names[j])
        found = {canonical(w) for w in (held or self.held[j]).words}
        found -= {w for w, sign in signs.items() if sign == GONE}
        found = found - MISSING | ({"-"} & found if "+" in found else set())
        unsaid = found & UNSAID - signs.keys()
        rest = found - unsaid
        known = None not in map(number, rest) or meanings([rest]) is not None
        if unsaid and rest and known and "present" not in found:
            self.unsaid.setdefault(j, set()).update(unsaid)
            found = rest
        if held is None:
            self._cache[j] = found
        return found

    def _meanings(self, j: int, told: Collection[str] = ()) -> dict[str, int] | None:
        """Code of each word that is not told, if those of each source are of one family."""
        held = [None] if len(self.parts) == 1 else [part[j] for part in self.parts]
        return meanings([self._tokens(j, each).difference(told) for each in held])

    def _numbers(self, j: int, held: Held | None = None) -> set[float]:
        """Numbers of a column that are entries, if all of its words are numbers."""
        told = self.choices.signs(self.names[j]).keys()
        values = {number(word) for word in self._tokens(j, held) - told}
        return set() if None in values else {v for v in values if v is not None}

    def _entries(self, j: int) -> frozenset[float]:
        return frozenset() if self.held[j].many else frozenset(self._numbers(j))

    def _rows_of(self, j: int, words: Collection[str]) -> int:
        """Number of rows of a column that hold one of some words."""
        counts = self.held[j].words.items()
        return sum(count for word, count in counts if canonical(word) in words)

    def _name(self, j: int) -> str:
        return shown(self.names[j], 60)

    def _is_free(self, j: int) -> bool:
        return self.names[j] not in self.choices.named()

    def _is_used(self, j: int) -> bool:
        """Whether a column is one to compute with; a line says so if it is not."""
        name, held = self.names[j], self.held[j]
        if name in self.choices.ignore or j in self._others:
            return False
        if INDEX.fullmatch(name) and self._is_free(j):
            return False
        empty = not self._tokens(j) and not held.many and not held.why
        if empty and name.startswith("column ") and not self._made_up:
            self.notes.append(f"left out: '{self._name(j)}', which has no name and no entry")
            return False
        return True

    def _look_at_zeros(self, used: Sequence[int]) -> None:
        """Find out what 0 stands for, and 1 where there is 2: that is one rule for a table.

        Where -1 occurs, 0 is missing; but where many named columns of 0 and 1 stand beside those
        with a -1, these are variables of another kind, and columns of all three are numbers.
        """
        signs, twos = [], False
        for held in self.parts:
            alone = len(self.parts) == 1
            columns = [self._numbers(j, None if alone else held[j]) for j in used]
            columns = [values for values in columns if values <= BINARY | TWO]
            twos = twos or TWO in columns
            signs.append(set[float]().union(*columns) & BINARY)
        self.ones = set[float]().union(*signs) <= {1.0} and twos
        self.minus = any({-1.0, 0.0} <= values for values in signs)
        whole = [] if self._made_up or not self.minus else [self._numbers(j) for j in used]
        plain = sum(values == {0.0, 1.0} for values in whole)
        lower = sum(-1.0 in values and values <= BINARY for values in whole)
        self.mixed = self.minus and RARE * plain > lower
        self.minus = self.minus and not self.mixed
        for what, values in zip(self.whats, signs, strict=True):
            if self.minus and 0.0 in values and -1.0 not in values:
                raise DataError(
                    f"{what}: 0 occurs and -1 does not, while another table has both: say what 0 "
                    f"stands for ({self.choices.give(words={'0': -1})})"
                )

    # Names of rows

    def _id(self) -> int | None:
        """Column that names the rows; others that could are left out with a line."""
        if self.choices.id is not None:
            place = self.names.index(self.choices.id) if self.choices.id else None
            if place is not None and "lists" in self.held[place].why:
                raise DataError(
                    f"{self.what}: column '{self._name(place)}' {self.held[place].why}, which name "
                    f"no rows: name another column, or '' for none ({self.choices.called('id')})"
                )
            return place
        found = [j for j in range(len(self.names)) if self._is_free(j) and self._names_rows(j)]
        if not found:
            return None
        named = [j for j in found if NAMING.fullmatch(self.names[j])]
        chosen = next((j for j in named if self.names[j] != "column 1"), [*named, *found][0])
        self.notes.append(f"column '{self._name(chosen)}' names the rows")
        words = self.held[chosen].words
        sums = sorted(word for word in words if token(word).rstrip(" :") in SUMS)
        if sums:
            self.notes.append(f"a row is named {listed(sums)}: remove it if it sums up others")
        self._others = [j for j in found if j != chosen]
        if self._others:
            others = listed([self.names[j] for j in self._others])
            self.notes.append(f"left out: {others}, in which no two rows have the same word")
        return chosen

    def _names_rows(self, j: int) -> bool:
        """Whether the words of a column are names of rows: all differ, and they are no entries."""
        held, first = self.held[j], j == 0
        named = bool(NAMING.fullmatch(self.names[j])) and not self._made_up
        if held.why or held.rows < 3 or not (held.different or first or named):
            return False
        tokens = self._tokens(j)
        told = tokens & self.choices.signs(self.names[j]).keys()
        if not tokens or tokens & FULL or self._meanings(j):
            return False
        if told and not (held.different and len(tokens - told) > FEW):  # 1 and 2 of 1 to 450
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

    def _naming(self, j: int) -> list[str]:
        """What to give if a column names the rows, where it may, as none does yet."""
        held = self.held[j]
        may = bool(NAMING.fullmatch(self.names[j])) or (
            held.different and all(v is None or v.is_integer() for v in map(number, held.words))
        )
        if self.named_by is not None or self._made_up or not may:
            return []
        return [f"if it names the rows: {self.choices.give(id=self.names[j])}"]

    # Codes

    def _code(self, j: int) -> Code | None:
        """How a column is coded; None, and a fault, where it cannot be used as it is."""
        held, name = self.held[j], self.names[j]
        if held.why:
            return self._drop(j, held.why)
        given, tokens = self.choices.signs(name), self._tokens(j)
        rest, said = tokens - given.keys(), tokens & given.keys()
        gone = {word: GONE for word, sign in given.items() if sign == GONE}
        if self.choices.of(name) == "answers":
            return self._answers(j, given)
        if held.many and not held.numeric:
            return self._many_words(j, "more than 1,000")
        if self.choices.of(name):
            return self._category(j, gone)
        worded = any(number(w) is None and given[w] != GONE for w in said)
        if held.many or (rest and self._numbers(j) and not worded):
            return self._number(j, gone)
        words = dict(given) if said else {}
        if not rest:
            return Code("words", tuple({**(words or dict(EMPTY)), **gone}.items()))
        known = self._meanings(j, given)
        if known is not None:
            return Code("words", tuple({**known, **words, **gone}.items()))
        if any(sign != GONE for sign in words.values()):
            return self._odd(j, outsiders(rest) or rest, "is not among the words that were given")
        return self._category(j, gone)

    def _number(self, j: int, gone: Mapping[str, int]) -> Code | None:
        """Code of a column of numbers."""
        held, name, values = self.held[j], self.names[j], self._numbers(j)
        how = self.choices.cut(name)
        if not held.many:
            if values <= TWO and (2.0 in values or self.ones):
                return Code("words", (("1", -1), ("2", 1), *gone.items()))
            if values <= BINARY and not (self.mixed and values >= {-1.0, 0.0}):
                none = self.minus or (self.mixed and -1.0 in values)
                low = {"-1": -1, "0": GONE if none else -1, "1": 1}
                return Code("words", tuple({**low, **self.choices.signs(name), **gone}.items()))
            zeros = any(re.fullmatch(r"0\d\d+", word.strip()) for word in held.words)
            if zeros and (how is None or self.choices.cuts_all(name)):
                return self._category(j, gone, sure=True)  # codes of places and the like
        if how == "levels":
            return self._category(j, gone)
        for doubts, commas, part in zip(self._doubts, self.commas, self.parts, strict=True):
            if doubts and doubts[j] and part[j].words:
                return self._drop(j, why_doubtful(doubts[j], bool(commas)))
        endless = {spelt(v) for v in values if math.isinf(v)}
        if endless:
            return self._odd(j, endless, "is no number to use")
        codes = sorted(v for v in values if abs(v) in NO_ANSWERS)
        coded = bool(codes) and not held.many and values - set(codes) in ({0.0, 1.0}, TWO)
        if how is not None and not (coded and self.choices.cuts_all(name)):
            return Code("number", tuple(gone.items()), threshold=held.threshold(str(how)))
        if how is None and len(values) <= 2 and not held.many:
            words = zip(map(spelt, sorted(values)), (-1, 1)[-len(values) :], strict=True)
            return Code("words", (*words, *gone.items()))
        return self._uncut(j, values, codes if coded else [])

    @cached_property
    def _doubts(self) -> list[list[str]]:
        """Of each source and column a number whose point may stand between thousands."""
        return [
            [] if commas is None else doubtful([h.words.keys() for h in held], commas)
            for held, commas in zip(self.parts, self.commas, strict=True)
        ]

    def _category(self, j: int, gone: Mapping[str, int], sure: bool = False) -> Code | None:
        """Code of a column of categories."""
        held, name = self.held[j], self.names[j]
        if held.many:
            return self._many_words(j, "more than 1,000")
        missing = MISSING - MAYBE_LEVEL | gone.keys()
        levels = {level(w) for w in held.words if canonical(w) not in missing}
        sure = sure or bool(self.choices.of(name)) or self.choices.cut(name) == "levels"
        if not sure and self._is_of_another_kind(j, levels):
            return None
        if len(levels) > LEVELS:
            return self._many_words(j, str(len(levels)))
        return Code("category", tuple(gone.items()), levels=sorted_levels(levels))

    def _answers(self, j: int, given: Mapping[str, int]) -> Code | None:
        """Code of a column whose cells hold several answers each."""
        whole = {word: sign for word, sign in given.items() if sign <= GONE}
        said = [word for word in self.held[j].words if canonical(word) not in whole]
        mark, answers = several_answers(said, sure=True)
        if not mark:
            return self._drop(j, "holds no cell of several answers, with ; or | or , between")
        if len(answers) > LEVELS or self.held[j].many:
            return self._drop(j, f"holds {len(answers):,} or more different answers")
        return Code("answers", tuple(whole.items()), levels=answers, mark=mark)

    # Faults

    def _is_of_another_kind(self, j: int, levels: set[str]) -> bool:
        """Whether words look like entries of another kind than categories: a fault."""
        tokens, before = {canonical(word) for word in levels}, len(self.faults)
        numbers = {canonical(word) for word in levels if number(word) is not None}
        known, strange = tokens & FULL, tokens - KNOWN
        if self._is_dressed(j, levels) or self._is_coded(j):
            return True
        if numbers:
            rest = tokens - numbers
            if self._rows_of(j, numbers) < self._rows_of(j, rest):  # as of a row of totals
                self._odd(j, numbers, f"is a number beside {listed(sorted(rest)[:5])}", total=True)
            else:
                self._odd(j, rest, "is not a number")
        elif all(map(DATE.fullmatch, levels)):
            self._drop(j, "holds dates")
        elif known and len(tokens) > 1:
            rare = self._rows_of(j, tokens & KNOWN) < self._rows_of(j, strange)
            if not (rare and len(strange) >= OTHERS):  # SI and NO: places
                self._odd(j, outsiders(tokens) or tokens - FULL or tokens, "stands beside", known)
        return len(self.faults) > before

    def _is_dressed(self, j: int, words: Collection[str]) -> bool:
        """Whether these are numbers that are not written plainly, such as 5 %: a fault."""
        odd = [word for word in words if number(word) is None]
        alone = len(odd) < len(words) and sum(self.held[j].words[word] for word in odd) == 1
        if not odd or alone or len(words) <= 2 or not all(map(DRESSED.fullmatch, words)):
            return False
        one = min(sorted(odd), key=len)
        way = "write them like 1234.5"
        if THOUSANDS.fullmatch(one):
            way = f"write {re.sub('[^0-9+-]', '', one)}, without marks of thousands"
        self._drop(j, f"holds numbers that are written like '{shown(one, 40)}': {way}")
        return True

    def _is_coded(self, j: int) -> bool:
        """Whether one owner has 1 and 2 where others have words of a known meaning: a fault."""
        name, held = self.names[j], [self._tokens(j, part[j]) for part in self.parts]
        coded = [bool(tokens) and None not in map(number, tokens) for tokens in held]
        words = [tokens for tokens, is_code in zip(held, coded, strict=True) if not is_code]
        if not any(coded) or not any(words) or meanings(words) is None:
            return False
        at = coded.index(True)
        values = sorted(float(word) for word in held[at])
        codes = [spelt(v) for v in values if abs(v) not in NO_ANSWERS]
        if len(codes) > 2:
            return False
        gone = {spelt(v): 0 for v in values if abs(v) in NO_ANSWERS}
        one, other = ({**dict(zip(codes, s, strict=False)), **gone} for s in ((1, -1), (-1, 1)))
        numbers, others = listed(list(map(spelt, values))), listed(sorted(set().union(*words)))
        why = f"holds {numbers} in {self.whats[at]} where others hold {others}"
        self._fault(j, why, {"words": {name: one}}, self.choices.give(words={name: other}))
        return True

    def _uncut(self, j: int, values: set[float], codes: Sequence[float]) -> None:
        """Refuse numbers of which nobody said where they are cut."""
        name, held, give = self.names[j], self.held[j], self.choices.give
        told: dict[str, Any] = {"binarize": {name: "median" if self.choices.by_rows else 20.5}}
        ways = [f"cut them elsewhere: {self.choices.cuts}"] if self._made_up else []
        if codes:
            told = {"words": {name: {spelt(code): 0 for code in codes}}}
            ways = [f"if these are numbers: {give(binarize={name: 1.5})}"]
        if values == BINARY:
            ways.append(f"if 0 means no answer: {give(words={name: {'0': GONE}})}")
        whole = [v for v in map(number, held.words) if v is not None]
        if COUNTS.fullmatch(name) and min(whole, default=0) >= 0 and not codes:
            ways.append(
                "if it says how often a row occurs: repeat each row so many times, and leave "
                f"it out: {give(ignore=[name])}"
            )
        ways += self._naming(j)
        highest = {spelt(max(whole, default=0.0))}  # of a row of totals
        plain = {v for v in whole if spelt(v) not in highest}
        if not held.many and (plain <= BINARY or plain <= TWO):
            ways += self._total(j, highest, "the others")
        why = "holds numbers"
        if self._made_up and not values <= BINARY:
            odd = next(v for v in sorted(values) if v not in BINARY)
            why = f"{RULE}, got {odd:g} at row {self._where(j, {spelt(odd)})[1]}, column {j + 1}"
            self.faults.append(Fault(name, why, told, ways))
            return
        self._fault(j, why, told, *ways)

    def _total(self, j: int, words: Collection[str], others: str = "others") -> list[str]:
        """What to do where one row holds words that no other one holds, as a row of totals does."""
        if self._rows_of(j, words) != 1:
            return []
        what, row = self._where(j, words)[:2]
        of = f" of {what}" if others == "the others" else ""
        return [f"if row {row}{of} sums up {others}, remove it"]

    def _odd(
        self,
        j: int,
        odd: Collection[str],
        why: str,
        beside: Collection[str] = (),
        total: bool = False,
    ) -> None:
        """Refuse some words of a column that do not fit to the others."""
        name, give = self.names[j], self.choices.give
        what, row, word = self._where(j, odd)
        if beside:
            why = f"{why} {listed(sorted(set(beside) - {canonical(word)}))}"
        said = f"row {row}, {self._called(j)}: '{shown(word, 40)}' {why}"
        if what != self.what:
            said = f"{what}, {said}"
        written = {canonical(w): w.strip() for w in reversed(list(self.held[j].words))}
        gone = {name: {written[w]: GONE for w in sorted(odd) if w in written}}
        kind: dict[str, Any] = {name: "category"}
        few = len(odd) <= 3 and self._rows_of(j, odd) <= max(1, RARELY * self.held[j].rows)
        ways = []
        if few:
            ways.append(f"if these are categories: {give(words=kind)}")
        elif len(odd) <= 3:
            ways.append(f"if there is no answer: {give(words=gone)}")
        ways += self._total(j, odd) if total else []
        told = {"words": gone if few else kind}
        self.faults.append(Fault(name, said, told, [*ways, *self._naming(j)]))

    def _many_words(self, j: int, count: str) -> None:
        """Refuse too many categories, which may be names of rows that come more than once."""
        held, name = self.held[j], self.names[j]
        if self._is_dressed(j, {w.strip() for w in held.words if canonical(w) not in MISSING}):
            return
        why = f"holds {count} different words"
        mark, answers = several_answers([word for word in held.words if word.strip()])
        if mark:
            why += f", combinations of {len(answers)} answers with '{mark}' between them"
            few = len(answers) <= LEVELS
            self._fault(j, why, {"words": {name: "answers"}} if few else {"ignore": [name]})
            return
        named = not held.different and (j == 0 or NAMING.fullmatch(name))
        self._drop(j, why + (f", which repeat in its {held.rows:,} rows" if named else ""))

    def _drop(self, j: int, why: str) -> None:
        """Refuse a column that can only be left out, or name the rows."""
        held, name = self.held[j], self.names[j]
        free = self.named_by is None and "lists" not in held.why and not held.numeric
        may = free and (held.different or j == 0 or NAMING.fullmatch(name))
        ways = [f"if it names the rows: {self.choices.give(id=name)}"] if may else []
        self._fault(j, why, {"ignore": [name]}, *ways)

    def _fault(self, j: int, why: str, told: dict[str, Any], *ways: str) -> None:
        self.faults.append(Fault(self.names[j], f"{self._called(j)} {why}", told, ways))

    def _called(self, j: int) -> str:
        """What a line calls a column."""
        return self.names[j] if self._made_up else f"column '{self._name(j)}'"

    def _where(self, j: int, odd: Iterable[str]) -> tuple[str, int, str]:
        """Table and row, from 1, that first hold one of some words, and that word as it stands."""
        odd = set(odd)
        for what, held in self.places:
            found = [(row, w) for w, row in held[j].first.items() if canonical(w) in odd]
            if found:
                row, word = min(found)
                return what, row, word.strip()
        return self.what, 0, next(iter(odd), "")

    def _error(self, used: int) -> ColumnsError:
        """All that is in the way: a line for each column, and one to copy that settles it."""
        choices, n = self.choices, len(self.faults)
        lines = [f"{self.what}: {n:,} of {len(self.names):,} columns cannot be read as they are:"]
        place = {name: j for j, name in enumerate(self.names)}
        for fault in self.faults[:SHOWN]:
            held = self.held[place[fault.name]].commonest()
            most = f"; commonest {held}" if held else ""
            out = [] if "ignore" in fault.told else [choices.give(ignore=[fault.name])]
            ways = "; or ".join([choices.give(**fault.told), *fault.ways, *out])
            lines.append(f"  {fault.why}{most}; give {ways}")
        if n > SHOWN:
            lines.append(f"  and {n - SHOWN:,} columns more")
        if n == 1:
            lines = [f"{self.what}: {lines[1].strip()}"]
        told = self._together()
        if len(told.get("ignore", ())) == used:
            lines[-1] += "; there is no other column"
        elif n > 1:
            lines.append(f"to settle all of them: {choices.give(**told)}")
        return ColumnsError("\n".join(lines), tuple(fault.name for fault in self.faults))

    def _together(self) -> dict[str, Any]:
        """What settles all faults: one word for many columns, where it is odd in several."""
        ignore: list[str] = []
        words: dict[str, Any] = {}
        cuts: dict[str, Any] = {}
        odd: dict[str, list[str]] = {}
        for fault in self.faults:
            ignore += fault.told.get("ignore", ())
            cuts |= fault.told.get("binarize", {})
            words |= fault.told.get("words", {})
        for name, own in words.items():
            if isinstance(own, Mapping) and set(own.values()) == {GONE}:
                for word in own:
                    odd.setdefault(word, []).append(name)
        for word, names in odd.items():
            if len(names) > 1:
                for name in names:
                    words[name] = {w: s for w, s in words[name].items() if w != word}
                words[word] = GONE
        words = {key: value for key, value in words.items() if value != {}}
        alike = len(cuts) > 2 and len(set(cuts.values())) == 1
        if alike and not isinstance(self.choices.binarize, Mapping):
            cuts = next(iter(cuts.values()))
        told: dict[str, Any] = {"words": words, "binarize": cuts, "ignore": ignore}
        return {key: value for key, value in told.items() if value}


def _no_columns(what: str, unknown: Sequence[str], names: Sequence[str]) -> DataError:
    """Return the error about columns that are not there, with those that they are like."""
    some = {n[:60].strip().lower(): n for n in reversed(names[:10_000])}
    near = [get_close_matches(u[:60].strip().lower(), some, n=1, cutoff=0.6) for u in unknown]
    meant = dict.fromkeys(some[found[0]] for found in near if found)
    way = f"; did you mean {listed(list(meant))}?" if meant else ""
    if not meant and names:
        way = f"; there are {listed(names)}"
    return DataError(f"{what}: there is no column {listed(unknown)}{way}")


def unsettled(coding: Coding, choices: Choices, gaps: bool = False) -> dict[str, str]:
    """Columns that would be coded in another way if a row held something else, each with a reason.

    Noise hides what a row adds to a sum. Where a row also decides how the others are coded, it
    moves their sums too, and no noise that is made for one row hides that. Where rows with gaps get
    noise (`gaps`), nor may a row decide what is missing: one -1 makes every 0 a missing entry. Of
    columns of numbers that are cut those are named, too, that were taken for names of the rows and
    left out; and columns that are called by a word that is an entry, as that name may have been a
    row. A reason is what decides: its "name", its "words", a "category", a "cut" that rows place,
    whether it is "cut at all", "zero", or whether it is one of "ids".
    """
    found = {}
    for name, code in zip(coding.names, coding.codes, strict=True):
        held = {w for w, sign in code.words if sign != GONE}
        word, entries = canonical(name), {w for w in held if number(w) is None}
        known = word in KNOWN_SIGNS and bool(entries) and meanings([{word} | entries - MISSING])
        reason = "name" if known or word in choices.signs(name) else _reason(name, code, choices)
        zero = code.kind == "words" and dict(code.words).get("0") == GONE
        if not reason and gaps and zero and "0" not in choices.signs(name):
            reason = "zero"
        if reason:
            found[name] = reason
    if choices.id is not None:
        return found
    own = (*coding.ids, *coding.ignored)
    out = [name for name in own if name not in choices.among(own).ignore]
    return found | {n: "ids" for n in out if number(str(choices.cut(n))) is not None}


def _reason(name: str, code: Code, choices: Choices) -> str:
    """What decides how a column is coded; nothing where that is the same whatever a row held."""
    cut = number(str(choices.cut(name)))
    if code.kind == "number":
        return "cut" if cut is None else ""
    if code.levels:
        return "category"
    signs = {word: sign for word, sign in code.words if sign != GONE}
    given = {**KNOWN_SIGNS, **choices.signs(name)}
    if any(given.get(word) != sign for word, sign in signs.items()):
        return "words"
    values = {word: number(word) for word in signs}  # with a larger one they would be cut
    same = (v is None or (v > cut) == (signs[w] > 0) for w, v in values.items() if cut is not None)
    return "" if all(same) else "cut at all"
