"""From a counted spectrum to archetypes: candidates, and the fit that decides.

Source: theory/NOTES.md, "Joint diagonalisation", "Search with one operator", "Exposure fit" and
"Goodness of fit"; arXiv:2603.19902, Algorithms 1 and 2 as printed, for the method "paper", a
baseline. What is known of the truth in its authors' programs is not used there: the operator is
multiplied by the number of eigenvalues counted, in the place of the true number of archetypes,
because otherwise none exceeds tau once sharpened.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from hopfed._lib.arrays import blas_threads, to_host
from hopfed._lib.random import derive, stream
from hopfed._lib.settings import require
from hopfed.archetypes.annealed_search import Search, search_candidates
from hopfed.archetypes.archetypes import Archetypes
from hopfed.archetypes.joint_diagonalization import joint_candidates
from hopfed.archetypes.status import CROWDED, judge, stray_limit
from hopfed.archetypes.subspace import (
    ExposureFit,
    Subspace,
    debiased_weights,
    fit_exposures,
    match_known,
    merge,
    select,
)
from hopfed.errors import ArgumentError
from hopfed.memory.layered import LayeredMemory
from hopfed.spectral.eigenpairs import Spectrum, eigenpairs
from hopfed.spectral.operators import FactorOperator
from hopfed.spectral.rank import RankEstimate
from hopfed.theory import marchenko_pastur

REPLICAS = 4  # tables drawn from the fitted channel
RARE = 100.0  # flips of a row or a column, whichever is shorter, above which the law holds
LARGEST = 10**8  # entries of such a table
BATCH = 4_096  # rows drawn at once
FINE = 1e-9  # eigenvalues closer than that are one: sparse flips leave many at 0

__all__ = ["METHODS", "Groups", "factorize"]

METHODS = ("auto", "joint", "layered", "paper")


@dataclass(frozen=True)
class Groups:
    """Group projections: ``V^T eta^T eta V`` of groups of examples, K x K.

    Attributes
    ----------
    sums : (G, K, K), one sum over examples for each group.
    counts : (G,) examples in each.
    """

    sums: np.ndarray = field(repr=False)
    counts: np.ndarray


def factorize(
    spectrum: Spectrum,
    rank: RankEstimate,
    *,
    groups: Groups | None = None,
    method: str = "auto",
    search: Search | None = None,
    known: np.ndarray | None = None,
    sure: np.ndarray | None = None,
    seed: int = 0,
) -> Archetypes:
    """Factor the signal of `spectrum` into archetypes.

    Parameters
    ----------
    spectrum, rank : leading eigenpairs of C and how many of them are signal.
    groups : group projections; without them joint diagonalisation has nothing to work on.
    method : "joint", "layered" (one operator, search alone), the baseline "paper"
        (`published_patterns`, all that it accepts), or "auto": joint first, layered for
        what is left, the exposure fit decides.
    known : (C, N) patterns of earlier rounds; those that this operator shows come first, as they
        are or as it shows them, whichever is surer (`hopfed.archetypes.subspace.match_known`).
    sure : (C,) overlap to expect of each of them with its archetype; 1 when left out.
    search : settings of the search; its defaults when left out.
    seed : of their starts.
    """
    if method not in METHODS:
        raise ArgumentError("method", f"one of {', '.join(METHODS)}", method)
    if known is None:
        known = np.zeros((0, spectrum.n_sites), dtype=np.int8)
    # Thousands of small products: handing each to a second BLAS thread costs more than it gains,
    # and ten times as much where another program holds the core that the thread waits for.
    with blas_threads(1):
        space = Subspace.of(spectrum, rank)
        candidates, rows = match_known(space, known, np.ones(len(known)) if sure is None else sure)
        if method == "paper":
            kept = published_patterns(spectrum, rank, seed)
            fit = fit_exposures(space, kept)
        else:
            kept, fit = _search(space, rank, groups, method, search, candidates, seed)
        weights = debiased_weights(space, kept)
        order = np.argsort(-weights, kind="stable")
        # The verdict keeps to the fit that chose the patterns: it reads low where one is unsure.
        fit = replace(fit, weights=fit.weights[order], shares=fit.shares[order])
        kept, weights = kept[order], weights[order]
        place = {x.tobytes(): row for row, x in enumerate(kept.astype(np.int8))}
        at = [place.get(x.tobytes(), -1) for x in candidates.astype(np.int8)]
        scores, gamma = space.judged(kept)
        stray = _stray(spectrum, rank, kept, fit, seed)
        verdict = judge(spectrum, rank, kept, gamma, fit, stray)
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


def _stray(
    spectrum: Spectrum, rank: RankEstimate, kept: np.ndarray, fit: ExposureFit, seed: int
) -> float:
    """Distance of the bulk from its law, or from tables of the fitted channel where it is large."""
    if rank.n_detected == 0 or len(kept) < rank.n_detected / 2:
        return 0.0
    stray = bulk_distance(spectrum, rank)
    if stray > stray_limit(spectrum, rank) and rank.n_detected <= CROWDED * spectrum.n_sites:
        stray = replica_distance(spectrum, rank, kept, fit.weights, seed)
    return stray


def bulk_distance(spectrum: Spectrum, rank: RankEstimate) -> float:
    """Kolmogorov distance of the noise eigenvalues from their Marchenko-Pastur law.

    0 where it cannot be told: part of the spectrum only, owners of different noise, a tiny bulk.
    """
    bulk = _bulk(spectrum, rank)
    if not len(bulk):
        return 0.0
    k, N, M = rank.n_detected, spectrum.n_sites, spectrum.n_examples
    q = (N - k) / (M - k)
    atom = float(marchenko_pastur.atom(q))
    law = marchenko_pastur.cdf(np.maximum(bulk, 1e-12) * M / (M - k), q, rank.variance)
    law = (law - atom) / (1 - atom)
    steps = np.arange(len(bulk) + 1) / len(bulk)
    return float(max(np.abs(law - steps[1:]).max(), np.abs(law - steps[:-1]).max()))


def replica_distance(
    spectrum: Spectrum, rank: RankEstimate, patterns: np.ndarray, weights: np.ndarray, seed: int
) -> float:
    """Kolmogorov distance of the noise eigenvalues from those of tables of the fitted channel.

    The law of Marchenko and Pastur takes every entry's noise for small beside the sum of all. Where
    r is near 1 flips are rare, few to a row or a column, and the bulk is another one: of the fitted
    patterns, shares and r it is drawn. What such tables are apart from each other is subtracted.

    Parameters
    ----------
    patterns, weights : (K, N) and (K,), what was found and its shares, up to a factor.
    """
    bulk, M = _bulk(spectrum, rank), round(spectrum.n_examples)
    rare = (1 - rank.quality) / 2 * min(M, spectrum.n_sites) < RARE
    drawable = len(patterns) > 0 and weights.sum() > 0 and M * spectrum.n_sites <= LARGEST
    if not (len(bulk) and rare and drawable):
        return bulk_distance(spectrum, rank)
    rng, shares = stream(seed, "replicas"), weights / weights.sum()
    drawn = []
    for _ in range(REPLICAS):
        kinds = rng.choice(len(patterns), size=M, p=shares)
        batches = (patterns[kinds[a : a + BATCH]] for a in range(0, M, BATCH))
        flipped = (np.where(rng.random(b.shape) < (1 - rank.quality) / 2, -b, b) for b in batches)
        operator = FactorOperator.from_examples(flipped)
        drawn.append(_bulk(eigenpairs(operator, 0), rank))
    apart = max(_apart(one, np.concatenate(drawn)) for one in drawn)
    return max(_apart(bulk, np.concatenate(drawn)) - apart, 0.0)


def _bulk(spectrum: Spectrum, rank: RankEstimate) -> np.ndarray:
    """Noise eigenvalues, ascending, zeros included; none where they do not tell."""
    k, N, M = rank.n_detected, spectrum.n_sites, spectrum.n_examples
    size = int(min(N, round(M)))
    if not spectrum.complete or rank.unequal or size - k < 16:
        return np.zeros(0)
    bulk = np.zeros(size - k)
    values = spectrum.values[k:size]
    bulk[len(bulk) - len(values) :] = values[::-1]
    return bulk


def _apart(a: np.ndarray, b: np.ndarray) -> float:
    """Largest difference of the empirical distribution functions of two sets."""
    a, b = (np.sort(np.round(x / FINE)) for x in (a, b))
    at = np.concatenate([a, b])
    parts = [np.searchsorted(x, at, side="right") / len(x) for x in (a, b)]
    return float(np.abs(parts[0] - parts[1]).max())


# Settings of the algorithm, as its authors have them.
TAU = 0.5  # sharpened eigenvalue above which an eigenvector counts
SCORE = 0.6  # tau_2, part of an accepted pattern that lies in the subspace
OVERLAP = 0.4  # delta, below which two patterns are different, of either sign
EPS, STEPS = 0.01, 200  # of the sharpening
LAYERS = 5
BETA, UPDATES = 2.5, 50  # of the layered memory
# It is synchronous, its cue is clamped, and the self-field is kept; the amplitude of the noise
# falls from and to these, over beta.
MEMORY = LayeredMemory(
    layers=LAYERS,
    repulsion=0.2,
    field=0.1,
    noise=(0.3, 0.02),
    noise_over_beta=True,
    self_field=True,
)


def published_patterns(
    spectrum: Spectrum,
    rank: RankEstimate,
    seed: int,
    mixtures: np.ndarray | None = None,
) -> np.ndarray:
    """Patterns (C, N) that Algorithms 1 and 2 accept, in their order."""
    k = rank.n_detected
    N = spectrum.n_sites
    values = k * spectrum.values[:k] / N
    for n in range(STEPS):  # each eigenvalue by itself: the iteration keeps the vectors
        values = values + EPS / (1 + EPS * n) * (values - values**2)
    V = to_host(spectrum.vectors)[:, :k][:, values > TAU].astype(np.float64)
    values = values[values > TAU]
    if not len(values):
        return np.zeros((0, N), np.int8)
    if mixtures is None:
        count = max(1, 10 * int(len(values) / LAYERS * np.log(len(values) / 0.01)))
        combined = stream(seed, "published").standard_normal((count, len(values))) @ V.T
        mixtures = np.where(combined >= 0, 1, -1)
    require(mixtures.ndim == 2 and mixtures.shape[1] == N, "mixtures", f"of {N} columns", "others")
    relaxed = MEMORY.relax(
        mixtures.astype(np.int8),
        V * np.sqrt(values),
        beta=BETA,
        updates=UPDATES,
        seed=derive(seed, "published"),
    )
    return _accepted(relaxed.state.reshape(-1, N), V)


def _accepted(states: np.ndarray, V: np.ndarray) -> np.ndarray:
    """States above tau_2 (18), in their order, each unlike those before it (14), (19)."""
    x = states.astype(np.float64)
    good = ((x @ V) ** 2).sum(axis=1) / x.shape[1] > SCORE
    kept: list[int] = []
    for i in np.flatnonzero(good):
        if not kept or np.abs(x[kept] @ x[i]).max() / x.shape[1] < OVERLAP:
            kept.append(int(i))
    return states[kept].astype(np.int8)
