"""Whether a table is fit for a federation: all that is in the way, said before a server is asked.

What would be refused in a round is refused here, with the words for its owner: too few rows, gaps
where whole rows are needed, codings that a row decides where noise is promised, and rows that an
exact operator would give away.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hopfed.errors import DataError, shown
from hopfed.tables.options import Choices
from hopfed.tables.table import is_made_up

GAPPY = 10  # columns with gaps that a line names
DIFFERING = ("words", "category", "cut")  # what owners with other rows decide otherwise
SHOWN = 5  # columns or rows that a line names


def check_fit(table: Any, limits: Any, choices: Choices, epsilon: float | None) -> None:
    """Fail with all that is in the way of taking part.

    Parameters
    ----------
    table : of the owner.
    limits : of the owner.
    choices : what the reader of the table was told.
    epsilon : of the noise; None for exact sums.

    Raises
    ------
    DataError : one line; several reasons are counted.
    """
    from hopfed.kernels import MaskedBits

    found = [*_too_few(table.shape, limits)]
    gaps = isinstance(table.held, MaskedBits)
    if gaps and not limits.classes:
        found += _gaps(table, epsilon)
    found += _unsettled(table.coding, choices, epsilon is not None, gaps=limits.classes > 0)
    exact = epsilon is None and not gaps  # with gaps no operator leaves
    if exact and not found:  # to look takes up to minutes
        found += _apart(table, limits.smallest_set)
    if len(found) == 1:
        raise DataError(f"--data: {found[0]}")
    if found:
        counted = "; ".join(f"({i}) {reason}" for i, reason in enumerate(found, start=1))
        raise DataError(f"--data: {len(found)} things are in the way: {counted}")


def _too_few(shape: tuple[int, int], limits: Any) -> list[str]:
    """Why no server could ask anything of so few rows."""
    M, N = shape
    fewest, rounds = limits.batch(N), max(limits.rounds, 1)
    if fewest * rounds <= M:
        return []
    over = f" in each of {rounds} rounds" if rounds > 1 else ""
    own = "" if limits.smallest_batch else ", twice as many as columns, and 400 at least"
    return [
        f"{M:,} rows, where {fewest:,} are needed{over} (--smallest-batch{own}): sums of fewer "
        "tell of single rows, so such a table had better stay out"
    ]


def _gaps(table: Any, epsilon: float | None) -> list[str]:
    """Where entries are missing though operators need whole rows, and what to do."""
    from hopfed import kernels

    rows = table.held
    gaps = len(rows) - np.asarray(kernels.seen_counts(rows))
    order = [j for j in np.argsort(-gaps, kind="stable").tolist() if gaps[j]]
    some = ", ".join(f"'{shown(table.columns[j], 60)}' {gaps[j]:,}" for j in order[:GAPPY])
    more = f" and {len(order) - GAPPY:,} columns more" if len(order) > GAPPY else ""
    noisy = "--classes 9" if epsilon is not None else "--classes 9 --epsilon 4"
    return [
        f"{gaps.sum():,} entries are missing (by column: {some}{more}), and operators need "
        f"whole rows: join with {noisy} where whoever serves runs serve --graded --epsilon 4; or "
        "fill them first (hopfed recover --out own.h5, then hopfed complete own.h5); or leave such "
        "columns out (--ignore)"
    ]


def _unsettled(coding: Any, choices: Choices, noisy: bool, gaps: bool) -> list[str]:
    """Columns that are coded by what the rows hold.

    Other owners' rows decide otherwise, so that +1 means something else there. With noise one row
    changes others, which the noise does not hide.
    """
    from hopfed.cli.machines.settling import settling
    from hopfed.tables.choosing import unsettled
    from hopfed.tables.table import listed

    found = unsettled(coding, choices, gaps)
    if not noisy:
        found = {name: reason for name, reason in found.items() if reason in DIFFERING}
    if not found:
        return []
    if not noisy:
        return [
            f"what the rows hold decides how column {listed(list(found))} is coded, so that other "
            "owners' columns mean something else; say it yourself, all owners alike, without these "
            f"rows: {settling(found, coding, choices)}"
        ]
    return [
        f"what the rows hold decides how column {listed(list(found))} is coded, so that one row "
        "changes others, which the noise of --epsilon does not hide; say it yourself, by what you "
        f"know without these rows: {settling(found, coding, choices)}"
    ]


def _apart(table: Any, smallest_set: int) -> list[str]:
    """Why an exact operator would hold single rows, however they are dealt out."""
    from hopfed.hopfield.leaks.broken_relations import broken_by
    from hopfed.hopfield.leaks.columns_apart import set_apart
    from hopfed.hopfield.leaks.rare_values import given_away

    rows, names, reasons = table.held, called(table.columns), []
    found = set_apart(rows, smallest_set)
    if found:
        named = _some([" with ".join(names[i] for i in columns) for columns in found])
        reasons.append(
            f"column {named} set fewer than {smallest_set} rows apart from all others, and an "
            "exact operator would hold them: leave out such columns, or rows, or join with "
            "--epsilon, or with a smaller --smallest-set"
        )
    away = given_away(rows, smallest_set)
    if away:
        reasons.append(
            f"{away:,} of {len(rows):,} rows can be put together from their rare values, of which "
            "few pairs occur: join with --epsilon, or with more rows, or leave out columns of rare "
            "values, or join with --smallest-set 1"
        )
    alone = broken_by(rows, smallest_set)
    if len(alone):
        reasons.append(
            f"row {_some([str(m + 1) for m in alone])} break relations of columns that others "
            "keep, and an exact operator would hold them: leave them out, or such columns, or join "
            "with --epsilon, or with --smallest-set 1"
        )
    return reasons


def called(columns: tuple[str, ...]) -> list[str]:
    """Return what a line calls columns: their names, or places where these were made up.

    Examples
    --------
    >>> called(("tea", "tree")), called(("column 1", "column 2"))
    (["'tea'", "'tree'"], ['1', '2'])
    """
    if is_made_up(columns):
        return [str(j) for j in range(1, len(columns) + 1)]
    return [f"'{shown(name, 60)}'" for name in columns]


def _some(named: list[str]) -> str:
    """Return the first few of these in words."""
    more = f" and {len(named) - SHOWN:,} more" if len(named) > SHOWN else ""
    return ", ".join(named[:SHOWN]) + more
