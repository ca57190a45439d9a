"""Where expectation maximisation starts: joint diagonalisation, and k-means, both by owners' sums.

Both work in the whitened signal basis of the count, ``V = diag(v)^-1/2 U`` with K columns, where
noise has unit variance and a class sits at ``V^T T``.

- *Joint diagonalisation.* Second moments of random groups of rows are diagonalised together. The
  common vectors are ``+-sqrt(pi) V^T T``; the mean of all rows, a positive combination of the
  classes, gives their signs and shares: no search. Source: theory/NOTES.md, "Joint
  diagonalisation".
- *k-means.* Every owner sums up its rows as a few centres, each of several rows; the server
  clusters the centres. Then centres go down, and sums over the nearest rows come up.

An owner who lacks columns gets a basis of its own, of those that it holds: the same class lies
at the same place then, in noise that is wider where the basis has lost more.
"""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from functools import cache
from typing import Any

import numpy as np

from hopfed._lib.arrays import Array, like, to_host
from hopfed._lib.random import stream
from hopfed.archetypes.graded.fitting.mixture import ClassSums, Mixture, Prior, weighted_sums
from hopfed.archetypes.graded.owners.asking import Owner, Owners, total
from hopfed.archetypes.joint_diagonalization import group_projections, joint_eigenbasis
from hopfed.federation.messages import Message
from hopfed.spectral.rows import array_beside

GROUPS = 10  # random groups over all owners
CROWD = 5  # rows that a centre of an owner's sketch stands for, at least
SKETCHED = 20_000  # rows of which an owner makes its sketch
SMALL = 10_000_000  # products of a step of k-means, up to which threads cost more than they save
LEAST = 1e-3  # share that a start gives a class
NEWTON = 60  # steps of the joint diagonalisation
LOST = 0.1  # part of a direction that an owner's columns must hold, or it is taken to hold


