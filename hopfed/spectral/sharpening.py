"""Sharpening ("unlearning", "dreaming") of a Hebbian operator.

Source: arXiv:2603.19902, eqs. (17), (53) to (56); theory/NOTES.md, "Unlearning iteration" and
"Closed form of dreaming".

The paper's iteration ``J <- J + eps_n (J - J^2)`` acts on eigenvalues alone and has a closed
form: one eigendecomposition of a thin factor replaces hundreds of N x N products. The iteration
stays as the reference.
"""

from __future__ import annotations

import numpy as np

from hopfed._lib.arrays import Array, namespace
from hopfed.errors import ArgumentError


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


def iterate(J: Array, *, eps: float = 0.01, steps: int = 200) -> Array:
    """The paper's iteration ``J <- J + eps_n (J - J^2)``, ``eps_n = eps / (1 + eps n)`` (17).

    Source: arXiv:2603.19902, eqs. (17), (54); theory/NOTES.md, "Unlearning iteration".

    Dense, O(steps N^3): the reference that `dream` is held against. ``t = eps steps``. J (N, N) is
    symmetric, and `eps`, the first step, above 0 and below what the trace of J bounds.

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
