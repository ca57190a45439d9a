"""Planted graded classes, drawn and measured beside the predictions of `graded_planning`.

Each draw has its own means, labels and gaps. What second moments show is predicted for the draw
itself, from its means and the shares that it really has; what depends on the law of a row, from
the shares it was drawn with.

Parameters
----------
classes : the population.
rows : (M, N) entries -1, 0 (not observed) and 1.
means, shares : (K, N) class means in (-1, 1), (K,) shares.
M : number of rows.
rng : the generator to draw from.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hopfed.errors import ArgumentError

from . import _check, assignment, class_noise
from .graded import Classes
from .graded_planning import ClassLaw, GradedPlan, shown

QUANTITIES = (
    "power",
    "eigenvalue",
    "score",
    "accuracy",
    "accuracy_all",
    "mean_error",
    "labelled_error",
    "cosine",
)
_ITERATIONS = 200  # of expectation maximisation
_ERRORS = 4  # standard errors that chance may make
_TOLERANCE = 0.03  # of the value: what laws for large tables may miss in small ones
_POWER_TOLERANCE = 0.05  # the plan's own, near the boundary
RULE = (
    f"allowed: {_ERRORS} standard errors and {_TOLERANCE:.0%} of the prediction, added up, as laws "
    f"for large tables miss so much in small ones; of the power {_ERRORS} errors of so many draws "
    f"at the predicted power, and {_POWER_TOLERANCE:g}"
)


@dataclass(frozen=True, eq=False)
class Comparison:
    """Predictions and measurements, in the order of `QUANTITIES`.

    Attributes
    ----------
    planned : (n,) what the plan says, for a typical table.
    predicted, measured : (n,) means over draws; root mean squares of errors.
    standard_error : (n,) of the difference of both, over draws.
    allowed : (n,) difference up to which they agree: see `RULE`.
    agrees : (n,) whether they differ by no more, or nothing was predicted.

    >>> from hopfed.theory.graded_planning import plan
    >>> law = ClassLaw(r=0.5)
    >>> found = compare(law, plan(law, 0.3, N=100, samples=300), 0.3, 100, 20, seed=0)
    >>> bool(found.agrees.all())
    True
    """

    planned: np.ndarray
    predicted: np.ndarray
    measured: np.ndarray
    standard_error: np.ndarray
    allowed: np.ndarray
    agrees: np.ndarray


def compare(
    law: ClassLaw, plan: GradedPlan, share: float, N: int, draws: int, seed: int
) -> Comparison:
    """Draw planted classes `draws` times and compare with the plan for one exposure.

    Parameters
    ----------
    law : of the means and gaps.
    plan : of :func:`hopfed.theory.graded_planning.plan`, for this share alone.
    share : of the class, in (0, 1).
    N : number of columns.
    draws : number of tables, at least 2.
    seed : of the draws.

    >>> from hopfed.theory.graded_planning import plan
    >>> law = ClassLaw(rates=(2, 2), missing=0.2)
    >>> found = compare(law, plan(law, 0.4, N=50, samples=200), 0.4, N=50, draws=5, seed=0)
    >>> dict(zip(QUANTITIES, found.measured.round(2).tolist(), strict=True))["power"]
    1.0
    """
    if draws < 2 or not np.isfinite(plan.samples):
        raise ArgumentError("draws", "at least 2, with a plan that ends", draws)
    sites, samples = int(_check.scalar("N", N, _check.count)), int(plan.samples)
    rngs = np.random.default_rng(seed).spawn(draws)
    pairs = np.array([_draw(law, plan, share, sites, samples, rng) for rng in rngs])
    predicted, measured = pairs.mean(axis=0).T
    error = (pairs[..., 1] - pairs[..., 0]).std(axis=0, ddof=1) / np.sqrt(draws)
    roots = [QUANTITIES.index(name) for name in ("mean_error", "labelled_error")]
    predicted[roots], measured[roots] = np.sqrt(predicted[roots]), np.sqrt(measured[roots])
    error[roots] /= 2 * predicted[roots]
    slack, chance, power = _TOLERANCE * np.abs(predicted), error.copy(), QUANTITIES.index("power")
    slack[power] = _POWER_TOLERANCE
    chance[power] = np.sqrt(predicted[power] * (1 - predicted[power]) / draws)  # were it right
    allowed = _ERRORS * chance + slack
    return Comparison(
        planned=np.array([float(getattr(plan, name)) for name in QUANTITIES]),
        predicted=predicted,
        measured=measured,
        standard_error=error,
        allowed=allowed,
        agrees=np.isnan(predicted) | (np.abs(measured - predicted) <= allowed),
    )


def draw_rows(classes: Classes, M: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Rows (M, N) of -1, 0 (not observed) and 1, and their classes (M,).

    >>> two = Classes([[0.9, 0.9, 0.9], [-0.9, -0.9, -0.9]], [0.5, 0.5], observed=0.8)
    >>> rows, labels = draw_rows(two, 2, np.random.default_rng(6))
    >>> rows.astype(int).tolist(), labels.tolist()
    ([[-1, -1, -1], [0, 1, 0]], [1, 0])
    """
    labels = _check.generator(rng).choice(len(classes.shares), size=M, p=classes.shares)
    size = (M, classes.means.shape[1])
    rows = np.where(rng.random(size) < (1 + classes.means[labels]) / 2, 1.0, -1.0)
    return rows * (rng.random(size) < classes.observed), labels


