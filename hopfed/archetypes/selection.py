"""From candidates to archetypes: acceptance by theory, duplicates, and the exposure fit.

Source: theory/NOTES.md, "Score and acceptance", "Duplicates" and "Exposure fit".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from hopfed.archetypes.subspace import Subspace
from hopfed.theory.resolution import expected_overlap

DUPLICATE = 0.7  # overlap, plain and whitened, from which two candidates are one archetype
SLACK = 0.5  # acceptance: score above prediction minus SLACK / sqrt(N); archetypes miss it by 0.13
SHARE = 0.5  # of its own direction in the operator that a kept archetype must explain
SAME = 0.9  # overlap from which two patterns are one: closer than archetypes get
SPREADS = 4.0  # standard deviations below the overlap to expect of two estimates of one pattern


def accepted(space: Subspace, patterns: np.ndarray, slack: float = SLACK) -> np.ndarray:
    """Which patterns score as theory says that an archetype would: bool (C,)."""
    scores, predicted = space.judged(patterns)
    found: np.ndarray = scores >= predicted - slack / np.sqrt(space.n_sites)
    return found


def merge(
    space: Subspace, kept: np.ndarray, new: np.ndarray, duplicate: float = DUPLICATE
) -> np.ndarray:
    """Add `new` patterns to those kept, best score first, without duplicates of either sign.

    Duplicates are alike site by site and in the whitened metric too. There archetypes are
    orthogonal however much they resemble each other, so a fixed overlap does not throw away
    genuine ones that are alike; and near the threshold, where the whitened metric is noisy, the
    plain overlap keeps apart what differs. With `duplicate` = 1 only exact copies go.
    """
    return joined(space, kept, rested(space, new), duplicate) if len(new) else kept


def rested(space: Subspace, patterns: np.ndarray) -> np.ndarray:
    """The states to which patterns fall, best pattern first."""
    return space.polish(patterns[np.argsort(-space.scores(patterns), kind="stable")])


def joined(
    space: Subspace, kept: np.ndarray, fresh: np.ndarray, duplicate: float = DUPLICATE
) -> np.ndarray:
    """Do what `merge` does with patterns that are at rest, and sorted."""
    both = distinct(np.vstack([kept, fresh]))
    overlap = _likeness(space, both)
    duplicate = min(duplicate, 1 - 1e-9)
    chosen: list[int] = list(range(len(kept)))
    for i in range(len(kept), len(both)):
        if not (overlap[i, chosen] > duplicate).any():
            chosen.append(i)
    return both[chosen]


def distinct(patterns: np.ndarray) -> np.ndarray:
    """Patterns (C, N) without repetitions, in the order in which they come first."""
    bits, first = np.packbits(patterns > 0, axis=1), dict[bytes, int]()
    for i, row in enumerate(bits):
        first.setdefault(row.tobytes(), i)
    return patterns[list(first.values())]


def _likeness(space: Subspace, patterns: np.ndarray) -> np.ndarray:
    """Overlaps (C, C) of patterns, plain or whitened, whichever is smaller."""
    b = space.whitened(patterns)
    b /= np.maximum(np.linalg.norm(b, axis=1, keepdims=True), 1e-300)
    x = patterns.astype(np.float32)
    found: np.ndarray = np.minimum(np.abs(b @ b.T), np.abs(x @ x.T) / space.n_sites)
    return found


def _one(a: np.ndarray, b: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Whether patterns (..., N) are as alike as two estimates of one archetype would be."""
    N = a.shape[-1]
    overlap = np.abs((a.astype(np.float64) * b).sum(axis=-1)) / N
    found: np.ndarray = overlap >= np.minimum(
        SAME, expected - SPREADS * np.sqrt((1 - expected**2) / N)
    )
    return found


