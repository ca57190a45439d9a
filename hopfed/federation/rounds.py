"""One round of a federation, from its state to the next.

The state is dicts of arrays, by client, so that a run file can hold it between any two rounds and a
killed run continues to the same bits. A round replaces the states of those who took part, and
neither copies nor reads those of the others.

Which message makes a step of the server fail, so that the round goes on without its sender.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

import numpy as np

from hopfed._lib.settings import require
from hopfed.federation.contract import EVERYONE, Context, Method, Metrics, State
from hopfed.federation.engines import Call, Engine, Outcome
from hopfed.federation.faults import Fault, FaultLog, TooFewClientsError
from hopfed.federation.messages import Message, Traffic, as_message, digest, malformed, not_finite
from hopfed.federation.participation import Participation
from hopfed.federation.states import Held, StateMap

BLOCK = 64  # clients asked at a time: enough to be stepped together, few enough for their states

_MARK = "#"  # an entry of every flattened dict, so that an empty one is not lost


@dataclass(frozen=True)
class Late:
    """A message under way.

    Attributes
    ----------
    client : who sent it.
    sent, due : round it was sent in, and the one it counts in.
    message : its arrays.

    Examples
    --------
    >>> Late(client=3, sent=0, due=2, message={"value": np.array(1.0)})
    Late(client=3, sent=0, due=2)
    """

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

    Examples
    --------
    >>> state = FederationState({"mean": np.array(0.5)}, last={0: b"digest of it..."})
    >>> flat = state.flatten()
    >>> sorted(flat), float(FederationState.unflatten(flat).server["mean"])
    (['last/0', 'server/mean'], 0.5)
    """

    server: State = field(repr=False)
    clients: StateMap = field(default_factory=StateMap, repr=False)
    down: StateMap = field(default_factory=StateMap, repr=False)
    late: dict[int, Late] = field(default_factory=dict)
    last: dict[int, bytes] = field(default_factory=dict, repr=False)

    def parts(self) -> dict[str, Held]:
        """Return the state in parts that are replaced as a whole, and shared between rounds."""
        found = {"server": Held(self.server)}
        for name, states in (("clients", self.clients), ("down", self.down)):
            found |= {f"{name}/{c}": held for c, held in states.held.items()}
        for c, late in self.late.items():
            when = {"when": np.array([late.sent, late.due])}
            found[f"late/{c}"] = Held(_named("message", late.message) | when)
        digests = {str(c): np.frombuffer(v, dtype=np.uint8) for c, v in self.last.items()}
        return found | {"last": Held(digests)}

    @classmethod
    def of_parts(cls, parts: Mapping[str, Held]) -> FederationState:
        """Rebuild the state from its `parts`; those of clients are not read."""
        held: dict[str, dict[int, Held]] = {"clients": {}, "down": {}, "late": {}}
        for name, part in parts.items():
            kind, _, client = name.partition("/")
            if client:
                held[kind][int(client)] = part
        late = {}
        for c, part in held["late"].items():
            arrays = dict(part.read())
            sent, due = arrays.pop("when")
            message = {name.removeprefix("message/"): a for name, a in arrays.items()}
            late[c] = Late(c, int(sent), int(due), message)
        last = parts["last"].read() if "last" in parts else {}
        return cls(
            parts["server"].read() if "server" in parts else {},
            StateMap(held["clients"]),
            StateMap(held["down"]),
            late,
            {int(name): np.asarray(v, dtype=np.uint8).tobytes() for name, v in last.items()},
        )

    def flatten(self) -> dict[str, np.ndarray]:
        """Return the state as named arrays; all of it is read."""
        flat: dict[str, np.ndarray] = {}
        for name, part in self.parts().items():
            mark = {_MARK: np.array(0)} if name.startswith(("clients/", "down/")) else {}
            flat |= _named(name, part.read() | mark)
        return flat

    @classmethod
    def unflatten(cls, flat: Mapping[str, Any]) -> FederationState:
        """Rebuild the state from its named arrays, `flat`."""
        parts: dict[str, State] = {}
        for name, array in flat.items():
            depth = 1 if name.startswith(("server/", "last/")) else 2
            *head, rest = name.split("/", depth)
            part = parts.setdefault("/".join(head), {})
            if rest != _MARK:
                part[rest] = array
        return cls.of_parts({name: Held(arrays) for name, arrays in parts.items()})


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

    Examples
    --------
    >>> from hopfed.hopfield.channel import rademacher
    >>> from hopfed.hopfield.stream import ArchetypeStream
    >>> from hopfed.federation.engines.local import LocalEngine
    >>> from hopfed.hopfield import HopfieldFederation
    >>> from hopfed.hopfield.encoding import Encoding
    >>> xi = rademacher(2, 100, np.random.default_rng(0))
    >>> source = ArchetypeStream(xi, np.full((1, 3, 2), 0.5), 80, 0.8, seed=0)
    >>> method = HopfieldFederation(source, Encoding(100))
    >>> played = play_round(method, None, 0, seed=0, clients=3, engine=LocalEngine())
    >>> played.traffic.up.tolist(), played.faults.words(), played.server_metrics["n_detected"]
    ([11188, 11188, 11188], [], 2)
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
    >>> from hopfed.hopfield.encoding import Encoding
    >>> xi = rademacher(2, 100, np.random.default_rng(0))
    >>> source = ArchetypeStream(xi, np.full((2, 4, 2), 0.5), 80, 0.8, seed=0)
    >>> method, state = HopfieldFederation(source, Encoding(100)), None
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
    holds = isinstance(minimum, Integral) and 1 <= minimum <= clients
    require(holds, "minimum", f"between 1 and the {clients} clients", repr(minimum))
    if state is None:
        state = FederationState(server=method.server_start(seed))
    round_ = _Round(method, state, t, seed, clients, participation or Participation())
    cohort = round_.cohort()
    for exchange in range(method.exchanges):
        messages, ages = round_.collect(engine, cohort, exchange)
        round_.require(minimum * (exchange == 0), messages)
        messages = round_.serve(messages, exchange, ages)
        round_.require(minimum * (exchange == 0), messages)
        cohort = [c for c in cohort if c in messages and c not in ages]
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
        self.before = self.states = state.clients
        self.down, self.everyone = state.down, Message()
        self.late, self.last = dict(state.late), dict(state.last)
        self.traffic, self.faults = Traffic(clients), FaultLog(clients)
        self.client_metrics: dict[str, np.ndarray] = {}
        self.server_metrics: Metrics = {}
        self.asked = 0

    def cohort(self) -> list[int]:
        """Those asked this round: drawn, and not still at work on an earlier message."""
        asked = set(self.participation.cohort(self.seed, self.t, self.clients)) - set(self.late)
        for c in range(self.clients):
            if c in self.late:
                self.faults.add(c, Fault.LATE, f"message of round {self.late[c].sent} under way")
            elif c not in asked:
                self.faults.add(c, Fault.ABSENT)
        self.asked = len(asked)
        return sorted(asked)

    def collect(
        self, engine: Engine, cohort: list[int], exchange: int
    ) -> tuple[dict[int, Message], dict[int, int]]:
        """Messages up of one exchange, and the ages of those that arrive late."""
        self.everyone = self.down.get(EVERYONE, Message())  # one object, which a pool sends once
        delays = self.participation.delays(self.seed, self.t, self.clients)
        messages: dict[int, Message] = {}
        for start in range(0, len(cohort), BLOCK):
            answered = self._ask(engine, cohort[start : start + BLOCK], exchange)
            for c, message in answered.items():
                if exchange == 0 and delays[c]:
                    due = self.t + int(delays[c])
                    self.late[c] = Late(c, self.t, due, message)
                    self.faults.add(c, Fault.LATE, f"arrives in round {due}")
                else:
                    messages[c] = message
        ages = self._arrivals(messages) if exchange == 0 else {}
        return dict(sorted(messages.items())), ages

    def require(self, minimum: int, messages: Mapping[int, Message]) -> None:
        """Raise an error unless `minimum` clients were heard."""
        if len(messages) < minimum:
            words = "; ".join(self.faults.words()) or "the others were absent or late"
            error = TooFewClientsError(
                f"round {self.t}: {len(messages)} of {self.clients} clients were heard, the "
                f"minimum is {minimum}: {words}"
            )
            error.refused = set(self.faults.codes.tolist()) <= {Fault.NONE, Fault.RAISED}
            raise error

    def serve(
        self, messages: dict[int, Message], exchange: int, ages: dict[int, int]
    ) -> dict[int, Message]:
        """Let the server answer the messages that are of use, and return these.

        What it says is kept until the clients fetch it; the senders of the others are at fault.
        """
        context = Context(self.seed, self.t, exchange, None, ages, self.asked)
        answer = _guarded(self.method, self.server, context)
        useful, (state, down, metrics), culprits = _usable(answer, messages)
        for c, error in culprits.items():
            self.faults.add(c, Fault.UNUSABLE, f"{type(error).__name__}: {error}")
            self.states = self.states.with_those_of(self.before, c)
        # A word to everyone replaces whatever was still to be fetched.
        kept = StateMap(store=self.down.store) if EVERYONE in down else self.down
        self.server, self.down = state, kept.replaced(down)
        self.server_metrics |= metrics
        return useful

    def played(self) -> Played:
        """Close the round."""
        server = as_message(self.server)
        state = FederationState(server, self.states, self.down, self.late, self.last)
        return Played(state, self.client_metrics, self.server_metrics, self.traffic, self.faults)

    def _ask(self, engine: Engine, cohort: list[int], exchange: int) -> dict[int, Message]:
        """Messages of the clients that answered as they should, whose states are replaced."""
        calls = [self._call(c, exchange) for c in cohort]
        outcomes = engine.step(self.method, calls)
        messages: dict[int, Message] = {}
        states: dict[int, State] = {}
        for c, call, outcome in zip(cohort, calls, outcomes, strict=True):
            message = self._accept(c, call, outcome)
            if message is not None:
                messages[c], states[c] = message, as_message(outcome.state)
        self.states = self.states.replaced(states)
        return messages

    def _call(self, c: int, exchange: int) -> Call:
        down = self.down.get(c, self.everyone)
        self.traffic.received(c, down)
        state = self.states.get(c)
        if state is None:
            state = self.method.client_start(c, self.seed)
        return Call(state, down, Context(self.seed, self.t, exchange, c))

    def _accept(self, c: int, call: Call, outcome: Outcome) -> Message | None:
        """Check an answer; a client whose answer is refused keeps the state it had."""
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
        if complaint:
            return Fault.NOT_FINITE, complaint
        judge = getattr(self.method, "complaint", None)
        complaint = judge(self.server, message, call.context) if judge is not None else None
        return (Fault.MALFORMED, complaint) if complaint else (Fault.NONE, "")

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


