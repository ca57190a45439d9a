"""One round of a federation, from its state to the next.

The state is flat: names and arrays, so that a run file can hold it between any two rounds and a
killed run continues to the same bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hopfed.errors import ArgumentError, HopfedError
from hopfed.federation.contract import EVERYONE, Context, Method, Metrics, State
from hopfed.federation.engines import Call, Engine, Outcome
from hopfed.federation.faults import Fault, FaultLog
from hopfed.federation.messages import Message, Traffic, as_message, digest, malformed, not_finite
from hopfed.federation.participation import Participation

_MARK = "#"  # an entry of every flattened dict, so that an empty one is not lost


class TooFewClientsError(HopfedError):
    """Fewer clients answered than the federation was told to go on with."""


@dataclass(frozen=True)
class Late:
    """A message under way."""

    client: int
    sent: int
    due: int
    message: Message = field(repr=False)


@dataclass(frozen=True)
class FederationState:
    """Everything a federation carries from one round to the next.

    Attributes
    ----------
    server : state of the server.
    clients : states of the clients that took part so far.
    down : last messages down, by client or for `EVERYONE`, not yet fetched.
    late : messages under way, by client.
    last : digest of the message that each client last began a round with.
    """

    server: State = field(repr=False)
    clients: dict[int, State] = field(default_factory=dict, repr=False)
    down: dict[int, Message] = field(default_factory=dict, repr=False)
    late: dict[int, Late] = field(default_factory=dict)
    last: dict[int, bytes] = field(default_factory=dict, repr=False)

    def flatten(self) -> dict[str, np.ndarray]:
        """Return the state as named arrays, for a run file."""
        flat = _named("server", self.server)
        for c, state in self.clients.items():
            flat |= _named(f"clients/{c}", state | {_MARK: np.array(c)})
        for c, message in self.down.items():
            flat |= _named(f"down/{c}", message | {_MARK: np.array(c)})
        for c, late in self.late.items():
            flat |= _named(f"late/{c}/message", late.message)
            flat[f"late/{c}/when"] = np.array([late.sent, late.due])
        for c, value in self.last.items():
            flat[f"last/{c}"] = np.frombuffer(value, dtype=np.uint8)
        return flat

    @classmethod
    def unflatten(cls, flat: Mapping[str, Any]) -> FederationState:
        """Rebuild the state from its named arrays."""
        self = cls(server={})
        when: dict[int, np.ndarray] = {}
        messages: dict[int, Message] = {}
        for name, array in flat.items():
            part, _, rest = name.partition("/")
            if part == "server":
                self.server[rest] = array
                continue
            key, _, rest = rest.partition("/")
            c = int(key)
            if part == "last":
                self.last[c] = np.asarray(array, dtype=np.uint8).tobytes()
            elif part == "late" and rest == "when":
                when[c] = array
            elif part == "late":
                messages.setdefault(c, {})[rest.partition("/")[2]] = array
            else:
                entry = (self.clients if part == "clients" else self.down).setdefault(c, {})
                if rest != _MARK:
                    entry[rest] = array
        for c, (sent, due) in when.items():
            self.late[c] = Late(c, int(sent), int(due), messages.get(c, {}))
        return self


@dataclass(frozen=True)
class Played:
    """What a round gave.

    Attributes
    ----------
    state : the state after it.
    client_metrics : name -> (L,) values, NaN for clients that did not report one.
    server_metrics : name -> number or array.
    traffic : bytes and numbers each way.
    faults : who was not heard, and why.
    """

    state: FederationState = field(repr=False)
    client_metrics: dict[str, np.ndarray]
    server_metrics: Metrics
    traffic: Traffic
    faults: FaultLog

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything but the state, by the names a run file uses."""
        traffic = {f"traffic/{k}": v for k, v in vars(self.traffic).items() if k != "clients"}
        faults = {"faults/code": self.faults.codes, "faults/reason": self.faults.reasons}
        metrics = {f"client/{k}": v for k, v in self.client_metrics.items()}
        return metrics | traffic | faults


