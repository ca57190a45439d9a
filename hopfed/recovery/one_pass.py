"""One pass of the symmetric channel: count the spectrum, and factor what stands above the noise."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hopfed.archetypes.archetypes import Archetypes
from hopfed.archetypes.factorize import Groups, factorize
from hopfed.archetypes.joint_diagonalization import JointDiagonalization
from hopfed.recovery.one_round import Federation
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
    """Recover patterns, up to their signs, from the operators and groups of a federation.

    Parameters
    ----------
    federation : the clients, whose rows are complete.
    rule : of the count.
    settings : of the recovery.
    seed : of every random choice.

    Examples
    --------
    >>> import numpy as np
    >>> from hopfed.hopfield.channel import draw_examples, rademacher
    >>> from hopfed.spectral.operators import FactorOperator
    >>> from hopfed.spectral.rank import TracyWidom
    >>> rng = np.random.default_rng(1)
    >>> x = draw_examples(rademacher(3, 200, rng), 600, 0.8, rng)[0]
    >>> alone = Federation([FactorOperator.from_examples(x)], 0)
    >>> len(one_pass(alone, TracyWidom(), Settings(), seed=0).archetypes)
    3
    """
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
    federation : the clients.
    rule : of the count.
    quality : r in (0, 1] when known; no client's noise is asked for then.

    Examples
    --------
    >>> import numpy as np
    >>> from hopfed.hopfield.channel import draw_examples, rademacher
    >>> from hopfed.spectral.operators import FactorOperator
    >>> from hopfed.spectral.rank import TracyWidom
    >>> rng = np.random.default_rng(1)
    >>> x = draw_examples(rademacher(3, 200, rng), 600, 0.8, rng)[0]
    >>> alone = Federation([FactorOperator.from_examples(x)], 0)
    >>> rank, spectrum = counted(alone, TracyWidom(), None)
    >>> rank.n_detected, spectrum.vectors.shape
    (3, (200, 3))
    """
    count = Counting(rule, lambda values, whole: federation.sample(values, whole, quality))
    spectrum = federation.spectrum(count)
    first = count.estimate
    alone = len(federation.clients) == 1 or federation.masked
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