def joint_start(
    owners: Owners, V: np.ndarray, unwhiten: np.ndarray, prior: Prior
) -> Mixture | None:
    """Classes from the differences between random groups of rows; None where they show none.

    Parameters
    ----------
    V : (N, K) whitened basis ``diag(v)^-1/2 U``.
    unwhiten : (N, K) what brings coefficients back to columns, ``diag(v)^1/2 U``.
    """
    each = max(2, -(-GROUPS // len(owners.members)))

    bases, noise = own_bases(owners, V, unwhiten, prior)

    def projected(owner: Owner, told: Message) -> Message:
        basis = like(told["basis"], array_beside(owner.rows))
        sums, counts = _group_sums(owner, basis, each, owners.seed)
        mean = to_host(owner.added(owner.times(basis)))
        return {"sums": sums.astype(np.float32), "counts": counts.astype(np.int32), "mean": mean}

    answers = owners.ask(projected, *bases)
    sums = np.concatenate([a["sums"].astype(np.float64) for a in answers])
    counts = np.concatenate([a["counts"] for a in answers]).astype(np.float64)
    wide = np.repeat(noise, [len(a["counts"]) for a in answers], axis=0)[counts > 0]
    sums, counts = sums[counts > 0], counts[counts > 0]
    A = sums / counts[:, None, None] - wide
    values, E = np.linalg.eigh(np.tensordot(counts / counts.sum(), A, 1))
    if values[-1] <= 0:
        return None
    values = np.maximum(values, 1e-3 * values[-1])
    W, B = E / np.sqrt(values), E * np.sqrt(values)
    A = (W.T @ A @ W - np.eye(len(values))) * np.sqrt(counts)[:, None, None]
    S = B @ joint_eigenbasis(A, stream(owners.seed, "graded joint", 0), NEWTON)
    roots = np.linalg.lstsq(S, total(answers, "mean") / counts.sum(), rcond=None)[0]
    if (np.abs(roots) < 1e-9).any():
        return None
    means = (unwhiten @ S).T / roots[:, None]  # of zero-filled rows: gaps shrink them
    means = means / np.maximum(prior.observed, LEAST)
    shares = np.maximum(roots**2, LEAST)
    every = np.tile(shares / shares.sum(), (len(owners.members), 1))
    return Mixture(np.clip(means, -0.98, 0.98), every)


def _group_sums(
    owner: Owner, basis: Array, groups: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Second moments (G, K, K) of random groups of an owner's rows in a basis, and their sizes."""
    if owner.counts is None:
        return group_projections(owner.rows, basis, groups, seed, client=owner.index)
    rng = stream(seed, "groups", owner.index)
    parts = rng.multinomial(owner.counts.astype(np.int64), np.full(groups, 1 / groups))
    Z = _projections(owner, basis).astype(np.float64)
    return np.stack([(Z * part[:, None]).T @ Z for part in parts.T]), parts.sum(axis=0)


def own_bases(
    owners: Owners, V: np.ndarray, unwhiten: np.ndarray, prior: Prior
) -> tuple[tuple[Message, Message], np.ndarray]:
    """What owners are told of a basis, all the same and each its own; and (L, K, K) noise in it.

    An owner that observes a part r_j of a column, over that of all owners, sees a class at
    ``diag(r) unwhiten a``; least squares in its noise, ``diag(r v)``, give a. Where nothing is
    lacking that is the projection on V.

    Parameters
    ----------
    V, unwhiten : as in `joint_start`.
    """
    K, L = V.shape[1], len(owners.members)
    if prior.held is None:
        return ({"basis": V.astype(np.float32)}, {}), np.broadcast_to(np.eye(K), (L, K, K))
    bases, noise = np.zeros((L, *V.shape), np.float32), np.zeros((L, K, K))
    for one, wide, part in zip(bases, noise, prior.held, strict=True):
        values, E = np.linalg.eigh((V * part[:, None]).T @ unwhiten)
        wide[:] = (E / np.maximum(values, LOST)) @ E.T
        one[part > 0] = V[part > 0] @ wide
    return ({}, {"basis": bases}), noise


def kmeans_start(
    owners: Owners, V: np.ndarray, unwhiten: np.ndarray, size: int, prior: Prior, draw: int = 0
) -> ClassSums:
    """Sums over `size` clusters of the whitened projections.

    Parameters
    ----------
    V, unwhiten : as in `joint_start`.
    draw : number of the start.
    """
    (shared, own), _ = own_bases(owners, V, unwhiten, prior)

    def sketched(owner: Owner, told: Message) -> Message:
        return sketch(owner, told, stream(owners.seed, "sketch", owner.index, draw))

    wanted = {"centres": np.array(4 * size + 8, np.int32)}
    crowds = owners.ask(sketched, {**shared, **wanted}, own)
    points = np.concatenate([a["centres"] for a in crowds]).astype(np.float64)
    weights = np.concatenate([a["counts"] for a in crowds]).astype(np.float64)
    seed = int(stream(owners.seed, "graded k-means", draw).integers(2**31))
    centres = _clusters(points, weights, size, seed, starts=4)[0]
    told = {**shared, "centres": centres.astype(np.float32)}
    return prior.collect(owners.ask(nearest_sums, told, own))


def sketch(owner: Owner, told: Message, rng: np.random.Generator) -> Message:
    """Sum up an owner's projections as centres of at least CROWD rows each, (k, K), and counts."""
    Z, often = _projections(owner, told["basis"]), to_host(owner.often)
    if len(Z) > SKETCHED:
        chosen = rng.choice(len(Z), SKETCHED, replace=False)
        Z, often = Z[chosen], often[chosen]
    rows = often.sum()
    most = max(1, min(int(told["centres"]), int(rows) // (2 * CROWD)))
    centres, labels = _clusters(Z, often, most, int(rng.integers(2**31)), starts=1)
    counts = np.bincount(labels, often, minlength=len(centres))
    kept = counts >= CROWD
    if not kept.any():
        centres, counts, kept = (often @ Z / rows)[None], np.array([rows]), np.array([True])
    return {"centres": centres[kept].astype(np.float32), "counts": counts[kept].astype(np.int32)}


def nearest_sums(owner: Owner, told: Message) -> Message:
    """Sums of an owner's rows over the centres that are nearest to their projections."""
    Z, centres = _projections(owner, told["basis"]), told["centres"]
    labels = (Z @ centres.T - (centres**2).sum(axis=1) / 2).argmax(axis=1)
    weights = np.eye(len(centres), dtype=owner.precision)[labels]
    if owner.counts is not None:
        weights *= owner.counts[:, None]
    return weighted_sums(owner, like(weights, array_beside(owner.rows)))


def _projections(owner: Owner, basis: np.ndarray) -> np.ndarray:
    found: np.ndarray = to_host(owner.times(like(basis, array_beside(owner.rows))))
    return found


@cache
def _openmp() -> Any:
    """The threads of OpenMP, with which scikit-learn's k-means goes over points.

    Where another program keeps a core busy they wait for each other, twenty times as long as they
    work in small problems.
    """
    import sklearn.cluster  # noqa: F401  (it loads an OpenMP of its own)
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="openmp")


def _clusters(
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
