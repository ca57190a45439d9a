"""Says in words whether data look like noisy archetypes, and what to do when they do not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hopfed.archetypes.selection import ExposureFit
from hopfed.spectral.eigenpairs import Spectrum
from hopfed.spectral.rank import RankEstimate
from hopfed.theory import marchenko_pastur

GOOD_FIT = 0.6  # part of its direction that a found archetype explains on average, near the load
# limit too; far from it this is 0.95 and more, and data of another kind do not come near

# Kolmogorov distance of the bulk from its law. In the channel it is that of a small sample only,
# but many archetypes push the bulk: by .005 at K / N = .1, .034 at .3, .052 at .35, .085 at .4.
STRAY_BULK = 0.06
PUSHED = 0.5  # times (K / N)^2 is allowed for that


@dataclass(frozen=True)
class Verdict:
    """A status and the sentence that explains it."""

    status: str
    advice: str


def judge(spectrum: Spectrum, rank: RankEstimate, found: int, fit: ExposureFit) -> Verdict:
    """Judge a factorisation from the count of the spectrum and the exposure fit.

    Archetypes leave as many patterns as signal eigenvalues, each explaining its own direction of
    the operator. Data of another kind show many signal directions and few or no +-1 patterns.
    """
    if spectrum.status != "converged":
        return Verdict("not converged", f"The eigenpairs did not converge: {spectrum.status}.")
    if rank.n_detected == 0:
        return Verdict(
            "no signal",
            "No eigenvalue stands above the noise: no archetype is detectable with these "
            "examples; more of them, or cleaner ones, would lower the threshold.",
        )
    stray = bulk_distance(spectrum, rank)
    unlike = found < rank.n_detected / 2
    limit = (
        STRAY_BULK + PUSHED * (rank.n_detected / spectrum.n_sites) ** 2 + 3 / len(spectrum.values)
    )
    if stray > limit and not unlike:
        return Verdict(
            "poor fit",
            f"The noise of these data is not that of one quality: their bulk departs from the "
            f"Marchenko-Pastur law by {stray:.2f} (Kolmogorov distance), so the count of "
            f"{rank.n_detected} and some of the {found} patterns may be false. If examples of "
            "different quality are mixed, give each source as a client of its own.",
        )
    if unlike or fit.explained < GOOD_FIT * found / rank.n_detected:
        patterns = "1 binary pattern explains" if found == 1 else f"{found} binary patterns explain"
        return Verdict(
            "poor fit",
            f"These data do not look like noisy archetypes: {rank.n_detected} components "
            f"exceed the noise; {patterns} {max(fit.explained, 0.0):.0%} of them. "
            "Nothing else is reported as found.",
        )
    if found < rank.n_detected:
        return Verdict(
            "incomplete",
            f"Found {found} of the {rank.n_detected} archetypes that the spectrum shows: search "
            "longer (more starts), give more examples, or more clients or groups.",
        )
    return Verdict("ok", f"All {found} archetypes that the spectrum shows were found.")


def judge_layers(found: int, more: int, rows: float) -> Verdict:
    """Judge archetypes that came out in layers.

    Parameters
    ----------
    found : archetypes that explain enough rows.
    more : eigenvalues that count as signal among the rows that none of them explains.
    rows : number of those rows.
    """
    left = f"{rows:,.0f} of the examples resemble none of them"
    if more:
        return Verdict(
            "incomplete",
            f"Found {found} archetypes layer by layer; {left} and show {more} more, which too few "
            "examples support: give more examples.",
        )
    return Verdict("ok", f"Found {found} archetypes, layer by layer; {left}.")


def bulk_distance(spectrum: Spectrum, rank: RankEstimate) -> float:
    """Kolmogorov distance of the noise eigenvalues from their Marchenko-Pastur law.

    0 where it cannot be told: part of the spectrum only, owners of different noise, a tiny bulk.
    """
    k, N, M = rank.n_detected, spectrum.n_sites, spectrum.n_examples
    size = int(min(N, round(M)))
    if not spectrum.complete or rank.unequal or size - k < 16:
        return 0.0
    bulk = np.zeros(size - k)
    values = spectrum.values[k:size]
    bulk[len(bulk) - len(values) :] = values[::-1]
    q = (N - k) / (M - k)
    atom = float(marchenko_pastur.atom(q))
    law = marchenko_pastur.cdf(np.maximum(bulk, 1e-12) * M / (M - k), q, rank.variance)
    law = (law - atom) / (1 - atom)
    steps = np.arange(len(bulk) + 1) / len(bulk)
    return float(max(np.abs(law - steps[1:]).max(), np.abs(law - steps[:-1]).max()))
