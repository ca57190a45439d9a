"""Joint diagonalisation: archetypes from the differences between clients or groups.

In the basis V each group g is a K x K matrix, ``A_g = V^T C_g V - s2 I``, about
``sum_mu w_mu^g a_mu a_mu^T``. Whitened by their mean, the archetypes' coefficients are orthogonal
and diagonalise every A_g: only linear independence is needed, and no search. Counting noise
between random groups of one client is difference enough. Close to the load at which eigenvalues
sink below the threshold some basis vectors are mixtures: they come apart once all candidates are
fitted to the operator together (`hopfed.archetypes.subspace.Subspace.candidates`).

Source: theory/NOTES.md, "Joint diagonalisation".
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from hopfed._lib.arrays import Array, like, namespace, to_host
from hopfed._lib.random import stream
from hopfed.archetypes.subspace import Subspace, joined
from hopfed.kernels import Rows
from hopfed.spectral.reread_rows import Sums
from hopfed.spectral.rows import times

DEALT = 1 << 20  # examples that are dealt to groups at once
STEPS, STARTS = 100, 4  # Newton steps from each start, and starts; at most
LONGEST = 0.3  # angle of a Newton step, per pair: far from the solution the first order is rough


def group_labels(
    n_rows: int, groups: int, seed: int, client: int, start: int, stop: int
) -> np.ndarray:
    """Random group of each of the client's examples; of `DEALT` of them, groups differ by one."""
    found = [np.empty(0, np.int64)]
    for first in range(start // DEALT * DEALT, stop, DEALT):
        draws = stream(seed, "groups", client, *([first] if first else []))
        label = draws.permutation(min(DEALT, n_rows - first)) % groups
        found.append(label[max(start - first, 0) : stop - first])
    return np.concatenate(found)


def group_projections(
    rows: Rows, vectors: Array, groups: int, seed: int, client: int = 0, precision: Any = np.float32
) -> tuple[np.ndarray, np.ndarray]:
    """What a client answers to the basis V: the K x K sums of its random groups, where rows are."""
    V = namespace(vectors).astype(vectors, precision)
    deal = partial(group_labels, rows.shape[0], groups, seed, client)
    asked = partial(_projections, V=V, groups=groups, deal=deal)
    sums, counts = rows.total(asked, placed=True)
    return sums, counts.astype(np.float64)


def _projections(
    part: Rows, before: int, V: Array, groups: int, deal: Callable[[int, int], np.ndarray]
) -> Sums:
    """K x K sums and sizes of the groups, of one block of rows that has so many `before` it."""
    X = times(part, V)
    mine = deal(before, before + len(X))
    order = like(np.argsort(mine, kind="stable"), X)  # group by group, rows as they follow
    sizes = np.bincount(mine, minlength=groups)
    pieces = [X[order[a:b]] for a, b in pairwise([0, *np.cumsum(sizes).tolist()])]
    sums = namespace(X).stack([piece.T @ piece for piece in pieces])
    return Sums((namespace(X).astype(sums, namespace(X).float64), sizes))


def joint_candidates(
    space: Subspace, sums: Array, counts: np.ndarray, variance: float, seed: int
) -> np.ndarray:
    """Archetype candidates (C, N) int8 from group projections; see the module's text.

    All is done where the sums (G, K, K) are.
    """
    found = np.zeros((0, space.n_sites), dtype=np.int8)
    if space.dim == 0 or (counts > 0).sum() < 2:
        return found
    xp, some = namespace(sums), np.flatnonzero(counts > 0)
    sums, n = sums[some], like(counts[some], sums)
    A = sums / n[:, None, None] - variance * xp.eye(space.dim)
    # W with ``W^T mean W = 1`` and B with ``B B^T = mean``, on its positive part.
    values, E = xp.linalg.eigh(xp.tensordot(n / xp.sum(n), A, axes=1))
    keep = values > xp.maximum(1e-3 * values[-1] / values.shape[0], 0 * values[-1])
    root = xp.sqrt(values[keep])
    whiten, lift = E[:, keep] / root, E[:, keep] * root
    dim = whiten.shape[1]
    # Every group's departure from the mean, times the root of its examples: equal noise.
    A = (whiten.T @ A @ whiten - xp.eye(dim)) * xp.sqrt(n)[:, None, None]
    rng = stream(seed, "joint")
    rest = xp.eye(dim)
    for _ in range(STARTS):  # each works on what the last one left; one that finds none is the last
        left = xp.astype(rest.T @ A @ rest, xp.float32)  # fine enough, and twice as fast
        U = rest @ joint_eigenbasis(left, rng, STEPS)
        fresh = space.candidates(lift @ U, found)
        before = len(found)
        found = joined(space, found, fresh) if len(fresh) else found
        if len(found) == before or dim - len(found) < 2:
            break
        directions = space.coefficients(found).astype(np.float64) @ to_host(whiten)
        rest = np.linalg.qr(directions.T, mode="complete")[0][:, len(found) :]
        rest = like(rest, sums)
    return found


def joint_eigenbasis(A: Array, rng: np.random.Generator, steps: int) -> Array:
    """Orthogonal U (K, K) for which all ``U^T A_g U`` are as diagonal as they get."""
    xp = namespace(A)
    draws = like(rng.standard_normal(len(A)), A)
    mixture = xp.tensordot(draws, xp.astype(A, xp.float64), axes=1)
    U = xp.astype(xp.linalg.eigh(mixture)[1], A.dtype)
    D = U.T @ A @ U
    one = xp.eye(U.shape[0], dtype=A.dtype)
    finest = np.finfo(np.float64 if A.dtype == xp.float64 else np.float32)
    last = np.inf
    for _ in range(steps):
        d = xp.linalg.diagonal(D)
        off = xp.astype(xp.sum(D**2) - xp.sum(d**2), xp.float64)
        if bool(off > last * (1 - 1e-3)):
            break
        last = off
        # sum_g (d_gi - d_gj) D_gij and sum_g (d_gi - d_gj)^2 for all pairs, from K x K products.
        above = xp.einsum("gi,gij->ij", d, D)
        square = xp.sum(d**2, axis=0)
        below = square[:, None] + square[None, :] - 2 * d.T @ d
        below = xp.maximum(below, 4 * float(finest.eps) * xp.max(square) + float(finest.tiny))
        X = xp.clip((above - above.T) / below, -LONGEST, LONGEST) / 2
        turn = xp.linalg.solve(one + X, one - X)  # Cayley: a rotation, 1 - 2 X to first order
        U, D = U @ turn, turn.T @ D @ turn
    return U
