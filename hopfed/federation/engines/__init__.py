"""Engines: how the steps of a round's clients are carried out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from hopfed.federation.contract import Context, Method, Metrics, State
from hopfed.federation.faults import Fault
from hopfed.federation.messages import Message


@dataclass(frozen=True)
class Call:
    """One client step to be made."""

    state: State = field(repr=False)
    down: Message = field(repr=False)
    context: Context


@dataclass(frozen=True)
class Outcome:
    """What came of a call: an answer, or a fault and its reason."""

    state: State = field(default_factory=dict, repr=False)
    message: object = None
    metrics: Metrics = field(default_factory=dict)
    fault: Fault = Fault.NONE
    reason: str = ""


class Engine(Protocol):
    """Makes the client steps of one exchange."""

    def step(self, method: Method, calls: Sequence[Call]) -> list[Outcome]:
        """Outcomes in the order of `calls`; a client that fails has a fault for an outcome."""
        ...


def answer(method: Method, call: Call) -> Outcome:
    """Make one call in this process; an error of the client is a fault, not an error of ours."""
    try:
        state, message, metrics = method.client_step(call.state, call.down, call.context)
    except Exception as error:  # whatever a client does wrong concerns that client alone
        return Outcome(fault=Fault.RAISED, reason=f"{type(error).__name__}: {error}")
    return Outcome(state, message, metrics)
