"""What is known of the columns of tables before they are coded, and errors about their words."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from hopfed.data.arrow_cells import number
from hopfed.errors import DataError, shown
from hopfed.tables.contents import Contents
from hopfed.tables.options import Choices
from hopfed.tables.refusals import NO_ANSWERS, MixedColumnError, RefusedColumnError
from hopfed.tables.table import is_made_up, listed
from hopfed.tables.vocabulary import (
    FAMILIES,
    GONE,
    KNOWN,
    MISSING,
    canonical,
    meanings,
    outsiders,
    several_answers,
    spelt,
)

OTHERS = 3  # words beside which rarer ones of yes and no are names of something
LEVELS = 100  # categories of a column, at most
FEW = 10  # different words below which a first column is no list of names unless all differ
MOSTLY = 0.9  # of the words in a list of names that differ, or of numbers
NAMING = re.compile(
    r"(.*[ ._-])?(id|ids|name|names|key|index|row|rownames?|rowid)|unnamed: 0|__index_level_0__|"
    r"seqn|idno|patid|patnr|"
    r"__null_dask_index__|",
    re.IGNORECASE,
)
DATE = re.compile(r"\d{4}-\d{2}-\d{2}\b.*|\d{1,2}[/.]\d{1,2}[/.]\d{2,4}\b.*", re.ASCII)
# Numbers with a comma, marks of thousands, a currency or a per cent sign.
DRESSED = re.compile(
    r"[€$£¥]? ?[+-]?([0-9]+|[0-9]{1,3}([ .,'’\u00a0\u202f][0-9]{3})+)([.,][0-9]+)? ?[%€$£¥]?"
)
THOUSANDS = re.compile(r"[+-]?[0-9]{1,3}([ .,'’\u00a0\u202f][0-9]{3})+")
FULL = {word for low, high in FAMILIES for word in low | high if len(word) > 1}


@dataclass
class Looked:
    """Columns that were looked at, in all sources.

    Attributes
    ----------
    whats : the sources, for messages.
    names : of the columns of the first, all different.
    parts : what these columns hold, in each source.
    choices : what was told.
    where : source, and row from 1, in which a column (by its place) first holds a word.
    unfit : why a column, by its place, cannot be used.
    named_by : the column that names the rows, once that is known.
    """

    whats: Sequence[str]
    names: Sequence[str]
    parts: Sequence[Sequence[Contents]]
    choices: Choices
    where: Callable[[int, str], tuple[str, int]]
    unfit: Mapping[int, str] = field(default_factory=dict)
    named_by: int | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.what = self.whats[0]
        self.contents = [Contents.together(held) for held in zip(*self.parts, strict=True)]

    @property
    def _made_up(self) -> bool:
        return is_made_up(self.names)

    def _tokens(self, j: int, held: Contents | None = None) -> set[str]:
        """Words of a column that may be entries."""
        given = self.choices.signs(self.names[j])
        gone = {word for word, sign in given.items() if sign == GONE}
        found = {canonical(word) for word in (held or self.contents[j]).words} - gone
        return found - MISSING | ({"-"} & found if "+" in found else set())

    def _meanings(self, j: int, told: Collection[str] = ()) -> dict[str, int] | None:
        """Code of each word that is not told, if those of each source are of one family."""
        return meanings(self._tokens(j, part[j]).difference(told) for part in self.parts)

    def _numbers(self, j: int, held: Contents | None = None) -> set[float]:
        """Numbers of a column that are entries, if all of its words are numbers."""
        told = self.choices.signs(self.names[j]).keys()
        read = self.contents[j].number
        values = {read(word) for word in self._tokens(j, held) - told}
        return set() if None in values else {v for v in values if v is not None}

    def _entries(self, j: int) -> frozenset[float]:
        return frozenset() if self.contents[j].many else frozenset(self._numbers(j))

    def _refuse_odd(self, j: int, levels: set[str], tokens: set[str]) -> None:
        """Refuse words that look like entries of another kind than categories."""
        self._refuse_dressed(j, levels)
        self._refuse_codes(j)
        numbers = {canonical(word) for word in levels if number(word) is not None}
        if numbers:
            rest = tokens - numbers
            if self._rows_of(j, numbers) < self._rows_of(j, rest):  # as of a row of totals
                why = f"is a number beside {listed(sorted(rest)[:5])}"
                raise self._mixed(j, numbers, why, total=True)
            raise self._mixed(j, rest, "is not a number")
        if all(DATE.fullmatch(word) for word in levels):
            raise self._refusal(j, "holds dates")
        known, strange = tokens & FULL, tokens - KNOWN
        rare = self._rows_of(j, tokens & KNOWN) < self._rows_of(j, strange)
        if rare and len(strange) >= OTHERS:
            return  # as SI and NO among other countries
        if known and len(tokens) > 1:
            odd = outsiders(tokens) or tokens - FULL or tokens
            raise self._mixed(j, odd, beside=known)

    def _refuse_codes(self, j: int) -> None:
        """Refuse 1 and 2 at one owner where others have words of a known meaning."""
        held = [self._tokens(j, part[j]) for part in self.parts]
        coded = [bool(tokens) and None not in map(number, tokens) for tokens in held]
        words = [tokens for tokens, is_code in zip(held, coded, strict=True) if not is_code]
        if not any(coded) or not any(words) or meanings(words) is None:
            return
        at = coded.index(True)
        values = sorted(float(word) for word in held[at])
        codes = [v for v in values if abs(v) not in NO_ANSWERS]
        if len(codes) > 2:
            return
        gone = {spelt(v): 0 for v in values if v not in codes}
        ways = [
            self.choices.meaning({**dict(zip(map(spelt, codes), signs, strict=False)), **gone})
            for signs in ((1, -1), (-1, 1))
        ]
        others = listed(sorted(set[str]().union(*words)))
        raise DataError(
            f"{self.whats[at]}: column '{self._name(j)}' holds {listed(list(map(spelt, values)))} "
            f"where others hold {others}: say what they stand for, {' or '.join(ways)}"
        )

    def _refuse_dressed(self, j: int, words: Collection[str]) -> None:
        """Refuse numbers that are not written plainly, such as 1,019 and 5 %."""
        odd = [word for word in words if number(word) is None]
        counts = self.contents[j].words
        alone = len(odd) < len(words) and sum(counts[word] for word in odd) == 1  # as of a total
        if not odd or alone or len(words) <= 2 or not all(map(DRESSED.fullmatch, words)):
            return
        one = min(sorted(odd), key=len)
        way = "write them like 1234.5"
        if THOUSANDS.fullmatch(one):
            way = f"write {re.sub('[^0-9+-]', '', one)}, without marks of thousands"
        raise self._refusal(j, f"holds numbers that are written like '{shown(one, 40)}': {way}")

    def _rows_of(self, j: int, words: Collection[str]) -> int:
        """Number of rows of a column that hold one of some words."""
        counts = self.contents[j].words.items()
        return sum(count for word, count in counts if canonical(word) in words)

    def _mixed(
        self,
        j: int,
        odd: set[str],
        why: str = "",
        beside: Collection[str] = (),
        total: bool = False,
    ) -> MixedColumnError:
        """Error that names the first of some words with its row, and why it does not fit."""
        (what, row), word = min((self.where(j, word), word) for word in sorted(odd)[:5])
        why = why or f"stands beside {listed(sorted(set(beside) - {word}))}"
        words = next(w for w in self.contents[j].words if canonical(w) == word).strip()
        column = f"column {j + 1}" if self._made_up else f"column '{self._name(j)}'"
        gone = self.choices.meaning({words: GONE}, self.names[j])
        sums = total and self._rows_of(j, {word}) == 1
        first = f"if row {row} sums up others, remove it" if sums else ""
        ways = [f"if there is no answer: {gone}"]
        if self._may_name(j):
            way = self.choices.naming(self.names[j])
            ways.append(f"if '{self._name(j)}' names the rows: {way}")
        place = f"{what}: row {row}, {column}: '{shown(words, 40)}' {why}"
        return MixedColumnError(place, self.names[j], ways, first)

    def _may_name(self, j: int) -> bool:
        """Whether a column may name the rows, as none does that was found or told."""
        held = self.contents[j]
        if self.named_by is not None or self._made_up:
            return False
        if NAMING.fullmatch(self.names[j]):
            return True
        whole = all(v is None or v.is_integer() for v in map(number, held.words))
        return held.different and whole

    def _many_words(self, j: int, count: str) -> RefusedColumnError:
        """Error about too many categories, which may be names of rows that come more than once."""
        held, name = self.contents[j], self.names[j]
        self._refuse_dressed(j, {w.strip() for w in held.words if canonical(w) not in MISSING})
        why = f"holds {count} different words"
        several = several_answers(held.words.keys() - {""})
        if several is not None:
            mark, answers = several
            why += f", combinations of {len(answers)} answers with '{mark}' between them"
            return RefusedColumnError(name, f"{why} ({self.choices.calling('answers', name)})")
        if held.different or (j > 0 and not NAMING.fullmatch(name)):
            return self._refusal(j, why)
        return RefusedColumnError(name, f"{why}, which repeat in its {held.rows:,} rows", True)

    def _refusal(self, j: int, why: str) -> RefusedColumnError:
        held = self.contents[j]
        rows = held.different and not held.numeric and self.named_by is None
        return RefusedColumnError(self.names[j], why, rows)

    def _name(self, j: int) -> str:
        return shown(self.names[j], 60)
