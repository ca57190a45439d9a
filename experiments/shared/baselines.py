"""Other methods that fit classes to pooled binary rows: latent class analysis, clusters, factors.

Each takes rows (M, N) of -1, 0 (missing) and +1, the seed of its starts, and the `most` classes
that its own search for their number does not pass. A fitted model gives the likelihood of the
observed entries of new rows, and estimates of the missing ones.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, TypeAlias

import numpy as np

from hopfed.errors import HopfedError
from hopfed.memory.energies import complete

STARTS = 5  # of each number of classes
PATIENCE = 3  # numbers of classes without gain after which the search for their number ends
HIDDEN = 0.1  # of the entries, by which the number of factors is chosen
GRID = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48)  # numbers of clusters and of factors to choose from


@dataclass(frozen=True)
class Classes:
    """Latent classes: means (K, N) in (-1, 1) and shares (K,) above 0."""

    means: np.ndarray = field(repr=False)
    shares: np.ndarray

    @classmethod
    def of(cls, means: np.ndarray, shares: np.ndarray, rows: int) -> Classes:
        """Keep means as far from +-1 as one row in `rows` tells, so that no row is impossible."""
        most = 1 - 2 / (rows + 2)
        return cls(np.clip(means, -most, most), np.maximum(shares, 1e-9))

    @property
    def size(self) -> int:
        """Number of classes."""
        return len(self.means)

    def completed(self, rows: np.ndarray) -> np.ndarray:
        """Expected entries, by Bayes' rule."""
        return complete(rows, self.means, self.shares)[0]

    def log_likelihood(self, rows: np.ndarray) -> float:
        """Nats for each observed entry."""
        return -float(complete(rows, self.means, self.shares)[2].sum()) / max(1, (rows != 0).sum())

    def labels(self, rows: np.ndarray) -> np.ndarray:
        """Most likely class of each row."""
        return np.asarray(complete(rows, self.means, self.shares)[1].argmax(axis=1))


@dataclass(frozen=True)
class Factors:
    """Non-negative factors, by scikit-learn, of entries as 0 and 1, gaps filled; no likelihood."""

    fitted: Any
    filling: np.ndarray

    @property
    def size(self) -> int:
        """Number of factors."""
        return int(self.fitted.n_components_)

    def weights(self, rows: np.ndarray) -> np.ndarray:
        """Weights (M, K) of the factors in each row."""
        return np.asarray(self.fitted.transform(_filled(rows, self.filling)))

    def completed(self, rows: np.ndarray) -> np.ndarray:
        """Entries of the nearest combination of factors."""
        return np.asarray(2 * self.weights(rows) @ self.fitted.components_ - 1)

    def log_likelihood(self, rows: np.ndarray) -> float:  # noqa: ARG002
        """NaN."""
        return math.nan

    def labels(self, rows: np.ndarray) -> np.ndarray:
        """Factor with the largest part of each row."""
        return np.asarray(self.weights(rows).argmax(axis=1))


def one_class(rows: np.ndarray, **_: int) -> Classes:
    """Means of the columns."""
    return Classes.of(_means(rows)[None], np.ones(1), len(rows))


def stepmix(rows: np.ndarray, *, seed: int, most: int, patience: int = PATIENCE) -> Classes:
    """Latent class analysis by the package StepMix; the number of classes by BIC."""
    model = _library("stepmix.stepmix").StepMix
    kind = "bernoulli_nan" if (rows == 0).any() else "bernoulli"
    table = np.where(rows == 0, np.nan, (rows + 1) / 2)
    how = {"measurement": kind, "n_init": STARTS, "random_state": seed, "progress_bar": 0}

    def tried(K: int) -> tuple[float, Any]:
        with warnings.catch_warnings(action="ignore"):  # that a start has not converged
            fitted = model(K, **how).fit(table)
        return fitted.bic(table), fitted

    found = _best(tried, range(1, most + 1), patience).get_parameters()
    return Classes.of(2 * np.asarray(found["measurement"]["pis"]) - 1, found["weights"], len(rows))


