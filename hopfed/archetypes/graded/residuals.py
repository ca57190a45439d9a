"""What classes leave unexplained: residuals of the entries, and how far each row lies off.

The residual of an observed entry is ``x - E[x | row]``, with the classes weighed by the row's
responsibilities. If the columns are independent within classes, the standardised residuals are
white: the largest eigenvalue of their second moment stays at the edge of white noise.

Rows see what second moments cannot: a row that lies between two classes, or is unlike all of them,
has a log-likelihood that no row of a class would have.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hopfed._lib.arrays import like, namespace, to_host
from hopfed._lib.random import stream
from hopfed.archetypes.graded.lanczos import leading
from hopfed.archetypes.graded.mixture import ClassSums
from hopfed.archetypes.graded.owners import (
    Owner,
    Owners,
    ask_together,
    standardised,
    total,
)
from hopfed.archetypes.graded.rows_between import leaning
from hopfed.archetypes.graded.weaker_rows import weaker
from hopfed.federation.messages import Message
from hopfed.spectral.rows import held, seen_times, seen_transposed_times, times, transposed_times

STEPS = 20  # products for the largest eigenvalue; the rows and their replicas get equally many
PAIRS = 256  # pairs of classes worked on at a time
RARE = 10.0  # entries of its rarer kind below which a column is not scaled up to unit variance
UNSEEN = 2.0  # times the threshold of the spectrum up to which a fit may miss a class
SEVERAL = 10  # columns that depend on each other from which these may be classes
TINY = 1e-6  # of all rows, shared by a pair of classes that is left out


def residual_squares(owner: Owner, _: Message) -> Message:
    """Squares (N,) of an owner's residuals, added up by column.

    And products of the residuals of the levels of a variable, in the order of `Variables.pairs`.
    """
    R = owner.weights
    xp = namespace(R)
    T = like(owner.means.astype(np.float32), R)
    summed = transposed_times(owner.rows, R).T
    crossed = (T * summed).sum(axis=0)
    ones = xp.ones((R.shape[0], 1), dtype=xp.float32)
    seen = seen_transposed_times(owner.rows, ones)[:, 0]
    found = seen - 2 * crossed
    levels = () if owner.variables is None else owner.variables.pairs
    if levels:  # of two levels that differ, x_a x_b = -x_a - x_b - 1
        i, m = levels
        whole = transposed_times(owner.rows, ones)[:, 0]
        inside = -whole[i] - whole[m] - seen[i]
        inside = inside - (T[:, m] * summed[:, i] + T[:, i] * summed[:, m]).sum(axis=0)
    k, j = np.triu_indices(T.shape[0])
    shared = (R.T @ R)[k, j]
    kept = np.flatnonzero(to_host(shared) > TINY)
    for first in range(0, len(kept), PAIRS):
        a, b = k[kept[first : first + PAIRS]], j[kept[first : first + PAIRS]]
        weight = like(np.where(a == b, 1, 2).astype(np.float32), R)
        both = seen_transposed_times(owner.rows, R[:, a] * R[:, b] * weight)
        found = found + (T[a].T * T[b].T * both).sum(axis=1)
        if levels:
            mixed = (T[a][:, i] * T[b][:, m] + T[b][:, i] * T[a][:, m]).T / 2
            inside = inside + (mixed * both[i]).sum(axis=1)
    return {"squares": found, "inside": inside} if levels else {"squares": found}


def residual_product(owner: Owner, asked: Message) -> Message:
    """Product (N,) of an owner's residual moment with a vector, ``E^T (E w)``."""
    R = owner.weights
    T = like(owner.means.T.astype(np.float32), R)
    w = like(asked["vector"], R)[:, None]
    y = times(owner.rows, w) - (R * seen_times(owner.rows, T * w)).sum(axis=1)[:, None]
    back = (T * seen_transposed_times(owner.rows, R * y)).sum(axis=1)
    return {"product": transposed_times(owner.rows, y)[:, 0] - back}


