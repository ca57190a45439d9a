"""Questions about classes: pure functions of an owner and what it is told, whose answers add up.

Every question but the first few is about the classes that the owner was last told of (`learn`),
K classes of N columns. Nobody hears of a row: answers are sums over an owner's rows.

| question | numbers up | what it reveals of the rows |
| --- | --- | --- |
| `column_sums` | 2 N | the rate and the gaps of each column |
| `class_sums`, `sums_and_pairs` | K (2 N + 1) + 1, K^2 more | the same within each class |
| `score_sums` | 2 K N | how much rows of unequal weight say of the means |
| `sketch` | (K + 1) centres | means of at least `CROWD` rows each, in a basis |
| `nearest_sums` | centres (2 N + 1) | sums over the rows nearest to each centre |
| `upper_sums`, `well_explained_sums` | K (2 N + 1) | sums over a part of each class |
| `residual_products` | K N | how rows of a class vary along a direction |
| `residual_squares`, `residual_product` | N | what classes leave of columns |
| `resting_sums` | 2 K | how evenly rows agree with their class |
| `repeated` | 2 | how many rows equal another one |
| `offered`, `mixture_sums` | (S + 2) (S + 1) + 1 | whether rows lie at S points beside classes |
| `changes` | 4 | whether neighbours are of one class |

A question costs one pass over the rows: products with K to 2 K columns; `sketch` and `nearest_sums`
products with as many columns as the basis has.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from hopfed import kernels
from hopfed._lib.arrays import Array, like, namespace, to_host
from hopfed._lib.random import stream
from hopfed.archetypes.session import Owner, Variables, by_blocks, log_odds, means_inside
from hopfed.archetypes.votes import runs
from hopfed.archetypes.weights import is_survey
from hopfed.federation.messages import Message
from hopfed.spectral.rows import equals, host_moments, neighbour_deviation, only, seen_times, times

TINY = 1e-300


def column_sums(owner: Owner, _: Message) -> Message:
    """Sums and numbers of the observed entries of each column."""
    sums, seen = host_moments(owner.rows)
    return {"sums": sums.astype(np.int32), "seen": seen.astype(np.int32)}


@by_blocks
def class_sums(owner: Owner, sent: Message) -> Message:
    """Sums of an owner's rows over classes: one step of EM asks for nothing else."""
    owner.learn(sent["means"], sent["shares"])
    likelihood = owner.added(owner.log_densities)
    return {**weighted_sums(owner, owner.weights), "log_likelihood": likelihood}


@by_blocks
def sums_and_pairs(owner: Owner, sent: Message) -> Message:
    """The same, and how often rows may be of one class as well as of another."""
    sums, weights = class_sums(owner, sent), owner.weights
    once = weights if owner.rows.counts is None else owner.posterior
    return {**sums, "pairs": once.T @ weights}


def score_sums(owner: Owner, _: Message) -> Message:
    """Squares of what rows say of each mean (K, N), as often as rows count, and twice so."""
    T, R, often = owner.means, to_host(owner.posterior), to_host(owner.often)[:, None]
    found = {}
    for name, weights in (("once", often * R**2), ("twice", (often * R) ** 2)):
        sums = weighted_sums(owner, like(weights, owner.posterior))
        signed, seen = to_host(sums["signed"]), to_host(sums["seen"])
        found[name] = (1 + T**2) * seen - 2 * T * signed  # of (x - T)^2
    return found


def weighted_sums(owner: Owner, weights: np.ndarray) -> Message:
    """Counts (K,), signed sums and numbers (K, N) of rows with weights (M, K)."""
    xp = namespace(weights)
    counts = xp.sum(weights, axis=0, dtype=xp.float64)  # single precision loses digits row by row
    signed, seen = owner.sums(weights)
    return {"counts": xp.astype(counts, weights.dtype), "signed": signed, "seen": seen}


def sums_in_columns(variables: Variables | None, owner: Owner, sent: Message) -> Message:
    """Sums (K, N) over all columns, of classes that are known in some of them."""
    some = owner.rows.columns(sent["columns"])
    seen = Owner(some, owner.index, variables)
    seen.learn(sent["means"], sent["shares"])
    return weighted_sums(owner, seen.weights)


CROWD = 5  # rows that a centre of an owner's sketch stands for, at least
SKETCHED = 20_000  # rows of which an owner makes its sketch
SMALL = 10_000_000  # products of a step of k-means, up to which threads cost more than they save