def k_modes(rows: np.ndarray, *, seed: int, most: int, patience: int = PATIENCE) -> Classes:
    """Clusters by the package kmodes as classes, by BIC; gaps take the commoner value."""
    model = _library("kmodes.kmodes").KModes
    full = np.where(rows == 0, np.where(_means(rows) >= 0, 1, -1), rows)
    how = {"init": "Huang", "n_init": STARTS, "random_state": seed}
    return _clustered(rows, full, lambda K: model(K, **how), most, patience)


def k_means(rows: np.ndarray, *, seed: int, most: int, patience: int = PATIENCE) -> Classes:
    """Clusters by scikit-learn's k-means as classes, by BIC; gaps take the mean of their column."""
    from sklearn.cluster import KMeans

    full = _filled(rows, (1 + _means(rows)) / 2)
    how = {"n_init": STARTS, "random_state": seed}
    return _clustered(rows, full, lambda K: KMeans(K, **how), most, patience)


def nmf(rows: np.ndarray, *, seed: int, most: int, **_: int) -> Factors:
    """Non-negative factors, their number by a tenth of the entries; gaps take column means."""
    from sklearn.decomposition import NMF

    filling = (1 + _means(rows)) / 2
    hidden = np.random.default_rng(seed).random(rows.shape) < HIDDEN
    shown, asked = np.where(hidden, 0, rows), hidden & (rows != 0)

    def fitted(K: int, table: np.ndarray) -> Factors:
        with warnings.catch_warnings(action="ignore"):  # that it has not converged
            model = NMF(K, init="nndsvda", random_state=seed)
            return Factors(model.fit(_filled(table, filling)), filling)

    def error(K: int) -> float:
        return float(((fitted(K, shown).completed(shown) - rows)[asked] ** 2).mean())

    return fitted(min((K for K in GRID if min(most, *rows.shape) >= K), key=error), rows)


Model: TypeAlias = Classes | Factors
METHODS: dict[str, Callable[..., Model]] = {
    "one class": one_class, "stepmix": stepmix, "k-modes": k_modes, "k-means": k_means, "nmf": nmf,
}  # fmt: skip


def _best(tried: Callable[[int], tuple[float, Any]], numbers: Iterable[int], patience: int) -> Any:
    """The model of the lowest criterion; the search ends when a few more numbers bring no gain."""
    found: list[tuple[float, Any]] = []
    for K in numbers:
        found.append(tried(K))
        best = int(np.argmin([criterion for criterion, _ in found]))
        if len(found) - 1 - best == patience:
            break
    return found[best][1]


def _clustered(
    rows: np.ndarray, full: np.ndarray, model: Callable[[int], Any], most: int, patience: int
) -> Classes:
    """Clusters of rows without gaps as classes: their shares, and means of observed entries."""

    def tried(K: int) -> tuple[float, Classes]:
        _, labels, counts = np.unique(
            model(K).fit_predict(full), return_inverse=True, return_counts=True
        )
        means = np.array([_means(rows[labels == k]) for k in range(len(counts))])
        found = Classes.of(means, counts / len(rows), len(rows))
        nats = found.log_likelihood(rows) * (rows != 0).sum()
        return (means.size + len(counts) - 1) * np.log(len(rows)) - 2 * nats, found

    most = min(most, len(np.unique(full, axis=0)))
    best: Classes = _best(tried, [K for K in GRID if most >= K], patience)
    return best


def _means(rows: np.ndarray) -> np.ndarray:
    """Mean (N,) of the observed entries, with half a row of each value added."""
    return np.asarray(rows.sum(axis=0) / ((rows != 0).sum(axis=0) + 1))


def _filled(rows: np.ndarray, filling: np.ndarray) -> np.ndarray:
    """Entries as 0 and 1, gaps as told."""
    return np.where(rows == 0, filling, (rows + 1) / 2)


def _library(name: str) -> Any:
    """A package that only this comparison needs."""
    try:
        return import_module(name)
    except ImportError:
        package = name.partition(".")[0]
        raise HopfedError(f"{package} is not installed: pip install 'hopfed[compare]'") from None
