"""Choose the coding of a table by what its columns hold, or raise one error about all faults."""

from __future__ import annotations

import math
import re
import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from itertools import chain
from typing import Any

import numpy as np

from hopfed._lib.settings import require
from hopfed.errors import ColumnsError, DataError, safe_line
from hopfed.kernels.examples import RULE
from hopfed.tables import coding
from hopfed.tables.coding import GONE, KNOWN, Code, Coding, Column, canonical, number
from hopfed.tables.table import Source, columns_error, is_made_up, list_names

COMBINED = 100_000  # different words of a column of combinations of answers that are kept
LEVELS = 100  # categories of a column, at most
OTHERS = 3  # words beside which rarer ones of yes and no are names of something
RARE = 4  # times as many columns of 0 and 1 as with a -1: these are variables of another kind
FEW = 10  # different words below which a first column is no list of names unless all differ
RARELY = 0.1  # of the rows hold a word that is no answer rather than a category
MOSTLY = 0.9  # of the words in a list of names that differ, or of numbers
FAR = 0.5  # of the range of the other numbers, by which a code of no answer lies beside it
BINARY, TWO = {-1.0, 0.0, 1.0}, {1.0, 2.0}
INDEX = re.compile(r"__index_level_\d+__|__null_dask_index__")  # a column of pandas' or Dask's own
NAMING = re.compile(
    r"(.*[ ._-])?(id|ids|name|names|key|index|row|rownames?|rowid)|unnamed: 0|seqn|idno|patid|"
    rf"patnr|column 1|{INDEX.pattern}|",
    re.IGNORECASE,
)
ASIDE = re.compile(  # numbers that are no feature as a rule
    r"(.*[ ._-])?(weights?|wts?|freq|frequency|(totals?|sum|gesamt|summe)([ ._-].*)?)",
    re.IGNORECASE,
)
DATE = re.compile(r"\d{4}-\d{2}-\d{2}\b.*|\d{1,2}[/.]\d{1,2}[/.]\d{2,4}\b.*", re.ASCII)
# Numbers with a comma, marks of thousands, a currency or a per cent sign.
DRESSED = re.compile(
    r"[€$£¥]? ?[+-]?([0-9]+|[0-9]{1,3}([ .,'’\u00a0\u202f][0-9]{3})+)([.,][0-9]+)? ?[%€$£¥]?"
)
Way = dict[str, Any]  # arguments of `hopfed.read_table`
KINDS = ("category", "answers")  # of columns, that `words` may name
LONGEST = 1 << 16  # letters of an option that is to be copied
_SPELT = {"true": 1, "+1": 1, "1": 1, "false": -1, "-1": -1, "missing": 0, "0": 0}


