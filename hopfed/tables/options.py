"""What the reader of a table is told: ids, columns to leave out, words, and where to cut."""

from __future__ import annotations

import math
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hopfed._lib.settings import require
from hopfed.errors import shown
from hopfed.tables.words import GONE, canonical, number

__all__ = ["Choices"]

COLUMN_OF = ("category", "answers")  # what a column may be said to be one of
_SPELT = {"true": 1, "+1": 1, "1": 1, "false": -1, "-1": -1, "missing": 0, "0": 0}


@dataclass(frozen=True)
class Choices:
    """What the reader of a table was told.

    Attributes
    ----------
    id : name of the column that names the rows; None to look for one, "" for none.
    ignore : names of columns that are left out, or one such name.
    words : word -> +1, -1 or None (missing) in every column; or name of a column -> such words of
        its own, or what it is a column of: "category", or "answers" where a cell may hold several.
    binarize : where numbers are cut: "median", "mean", "quantile:Q", a number, or "levels"; or a
        mapping from names of columns to these.
    ordinal : name of a column of ordered answers -> its levels, from the lowest to the highest;
        none of those of numbers, whose order is known. Names alone mean numbers.
    options : whether who chose knows options of the command line (``--ignore a,b``) instead of
        arguments; there one option may name several columns.
    by_rows : whether the rows may decide where numbers are cut, and not only who chose.
    kinds : name of a column -> what it was said to be one of, taken out of `words`.

    Examples
    --------
    >>> Choices(words={"Agree": True, "refused": None}).signs("tea")
    {'agree': 1, 'refused': 0}
    >>> Choices(binarize="max")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    hopfed.errors.ArgumentError: binarize must be median, mean, a number such as 20.5, ...
    """

    id: str | None = None
    ignore: tuple[str, ...] = ()
    words: Mapping[str, Any] | None = None
    binarize: Any = None
    options: bool = field(default=False, compare=False)
    kinds: Mapping[str, str] = field(default_factory=dict)
    ordinal: Any = ()
    by_rows: bool = field(default=True, compare=False)

    def __post_init__(self) -> None:
        ignore = (self.ignore,) if isinstance(self.ignore, str) else self.ignore
        ordinal = (self.ordinal,) if isinstance(self.ordinal, str) else self.ordinal
        ordinal = ordinal if isinstance(ordinal, Mapping) else dict.fromkeys(ordinal, ())
        for how in map(str, self.cuts.values()):
            kind, _, share = how.partition(":")
            cut = number(share if kind == "quantile" else how)
            fits = cut is not None and math.isfinite(cut) and (kind != "quantile" or 0 < cut < 1)
            rule = "median, mean, a number such as 20.5, quantile:Q, or levels for a column of each"
            require(fits or how in ("median", "mean", "levels"), self.called("binarize"), rule, how)
        given = dict(self.words or {})
        kinds = {k: given.pop(k) for k, v in [*given.items()] if v in COLUMN_OF}
        for value in given.values():
            for sign in value.values() if isinstance(value, Mapping) else [value]:
                _sign(sign, self.called("words"))
        made = {"ignore": ignore, "ordinal": ordinal, "words": given or None}
        for name, value in {**made, "kinds": {**self.kinds, **kinds}}.items():
            object.__setattr__(self, name, value)

    def called(self, name: str) -> str:
        """Return the name of a choice as the caller knows it: an option or an argument."""
        return f"--{name}" if self.options else name

    def give(self, **said: Any) -> str:
        """Return what the caller writes to say something of a table; a sign of 0 is "missing".

        >>> words = {"9": 0, "kg": {"-99": 0}, "tree": "category"}
        >>> Choices(options=True).give(words=words, binarize="median", ignore=["a", "b c"])
        "--words 9=missing,kg=-99=missing,tree=category --binarize median --ignore 'a,b c'"
        >>> Choices().give(words={"1": 1, "9": 0}, binarize={"kg": 1.5}, id="person")
        "words={'1': 1, '9': 'missing'}, binarize={'kg': 1.5}, id='person'"
        >>> Choices(options=True).give(ordinal={"q": ("low", "high")})
        "--ordinal 'q=low<high'"
        """
        plain = {k: _harmless(held) for k, held in said.items() if held}
        if not self.options:
            return ", ".join(f"{name}={held!r}" for name, held in plain.items())
        given = []
        for name, held in plain.items():
            texts = [held]
            if name == "words":
                texts = [",".join(f"{word}={sign}" for word, sign in _flat(held))]
            elif name == "ordinal":
                texts = [f"{column}={'<'.join(levels)}" for column, levels in held.items()]
            elif name == "ignore":
                together = ",".join(column for column in held if "," not in column)
                texts = [together] * bool(together) + [column for column in held if "," in column]
            elif isinstance(held, Mapping):
                texts = [f"{column}={how}" for column, how in held.items()]
            for text in map(str, texts):
                given.append(f"--{name}{'=' if text[:1] == '-' else ' '}{shlex.quote(text)}")
        return " ".join(given)

    def among(self, names: Sequence[str]) -> Choices:
        """Return these choices about a table: an option names several columns by commas.

        A column whose name has a comma is meant by its whole name, one of `names`. COLUMN=WORD is a
        word of that column alone.
        """
        if not self.options:
            return self
        held, words = set(names), dict[str, Any]()
        for word, sign in (self.words or {}).items():
            column, _, own = word.rpartition("=")
            if column in held:
                words.setdefault(column, {})[own] = sign
            else:
                words[word] = sign
        ordinal = {part: own for name, own in self.ordinal.items() for part in _parts(name, held)}
        ignore = tuple(part for name in self.ignore for part in _parts(name, held))
        return replace(self, ignore=ignore, words=words or None, ordinal=ordinal)

    @property
    def cuts(self) -> Mapping[str, Any]:
        """Where the numbers of columns are cut, by name; "" for those of all others."""
        whole = {} if self.binarize is None else {"": self.binarize}
        return self.binarize if isinstance(self.binarize, Mapping) else whole

    def cut(self, column: str) -> Any:
        """Where the numbers of a column are cut, None if that was not said."""
        return self.cuts.get(column, self.cuts.get(""))

    def named(self) -> set[str]:
        """Names of columns that are mentioned."""
        own = {k for k, v in (self.words or {}).items() if isinstance(v, Mapping)}
        return {*self.ignore, self.id or "", *own, *self.kinds, *self.cuts, *self.ordinal} - {""}

    def entries(self) -> frozenset[str]:
        """Return the words, in lower case, that have a given meaning: none names a column."""
        own = [held if isinstance(held, Mapping) else [w] for w, held in (self.words or {}).items()]
        return frozenset(str(word).strip().lower() for words in own for word in words)

    def of(self, column: str) -> str:
        """What a column was said to be one of: "category", "answers", "ordinal", or nothing."""
        return "ordinal" if column in self.ordinal else self.kinds.get(column, "")

    def signs(self, column: str) -> dict[str, int]:
        """Codes of the words of a column that were given."""
        given = self.words or {}
        own = given.get(column)
        both = {word: sign for word, sign in given.items() if not isinstance(sign, Mapping)}
        both |= own if isinstance(own, Mapping) else {}
        return {canonical(str(word)): _sign(sign) for word, sign in both.items()}