def residual_edge(
    worlds: Sequence[Owners], wanted: int = 1
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Leading eigenvalues of the standardised residuals of several tables.

    Parameters
    ----------
    worlds : tables, settled at their classes.
    wanted : eigenpairs of each.

    Returns
    -------
    values (B, wanted), of the second moment over rows, vectors (B, wanted, N), and the mean squares
    (B, N) of the residuals.
    """
    nothing: list[Message] = [{}] * len(worlds)
    M = float(worlds[0].sizes.sum())
    asked = ask_together(worlds, residual_squares, nothing)
    squares = np.array([total(a, "squares") for a in asked]) / M
    variables = worlds[0].variables
    inside = None if variables is None else np.array([total(a, "inside") for a in asked])
    # A few entries that stand out of a column that is otherwise constant are no dependence.
    scale = 1 / np.sqrt(np.maximum(squares, min(4 * RARE / M, 0.5)))

    def product(w: np.ndarray) -> np.ndarray:
        shared: list[Message] = [{"vector": v} for v in (w * scale).astype(np.float32)]
        answers = ask_together(worlds, residual_product, shared)
        found = np.array([total(a, "product") for a in answers])
        if variables is not None and inside is not None:  # levels depend on each other as they must
            a, b = variables.pairs
            for line, held, v in zip(found, inside, w * scale, strict=True):
                np.subtract.at(line, a, held * v[b])
        return found * scale / M

    start = stream(worlds[0].seed, "residual").standard_normal(squares.shape)
    values, vectors = leading(product, start, STEPS, wanted)
    return values, vectors, squares


def as_little(ratio: float, columns: int, owners: Owners) -> bool:
    """Whether classes too weak to be told apart would leave no more than this.

    They leave a faint dependence of many columns. So does other faint structure: near the
    threshold nothing tells the one from the other.

    Parameters
    ----------
    ratio : of the largest eigenvalue of the residuals to the edge of noise.
    columns : number of those that depend on each other; 0 where the eigenvalue is that of noise.
    owners : of the rows.

    Examples
    --------
    >>> rows = Owners.of([np.ones((100, 50))], seed=0)
    >>> as_little(1.05, 40, rows), as_little(1.05, 2, rows), as_little(1.5, 40, rows)
    (True, False, False)
    """
    root = np.sqrt(owners.n_columns / owners.sizes.sum())
    # An outlier of UNSEEN times the threshold, over the edge.
    most = (1 + UNSEEN * root) * (1 + root / UNSEEN) / (1 + root) ** 2
    return bool(ratio <= most and not 0 < columns < SEVERAL)


def row_sums(owner: Owner, _: Message) -> Message:
    """Sums over an owner's rows of what tells how well each one belongs to its classes.

    The first is the log-likelihood of a row given its class, standardised by what the class and the
    row's gaps expect (once and squared). Then its surest responsibility, and the best cosine with a
    class (once and squared).
    """
    home, R = held(owner.rows), owner.weights
    xp = namespace(R)
    z = xp.astype((R * standardised(owner.rows, owner.means)).sum(axis=1), xp.float64)
    means = like(owner.means.T.astype(np.float32), home)
    size = like((owner.means**2).T.astype(np.float32), home)
    seen = seen_times(owner.rows, xp.ones_like(means[:, :1]))
    norms = xp.sqrt(xp.clip(seen * seen_times(owner.rows, size), 1e-6, None))
    cosine = xp.astype(xp.max(times(owner.rows, means) / norms, axis=1), xp.float64)
    sums = [z, z**2, xp.max(owner.posterior, axis=1), cosine, cosine**2]
    return {"sums": xp.stack([s.sum() for s in sums])}


def row_statistics(worlds: Sequence[Owners], sums: Sequence[ClassSums]) -> dict[str, np.ndarray]:
    """How rows lie in their classes, in several tables (B,) that are settled at them.

    Parameters
    ----------
    sums : of each table over its classes.

    Returns
    -------
    by name: `spread`, the standard deviation of the standardised likelihoods, about 1; `certainty`,
    the mean surest responsibility; `overlap spread`, the standard deviation of the best cosine;
    `leaning` and `weaker`, the gain in nats where rows may lie off their class, or be weaker.
    Means of likelihoods and overlaps are left out: they tell how closely the rows were fitted.
    """
    answers = ask_together(worlds, row_sums, [{}] * len(worlds))
    M = worlds[0].sizes.sum()
    s = np.array([total(a, "sums") for a in answers]).T / M
    return {
        "spread": np.sqrt(np.maximum(s[1] - s[0] ** 2, 0.0)),
        "certainty": s[2],
        "overlap spread": np.sqrt(np.maximum(s[4] - s[3] ** 2, 0.0)),
        "leaning": leaning(worlds, sums),
        "weaker": weaker(worlds, sums),
    }
