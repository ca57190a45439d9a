"""Numbers as options take them: digits of ASCII, no NaN, and infinity only where it has a meaning.

Click's own types take ``nan``, ``1_000`` and digits of any script.
"""

from __future__ import annotations

import re
from typing import Any

import click
import numpy as np

from hopfed._lib.settings import MOST, real, whole
from hopfed.errors import ArgumentError

_SIZE = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,15})?) ?([kmgt])?b?", re.IGNORECASE | re.ASCII)


class _Parsed(click.ParamType):
    """What a text of an option is parsed to; a default that is no text stays as it is."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Parse `value`."""
        if not isinstance(value, str):
            return value
        try:
            return self.parse(value)
        except ArgumentError as error:
            self.fail(f"{str(error.got)[:300]} is not {error.rule}", param, ctx)

    def parse(self, text: str) -> Any:
        """Return the value of a text, or raise ArgumentError."""
        raise NotImplementedError


class Whole(_Parsed):
    """A whole number from `least` to `most`."""

    name = "integer"

    def __init__(self, least: int = -MOST, most: int = MOST):
        self.least, self.most = least, most

    def parse(self, text: str) -> int:
        """Return the number."""
        number = whole("", text)
        if not self.least <= number <= self.most:
            rule = f"a whole number from {self.least:,} to {self.most:,}"
            raise ArgumentError("", rule, text)
        return number


class Number(_Parsed):
    """A number; finite unless `infinite`."""

    name = "float"

    def __init__(self, infinite: bool = False):
        self.infinite = infinite

    def parse(self, text: str) -> float:
        """Return the number."""
        number = real("", text)
        if np.isinf(number) and not self.infinite:
            raise ArgumentError("", "a finite number", repr(text))
        return number


class Numbers(_Parsed):
    """One number or several separated by commas, finite unless `infinite`: float64 (n,)."""

    name = "numbers"

    def __init__(self, infinite: bool = False):
        self.kind = Number(infinite)

    def parse(self, text: str) -> np.ndarray:
        """Return the numbers."""
        return np.array([self.kind.parse(part.strip()) for part in text.split(",")])


class Size(_Parsed):
    """A number of bytes: digits, or a number with its unit, such as 500MB or 1.5GB."""

    name = "size"

    def parse(self, text: str) -> int:
        """Return the bytes."""
        parts = _SIZE.fullmatch(text.strip())
        if parts is None or float(parts[1]) <= 0:
            raise ArgumentError("", "a size, such as 500MB or 2GB", text)
        return int(float(parts[1]) * 1000 ** "BKMGT".index((parts[2] or "B").upper()))


class Seeds(_Parsed):
    """A number of seeds, or the range FIRST:END of them, END left out; as (first, number)."""

    name = "count|first:end"

    def parse(self, text: str) -> tuple[int, int]:
        """Return the first seed and how many there are."""
        first, colon, end = text.rpartition(":")
        start, stop = WHOLE.parse(first) if colon else 0, WHOLE.parse(end)
        if colon and (start < 0 or stop <= start):
            raise ArgumentError("", "a range that holds a seed: 100:105 are 100 to 104", text)
        return start, stop - start


COUNT = Whole()
WHOLE = Whole(most=(1 << 63) - 1)
FINITE = Number()
NUMBER = Number(infinite=True)
SEEDS = Seeds()
SIZE = Size()
