"""A look for classes among noisy sums: which are one, which are two, and who says so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hopfed.federation.messages import Message
from hopfed.hopfield.graded.noisy import PARTS
from hopfed.hopfield.graded.noisy_sums import NoisySums, Residuals

CONFIRMED = 0.5  # of what all owners show along a direction, that the others of them show
DIRECTIONS = 4  # of a class that are looked at: a liar's may be before those of all others
MOST_ROWS = 3.0  # times the median that the rows of an owner count for


@dataclass(frozen=True)
class Look:
    """Classes, with the products of their columns.

    Attributes
    ----------
    sums, pairs : of all owners, (K, N (N - 1) / 2) the latter.
    parent : (K,) which remembered class each is.
    unit : noise of `pairs` over that of the signed sums.
    groups : for each class those that were asked about and are in it.
    said : what each owner answered about these.
    cut : owners who may lie together.
    thin : how much more products vary by rows where owners lack columns.
    """

    sums: NoisySums
    pairs: np.ndarray
    parent: np.ndarray
    unit: float
    groups: Sequence[np.ndarray]
    said: Sequence[Message]
    cut: int
    thin: float = 1.0

    def one(self, *classes: int) -> Look:
        """Some classes, taken for one; of the largest of them in what is remembered."""
        k = list(classes)
        sums = self.sums.select(np.array(k[:1]))
        for other in k[1:]:
            sums = sums + self.sums.select(np.array([other]))
        return replace(
            self,
            sums=sums,
            pairs=self.pairs[k].sum(axis=0)[None],
            parent=self.parent[[max(k, key=lambda c: float(self.sums.counts[c]))]],
            groups=[np.concatenate([self.groups[c] for c in k])],
        )

    def residuals(self) -> Residuals:
        """How a single class varies; it is one where only its strongest supporters show two.

        Entries that are trimmed leave a liar a little of each. Along one direction that adds up
        over all pairs of columns, and there it is seen; what all others show comes behind it.
        """
        noise = self.unit * float(np.sqrt(self.sums.noise[0]))
        found = Residuals.of(self.sums, self.pairs[0], noise, self.thin, DIRECTIONS)
        if found[0].ratio <= 1 or self.cut == 0:
            return found[0]
        confirmed = (one for one in found if self.confirmed(one))
        return next(confirmed, replace(found[0], ratio=0.0))

    def confirmed(self, found: Residuals) -> bool:
        """Whether others than its strongest supporters show a direction of a single class."""
        shown, rows = np.array([self.shown(message, found) for message in self.said]).T
        rows = np.minimum(rows, MOST_ROWS * np.median(rows))
        # As many of the weakest as of the strongest: neither a claim nor a denial of one decides.
        kept = np.argsort(shown, kind="stable")[self.cut : len(shown) - self.cut]
        others = float((shown[kept] * rows[kept]).sum() / rows[kept].sum())
        return others >= CONFIRMED * found.top

    def shown(self, message: Message, found: Residuals) -> tuple[float, float]:
        """What one owner's rows of a single class show along a direction, and their number."""
        group, v = self.groups[0], found.along
        counts, signed, pairs = (
            message[name][group].sum(axis=0) / PARTS for name in ("counts", "signed", "pairs")
        )
        i, j = np.triu_indices(len(v), 1)
        n = max(float(counts), 1.0)
        mean = np.clip(signed / n, -1.0, 1.0)
        centre = (v @ mean) ** 2 - (v**2) @ mean**2
        has = (message["seen"] != 0).any(axis=0)  # of the direction the rest is not its own
        own = 1.0 if has.all() else max(float(v[has] @ v[has]), 0.5)
        return float(2 * (v[i] * v[j]) @ pairs / n - centre) / own**2, n

    def joined(self) -> Look:
        """Join each class with the one most alike where both together are no two.

        Of two fits of one class to halves of its rows, each may differ from the other by more than
        noise; together they vary by no more than a class does.
        """
        look, tried = self, set[tuple[int, ...]]()
        while len(look.parent) > 1:
            for a, b in look.sums.nearest():
                both = look.one(a, b)
                name = tuple(sorted(both.groups[0].tolist()))
                if name in tried or both.residuals().ratio > 1:
                    tried.add(name)
                    continue
                look = both.followed_by(look, np.delete(np.arange(len(look.parent)), [a, b]))
                break
            else:
                break
        return look

    def followed_by(self, other: Look, rest: np.ndarray) -> Look:
        """Put some classes of another look behind these."""
        return replace(
            self,
            sums=self.sums.followed_by(other.sums.select(rest)),
            pairs=np.concatenate([self.pairs, other.pairs[rest]]),
            parent=np.concatenate([self.parent, other.parent[rest]]),
            groups=[*self.groups, *(other.groups[k] for k in rest)],
        )