def play_round(
    method: Method,
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
    minimum : clients that must be heard in the first exchange.

    Raises
    ------
    TooFewClientsError : fewer than `minimum` were heard; the state given is untouched.
    """
    if not 1 <= minimum <= clients:
        raise ArgumentError("minimum", f"between 1 and the {clients} clients", minimum)
    if state is None:
        state = FederationState(server=method.server_start(seed))
    round_ = _Round(method, state, t, seed, clients, participation or Participation())
    cohort = round_.cohort()
    for exchange in range(method.exchanges):
        messages, ages = round_.collect(engine, cohort, exchange)
        if exchange == 0 and len(messages) < minimum:
            words = "; ".join(round_.faults.words()) or "the others were absent or late"
            raise TooFewClientsError(
                f"round {t}: {len(messages)} of {clients} clients were heard, the minimum is "
                f"{minimum}: {words}"
            )
        cohort = [c for c in cohort if c in messages and c not in ages]
        round_.serve(messages, exchange, ages)
    return round_.played()


class _Round:
    """A round under way: the next state, and what is counted on the way to it."""

    def __init__(
        self,
        method: Method,
        state: FederationState,
        t: int,
        seed: int,
        clients: int,
        participation: Participation,
    ):
        self.method, self.t, self.seed, self.clients = method, t, seed, clients
        self.participation = participation
        self.server = state.server
        self.states, self.down = dict(state.clients), dict(state.down)
        self.late, self.last = dict(state.late), dict(state.last)
        self.traffic, self.faults = Traffic(clients), FaultLog(clients)
        self.client_metrics: dict[str, np.ndarray] = {}
        self.server_metrics: Metrics = {}

    def cohort(self) -> list[int]:
        """Those asked this round: drawn, and not still at work on an earlier message."""
        asked = set(self.participation.cohort(self.seed, self.t, self.clients)) - set(self.late)
        for c in range(self.clients):
            if c in self.late:
                self.faults.add(c, Fault.LATE, f"message of round {self.late[c].sent} under way")
            elif c not in asked:
                self.faults.add(c, Fault.ABSENT)
        return sorted(asked)

    def collect(
        self, engine: Engine, cohort: list[int], exchange: int
    ) -> tuple[dict[int, Message], dict[int, int]]:
        """Messages up of one exchange, and the ages of those that arrive late."""
        calls = [self._call(c, exchange) for c in cohort]
        outcomes = engine.step(self.method, calls)
        delays = self.participation.delays(self.seed, self.t, self.clients)
        messages: dict[int, Message] = {}
        for call, outcome in zip(calls, outcomes, strict=True):
            c = call.context.client
            message = self._accept(call, outcome)
            if c is None or message is None:
                continue
            if exchange == 0 and delays[c]:
                due = self.t + int(delays[c])
                self.late[c] = Late(c, self.t, due, message)
                self.faults.add(c, Fault.LATE, f"arrives in round {due}")
            else:
                messages[c] = message
        ages = self._arrivals(messages) if exchange == 0 else {}
        return dict(sorted(messages.items())), ages

    def serve(self, messages: dict[int, Message], exchange: int, ages: dict[int, int]) -> None:
        """Let the server answer, and keep what it says until the clients fetch it."""
        context = Context(self.seed, self.t, exchange, None, ages)
        self.server, down, metrics = self.method.server_step(self.server, messages, context)
        # A word to everyone replaces whatever was still to be fetched.
        self.down = {} if EVERYONE in down else self.down
        self.down |= {c: as_message(message) for c, message in down.items()}
        self.server_metrics |= metrics

    def played(self) -> Played:
        """Close the round."""
        state = FederationState(self.server, self.states, self.down, self.late, self.last)
        return Played(state, self.client_metrics, self.server_metrics, self.traffic, self.faults)

    def _call(self, c: int, exchange: int) -> Call:
        down = self.down.get(c, self.down.get(EVERYONE, {}))
        self.traffic.received(c, down)
        state = self.states.get(c)
        if state is None:
            state = self.method.client_start(c, self.seed)
        return Call(state, down, Context(self.seed, self.t, exchange, c))

    def _accept(self, call: Call, outcome: Outcome) -> Message | None:
        """Check an answer; a client whose answer is refused keeps the state it had."""
        c = call.context.client
        if c is None:
            return None
        fault, reason = outcome.fault, outcome.reason
        value = b""
        if fault == Fault.NONE:
            fault, reason = self._check(call, outcome.message)
        if fault == Fault.NONE and isinstance(outcome.message, dict):
            if self.method.fresh and call.context.exchange == 0:
                value = digest(outcome.message)
            if value and self.last.get(c) == value:
                fault, reason = Fault.REPEATED, "the same message as the last time"
        if fault != Fault.NONE or not isinstance(outcome.message, dict):
            self.faults.add(c, fault, reason)
            return None
        self.states[c] = outcome.state
        if value:
            self.last[c] = value
        self.traffic.sent(c, outcome.message)
        for name, number in outcome.metrics.items():
            column = self.client_metrics.setdefault(name, np.full(self.clients, np.nan))
            column[c] = number
        return as_message(outcome.message)

    def _check(self, call: Call, message: object) -> tuple[Fault, str]:
        complaint = malformed(message, self.method.expects(call.down, call.context))
        if complaint or not isinstance(message, dict):
            return Fault.MALFORMED, complaint or "not a message"
        complaint = not_finite(message)
        return (Fault.NOT_FINITE, complaint) if complaint else (Fault.NONE, "")

    def _arrivals(self, messages: dict[int, Message]) -> dict[int, int]:
        ages = {}
        for c, late in list(self.late.items()):
            if late.due <= self.t:
                messages[c] = late.message
                ages[c] = self.t - late.sent
                del self.late[c]
        return ages


def _named(prefix: str, arrays: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{prefix}/{name}": value for name, value in arrays.items()}
