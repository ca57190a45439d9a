"""From candidates to archetypes: acceptance by theory, duplicates, and the exposure fit (A7)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from hopfed.subspace import Subspace

DUPLICATE = 0.7  # overlap, plain and whitened, from which two candidates are one seen twice
SLACK = 0.5  # acceptance: score above prediction minus SLACK / sqrt(N); archetypes miss it by 0.13
SHARE = 0.5  # of its own direction in the operator that a kept archetype must explain


def accepted(space: Subspace, patterns: np.ndarray, slack: float = SLACK) -> np.ndarray:
    """Which patterns score as theory says that an archetype would: bool (C,)."""
    floor = space.predicted_scores(patterns) - slack / np.sqrt(space.n_sites)
    return space.scores(patterns) >= floor


def merge(
    space: Subspace, kept: np.ndarray, new: np.ndarray, duplicate: float = DUPLICATE
) -> np.ndarray:
    """Add `new` patterns to those kept, best score first, without duplicates of either sign.

    Duplicates are alike site by site and in the whitened metric too. There archetypes are
    orthogonal however much they resemble each other, so a fixed overlap does not throw away
    genuine ones that are alike; and near the threshold, where the whitened metric is noisy, the
    plain overlap keeps apart what differs. With `duplicate` = 1 only exact copies go.
    """
    if len(new) == 0:
        return kept
    fresh = space.polish(new[np.argsort(-space.scores(new), kind="stable")])
    both = np.unique(np.vstack([kept, fresh]), axis=0, return_index=True)[1]
    both = np.vstack([kept, fresh])[np.sort(both)]
    b = space.whitened(both)
    b /= np.maximum(np.linalg.norm(b, axis=1, keepdims=True), 1e-300)
    plain = np.abs(both.astype(np.float32) @ both.T.astype(np.float32)) / space.n_sites
    overlap = np.minimum(np.abs(b @ b.T), plain)
    duplicate = min(duplicate, 1 - 1e-9)
    chosen: list[int] = list(range(len(kept)))
    for i in range(len(kept), len(both)):
        if not (overlap[i, chosen] > duplicate).any():
            chosen.append(i)
    return both[chosen]


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
    """Fit ``diag(theta gamma) ~ sum_c p_c a_c a_c^T`` with ``p >= 0`` (A7).

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


def select(space: Subspace, candidates: np.ndarray) -> tuple[np.ndarray, ExposureFit]:
    """Keep the candidates that the operator needs, heaviest first, with the fit that says so.

    Those that carry no weight go at once; of the others the least needed goes first and the rest
    is fitted again, so that of two likenesses of one archetype one stays.
    """
    kept = candidates
    while True:
        fit = fit_exposures(space, kept)
        if len(kept) == 0 or fit.shares.min() > SHARE:
            order = np.argsort(-fit.weights, kind="stable")
            chosen = ExposureFit(fit.weights[order], fit.shares[order], fit.explained)
            return kept[order], chosen
        kept = kept[fit.shares > min(max(fit.shares.min(), 1e-3), SHARE)]
