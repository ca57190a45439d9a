"""Archetypes as an estimator of scikit-learn, for pipelines and cross-validation."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    DensityMixin,
    TransformerMixin,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from hopfed._lib.settings import parse_real, require
from hopfed.archetypes.archetypes import Archetypes
from hopfed.archetypes.row_weights import weights_of
from hopfed.kernels import Rows, pack_masked
from hopfed.recovery.recover import recover
from hopfed.spectral.rows import column_moments


class ArchetypeMixture(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, DensityMixin, BaseEstimator
):
    """A mixture of archetypes of binary columns; their number comes from the data.

    Columns are cut to +-1 at thresholds that `fit` learns: columns of two values, such as 0/1,
    keep them. NaN, None and pandas' NA are missing, and contribute nothing; unlike in
    `hopfed.recover`, 0 is a value. Sparse rows are accepted. Columns that determine each other,
    such as those of an encoder, count once, as in `hopfed.recover`.

    Parameters
    ----------
    threshold : cut of number columns: "median" cuts between the two values of a column that come
        nearest to halving its rows; a number cuts all columns there. Larger values become +1.
    channel : "auto", "symmetric" or "graded", as in `hopfed.recover`.
    n_archetypes : K, or None to estimate it from the data.
    random_state : seed of all random choices: a whole number, a `numpy.random.RandomState`, or None
        for another result each time.

    Attributes
    ----------
    archetypes_ : hopfed.Archetypes; look at its `status`. It has at least one archetype: where
        the recovery finds none, this is a single class of independent columns.
    thresholds_ : (N,) cuts of the columns.
    n_archetypes_ : K.
    n_features_in_, feature_names_in_ : as scikit-learn has them.

    >>> from hopfed.hopfield.channel import draw_examples, rademacher
    >>> rng = np.random.default_rng(1)
    >>> x, labels = draw_examples(rademacher(3, 200, rng), 600, 0.8, rng)
    >>> model = ArchetypeMixture().fit(x)
    >>> model.n_archetypes_, model.predict(x[:4]).tolist(), model.transform(x).shape
    (3, [2, 1, 0, 2], (600, 3))
    """

    def __init__(
        self,
        threshold: str | float = "median",
        *,
        channel: str = "auto",
        n_archetypes: int | None = None,
        random_state: Any = 0,
    ):
        self.threshold, self.channel, self.n_archetypes = threshold, channel, n_archetypes
        self.random_state = random_state

    def fit(
        self,
        X: ArrayLike,
        y: None = None,  # noqa: ARG002
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Recover the archetypes of rows X (n, N), dense or sparse; `y` is ignored.

        `sample_weight` (n,) has the meaning of the weights of `hopfed.recover`.

        Warns (`ConvergenceWarning`), with advice, where the status is not "ok".

        Raises
        ------
        ValueError : words or infinite numbers in rows, a single row, or a wrong parameter.
        """
        numbers = self._numbers(X, ensure_min_samples=2)
        often = np.ones(len(numbers))
        if sample_weight is not None:
            often = weights_of(_check_sample_weight(sample_weight, numbers), len(numbers))
        self.thresholds_ = _thresholds(numbers, often, self.threshold)
        rows = _cut(numbers, self.thresholds_)
        rows = rows if sample_weight is None else replace(rows, counts=often)
        found = _single(rows)
        sums, seen = column_moments(rows)
        if (np.abs(sums) < seen).sum() > 1:  # columns that hold both values
            seed = self.random_state
            if not isinstance(seed, int | np.integer):
                seed = check_random_state(seed).randint(2**31)
            how: dict[str, Any] = {"channel": self.channel, "n_archetypes": self.n_archetypes}
            recovered = recover(rows, seed=int(seed), **how)
            found = recovered if len(recovered) else replace(found, advice=recovered.advice)
        if found.status != "ok":
            words = f"{found.status}: {found.advice}"
            warnings.warn(words, ConvergenceWarning, stacklevel=2)
        names = getattr(self, "feature_names_in_", None)
        self.archetypes_ = replace(found, columns=None if names is None else tuple(names))
        self.n_archetypes_ = self._n_features_out = len(found)
        return self

    def fit_predict(self, X: ArrayLike, y: None = None) -> np.ndarray:
        """Recover archetypes of X (n, N); return that of each row, (n,). `y` is ignored."""
        return self.fit(X, y).predict(X)

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Return the number of the nearest archetype of each row of X, (n,)."""
        rows = self._rows(X)
        return self.archetypes_.assign(rows, alpha=0).archetype

    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """Return probabilities (n, K) of the archetypes for each row of X, if the row is of any."""
        rows = self._rows(X)
        return self.archetypes_.probabilities(rows)

    transform = predict_proba

    def score_samples(self, X: ArrayLike) -> np.ndarray:
        """Return the log-likelihood (n,), in nats, of the observed entries of each row of X."""
        rows = self._rows(X)
        return self.archetypes_.score(rows)

    def score(self, X: ArrayLike, y: None = None) -> float:  # noqa: ARG002
        """Return the mean log-likelihood of the rows of X; `y` is ignored."""
        return float(self.score_samples(X).mean())

    def _rows(self, X: ArrayLike) -> Rows:
        check_is_fitted(self)
        return _cut(self._numbers(X, reset=False), self.thresholds_)

    def _numbers(self, X: ArrayLike, **how: Any) -> np.ndarray:
        """Rows as numbers, NaN where an entry is missing."""
        how |= {"dtype": np.float64, "ensure_all_finite": "allow-nan"}
        return np.asarray(validate_data(self, _plain(X), **how))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        return tags


def _plain(X: Any) -> Any:
    """Make rows X of scikit-learn dense, with NaN where an object stands for a missing entry."""
    if issparse(X):
        return X.toarray()
    if hasattr(X, "dtypes") and hasattr(X, "isna"):
        return X.mask(X.isna() & [kind == "object" for kind in X.dtypes], np.nan)
    if isinstance(X, np.ndarray) and X.dtype.kind == "O":
        gone = np.frompyfunc(lambda cell: type(cell).__name__ in ("NAType", "NoneType"), 1, 1)
        return np.where(gone(X).astype(bool), np.nan, X)
    return X


def _cut(X: np.ndarray, thresholds: np.ndarray) -> Rows:
    """Pack rows X of numbers to bits, +1 above the thresholds, with their gaps."""
    gone = np.isnan(X)
    return pack_masked(thresholds < X, gone if gone.any() else None)


def _thresholds(X: np.ndarray, often: np.ndarray, threshold: str | float) -> np.ndarray:
    """Cuts (N,) that `fit` learns for the columns of X; 0 for a column without entries."""
    if threshold != "median":
        value = parse_real("threshold", str(threshold), "median or a number")
        require(np.isfinite(value), "threshold", "median or a number", threshold)
        return np.full(X.shape[1], value)
    there = ~np.isnan(X) & (often > 0)[:, None]
    return np.array([_median(x[t], often[t]) for x, t in zip(X.T, there.T, strict=True)])


def _median(x: np.ndarray, often: np.ndarray) -> float:
    """Cut of one column x by the median of its rows: between its values, or 0 if it has none."""
    values, place = np.unique(x, return_inverse=True)
    if len(values) < 2:
        return float(values[0]) if len(values) else 0.0
    below = np.cumsum(np.bincount(place, often))[:-1]
    i = int(np.abs(below - often.sum() / 2).argmin())
    low, high = float(values[i]), float(values[i + 1])
    middle = low / 2 + high / 2
    return middle if low <= middle < high else low


def _single(rows: Rows) -> Archetypes:
    """Archetypes of a single class of independent columns, from rows of which none was found."""
    sums, seen = column_moments(rows)
    means = (sums / (seen + 1))[None]
    unknown = np.full(1, np.nan)
    return Archetypes(
        patterns=np.where(means < 0, -1, 1).astype(np.int8),
        scores=unknown,
        predicted_scores=unknown,
        exposures=np.ones(1),
        quality=float(np.sqrt((means**2).mean())),
        n_detected=0,
        explained=np.nan,
        status="one class",
        advice="Nothing stands out of independent columns.",
        matches=np.zeros(0, np.int64),
        channel="graded",
        graded_means=means,
        own_errors=np.sqrt((1 - means**2) / (seen + 1)),
    )
