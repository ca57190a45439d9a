"""`recover_graded`: from rows with gaps, in one place or several, to classes and a verdict.

What owners and server say to each other, each line one kind of exchange (`Owners` counts them):

1. column sums up;
2. whitened basis down; a few centres of projections up, each of at least five rows; centres down,
   sums over the nearest rows up; K x K sums of random groups up;
3. classes down; per class the count, the N sums and numbers of observed entries, per pair of
   classes how often rows may be of both, and one log-likelihood up. This is a step of expectation
   maximisation, and most exchanges are it;
4. for each class a direction down, its product with the class's residual moment up, and the sums
   over its rows that are explained well (splitting);
5. the verdict: the same of the residuals of all rows, seven sums over rows, and for points where
   rows may lie their parts down, a slope and products of slopes for each up; of the rows and of
   replicas that the owners draw themselves.

The operator, from which the whitened spectrum comes, travels before that, as in
`hopfed.recovery.moments`.

A part of a large table, in which classes are searched and judged; then all rows and columns say
what the classes are.

Search and verdict take a hundred exchanges and more, over the rows and over replicas of them. A
table of many observed entries has more of them than these need. Rows come first: each class must
have its own, so a wide table is searched in some of its columns, and in few rows never.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from hopfed._lib.arrays import Array, to_host
from hopfed._lib.random import stream
from hopfed._lib.settings import require
from hopfed.archetypes.archetypes import Archetypes
from hopfed.archetypes.graded.fitting.channel import choose
from hopfed.archetypes.graded.fitting.expectation_maximization import (
    Fit,
    expect,
    improve,
    iterate,
    told,
)
from hopfed.archetypes.graded.fitting.mixture import Prior, weighted_sums
from hopfed.archetypes.graded.fitting.search import Search, find_classes
from hopfed.archetypes.graded.owners.asking import Owner, Owners, Variables, by_blocks
from hopfed.archetypes.graded.verdict.judging import Residual, judge
from hopfed.archetypes.graded.verdict.resolution import lost, unresolved
from hopfed.federation.messages import Message, Traffic
from hopfed.kernels import PackedBits
from hopfed.spectral.equal_rows import Rows
from hopfed.spectral.reread_rows import Reread
from hopfed.spectral.rows import columns_of
from hopfed.spectral.whitening import Whitened

SEARCHED = 10_000_000  # observed entries; of a table of more, a part is searched
SPARSEST = 0.25  # share of observed entries below which a part grows no further
FEWEST, EACH = 2_000, 100  # rows of that part: at least, and for each direction of the spectrum
LAST = 10  # exchanges over the whole table, where classes were searched in a part


@dataclass(frozen=True)
class Part:
    """The part of a table that is searched.

    Attributes
    ----------
    owners : with the rows and columns that are searched.
    columns : numbers (n,) of these columns; None where it is all of them.
    prior : of the whole table, where there is something beside.
    """

    owners: Owners
    columns: np.ndarray | None = None
    prior: Prior | None = None

    @property
    def whole(self) -> bool:
        """Whether there is nothing beside."""
        return self.prior is None


def searched(
    table: Owners, directions: int, groups: Sequence[Sequence[int]] = (), influence: float = 1.0
) -> Part:
    """Choose rows, and where these are long columns, at random.

    Parameters
    ----------
    groups : numbers of the columns that are levels of one variable; these stay together.
    influence : part of all rows that one owner may stand for.
    """
    M, N = sum(place.rows.shape[0] for place in table.members), table.n_columns
    if M * N <= SEARCHED:
        return _all_of(table)
    prior = Prior.of(table, influence)
    most = int(SEARCHED / max(float(prior.observed.mean()), SPARSEST))
    if most >= M * N:
        return _all_of(table)
    rows = min(M, max(most // N, FEWEST, EACH * directions))
    columns = _columns(table.seed, N, max(2, most // rows), groups)
    parts = []
    for place in table.members:
        size = place.rows.shape[0]
        few = min(size, max(2, int(size * rows / M)))
        rng = stream(table.seed, "searched rows", place.index)
        held = Rows(place.rows, place.counts)
        if few < size:
            held = (
                held.thinned(few / size, rng)
                if place.counts is not None
                else Rows(place.rows[np.sort(rng.permutation(size)[:few])])
            )
        part = held.entries if columns is None else columns_of(held.entries, columns)
        parts.append(Rows(part[:] if isinstance(part, Reread) else part, held.counts))
    owners = Owners.of(parts, table.seed, _within(groups, columns))
    owners.traffic, owners.columns = table.traffic, columns
    return Part(owners, columns, prior)


def _all_of(table: Owners) -> Part:
    """A whole table, whose rows are few enough to be held whatever the limit of memory is."""
    for place in table.members:
        if isinstance(place.rows, Reread):
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
    shared, own = told(fit.classes)
    shared["columns"] = part.columns.astype(np.int32)
    variables = part.owners.variables

    @by_blocks
    def by_columns(owner: Owner, asked: Message) -> Message:
        some = columns_of(owner.rows, asked["columns"])
        seen = Owner(some, owner.index, variables, counts=owner.counts)
        seen.learn(asked["means"], asked["shares"])
        return weighted_sums(owner, seen.weights)

    return iterate(table, prior.collect(table.ask(by_columns, shared, own)), prior, LAST)


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


def _within(groups: Sequence[Sequence[int]], columns: np.ndarray | None) -> Sequence[Sequence[int]]:
    """The groups among some columns, by their place there."""
    if columns is None:
        return groups
    place = {int(c): i for i, c in enumerate(columns)}
    return [[place[c] for c in group] for group in groups if all(c in place for c in group)]


@dataclass(frozen=True, eq=False)
class GradedArchetypes:
    """Classes of binary columns, heaviest first, and whether they are the right model.

    Attributes
    ----------
    means : (K, N) mean of each column in each class, in [-1, 1].
    errors : (K, N) standard errors of the means, in the symmetric channel at the quality r; rows
        that are unsure of their class tell less.
    spread : of the true means about the quality, which is to be added in other channels than the
        graded one.
    shares : (K,) part of all rows in each class.
    owner_shares : (L, K) the same at each owner.
    patterns : (K, N) int8 signs of the means.
    channel : "symmetric" (``T = r xi``), "by column" (``T = r_j xi``) or "graded".
    quality, quality_error : r, or r_j (N,); None in the graded channel; and the standard error of
        r, NaN in other channels than the symmetric one.
    gains : evidence of each channel, by name, up to a constant.
    residual : largest eigenvalue of the residuals, over the edge of noise, with its error.
    rows : deviation of each row statistic from its replicas, in standard deviations.
    status, advice : the verdict in a word and in a sentence.
    log_likelihood : nats for each observed entry.
    evidence : log evidence of so many classes, in nats.
    n_detected : directions of the whitened spectrum above the noise; the number of classes may
        differ from it.
    n_examples : rows of each owner.
    traffic, exchanges : bytes and numbers each way, and how often the server asked.
    """

    means: np.ndarray = field(repr=False)
    errors: np.ndarray = field(repr=False)
    shares: np.ndarray
    owner_shares: np.ndarray = field(repr=False)
    patterns: np.ndarray = field(repr=False)
    channel: str
    quality: np.ndarray | None = field(repr=False)
    gains: dict[str, float]
    residual: Residual
    rows: dict[str, float]
    status: str
    advice: str
    log_likelihood: float
    evidence: float
    n_detected: int
    n_examples: list[int]
    traffic: Traffic = field(repr=False)
    exchanges: int
    quality_error: float = np.nan
    spread: float = 0.0

    @property
    def size(self) -> int:
        """Number of classes K."""
        return len(self.means)

    def archetypes(self) -> Archetypes:
        """Return the classes as archetypes: signs as patterns, shares as exposures."""
        K, unknown = self.size, np.full(self.size, np.nan)
        return Archetypes(
            patterns=self.patterns,
            scores=unknown,
            predicted_scores=unknown,
            exposures=self.shares,
            quality=float(np.sqrt((self.means**2).mean())) if K else 0.0,
            n_detected=self.n_detected,
            explained=np.nan,
            status=self.status,
            advice=self.advice,
            matches=np.zeros(0, dtype=np.int64),
            channel=self.channel,
            residual=self.residual.ratio,
            graded_means=self.means,
            own_errors=self.errors,
            quality_error=self.quality_error,
            spread=self.spread,
            client_shares=self.owner_shares,
        )

    def responsibilities(self, rows: PackedBits | Array, owner: int | None = None) -> np.ndarray:
        """Probability (M, K) of each class for rows, computed where the rows are.

        Parameters
        ----------
        rows : (M, N) of -1, 0 (missing) and +1.
        owner : whose shares to use; those of all owners together when None.
        """
        shares = self.shares if owner is None else self.owner_shares[owner]
        place = Owner(rows)
        place.learn(self.means, shares)
        return to_host(place.posterior)


def recover_graded(
    rows: Sequence[PackedBits | Array],
    *,
    seed: int,
    whitened: Whitened,
    patterns: np.ndarray | None = None,
    search: Search | None = None,
    groups: Sequence[Sequence[int]] = (),
    names: Sequence[str] | None = None,
) -> GradedArchetypes:
    """Recover graded archetypes: latent classes of binary columns with gaps.

    Parameters
    ----------
    rows : of each owner, (M, N) of -1, 0 (missing) and +1, or packed bits; they stay with it.
    seed : of every random choice; the same seed gives the same result.
    whitened : the count of the pooled operator in whitened coordinates: where the search starts.
    patterns : (C, N) of +-1 that `hopfed.recover` found in the same rows: one more start, which
        goes further where classes are many and every column has the same noise.
    groups : numbers of the columns that are levels of one variable, of which a row has one.
    names : of the columns, for what is said of them; their numbers, from 1, when left out.

    Returns
    -------
    GradedArchetypes. Look at `status`: "ok" is said only where columns are independent within
    classes, rows lie in them as rows of classes do, and every class is known well; "detected, not
    resolved" where some class is not; "one class" where there is nothing to recover; "structure,
    but not classes" and "copies" where the table is something else.

    Raises
    ------
    ArgumentError : owners with different columns, a basis of another length.
    """
    owners = Owners.of(rows, seed, groups)
    U, variances = to_host(whitened.spectrum.vectors), np.asarray(whitened.variances)
    N = owners.n_columns
    require(len(U) == N, "whitened", f"of {N} columns, as the rows", len(U))
    search = search or Search()
    part = searched(owners, U.shape[1], groups, search.influence)
    there = slice(None) if part.columns is None else part.columns
    known = None if patterns is None else patterns[:, there]
    fit = find_classes(part.owners, U[there], variances[there], search, known)
    verdict = judge(part.owners, fit, U.shape[1], names)
    fit = on_the_whole(owners, part, fit)
    channel = choose(fit, lost(fit, seed))
    error = channel.quality_error
    order = np.argsort(-fit.sums.counts.sum(axis=0), kind="stable")
    means, errors, shares = channel.means[order], channel.errors[order], _shares(owners, fit, order)
    status, advice = verdict.status, verdict.advice
    classes = means, errors, shares["shares"], channel.name
    blurred = unresolved(*classes, float(owners.sizes.sum()), fit.prior.observed)
    if status == "ok" and blurred is not None:
        status, advice = blurred.status, blurred.advice
    return GradedArchetypes(
        means=means,
        errors=errors,
        patterns=np.where(channel.means[order] < 0, -1, 1).astype(np.int8),
        **shares,
        channel=channel.name,
        quality=channel.quality,
        gains=channel.gains,
        residual=verdict.residual,
        rows=verdict.rows,
        status=status,
        advice=advice,
        log_likelihood=fit.sums.log_likelihood / max(float(fit.sums.seen.sum()), 1.0),
        evidence=fit.evidence,
        n_detected=min(U.shape[1], fit.size) if verdict.status == "ok" else U.shape[1],
        n_examples=owners.sizes.tolist(),
        traffic=owners.traffic,
        exchanges=owners.exchanges,
        quality_error=np.nan if error is None or error.ndim else float(error),
        spread=channel.spread,
    )


def _shares(owners: Owners, fit: Fit, order: np.ndarray) -> dict[str, np.ndarray]:
    """Shares over all rows, by what they count, and at each owner."""
    each = fit.classes.shares[:, order]
    weights = owners.sizes * fit.prior.influence
    return {"shares": weights @ each / weights.sum(), "owner_shares": each}
