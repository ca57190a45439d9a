"""Says in words whether data look like noisy archetypes, and what to do when they do not.

Whether the noise eigenvalues are those of the channel.

Source: theory/NOTES.md, "Goodness of fit".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hopfed._lib.random import stream
from hopfed.archetypes.selection import ExposureFit
from hopfed.spectral.eigenpairs import Spectrum, eigenpairs
from hopfed.spectral.operators import FactorOperator
from hopfed.spectral.rank import RankEstimate, white_edge
from hopfed.theory import marchenko_pastur
from hopfed.theory.resolution import (
    RESOLVED,
    expected_overlap,
    majority_needed,
    majority_overlap,
    resolving_samples,
    strength_from_cosine,
    sure_level,
)

GOOD_FIT = 0.6  # part of its direction that a found archetype explains on average, near the load
# limit too; far from it this is 0.95 and more, and data of another kind do not come near

# Kolmogorov distance of the bulk from its law. In the channel it is that of a small sample only,
# but many archetypes push the bulk: by .005 at K / N = .1, .034 at .3, .052 at .35, .085 at .4.
STRAY_BULK = 0.06
PUSHED = 0.5  # times (K / N)^2 is allowed for that
CROWDED = 0.2  # archetypes per site from which that is all one spectrum can say

LEAST_SIDE = 3  # examples, and columns that vary
LEAST_ENTRIES = 36  # below, the edge of the noise is not known to first order
LEAST_ROWS = 10  # of two kinds, which must have five each to be shown
LEVEL = 1e-3  # false-alarm rate of an eigenvalue

TOO_MANY = "{} patterns were accepted where the spectrum shows {}: some of them are false."
TOO_LITTLE = (
    "{rows:,.0f} examples of {columns} columns that vary say nothing about kinds, neither that "
    "there are any nor that there are none: give more rows."
)
FOUND = ("ok", "detected, not resolved", "incomplete")  # statuses of patterns that are borne out


@dataclass(frozen=True)
class Verdict:
    """A status and the sentence that explains it."""

    status: str
    advice: str


def judge(
    spectrum: Spectrum,
    rank: RankEstimate,
    patterns: np.ndarray,
    gamma: np.ndarray,
    fit: ExposureFit,
    seed: int = 0,
) -> Verdict:
    """Judge a factorisation from the count of the spectrum and the exposure fit.

    Archetypes leave as many patterns as signal eigenvalues, each explaining its own direction of
    the operator. Data of another kind show many signal directions and few or no +-1 patterns.

    Parameters
    ----------
    patterns, gamma : (K, N) what was found, and (K,) the squared cosines by which they are known.
    seed : of tables drawn from the fitted channel, where the bulk must be compared with them.
    """
    found, N, M = len(patterns), spectrum.n_sites, spectrum.n_examples
    if spectrum.status != "converged":
        return Verdict("not converged", f"The eigenpairs did not converge: {spectrum.status}.")
    if rank.n_detected == 0:
        return too_little(M, np.ones(N)) or Verdict(
            "no signal",
            rank.none
            or "No eigenvalue stands above the noise: no archetype is detectable with these "
            "examples; more of them, or cleaner ones, would lower the threshold.",
        )
    if min(N, M) < LEAST_SIDE or N * M < LEAST_ENTRIES:
        return Verdict("too little data", TOO_LITTLE.format(rows=M, columns=N))
    unlike = found < rank.n_detected / 2
    limit = STRAY_BULK + PUSHED * (rank.n_detected / N) ** 2 + 3 / len(spectrum.values)
    stray = bulk_distance(spectrum, rank)
    if stray > limit and not unlike and rank.n_detected <= CROWDED * N:
        stray = replica_distance(spectrum, rank, patterns, fit.weights, seed)
    if stray > limit and not unlike:
        return Verdict(
            "poor fit",
            f"The noise of these data is not that of one quality: their bulk departs from its "
            f"law by {stray:.2f} (Kolmogorov distance), so the count of "
            f"{rank.n_detected} and some of the {found} patterns may be false. If examples of "
            "different quality are mixed, give each source as a client of its own.",
        )
    if unlike or fit.explained < GOOD_FIT * found / rank.n_detected:
        shown = "1 binary pattern explains" if found == 1 else f"{found} binary patterns explain"
        return Verdict(
            "poor fit",
            f"These data do not look like noisy archetypes: {rank.n_detected} components "
            f"exceed the noise; {shown} {max(fit.explained, 0.0):.0%} of them. "
            "Nothing else is reported as found.",
        )
    if found > rank.n_detected:
        return Verdict("poor fit", TOO_MANY.format(found, rank.n_detected))
    if found < rank.n_detected:
        return Verdict(
            "incomplete",
            f"Found {found} of the {rank.n_detected} archetypes that the spectrum shows: search "
            "longer (more starts), give more examples, or more clients or groups.",
        )
    known = Known(gamma, fit.weights / max(rank.quality**2, 1e-12) * M, rank.quality, N, M)
    return _unresolved(known) or Verdict(
        "ok", f"All {found} archetypes that the spectrum shows were found."
    )


def too_little(rows: float, observed: np.ndarray) -> Verdict | None:
    """Verdict on tables in which no kinds could be seen, however clear they are; None of others.

    If all entries agree, the largest eigenvalue of the second moment is the number of columns.

    Parameters
    ----------
    observed : (N,) part of the entries of each column that is there, of columns that hold both
        values.
    """
    columns = len(observed)
    both = int(rows * observed.mean() ** 2) if columns else 0  # that have two of the columns
    few = columns < LEAST_SIDE or both < LEAST_ROWS or columns * both < LEAST_ENTRIES
    if not few:
        few = white_edge(both, columns, LEVEL) >= columns * both
    return (
        Verdict("too little data", TOO_LITTLE.format(rows=rows, columns=columns)) if few else None
    )


@dataclass(frozen=True)
class Known:
    """How well patterns are known.

    Attributes
    ----------
    gamma : (K,) squared cosines of what the patterns were read off with their archetypes.
    rows : (K,) examples of each.
    quality : r.
    n_sites, n_examples : N and M.
    """

    gamma: np.ndarray
    rows: np.ndarray
    quality: float
    n_sites: int
    n_examples: float

    @property
    def overlaps(self) -> np.ndarray:
        """(K,) overlap with its archetype to expect of each."""
        most = majority_overlap(np.maximum(np.round(self.rows), 1), self.quality)
        found: np.ndarray = np.minimum(expected_overlap(self.gamma), most)
        return found

    @property
    def level(self) -> float:
        """Expected overlap from which a pattern is sure to have `RESOLVED`, or nearly so."""
        return float(sure_level(self.n_sites))

    def needed(self, k: int) -> float:
        """Examples like these, all together, from which pattern k is sure to have `RESOLVED`."""
        gamma = float(np.clip(self.gamma[k], 1e-6, 1 - 1e-6))
        kappa = strength_from_cosine(gamma, self.n_sites / self.n_examples)
        by_spectrum = float(resolving_samples(kappa, self.n_sites, self.level))
        majority = majority_needed(self.level, self.quality)
        by_rows = majority / max(float(self.rows[k]), 1.0) * self.n_examples
        return max(by_spectrum, by_rows, 1.01 * self.n_examples)


def _unresolved(known: Known) -> Verdict | None:
    """The verdict on patterns that may have an overlap below `RESOLVED`; None where none may."""
    overlaps = known.overlaps
    blurred = np.flatnonzero(overlaps < known.level)
    if not len(blurred):
        return None
    worst = overlaps.min()
    needed = rounded(max(known.needed(int(k)) for k in blurred))
    return Verdict(
        "detected, not resolved",
        f"{len(overlaps)} archetypes were found, but {len(blurred)} of the patterns are not sure "
        f"to have an overlap of {RESOLVED:g} with theirs: {worst:.2f} is expected of the least "
        f"sure. About {needed} examples like these would resolve all.",
    )


def rounded(x: float) -> str:
    """Number of examples with two digits, for it is an estimate."""
    if not np.isfinite(x):
        return "more than a million"
    unit = 10 ** max(len(str(int(x))) - 2, 0)
    return f"{int(np.ceil(x / unit - 1e-9)) * unit:,}"


def judge_layers(known: Known, more: int, left: float) -> Verdict:
    """Judge archetypes that came out in layers.

    Parameters
    ----------
    known : how well the patterns are known, from the rows of each.
    more : eigenvalues that count as signal among the rows that none of them explains.
    """
    found = len(known.rows)
    none = f"{left:,.0f} of the examples resemble none of them"
    if more:
        return Verdict(
            "incomplete",
            f"Found {found} archetypes layer by layer; {none} and show {more} more, which too few "
            "examples support: give more examples.",
        )
    found_all = Verdict("ok", f"Found {found} archetypes, layer by layer; {none}.")
    return _unresolved(known) or found_all


REPLICAS = 4  # tables drawn from the fitted channel
RARE = 100.0  # flips of a row or a column, whichever is shorter, above which the law holds
LARGEST = 10**8  # entries of such a table
BATCH = 4_096  # rows drawn at once
FINE = 1e-9  # eigenvalues closer than that are one: sparse flips leave many at 0


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

    Returns
    -------
    Distance; that of `bulk_distance` where flips are not rare, or the table is too large to draw.
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
