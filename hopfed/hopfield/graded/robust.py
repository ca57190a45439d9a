"""Means over owners that a few of them cannot move far: trimmed, entry by entry.

What owners say is brought to the same scale first, so that it can be compared: sums are divided by
the rows that they are over. Then the highest and the lowest values of every entry are left out, as
many at either end as clients may lie, and the others are averaged by their rows. Nobody weighs more
than a multiple of the median (`hopfed.hopfield.liars.claims.median_bound`). A liar who stays among
the others moves an entry by less than these differ.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import xlogy

from hopfed.archetypes.mixture import ClassSums, Mixture, Prior
from hopfed.federation.messages import Message
from hopfed.hopfield.liars.claims import suspects


def clients_left_out(liars: float, heard: int) -> int:
    """Clients of so many `heard` that are left out at either end; never all of them."""
    return min(suspects(liars, heard), max((heard - 1) // 2, 0))


def trimmed(values: np.ndarray, weights: np.ndarray, cut: int) -> np.ndarray:
    """Weighted means over owners without the `cut` highest and lowest of every entry.

    Owners of weight 0 have nothing to say, and do not count among those left out. Where so few are
    left that all would go, the middle one or two stay.
    """
    w = np.asarray(weights, dtype=np.float64)
    w = np.broadcast_to(w.reshape(*w.shape, *([1] * (values.ndim - w.ndim))), values.shape)
    order = np.argsort(np.where(w > 0, values, np.inf), axis=0, kind="stable")
    x, w = (np.take_along_axis(a, order, axis=0) for a in (values, w))
    heard = (w > 0).sum(axis=0)
    gone = np.minimum(cut, np.maximum(heard - 1, 0) // 2)
    place = np.arange(len(x)).reshape(-1, *([1] * (values.ndim - 1)))
    w = np.where((place >= gone) & (place < heard - gone), w, 0.0)
    total = w.sum(axis=0)
    found: np.ndarray = np.where(w > 0, x * w, 0.0).sum(axis=0) / np.where(total > 0, total, 1.0)
    return found


def capped(weights: np.ndarray, claim: float) -> np.ndarray:
    """Weights (L, ...), each at most `claim` times the lower median of those above 0."""
    w = np.sort(np.where(weights > 0, weights, np.inf), axis=0)
    heard = (weights > 0).sum(axis=0)
    at = np.maximum(heard - 1, 0) // 2
    middle = np.take_along_axis(w, at[None], axis=0)[0]
    return np.minimum(weights, claim * np.where(np.isfinite(middle), middle, 0.0))


def pooled_sums(
    answers: Sequence[Message], prior: Prior, cut: int, claim: float, asked: Mixture | None = None
) -> ClassSums:
    """Sums of classes over owners, `cut` of whom may say what they like.

    Of every class and column the share of the rows that have it, and the mean of the entries, are
    trimmed over the owners, and multiplied by the rows of the class: of each owner what it says, up
    to `claim` medians. With a cut of 0 the answers are added up as they are.
    """
    if cut == 0:
        return prior.collect(list(answers))
    counts, signed, seen = (
        np.array([a[name] for a in answers], np.float64) for name in ("counts", "signed", "seen")
    )
    rows = capped(counts * prior.influence[:, None], claim)
    part = trimmed(seen / np.maximum(counts, 1e-9)[:, :, None], rows, cut)
    entries = rows[:, :, None] * np.clip(seen / np.maximum(counts, 1e-9)[:, :, None], 0.0, 1.0)
    means = trimmed(signed / np.maximum(seen, 1e-9), entries, cut)
    whole = rows.sum(axis=0)[:, None] * np.clip(part, 0.0, 1.0)
    sums = ClassSums(rows, whole * np.clip(means, -1.0, 1.0), whole)
    if asked is None:
        return sums
    # What the likelihood holds beyond the entries and classes: how unsure rows are of their class.
    said = np.array([float(a["log_likelihood"]) for a in answers])
    own = [
        float(_spent(asked.means, shares, n, x, s).sum())
        for shares, n, x, s in zip(asked.shares, counts, signed, seen, strict=True)
    ]
    each = counts.sum(axis=1)
    unsure = trimmed((said - own) / np.maximum(each, 1.0), rows.sum(axis=1), cut)
    spent = _spent(asked.means, asked.shares.mean(axis=0), rows.sum(axis=0), sums.signed, sums.seen)
    named = xlogy(rows, np.maximum(asked.shares, 1e-300)).sum()
    named -= xlogy(rows.sum(axis=0), np.maximum(asked.shares.mean(axis=0), 1e-300)).sum()
    likelihood = float(spent.sum() + named + rows.sum() * unsure)
    return ClassSums(sums.counts, sums.signed, sums.seen, likelihood)


def pooled_products(products: np.ndarray, rows: np.ndarray, cut: int) -> np.ndarray:
    """Products with residuals (L, K, N) of owners that have so many rows (L, K) of each class."""
    each = products / np.maximum(rows, 1e-9)[:, :, None]
    return np.asarray(trimmed(each, rows, cut) * rows.sum(axis=0)[:, None])


def _spent(
    means: np.ndarray, shares: np.ndarray, counts: np.ndarray, signed: np.ndarray, seen: np.ndarray
) -> np.ndarray:
    """(K,) log-likelihood of the entries of each class, and of so many rows being of it."""
    p = np.clip((1 + means) / 2, 5e-7, 1 - 5e-7)
    plus, minus = np.maximum(seen + signed, 0.0) / 2, np.maximum(seen - signed, 0.0) / 2
    found: np.ndarray = (xlogy(plus, p) + xlogy(minus, 1 - p)).sum(axis=1)
    return found + xlogy(counts, np.maximum(shares, 1e-300))