def sketch(seed: int, draw: int, owner: Owner, sent: Message) -> Message:
    """Sum up an owner's projections as centres of at least CROWD rows each, (k, K), and counts."""
    rng = stream(seed, "sketch", owner.index, draw)
    Z, often = _projections(owner, sent["basis"]), to_host(owner.often)
    if len(Z) > SKETCHED:
        chosen = rng.choice(len(Z), SKETCHED, replace=False)
        Z, often = Z[chosen], often[chosen]
    rows = often.sum()
    most = max(1, min(int(sent["centres"]), int(rows) // (2 * CROWD)))
    centres, labels = clusters(Z, often, most, int(rng.integers(2**31)), starts=1)
    counts = np.bincount(labels, often, minlength=len(centres))
    kept = counts >= CROWD
    if not kept.any():
        centres, counts, kept = (often @ Z / rows)[None], np.array([rows]), np.array([True])
    return {"centres": centres[kept].astype(np.float32), "counts": counts[kept].astype(np.int32)}


def nearest_sums(owner: Owner, sent: Message) -> Message:
    """Sums of an owner's rows over the centres that are nearest to their projections."""
    Z, centres = _projections(owner, sent["basis"]), sent["centres"]
    labels = (Z @ centres.T - (centres**2).sum(axis=1) / 2).argmax(axis=1)
    weights = np.eye(len(centres), dtype=owner.precision)[labels]
    if owner.rows.counts is not None:
        weights *= owner.rows.counts[:, None]
    return weighted_sums(owner, like(weights, owner.rows.home))


def _projections(owner: Owner, basis: np.ndarray) -> np.ndarray:
    return to_host(times(owner.rows, like(basis, owner.rows.home)))


@cache
def _openmp() -> Any:
    """The threads of OpenMP, with which scikit-learn's k-means goes over points."""
    import sklearn.cluster  # noqa: F401  (it loads an OpenMP of its own)
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="openmp")


def clusters(
    points: np.ndarray, weights: np.ndarray, size: int, seed: int, starts: int
) -> tuple[np.ndarray, np.ndarray]:
    """Centres (k, K) and labels of weighted points by k-means; k is at most the points' number."""
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    size = min(size, len(points))
    small = points.size * size < SMALL
    with warnings.catch_warnings(), _openmp().limit(limits=1) if small else nullcontext():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct points than clusters
        found = KMeans(size, n_init=starts, random_state=seed).fit(points, sample_weight=weights)
    return found.cluster_centers_, found.labels_


def resting_sums(owner: Owner, _: Message) -> Message:
    """Sums (K,) of the cubes of how much rows agree with their class, and of their squares."""
    R = owner.weights
    A = times(owner.rows, like(np.arctanh(owner.means).T.astype(np.float32), R))
    A = A.clip(0.0, None) ** 3  # a row against its class makes it no other
    xp = namespace(R)
    return {"once": xp.sum(R * A, axis=0), "twice": xp.sum(R * A * A, axis=0)}


def well_explained_sums(owner: Owner, sent: Message) -> Message:
    """Sums over the rows of each class that are as likely as rows of it should be."""
    R = owner.weights
    well = standardised(owner) > float(sent["above"])
    return weighted_sums(owner, R * namespace(R).astype(well, R.dtype))


def standardised(owner: Owner) -> Array:
    """How well rows fit in each class, (M, K): their standardised log-likelihood in it."""
    T, odds = owner.means, np.arctanh(owner.means)
    variance = owner.along(np.zeros_like(T), (1 - T**2) * odds**2)
    return owner.along(odds, -T * odds) / namespace(variance).sqrt(variance.clip(1e-6, None))


def _along(owner: Owner, directions: np.ndarray) -> Array:
    """(M, K) ``(x - T_k) . w_k`` over the observed entries of each row."""
    return owner.along(directions, -owner.means * directions)


def residual_products(owner: Owner, sent: Message) -> Message:
    """Products of each class's residual moment with a direction: (K, N)."""
    along = _along(owner, sent["directions"])
    G = owner.weights * namespace(along).astype(along, owner.weights.dtype)
    signed, seen = owner.sums(G)
    return {"products": signed - like(owner.means.astype(np.float32), G) * seen}


def upper_sums(owner: Owner, sent: Message) -> Message:
    """Sums over the rows of each class on the upper side of a direction."""
    side = _along(owner, sent["directions"]) > 0
    return weighted_sums(owner, owner.weights * namespace(side).astype(side, owner.weights.dtype))


def repeated(owner: Owner, _: Message) -> Message:
    """Of how many rows an equal one came before, and how many have no equal: (2,)."""
    shown = owner.held if owner.free.all() else only(owner.held, owner.free)
    if is_survey(shown):  # as a part of the rows that they are worth
        worth = shown.size / len(shown)
        return {"equal": equals(replace(shown, counts=None)) * worth}
    return {"equal": equals(shown)}


BLOCK = 1 << 22  # entries of a block of residuals
KEPT = 1 << 25  # entries of a table of which they are kept


def residuals(owner: Owner) -> Iterable[tuple[Array, Array]]:
    """Blocks of residuals ``x - E[x | row]`` in single precision, and how often rows occur."""
    M, N = owner.rows.shape
    if owner.residuals is None and M * N <= KEPT:
        owner.residuals = list(_residuals(owner, max(M, 1)))
    return owner.residuals or _residuals(owner, max(1, BLOCK // N))


def _residuals(owner: Owner, step: int) -> Iterator[tuple[Array, Array]]:
    for first in range(0, owner.rows.shape[0], step):
        x = kernels.unpack(owner.rows[first : first + step], np.float32)
        xp = namespace(x)
        R = xp.astype(owner.posterior[first : first + step], xp.float32)
        left = x - R @ like(owner.means.astype(np.float32), R)
        if owner.rows.gaps:
            left *= x != 0
        yield left, xp.astype(owner.often[first : first + step], xp.float32)


def residual_squares(owner: Owner, _: Message) -> Message:
    """Squares (N,) of an owner's residuals, and products of levels of one variable, added up."""
    found = {"squares": sum(often @ E**2 for E, often in residuals(owner))}
    if owner.variables is not None:
        a, b = owner.variables.pairs
        found["inside"] = sum(often @ (E[:, a] * E[:, b]) for E, often in residuals(owner))
    return found


def residual_product(owner: Owner, sent: Message) -> Message:
    """Product (N,) of an owner's residual moment with a vector, ``E^T (E w)``."""
    w = like(sent["vector"], owner.rows.home)
    return {"product": sum(((E @ w) * often) @ E for E, often in residuals(owner))}


BEGIN = 0.1  # part of the rows that begins at the points
HIGHEST = 60.0  # log-likelihood ratio beyond which a row has said enough
NIL = 1e-36  # responsibility that counts for nothing even then


def offered(owner: Owner, sent: Message) -> Message:
    """Offer points beside the classes to an owner's rows, and ask for the sums where all begins."""
    owner.ratios = ratios(owner, sent["points"], sent["more"])
    return mixture_sums(owner, {"parts": beginning(owner.ratios.shape[1])})


def beginning(points: int) -> np.ndarray:
    """Parts of the rows in the classes and at each point from which the search begins."""
    if points == 0:
        return np.ones(1)
    return np.concatenate([[1 - BEGIN], np.full(points, BEGIN / points)])


def mixture_sums(owner: Owner, sent: Message) -> Message:
    """Log-likelihood ratio of an owner's rows at given parts, its slopes and their products."""
    r = owner.ratios
    xp, parts = namespace(r), sent["parts"]
    mixed = r @ like(parts[1:], r) + float(parts[0])
    slopes = xp.concat([xp.ones((r.shape[0], 1), dtype=r.dtype), r], axis=1) / mixed[:, None]
    often = slopes if owner.rows.counts is None else slopes * owner.often[:, None]
    return {
        "value": owner.added(xp.log(mixed)),
        "slopes": often.sum(axis=0),
        "bends": often.T @ slopes,
    }


def ratios(owner: Owner, points: np.ndarray, more: np.ndarray) -> Array:
    """Likelihood (M, S) of an owner's rows at S points, over that of the classes.

    At a point every class has other means (S, K, N), and its share is ``e^more`` (S, K) times what
    it was: ``sum_k R_k e^more_k p(row | points_k) / p(row | T_k)``, R being the responsibilities.
    """
    R, rows, S, variables = owner.posterior, owner.rows, len(points), owner.variables
    at = log_odds(owner.means, variables)
    there = [log_odds(means_inside(means), variables) for means in points]
    by_sign, by_seen = (np.array([t[i] - at[i] for t in there]) for i in (0, 1))
    if owner.dense is not None:
        odds = (x.reshape(-1, rows.shape[1]) for x in (by_sign, by_seen))
        logs, even = owner.logs(*odds)
        from hopfed.kernels.cpu.elementary import mixed

        return mixed(logs.reshape(S, *R.T.shape), more + even.reshape(S, -1), R.T, HIGHEST).T
    xp, M = namespace(R), rows.shape[0]
    found = xp.zeros((M, S), dtype=xp.float64)
    for k in range(R.shape[1]):
        which = np.flatnonzero(to_host(R[:, k]) > NIL)
        if not len(which):
            continue
        index = like(which, R)
        mine = rows if len(which) == M else rows[which]
        odds = (like(x[:, k].T.astype(np.float32), R) for x in (by_sign, by_seen))
        logs = times(mine, next(odds)) + seen_times(mine, next(odds))
        logs = xp.astype(logs, xp.float64) + like(more[:, k], R)
        found[index] += R[index, k][:, None] * xp.exp(logs.clip(None, HIGHEST))
    return found


LOOKED_AT = 20_000  # first rows of an owner whose order is looked at


def changes(owner: Owner, sent: Message) -> Message:
    """The same of the first rows of one owner."""
    few = Owner(owner.rows[:LOOKED_AT])
    few.learn(sent["means"], sent["shares"])
    own = to_host(few.posterior).argmax(axis=1)
    x = to_host(kernels.unpack(few.held))
    left = np.where(x == 0, 0.0, x - sent["means"][own])
    return {"changes": runs(own), "follow": np.array(neighbour_deviation(left))}