@dataclass(frozen=True)
class Choices:
    """Options of a table: the arguments of `hopfed.read_table`, as mappings.

    `binarize` of "" is for all columns; `kinds` are columns that `words` called categories or
    answers; with `options` errors name those of the command line; `by_rows`: rows may decide cuts.
    """

    id: str | None = None
    ignore: Any = ()
    words: Any = None
    binarize: Any = None
    options: bool = field(default=False, compare=False)
    kinds: Mapping[str, str] = field(default_factory=dict)
    ordinal: Any = ()
    by_rows: bool = field(default=True, compare=False)

    def __post_init__(self) -> None:
        require(isinstance(self.id, str | None), "id", "the name of a column", self.id)
        for name in ("ignore", "ordinal"):
            given = getattr(self, name)
            names = given if isinstance(given, Collection) else [given]
            require(all(isinstance(x, str) for x in names), name, "names of columns", given)
        ignore, order = ((x,) if isinstance(x, str) else x for x in (self.ignore, self.ordinal))
        words, cuts = self.words or {}, {} if self.binarize is None else self.binarize
        require(isinstance(words, Mapping), "words", "a dict of words, or of columns", words)
        order = order if isinstance(order, Mapping) else dict.fromkeys(order, ())
        cuts = cuts if isinstance(cuts, Mapping) else {"": cuts}
        kinds = {**self.kinds, **{k: v for k, v in words.items() if v in KINDS}}
        words = {k: v for k, v in words.items() if v not in KINDS}
        own = {"ignore": tuple(ignore), "ordinal": order, "words": words, "binarize": cuts}
        vars(self).update(own, kinds=kinds)
        for how in map(str, self.binarize.values()):
            kind, _, share = how.partition(":")
            cut = number(share if kind == "quantile" else how)
            fits = cut is not None and math.isfinite(cut) and (kind != "quantile" or 0 < cut < 1)
            rule = "median, mean, a number such as 20.5, quantile:Q, or levels for a column of each"
            require(fits or how in ("median", "mean", "levels"), "binarize", rule, how)
        for column in words:
            self.signs(column)

    def spell_options(self, **said: Any) -> str:
        """Return options as text to paste: "--binarize median", or arguments in Python."""

        def texts(held: Any) -> Iterator[str]:  # one for each column, or each of its words
            if isinstance(held, Mapping):
                yield from (f"{key}={text}" for key, value in held.items() for text in texts(value))
            elif isinstance(held, list):
                yield from held
            else:
                levels = "<".join(held) if isinstance(held, tuple) else held
                yield f"{held:+d}" if isinstance(held, int) else str(levels)

        if not self.options:
            return ", ".join(f"{name}={held!r}" for name, held in said.items() if held)
        given = []
        for name, held in ((name, [*texts(held)]) for name, held in said.items() if held):
            for text in [",".join(held)] if name == "words" else held:
                sign = "=" if text.startswith("-") else " "
                given.append(f"--{name}{sign}{shlex.quote(safe_line(text, LONGEST))}")
        return " ".join(given)

    def resolve_names(self, names: Sequence[str]) -> Choices:
        """Return choices for `names`: A,B are two columns, or one; C=WORD is for column C alone."""
        held, words = set(names), dict[str, Any]()
        for word, sign in self.words.items():
            column, _, own = str(word).rpartition("=")
            if column in held:
                words.setdefault(column, {})[own] = sign
            else:
                words[word] = sign

        def parts(given: Iterable[str]) -> Iterator[tuple[str, str]]:
            for name in given:
                for part in [name] if name in held else name.split(","):
                    if part.strip():
                        yield part if part in held else part.strip(), name

        ordinal = {part: self.ordinal[name] for part, name in parts(self.ordinal)}
        ignore = tuple(part for part, _ in parts(self.ignore))
        return replace(self, ignore=ignore, words=words, ordinal=ordinal)

    def cut(self, column: str) -> Any:
        """Where the numbers of a column are cut, None without an option."""
        return self.binarize.get(column, self.binarize.get(""))

    def mentioned_columns(self) -> set[str]:
        """Names of columns that have options of their own."""
        own = {k for k, v in self.words.items() if isinstance(v, Mapping)}
        found = {*self.ignore, self.id or "", *own, *self.kinds, *self.binarize, *self.ordinal}
        return found - {""}

    def kind_of(self, column: str) -> str:
        """Kind of a column in the options: "category", "answers", "ordinal" or ""."""
        return "ordinal" if column in self.ordinal else self.kinds.get(column, "")

    def signs(self, column: str) -> dict[str, int]:
        """Given codes of the words of a column."""
        own, found = self.words.get(column), dict[str, int]()
        both = {word: sign for word, sign in self.words.items() if not isinstance(sign, Mapping)}
        for word, sign in {**both, **(own if isinstance(own, Mapping) else {})}.items():
            said = "missing" if sign is None or sign != sign else str(sign).strip().lower()
            rule = "for +1, -1 or missing; or category or answers, behind the name of a column"
            require(said in _SPELT, "words", rule, sign)
            found[canonical(str(word))] = _SPELT[said]
        return found


class UnfitError(Exception):
    """Fault of a column, led by `title` or its name, and ways out, the best first."""

    def __init__(self, why: str, *ways: Way, title: str = ""):
        super().__init__(why)
        self.title, self.ways = title, ways


def examine_columns(source: Source, choices: Choices) -> Iterator[list[coding.Cells]]:
    """Count what the columns of a source hold, to choose a coding, and yield its blocks."""
    source.held = []
    for j, name in enumerate(source.names):
        most = COMBINED if choices.kind_of(name) == "answers" else coding.MOST
        cut = choices.cut(name) not in (None, "levels")
        source.held.append(Column(j, name, source.label, choices.signs(name), most, cut))
    for block in source.blocks():
        cells = [coding.Cells(array) for array in block]
        for column, each in zip(source.held, cells, strict=True):
            if column.name not in choices.ignore:
                column.add(each)
        yield cells


