"""A count of the spectrum as named arrays, from one exchange of a round to the next."""

from __future__ import annotations

import numpy as np

from hopfed.federation.contract import State
from hopfed.federation.messages import Message
from hopfed.hopfield.memory.blending import Counted
from hopfed.spectral.eigenpairs import Spectrum
from hopfed.spectral.rank import RankEstimate


def nothing(n_sites: int) -> Counted:
    """Return the count where there is no evidence."""
    empty = np.zeros(0)
    spectrum = Spectrum(
        empty, np.zeros((n_sites, 0)), empty, n_sites, 1.0, False, "none", 0, "converged"
    )
    return Counted(spectrum, RankEstimate(0, np.nan, 1.0, empty, empty, "no evidence"), {})


def flatten(counted: Counted) -> State:
    """Arrays of a count."""
    spectrum, rank = counted.spectrum, counted.rank
    return {
        "values": spectrum.values,
        "vectors": spectrum.vectors,
        "residuals": spectrum.residuals,
        "strengths": rank.strengths,
        "overlaps": rank.overlaps,
        "variances": np.array([[c, v] for c, v in counted.variances.items()]),
        "scalars": np.array(
            [rank.n_detected, rank.threshold, rank.variance, spectrum.n_examples, spectrum.complete]
        ),
    }


def unflatten(arrays: Message, n_sites: int) -> Counted:
    """Rebuild the count from its arrays."""
    a = arrays
    n_detected, threshold, variance, examples, complete = a["scalars"].tolist()
    rank = RankEstimate(
        int(n_detected),
        threshold,
        variance,
        a["strengths"],
        a["overlaps"],
        "Tracy-Widom",
        unequal=True,
    )
    spectrum = Spectrum(
        a["values"],
        a["vectors"],
        a["residuals"],
        n_sites,
        examples,
        bool(complete),
        "kept",
        1,
        "converged",
    )
    return Counted(spectrum, rank, {int(c): v for c, v in a["variances"].reshape(-1, 2)})
