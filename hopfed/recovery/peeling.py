"""Peeling: what one spectrum does not separate comes out in layers.

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

import numpy as np

from hopfed.archetypes.archetypes import Archetypes
from hopfed.archetypes.selection import SAME
from hopfed.archetypes.status import Known, judge_layers
from hopfed.archetypes.votes import elected
from hopfed.recovery.one_pass import CROWDED, one_pass
from hopfed.recovery.one_round import Federation
from hopfed.recovery.settings import Settings
from hopfed.spectral.rank import RankRule

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

    Parameters
    ----------
    federation : the clients, with complete rows.
    first : what the spectrum of all rows gave.
    rule, settings, seed : of the passes over the rest.

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
        federation.include(rest)
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
