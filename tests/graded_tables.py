"""Tables drawn from classes, and fits of them."""

from types import SimpleNamespace

import numpy as np
from scipy.optimize import linear_sum_assignment

from hopfed.archetypes.archetypes import Archetypes
from hopfed.archetypes.class_sums import ClassSums, Prior, fit_sums
from hopfed.archetypes.class_tests import measure_classes
from hopfed.archetypes.classes import Search, find_classes
from hopfed.archetypes.patterns import mean_of, pooled
from hopfed.archetypes.session import Owners
from hopfed.archetypes.verdict import judge_classes
from hopfed.spectral.rank import TracyWidom
from hopfed.spectral.whitening import count_whitened_classes


def classes(K, N, M, seed, *, shape=(1, 1), missing=0.0):
    """Means (K, N) of Beta entries, labels (M,), and rows of -1, 0, +1."""
    rng = np.random.default_rng(seed)
    T = 2 * rng.beta(*shape, (K, N)) - 1
    y = rng.choice(K, M, p=rng.dirichlet(np.full(K, 5)))
    x = np.where(rng.random((M, N)) < (1 + T[y]) / 2, 1, -1).astype(np.int8)
    x[rng.random((M, N)) < missing] = 0
    return T, y, x


def whiten(owners):
    """The count in whitened coordinates from which a fit starts."""
    return count_whitened_classes(pooled(owners), TracyWidom(), mean=mean_of(owners))


def error(found, T):
    """Largest root mean square error of a class's means, classes matched."""
    distance = np.sqrt(((found[:, None] - T[None]) ** 2).mean(axis=2))
    return distance[linear_sum_assignment(distance)].max()


def known(x, y, K):
    """Means of the classes, with the labels known."""
    return np.array([x[y == k].sum(0) / ((x[y == k] != 0).sum(0) + 1) for k in range(K)])


def fitted(x, cuts=(), patterns=None):
    """Owners of the rows, cut at some places, and the classes that are found."""
    owners = Owners.of(np.split(x, list(cuts)), 0)
    white = whiten(owners)
    U, v = white.spectrum.vectors, white.variances
    return owners, find_classes(owners, U, v, Search(), patterns)


def sums_of(x, y, K):
    """Sums over rows whose labels are known."""
    member = np.eye(K)[y]
    return ClassSums(member.sum(0)[None], member.T @ x, member.T @ (x != 0))


def labelled(x, y, K, steps=60, groups=()):
    """One owner of the rows, and the fit that starts from their labels."""
    owners = Owners.of([x], 0, groups)
    return owners, fit_sums(owners, sums_of(x, y, K), Prior.of(owners), steps)


def made(means, shares=None):
    """Archetypes of given means (K, N), as a recovery would return them."""
    means = np.asarray(means, float)
    K = len(means)
    return Archetypes(
        patterns=np.where(means < 0, -1, 1).astype(np.int8),
        scores=np.full(K, np.nan),
        predicted_scores=np.full(K, np.nan),
        exposures=np.full(K, 1 / max(K, 1)) if shares is None else np.asarray(shares),
        quality=float(np.sqrt((means**2).mean())) if K else 0.0,
        n_detected=K,
        explained=np.nan,
        status="ok" if K else "no signal",
        advice="",
        matches=np.zeros(0, np.int64),
        channel="graded",
        graded_means=means,
    )


def judged(owners, fit, n_detected=0):
    """The verdict on classes, with what it is made of: residual and rows."""
    tests = measure_classes(owners, fit, n_detected)
    said = judge_classes(tests)
    return SimpleNamespace(
        status=said.status, advice=said.advice, residual=tests.residual, rows=tests.rows
    )


def draw_rows(classes, M, rng):
    """Rows (M, N) of -1, 0 (not observed) and 1 of `hopfed.theory.graded.Classes`, their labels."""
    labels = rng.choice(len(classes.shares), size=M, p=classes.shares)
    size = (M, classes.means.shape[1])
    rows = np.where(rng.random(size) < (1 + classes.means[labels]) / 2, 1.0, -1.0)
    return rows * (rng.random(size) < classes.observed), labels


def responsibilities(rows, means, shares):
    """(M, K) probability of each class given the observed entries of a row."""
    logs = (rows == 1) @ np.log((1 + means) / 2).T + (rows == -1) @ np.log((1 - means) / 2).T
    weights = np.exp(logs - logs.max(axis=1, keepdims=True)) * shares
    return weights / weights.sum(axis=1, keepdims=True)


def likeliest(rows, means, shares, steps=300):
    """Means and shares after plain expectation maximisation without a prior."""
    for _ in range(steps):
        R = responsibilities(rows, means, shares)
        shares, means = R.mean(axis=0), R.T @ rows / R.sum(axis=0)[:, None]
        means = means.clip(1e-9 - 1, 1 - 1e-9)
    return means, shares
