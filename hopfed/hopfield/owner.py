"""What the owner of a file of examples answers: exact sums to a server that is trusted, or noise.

With `epsilon` every sum has discrete Gaussian noise, and the ledger is charged before it is sent.
Without, whoever runs the server may learn single rows: it names the classes, and subtracts answers.

Whatever order a server asks for columns in, and whatever order a file has them in, the owner's
records are those of its rows with the columns sorted by name, and so is its noise: it is made for
the columns in that order, and put in the server's afterwards, so that a server that asks in another
order gets the same bits in another order. Answers without noise are computed from rows whose
columns are in the server's order.

A server says what its clients do as a recipe (`hopfed.federation.recipes`). ALLOWED is what it may
say, and nothing beside it: it learns nothing by settings that its own half of a method has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from hopfed import kernels
from hopfed._lib.settings import require
from hopfed.errors import DataError
from hopfed.federation.contract import Context, Metrics, State
from hopfed.federation.messages import Message, digest
from hopfed.federation.recipes import Allowed, made, one_of, real, whole
from hopfed.hopfield.batches import Batches, Elsewhere
from hopfed.hopfield.clients import ClassClient, PatternClient, StartingClient
from hopfed.hopfield.columns import places_of, read_names
from hopfed.hopfield.encoding import FORMS, Encoding
from hopfed.hopfield.ledger import Ledger, Terms
from hopfed.hopfield.noise import Noise
from hopfed.hopfield.plasticity import Fixed, Smoothing
from hopfed.kernels import Rows

TRUTH, SHARE = one_of(True, False), real(0, 1)
NOISE = made(Noise, type(None))

ALLOWED: Allowed = {
    PatternClient: {
        "source": made(Elsewhere),
        "encoding": made(Encoding),
        "rule": made(Fixed),
        "smoothing": made(Smoothing),
        "groups": whole(0, 2**20),
        "votes": TRUTH,
        "noise": NOISE,
    },
    ClassClient: {
        "source": made(Elsewhere),
        "n_sites": whole(2, 2**24),
        "noise": NOISE,
        "looks": whole(1, 100),
        "steps": whole(1, 100),
    },
    Noise: {"epsilon": real(0, 1e9), "delta": SHARE, "secret": whole(0, 0)},
    Elsewhere: {"rounds": whole(1)},
    Encoding: {"n_sites": whole(2, 2**24), "form": one_of(*FORMS), "width": whole(1, 2**24)},
    Smoothing: {"ema": SHARE},
    Fixed: {"weight": SHARE},
}


@dataclass(frozen=True)
class Owner:
    """The owner of a file of examples."""

    rows: Rows  # the examples, as its records know them (`as_recorded`)
    ledger: Ledger  # the privacy budget, charged before anything noisy is sent
    # epsilon, delta: the most that all answers may tell about one example; None trusts the server
    # with exact sums
    epsilon: float | None = None
    delta: float = 1e-5
    names: tuple[str, ...] = ()  # of the columns of the file; none where they have none
    # (n,) where each column of the file is among those of the rows; None where both are in one
    # order
    filed: np.ndarray | None = None
    outcome: Any = field(default=None, repr=False)  # a `relate.Column` beside the rows
    _held: dict[bytes, Any] = field(default_factory=dict, repr=False, compare=False)

    def order(self, names: Sequence[object]) -> tuple[np.ndarray, tuple[str, ...] | None]:
        """Columns of a federation in the order of the file, (N,), and what they are called."""
        places = places_of(self.names, self.rows.shape[1], names)
        if places is None:
            known = read_names(names) if names else None
            return np.arange(self.rows.shape[1]), self.names or known
        return np.argsort(places), self.names

    def adapt(self, method: Any, names: Sequence[object] = ()) -> Any:
        """Put the examples into what a server asks for, if their owner takes part in it."""
        if not isinstance(method, PatternClient | ClassClient):
            raise DataError(f"this client does not take part in {type(method).__name__}")
        if not isinstance(method.source, Elsewhere):
            raise DataError("the federation does not leave the examples where they are")
        places = places_of(self.names, self.rows.shape[1], names)
        if self.filed is not None:
            places = self.filed if places is None else self.filed[places]
        columns = self.rows.shape[1] if places is None else len(places)
        if method.n_sites != columns:
            raise DataError(f"the federation has {method.n_sites} columns, my file another number")
        if isinstance(method, PatternClient) and self.rows.gaps:
            raise DataError(
                "these rows have gaps, of which operators take no account: serve --graded"
            )
        if isinstance(method, PatternClient) and self.rows.counts is not None:
            raise DataError("these rows have weights of a survey: serve --graded")
        if method.noise is not None:
            return self._with_noise(method, method.noise, places)
        if self.epsilon is not None:
            raise DataError("this client answers with noise only: serve --epsilon")
        if self.ledger.released(self.rows):
            raise DataError("these examples have a privacy budget: join --epsilon")
        rows = self.rows if places is None else self._laid_out(places)
        beside = () if self.outcome is None else (self.outcome,)
        return replace(method, source=Batches((rows,), method.source.rounds, beside))

    def _laid_out(self, places: np.ndarray) -> Rows:
        """Rows with their columns at these places; kept, for each question is about the same."""
        key = digest({"places": places})
        if key not in self._held:
            self._held.clear()
            self._held[key] = laid_out(self.rows, places)
        rows: Rows = self._held[key]
        return rows

    def _with_noise(
        self, method: PatternClient | ClassClient, noise: Noise, places: np.ndarray | None
    ) -> Answering:
        """Charge the budget; rows come in the order in which they were released first."""
        if self.epsilon is None:  # its terms are not for a server to set
            raise DataError("this client agreed to no epsilon: join --epsilon, or serve without")
        if not (noise.epsilon <= self.epsilon and noise.delta <= self.delta):
            raise DataError("the federation asks for more than this client's epsilon and delta")
        units = method.units if isinstance(method, ClassClient) else 0
        rounds = cast(Batches, method.source).rounds
        Batches((self.rows,), rounds)  # which its rows may be too few for
        terms = Terms(noise.epsilon, noise.delta, rounds, units)
        rows, secret = self.ledger.charge(self.rows, terms)
        batches = Batches((rows,), rounds)
        mine: Any = replace(method, source=batches, noise=replace(noise, secret=secret))
        return Answering(mine, terms, self.ledger, places)


@dataclass(frozen=True)
class Answering(StartingClient):
    """A client that holds the rows of an owner, and answers with noise what a server may ask."""

    client: PatternClient | ClassClient  # holds the rows
    terms: Terms
    ledger: Ledger
    # (N,) where the server's columns are, where answers are made in another order; None where they
    # are made in this one
    places: np.ndarray | None = field(default=None, repr=False)

    def client_step(
        self, state: State, down: Message, context: Context
    ) -> tuple[State, Message, Metrics]:
        """Answer the server, once what that costs is charged."""
        client, t, batches = self.client, context.round, cast(Batches, self.client.source)
        require(0 <= context.exchange < client.exchanges, "exchange", "one of the round", context)
        batches.examples(t, 0)  # fails where there is no such round
        down = self._asked(down)
        if isinstance(client, ClassClient) and (down or not context.exchange):
            name, units = client.cost(client.question(down), context.exchange)
            self.ledger.spend(batches.owners[0], self.terms, t, name, units)
        state, up, _ = client.client_step(state, down, context)
        return state, {name: self._in_order(name, array) for name, array in up.items()}, {}

    def _asked(self, down: Message) -> Message:
        """Return what the server said, of the columns as the rows have them."""
        if self.places is None or not isinstance(self.client, ClassClient) or "means" not in down:
            return down
        means = down["means"]
        if means.shape[1:] != (len(self.places),):
            raise DataError("a malformed message from the server: means of other columns")
        return {**down, "means": means[:, np.argsort(self.places)]}

    def _in_order(self, name: str, array: np.ndarray) -> np.ndarray:
        """Return an array of the answer, of the columns as the server knows them."""
        if self.places is None or array.ndim == 0:
            return array
        if isinstance(self.client, PatternClient):  # its one array is the lower triangle
            return pairs_laid_out(array, self.places, upper=False)
        if name == "pairs":
            return pairs_laid_out(array, self.places, upper=True)
        return array[:, self.places] if name in ("signed", "seen") else array


def as_recorded(
    rows: Rows, names: tuple[str, ...], ledger: Ledger
) -> tuple[Rows, np.ndarray | None]:
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


def laid_out(rows: Rows, places: np.ndarray) -> Rows:
    """Rows whose column j is ``places[j]`` of these."""
    found: Rows = kernels.transpose(kernels.transpose(rows)[places])
    return replace(found, counts=rows.counts)


def pairs_laid_out(pairs: np.ndarray, places: np.ndarray, upper: bool) -> np.ndarray:
    """Numbers of pairs of columns, (..., N (N - 1) / 2), with the columns at these places (N,).

    They lie in an upper or a lower triangle, row by row.
    """
    N = len(places)
    i, j = np.triu_indices(N, 1) if upper else np.tril_indices(N, -1)
    square = np.zeros((*pairs.shape[:-1], N, N), pairs.dtype)
    square[..., i, j] = square[..., j, i] = pairs
    return square[..., places[i], places[j]]