Step = tuple[State, Mapping[int, Message], Metrics]
Answer = Callable[[Mapping[int, Message]], Step]


def _guarded(method: Method, state: State, context: Context) -> Answer:
    """Return the step of the server, which fails if what it answers is not finite.

    Numbers that overflow on the way are no error by themselves.
    """

    def step(heard: Mapping[int, Message]) -> Step:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            after, answers, metrics = method.server_step(state, heard, context)
        down = {c: as_message(message) for c, message in answers.items()}
        for message in down.values():
            if complaint := not_finite(message):
                raise FloatingPointError(f"in the server's answer {complaint}")
        return after, down, metrics

    return step


def _usable(
    answer: Answer, messages: Mapping[int, Message]
) -> tuple[dict[int, Message], Step, dict[int, Exception]]:
    """Answer as many of the `messages` as can be answered.

    First those messages are left out that fail alone, which halving finds, unless all do. If the
    others still fail together, one is left out without which they succeed. Where there is none,
    the error is our own.
    """
    first = _attempt(answer, messages)
    if not isinstance(first, Exception):
        return dict(messages), first, {}
    culprits = _alone(answer, messages, first)
    if len(culprits) == len(messages) > 1:
        culprits = {}
    useful = {c: m for c, m in messages.items() if c not in culprits}
    found = _attempt(answer, useful)
    if not isinstance(found, Exception):
        return useful, found, culprits
    for c in useful:
        others = {other: m for other, m in useful.items() if other != c}
        without = _attempt(answer, others)
        if not isinstance(without, Exception):
            return others, without, culprits | {c: found}
    raise first


def _alone(
    answer: Answer, messages: Mapping[int, Message], error: Exception
) -> dict[int, Exception]:
    """Messages of a group that failed with `error` that fail by themselves."""
    if len(messages) <= 1:
        return dict.fromkeys(messages, error)
    clients, culprits = list(messages), dict[int, Exception]()
    for half in (clients[: len(clients) // 2], clients[len(clients) // 2 :]):
        group = {c: messages[c] for c in half}
        found = _attempt(answer, group)
        if isinstance(found, Exception):
            culprits |= _alone(answer, group, found)
    return culprits


def _attempt(answer: Answer, messages: Mapping[int, Message]) -> Step | Exception:
    try:
        return answer(messages)
    except Exception as error:  # whatever it is, it may be the work of one client
        return error
