"""Sharpening ("unlearning", "dreaming") of a Hebbian operator (A3; 17, 53-56).

The paper's iteration ``J <- J + eps_n (J - J^2)`` acts on eigenvalues alone and has a closed
form, so one eigendecomposition of a thin factor replaces hundreds of N x N products. The
iteration stays as the reference.
"""

from __future__ import annotations

import numpy as np

from hopfed.arrays import Array, namespace
from hopfed.errors import ArgumentError


def dream(eigenvalues: Array, t: float) -> Array:
    """Sharpened eigenvalues ``(1 + t) lam / (1 + t lam)`` after dreaming time `t`.

    ``t = 0`` is Hebb's rule; ``t -> inf`` the projector on the range of J (t = inf is allowed).
    The kernel ``(1 + t) J (I + t J)^-1`` of Fachechi, Agliari and Barra (2019).

    Examples
    --------
    >>> dream(np.array([0.0, 0.5, 1.0]), 2.0)
    array([0.  , 0.75, 1.  ])
    """
    if not t >= 0:
        raise ArgumentError("t", "a dreaming time, at least 0", t)
    xp = namespace(eigenvalues)
    if np.isinf(t):
        return xp.astype(eigenvalues > 0, eigenvalues.dtype)
    return (1 + t) * eigenvalues / (1 + t * eigenvalues)


def largest_step(J: Array) -> float:
    """Upper bound on the step eps of the iteration (A3), from the trace of J (N, N)."""
    n = J.shape[0]
    return 1.0 / ((1.0 + float(np.sqrt(float(J.trace()) / n))) ** 2 - 1.0)


def iterate(J: Array, *, eps: float = 0.01, steps: int = 200) -> Array:
    """The paper's iteration ``J <- J + eps_n (J - J^2)``, ``eps_n = eps / (1 + eps n)`` (17).

    Dense, O(steps N^3): the reference that `dream` is held against. ``t = eps steps``.
    """
    if not 0 < eps < largest_step(J):
        raise ArgumentError("eps", f"in (0, {largest_step(J):.4g}) for this operator", eps)
    for n in range(steps):
        J = J + (eps / (1 + eps * n)) * (J - J @ J)
    return J


def without_diagonal(J: Array) -> Array:
    """Symmetrise and remove the diagonal (56); shifts every eigenvalue of +-1 data's C by -1."""
    xp = namespace(J)
    J = (J + J.T) / 2
    return J * (1 - xp.eye(J.shape[0], dtype=J.dtype))


def projector(vectors: Array) -> Array:
    """Dense orthogonal projector ``V V^T`` on the span of orthonormal columns (N, k) (15)."""
    return vectors @ vectors.T
