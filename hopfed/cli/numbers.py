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


class Whole(click.ParamType):
    """A whole number from `least` to `most`.

    Parameters
    ----------
    least, most : that are taken.
    """

    name = "integer"

    def __init__(self, least: int = -MOST, most: int = MOST):
        self.least, self.most = least, most

    def convert(self, value: Any, param: Any, ctx: Any) -> int:
        """Parse `value`."""
        number = value if isinstance(value, int) else _parsed(self, whole, value, param, ctx)
        if not self.least <= number <= self.most:
            rule = f"a whole number from {self.least:,} to {self.most:,}"
            self.fail(f"{value} is not {rule}", param, ctx)
        return number


class Number(click.ParamType):
    """A number; finite unless `infinite`.

    Parameters
    ----------
    infinite : whether ``inf`` is taken too.
    """

    name = "float"

    def __init__(self, infinite: bool = False):
        self.infinite = infinite

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        """Parse `value`."""
        if isinstance(value, (int, float)):
            return float(value)
        number: float = _parsed(self, real, value, param, ctx)
        if np.isinf(number) and not self.infinite:
            self.fail(f"{value!r} is not a finite number", param, ctx)
        return number


class Numbers(click.ParamType):
    """One finite number or several separated by commas: float64 (n,)."""

    name = "numbers"

    def convert(self, value: Any, param: Any, ctx: Any) -> np.ndarray:
        """Parse `value`."""
        if isinstance(value, np.ndarray):
            return value
        parts = str(value).split(",")
        return np.array([FINITE.convert(part.strip(), param, ctx) for part in parts])


class Size(click.ParamType):
    """A number of bytes: digits, or a number with its unit, such as 500MB or 1.5GB."""

    name = "size"

    def convert(self, value: Any, param: Any, ctx: Any) -> int:
        """Parse `value`."""
        if isinstance(value, int):
            return value
        parts = _SIZE.fullmatch(str(value).strip())
        if parts is None or float(parts[1]) <= 0:
            self.fail(f"{str(value)[:300]} is not a size, such as 500MB or 2GB", param, ctx)
        return int(float(parts[1]) * 1000 ** "BKMGT".index((parts[2] or "B").upper()))


def _parsed(kind: click.ParamType, parse: Any, text: str, param: Any, ctx: Any) -> Any:
    try:
        return parse("", text)
    except ArgumentError as error:
        kind.fail(f"{str(error.got)[:300]} is not {error.rule}", param, ctx)


COUNT = Whole()
WHOLE = Whole(most=(1 << 63) - 1)
FINITE = Number()
NUMBER = Number(infinite=True)


class Seeds(click.ParamType):
    """A number of seeds, or the range FIRST:END of them, END left out; as (first, number)."""

    name = "count|first:end"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[int, int]:
        """Parse `value`."""
        if isinstance(value, tuple):
            return value
        first, colon, end = str(value).rpartition(":")
        start = WHOLE.convert(first, param, ctx) if colon else 0
        stop = WHOLE.convert(end, param, ctx)
        if colon and (start < 0 or stop <= start):
            self.fail(f"{value} holds no seed: 100:105 are 100 to 104", param, ctx)
        return start, stop - start


SEEDS = Seeds()
SIZE = Size()
