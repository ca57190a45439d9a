"""Likelihoods of rows at points beside their classes, asked only of classes that rows may be of.

Where rows have many columns nearly all are sure of one class, and what the others would say is
multiplied by nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from hopfed._lib.arrays import Array, like, namespace, to_host
from hopfed.archetypes.graded.owners.asking import Owner
from hopfed.kernels.mixtures import mixed
from hopfed.spectral.rows import Bits, seen_times, times

HIGHEST = 60.0  # log-likelihood ratio beyond which a row has said enough
NIL = 1e-36  # responsibility that counts for nothing even then


def mixed_ratios(
    owner: Owner,
    by_sign: np.ndarray,
    by_seen: np.ndarray,
    constant: np.ndarray,
    classes: Iterable[int] | None = None,
) -> Array:
    """Likelihood (M, S) of an owner's rows at S points, over that of the classes.

    It is ``sum_k R_k L_k``, R being the responsibilities and ``log L_k`` what is given for class k:
    a sum over the entries of a row, of their signs and of that they are seen, and a constant.

    Parameters
    ----------
    by_sign, by_seen : (S, K, N) what an entry adds, times its sign and whatever its sign is.
    constant : (S, K).
    classes : over which the sum runs; all when None.
    """
    R, rows = owner.posterior, owner.rows
    if owner.numbers is not None:
        some = slice(None) if classes is None else list(classes)
        parts, S, N = R[:, some].T, len(constant), rows.shape[1]
        told = (x[:, some].reshape(-1, N) for x in (by_sign, by_seen))
        logs, even = owner.numbers.logs(*told)
        shifts = constant[:, some] + even.reshape(S, -1)
        return mixed(logs.reshape(S, *parts.shape), shifts, parts, HIGHEST).T
    xp, M = namespace(R), owner.rows.shape[0]
    found = xp.zeros((M, len(constant)), dtype=xp.float64)
    for k in range(R.shape[1]) if classes is None else classes:
        which = np.flatnonzero(to_host(R[:, k]) > NIL)
        if not len(which):
            continue
        index = like(which, R)
        mine = rows if len(which) == M else rows[which if isinstance(rows, Bits) else index]
        told = (like(x[:, k].T.astype(np.float32), R) for x in (by_sign, by_seen))
        logs = times(mine, next(told)) + seen_times(mine, next(told))
        logs = xp.astype(logs, xp.float64) + like(constant[:, k], R)
        found[index] += R[index, k][:, None] * xp.exp(logs.clip(None, HIGHEST))
    return found
