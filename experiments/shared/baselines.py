"""Other methods that fit at most `most` classes to pooled rows of -1, 0 (missing) and +1."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from hopfed.errors import HopfedError
from hopfed.memory.energies import complete_cues

STARTS = 5  # starts for each number of classes
PATIENCE = 3  # numbers of classes without gain after which the search for their number ends
HIDDEN = 0.1  # share of entries that choose the number of factors
GRID = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48)  # numbers of clusters and of factors to choose from


class Model(NamedTuple):
    """A fitted model: size, and a function of rows: entries, nats an observed entry, classes."""

    size: int
    read: Callable[[np.ndarray], tuple[np.ndarray, float, np.ndarray]]


def classes_model(means: np.ndarray, shares: np.ndarray, rows: int) -> Model:
    """Baseline of classes: means (K, N), shares (K,) fitted to `rows` rows; no probability is 0."""
    most = 1 - 2 / (rows + 2)
    means, shares = np.clip(means, -most, most), np.maximum(shares, 1e-9)

    def read(asked: np.ndarray) -> tuple[np.ndarray, float, np.ndarray]:
        entries, R, energy = complete_cues(asked, means, shares)
        return entries, -float(energy.sum()) / max(1, (asked != 0).sum()), R.argmax(axis=1)

    return Model(len(means), read)


def one_class(rows: np.ndarray, **_: int) -> Model:
    """Baseline of one class: means of the columns."""
    return classes_model(_means(rows)[None], np.ones(1), len(rows))


def stepmix(rows: np.ndarray, *, seed: int, most: int) -> Model:
    """Baseline: latent class analysis by the package StepMix; the number of classes by BIC."""
    model = _library("stepmix.stepmix").StepMix
    kind = "bernoulli_nan" if (rows == 0).any() else "bernoulli"
    table = np.where(rows == 0, np.nan, (rows + 1) / 2)
    how = {"measurement": kind, "n_init": STARTS, "random_state": seed, "progress_bar": 0}

    def tried(K: int) -> tuple[float, Any]:
        with warnings.catch_warnings(action="ignore"):  # some starts do not converge
            fitted = model(K, **how).fit(table)
        return fitted.bic(table), fitted

    found = _best(tried, range(1, most + 1)).get_parameters()
    return classes_model(
        2 * np.asarray(found["measurement"]["pis"]) - 1, found["weights"], len(rows)
    )


def k_modes(rows: np.ndarray, *, seed: int, most: int) -> Model:
    """Baseline: clusters by the package kmodes as classes, by BIC; gaps take the commoner value."""
    model = _library("kmodes.kmodes").KModes
    full = np.where(rows == 0, np.where(_means(rows) >= 0, 1, -1), rows)
    how = {"init": "Huang", "n_init": STARTS, "random_state": seed}
    return _clustered(rows, full, lambda K: model(K, **how), most)


def k_means(rows: np.ndarray, *, seed: int, most: int) -> Model:
    """Baseline: clusters by scikit-learn's k-means as classes, by BIC; gaps take column means."""
    from sklearn.cluster import KMeans

    full = _filled(rows, (1 + _means(rows)) / 2)
    return _clustered(rows, full, lambda K: KMeans(K, n_init=STARTS, random_state=seed), most)


def nmf(rows: np.ndarray, *, seed: int, most: int) -> Model:
    """Baseline: factors by scikit-learn, their number by hidden entries; gaps take column means."""
    from sklearn.decomposition import NMF

    filling = (1 + _means(rows)) / 2
    hidden = np.random.default_rng(seed).random(rows.shape) < HIDDEN
    shown, asked = np.where(hidden, 0, rows), hidden & (rows != 0)

    def fitted(K: int, table: np.ndarray) -> Model:
        with warnings.catch_warnings(action="ignore"):  # it may not converge
            model = NMF(K, init="nndsvda", random_state=seed).fit(_filled(table, filling))

        def read(asked: np.ndarray) -> tuple[np.ndarray, float, np.ndarray]:
            weights = model.transform(_filled(asked, filling))  # the largest gives the class
            return 2 * weights @ model.components_ - 1, math.nan, weights.argmax(axis=1)

        return Model(K, read)

    def error(K: int) -> float:
        return float(((fitted(K, shown).read(shown)[0] - rows)[asked] ** 2).mean())

    return fitted(min((K for K in GRID if min(most, *rows.shape) >= K), key=error), rows)


METHODS: dict[str, Callable[..., Model]] = {
    "one class": one_class, "stepmix": stepmix, "k-modes": k_modes, "k-means": k_means, "nmf": nmf,
}  # fmt: skip


def _best(tried: Callable[[int], tuple[float, Any]], numbers: Iterable[int]) -> Any:
    """The model with the lowest criterion; the search ends when a few numbers bring no gain."""
    found: list[tuple[float, Any]] = []
    for K in numbers:
        found.append(tried(K))
        best = int(np.argmin([criterion for criterion, _ in found]))
        if len(found) - 1 - best == PATIENCE:
            break
    return found[best][1]


def _clustered(rows: np.ndarray, full: np.ndarray, model: Callable[[int], Any], most: int) -> Model:
    """Clusters of rows without gaps as classes: their shares, and means of observed entries."""

    def tried(K: int) -> tuple[float, Model]:
        labels = model(K).fit_predict(full)
        names, counts = np.unique(labels, return_counts=True)
        means = np.array([_means(rows[labels == k]) for k in names])
        found = classes_model(means, counts / len(rows), len(rows))
        nats = found.read(rows)[1] * (rows != 0).sum()
        return (means.size + len(counts) - 1) * np.log(len(rows)) - 2 * nats, found

    most = min(most, len(np.unique(full, axis=0)))
    best: Model = _best(tried, [K for K in GRID if most >= K])
    return best


def _means(rows: np.ndarray) -> np.ndarray:
    """Mean (N,) of the observed entries, with half a row of each value added."""
    return np.asarray(rows.sum(axis=0) / ((rows != 0).sum(axis=0) + 1))


def _filled(rows: np.ndarray, filling: np.ndarray) -> np.ndarray:
    """Entries as 0 and 1, gaps as `filling` (N,)."""
    return np.where(rows == 0, filling, (rows + 1) / 2)


def _library(name: str) -> Any:
    """A package that only this comparison needs."""
    try:
        return import_module(name)
    except ImportError:
        package = name.partition(".")[0]
        raise HopfedError(f"{package} is not installed: pip install 'hopfed[compare]'") from None
