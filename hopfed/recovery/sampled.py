"""A part of a large table, in which classes are searched and judged; then all rows and columns say
what the classes are.

Search and verdict take a hundred exchanges and more, over the rows and over replicas of them. A
table of many observed entries has more of them than these need. Rows come first: each class must
have its own, so a wide table is searched in some of its columns, and in few rows never.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hopfed._lib.random import stream
from hopfed.archetypes.graded.fitting.expectation_maximization import (
    Fit,
    expect,
    improve,
    iterate,
    told,
)
from hopfed.archetypes.graded.fitting.mixture import Prior, added, weighted_sums
from hopfed.archetypes.graded.owners.asking import Owner, Owners, Variables
from hopfed.federation.messages import Message
from hopfed.spectral.equal_rows import Rows
from hopfed.spectral.reread_rows import Reread
from hopfed.spectral.rows import columns_of

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
    table : all rows of all owners.
    directions : that the spectrum shows.
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
    """Classes of a part of a table, as all rows and columns have them.

    Parameters
    ----------
    table : all rows of all owners.
    part : what was searched.
    fit : the classes there.
    """
    prior = part.prior
    if prior is None:
        return fit
    table.exchanges += part.owners.exchanges
    if part.columns is None:
        return improve(table, expect(table, fit.classes, prior), LAST)
    shared, own = told(fit.classes)
    shared["columns"] = part.columns.astype(np.int32)
    variables = part.owners.variables

    def by_columns(owner: Owner, asked: Message) -> Message:
        if isinstance(owner.rows, Reread):
            return added(owner, owner.rows, by_columns, asked)
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