def responsibilities(rows: np.ndarray, means: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """(M, K) probability of each class given the observed entries of a row.

    >>> responsibilities(np.array([[1.0, 0.0]]), np.array([[0.5, 0.9], [-0.5, 0.9]]), [0.5, 0.5])
    array([[0.75, 0.25]])
    """
    up, down = (rows == 1).astype(np.float64), (rows == -1).astype(np.float64)
    with np.errstate(divide="ignore"):
        prior = np.log(shares)
    score = up @ np.log((1 + means) / 2).T + down @ np.log((1 - means) / 2).T + prior
    score = np.exp(score - score.max(axis=1, keepdims=True))
    return score / score.sum(axis=1, keepdims=True)


def maximum_likelihood(rows: np.ndarray, classes: Classes) -> np.ndarray:
    """(K, N) class means of expectation maximisation, started at the truth.

    >>> one = Classes([[0.5, 0.5]], [1.0])
    >>> maximum_likelihood(np.array([[1.0, 1.0], [1.0, -1.0], [1.0, 0.0]]), one)
    array([[1., 0.]])
    """
    up, down = (rows == 1).astype(np.float64), (rows == -1).astype(np.float64)
    means, shares = classes.means, classes.shares
    for _ in range(_ITERATIONS):
        found = responsibilities(rows, np.clip(means, -1 + 1e-6, 1 - 1e-6), shares)
        former, means = means, _ratio(found.T @ up, found.T @ down)
        shares = found.mean(axis=0)
        if np.abs(means - former).max() < 1e-6:
            break
    return means


def _ratio(up: np.ndarray, down: np.ndarray) -> np.ndarray:
    """Mean of the entries counted; 0 where there is none."""
    return (up - down) / np.maximum(up + down, 1e-12)


def _leading(rows: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues, falling, and (N, count) eigenvectors of `rows^T rows`."""
    if len(rows) >= rows.shape[1]:
        values, axes = np.linalg.eigh(rows.T @ rows)
        return values[: -count - 1 : -1], axes[:, : -count - 1 : -1]
    values, left = np.linalg.eigh(rows @ rows.T)
    values = values[: -count - 1 : -1]
    return values, rows.T @ left[:, : -count - 1 : -1] / np.sqrt(values)


def _draw(
    law: ClassLaw, plan: GradedPlan, share: float, N: int, M: int, rng: np.random.Generator
) -> list[tuple[float, float]]:
    """(predicted, measured) of every quantity for one table; errors as their squares."""
    means = law.draw(rng, 2, N)
    nominal = Classes(means, np.array([share, 1 - share]), 1 - law.missing)
    rows, labels = draw_rows(nominal, M, rng)
    own = Classes(means, np.bincount(labels, minlength=2) / M, 1 - law.missing)
    place = 1 if share <= 0.5 or law.rates is not None else 0

    if law.rates is not None:
        own = shown(own, M)
    spectrum = class_noise.predict(own, M)
    values, axes = _leading(rows / np.sqrt(own.noise * M), len(spectrum.outliers))
    unit = own.signals / np.linalg.norm(own.signals, axis=1, keepdims=True)
    score = float(np.sum((unit[0] @ axes[:, : spectrum.rank]) ** 2))

    sure = assignment.assign(nominal)
    chosen = responsibilities(rows, means, nominal.shares).argmax(axis=1) == labels
    mine = chosen[labels == 0].mean() if (labels == 0).any() else sure.accuracy[0]
    learnt = maximum_likelihood(rows, nominal)
    ours = rows[labels == 0]
    labelled = _ratio((ours == 1).sum(axis=0), (ours == -1).sum(axis=0))
    errors = assignment.estimated_errors(nominal, M)
    direction = nominal.observed / np.sqrt(nominal.noise)
    estimate, truth = learnt[0] * direction, means[0] * direction
    cosine = (estimate @ truth) ** 2 / (estimate @ estimate) / (truth @ truth)
    return [
        (float(plan.power), float(values[place] > plan.threshold)),
        (float(spectrum.outliers[place]), float(values[place])),
        (float(spectrum.scores[0]), score),
        (float(sure.accuracy[0]), float(mine)),
        (sure.total, float(chosen.mean())),
        (float(np.mean(errors[0] ** 2)), float(np.mean((learnt[0] - means[0]) ** 2))),
        (
            float(np.mean(assignment.mean_errors(nominal, M)[0] ** 2)),
            float(np.mean((labelled - means[0]) ** 2)),
        ),
        (float(assignment.cosines(nominal, errors)[0]), float(cosine)),
    ]
