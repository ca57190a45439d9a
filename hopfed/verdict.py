"""Says in words whether data look like noisy archetypes, and what to do when they do not."""

from __future__ import annotations

from dataclasses import dataclass

from hopfed.rank import RankEstimate
from hopfed.select import ExposureFit
from hopfed.spectrum import Spectrum

GOOD_FIT = 0.6  # part of its direction that a found archetype explains on average, near the load
# limit too; far from it this is 0.95 and more, and data of another kind do not come near


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
    if rank.khat == 0:
        return Verdict(
            "no signal",
            "No eigenvalue stands above the noise: no archetype is detectable with these "
            "examples; more of them, or cleaner ones, would lower the threshold.",
        )
    directions = "direction" if rank.khat == 1 else "directions"
    if found < rank.khat / 2 or (found and fit.explained < GOOD_FIT * found / rank.khat):
        return Verdict(
            "poor fit",
            f"These data do not look like noisy archetypes: the spectrum shows {rank.khat} "
            f"{directions} above the noise, but only {found} binary pattern(s) explain "
            f"{max(fit.explained, 0.0):.0%} of them. Nothing else is reported as found.",
        )
    if found < rank.khat:
        return Verdict(
            "incomplete",
            f"Found {found} of the {rank.khat} archetypes that the spectrum shows: search longer "
            "(more starts), give more examples, or more clients or groups.",
        )
    return Verdict("ok", f"All {found} archetypes that the spectrum shows were found.")
