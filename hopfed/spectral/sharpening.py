"""Sharpening ("unlearning", "dreaming") of a Hebbian operator.

Source: arXiv:2603.19902, eqs. (17), (53) to (56); theory/NOTES.md, "Unlearning iteration" and
"Closed form of dreaming".

The paper's iteration ``J <- J + eps_n (J - J^2)`` acts on eigenvalues alone and has a closed
form: one eigendecomposition of a thin factor, or one solve where only products with the sharpened
operator are wanted, replaces hundreds of N x N products. The iteration stays as the reference.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

from hopfed import kernels
from hopfed._lib.arrays import Array, blas_threads, like, namespace
from hopfed.errors import ArgumentError
from hopfed.kernels import Rows

SMALL = 1_500  # side of a matrix below which a second thread costs more than it helps


def dream(eigenvalues: Array, t: float) -> Array:
    """Sharpened eigenvalues ``(1 + t) lam / (1 + t lam)`` after dreaming time `t`.

    ``t = 0`` is Hebb's rule; ``t -> inf`` the projector on the range of J (t = inf is allowed).
    The kernel ``(1 + t) J (I + t J)^-1`` of Fachechi, Agliari and Barra (2019).

    >>> dream(np.array([0.0, 0.5, 1.0]), 2.0)
    array([0.  , 0.75, 1.  ])
    """
    if not t >= 0:
        raise ArgumentError("t", "a dreaming time, at least 0", t)
    xp = namespace(eigenvalues)
    if np.isinf(t):
        return xp.astype(eigenvalues > 0, eigenvalues.dtype)
    return (1 + t) * eigenvalues / (1 + t * eigenvalues)


def sharpened_product(p: Rows, X: Array, t: float, weights: Array | None = None) -> Array:
    """Return ``J(t) X`` for ``J(t) = (1 + t) J (1 + t J)^-1``, without the operator J.

    Source: theory/NOTES.md, "Closed form of dreaming".

    With R the rows of ``J = R^T R``, ``J(t) X = (1 + t) R^T (1 + t R R^T)^-1 R X``: one Cholesky
    decomposition of the smaller side instead of all its eigenvectors.

    Parameters
    ----------
    p : (M, N) packed examples; ``J = sum_m w_m eta_m eta_m^T / (N sum_m w_m)``.
    X : (N, k) of the library and on the device of `p`.
    t : dreaming time, finite; the limit is the projector on the eigenvectors.
    weights : (M,), at least 0; all equal without.

    >>> p = kernels.pack(np.array([[1, 1, 1, 1], [1, 1, -1, -1]]))  # orthogonal: J = 1/2 or 0
    >>> sharpened_product(p, np.ones((4, 1)), 2.0).ravel().tolist()
    [0.75, 0.75, 0.75, 0.75]
    """
    if not 0 <= t < np.inf:
        raise ArgumentError("t", "a finite dreaming time, at least 0", t)
    m, n = p.shape
    xp = namespace(X)
    X = xp.astype(X, xp.float64, copy=False)
    weights = like(np.ones(m), X) if weights is None else weights
    weights = weights / (n * float(weights.sum()))
    if m > n:
        J = xp.astype(kernels.second_moment(p, weights), xp.float64)
        return _solve(J, t, (1 + t) * (J @ X))
    root = xp.sqrt(weights)[:, None]
    G = xp.astype(kernels.gram(p), xp.float64) * root * root.T
    return (1 + t) * kernels.rmatmat(p, root * _solve(G, t, root * kernels.matmat(p, X)))


def _solve(A: Array, t: float, B: Array) -> Array:
    """Return ``(1 + t A)^-1 B`` for A symmetric and not negative."""
    xp = namespace(A, B)
    A = t * A + like(np.eye(A.shape[0]), A)
    if isinstance(A, np.ndarray):
        with blas_threads(1 if len(A) < SMALL else None):
            return scipy.linalg.solve(A, B, assume_a="pos", overwrite_a=True, check_finite=False)
    return xp.linalg.solve(A, B)


def iterate(J: Array, *, eps: float = 0.01, steps: int = 200) -> Array:
    """The paper's iteration ``J <- J + eps_n (J - J^2)``, ``eps_n = eps / (1 + eps n)`` (17).

    Source: arXiv:2603.19902, eqs. (17), (54); theory/NOTES.md, "Unlearning iteration".

    Dense, O(steps N^3): the reference that `dream` is held against. ``t = eps steps``.

    Parameters
    ----------
    J : (N, N), symmetric.
    eps : first step, above 0 and below what the trace of J bounds.
    steps : how many.

    >>> J = np.diag([0.8, 0.1])
    >>> np.diag(iterate(J, eps=0.01, steps=200)).round(3), dream(np.array([0.8, 0.1]), 2.0).round(3)
    (array([0.923, 0.25 ]), array([0.923, 0.25 ]))
    """
    most = 1.0 / ((1.0 + float(np.sqrt(float(J.trace()) / J.shape[0]))) ** 2 - 1.0)
    if not 0 < eps < most:
        raise ArgumentError("eps", f"in (0, {most:.4g}) for this operator", eps)
    for n in range(steps):
        J = J + (eps / (1 + eps * n)) * (J - J @ J)
    return J
