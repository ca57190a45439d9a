"""From what the columns hold to a coding, or to one line that says what is in the way."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from hopfed.data.arrow_cells import number
from hopfed.data.readers import RULE
from hopfed.errors import DataError
from hopfed.tables.coding import EMPTY, Code, Coding
from hopfed.tables.coding_notes import Decided, notes_of
from hopfed.tables.looking import DRESSED, FEW, FULL, LEVELS, MOSTLY, NAMING, Looked
from hopfed.tables.refusals import (
    MixedColumnError,
    RefusedColumnError,
    mixture,
    no_answers,
    no_columns,
    refusal,
)
from hopfed.tables.table import is_made_up, listed
from hopfed.tables.thousands import doubtful, why_doubtful
from hopfed.tables.vocabulary import (
    GONE,
    MAYBE_LEVEL,
    MISSING,
    canonical,
    combined_answers,
    is_sum,
    level,
    outsiders,
    sorted_levels,
    spelt,
)

RARE = 4  # columns with a -1 for each of 0 and 1, from which 0 is missing in all of them
TRIED = 3  # columns in which a row of totals is looked for: each reads the table again
BINARY, TWO = {-1.0, 0.0, 1.0}, {1.0, 2.0}

INDEX = re.compile(r"__index_level_\d+__|__null_dask_index__")  # of a frame, without a name


@dataclass
class Decision:
    """A coding, the column of ids by its place, and what is worth a line."""

    coding: Coding
    id: int | None
    used: tuple[int, ...]
    notes: list[str]


@dataclass
class Decider(Looked):
    """Decides how each column is coded.

    Attributes
    ----------
    notes : lines about what was chosen.
    uncut : columns of numbers of which nobody said where they are cut.
    """

    notes: list[str] = field(default_factory=list)
    uncut: list[int] = field(default_factory=list)

    def decide(self) -> Decision:
        """Return the coding.

        Raises
        ------
        DataError : one line that names the column, and the row where there is one to name.
        """
        self.choices = self.choices.among(self.names)
        unknown = [name for name in self.choices.named() if name not in self.names]
        if unknown:
            raise no_columns(self.what, sorted(unknown), self.names)
        place = self.named_by = self._id()
        used = [j for j, name in enumerate(self.names) if j != place and self._is_used(j)]
        self._look_at_zeros(used)
        codes = self._codes(used)
        if not used:
            why = f": '{self._name(place)}' names the rows" if place is not None else ""
            raise DataError(f"{self.what}: no column is left to use{why}")
        names = tuple(self.names[j] for j in used)
        ids = () if place is None else (self.names[place],)
        kept = {*used, place}
        left = tuple(n for j, n in enumerate(self.names) if j not in kept)
        coding = Coding(names, tuple(codes), ids, left)
        decided = [
            Decided(self.names[j], self.contents[j], code, self._entries(j), self._is_free(j))
            for j, code in zip(used, codes, strict=True)
        ]
        self.notes += notes_of(decided, self.choices, self.minus)
        return Decision(coding, place, tuple(used), self.notes)

    def _codes(self, used: Sequence[int]) -> list[Code]:
        """How columns are coded; what is in the way is said of all of them at once."""
        codes: list[Code] = []
        refused, mixed, others = [], [], []
        kinds: dict[Code, Code] = {}  # columns that are coded alike share one
        for j in used:
            try:
                code = self._code(j)
                codes.append(kinds.setdefault(code, code))
            except RefusedColumnError as error:
                refused.append(error)
            except MixedColumnError as error:
                mixed.append(error)
            except DataError as error:
                others.append(error)
        if others and not refused:
            raise others[0]
        if mixed and not refused:
            raise mixture(mixed, self.choices)
        if refused or self.uncut:
            self._refuse(refused, len(refused) + len(self.uncut) == len(used))
        return codes

    def _look_at_zeros(self, used: Sequence[int]) -> None:
        """Find out what 0 stands for, and 1 where there is 2: that is one rule for a table.

        Where -1 occurs, 0 is missing; but where many named columns of 0 and 1 stand beside those
        with a -1, these are variables of another kind, and columns of all three are numbers.
        """
        held = []
        for contents in self.parts:
            columns = (self._numbers(j, contents[j]) for j in used)
            held.append([values for values in columns if values <= BINARY | TWO])
        signs = [set[float]().union(*columns) & BINARY for columns in held]
        low = set[float]().union(*signs)
        self.ones = low <= {1.0} and any(TWO in columns for columns in held)
        self.minus = any(BINARY - {1.0} <= values for values in signs)
        whole = [] if self._made_up else [self._numbers(j) for j in used]
        plain = sum(values == BINARY - {-1.0} for values in whole)
        lower = sum(-1.0 in values and values <= BINARY for values in whole)
        self.mixed = self.minus and RARE * plain > lower
        if self.mixed:
            self.minus = False
        for what, values in zip(self.whats, signs, strict=True):
            if self.minus and 0.0 in values and -1.0 not in values:
                raise DataError(
                    f"{what}: 0 occurs and -1 does not, while another table has both: say what 0 "
                    f"stands for ({self.choices.called('words')})"
                )

    def _id(self) -> int | None:
        """Column that names the rows; others that could are left out with a line."""
        if self.choices.id is not None:
            place = self.names.index(self.choices.id) if self.choices.id else None
            if place is not None and "lists" in self.unfit.get(place, ""):
                raise DataError(
                    f"{self.what}: column '{self._name(place)}' {self.unfit[place]}, which name no "
                    f"rows: name another column, or '' for none ({self.choices.called('id')})"
                )
            return place
        found = [j for j in range(len(self.names)) if self._is_free(j) and self._names_rows(j)]
        if not found:
            return None
        chosen = next((j for j in found if NAMING.fullmatch(self.names[j])), found[0])
        self.notes.append(f"column '{self._name(chosen)}' names the rows")
        sums = sorted(word for word in self.contents[chosen].words if is_sum(word))
        if sums:
            self.notes.append(f"a row is named {listed(sums)}: remove it if it sums up others")
        self._others = [j for j in found if j != chosen]
        if self._others:
            others = listed([self.names[j] for j in self._others])
            self.notes.append(f"left out: {others}, in which no two rows have the same word")
        return chosen

    _others: Sequence[int] = ()

    def _is_free(self, j: int) -> bool:
        return self.names[j] not in self.choices.named()

    def _is_used(self, j: int) -> bool:
        """Whether a column is one to compute with; a line says so if it is not."""
        if self.names[j] in self.choices.ignore or j in self._others:
            return False
        if INDEX.fullmatch(self.names[j]) and self._is_free(j):
            return False  # nobody made it
        empty = not self._tokens(j) and not self.contents[j].many
        if empty and self.names[j].startswith("column ") and not is_made_up(self.names):
            self.notes.append(f"left out: '{self._name(j)}', which has no name and no entry")
            return False
        return True

    def _names_rows(self, j: int) -> bool:
        """Whether the words of a column are names of rows: all differ, and they are no entries."""
        if j in self.unfit:
            return False
        held = self.contents[j]
        named = bool(NAMING.fullmatch(self.names[j]))
        told = (tokens := self._tokens(j)) & self.choices.signs(self.names[j]).keys()
        if held.rows < 3 or not tokens or tokens & FULL or self._meanings(j):
            return False
        if told and not (held.different and len(tokens - told) > FEW):  # 1 and 2 of 1 to 450
            return False
        if held.numeric:
            values = np.array([held.number(word) for word in held.words], float)
            whole = held.different and bool((values == np.floor(values)).all())
            rising = j == 0 and bool((np.diff(values) == 1).all())
            return whole and (named or rising) and not set(values) <= BINARY
        numbers = np.mean([DRESSED.fullmatch(word.strip()) is not None for word in tokens])
        if not named and numbers >= (1 if j == 0 else MOSTLY):
            return False  # though some may have to be written in another way
        if held.different:
            return named or j == 0 or held.rows > FEW
        mostly = held.many or len(held.words) >= MOSTLY * held.rows
        return (j == 0 or named) and mostly and len(held.words) > FEW

    def _code(self, j: int) -> Code:
        """How a column is coded."""
        held, name = self.contents[j], self.names[j]
        if j in self.unfit:
            raise self._refusal(j, self.unfit[j])
        given = self.choices.signs(name)
        tokens = self._tokens(j)
        rest = tokens - given.keys()
        gone = tuple((word, GONE) for word, sign in given.items() if sign == GONE)
        if self.choices.of(name) == "answers":
            return self._answers(j, given)
        if held.many and not held.numeric:
            raise self._many_words(j, "more than 1,000")
        if self.choices.of(name):
            return self._category(j, gone)
        words = dict(given) if tokens & given.keys() else {}
        worded = any(number(w) is None and given[w] != GONE for w in tokens & given.keys())
        if held.many or (rest and self._numbers(j) and not worded):
            return self._number(j, gone)
        if not rest:
            return Code("words", tuple({**(words or dict(EMPTY)), **dict(gone)}.items()))
        known = self._meanings(j, given)
        if known is not None:
            return Code("words", tuple({**known, **words, **dict(gone)}.items()))
        if any(sign != GONE for sign in words.values()):
            odd = outsiders(rest) or rest
            raise self._mixed(j, odd, "is not among the words that were given")
        return self._category(j, gone)

    def _number(self, j: int, gone: tuple[tuple[str, int], ...]) -> Code:
        """Code of a column of numbers."""
        name, values = self.names[j], self._numbers(j)
        if not self.contents[j].many and not self.choices.of(name):
            if values <= TWO and (2.0 in values or self.ones):
                return Code("words", (("1", -1), ("2", 1), *gone))
            if values <= BINARY and not (self.mixed and values >= {-1.0, 0.0}):
                gone_too = self.minus or (self.mixed and -1.0 in values)
                low = {"-1": -1, "0": GONE if gone_too else -1}
                given = self.choices.signs(name)
                return Code("words", tuple({**low, "1": 1, **given}.items()))
        self._refuse_points(j)
        if any(math.isinf(v) for v in values):
            raise self._mixed(j, {spelt(v) for v in values if math.isinf(v)}, "is no number to use")
        how = self.choices.cut(name)
        self._refuse_no_answers(j, values)
        if how == "levels":
            return self._category(j, gone)
        if how is not None:
            return Code("number", gone, threshold=self.contents[j].threshold(str(how)))
        if len(values) <= 2 and not self.contents[j].many:
            words = zip(map(spelt, sorted(values)), (-1, 1)[-len(values) :], strict=True)
            return Code("words", (*words, *gone))
        self.uncut.append(j)
        return Code("words")

    def _refuse_points(self, j: int) -> None:
        """Refuse numbers whose points may stand between thousands, unless they become levels."""
        if self.choices.cut(self.names[j]) == "levels":
            return
        for held, doubts in zip(self.parts, self._doubts, strict=True):
            points = held[j].points
            if doubts[j] and points is not None:
                raise self._refusal(j, why_doubtful(doubts[j], points.sure))

    @cached_property
    def _doubts(self) -> list[list[str]]:
        """Of each source and column a number whose point may stand between thousands."""
        return [doubtful(contents.points for contents in held) for held in self.parts]

    def _refuse_no_answers(self, j: int, values: set[float]) -> None:
        """Refuse codes of no answer beside 1 and 2 where a cut is said for all columns at once."""
        way = "" if self.contents[j].many else no_answers(values, self.choices, self.names[j])
        if way and self.choices.cuts_all(self.names[j]):
            shows = ", ".join(map(spelt, sorted(values)))
            raise DataError(
                f"{self.what}: column '{self._name(j)}' holds {shows}: {way}; if these are "
                f"numbers, say where this column is cut: {self.choices.cutting(self.names[j])}"
            )

    def _category(self, j: int, gone: tuple[tuple[str, int], ...]) -> Code:
        """Code of a column of categories."""
        held = self.contents[j]
        missing = MISSING - MAYBE_LEVEL | {word for word, _ in gone}
        if held.many:
            raise self._many_words(j, "more than 1,000")
        levels = {level(w) for w in held.words if canonical(w) not in missing}
        if not self.choices.of(self.names[j]) and self.choices.cut(self.names[j]) != "levels":
            self._refuse_odd(j, levels, {canonical(w) for w in levels})
        if len(levels) > LEVELS:
            raise self._many_words(j, str(len(levels)))
        return Code("category", gone, levels=sorted_levels(levels))

    def _answers(self, j: int, given: Mapping[str, int]) -> Code:
        """Code of a column whose cells hold several answers each."""
        whole = {word: sign for word, sign in given.items() if sign <= GONE}
        said = [word for word in self.contents[j].words if canonical(word) not in whole]
        mark, answers = combined_answers(said)
        if not mark:
            raise self._refusal(j, "holds no cell of several answers, with ; or | or , between")
        if len(answers) > LEVELS or self.contents[j].many:
            raise self._refusal(j, f"holds {len(answers):,} or more different answers")
        return Code("answers", tuple(whole.items()), levels=answers, mark=mark)

    def _refuse(self, refused: Sequence[RefusedColumnError], all_of_them: bool) -> None:
        """Refuse columns to be left out, and numbers of which nobody said where they are cut."""
        if not self.uncut:
            raise refusal(self.what, refused, [], "", self.choices, all_of_them)
        j = self.uncut[0]
        held = self.contents[j]
        values = sorted(v for v in map(number, held.words) if v is not None)
        odd = next((v for v in values if v not in BINARY), values[0])
        shows = ", ".join(map(spelt, values[:5])) + (", ..." if len(values) > 5 else "")
        if self._made_up and not refused:
            what, row = self.where(j, spelt(odd))
            raise DataError(
                f"{what}: {RULE}, got {odd:g} at row {row}, column {j + 1}; or say where numbers "
                f"are cut ({self.choices.called('binarize')}): {self.choices.cuts}"
            )
        named = [self.names[k] for k in self.uncut]
        error = refusal(self.what, refused, named, shows, self.choices, all_of_them)
        ways = [no_answers(values, self.choices, named[0]) or self._of_totals()]
        if set(values) == BINARY:
            ways.append(f"if 0 means no answer: {self.choices.meaning({'0': GONE}, named[0])}")
        if self._may_name(j):
            ways.append(f"if '{self._name(j)}' names the rows: {self.choices.naming(named[0])}")
        raise DataError("; or ".join([str(error), *filter(None, ways)]))

    def _of_totals(self) -> str:
        """What to do where one row holds the only numbers that are none of 0 and 1, or 1 and 2."""
        rows = set()
        for j in self.uncut:
            values = {v for v in map(number, self.contents[j].words) if v is not None}
            odd = max(values)
            plain = values - {odd} <= BINARY or values - {odd} <= TWO
            if self.contents[j].many or not plain or self._rows_of(j, {spelt(odd)}) > 1:
                return ""
            if j in self.uncut[:TRIED]:
                rows.add(self.where(j, spelt(odd)))
        if len(rows) != 1:
            return ""
        what, row = rows.pop()
        return f"if row {row} of {what} sums up the others, remove it"
