"""The owner of a file as a client: exact sums for a trusted server, or noise and a ledger.

Ledger, noise and answers use rows whose columns lie in the order of their names
(`hopfed.hopfield.announcement`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from hopfed import kernels
from hopfed.errors import DataError
from hopfed.federation.contract import Call
from hopfed.hopfield.announcement import check_columns, column_order
from hopfed.hopfield.clients import ClassClient, PatternClient, client_from_recipe
from hopfed.hopfield.example_sources import BatchSource
from hopfed.hopfield.privacy_ledger import Ledger, Terms
from hopfed.kernels import Rows


@dataclass(frozen=True)
class Owner:
    """Owner of a file: grants a server exact sums of its rows, or noise within its budget."""

    rows: Rows  # the examples, as its records know them (`sort_columns`)
    ledger: Ledger  # the privacy budget, charged before anything noisy is sent
    epsilon: float | None = None  # with delta, of all answers; None sends exact sums
    delta: float = 1e-5
    names: tuple[str, ...] = ()  # of the columns, in their order; empty without names
    outcome: Any = field(default=None, repr=False)  # a `relate.Column` beside the rows

    def asked(self, recipe: str, names: Sequence[object], call: Call) -> Any:
        """Return a client with these rows that answers the `call`; fail if the owner refuses."""
        method: Any = client_from_recipe(recipe)
        check_columns(self.names, self.rows.shape[1], names)
        if method.n_sites != self.rows.shape[1]:
            raise DataError(f"the federation has {method.n_sites} columns, my file another number")
        if isinstance(method, PatternClient) and (self.rows.gaps or self.rows.counts is not None):
            raise DataError("these rows have gaps, or weights of a survey: serve --graded")
        if (noise := method.noise) is None:
            if self.epsilon is not None:
                raise DataError("this client answers with noise only: serve --epsilon")
            if self.ledger.released(self.rows):
                raise DataError("these examples have a privacy budget: join --epsilon")
            beside = () if self.outcome is None else (self.outcome,)
            return replace(method, source=BatchSource((self.rows,), method.source.rounds, beside))
        if self.epsilon is None:  # a server does not set the owner's terms
            raise DataError("this client agreed to no epsilon: join --epsilon, or serve without")
        if not (noise.epsilon <= self.epsilon and noise.delta <= self.delta):
            raise DataError("the federation asks for more than this client's epsilon and delta")
        units = method.units if isinstance(method, ClassClient) else 0
        BatchSource((self.rows,), method.source.rounds).examples(call.context.round, 0)
        method.check(call.down, call.context)  # a refused question sets no terms
        terms = Terms(noise.epsilon, noise.delta, method.source.rounds, units)
        rows, secret = self.ledger.charge(self.rows, terms)
        spend = partial(self.ledger.spend, rows, terms)
        mine = replace(noise, secret=secret, spend=spend)
        return replace(method, source=BatchSource((rows,), method.source.rounds), noise=mine)


def sort_columns(rows: Rows, names: Sequence[str], ledger: Ledger) -> Rows:
    """Put an owner's columns in the order of their names, as in its ledger and answers."""
    found, look = reorder_columns(rows, column_order(names)), replace(ledger, look=True)
    alphabetic = sorted(range(len(names)), key=lambda j: names[j])
    known = look.released(found)
    if any(look.released(other) > known for other in (rows, reorder_columns(rows, alphabetic))):
        raise DataError(
            "these rows had noise with their columns in another order, from an earlier hopfed: "
            "they are not released anew"
        )
    return found


def reorder_columns(rows: Rows, places: Sequence[int] | np.ndarray) -> Rows:
    """Reorder an owner's columns: column j of the result is column ``places[j]`` of `rows`."""
    if not len(places) or (np.diff(places) == 1).all():
        return rows
    found: Rows = kernels.transpose(kernels.transpose(rows)[np.asarray(places)])
    return replace(found, counts=rows.counts)
