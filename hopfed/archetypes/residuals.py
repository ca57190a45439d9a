"""What classes leave unexplained of the entries: their residuals, and the largest eigenvalue.

The residual of an observed entry is ``x - E[x | row]``, with the classes weighed by the row's
responsibilities. If the columns are independent within classes, the standardised residuals are
white: the largest eigenvalue of their second moment stays at the edge of white noise.

The residuals of an owner are held as numbers, 0 where an entry is missing. A product with
them costs two multiplications for an entry, however many classes there are. In
a table of some size they are kept from one product to the next, in blocks of rows; in a larger one
every block is made anew, which costs what the classes do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from hopfed import kernels
from hopfed._lib.arrays import Array, blas_threads, like, namespace, to_host
from hopfed._lib.random import stream
from hopfed.archetypes.graded.fitting.splitting import leading
from hopfed.archetypes.graded.owners.asking import Owner, Owners, total
from hopfed.federation.messages import Message
from hopfed.kernels.cpu.threads import for_each, spans
from hopfed.spectral.rows import Bits, array_beside

BLOCK = 1 << 18  # entries of a block: what a core's cache holds
ON_DEVICE = 1 << 24  # the same where every call costs more
KEPT = 1 << 25  # entries of a table of which the residuals are kept


@dataclass
class Unexplained:
    """Residuals of one owner's rows at the classes that it was last asked about.

    Attributes
    ----------
    owner : of the rows.
    kept : blocks of residuals in single precision, by their first row; made when first asked for.
    """

    owner: Owner
    kept: dict[int, Array] = field(default_factory=dict, init=False, repr=False)

    @property
    def nbytes(self) -> int:
        """Bytes that are kept."""
        M, N = self.owner.rows.shape
        return 4 * M * N if M * N <= KEPT else 0

    def squares(self, pairs: tuple[np.ndarray, np.ndarray] | None = None) -> list[np.ndarray]:
        """Squares (N,) added up by column; and the products (P,) of these pairs of columns."""

        def of(block: Array, often: Array) -> list[np.ndarray]:
            found = [often @ block**2]
            if pairs is not None:
                found.append(often @ (block[:, pairs[0]] * block[:, pairs[1]]))
            return [to_host(x).astype(np.float64) for x in found]

        return [sum(x[1:], start=x[0]) for x in zip(*self._each(of), strict=True)]

    def product(self, w: np.ndarray) -> np.ndarray:
        """Product (N,) of the residual moment with a vector, ``E^T (E w)``."""

        def of(block: Array, often: Array) -> np.ndarray:
            return to_host(((block @ like(w, block)) * often) @ block).astype(np.float64)

        found = self._each(of)
        return np.asarray(sum(found[1:], start=found[0]))

    def _each(self, of: Callable[[Array, Array], Array]) -> list[Array]:
        """What is asked of every block and how often its rows occur, in the order of the rows."""
        M, N = self.owner.rows.shape
        here = isinstance(array_beside(self.owner.rows), np.ndarray)
        blocks = spans(M, max(1, (BLOCK if here else ON_DEVICE) // N))
        answers: list[Array] = [None] * len(blocks)

        def task(i: int) -> None:
            block = self._block(*blocks[i])
            often = self.owner.often[slice(*blocks[i])]
            answers[i] = of(block, namespace(block).astype(often, block.dtype))

        if not here:
            for i in range(len(blocks)):
                task(i)
            return answers
        with blas_threads(1):
            for_each(task, range(len(blocks)))
        return answers

    def _block(self, first: int, last: int) -> Array:
        if first in self.kept:
            return self.kept[first]
        owner = self.owner
        x = owner.rows[first:last]
        x = kernels.unpack(x, np.float32) if isinstance(x, Bits) else x
        xp = namespace(x)
        R = xp.astype(owner.posterior[first:last], xp.float32)
        found = x - R @ like(owner.means.astype(np.float32), R)
        if not isinstance(owner.rows, kernels.PackedBits):
            found *= x != 0
        if self.nbytes:
            self.kept[first] = found
        return found


STEPS = 20  # products for the largest eigenvalue; the rows and their replicas get equally many
RARE = 10.0  # entries of its rarer kind below which a column is not scaled up to unit variance
UNSEEN = 2.0  # times the threshold of the spectrum up to which a fit may miss a class
SEVERAL = 10  # columns that depend on each other from which these may be classes


def residual_squares(owner: Owner, _: Message, left: Unexplained | None = None) -> Message:
    """Squares (N,) of an owner's residuals, added up by column.

    And products of the residuals of the levels of a variable, in the order of `Variables.pairs`.
    """
    pairs = None if owner.variables is None else owner.variables.pairs
    found = (left or Unexplained(owner)).squares(pairs)
    return dict(zip(("squares", "inside"), (x.astype(np.float32) for x in found), strict=False))


def residual_product(owner: Owner, asked: Message, left: Unexplained | None = None) -> Message:
    """Product (N,) of an owner's residual moment with a vector, ``E^T (E w)``."""
    found = (left or Unexplained(owner)).product(asked["vector"])
    return {"product": found.astype(np.float32)}


def residual_edge(owners: Owners, wanted: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Leading eigenvalues and vectors of the standardised residuals, and mean squares (N,)."""
    left = {id(o): Unexplained(o) for o in owners.members}
    start = stream(owners.seed, "residual").standard_normal((1, owners.n_columns))

    def asked(question: Callable[..., Message], told: Message) -> dict[str, np.ndarray]:
        answers = owners.ask(lambda o, m: question(o, m, left[id(o)]), told)
        return {name: total(answers, name) for name in answers[0]}

    M, variables = owners.n_rows, owners.variables
    found = asked(residual_squares, {})
    squares = found["squares"] / M
    # A few entries that stand out of a column that is otherwise constant are no dependence.
    scale = 1 / np.sqrt(np.maximum(squares, min(4 * RARE / M, 0.5)))

    def product(w: np.ndarray) -> np.ndarray:
        v = w[0] * scale
        image = asked(residual_product, {"vector": v.astype(np.float32)})["product"]
        if variables is not None:  # levels depend on each other as they must
            a, b = variables.pairs
            np.subtract.at(image, a, found["inside"] * v[b])
        return (image * scale / M)[None]

    values, vectors = leading(product, start, STEPS, wanted)
    return values[0], vectors[0], squares


def as_little(ratio: float, columns: int, owners: Owners) -> bool:
    """Whether classes too weak to be told apart would leave no more than this.

    They leave a faint dependence of many columns. So does other faint structure: near the
    threshold nothing tells the one from the other.
    """
    root = np.sqrt(owners.n_columns / owners.n_rows)
    # An outlier of UNSEEN times the threshold, over the edge.
    most = (1 + UNSEEN * root) * (1 + root / UNSEEN) / (1 + root) ** 2
    return bool(ratio <= most and not 0 < columns < SEVERAL)
