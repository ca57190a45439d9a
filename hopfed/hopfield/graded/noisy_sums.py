"""Sums over classes with noise of known size, and what can be read from them in spite of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

NEAREST = 0.98  # to +-1 that a mean is taken for
RAREST = 0.02  # part of the rows of a class that is taken to have a column, at least
ABOVE = 1.1  # times the edge of noise from which a class is two
TOLD = 3.0  # standard deviations from which the rows of a class are no noise


@dataclass(frozen=True)
class NoisySums:
    """Sums over rows and classes, with noise.

    Attributes
    ----------
    counts, signed, seen : (K,), (K, N), (K, N).
    noise : (K,) variance of the noise on `signed`; twice that on `seen`, 2 / N times on `counts`.
    """

    counts: np.ndarray
    signed: np.ndarray
    seen: np.ndarray
    noise: np.ndarray

    def __add__(self, other: NoisySums) -> NoisySums:
        """Add the sums of other rows, class by class."""
        return NoisySums(
            *(getattr(self, n) + getattr(other, n) for n in ("counts", "signed", "seen", "noise"))
        )

    def times(self, factor: float) -> NoisySums:
        """Scale it, noise and all."""
        c, x, s = factor * self.counts, factor * self.signed, factor * self.seen
        return NoisySums(c, x, s, factor**2 * self.noise)

    def select(self, kept: np.ndarray) -> NoisySums:
        """Keep some classes."""
        return NoisySums(self.counts[kept], self.signed[kept], self.seen[kept], self.noise[kept])

    @property
    def rows(self) -> np.ndarray:
        """(K,) rows of each class, 1 at least."""
        return np.maximum(self.counts, 1.0)

    def parts_seen(self) -> np.ndarray:
        """(K, N) part of the rows of a class that has each column."""
        n = self.rows[:, None]
        common = self.seen.sum(axis=0) / n.sum()
        common = np.clip(
            _drawn(common, common.mean(), 2 * self.noise.sum() / n.sum() ** 2), 0.0, 1.0
        )
        raw = self.seen / n
        return np.clip(_drawn(raw, common, 2 * self.noise[:, None] / n**2), RAREST, 1.0)

    def raw_means(self) -> tuple[np.ndarray, np.ndarray]:
        """(K, N) means of the entries, and the variance that rows and noise give them."""
        n = np.maximum(self.rows[:, None] * self.parts_seen(), 1.0)
        means = np.clip(self.signed / n, -1.0, 1.0)
        return means, self.noise[:, None] / n**2 + (1 - means**2 + 1 / n) / n

    def means(self) -> np.ndarray:
        """(K, N) means, drawn to those of the columns."""
        raw, variances = self.raw_means()
        rows = self.rows[:, None]
        common = (rows * raw).sum(axis=0) / rows.sum()
        common = _drawn(common, 0.0, (rows**2 * variances).sum(axis=0) / rows.sum() ** 2)
        drawn = _drawn(raw, common, variances) if len(raw) > 1 else common[None]
        return np.clip(drawn, -NEAREST, NEAREST)

    def shares(self) -> np.ndarray:
        """(K,) parts of all rows."""
        return np.asarray(self.rows / self.rows.sum())

    def nearest(self) -> list[tuple[int, int]]:
        """Pairs of a class and the one that differs least from it, those most alike first."""
        means, variances = self.raw_means()
        gap = ((means[:, None] - means[None]) ** 2 / (variances[:, None] + variances[None])).sum(2)
        np.fill_diagonal(gap, np.inf)
        pairs = {(min(k, int(j)), max(k, int(j))) for k, j in enumerate(gap.argmin(axis=1))}
        return sorted(pairs, key=lambda pair: (gap[pair], pair))

    def followed_by(self, other: NoisySums) -> NoisySums:
        """Put the classes of another one behind these."""
        names = ("counts", "signed", "seen", "noise")
        return NoisySums(*(np.concatenate([getattr(self, n), getattr(other, n)]) for n in names))

    def supported(self, least: float) -> np.ndarray:
        """Which classes are of so many rows, and of more than noise gives; the largest is."""
        N = self.signed.shape[1]
        enough = np.maximum(least, TOLD * np.sqrt(2 * self.noise / N))
        return np.asarray((self.counts >= enough) | (self.counts == self.counts.max()))


def _drawn(
    raw: np.ndarray, centre: np.ndarray | float, variances: np.ndarray | float
) -> np.ndarray:
    """Draw values to a centre, as much as their variances say that they scatter by."""
    between = max(float(((raw - centre) ** 2 - variances).mean()), 1e-4)
    found: np.ndarray = centre + between / (between + variances) * (raw - centre)
    return found


@dataclass(frozen=True)
class Residuals:
    """How the columns of a class vary together beyond what rows and noise let expect.

    Attributes
    ----------
    ratio : largest eigenvalue of the covariance beside its diagonal, over the edge; above 1 the
        class is two.
    way : (N,) half the difference of the two.
    top, along : that eigenvalue, and its unit vector (N,).
    """

    ratio: float
    way: np.ndarray
    top: float
    along: np.ndarray

    @classmethod
    def of(
        cls, one: NoisySums, pairs: np.ndarray, noise: float, thin: float = 1.0, most: int = 1
    ) -> list[Residuals]:
        """Look at one class: the direction along which it varies most, then others above the edge."""
        N, n = one.signed.shape[1], float(one.rows[0])
        i, j = np.triu_indices(N, 1)
        mean = one.signed[0] / n  # over all rows: to divide by those that have it adds noise
        C = np.zeros((N, N))
        C[i, j] = pairs / n - mean[i] * mean[j]
        C += C.T
        values, vectors = np.linalg.eigh(C)
        part = float(np.clip(one.seen[0].mean() / n, RAREST, 1.0))
        of_means = 2 * float(np.linalg.norm(mean) * np.sqrt(N * one.noise[0])) / n
        few = n / thin
        edge = (
            part * 2 * np.sqrt(N / few) + N / few + np.hypot(2 * np.sqrt(N) * noise / n, of_means)
        )
        tops = np.maximum(values[::-1][:most], 0.0)
        found = [
            cls(top / (ABOVE * edge), np.sqrt(top) / part * along, top, along)
            for top, along in zip(tops.tolist(), vectors.T[::-1], strict=False)
        ]
        return found[:1] + [one for one in found[1:] if one.ratio > 1]
