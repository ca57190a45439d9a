"""Sharpening ("unlearning", "dreaming") of a Hebbian operator.

Source: arXiv:2603.19902, eqs. (17), (53) to (56); theory/NOTES.md, "Unlearning iteration" and
"Closed form of dreaming".

The paper's iteration ``J <- J + eps_n (J - J^2)`` acts on eigenvalues alone and has a closed
form: one eigendecomposition of a thin factor replaces hundreds of N x N products.
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
