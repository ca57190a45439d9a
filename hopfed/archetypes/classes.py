"""`Classes`: latent classes, each with a mean of its own in every column, of rows with gaps.

What owners and server say to each other is in the tables of `hopfed.archetypes.factorize` (for the
count in whitened coordinates) and `hopfed.archetypes.class_questions`; most exchanges are a step of
expectation maximisation.

Classes are searched and tested in a part of a large table; then all rows and columns say what the
classes are. Rows come first: each class must have its own, so a wide table is searched in some of
its columns, and in few rows never.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from hopfed._lib.arrays import to_host
from hopfed._lib.random import stream
from hopfed.archetypes.archetypes import Archetypes
from hopfed.archetypes.channel import choose, lost, nearness, open_error
from hopfed.archetypes.class_questions import TINY, score_sums, sums_in_columns
from hopfed.archetypes.factorize import mean_of, pooled
from hopfed.archetypes.judging import in_order, measured, trait_gain
from hopfed.archetypes.mixture import (
    Fit,
    Prior,
    class_messages,
    collected,
    expect,
    improve,
    iterate,
    remind,
)
from hopfed.archetypes.relate import share_errors
from hopfed.archetypes.search import Search, find_classes, likeliest, so_many
from hopfed.archetypes.session import Owners, Recovery, Variables, by_blocks, total
from hopfed.archetypes.status import FOUND, judge_classes
from hopfed.archetypes.weights import is_survey
from hopfed.errors import ArgumentError, DataError
from hopfed.spectral.rank import RankRule, TracyWidom
from hopfed.spectral.rows import thinned
from hopfed.spectral.whitening import whitened

SEARCHED = 10_000_000  # observed entries; of a table of more, a part is searched
SPARSEST = 0.25  # share of observed entries below which a part grows no further
FEWEST, EACH = 2_000, 100  # rows of that part: at least, and for each direction of the spectrum
LAST = 10  # exchanges over the whole table, where classes were searched in a part


@dataclass(frozen=True)
class Classes:
    """The estimator of the graded channel."""

    rule: RankRule = field(default_factory=TracyWidom)  # counts the spectrum
    search: Search = field(default_factory=Search)  # settings of the search for classes
    # numbers of the columns that are levels of one variable, of which a row has one
    groups: Sequence[Sequence[int]] = ()
    # numbers of the columns that are thresholds of one ordered answer, in turn
    steps: Sequence[Sequence[int]] = ()
    # of the columns, for what is said of them; their numbers, from 1, when left out
    names: Sequence[str] | None = None
    # of the classes, where it is given: the verdict says what the rows think of it
    number: int | None = None

    def fit(self, session: Owners, state: Archetypes | None = None) -> Recovery:
        """Recover classes from owners of rows of -1, 0 (missing) and +1, or packed bits."""
        seed = session.seed
        try:
            mean = mean_of(session)
            white = whitened(pooled(session), self.rule, mean=mean, seed=seed, groups=self.groups)
        except ArgumentError:
            raise DataError("fewer than two columns hold both values") from None
        U, variances = to_host(white.spectrum.vectors), np.asarray(white.variances)
        given = [owner.rows for owner in session.members]
        owners = Owners.of(given, seed, self.groups, self.steps)
        part = searched(owners, U.shape[1], self.groups)
        there = slice(None) if part.columns is None else part.columns
        known = state.patterns[:, there] if state is not None and len(state) else None
        fit = find_classes(part.owners, U[there], variances[there], self.search, known)
        free = fit.size
        if self.number is not None:
            fit = so_many(part.owners, fit, U[there], variances[there], self.number)
            if fit.size != self.number:
                few = f"{self.number} archetypes: these rows have no more than {fit.size} apart"
                raise DataError(few)
        tests = measured(part.owners, fit, U.shape[1], self.names)
        fit = on_the_whole(owners, part, fit)
        asked = None if self.number is None else likeliest(owners, fit)
        order = np.argsort(-fit.sums.counts.sum(axis=0), kind="stable")
        channel = choose(fit, lost(fit, seed))
        if any(is_survey(owner.rows) for owner in owners.members):  # rows of unequal weight
            remind(owners, fit)
            answers = owners.ask(score_sums, {})
            once, twice = (np.maximum(total(answers, n), TINY) for n in ("once", "twice"))
            channel = replace(channel, errors=channel.errors * np.sqrt(twice / once))
        means, errors = channel.means[order], channel.errors[order]
        channel = replace(channel, means=means, errors=errors)
        each = fit.classes.shares[:, order]
        shares = owners.sizes @ each / owners.n_rows
        near = nearness(channel, shares, owners.n_rows, fit.prior.observed)
        changes, follow = in_order(session, channel.means, shares)
        more: dict[str, Any] = {"near": near, "order": changes, "follow": follow}
        if self.number is not None:
            more["free"] = free
        if not self.groups:  # levels depend on each other in either model
            more["trait"] = trait_gain(owners, channel, shares, fit.prior)
        verdict = judge_classes(replace(tests, **more))
        error: Any = channel.quality_error
        explained = verdict.status in (*FOUND, "one class")
        errors = open_error(channel, shares, owners.n_rows * fit.prior.observed)
        unknown, K = np.full(fit.size, np.nan), fit.size
        found = Archetypes(
            patterns=np.where(channel.means < 0, -1, 1).astype(np.int8),
            scores=unknown,
            predicted_scores=unknown,
            exposures=shares,
            quality=float(np.sqrt((channel.means**2).mean())),
            n_detected=min(U.shape[1], K) if explained else U.shape[1],
            explained=np.nan,
            status=verdict.status,
            advice=verdict.advice,
            channel=channel.name,
            residual=tests.residual.ratio,
            graded_means=channel.means,
            own_errors=errors,
            quality_error=float(error) if channel.name == "symmetric" else np.nan,
            spread=channel.spread,
            client_shares=each,
        )
        rows = [owner.rows for owner in owners.members]
        if all(own.held for own in rows):
            label = Variables.of(self.groups, session.n_columns, self.steps).label
            errors = share_errors(replace(found, levels=label), rows)
            found = replace(found, exposure_errors=errors)
        session.traffic.add(owners.traffic)
        session.exchanges += owners.exchanges
        return Recovery(
            archetypes=found,
            eigenvalues=white.spectrum.values,
            threshold=white.rank.threshold,
            rule=white.rank.rule,
            constant_columns=white.dropped,
            residual=tests.residual,
            log_likelihood=fit.sums.log_likelihood / max(float(fit.sums.seen.sum()), 1.0),
            likeliest=asked,
        )


@dataclass(frozen=True)
class Part:
    """The part of a table that is searched."""

    owners: Owners  # with the rows and columns that are searched
    columns: np.ndarray | None = None  # numbers (n,) of these columns; None where it is all of them
    prior: Prior | None = None  # of the whole table, where there is something beside


def searched(table: Owners, directions: int, groups: Sequence[Sequence[int]] = ()) -> Part:
    """Choose rows, and where these are long columns, at random."""
    M, N = sum(place.rows.shape[0] for place in table.members), table.n_columns
    if M * N <= SEARCHED:
        return _all_of(table)
    prior = Prior.of(table)
    most = int(SEARCHED / max(float(prior.observed.mean()), SPARSEST))
    if most >= M * N:
        return _all_of(table)
    rows = min(M, max(most // N, FEWEST, EACH * directions))
    steps = () if table.variables is None else table.variables.steps
    columns = _columns(table.seed, N, max(2, most // rows), [*groups, *steps])
    parts = []
    for place in table.members:
        part, size = place.rows, len(place.rows)
        few = min(size, max(2, int(size * rows / M)))
        rng = stream(table.seed, "searched rows", place.index)
        if few < size and part.counts is not None:
            part = thinned(part, few / size, rng)
        elif few < size:
            part = part[np.sort(rng.permutation(size)[:few])]
        part = part if columns is None else part.columns(columns)
        parts.append(part if part.held else part[:])
    within: list[Sequence[Sequence[int]]] = [groups, steps]
    if columns is not None:  # by their place among these
        at = {int(c): i for i, c in enumerate(columns)}
        within = [[[at[c] for c in g] for g in each if all(c in at for c in g)] for each in within]
    owners = Owners.of(parts, table.seed, *within)
    owners.traffic, owners.columns = table.traffic, columns
    return Part(owners, columns, prior)


def _all_of(table: Owners) -> Part:
    """A whole table, whose rows are few enough to be held whatever the limit of memory is."""
    for place in table.members:
        if not place.rows.held:
            place.rows = place.rows[:]
    return Part(table)


def on_the_whole(table: Owners, part: Part, fit: Fit) -> Fit:
    """Classes of a part of a table, as all rows and columns have them."""
    prior = part.prior
    if prior is None:
        return fit
    table.exchanges += part.owners.exchanges
    if part.columns is None:
        return improve(table, expect(table, fit.classes, prior), LAST)
    shared, own = class_messages(fit.classes)
    shared["columns"] = part.columns.astype(np.int32)
    question = by_blocks(partial(sums_in_columns, part.owners.variables))
    return iterate(table, collected(table.ask(question, shared, own)), prior, LAST)


def _columns(seed: int, n: int, most: int, groups: Sequence[Sequence[int]]) -> np.ndarray | None:
    """Numbers of at most so many columns, with all levels of a variable or none of them."""
    if most >= n:
        return None
    label = Variables.of(groups, n).label
    unit = np.where(label < 0, np.arange(n), n + label)
    drawn = stream(seed, "searched columns").permutation(np.unique(unit))
    sizes = np.bincount(unit)[drawn]
    kept = drawn[: max(1, int((np.cumsum(sizes) <= most).sum()))]
    return np.flatnonzero(np.isin(unit, kept))
