"""How cells become +-1: for each column what its words stand for, where a number is cut."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from hopfed._lib.settings import require
from hopfed.errors import DataError
from hopfed.tables.words import GONE, MISSING, UNSAID, answers_in, canonical, level, number

__all__ = ["Code", "Coding"]

KINDS = ("words", "number", "category", "answers", "ordinal")
UNKNOWN = -2  # code of a word that a coding does not know
VERSION = 1
EMPTY = (("0", -1), ("1", 1))  # words of a column that held none


@dataclass(frozen=True)
class Code:
    """How the cells of one column become +-1.

    Attributes
    ----------
    kind : "words"; "number", +1 above the threshold; "category", one column of +-1 for each level,
        or one for the last of two; "answers", a cell holds any number of answers, each of which is
        a column; "ordinal", one column for each level but the last: +1 above it, -1 at it, missing
        below it.
    words : (word, code) with code -1, 0 (missing) or +1; of other kinds words for cells that are
        missing, or hold none of the answers (-1).
    threshold : of a number.
    levels : of a category; answers; of an ordinal from the lowest to the highest.
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
        """Names of the columns of +-1 that the column `name` becomes."""
        if self.kind == "ordinal":
            return tuple(f"{name}>{level}" for level in self.levels[: self.width])
        shown = tuple(f"{name}={level}" for level in self.levels[-self.width :])
        return shown or (name,)

    def entries(self, words: Sequence[str]) -> np.ndarray:
        """Return what words stand for: (width, len(words)) of -1, 0 and +1, int8.

        A word that the column did not hold when the coding was made is UNKNOWN throughout.
        """
        known, places = dict(self.words), {level: k for k, level in enumerate(self.levels)}
        rows = [self._entries(word, known, places) for word in words]
        return np.array(rows, np.int8).reshape(len(words), self.width).T

    def _entries(self, word: str, known: dict[str, int], places: dict[str, int]) -> list[int]:
        """Entries of a cell."""
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

    @property
    def missing(self) -> frozenset[str]:
        """Words that stand for no entry in a column of numbers."""
        return MISSING | UNSAID | dict(self.words).keys()

    def said(self, sign: int) -> str:
        """What a `sign` stands for: a word that the column held, "> 2.5"; "" where names say it."""
        if self.kind == "words":
            return next((word for word, own in self.words if own == sign), f"{sign:+d}")
        return f"{'>' if sign > 0 else '<='} {self.threshold:g}" if self.kind == "number" else ""

    @property
    def plus(self) -> str:
        """What +1 stands for."""
        return self.said(1)

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
    """Whether a code is that of a column that held no entry, or was told to be like it."""
    return code.kind == "words" and tuple(pair for pair in code.words if pair[1] != GONE) == EMPTY


def _are_names(names: Any) -> bool:
    """Whether these are texts that differ."""
    texts = isinstance(names, tuple) and all(isinstance(name, str) for name in names)
    return texts and len(set(names)) == len(names)


@dataclass(frozen=True)
class Coding:
    """How the columns of a table became columns of +-1, for tables that are coded alike.

    Attributes
    ----------
    names, codes : of the columns that were used, in order, and how each of them is coded.
    ids, ignored : names of columns that name the rows, and of those that were left out.
    partial : whether a table may lack some of the columns, which are missing in all of its rows
        then, as where owners with different columns were put together.

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
        """Return the coding of an array of truth values, of 0 and 1, or of -1 and 1.

        Where -1 occurs in it (`minus`), 0 is a missing entry; `names` are those of its columns.
        """
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

    def _spans(self, kind: str) -> Iterator[tuple[int, ...]]:
        """Numbers of the columns of +-1 of each column of a kind, where they are several."""
        ends = np.cumsum([code.width for code in self.codes], dtype=int).tolist()
        for end, code in zip(ends, self.codes, strict=True):
            if code.kind == kind and code.width > 1:
                yield tuple(range(end - code.width, end))

    def to_json(self) -> str:
        """Return the coding as a JSON text."""
        kinds = {code: k for k, code in enumerate(dict.fromkeys(self.codes))}
        held = {
            "version": VERSION,
            "codes": [
                {k: v for k, v in asdict(code).items() if v == v and v not in ((), "")}
                for code in kinds
            ],
            "columns": [[n, kinds[c]] for n, c in zip(self.names, self.codes, strict=True)],
            "ids": self.ids,
            "ignored": self.ignored,
        } | ({"partial": True} if self.partial else {})
        return json.dumps(held, ensure_ascii=False)

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
