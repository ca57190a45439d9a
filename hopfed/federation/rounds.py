"""Rounds of a federation, from one state to the next: arrays, which a run file can hold.

A message of another form, beyond its bounds or not finite never reaches the script of the server.
Cohorts are drawn from (seed, round) and delays from (seed, round, client), so they do not depend
on the engine. A late client answers the question that it got, and its message arrives rounds later;
until then it takes no part. Source: theory/NOTES.md, "Partial participation".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hopfed._lib.random import stream
from hopfed._lib.settings import check_types, require
from hopfed.errors import HopfedError, safe_line
from hopfed.federation import contract
from hopfed.federation.contract import EVERYONE, Call, Context, Engine, Fault, Metrics, State
from hopfed.federation.messages import Message, Traffic, as_message, bad_form, bad_number, part_of

__all__ = ["Participation", "play_round"]

PARTS = "clients", "down", "late"  # of a state, by client
BLOCK = 32  # clients asked at a time: enough to be stepped together, few enough for their states

Step = tuple[State, Mapping[int, Message], Metrics]
Check = Callable[[int, Message], str | None]  # says what is wrong with a client's message


@dataclass(frozen=True)
class Participation:
    """Participation of clients in rounds: cohorts, and delays of messages.

    Attributes
    ----------
    rate : share of the clients in each round's cohort, in (0, 1]; at least one takes part.
    late : share of the cohort whose message is delayed, in [0, 1).
    delay : longest delay in rounds; delays are uniform on 1..delay.
    poisson : whether each client joins a cohort independently, with probability `rate`, as privacy
        by subsampling needs it; a cohort may be empty, and no message is late.

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
        """(L,) rounds by which each client's message of round `t` is late; `seed` of the run."""
        rng = stream(seed, "delay", t)
        late = rng.random(clients) < self.late
        return np.where(late, rng.integers(1, self.delay + 1, size=clients), 0)


class FaultLog:
    """Log of a round: a fault for each client, and the reason in words."""

    def __init__(self, clients: int):
        self.codes = np.zeros(clients, dtype=np.int8)  # (L,), see `Fault`
        self.reasons = np.zeros(clients, dtype=f"S{contract.REASON}")

    def add(self, client: int, fault: Fault, reason: str = "") -> None:
        """Log `fault` of `client`; the first fault of a round is kept."""
        if self.codes[client] == Fault.NONE:
            self.codes[client] = fault
            self.reasons[client] = safe_line(reason, contract.REASON).encode("ascii", "replace")

    def words(self) -> list[str]:
        """A line for each client that failed, but none for clients absent or late by schedule."""
        return [
            f"client {c} {Fault(self.codes[c]).words}: {self.reasons[c].decode()}"
            for c in np.flatnonzero(self.codes > Fault.LATE)
        ]