def _parts(name: str, held: Collection[str]) -> list[str]:
    """Names of columns that an option gives: the whole, or its parts between commas."""
    parts = [name] if name in held else name.split(",")
    return [part if part in held else part.strip() for part in parts if part.strip()]


def _harmless(held: Any) -> Any:
    """Words, names and what they stand for, in texts that steer no terminal; 0 is "missing"."""
    if isinstance(held, Mapping):
        return {_harmless(key): _harmless(value) for key, value in held.items()}
    if isinstance(held, list | tuple):
        return list(map(_harmless, held))
    return shown(held, 200) if isinstance(held, str) else held or "missing"


def _flat(words: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    """Words as an option has them, those of one column behind its name, and their signs."""
    for word, sign in words.items():
        if isinstance(sign, Mapping):
            yield from ((f"{word}={own}", value) for own, value in _flat(sign))
        else:
            yield word, f"{sign:+d}" if isinstance(sign, int) else sign


def _sign(given: object, called: str = "words") -> int:
    """Return -1, 0 or +1 for what somebody may call it."""
    if given is None or given != given:
        return GONE
    said = str(given).strip().lower()
    rule = "for +1, -1 or missing; or category or answers, behind the name of a column"
    require(said in _SPELT, called, rule, given)
    return _SPELT[said]
