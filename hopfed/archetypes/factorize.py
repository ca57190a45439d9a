"""From a counted spectrum to archetypes: candidates, and the fit that decides.

Source: theory/NOTES.md, "Joint diagonalisation", "Search with one operator", "Exposure fit" and
"Goodness of fit".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from hopfed._lib.arrays import blas_threads
from hopfed._lib.settings import require
from hopfed.archetypes.annealed_search import Search, search_candidates
from hopfed.archetypes.archetypes import Archetypes
from hopfed.archetypes.joint_diagonalization import joint_candidates
from hopfed.archetypes.status import judge
from hopfed.archetypes.subspace import (
    ExposureFit,
    Subspace,
    debiased_weights,
    fit_exposures,
    match_known,
    merge,
    select,
)
from hopfed.spectral.eigenpairs import Spectrum
from hopfed.spectral.rank import RankEstimate

__all__ = ["METHODS", "Groups", "Method", "factorize"]

METHODS = ("auto", "joint", "layered")
# one of these, or a baseline: patterns (C, N) from what is counted, and a seed
Method = str | Callable[[Spectrum, RankEstimate, int], np.ndarray]


class Groups(NamedTuple):
    """Group projections: ``V^T eta^T eta V`` of groups of examples, K x K."""

    sums: np.ndarray  # (G, K, K), one sum over examples for each group
    counts: np.ndarray  # (G,) examples in each


def factorize(
    spectrum: Spectrum,
    rank: RankEstimate,
    *,
    groups: Groups | None = None,
    method: Method = "auto",
    search: Search | None = None,
    known: np.ndarray | None = None,
    sure: np.ndarray | None = None,
    seed: int = 0,
) -> Archetypes:
    """Factor the signal of `spectrum` into archetypes.

    Without `groups` joint diagonalisation has nothing to work on. The `method` is "joint",
    "layered" (one operator, search alone), or "auto": joint first, layered for what is left, the
    exposure fit decides; of a function all patterns are taken. Of `known` patterns (C, N) of
    earlier rounds those that this operator shows come first, as they are or as it shows them,
    whichever is surer; `sure` (C,) is the overlap to expect of each with its archetype.
    """
    require(callable(method) or method in METHODS, "method", f"one of {', '.join(METHODS)}", method)
    if known is None:
        known = np.zeros((0, spectrum.n_sites), dtype=np.int8)
    # Thousands of small products: handing each to a second BLAS thread costs more than it gains,
    # and ten times as much where another program holds the core that the thread waits for.
    with blas_threads(1):
        space = Subspace.of(spectrum, rank)
        candidates, rows = match_known(space, known, np.ones(len(known)) if sure is None else sure)
        if isinstance(method, str):
            kept, fit = _search(space, rank, groups, method, search, candidates, seed)
        else:
            kept = method(spectrum, rank, seed)
            fit = fit_exposures(space, kept)
        weights = debiased_weights(space, kept)
        order = np.argsort(-weights, kind="stable")
        # The verdict keeps to the fit that chose the patterns: it reads low where one is unsure.
        fit = replace(fit, weights=fit.weights[order], shares=fit.shares[order])
        kept, weights = kept[order], weights[order]
        place = {x.tobytes(): row for row, x in enumerate(kept.astype(np.int8))}
        at = [place.get(x.tobytes(), -1) for x in candidates.astype(np.int8)]
        scores, gamma = space.judged(kept)
        verdict = judge(spectrum, rank, kept, gamma, fit)
        left = spectrum.values[rank.n_detected :]
        return Archetypes(
            patterns=kept,
            scores=scores,
            predicted_scores=gamma,
            exposures=weights / max(rank.quality**2, 1e-12),
            quality=rank.quality,
            n_detected=rank.n_detected,
            explained=fit.explained,
            status=verdict.status,
            advice=verdict.advice,
            matches=np.array([at[row] if row >= 0 else -1 for row in rows], int),
            residual=float(left[0] / rank.threshold)
            if len(left) and rank.threshold > 0
            else np.nan,
        )


def _search(
    space: Subspace,
    rank: RankEstimate,
    groups: Groups | None,
    method: str,
    search: Search | None,
    candidates: np.ndarray,
    seed: int,
) -> tuple[np.ndarray, ExposureFit]:
    """Find more by `method` beside the `candidates` of earlier rounds; the fit decides."""
    kept, fit = select(space, candidates)
    search = search or Search()
    if len(kept) < space.dim or space.dim == 0:
        new = np.zeros((0, space.n_sites), dtype=np.int8)
        if method in ("auto", "joint") and groups is not None:
            new = joint_candidates(space, groups.sums, groups.counts, rank.variance, seed)
        kept, fit = select(space, merge(space, kept, new) if len(kept) else new)
    if method in ("auto", "layered") and len(kept) < space.dim:
        candidates = search_candidates(space, search, seed, known=kept)
        kept, fit = select(space, candidates)
    return kept, fit