class Decider:
    """Chooser of the code of each column by what `tables` hold, which may be `parts_of` one."""

    def __init__(self, tables: Sequence[Source], choices: Choices, parts_of: str = ""):
        self.label = parts_of or tables[0].label
        self.each = [dict(zip(t.names, t.held, strict=True)) for t in tables]
        self.names = tuple(dict.fromkeys(chain(*self.each)))
        self.choices, self.unnamed = choices.resolve_names(self.names), is_made_up(self.names)
        self.columns = list[Column]()
        for j, name in enumerate(self.names):
            held = [own.get(name) or Column(j, name, self.label) for own in self.each]
            c = held[0] if len(held) == 1 else Column.join(held, j, name)
            if parts_of:
                c.parts, c.different = (), c.different and (c.many or len(c.words) == c.rows)
            self.columns.append(c)
        self.mentioned = self.choices.mentioned_columns()
        self.free = {c for c in self.columns if c.name not in self.mentioned}  # without options
        self.used: list[Column] = []
        self.id: Column | None = None
        # A note, and when to use the way out; columns that it is about, each with its way out.
        self.notes: dict[tuple[str, str], list[tuple[Column, Way]]] = {}

    def decide(self) -> tuple[Coding, list[str]]:
        """Return the coding of all used columns and notes, or raise an error about all faults."""
        if unknown := sorted(self.mentioned - set(self.names)):
            raise no_columns(self.label, unknown, self.names)
        naming, used = self._name_rows(), self.used
        for c in self.columns:
            aside = c.name in self.choices.ignore or (c in self.free and INDEX.fullmatch(c.name))
            if c in naming or aside:
                continue
            if c.tokens or c.many or c.why or self.unnamed or c.name != c.title:
                used.append(c)
            else:
                self._note("left out, as there is neither a name nor an entry", c)
        if not used:
            why = f": {self.id.title} names the rows" if self.id else ""
            raise DataError(f"{self.label}: no column is left to use{why}")
        self._look_at_zeros()
        codes, faults = list[Code](), list[tuple[Column, UnfitError]]()
        for c in used:
            try:
                codes.append(self._code(c))
            except UnfitError as fault:
                faults.append((c, fault))
            for word in sorted(set[str]().union(*(part.unsaid for part in c.each))):
                self._note(f"'{word}' is taken for no answer", c)
        if faults:
            raise self._error(faults)
        kinds = {code: code for code in codes}  # columns that are coded alike share one
        names, ids = tuple(c.name for c in used), (self.id.name,) if self.id else ()
        left = set(self.names).difference(names, ids)
        ignored = tuple(name for name in self.names if name in left)
        partial = any(name not in own for own in self.each for name in names)
        found = Coding(names, tuple(kinds[code] for code in codes), ids, ignored, partial)
        return found, [self._line(*said) for said in self.notes]

    def _note(self, line: str, c: Column, way: Way | None = None, when: str = "") -> None:
        """Keep a note on a column, and the way out where the reading is wrong."""
        self.notes.setdefault((line, when), []).append((c, way or {}))

    def _line(self, line: str, when: str) -> str:
        """A note with its columns, and the options to give where the reading is wrong."""
        columns, ways = zip(*self.notes[line, when], strict=True)
        way = f"; {when}: {self.choices.spell_options(**self._join_ways(ways))}" if when else ""
        return f"{line}, in {list_names([c.name for c in columns])}{way}"

    def _look_at_zeros(self) -> None:
        """Decide what 0 stands for, and 1 beside 2, by one rule for the table."""
        each = zip(*(c.each for c in self.used), strict=True)
        small = [[p.values for p in own if p.values <= BINARY | TWO] for own in each]
        signs = [set[float]().union(*own) & BINARY for own in small]
        self.ones = set[float]().union(*signs) <= {1.0} and any(TWO in own for own in small)
        minus = any({-1.0, 0.0} <= values for values in signs)
        plain = [c for c in self.used if c.values == {0.0, 1.0}]
        lower = sum(-1.0 in c.values and c.values <= BINARY for c in self.used)
        self.mixed = minus and not self.unnamed and RARE * len(plain) > lower
        self.minus = minus and not self.mixed
        zeros = [c for c in self.used if self.minus and 0.0 in c.values]
        if zeros and not all(-1.0 in values for values in signs if 0.0 in values):
            no = self.choices.spell_options(words={"0": -1})
            raise DataError(f"{self.label}: 0 occurs, and -1 in some tables: say what 0 is ({no})")
        for c in zeros:
            way: Way = {"words": {c.name: {"0": -1}}} if c in plain or not plain else {}
            self._note("0 is missing, as -1 occurs", c, way, "where 0 means no, say so")

    # Names of rows

    def _name_rows(self) -> list[Column]:
        """Return the column that names the rows, and others that could; note them if found."""
        if self.choices.id is not None:
            found = [c for c in self.columns if c.name == self.choices.id]
            self.id = next(iter(found), None)
            return found
        found = [c for c in self.columns if c in self.free and self._names_rows(c)]
        found.sort(key=lambda c: (not NAMING.fullmatch(c.name), c.name == "column 1"))
        for c in found[:1]:
            self.id = c
            self._note("names of rows were found", c)
            if sums := sorted(w for w in c.words if coding.token(w).rstrip(" :") in coding.SUMS):
                self._note(f"a row is named {list_names(sums)}: remove it if it sums up others", c)
        for c in found[1:]:
            self._note("left out, as no two rows have the same word", c)
        return found

    def _names_rows(self, c: Column) -> bool:
        """Whether the words of a column are names of rows: all differ, and are no entries."""
        named = bool(NAMING.fullmatch(c.name)) and not self.unnamed
        first, given = c.place == 0, c.tokens & c.given.keys()
        if c.why or c.rows < 3 or not (c.different or first or named):
            return False
        if not c.tokens or c.tokens & coding.FULL or c.meanings():
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
            return False  # numbers, even if some must be written in another way
        if c.different:
            return named or first or c.rows > FEW
        return len(c.words) > FEW and (c.many or len(c.words) >= MOSTLY * c.rows)

    # Codes

    def _code(self, c: Column) -> Code:
        """Code of a column."""
        kind, cut = self.choices.kind_of(c.name), self.choices.cut(c.name)
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
            return Code("words", tuple((dict(() if said else coding.EMPTY) | words).items()))
        meant = c.meanings(c.given)
        if meant is not None:
            return Code("words", tuple((meant | words | c.gone).items()))
        if said:
            raise self._odd(c, rest - KNOWN or rest, "is not among the words that were given")
        return self._category(c, cut == "levels")

    def _number(self, c: Column, how: Any) -> Code:
        """Code of a column of numbers, which may be cut."""
        values, gone = c.values, tuple(c.gone.items())
        own = how is not None and c.name in self.choices.binarize
        if not c.many:
            if values <= TWO and (2.0 in values or self.ones):
                self._note("2 is +1 and 1 is -1", c)
                return Code("words", (("1", -1), ("2", 1), *gone))
            if values <= BINARY and not (self.mixed and values >= {-1.0, 0.0}):
                none = self.minus or (self.mixed and -1.0 in values)
                low = {"-1": -1, "0": GONE if none else -1, "1": 1}
                return Code("words", tuple((low | c.given).items()))
        zeros = not own and any(re.fullmatch(r"0\d\d+", word.strip()) for word in c.words)
        if how == "levels" or (zeros and not c.many):  # codes of places and the like
            return self._category(c, sure=True)
        numbers = c.numbers()
        if endless := sorted({coding.spell(v) for v in numbers[np.isinf(numbers)].tolist()}):
            way: Way = {"words": {c.name: dict.fromkeys(endless, "missing")}}
            raise UnfitError(f"holds {list_names(endless)}, which is no number to use", way)
        codes = {v for v in values if abs(v) in coding.NO_ANSWERS}
        coded = bool(codes) and values - codes in ({0.0, 1.0}, TWO)
        if how is not None and (own or not coded):
            self._look_at_codes(c)
            return Code("number", gone, threshold=c.threshold(str(how)))
        rest = coding.sorted_levels(c.tokens - c.given.keys())  # long numbers may be one float
        if how is None and len(rest) <= 2 and not c.many:
            return Code("words", (*zip(rest, (-1, 1)[-len(rest) :], strict=True), *gone))
        if len({frozenset(p.values) for p in c.each if p.values}) > 1 and values <= BINARY | TWO:
            raise UnfitError("holds other numbers in each table: write them in one way")
        ways: list[Way] = [{"binarize": {c.name: "median" if self.choices.by_rows else "NUMBER"}}]
        if coded:
            ways.insert(0, {"words": {c.name: {coding.spell(v): "missing" for v in sorted(codes)}}})
        elif values == BINARY:
            ways.append({"words": {c.name: {"0": "missing"}}})
        elif ASIDE.fullmatch(c.name) or (NAMING.fullmatch(c.name) and not self.unnamed):
            ways.insert(0, {"ignore": [c.name]})
        elif len(values) <= FEW and values in ({*range(k, k + len(values))} for k in (0, 1)):
            more = {"ordinal": [c.name]}, {"words": {c.name: "category"}}
            ways += more * self.choices.by_rows
        odd = [word for word in rest if number(word) not in BINARY]
        if self.unnamed and odd:
            title = f"{RULE}, got {odd[0]} at {self._place(c, odd[:1])[0]}, {c.title}"
            raise UnfitError("", *ways, title=title)
        alike = ", which all owners cut alike" * (not self.choices.by_rows)
        raise UnfitError(f"holds numbers{alike}", *ways)

    def _look_at_codes(self, c: Column) -> None:
        """Note numbers that usually stand for no answer, and lie far from all others."""
        codes = {v for v in c.values if abs(v) in coding.NO_ANSWERS}
        near = c.values - codes
        far = FAR * (max(near) - min(near)) if len(near) > 1 else np.inf
        while joined := {v for v in codes if min((abs(v - w) for w in near), default=0) <= far}:
            near, codes = near | joined, codes - joined  # a number near to another is no code
        if gone := {coding.spell(v): "missing" for v in sorted(codes)}:
            way = {"words": {c.name: gone}}
            self._note(f"{' and '.join(gone)}, far from others", c, way, "if that is no answer")

    def _category(self, c: Column, sure: bool) -> Code:
        """Code of a column of categories."""
        tokens = {canonical(word) for word in c.levels} if not sure else set[str]()
        numbers = {word for word in tokens if number(word) is not None}
        words = tokens - numbers
        if len(tokens) > 2 and words and all(map(DRESSED.fullmatch, c.levels)):
            word = safe_line(min(sorted(words), key=len), 40)
            raise UnfitError(f"holds numbers written like '{word}': write them like 1234.5")
        if len(tokens) > 1 and not c.many:
            if numbers and c.rows_of(numbers) < c.rows_of(words):  # as of a row of totals
                raise self._odd(c, numbers, "stands beside", words)
            if numbers:
                raise self._odd(c, words, "is not a number")
            if all(map(DATE.fullmatch, c.levels)):
                raise UnfitError("holds dates")
            full, strange = tokens & coding.FULL, tokens - KNOWN
            places = len(strange) >= OTHERS and c.rows_of(tokens & KNOWN) < c.rows_of(strange)
            if full and not places:  # SI and NO
                raise self._odd(c, strange or tokens - coding.FULL or tokens, "stands beside", full)
        count, (mark, answers) = len(c.levels), coding.several_answers(c.levels)
        said = f"combinations of {len(answers)} answers with '{mark}' between them"
        ways = [{"words": {c.name: "answers"}}] * bool(mark and len(answers) <= LEVELS)
        if c.many or count > LEVELS:
            why = f"holds {'more than 1,000' if c.many else count} different words"
            raise UnfitError(f"{why}, {said}" if mark else why, *ways)
        if ways and c in self.free:
            self._note(said, c, ways[0], "for a column of each")
        if count == 1 and c.words[""]:
            way = {"words": {c.name: {min(c.levels): 1, "": -1}}}
            self._note("one word and blanks, which are missing", c, way, "if they mean no")
        return Code("category", tuple(c.gone.items()), levels=coding.sorted_levels(c.levels))

    def _ordinal(self, c: Column) -> Code:
        """Code of a column of ordered answers."""
        gone = c.gone | dict.fromkeys(c.unsaid, GONE)
        levels = {word for word in c.levels if canonical(word) not in c.unsaid}
        order = tuple(map(coding.level, map(str, self.choices.ordinal[c.name])))
        if not order:
            self._look_at_codes(c)
        if len(levels) > LEVELS or c.many:
            raise UnfitError(f"holds more than {LEVELS} levels")
        if not order and None in map(number, levels):
            why = "holds words: give its levels from the lowest to the highest"
            raise UnfitError(why, {"ordinal": {c.name: coding.order_levels(levels)}})
        if order and (odd := set(map(canonical, levels - {*order}))):
            raise self._odd(c, odd, "is not among the levels that were given")
        order = order or coding.sorted_levels(levels) or ("0",)
        return Code("ordinal", tuple(gone.items()), levels=order)

    def _answers(self, c: Column) -> Code:
        """Code of a column whose cells hold several answers each."""
        whole = {word: sign for word, sign in c.given.items() if sign <= GONE}
        cells = [word for word in c.words if canonical(word) not in whole]
        mark, answers = coding.several_answers(cells, sure=True)
        if not mark or len(answers) > LEVELS or c.many:
            raise UnfitError(f"holds no cell of 2 to {LEVELS} answers, with ; | , or / between")
        if c.words[""] and not whole:
            self._note("blanks are missing", c, {"words": {c.name: {"": -1}}}, "if they mean none")
        return Code("answers", tuple(whole.items()), levels=answers, mark=mark)

    # Faults

    def _odd(self, c: Column, odd: set[str], why: str, beside: Collection[str] = ()) -> UnfitError:
        """Fault of words of a column that do not fit to its others."""
        place, word = self._place(c, odd)
        why += f" {list_names(sorted({*beside} - {canonical(word)}))}" * bool(beside)
        gone = {w.strip(): "missing" for w in c.words if canonical(w) in odd}
        rare = len(odd) <= 3 and c.rows_of(odd) <= max(1, RARELY * c.rows)
        title = f"{place}, {c.title}: '{safe_line(word, 40)}'"
        ways: list[Way] = [{"words": {c.name: gone}}, {"words": {c.name: "category"}}]
        return UnfitError(why, *(ways if rare else ways[::-1]), title=title)

    def _place(self, c: Column, odd: Collection[str]) -> tuple[str, str]:
        """Table and row, from 1, that first hold one of these words, and that word."""
        word = next(w for w in c.first if canonical(w) in odd)
        label, row = c.first[word]
        return f"row {row}" if label == self.label else f"{label}, row {row}", word.strip()

    def _error(self, faults: Sequence[tuple[Column, UnfitError]]) -> ColumnsError:
        """Error about all faults: a line for each column, and one to paste that settles them."""
        lines, best = [], []
        for c, fault in faults:
            ways = (*fault.ways, {"ignore": [c.name]})[: max(2, len(fault.ways))]
            give = "; or ".join(self.choices.spell_options(**way) for way in ways)
            held = f"; commonest {said}" if (said := c.commonest()) else ""
            lines.append(f"{fault.title or c.title} {fault}".rstrip() + f"{held}; give {give}")
            best.append(ways[0])
        last = [self._line(*said) for said in self.notes if "sums up" in said[0]]
        settled = self._join_ways(best)
        if len(settled["ignore"]) == len(self.used):
            last.append("there is no other column")
        elif len(faults) > 1:
            last.append(f"to settle all of them: {self.choices.spell_options(**settled)}")
        said = f"{len(faults):,} of {len(self.names):,} columns cannot be read as they are"
        return columns_error(self.label, said, lines, [c.name for c, _ in faults], "; ".join(last))

    def _join_ways(self, ways: Sequence[Way]) -> Way:
        """Join ways out of several columns; a code that all columns give a word is given once."""
        settled: Way = {"words": {}, "binarize": {}, "ordinal": {}, "ignore": []}
        for name, value in (pair for way in ways for pair in way.items()):
            settled[name] = settled[name] + value if name == "ignore" else settled[name] | value
        own = {name: said for name, said in settled["words"].items() if isinstance(said, dict)}
        often = Counter(chain(*(said.items() for said in own.values())))
        held = Counter(chain(*(c.tokens for c in self.used)))
        once = {w: sign for (w, sign), n in often.items() if n == held[canonical(w)] > 1}
        rest = {k: v for k, v in settled["words"].items() if k not in own or v.keys() - once}
        settled["words"] = once | rest
        cuts = settled["binarize"]
        if len(cuts) > 2 and len({*cuts.values()}) == 1 and not self.choices.binarize:
            settled["binarize"] = next(iter(cuts.values()))
        return settled


def no_columns(label: str, unknown: Sequence[str], names: Sequence[str]) -> DataError:
    """Return an error about chosen columns that a table lacks, with the likeliest ones meant."""
    like = get_close_matches(unknown[0][:60], [name[:60] for name in names[:10_000]], n=1)
    way = f"did you mean {list_names(like)}?" if like else f"there are {list_names(names)}"
    return DataError(f"{label}: there is no column {list_names(unknown)}; {way}")