@dataclass(frozen=True)
class FederationState:
    """State of a federation between two rounds: server, clients, and messages under way."""

    server: State = field(repr=False)
    clients: dict[int, State] = field(default_factory=dict, repr=False)  # that took part so far
    # last messages down, by client or for `EVERYONE`, not yet fetched
    down: dict[int, Message] = field(default_factory=dict, repr=False)
    # messages under way, by client; under "" the round each was sent in, and that it counts in
    late: dict[int, Message] = field(default_factory=dict, repr=False)

    def arrays(self) -> dict[str, Any]:
        """Return the state as named arrays."""
        found = {f"server/{name}": array for name, array in self.server.items()}
        for part in PARTS:
            for c, arrays in getattr(self, part).items():  # also of a client without arrays
                found |= {f"{part}/{c}/{n}": a for n, a in ({"": np.zeros(0)} | arrays).items()}
        return found

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, Any]) -> FederationState:
        """Rebuild the state from its `arrays`."""
        parts: dict[str, dict[int, State]] = {part: {} for part in PARTS}
        for name, array in arrays.items():
            part, *rest = name.split("/", 2)
            if part in parts:
                held = parts[part].setdefault(int(rest[0]), {})
                if rest[1] or part == "late":
                    held[rest[1]] = array
        return cls(part_of(arrays, "server"), **parts)


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
) -> Session:
    """Play round `t` of a federation of `clients` clients; return its session, with the new state.

    Parameters
    ----------
    method : steps of the clients, and script of the server.
    state : state after round t - 1, None at the start.
    seed : of the run.
    engine : engine that makes the client steps.
    participation : clients that take part; all, without delay, when left out.
    minimum : clients that must be heard in the first exchange, or a `TooFewClientsError` is raised,
        and the given state is unchanged; with 0 the server may learn nothing.

    Examples
    --------
    >>> from hopfed.federation.contract import Method
    >>> from hopfed.federation.engines import LocalEngine
    >>> class Idle(Method):
    ...     def play(self, state, session):
    ...         return {"asked": np.array(session.asked)}, {}, {}
    >>> how = {"seed": 0, "clients": 4, "participation": Participation(rate=0.5)}
    >>> played = play_round(Idle(), FederationState({}), 0, engine=LocalEngine(), **how)
    >>> played.faults.codes.tolist(), int(played.state.server["asked"])
    ([0, 0, 1, 1], 2)
    """
    require(0 <= minimum <= clients, "minimum", f"between 0 and the {clients} clients", minimum)
    if state is None:
        state = FederationState(server=method.server_start(seed))
    who = participation or Participation()
    session = Session(method, state, t, seed, clients, engine, who, minimum)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        server, down, session.server_metrics = method.play(state.server, session)
    session.say(down)
    session.state = replace(session.state, server=as_message(server))
    return session


