"""Numbers as options take them: digits of ASCII, no NaN, and infinity only where it has a meaning.

Click's own types take ``nan``, ``1_000`` and digits of any script.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import click

from hopfed._lib.settings import MOST, real, require, whole
from hopfed.errors import ArgumentError

_SIZE = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,15})?) ?([kmgt])?b?", re.IGNORECASE | re.ASCII)


class Parsed(click.ParamType):
    """What a text of an option is parsed to; a default that is no text stays as it is."""

    def __init__(self, name: str, parse: Callable[[str], Any]):
        self.name, self.parse = name, parse

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Parse `value`."""
        if not isinstance(value, str):
            return value
        try:
            return self.parse(value)
        except ArgumentError as error:
            self.fail(f"{str(error.got)[:300]} is not {error.rule}", param, ctx)


def within(least: int = -MOST, most: int = MOST) -> Parsed:
    """A whole number from `least` to `most`."""

    def parse(text: str) -> int:
        number = whole("", text)
        rule = f"a whole number from {least:,} to {most:,}"
        require(least <= number <= most, "", rule, text)
        return number

    return Parsed("integer", parse)


def _finite(text: str) -> float:
    number = real("", text)
    require(math.isfinite(number), "", "a finite number", repr(text))
    return number


def several(kind: Parsed) -> Parsed:
    """One value or several of a kind, separated by commas: float64 (n,)."""

    def parse(text: str) -> Any:
        import numpy as np

        return np.array([kind.parse(part.strip()) for part in text.split(",")])

    return Parsed("numbers", parse)


def _size(text: str) -> int:
    parts = _SIZE.fullmatch(text.strip())
    if parts is None or float(parts[1]) <= 0:
        raise ArgumentError("", "a size, such as 500MB or 2GB", text)
    return int(float(parts[1]) * 1000 ** "BKMGT".index((parts[2] or "B").upper()))


def _seeds(text: str) -> tuple[int, int]:
    first, colon, end = text.rpartition(":")
    start, stop = WHOLE.parse(first) if colon else 0, WHOLE.parse(end)
    rule = "a range that holds a seed: 100:105 are 100 to 104"
    require(not colon or 0 <= start < stop, "", rule, text)
    return start, stop - start


def _counts(text: str) -> list[int]:
    """Whole numbers from first to last, both among them."""
    first, colon, last = text.partition(":")
    start, stop = (FEW.parse(part) for part in (first, last if colon else first))
    require(start <= stop, "", "first:last, ascending, such as 1:8", text)
    return list(range(start, stop + 1))


def _shape(text: str) -> tuple[int, int]:
    parts = re.fullmatch("([1-9][0-9]{0,8})x([1-9][0-9]{0,8})", text.lower())
    if parts is None:
        raise ArgumentError("", "height x width, such as 28x28", text)
    return int(parts[1]), int(parts[2])


def _quality(text: str) -> float | None:
    rule = "auto or a number in (0, 1]"
    value = None if text == "auto" else real("", text, rule)
    require(value is None or 0 < value <= 1, "", rule, text)
    return value


COUNT = within()
FEW = within(1, 100_000)
WHOLE = within(most=(1 << 63) - 1)
SEED = within(0, (1 << 63) - 1)
FINITE = Parsed("float", _finite)
NUMBER = Parsed("float", lambda text: real("", text))
NUMBERS = several(FINITE)
SEEDS = Parsed("count|first:end", _seeds)  # (first, number); the end is left out
COUNTS = Parsed("first:last", _counts)
SHAPE = Parsed("height x width", _shape)
QUALITY = Parsed("auto|number", _quality)
SIZE = Parsed("size", _size)  # bytes, of digits or with a unit, such as 1.5GB
