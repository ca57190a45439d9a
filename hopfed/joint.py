"""Joint diagonalisation: archetypes from the differences between clients or groups (A7).

In the basis V each group g is a K x K matrix, ``A_g = V^T C_g V - s2 I``, about
``sum_mu w_mu^g a_mu a_mu^T``, and all of them are diagonalised by the same vectors. Whitened by
their mean, random centred combinations ``sum_g c_g A_g`` have those vectors for eigenvectors
(Jennrich); lifted by V and cut to signs they are archetypes. What is accepted is deflated exactly
and the rest tried again. Only linear independence is needed, and no search: counting noise between
groups is signal enough.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hopfed import kernels
from hopfed.errors import ArgumentError
from hopfed.kernels import PackedBits
from hopfed.rng import stream
from hopfed.select import accepted, merge
from hopfed.subspace import Subspace


@dataclass(frozen=True)
class JointDiagonalization:
    """Settings of the joint route.

    Attributes
    ----------
    groups : random groups that all clients together form inside their own data.
    patience : passes without a new archetype before giving up.
    """

    groups: int = 10
    patience: int = 25

    def __post_init__(self) -> None:
        if self.groups < 2:
            raise ArgumentError("groups", "at least 2", self.groups)


def group_projections(
    rows: PackedBits, vectors: np.ndarray, groups: int, seed: int, client: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """What a client answers to the basis V: the K x K sums of its random groups.

    Parameters
    ----------
    rows : the client's examples, (M, N).
    vectors : V, (N, K).

    Returns
    -------
    sums (groups, K, K) of ``V^T eta eta^T V`` and counts (groups,).
    """
    label = stream(seed, "groups", client).permutation(rows.shape[0]) % groups
    X = kernels.matmat(rows, vectors.astype(np.float32))
    K = vectors.shape[1]
    sums = np.empty((groups, K, K))
    for g in range(groups):
        part = X[label == g]
        sums[g] = part.T @ part
    return sums, np.bincount(label, minlength=groups).astype(np.float64)


def joint_candidates(
    space: Subspace,
    sums: np.ndarray,
    counts: np.ndarray,
    variance: float,
    config: JointDiagonalization,
    seed: int,
) -> np.ndarray:
    """Archetype candidates (C, N) int8 from group projections; see the module's text.

    Parameters
    ----------
    sums, counts : (G, K, K) and (G,), as from `group_projections`, over all clients' groups.
    variance : bulk variance s2.
    """
    found = np.zeros((0, space.n_sites), dtype=np.int8)
    if space.dim == 0 or (counts > 0).sum() < 2:
        return found
    sums, counts = sums[counts > 0], counts[counts > 0]
    A = sums / counts[:, None, None] - variance * np.eye(space.dim)
    whiten, lift = _whitening(np.tensordot(counts / counts.sum(), A, axes=1))
    Aw = whiten.T @ A @ whiten
    rng = stream(seed, "joint")
    rest, failures = np.eye(len(whiten.T)), 0
    while len(found) < space.dim and failures < config.patience:
        c = rng.standard_normal(len(A)) * np.sqrt(counts)
        c -= counts * c.sum() / counts.sum()
        U = np.linalg.eigh(rest.T @ np.tensordot(c, Aw, axes=1) @ rest)[1]
        lifted = space.vectors @ (lift @ (rest @ U))
        states = space.polish(np.where(lifted.T >= 0, 1, -1))
        before = len(found)
        found = merge(space, found, states[accepted(space, states)])
        if len(found) == before:
            failures += 1
            continue
        failures = 0
        rest = _complement(space.coefficients(found).astype(np.float64) @ whiten)
    return found


def _whitening(mean: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """``W`` with ``W^T mean W = 1`` and ``B`` with ``B B^T = mean``, on its positive part."""
    values, E = np.linalg.eigh(mean)
    keep = values > 1e-3 * values[-1] / len(values)
    root = np.sqrt(values[keep])
    return E[:, keep] / root, E[:, keep] * root


def _complement(directions: np.ndarray) -> np.ndarray:
    """Orthonormal basis of what is orthogonal to the rows of `directions`."""
    count, dim = directions.shape
    if count >= dim:
        return np.zeros((dim, 0))
    return np.linalg.qr(directions.T, mode="complete")[0][:, count:]