@dataclass
class Session:
    """Session of a round: the server's script asks its clients, one exchange after the other.

    After the round it holds the results: state, metrics, traffic and faults.
    """

    method: Any
    state: FederationState  # up to date, except for the server's own
    t: int  # number of the round
    seed: int  # of the run
    clients: int
    engine: Engine
    participation: Participation
    minimum: int  # clients that must be heard in the first exchange

    def __post_init__(self) -> None:
        if getattr(self.method, "poisson", False):  # a cohort may be empty
            self.participation, self.minimum = replace(self.participation, poisson=True), 0
        if getattr(self.method, "drops", False) and self.minimum == 1:  # perhaps no client is heard
            self.minimum = 0
        self.method = getattr(self.method, "client", self.method)  # the part for the clients
        self.traffic, self.faults = Traffic(self.clients), FaultLog(self.clients)
        self.client_metrics: dict[str, np.ndarray] = {}  # (L,), NaN for clients without one
        self.server_metrics: Metrics = {}
        self.ages: dict[int, int] = {}  # rounds that late messages were under way, by client
        self.state = replace(self.state, late=dict(self.state.late))
        for c, late in self.state.late.items():
            self.faults.add(c, Fault.LATE, f"message of round {late[''][0]} under way")
        cohort = self.participation.cohort(self.seed, self.t, self.clients)
        asked = set(cohort) - set(self.state.late)
        for c in set(range(self.clients)) - asked:  # late clients have a fault already
            self.faults.add(c, Fault.ABSENT)
        self.cohort, self.asked = sorted(asked), len(asked)
        self.exchange = -1  # number of the last exchange
        self.heard: dict[int, Message] = {}  # messages of the last exchange

    def arrays(self) -> dict[str, np.ndarray]:
        """Return everything except the state, by the names in a run file."""
        traffic = {f"traffic/{k}": v for k, v in vars(self.traffic).items()}
        faults = {"faults/code": self.faults.codes, "faults/reason": self.faults.reasons}
        metrics = {f"client/{k}": v for k, v in self.client_metrics.items()}
        return metrics | traffic | faults

    @property
    def context(self) -> Context:
        """Context of the server in this exchange."""
        return Context(self.seed, self.t, self.exchange)

    def ask(
        self,
        down: Mapping[int, Message] | None = None,
        check: Check | None = None,
        fold: Callable[[int, Message], Message] | None = None,
    ) -> dict[int, Message]:
        """Ask clients; return messages up, by client, of all that answered every exchange so far.

        The question is `down`, by client or for `EVERYONE`, or else the last message down. `check`
        says what is wrong with a client's message of the right form; `fold` takes each message as
        it comes, and returns the part to keep.
        """
        self.say(down or {})
        self.exchange += 1
        if self.exchange:
            self.cohort = [c for c in self.cohort if c in self.heard and c not in self.ages]
        keep = fold or (lambda _, message: message)
        delays = self.participation.delays(self.seed, self.t, self.clients)
        heard: dict[int, Message] = {}
        with np.errstate(over="warn", invalid="warn", divide="warn"):
            for start in range(0, len(self.cohort), BLOCK):
                for c, message in self._answers(self.cohort[start : start + BLOCK], check).items():
                    if self.exchange == 0 and delays[c]:
                        due = self.t + int(delays[c])
                        self.state.late[c] = message | {"": np.array([self.t, due])}
                        self.faults.add(c, Fault.LATE, f"arrives in round {due}")
                    else:
                        heard[c] = keep(c, message)
            arrived = [c for c, late in self.state.late.items() if late[""][1] <= self.t]
            for c in arrived if self.exchange == 0 else ():
                message = dict(self.state.late.pop(c))  # a copy: the state before is unchanged
                self.ages[c] = self.t - int(message.pop("")[0])
                heard[c] = keep(c, message)
        if self.exchange == 0 and len(heard) < self.minimum:
            words = "; ".join(self.faults.words()) or "the others were absent or late"
            error = contract.TooFewClientsError(
                f"round {self.t}: {len(heard)} of {self.clients} clients were heard, the minimum "
                f"is {self.minimum}: {words}"
            )
            error.refused = set(self.faults.codes.tolist()) <= {Fault.NONE, Fault.RAISED}
            raise error
        self.heard = dict(sorted(heard.items()))
        return dict(self.heard)

    def say(self, down: Mapping[int, Message]) -> None:
        """Keep messages until clients fetch them; one to everyone replaces all kept before."""
        said = {c: as_message(message) for c, message in down.items()}
        for message in said.values():
            if complaint := bad_number(message):  # numbers that overflow are refused nowhere else
                raise HopfedError(f"the server's answer is of no use: {complaint}")
        before = {} if EVERYONE in said else self.state.down
        self.state = replace(self.state, down={**before, **said})

    def _answers(self, cohort: list[int], check: Check | None) -> dict[int, Message]:
        """Messages of the clients with valid answers, whose states are replaced."""
        everyone = self.state.down.get(EVERYONE, Message())  # one object, which a pool sends once
        calls = []
        for c in cohort:
            down, state = self.state.down.get(c, everyone), self.state.clients.get(c)
            self.traffic.count("down", c, down)
            if state is None:
                state = self.method.client_start(c, self.seed)
            calls.append(Call(state, down, replace(self.context, client=c)))
        messages: dict[int, Message] = {}
        states = dict(self.state.clients)
        outcomes = self.engine.step(self.method, calls)
        for c, call, outcome in zip(cohort, calls, outcomes, strict=True):
            fault, reason = self._fault(c, call, outcome, check)
            if fault != Fault.NONE:
                self.faults.add(c, fault, reason)
                continue  # the client keeps its state
            self.traffic.count("up", c, outcome.message)
            for name, number in outcome.metrics.items():
                self.client_metrics.setdefault(name, np.full(self.clients, np.nan))[c] = number
            messages[c], states[c] = as_message(outcome.message), as_message(outcome.state)
        self.state = replace(self.state, clients=states)
        return messages

    def _fault(
        self, c: int, call: Call, outcome: contract.Outcome, check: Check | None
    ) -> tuple[Fault, str]:
        """Fault of an answer, and its reason."""
        message: Any = outcome.message
        if outcome.fault != Fault.NONE:
            return outcome.fault, outcome.reason
        if complaint := bad_form(message, self.method.expects(call.down, call.context)):
            return Fault.MALFORMED, complaint
        if complaint := bad_number(message):
            return Fault.NOT_FINITE, complaint
        complaint = check(c, message) if check is not None else None
        return (Fault.MALFORMED, complaint) if complaint else (Fault.NONE, "")