def match_known(
    space: Subspace, known: np.ndarray, sure: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Match known patterns against this operator.

    A pattern that is surer than the operator's own estimate of it stays as it is. Any other is
    replaced by that estimate, its rest state in the signal subspace. It counts as the same
    archetype if both are as alike as two estimates of one are expected to be; and so do two
    patterns with one rest state.

    Parameters
    ----------
    known : (C, N).
    sure : (C,) overlap of each with its archetype, as expected of what it was read off.

    Returns
    -------
    candidates (D, N), and for each known pattern its row there; -1 where the operator does not
    show it.
    """
    rows = np.full(len(known), -1)
    if len(known) == 0 or space.dim == 0:
        return np.zeros((0, space.n_sites), np.int8), rows
    falls = space.polish(known)
    promise = expected_overlap(space.predicted_scores(falls))
    stays = (sure >= promise) & accepted(space, known)
    candidates = np.where(stays[:, None], known, falls)
    shown = accepted(space, candidates) & (stays | _one(known, falls, sure * promise))
    alike = _likeness(space, falls) > DUPLICATE
    chosen: list[int] = []
    for i in np.argsort(-sure, kind="stable"):
        if not shown[i]:
            continue
        row = next((row for row, j in enumerate(chosen) if alike[i, j]), len(chosen))
        if row == len(chosen):
            chosen.append(int(i))
        first = chosen[row]
        if first == i or _one(known[i], known[first], sure[i] * sure[first]):
            rows[i] = row
    return candidates[chosen], rows


@dataclass(frozen=True)
class ExposureFit:
    """Non-negative fit of the operator by candidates.

    Attributes
    ----------
    weights : (C,) estimates of ``e_mu r^2``; zero where a candidate is not needed.
    shares : (C,) part of its own direction in the operator that each explains: 1 for an
        archetype that stands alone, 1/2 for each of two copies of one.
    explained : 1 minus the residual, relative to the operator: 1 is a perfect fit.
    """

    weights: np.ndarray
    shares: np.ndarray
    explained: float


def fit_exposures(space: Subspace, patterns: np.ndarray) -> ExposureFit:
    """Fit ``diag(theta gamma) ~ sum_c p_c a_c a_c^T`` with ``p >= 0``.

    Source: theory/NOTES.md, "Exposure fit".

    The fit is made in the whitened metric, where every direction of the operator counts alike and
    the archetypes are orthonormal: rank-one matrices meet in ``(b_c . b_d)^2``, so the problem
    has the size of the candidates, not of K^2.
    """
    if len(patterns) == 0 or space.dim == 0:
        return ExposureFit(np.zeros(len(patterns)), np.zeros(len(patterns)), 0.0)
    b = space.whitened(patterns)
    size = (b**2).sum(axis=1)
    target = space.signal / space.metric
    alone = (b**2 @ target) / size
    H = (b @ b.T) ** 2 / np.outer(size, size)  # unit candidates
    root = np.linalg.cholesky(H + 1e-10 * np.eye(len(H)))
    weights, _ = nnls(root.T, np.linalg.solve(root, alone))
    total = float((target**2).sum())
    residual = total - 2 * weights @ alone + weights @ H @ weights
    shares = weights / np.maximum(alone, 1e-12)
    return ExposureFit(weights / size, shares, float(1 - residual / total))


def debiased_weights(space: Subspace, patterns: np.ndarray) -> np.ndarray:
    """Estimates (C,) of ``e_mu r^2`` without what a blurred spectrum takes from `fit_exposures`.

    An eigenvector keeps the part gamma of its direction, and a pattern read off its signs seems to
    keep more. So the fit is made of the population spikes instead, ``diag(theta) ~ sum_c p_c b_c
    b_c^T``, with the directions ``b ~ a_k / sqrt(gamma_k)`` of unit length, in the plain metric:
    there the spread of eigenvalues that should be one cancels. The weights add up to the trace.

    Source: theory/NOTES.md, "Exposure fit".
    """
    if len(patterns) == 0 or space.dim == 0:
        return np.zeros(len(patterns))
    least = space.n_sites ** (-1 / 3)  # as near to the threshold gamma is not known
    b = space.coefficients(patterns) / np.sqrt(np.maximum(space.overlaps, least))
    b = b.astype(np.float64) / np.maximum(np.linalg.norm(b, axis=1, keepdims=True), 1e-300)
    root = np.linalg.cholesky((b @ b.T) ** 2 + 1e-10 * np.eye(len(b)))
    weights, _ = nnls(root.T, np.linalg.solve(root, b**2 @ space.strengths))
    if len(patterns) == space.dim and weights.sum() > 0:
        weights *= space.strengths.sum() / weights.sum()
    found: np.ndarray = weights / space.n_sites
    return found


def select(space: Subspace, candidates: np.ndarray) -> tuple[np.ndarray, ExposureFit]:
    """Keep the candidates that the operator needs, heaviest first, with the fit that says so.

    Those without weight are dropped at once. Then the least needed one is dropped and the rest is
    fitted again, until all are needed: of two estimates of one archetype one stays.
    """
    kept = candidates
    while True:
        fit = fit_exposures(space, kept)
        if len(kept) == 0 or fit.shares.min() > SHARE:
            order = np.argsort(-fit.weights, kind="stable")
            chosen = ExposureFit(fit.weights[order], fit.shares[order], fit.explained)
            return kept[order], chosen
        kept = kept[fit.shares > min(max(fit.shares.min(), 1e-3), SHARE)]
