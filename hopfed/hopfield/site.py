"""What the owner of a file agrees to answer, whatever the server asks."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

from hopfed.config import require
from hopfed.data.batches import Batches, Elsewhere
from hopfed.errors import DataError
from hopfed.federation.contract import Method
from hopfed.federation.messages import Message, digest, nbytes
from hopfed.hopfield.method import HopfieldFederation
from hopfed.hopfield.private import PrivateFederation
from hopfed.kernels import PackedBits
from hopfed.runs import replacing

# Packages whose settings a server may name: data and rules, nothing that reads files or learns.
TRUSTED = ("hopfed.hopfield", "hopfed.plasticity", "hopfed.search", "hopfed.data.batches")

REVEALS = {
    "counts": "for every pair of columns, in how many examples they agree",
    "values": "strengths of the leading directions of the examples",
    "vectors": "the leading directions of the examples",
    "sketch": "a linear sketch of the second moments of the examples",
    "examples": "how many examples this batch has",
    "columns": "the mean of every column",
    "weight": "how much of this batch is new, as one number",
    "groups": "variances of random groups of examples along directions that the server names",
    "sizes": "how many examples these groups have",
    "votes": "for every known pattern, the sum of the examples nearest to it",
    "voters": "how many examples that are",
}
NOISY = "for every pair of columns, in how many examples they agree, with noise"


@dataclass(frozen=True)
class Releases:
    """What was released of which examples, so that budgets do not add up unseen.

    Attributes
    ----------
    path : file that remembers it.
    """

    path: Path

    def agree(self, rows: PackedBits, method: PrivateFederation, rounds: int) -> None:
        """Note a release, or fail where the same examples were released on other terms.

        On the same terms they get the same noise: a further federation learns nothing more.
        """
        terms = f"epsilon {method.epsilon:g}, delta {method.delta:g}, {rounds} round(s)"
        held = json.loads(self.path.read_text()) if self.path.is_file() else {}
        name = digest({"rows": rows.words}).hex()
        if held.setdefault(name, terms) != terms:
            raise DataError(
                f"these examples were released with {held[name]}; with {terms} the budgets would "
                f"add up: remove {self.path} if that is meant"
            )
        with replacing(self.path) as temporary:
            temporary.write_text(json.dumps(held))


@dataclass(frozen=True)
class Owner:
    """The owner of a file of examples.

    Attributes
    ----------
    rows : the examples.
    secret : of the privacy noise, see `hopfed.hopfield.private`.
    epsilon, delta : the most that a release may tell about one example; None agrees to releases
        without noise.
    releases : remembers what was released under an epsilon.
    questions : whether projections and votes are answered, whose directions the server chooses.
    """

    rows: PackedBits
    secret: int
    epsilon: float | None = None
    delta: float = 1e-5
    releases: Releases | None = None
    questions: bool = True

    def __post_init__(self) -> None:
        bounded = self.epsilon is None or self.epsilon > 0
        require(bounded, "epsilon", "above 0", self.epsilon)
        require(self.secret > 0, "secret", "a number above 0", "0")

    def adapt(self, method: Method) -> Method:
        """Put the examples into a method, if their owner agrees to it.

        Raises
        ------
        DataError : the method is another one, asks for more than agreed, or for other columns.
        """
        if not isinstance(method, (HopfieldFederation, PrivateFederation)):
            raise DataError(f"this client does not take part in {type(method).__name__}")
        if method.n_sites != self.rows.shape[1]:
            raise DataError(f"the federation has {method.n_sites} columns, my file another number")
        if not isinstance(method.source, Elsewhere):
            raise DataError("the federation does not leave the examples where they are")
        source = Batches((self.rows,), method.source.rounds)
        if isinstance(method, PrivateFederation):
            if self.epsilon is not None and self._above(method):
                raise DataError("the federation asks for more than this client's epsilon and delta")
            if self.releases is not None and self.epsilon is not None:
                self.releases.agree(self.rows, method, source.rounds)
            return replace(method, source=source, secret=self.secret)
        if self.epsilon is not None:
            raise DataError("this client releases operators with noise only: serve --epsilon")
        if method.steps != ("operators",) and not self.questions:
            raise DataError("this client answers no questions: serve --set groups=0 --set votes=no")
        return replace(method, source=source)

    def _above(self, method: PrivateFederation) -> bool:
        return method.epsilon > (self.epsilon or 0.0) or method.delta > self.delta


def inventory(method: Method, message: Message) -> list[tuple[str, str, str, int, str]]:
    """Arrays of a message: name, type, shape, bytes, and what they reveal."""
    rows = []
    for name, array in message.items():
        reveals = REVEALS.get(name, "")
        if name == "counts" and isinstance(method, PrivateFederation):
            reveals = f"{NOISY}: epsilon {method.epsilon:g}, delta {method.delta:g}"
        shape = " x ".join(map(str, array.shape)) or "one number"
        rows.append((name, str(array.dtype), shape, nbytes({name: array}), reveals))
    return rows
