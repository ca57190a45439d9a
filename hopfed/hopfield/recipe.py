"""What a server asks of a client's rows: numbers and words, as another machine gets them.

They travel as JSON, and nothing in it is code: who reads it makes a `Recipe`, whose fields are all
that a server may set, each within its range, or says in one line what is wrong.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass

from hopfed._lib.settings import check_types, from_plain, require, to_plain
from hopfed.errors import DataError, HopfedError, shown
from hopfed.hopfield.encoding import Encoding

SHOWN = 120  # characters of an error about a recipe
LIMITS: dict[str, tuple[float, float]] = {
    **dict.fromkeys(("n_sites", "width"), (1, 2**24)),
    **dict.fromkeys(("looks", "steps"), (1, 100)),
    **dict.fromkeys(("weight", "ema", "delta"), (0, 1)),
    "rounds": (1, 2**63 - 1),
    "groups": (0, 2**20),
    "epsilon": (0, math.inf),
}


@dataclass(frozen=True)
class Recipe:
    """Settings of clients; of those of patterns or of classes the others do not count."""

    n_sites: int
    graded: bool = False  # sums over classes, and no operators
    rounds: int = 1  # parts that clients deal their rows out to
    epsilon: float = math.inf  # epsilon, delta: of the noise on all answers; none where infinite
    delta: float = 1e-5
    form: str = "counts"  # form, width: of operators, see `hopfed.hopfield.encoding`
    width: int = 1
    groups: int = 0  # groups, votes, weight, ema: of a `hopfed.hopfield.clients.PatternClient`
    votes: bool = False
    weight: float = 1.0
    ema: float = 1.0
    looks: int = 1  # looks, steps: of a `hopfed.hopfield.clients.ClassClient`
    steps: int = 1

    def __post_init__(self) -> None:
        check_types(self)
        for name, (least, most) in LIMITS.items():
            value = getattr(self, name)
            require(least <= value <= most, name, f"from {least:g} to {most:g}", value)
        Encoding(self.n_sites, self.form, self.width)  # checks these

    @property
    def text(self) -> str:
        """It as it travels."""
        return json.dumps(to_plain(self))

    @classmethod
    def read(cls, text: str) -> Recipe:
        """Undo `text`, whoever sent it."""
        try:
            return from_plain(cls, json.loads(text))
        except (HopfedError, TypeError, ValueError, RecursionError) as error:
            raise DataError(f"not a recipe of this hopfed: {shown(error, SHOWN)}") from None
