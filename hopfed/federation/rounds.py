"""One round of a federation, from its state to the next.

The state is dicts of arrays, by client, so that a run file can hold it between any two rounds and a
killed run continues to the same bits. A round replaces the states of those who took part, and
neither copies nor reads those of the others.

A message of another form, beyond its bounds or not finite never reaches the script of the server.

Cohorts are drawn from (seed, round) and delays from (seed, round, client), so they do not depend
on the engine. A client that is late answers to what it got, and its message arrives rounds later;
until then it takes no part. Source: theory/NOTES.md, "Partial participation".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any

import numpy as np

from hopfed._lib.random import stream
from hopfed._lib.settings import check_types, require
from hopfed.errors import HopfedError
from hopfed.federation.contract import EVERYONE, Context, Metrics, State
from hopfed.federation.engines import Call, Engine, Outcome
from hopfed.federation.faults import Fault, FaultLog, TooFewClientsError
from hopfed.federation.messages import (
    Message,
    Traffic,
    as_message,
    below,
    malformed,
    not_finite,
)

__all__ = ["Participation", "Session", "play_round"]

BLOCK = 32  # clients asked at a time: enough to be stepped together, few enough for their states


@dataclass(frozen=True)
class Participation:
    """How clients take part.

    Attributes
    ----------
    rate : share of the clients in each round's cohort, in (0, 1]; at least one takes part.
    late : share of the cohort whose message is delayed, in [0, 1).
    delay : longest delay in rounds; delays are uniform on 1..delay.
    poisson : whether each client is in a cohort by itself, with probability `rate`, as privacy by
        subsampling wants it; a cohort may be empty, and nobody is late.

    Raises
    ------
    ArgumentError : a setting outside of its range.

    Examples
    --------
    >>> Participation(rate=0.5).cohort(1, 0, clients=4)
    [1, 2]
    """

    rate: float = 1.0
    late: float = 0.0
    delay: int = 1
    poisson: bool = False

    def __post_init__(self) -> None:
        check_types(self)
        require(0 < self.rate <= 1, "rate", "in (0, 1]", self.rate)
        require(0 <= self.late < 1, "late", "in [0, 1)", self.late)
        require(not (self.late and self.poisson), "late", "0 where updates are private", self.late)
        require(self.delay >= 1, "delay", "at least 1 round", self.delay)

    def cohort(self, seed: int, t: int, clients: int) -> list[int]:
        """Clients that are asked in round `t`, in order; `seed` is that of the run."""
        rng = stream(seed, "cohort", t)
        if self.poisson:
            return np.flatnonzero(rng.random(clients) < self.rate).tolist()
        return sorted(rng.permutation(clients)[: max(1, round(self.rate * clients))].tolist())

    def delays(self, seed: int, t: int, clients: int) -> np.ndarray:
        """(L,) rounds by which each client's message of round `t` is late, 0 for most.

        `seed` is that of the run.
        """
        rng = stream(seed, "delay", t)
        late = rng.random(clients) < self.late
        return np.where(late, rng.integers(1, self.delay + 1, size=clients), 0)


@dataclass(frozen=True)
class Late:
    """A message under way."""

    sent: int  # sent, due: round it was sent in, and the one it counts in
    due: int
    message: Message = field(repr=False)  # its arrays


@dataclass(frozen=True)
class FederationState:
    """Everything a federation carries from one round to the next."""

    server: State = field(repr=False)  # state of the server
    # states of the clients that took part so far
    clients: dict[int, State] = field(default_factory=dict, repr=False)
    # last messages down, by client or for `EVERYONE`, not yet fetched
    down: dict[int, Message] = field(default_factory=dict, repr=False)
    late: dict[int, Late] = field(default_factory=dict)  # messages under way, by client

    def arrays(self) -> dict[str, Any]:
        """Return the state as named arrays."""
        late = {c: m.message | {"": np.array([m.sent, m.due])} for c, m in self.late.items()}
        parts: dict[str, Mapping[int, State]] = {"clients": self.clients, "down": self.down}
        found = {f"server/{name}": array for name, array in self.server.items()}
        for part, held in (parts | {"late": late}).items():
            for c, arrays in held.items():  # also of one without arrays something is kept
                found |= {f"{part}/{c}/{n}": a for n, a in ({"": np.zeros(0)} | arrays).items()}
        return found

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, Any]) -> FederationState:
        """Rebuild the state from its `arrays`."""
        parts: dict[str, dict[int, State]] = {n: {} for n in ("clients", "down", "late")}
        made, late = cls(below(arrays, "server")), {}
        for name, array in arrays.items():
            part, _, rest = name.partition("/")
            if part in parts:
                client, _, of = rest.partition("/")
                parts[part].setdefault(int(client), {})[of] = array
        for c, held in parts["late"].items():
            sent, due = held.pop("").tolist()
            late[c] = Late(sent, due, held)
        clients, down = (
            {c: {n: a for n, a in held.items() if n} for c, held in parts[part].items()}
            for part in ("clients", "down")
        )
        return cls(made.server, clients, down, late)


@dataclass(frozen=True)
class Played:
    """What a round gave."""

    state: FederationState = field(repr=False)  # the state after it
    # name -> (L,) values, NaN for clients that did not report one
    client_metrics: dict[str, np.ndarray]
    server_metrics: Metrics  # name -> number or array
    traffic: Traffic  # bytes and numbers each way
    faults: FaultLog  # who was not heard, and why

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything but the state, by the names a run file uses."""
        traffic = {f"traffic/{k}": v for k, v in vars(self.traffic).items() if k != "clients"}
        faults = {"faults/code": self.faults.codes, "faults/reason": self.faults.reasons}
        metrics = {f"client/{k}": v for k, v in self.client_metrics.items()}
        return metrics | traffic | faults


