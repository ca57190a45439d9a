"""Edge of the noise of owners who hold different columns.

A product of two columns is seen by the owners who hold both. Each entry of the second moment is
multiplied by what makes its signal that of columns missing at random, `f_gh = h_g h_h / h_gh`, with
`h_g` the share of the rows that have a column of kind g, and `h_gh` that of those that have both;
the diagonal stays what it is. Classes keep their rank then, and noise is no longer white: with `q`
columns a row, `z g = 1` of a resolvent becomes

    1 / g_g = z - (1 - f_gg) - sum_l w_l s_lg [(1 - f D_l)^-1 f]_gg,   D_l = diag(q_g s_lg g_g),

`s_lg = 1 / h_g` where owner l holds kind g and 0 elsewhere. The bulk ends where the smallest
solution ceases to exist; one kind of column gives `(1 + sqrt q)^2`.

Source: derived in theory/NOTES.md, "Counting in whitened coordinates".
"""

from __future__ import annotations

import numpy as np

from . import _check

_HALVINGS = 30  # of the bracket of the edge
_STEPS = 400  # Newton's
_SETTLED = 1e-12


def factors(held: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """(G, G) what entries are multiplied by; 0 where no owner holds both columns.

    Parameters
    ----------
    held : (L, G) whether an owner holds the columns of a kind.
    shares : (L,) of the rows, of each owner.

    Examples
    --------
    >>> factors(np.array([[1, 1, 0], [1, 0, 1]]), np.array([0.5, 0.5])).tolist()
    [[1.0, 1.0, 1.0], [1.0, 0.5, 0.0], [1.0, 0.0, 0.5]]
    """
    there = np.asarray(held, np.float64)
    each = shares @ there
    both = there.T @ (shares[:, None] * there)
    found: np.ndarray = np.divide(
        np.outer(each, each), both, out=np.zeros_like(both), where=both > 0
    )
    return found


def upper_edge(held: np.ndarray, shares: np.ndarray, ratios: np.ndarray) -> float:
    """Upper edge of the noise, every column of variance 1.

    Parameters
    ----------
    held, shares : as in `factors`; every kind is held by some owner.
    ratios : (G,) columns of each kind over the number of all rows.

    Examples
    --------
    >>> round(upper_edge(np.ones((1, 1)), np.ones(1), np.array([0.25])), 6)
    2.25
    >>> thirds = 1 - np.eye(3)  # each of three owners lacks another third
    >>> round(upper_edge(thirds, np.full(3, 1 / 3), np.full(3, 1 / 12)), 3)
    2.283
    """
    q = _check.positive("ratios", ratios)
    there = np.asarray(held, np.float64)
    f, each = factors(there, shares), shares @ there
    spread = there / each  # (L, G)
    low = 1.0
    high = 4 * (1 + np.sqrt(q.sum() * max(f.max(), 1.0))) ** 2
    while not _solvable(f, shares, spread, q, high):
        high *= 2
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if _solvable(f, shares, spread, q, middle):
            high = middle
        else:
            low = middle
    return float(high)


def _solvable(
    f: np.ndarray, shares: np.ndarray, spread: np.ndarray, q: np.ndarray, z: float
) -> bool:
    """Whether the equations have a smallest solution at a real z.

    They read ``g = F(g)`` with F increasing and convex, so Newton's steps from 0 rise to the
    solution where there is one, and pass a point of no contraction where there is none.
    """
    eye, g = np.eye(len(q)), np.zeros(len(q))
    for _ in range(_STEPS):
        inner = eye - f * (q * spread * g)[:, None, :]  # (L, G, G)
        try:
            reply = np.linalg.solve(inner, np.broadcast_to(f, inner.shape))
        except np.linalg.LinAlgError:
            return False
        below = z - (1 - np.diag(f)) - np.einsum("l,lg,lgg->g", shares, spread, reply)
        if below.min() <= 0 or reply.min() < 0:
            return False
        image = 1 / below
        slope = np.einsum("l,lg,lgh,lhg,lh->gh", shares, spread, reply, reply, spread) * q
        jacobian = image[:, None] ** 2 * slope
        try:
            both = np.linalg.solve(eye - jacobian, np.stack([image - g, np.ones_like(g)], axis=1))
        except np.linalg.LinAlgError:
            return False
        if both[:, 1].min() < 1:
            return False
        g = g + both[:, 0]
        if np.abs(both[:, 0]).max() < _SETTLED * g.max():
            break
    return True
