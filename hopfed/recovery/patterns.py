"""One pass of the symmetric channel: count the spectrum, and factor what stands above the noise.

Peeling: what one spectrum does not separate comes out in layers.

Where many archetypes crowd a spectrum, some of their eigenvalues sink into the noise and some
patterns are mixtures. The owners vote on the patterns broadcast, over all of their rows; mixtures
that no row resembles get no votes. Each owner sets those of its rows aside that a pattern explains.
The operators and groups of the rest show what is left, with less beside it; its patterns join the
others, all rows vote again, and so on until the rest shows nothing.

Every answer is a sum over rows, and adds up over owners. Behind secure aggregation (`masked`) the
server learns the operator of all rows and that of each rest, sums of the same random groups of all
owners, and for each pattern the number and the sum of the rows that resemble it; never whose they
are. Of a pattern that fewer than `hopfed.archetypes.votes.FEW` rows support it learns only that,
and no operator of fewer than `LEAST` rows is asked for. An operator of few rows says more about
each of them than that of all does; nor is the difference of two rests much less than its rows.
Those who cannot allow that stop at the first layer, ``channel="symmetric", method="joint"``.

Source: theory/NOTES.md, "Peeling".
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hopfed.archetypes.archetypes import Archetypes
from hopfed.archetypes.factorize import Groups, factorize
from hopfed.archetypes.joint_diagonalization import JointDiagonalization
from hopfed.archetypes.selection import SAME
from hopfed.archetypes.status import Known, judge_layers
from hopfed.archetypes.votes import elected
from hopfed.recovery.moments import Federation
from hopfed.recovery.settings import Settings
from hopfed.spectral.eigenpairs import Spectrum
from hopfed.spectral.noise import noise_variance
from hopfed.spectral.rank import Counting, RankEstimate, RankRule
from hopfed.theory.exposures import errors

CROWDED = 0.2  # archetypes per site beyond which the search with one operator finds no more


@dataclass(frozen=True)
class Pass:
    """What one pass gives.

    Attributes
    ----------
    archetypes : what was found.
    rank, spectrum : the count, and the eigenpairs that count.
    """

    archetypes: Archetypes
    rank: RankEstimate
    spectrum: Spectrum


def one_pass(federation: Federation, rule: RankRule, settings: Settings, seed: int) -> Pass:
    """Recover patterns, up to their signs, from the operators and groups of a federation."""
    rank, spectrum = counted(federation, rule, settings.quality)
    projections = None
    if settings.method in ("auto", "joint") and rank.n_detected:
        projections = Groups(*federation.project(spectrum.vectors, settings.groups))
    searched = rank.n_detected <= CROWDED * federation.n_sites or settings.method != "auto"
    found = factorize(
        spectrum,
        rank,
        groups=projections,
        method=settings.method if searched else "joint",
        joint=JointDiagonalization(groups=settings.groups),
        search=settings.search,
        seed=seed,
    )
    return Pass(_with_errors(found, rank, spectrum, settings.quality), rank, spectrum)


def _with_errors(
    found: Archetypes, rank: RankEstimate, spectrum: Spectrum, quality: float | None
) -> Archetypes:
    """Archetypes with standard errors, and the quality read off beside the K spikes.

    Where the noise differs between clients neither is known.
    """
    if rank.unequal or not len(found) or not 0 < found.quality <= 1:
        return found
    N, M, K = spectrum.n_sites, spectrum.n_examples, rank.n_detected
    overlaps = found.patterns.astype(np.float32) @ found.patterns.T.astype(np.float32) / N
    shares = np.minimum(found.exposures, 1.0)
    of = errors(shares, found.quality, N, M, overlaps)
    if quality is not None:
        return replace(found, exposure_errors=of.exposures, quality_error=0.0)
    s2 = noise_variance(spectrum.values[:K], N, (N - K) / M)  # K of N directions hold no noise
    return replace(
        found,
        quality=float(np.sqrt(max(1 - s2, 0.0))),
        exposure_errors=of.exposures,
        quality_error=of.quality,
    )


def counted(
    federation: Federation, rule: RankRule, quality: float | None
) -> tuple[RankEstimate, Spectrum]:
    """Compute the spectrum, and count what stands above the noise.

    Under one common variance the examples of a noisy client pass for archetypes. So clients are
    asked for their own noise, and where it differs the vectors at hand are counted again under
    its law; this count is never the higher one.

    Parameters
    ----------
    quality : r in (0, 1] when known; no client's noise is asked for then.
    """
    count = Counting(rule, lambda values, whole: federation.sample(values, whole, quality))
    spectrum = federation.spectrum(count)
    first = count.estimate
    alone = len(federation.members) == 1 or federation.masked
    if first.n_detected == 0 or quality is not None or alone:
        return first, spectrum
    profile = federation.profile(spectrum.vectors)
    if profile.alike():
        return first, spectrum
    rank = rule(federation.sample(spectrum.values, spectrum.complete, quality, profile))
    keep = min(rank.n_detected, first.n_detected)
    rank = replace(
        rank, n_detected=keep, strengths=rank.strengths[:keep], overlaps=rank.overlaps[:keep]
    )
    return rank, replace(
        spectrum, vectors=spectrum.vectors[:, :keep], residuals=spectrum.residuals[:keep]
    )


LAYERS = 40  # at most
BALLOTS = 3  # votes in each layer: one corrects a blurred pattern, the next gives it missed rows
MOST = 0.5  # part of the rows that the patterns must explain to be the answer
LEAST = 20  # rows whose operator is asked for


def is_crowded(found: Archetypes, n_sites: int) -> bool:
    """Whether a spectrum shows more than was taken apart.

    Near and beyond the load limit patterns are mixtures, and many archetypes push the bulk off its
    law, which looks like a poor fit.
    """
    many = found.n_detected > CROWDED * n_sites
    return len(found) > 0 and (many or found.status == "incomplete")


def peel(
    federation: Federation, first: Archetypes, rule: RankRule, settings: Settings, seed: int
) -> tuple[Archetypes, int]:
    """Find more archetypes than one spectrum shows, starting from what was found in it.

    Returns
    -------
    Archetypes, oriented, with shares and scores from the rows of each, and the number of layers;
    `first` and 1 where the rows do not bear the patterns out.
    """
    patterns, quality, left = first.patterns, first.quality, federation.n_rows
    for layer in range(LAYERS):
        for _ in range(BALLOTS):
            choice = elected(federation.vote(patterns, quality), patterns)
            patterns, quality = choice.patterns, choice.quality
            if not len(patterns):
                return first, 1
        rest = federation.rest(patterns, quality)
        more = 0
        if rest.n_rows < LEAST:
            break
        found = one_pass(rest, rule, settings, seed + layer).archetypes
        federation.exchanges += rest.exchanges
        more = found.n_detected
        if not len(found) or (layer > 0 and rest.n_rows >= left):
            break
        if _known(found.patterns, patterns):
            return first, 1  # rows of the same archetypes: not all are of one quality
        left = rest.n_rows
        patterns = np.vstack([patterns, found.patterns])
    peeled = _result(federation, patterns, quality, more)
    return (first, 1) if peeled is None else (peeled, layer + 2)


def _known(found: np.ndarray, patterns: np.ndarray) -> bool:
    """Whether all patterns found are among those at hand, of either sign."""
    overlaps = np.abs(found.astype(np.float32) @ patterns.T.astype(np.float32)) / found.shape[1]
    return bool((overlaps.max(axis=1) >= SAME).all())


def _result(
    federation: Federation, patterns: np.ndarray, quality: float, more: int
) -> Archetypes | None:
    """Patterns that explain most rows, None where they do not; `more` is what the rest shows.

    The rows that a pattern explains must be flipped equally often in every column.
    """
    choice = elected(federation.vote(patterns, quality, strict=True), patterns)
    r, M, rows = choice.quality, federation.n_rows, choice.counts.sum()
    if rows < MOST * M:
        return None
    if not federation.agrees(choice.patterns, quality):
        return None
    shares = choice.counts / M
    known = Known(choice.predicted_scores, choice.counts, r, federation.n_sites, M)
    verdict = judge_layers(known, more, M - rows)
    return Archetypes(
        patterns=choice.patterns,
        scores=choice.scores,
        predicted_scores=choice.predicted_scores,
        exposures=shares,
        exposure_errors=np.sqrt(shares * (1 - shares) / M),
        quality=r,
        n_detected=len(choice) + more,
        explained=float(rows / M),
        status=verdict.status,
        advice=verdict.advice,
        matches=np.zeros(0, int),
    )