def play_round(
    method: Any,
    state: FederationState | None,
    t: int,
    *,
    seed: int,
    clients: int,
    engine: Engine,
    participation: Participation | None = None,
    minimum: int = 1,
) -> Played:
    """Play round `t` of a federation of `clients` clients.

    Parameters
    ----------
    state : what round t - 1 left, None at the start.
    engine : what carries out the client steps.
    participation : who takes part; everyone, at once, when left out.
    minimum : clients that must be heard in the first exchange; with 0 a round without any is one in
        which the server learns nothing.
    method : what clients and server do.
    seed : of the run.

    Raises
    ------
    TooFewClientsError : fewer than `minimum` were heard, or were of use; the state given is
        untouched.

    Examples
    --------
    >>> from hopfed.hopfield.channel import rademacher
    >>> from hopfed.hopfield.stream import ArchetypeStream
    >>> from hopfed.federation.engines.local import LocalEngine
    >>> from hopfed.hopfield import HopfieldFederation
    >>> from hopfed.hopfield.patterns import Patterns
    >>> xi = rademacher(2, 100, np.random.default_rng(0))
    >>> source = ArchetypeStream(xi, np.full((2, 4, 2), 0.5), 80, 0.8, seed=0)
    >>> method, state = HopfieldFederation(source, Patterns(100)), None
    >>> half = Participation(rate=0.5)
    >>> for t in range(2):
    ...     played = play_round(
    ...         method, state, t, seed=0, clients=4, engine=LocalEngine(), participation=half
    ...     )
    ...     state = played.state
    ...     print(played.faults.codes.tolist(), state.server["memory/patterns"].shape)
    [0, 0, 1, 1] (2, 100)
    [1, 0, 1, 0] (2, 100)
    """
    holds = isinstance(minimum, Integral) and 0 <= minimum <= clients
    require(holds, "minimum", f"between 0 and the {clients} clients", repr(minimum))
    if state is None:
        state = FederationState(server=method.server_start(seed))
    session = Session(method, state, t, seed, clients, engine, participation, minimum)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        server, down, metrics = method.play(state.server, session)
    return session.played(server, _checked(down), metrics)


Step = tuple[State, Mapping[int, Message], Metrics]
Check = Callable[[int, Message], str | None]  # what is wrong with the message of a client
Fold = Callable[[int, Message], Message]  # what is kept of it


