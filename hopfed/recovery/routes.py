"""Two ways to archetypes, by the channel of the examples, and when the first is enough.

The symmetric channel flips every column of an example equally often: its archetypes are binary
patterns, found from second moments. The graded channel has a mean for each class and column.

Source: theory/NOTES.md, "Check of the symmetric channel" and "Latent class channel".
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from scipy.stats import norm

from hopfed.archetypes.factorize import Archetypes, Groups, factorize
from hopfed.archetypes.joint_diagonalization import JointDiagonalization
from hopfed.errors import ArgumentError, DataError
from hopfed.federation.messages import Traffic
from hopfed.recovery.graded import GradedArchetypes, recover_graded
from hopfed.recovery.one_round import Federation, orient
from hopfed.recovery.settings import Settings
from hopfed.recovery.symmetric import check_channel
from hopfed.spectral.eigenpairs import Spectrum
from hopfed.spectral.rank import Counting, RankEstimate, RankRule
from hopfed.spectral.whitening import whitened
from hopfed.tables.coding import Coding
from hopfed.tables.table import is_made_up

MANY = 100  # directions from which part of the patterns is not searched for classes: it takes long
CHANCE = 1e-3  # of a mean column that noise alone would call a class


@dataclass(frozen=True)
class Recovery:
    """Archetypes, and what it took to get them.

    Attributes
    ----------
    archetypes : what was found.
    traffic : bytes and numbers each way, by client.
    exchanges : times the server heard from the clients.
    dense_nbytes : bytes of the N x N operator in float32, which the paper's clients send.
    eigenvalues : leading eigenvalues of the pooled operator, descending.
    threshold : the value above which an eigenvalue counts.
    rule : the rank rule in words.
    n_examples : examples of each client.
    constant_columns : columns that hold one value over all clients, or none.
    graded : classes with all that is known of them, where the channel is not the symmetric one.

    Examples
    --------
    >>> from hopfed.data.channel import draw_examples, rademacher
    >>> from hopfed.recovery.recover import run_recovery
    >>> rng = np.random.default_rng(1)
    >>> recovery = run_recovery(draw_examples(rademacher(3, 200, rng), 600, 0.8, rng)[0], seed=1)
    >>> recovery.archetypes.n_detected, int((recovery.eigenvalues > recovery.threshold).sum())
    (3, 3)
    >>> recovery.rule
    'Tracy-Widom at a false-alarm rate of 0.001'
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


def symmetric_recovery(
    federation: Federation, mean: np.ndarray, rule: RankRule, settings: Settings, seed: int
) -> Recovery:
    """Recover patterns whose examples are flipped equally often in every column.

    Parameters
    ----------
    federation : the clients, whose rows are complete.
    mean : (N,) of all examples; it orients the patterns.
    rule : of the count.
    settings : of the recovery.
    seed : of every random choice.
    """
    rank, spectrum = counted(federation, rule, settings.quality)
    projections = None
    if settings.method in ("auto", "joint") and rank.n_detected:
        projections = Groups(*federation.project(spectrum.vectors, settings.groups))
    found = factorize(
        spectrum,
        rank,
        groups=projections,
        method=settings.method,
        joint=JointDiagonalization(groups=settings.groups),
        search=settings.search,
        seed=seed,
    )
    patterns = orient(found.patterns, mean)
    if settings.refit and len(patterns):
        patterns = federation.refit(patterns)
    return Recovery(
        archetypes=replace(found, patterns=patterns),
        traffic=federation.traffic,
        exchanges=federation.exchanges,
        dense_nbytes=federation.clients[0].dense_nbytes,
        eigenvalues=spectrum.values,
        threshold=rank.threshold,
        rule=rank.rule,
        n_examples=[c.rows.shape[0] for c in federation.clients],
        constant_columns=np.flatnonzero(np.abs(mean) == 1),
    )


def is_final(
    federation: Federation, mean: np.ndarray, found: Archetypes, settings: Settings
) -> bool:
    """Whether the answer of the symmetric channel is the last word.

    Where it finds archetypes the rows are asked, one exchange more: second moments alone take
    blocks of columns, traits and chains for archetypes. Where it finds none the columns must be
    fair coins.

    Parameters
    ----------
    federation : the clients.
    mean : (N,) of all examples.
    found : what the symmetric channel gives.
    settings : of the recovery.
    """
    if settings.only_symmetric or (found.n_detected > MANY and found.status == "incomplete"):
        return True
    if found.status == "no signal":
        examples = sum(op.mass for op in federation.clients)
        return bool(np.abs(mean).max() <= norm.isf(CHANCE / (2 * len(mean))) / np.sqrt(examples))
    if not len(found) or found.status not in ("ok", "incomplete"):
        return False
    return check_channel(federation.agreement(found.patterns), federation.n_sites).holds


def graded_recovery(
    federation: Federation,
    mean: np.ndarray,
    rule: RankRule,
    symmetric: Recovery | None,
    seed: int,
    coding: Coding | None = None,
) -> Recovery:
    """Recover classes that have a mean of their own in every column.

    Parameters
    ----------
    federation : the clients, whose rows may have gaps.
    mean : (N,) of the rows, 0 where an entry is missing.
    rule : of the count in whitened coordinates.
    symmetric : what the symmetric channel gave: one more start.
    seed : of every random choice.
    coding : of the columns, where they have names; its groups are levels of one variable.

    Raises
    ------
    DataError : fewer than two columns vary.
    """
    try:
        groups = () if coding is None else coding.groups
        white = whitened(federation.pooled(), rule, mean=mean, seed=seed, groups=groups)
    except ArgumentError:
        if symmetric is not None:
            return symmetric
        raise DataError("fewer than two columns hold both values") from None
    known = None if symmetric is None else symmetric.archetypes.patterns
    found = recover_graded(
        [c.rows for c in federation.clients],
        seed=seed,
        whitened=white,
        patterns=known if known is not None and len(known) else None,
        groups=groups,
        names=None if coding is None or is_made_up(coding.columns) else coding.columns,
    )
    federation.traffic.add(found.traffic)
    return Recovery(
        archetypes=found.archetypes(),
        traffic=federation.traffic,
        exchanges=federation.exchanges + found.exchanges,
        dense_nbytes=federation.clients[0].dense_nbytes,
        eigenvalues=white.spectrum.values,
        threshold=white.rank.threshold,
        rule=white.rank.rule,
        n_examples=found.n_examples,
        constant_columns=white.dropped,
        graded=found,
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
    >>> from hopfed.data.channel import draw_examples, rademacher
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
    if first.n_detected == 0 or quality is not None or len(federation.clients) == 1:
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
