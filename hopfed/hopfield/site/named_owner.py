"""The owner of a table with names of columns: answers in the order in which a server asks for them.

Whatever order that is, and whatever order a file has them in, the owner's records are those of its
rows with the columns sorted by name, and so is its noise: it is made for the columns in that order,
and put in the server's afterwards, so that a server that asks in another order, or an owner who
saves the table in another one, gets the same bits in another order. Answers without noise are
computed from rows whose columns are in the server's order.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hopfed import kernels
from hopfed.errors import DataError
from hopfed.federation.contract import Context, Method, Metrics, State
from hopfed.federation.messages import Message, digest
from hopfed.hopfield.graded.method import GradedFederation
from hopfed.hopfield.graded.private import PrivateClasses
from hopfed.hopfield.headers import (
    BY_NAME,
    Headers,
    Introduced,
    kind_of,
    places_of,
    read_names,
)
from hopfed.hopfield.noisy import PrivateFederation
from hopfed.hopfield.site.budget import Ledger
from hopfed.hopfield.site.owner import Owner
from hopfed.kernels import MaskedBits, PackedBits
from hopfed.kernels.bits import with_gaps

Noisy = PrivateFederation | PrivateClasses


@dataclass(frozen=True)
class NamedOwner:
    """An owner, and what its columns are called.

    Attributes
    ----------
    owner : of rows as its records know them, see `as_recorded`.
    names : of the columns of the file; none where they have none.
    filed : (n,) where each column of the file is among those of the rows; None where both are in
        one order.
    """

    owner: Owner
    names: tuple[str, ...] = ()
    filed: np.ndarray | None = None
    _held: dict[bytes, Any] = field(default_factory=dict, repr=False, compare=False)

    def places(self, told: Message, run: str, gaps: bool = False) -> np.ndarray | None:
        """Where the columns of a federation are among the rows'; None where in the same order."""
        found = self._places_in_file(told, run, gaps)
        if self.filed is None:
            return found
        return self.filed if found is None else np.where(found < 0, -1, self.filed[found])

    def _places_in_file(self, told: Message, run: str, gaps: bool) -> np.ndarray | None:
        return places_of(self.names, self.owner.rows.shape[1], told, run, gaps)

    def order(self, told: Message, run: str) -> tuple[np.ndarray, tuple[str, ...] | None]:
        """Columns of a federation in the order of the file, (N,), and what they are called.

        Those that the file lacks come last.
        """
        places = self._places_in_file(told, run, gaps=True)
        known = read_names(told) if kind_of(told) == "names" else None
        if places is None:
            return np.arange(self.owner.rows.shape[1]), self.names or known
        n = self.owner.rows.shape[1]
        order = np.argsort(np.where(places < 0, n, places), kind="stable")
        lacking = () if known is None else tuple(known[j] for j in order[n:])
        return order, (*self.names, *lacking)

    def adapt(self, method: Method | Headers, told: Message, run: str) -> Any:
        """Put the rows into a method, as `Owner.adapt` does, with the columns that it is about."""
        if isinstance(method, Headers):
            return Introduced(self.names, run)
        # About exact classes columns may be absent. Who is asked what its options rule out would
        # else tell by the reason of its refusal whether all of its names are among others.
        gaps = isinstance(method, GradedFederation) and self.owner.epsilon is None
        places = self.places(told, run, gaps)
        if places is None:
            return self.owner.adapt(method)
        by_name = kind_of(told) in ("names", "sorted")
        if isinstance(method, (PrivateFederation, PrivateClasses)):
            if method.n_sites != len(places):
                raise DataError(f"{len(places):,} columns, where {method.n_sites:,} are asked for")
            own = replace(method, n_sites=self.owner.rows.shape[1])
            return InOrder(self.owner.adapt(own), by_name, method, places)
        self.owner.require_no_budget()
        return InOrder(replace(self.owner, rows=self._laid_out(places)).adapt(method), by_name)

    def _laid_out(self, places: np.ndarray) -> PackedBits | MaskedBits:
        """Rows with their columns at these places; kept, for each question is about the same."""
        key = digest({"places": places})
        if key not in self._held:
            self._held.clear()
            self._held[key] = laid_out(self.owner.rows, places)
        rows: PackedBits | MaskedBits = self._held[key]
        return rows


