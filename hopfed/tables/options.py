"""What the reader of a table is told: ids, columns to leave out, words, and where to cut."""

from __future__ import annotations

import math
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hopfed._lib.settings import require
from hopfed.errors import shown
from hopfed.tables.words import canonical, number

__all__ = ["Choices"]

COLUMN_OF = ("category", "answers")  # what a column may be said to be one of
LONGEST = 1 << 16  # letters of an option that is to be copied
_SPELT = {"true": 1, "+1": 1, "1": 1, "false": -1, "-1": -1, "missing": 0, "0": 0}


@dataclass(frozen=True)
class Choices:
    """What the reader of a table was told.

    Attributes
    ----------
    id, ignore, words, binarize, ordinal : as of `hopfed.read_table`.
    options : whether errors name options of the command line, ``--ignore a``, and not arguments.
    kinds : name of a column -> what `words` said that it is one of.
    by_rows : whether the rows may decide where numbers are cut, and not only who chose.

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
    ignore: Any = ()
    words: Mapping[str, Any] | None = None
    binarize: Any = None
    options: bool = field(default=False, compare=False)
    kinds: Mapping[str, str] = field(default_factory=dict)
    ordinal: Any = ()
    by_rows: bool = field(default=True, compare=False)

    def __post_init__(self) -> None:
        ignore = (self.ignore,) if isinstance(self.ignore, str) else tuple(self.ignore)
        rule = "a dict of words, or of columns and theirs"
        require(isinstance(self.words or {}, Mapping), "words", rule, self.words)
        ordinal = (self.ordinal,) if isinstance(self.ordinal, str) else self.ordinal
        ordinal = ordinal if isinstance(ordinal, Mapping) else dict.fromkeys(ordinal, ())
        given = dict(self.words or {})
        kinds = {**self.kinds, **{k: given.pop(k) for k, v in [*given.items()] if v in COLUMN_OF}}
        made = {"ignore": ignore, "ordinal": ordinal, "words": given or None, "kinds": kinds}
        for name, value in made.items():
            object.__setattr__(self, name, value)
        for how in map(str, self.cuts.values()):
            kind, _, share = how.partition(":")
            cut = number(share if kind == "quantile" else how)
            fits = cut is not None and math.isfinite(cut) and (kind != "quantile" or 0 < cut < 1)
            rule = "median, mean, a number such as 20.5, quantile:Q, or levels for a column of each"
            require(fits or how in ("median", "mean", "levels"), "binarize", rule, how)
        for column in given:
            self.signs(column)

    def give(self, **said: Any) -> str:
        """Return what the caller writes to say something of a table.

        >>> words = {"9": "missing", "kg": {"-99": "missing", "x": 1}, "tree": "category"}
        >>> Choices(options=True).give(words=words, binarize="median", ignore=["a", "b c"])
        "--words 9=missing,kg=-99=missing,kg=x=+1,tree=category --binarize median --ignore a \
--ignore 'b c'"
        >>> Choices().give(words={"9": "missing"}, binarize={"kg": 1.5}, id="person")
        "words={'9': 'missing'}, binarize={'kg': 1.5}, id='person'"
        """
        if not self.options:
            return ", ".join(f"{name}={held!r}" for name, held in said.items() if held)
        given = []
        for name, held in said.items():
            texts = [*_texts(held)] if held else []
            for text in [",".join(texts)] if name == "words" and texts else texts:
                sign = "=" if text.startswith("-") else " "
                given.append(f"--{name}{sign}{shlex.quote(shown(text, LONGEST))}")
        return " ".join(given)

    def among(self, names: Sequence[str]) -> Choices:
        """Return these choices about a table: names of several columns may stand between commas.

        A column whose name has a comma is meant by its whole name, one of `names`. COLUMN=WORD is a
        word of that column alone.
        """
        held, words = set(names), dict[str, Any]()
        for word, sign in (self.words or {}).items():
            column, _, own = str(word).rpartition("=")
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

    def of(self, column: str) -> str:
        """What a column was said to be one of: "category", "answers", "ordinal", or nothing."""
        return "ordinal" if column in self.ordinal else self.kinds.get(column, "")

    def signs(self, column: str) -> dict[str, int]:
        """Codes of the words of a column that were given."""
        given, found = self.words or {}, dict[str, int]()
        own = given.get(column)
        both = {word: sign for word, sign in given.items() if not isinstance(sign, Mapping)}
        for word, sign in {**both, **(own if isinstance(own, Mapping) else {})}.items():
            said = "missing" if sign is None or sign != sign else str(sign).strip().lower()
            rule = "for +1, -1 or missing; or category or answers, behind the name of a column"
            require(said in _SPELT, "words", rule, sign)
            found[canonical(str(word))] = _SPELT[said]
        return found


def _parts(name: str, held: Collection[str]) -> list[str]:
    """Names of columns that an option gives: the whole, or its parts between commas."""
    parts = [name] if name in held else name.split(",")
    return [part if part in held else part.strip() for part in parts if part.strip()]


def _texts(held: Any) -> Iterator[str]:
    """Options that say the same: one for each column, or each of its words."""
    if isinstance(held, Mapping):
        yield from (f"{key}={text}" for key, value in held.items() for text in _texts(value))
    elif isinstance(held, list):
        yield from held
    else:
        levels = "<".join(held) if isinstance(held, tuple) else held
        yield f"{held:+d}" if isinstance(held, int) else str(levels)
