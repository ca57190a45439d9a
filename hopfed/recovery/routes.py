"""Two ways to archetypes, by the channel of the examples, and when the first is enough.

The symmetric channel flips every column of an example equally often: its archetypes are binary
patterns, found from second moments. The graded channel has a mean for each class and column.

Source: theory/NOTES.md, "Check of the symmetric channel" and "Latent class channel".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.stats import norm

from hopfed.archetypes.archetypes import Archetypes
from hopfed.archetypes.graded.fitting.search import Search
from hopfed.archetypes.status import ALIKE, FEW_COLUMNS, FOUND, HIDDEN, UNLIKE
from hopfed.errors import ArgumentError, DataError
from hopfed.federation.messages import Traffic
from hopfed.recovery.graded import GradedArchetypes, recover_graded
from hopfed.recovery.moments import Federation, orient
from hopfed.recovery.patterns import is_crowded, one_pass, peel
from hopfed.recovery.settings import Settings
from hopfed.spectral.rank import RankRule
from hopfed.spectral.whitening import Holdings, whitened

MANY = 100  # directions from which part of the patterns is not searched for classes: it takes long
CHANCE = 1e-3  # of a mean column that noise alone would call a class
STRAYS = 0.01  # of the rows, that may resemble no pattern shown beside those of hidden ones
NARROW = 20  # columns; in fewer the overlaps of rows cannot tell the channels apart
BLURRED = 50  # the same where the patterns are not all found, or not resolved


@dataclass(frozen=True, eq=False)
class Recovery:
    """Result of a recovery: archetypes, spectrum and traffic.

    Attributes
    ----------
    archetypes : what was found.
    traffic : bytes and numbers each way, by client.
    exchanges : times the server heard from the clients.
    dense_nbytes : bytes of the N x N operator in float32, which the paper's clients send.
    raw_nbytes : bytes of the rows of each client in bits, which nobody sends.
    eigenvalues : leading eigenvalues of the pooled operator, descending.
    threshold : the value above which an eigenvalue counts.
    rule : the rank rule in words.
    n_examples : examples of each client.
    constant_columns : columns that hold one value over all clients, or none.
    graded : classes with all that is known of them, where the channel is not the symmetric one.
    layers : in which the archetypes came out; more than 1 where one spectrum was too crowded.
    hidden : number of patterns that too few examples resemble for them to be shown.
    readings : times that the examples were read; more than once where they do not fit into memory.
    """

    archetypes: Archetypes
    traffic: Traffic
    exchanges: int
    dense_nbytes: int
    eigenvalues: np.ndarray = field(repr=False)
    threshold: float
    rule: str
    n_examples: list[int]
    constant_columns: np.ndarray
    graded: GradedArchetypes | None = field(default=None, repr=False)
    layers: int = 1
    hidden: int = 0
    readings: int = 1
    raw_nbytes: list[int] = field(default_factory=list)


def symmetric_recovery(
    federation: Federation, mean: np.ndarray, rule: RankRule, settings: Settings, seed: int
) -> Recovery:
    """Recover patterns whose examples are flipped equally often in every column.

    Parameters
    ----------
    mean : (N,) of all examples; it orients the patterns.
    """
    found = one_pass(federation, rule, settings, seed)
    archetypes, layers = found.archetypes, 1
    wide = federation.n_sites >= BLURRED
    if settings.method == "auto" and wide and is_crowded(archetypes, federation.n_sites):
        archetypes, layers = peel(federation, archetypes, rule, settings, seed)
    if layers == 1:
        patterns = orient(archetypes.patterns, mean)
        if settings.refit and len(patterns):
            patterns = federation.refit(patterns)
        archetypes = replace(archetypes, patterns=patterns)
    shown = _supported(federation, archetypes, settings.support)
    return Recovery(
        archetypes=shown,
        traffic=federation.traffic,
        exchanges=federation.exchanges,
        dense_nbytes=federation.dense_nbytes,
        eigenvalues=found.spectrum.values,
        threshold=found.rank.threshold,
        rule=found.rank.rule,
        n_examples=federation.sizes.tolist(),
        constant_columns=np.flatnonzero(np.abs(mean) == 1),
        layers=layers,
        hidden=len(archetypes) - len(shown),
        raw_nbytes=federation.raw_nbytes,
    )


def _supported(federation: Federation, found: Archetypes, support: int) -> Archetypes:
    """Leave out the patterns that too few rows resemble; these are asked only where it is close.

    Second moments take m rows without noise for ``m / r^2`` rows of the quality r of the others.
    """
    sure = found.exposures * federation.n_rows * min(found.quality, 1.0) ** 2 >= 2 * support
    if sure.all():
        return found
    rows = sum(answer.counts for answer in federation.agreement(found.patterns))
    shown = sure | (rows >= support)
    if shown.all():
        return found
    fields = ("patterns", "scores", "predicted_scores", "exposures", "exposure_errors")
    held = {name: getattr(found, name) for name in fields}
    kept = {name: array[shown] for name, array in held.items() if array is not None}
    left = replace(found, **kept)
    if found.status not in FOUND:
        return left
    return replace(
        left,
        status="incomplete" if shown.any() else "too little data",
        advice=HIDDEN.format(hidden=(~shown).sum(), support=support),
    )


def judged(
    federation: Federation, mean: np.ndarray, recovery: Recovery, settings: Settings
) -> tuple[Recovery, bool]:
    """The answer of the symmetric channel, and whether it is the last word.

    Where it finds archetypes the rows are asked, one exchange more: second moments alone take
    blocks of columns, traits and chains for archetypes. Where it finds none the columns must be
    fair coins. Who asks for the symmetric channel by name is believed; an option that only that
    channel has a use for makes it the last word, but not a right one.

    Parameters
    ----------
    mean : (N,) of all examples.
    """
    if settings.channel == "symmetric" or recovery.layers > 1:  # peeling has asked the rows
        return recovery, True
    found = recovery.archetypes
    if (np.abs(mean) < 1).sum() < 2:
        alike = replace(found, status="too little data", advice=ALIKE)
        return replace(recovery, archetypes=alike), True
    holds = _is_borne_out(federation, mean, recovery, settings.support)
    if not settings.asked or holds or found.status not in FOUND:
        return recovery, holds or settings.only_symmetric
    advice = (FEW_COLUMNS if _is_narrow(found) else UNLIKE).format(name=settings.asked)
    return replace(recovery, archetypes=replace(found, status="poor fit", advice=advice)), True


def _is_narrow(found: Archetypes) -> bool:
    """Whether overlaps of rows over so few columns cannot tell the channels apart."""
    return int(found.patterns.shape[1]) < (NARROW if found.status == "ok" else BLURRED)


def _is_borne_out(
    federation: Federation, mean: np.ndarray, recovery: Recovery, support: int
) -> bool:
    found = recovery.archetypes
    if found.n_detected > MANY and found.status == "incomplete":
        return True
    if found.status == "no signal":
        examples = federation.n_rows
        return bool(np.abs(mean).max() <= norm.isf(CHANCE / (2 * len(mean))) / np.sqrt(examples))
    if found.status == "too little data":
        return True
    if not len(found) or found.status not in FOUND or _is_narrow(found):
        return False
    if not recovery.hidden:
        return federation.agrees(found.patterns)
    explained = federation.agreement(found.patterns, found.quality)
    rest = federation.n_rows - sum(float(a.counts.sum()) for a in explained)
    most = recovery.hidden * support + STRAYS * federation.n_rows
    return rest <= most and federation.agrees(found.patterns, found.quality)


def graded_recovery(
    federation: Federation,
    mean: np.ndarray,
    rule: RankRule,
    symmetric: Recovery | None,
    support: int,
    seed: int,
    groups: Sequence[Sequence[int]] = (),
    names: Sequence[str] | None = None,
) -> Recovery:
    """Recover classes that have a mean of their own in every column.

    Parameters
    ----------
    mean : (N,) of the rows, 0 where an entry is missing.
    symmetric : what the symmetric channel gave: one more start.
    groups : numbers of the columns that are levels of one variable.

    Raises
    ------
    DataError : fewer than two columns vary.
    """
    try:
        holdings = Holdings.of(federation.operators)
        white = whitened(
            federation.pooled(), rule, mean=mean, seed=seed, groups=groups, holdings=holdings
        )
    except ArgumentError:
        raise DataError("fewer than two columns hold both values") from None
    known = None if symmetric is None else symmetric.archetypes.patterns
    found = recover_graded(
        [owner.rows for owner in federation.members],
        seed=seed,
        whitened=white,
        search=Search(support=support),
        patterns=known if known is not None and len(known) else None,
        groups=groups,
        names=names,
    )
    federation.traffic.add(found.traffic)
    return Recovery(
        archetypes=found.archetypes(),
        traffic=federation.traffic,
        exchanges=federation.exchanges + found.exchanges,
        dense_nbytes=federation.dense_nbytes,
        eigenvalues=white.spectrum.values,
        threshold=white.rank.threshold,
        rule=white.rank.rule,
        n_examples=found.n_examples,
        constant_columns=white.dropped,
        graded=found,
        raw_nbytes=federation.raw_nbytes,
    )
