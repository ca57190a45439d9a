"""Owners of rows of classes with gaps, over rounds: importable where worker processes load them."""

import dataclasses

import numpy as np
from graded_tables import known

GAPS = (0.1, 0.2, 0.3, 0.5)  # of each client, on average; each misses columns of its own more often


@dataclasses.dataclass(frozen=True, eq=False)
class Drawn:
    """Rows of classes for four clients, whose shares (T, K) and means change over rounds."""

    T: np.ndarray
    shares: np.ndarray
    rows: int = 200
    drift: float = 0.0
    seed: int = 0
    clients = len(GAPS)

    @property
    def rounds(self):
        return len(self.shares)

    def means(self, t):
        way = np.random.default_rng(self.seed).choice([-1, 1], self.T.shape)
        return np.clip(self.T + self.drift * t * way, -0.98, 0.98)

    def draw(self, t, who):
        rng, T = np.random.default_rng([self.seed, t, who]), self.means(t)
        own = self.shares[t] * np.random.default_rng([1, who]).uniform(0.3, 1.7, len(T))
        y = rng.choice(len(T), self.rows, p=own / own.sum())
        x = np.where(rng.random((self.rows, T.shape[1])) < (1 + T[y]) / 2, 1, -1).astype(np.int8)
        gaps = GAPS[who] * np.random.default_rng([2, who]).uniform(0.5, 1.5, T.shape[1])
        x[rng.random(x.shape) < gaps] = 0
        return x, y

    def examples(self, t, who):
        return self.draw(t, who)[0]

    def known(self, t):
        """Means of the rows of one round, of all clients, with the labels known."""
        x, y = (
            np.concatenate(part) for part in zip(*map(self.draw, [t] * 4, range(4)), strict=True)
        )
        return known(x, y, len(self.T))


def planted(K, N, shares, **settings):
    T = np.random.default_rng(settings.get("seed", 0)).uniform(-1, 1, (K, N))
    return Drawn(T, np.asarray(shares), **settings)
