"""The contract between methods and engines.

A round is a script of the server, which asks clients and goes on with their answers. A client turns
its state and the last message down into a new state and a message up, dicts of arrays. A method is
a frozen dataclass of settings; it keeps nothing between calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Protocol

import numpy as np

from hopfed._lib.random import derive, stream
from hopfed.errors import HopfedError
from hopfed.federation.messages import Message, Spec

__all__ = ["Context", "Method"]

EVERYONE = -1  # key of the message down to every client that has no message of its own
REASON = 240  # bytes of a reason that are kept

State = dict[str, Any]  # name -> array
Metrics = dict[str, Any]  # name -> number at a client, number or array at the server


@dataclass(frozen=True)
class Context:
    """Place of a step in a federation (round, exchange, client), which names its random draws.

    Attributes
    ----------
    seed : of the run.
    round, exchange : counted from 0.
    client : index of the client, None at the server.

    Examples
    --------
    >>> steps = [Context(seed=1, round=4, exchange=0, client=c) for c in (2, 3, 2)]
    >>> [int(step.rng("noise").integers(100)) for step in steps]
    [5, 71, 5]
    """

    seed: int
    round: int
    exchange: int
    client: int | None = None

    def rng(self, *purpose: str | int) -> np.random.Generator:
        """Stream of this step for a `purpose`; no engine, order or resumption changes its draws."""
        return stream(self.seed, *self._path(purpose))

    def derive(self, *purpose: str | int) -> int:
        """Seed of this step for a `purpose`, for functions that take one."""
        return derive(self.seed, *self._path(purpose))

    def _path(self, purpose: tuple[str | int, ...]) -> tuple[str | int, ...]:
        participant = "server" if self.client is None else self.client
        return (*purpose, self.round, self.exchange, participant)


class Method(Protocol):
    """Interface of a federated method: the steps of its clients, and the server's script.

    It may also have `client_steps(calls)`, which returns the outcomes of many calls at once, and
    `alike(client)`, equal for clients that should be answered together.

    `state` is that of a client or of the server, which it alone sees; `down` the last message from
    the server, empty before the first; `context` where in the federation this is; `client` an index
    from 0; `seed` that of the run; `session` the clients of a round.

    Examples
    --------
    >>> import numpy as np
    >>> from hopfed.federation.engines import LocalEngine
    >>> from hopfed.federation.messages import Field
    >>> from hopfed.federation.rounds import play_round
    >>> class Mean:
    ...     def client_start(self, client, seed):
    ...         return {"value": np.array(float(client))}
    ...     def server_start(self, seed):
    ...         return {}
    ...     def expects(self, down, context):
    ...         return {"value": Field((), "f")}
    ...     def client_step(self, state, down, context):
    ...         return state, {"value": state["value"]}, {}
    ...     def play(self, state, session):
    ...         mean = np.mean([m["value"] for m in session.ask().values()])
    ...         return {"mean": mean}, {EVERYONE: {"mean": mean}}, {}
    >>> played = play_round(Mean(), None, 0, seed=0, clients=4, engine=LocalEngine())
    >>> float(played.state.server["mean"]), played.traffic.up.tolist()
    (1.5, [8, 8, 8, 8])
    """

    def client_start(self, client: int, seed: int) -> State:
        """State of a client before its first round."""
        ...

    def server_start(self, seed: int) -> State:
        """State of the server before the first round."""
        ...

    def expects(self, down: Message, context: Context) -> Spec:
        """Form of the answer to `down`; no message of another form reaches the server."""
        ...

    def client_step(
        self, state: State, down: Message, context: Context
    ) -> tuple[State, Message, Metrics]:
        """Answer `down`, empty before the first broadcast."""
        ...

    def play(self, state: State, session: Any) -> tuple[State, Mapping[int, Message], Metrics]:
        """Play a round at the server: its state, last message by client or to `EVERYONE`."""
        ...


class Fault(IntEnum):
    """Fault of a client's call in a round: why the server did not hear from the client."""

    NONE = 0
    ABSENT = 1  # not in the cohort of the round
    LATE = 2  # its message is under way and counts in the round in which it arrives
    RAISED = 3
    TIMED_OUT = 4
    DIED = 5  # its process ended
    MALFORMED = 6
    NOT_FINITE = 7

    @property
    def words(self) -> str:
        """Its name in words."""
        return self.name.lower().replace("_", " ")


class TooFewClientsError(HopfedError):
    """Fewer clients answered in a round than the required minimum."""

    refused = False  # whether all other clients were reached, and failed or refused


@dataclass(frozen=True)
class Call:
    """Call of a client step for an engine: the client's state, the message down, the context."""

    state: State = field(repr=False)  # of the client
    down: Message = field(repr=False)  # the message to it
    context: Context  # place in the federation; `context.client` is the client


@dataclass(frozen=True)
class Outcome:
    """Outcome of a client step: its new state and answer, or a fault and the reason."""

    state: State = field(default_factory=dict, repr=False)
    message: Any = None
    metrics: Metrics = field(default_factory=dict)
    fault: Fault = Fault.NONE  # fault, reason: why there is no answer, in a code and in words
    reason: str = ""


# Makes the client steps of one exchange: `step(method, calls)` gives outcomes in their order.
Engine = Any