class Session:
    """The clients of one round: asked by the server's script, one exchange after the other.

    Attributes
    ----------
    seed, t : of the run, and number of the round.
    asked : clients that were asked in this round, whether they answered or not.
    ages : rounds that messages were under way, of those that came late into the first exchange.
    method, state, clients, engine, participation, minimum : as in `play_round`.

    Examples
    --------
    >>> class Sum:
    ...     def client_start(self, client, seed):
    ...         return {}
    ...     def server_start(self, seed):
    ...         return {}
    ...     def expects(self, down, context):
    ...         return {"value": Field((), "f")}
    ...     def client_step(self, state, down, context):
    ...         return state, {"value": np.array(float(down.get("times", 1) * context.client))}, {}
    ...     def play(self, state, session):
    ...         one = session.ask()
    ...         two = session.ask({EVERYONE: {"times": np.array(10)}})
    ...         total = sum(m["value"] for m in (*one.values(), *two.values()))
    ...         return {"total": total}, {}, {}
    >>> from hopfed.federation.engines.local import LocalEngine
    >>> from hopfed.federation.messages import Field
    >>> played = play_round(Sum(), None, 0, seed=0, clients=3, engine=LocalEngine())
    >>> float(played.state.server["total"])
    33.0
    """

    def __init__(
        self,
        method: Any,
        state: FederationState,
        t: int,
        seed: int,
        clients: int,
        engine: Engine,
        participation: Participation | None = None,
        minimum: int = 1,
    ):
        self.method = getattr(method, "client", method)  # what the clients do
        self.t, self.seed, self.clients = t, seed, clients
        self.engine, self.minimum = engine, minimum
        self.participation = participation or Participation()
        if getattr(method, "poisson", False):  # a cohort may be empty
            self.participation, self.minimum = replace(self.participation, poisson=True), 0
        if getattr(method, "drops", False) and minimum == 1:  # nobody may be heard
            self.minimum = 0
        self.states = state.clients
        self.down = state.down
        self.late = dict(state.late)
        self.traffic, self.faults = Traffic(clients), FaultLog(clients)
        self.client_metrics: dict[str, np.ndarray] = {}
        self.ages: dict[int, int] = {}
        self.cohort = self._cohort()
        self.asked = len(self.cohort)
        self.exchange = -1  # number of the last one
        self.heard: dict[int, Message] = {}  # its messages

    @property
    def context(self) -> Context:
        """Where in the federation the server is."""
        return Context(self.seed, self.t, self.exchange)

    def ask(
        self,
        down: Mapping[int, Message] | None = None,
        check: Check | None = None,
        fold: Fold | None = None,
    ) -> dict[int, Message]:
        """Messages up, by client, of those that answered every exchange of the round so far.

        Parameters
        ----------
        down : what is asked, by client or for `EVERYONE`; the last word of before when left out.
        check : says what is wrong with a client's message of the right form.
        fold : takes each message as it comes, and returns what is kept of it.
        """
        self._say(_checked(down or {}))
        self.exchange += 1
        with np.errstate(over="warn", invalid="warn", divide="warn"):
            self.heard = self._collect(check, fold or (lambda _, message: message))
        return dict(self.heard)

    def played(self, server: State, down: Mapping[int, Message], metrics: Metrics) -> Played:
        """Close the round with the state of the `server`, its last word `down`, and `metrics`."""
        self._say(down)
        after = FederationState(as_message(server), self.states, self.down, self.late)
        return Played(after, self.client_metrics, metrics, self.traffic, self.faults)

    def _cohort(self) -> list[int]:
        """Those asked this round: drawn, and not still at work on an earlier message."""
        asked = set(self.participation.cohort(self.seed, self.t, self.clients)) - set(self.late)
        for c, late in self.late.items():
            self.faults.add(c, Fault.LATE, f"message of round {late.sent} under way")
        for c in set(range(self.clients)) - asked:  # of the late the fault is there
            self.faults.add(c, Fault.ABSENT)
        return sorted(asked)

    def _say(self, down: Mapping[int, Message]) -> None:
        """Keep a word until the clients fetch it; one to everyone replaces what was still there."""
        self.down = {**({} if EVERYONE in down else self.down), **down}

    def _collect(self, check: Check | None, fold: Fold) -> dict[int, Message]:
        """Messages up of one exchange, with those that arrive late in the first."""
        exchange = self.exchange
        if exchange:
            self.cohort = [c for c in self.cohort if c in self.heard and c not in self.ages]
        everyone = self.down.get(EVERYONE, Message())  # one object, which a pool sends once
        delays = self.participation.delays(self.seed, self.t, self.clients)
        messages: dict[int, Message] = {}
        for start in range(0, len(self.cohort), BLOCK):
            block = self.cohort[start : start + BLOCK]
            for c, message in self._answers(block, exchange, everyone, check).items():
                if exchange == 0 and delays[c]:
                    due = self.t + int(delays[c])
                    self.late[c] = Late(self.t, due, message)
                    self.faults.add(c, Fault.LATE, f"arrives in round {due}")
                else:
                    messages[c] = fold(c, message)
        if exchange == 0:
            for c, late in [(c, m) for c, m in self.late.items() if m.due <= self.t]:
                messages[c], self.ages[c] = fold(c, late.message), self.t - late.sent
                del self.late[c]
            self._require(messages)
        return dict(sorted(messages.items()))

    def _require(self, messages: Mapping[int, Message]) -> None:
        """Raise an error unless enough clients were heard in the first exchange."""
        if len(messages) >= self.minimum:
            return
        words = "; ".join(self.faults.words()) or "the others were absent or late"
        error = TooFewClientsError(
            f"round {self.t}: {len(messages)} of {self.clients} clients were heard, the "
            f"minimum is {self.minimum}: {words}"
        )
        error.refused = set(self.faults.codes.tolist()) <= {Fault.NONE, Fault.RAISED}
        raise error

    def _answers(
        self, cohort: list[int], exchange: int, everyone: Message, check: Check | None
    ) -> dict[int, Message]:
        """Messages of the clients that answered as they should, whose states are replaced."""
        calls = []
        for c in cohort:
            down, state = self.down.get(c, everyone), self.states.get(c)
            self.traffic.count("down", c, down)
            if state is None:
                state = self.method.client_start(c, self.seed)
            calls.append(Call(state, down, Context(self.seed, self.t, exchange, c)))
        messages: dict[int, Message] = {}
        states: dict[int, State] = {}
        outcomes = self.engine.step(self.method, calls)
        for c, call, outcome in zip(cohort, calls, outcomes, strict=True):
            message = self._accept(c, call, outcome, check)
            if message is not None:
                messages[c], states[c] = message, as_message(outcome.state)
        self.states = self.states | states
        return messages

    def _accept(self, c: int, call: Call, outcome: Outcome, check: Check | None) -> Message | None:
        """Check an answer; a client whose answer is refused keeps the state it had."""
        message: Any = outcome.message
        fault, reason = outcome.fault, outcome.reason
        if fault == Fault.NONE:
            fault, reason = self._fault(c, call, message, check)
        if fault != Fault.NONE:
            self.faults.add(c, fault, reason)
            return None
        self.traffic.count("up", c, message)
        for name, number in outcome.metrics.items():
            column = self.client_metrics.setdefault(name, np.full(self.clients, np.nan))
            column[c] = number
        return as_message(message)

    def _fault(self, c: int, call: Call, message: Any, check: Check | None) -> tuple[Fault, str]:
        """What is wrong with a message, and why."""
        if complaint := malformed(message, self.method.expects(call.down, call.context)):
            return Fault.MALFORMED, complaint
        if complaint := not_finite(message):
            return Fault.NOT_FINITE, complaint
        complaint = check(c, message) if check is not None else None
        return (Fault.MALFORMED, complaint) if complaint else (Fault.NONE, "")


def _checked(answers: Mapping[int, Message]) -> dict[int, Message]:
    """Messages down; an error where one is not finite: numbers that overflow are none elsewhere."""
    down = {c: as_message(message) for c, message in answers.items()}
    for message in down.values():
        if complaint := not_finite(message):
            raise HopfedError(f"the server's answer is of no use: {complaint}")
    return down