@dataclass(frozen=True)
class InOrder:
    """A client whose answers are put in the order of the server's columns.

    Attributes
    ----------
    client : answers.
    by_name : whether its columns were found by name, which it says.
    noisy : the method of the server, where the client's own columns are not yet in its order.
    places : (N,) where they are.
    """

    client: Any
    by_name: bool
    noisy: Noisy | None = None
    places: np.ndarray | None = field(default=None, repr=False)

    @property
    def exchanges(self) -> int:
        """Exchanges of a round that are answered."""
        return int(self.client.exchanges)

    def client_start(self, client: int, seed: int) -> State:
        """State of the client before its first round."""
        state: State = self.client.client_start(client, seed)
        return state

    def client_step(
        self, state: State, down: Message, context: Context
    ) -> tuple[State, Message, Metrics]:
        """Answer the server."""
        said = {BY_NAME: 1.0} if self.by_name else {}
        if self.noisy is None or self.places is None:
            state, up, _ = self.client.client_step(state, down, context)
            return state, up, said
        state, up, _ = self.client.client_step(state, self._asked(down), context)
        return state, {name: self._in_order(name, array) for name, array in up.items()}, said

    def _asked(self, down: Message) -> Message:
        """Return what the server said, of the columns as the rows have them."""
        if not isinstance(self.noisy, PrivateClasses) or "means" not in down:
            return down
        means, places = down["means"], self.places
        if places is None or means.shape[1:] != (len(places),):
            raise DataError("a malformed message from the server: means of other columns")
        return {**down, "means": means[:, np.argsort(places)]}

    def _in_order(self, name: str, array: np.ndarray) -> np.ndarray:
        """Return an array of the answer, of the columns as the server knows them."""
        if self.places is None or array.ndim == 0:
            return array
        if isinstance(self.noisy, PrivateFederation):  # its one array is the lower triangle
            return pairs_laid_out(array, self.places, upper=False)
        if name == "pairs":
            return pairs_laid_out(array, self.places, upper=True)
        if name not in ("signed", "seen"):
            return array
        return array[:, self.places]


def as_recorded(
    rows: PackedBits | MaskedBits, names: tuple[str, ...], ledger: Ledger
) -> tuple[PackedBits | MaskedBits, np.ndarray | None]:
    """Rows with their columns as the ledger knows them, sorted by name, also by one made up.

    And where each column of the file is among theirs, None where all stay: as they do where more of
    the rows had noise so, before columns were sorted.
    """
    order = np.array(sorted(range(len(names)), key=lambda j: names[j]), dtype=np.intp)
    if (order == np.arange(len(order))).all():
        return rows, None
    by_name, look = laid_out(rows, order), replace(ledger, look=True)
    if look.released(rows) > look.released(by_name):
        return rows, None
    return by_name, np.argsort(order)


def laid_out(rows: PackedBits | MaskedBits, places: np.ndarray) -> PackedBits | MaskedBits:
    """Rows (M, n) with their columns at these places (N,): column j is ``places[j]`` of the rows.

    Where a place is -1 the column is missing in all rows.
    """
    lines = kernels.transpose(rows)
    if (places < 0).any():
        gaps = with_gaps(lines)
        empty = replace(gaps.seen, words=0 * gaps.seen.words[:1])
        lines = kernels.concatenate([gaps, MaskedBits(empty, empty)])  # the last is empty
    found: PackedBits | MaskedBits = kernels.transpose(lines[places])
    return found


def pairs_laid_out(pairs: np.ndarray, places: np.ndarray, upper: bool) -> np.ndarray:
    """Numbers of pairs of columns, (..., N (N - 1) / 2), with the columns at these places (N,).

    They lie in an upper or a lower triangle, row by row.
    """
    N = len(places)
    i, j = np.triu_indices(N, 1) if upper else np.tril_indices(N, -1)
    square = np.zeros((*pairs.shape[:-1], N, N), pairs.dtype)
    square[..., i, j] = square[..., j, i] = pairs
    return square[..., places[i], places[j]]
