"""Engines: how the steps of a round's clients are carried out."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from hopfed.errors import HopfedError
from hopfed.federation.contract import Context, Method, Metrics, State
from hopfed.federation.faults import Fault
from hopfed.federation.messages import Message

__all__ = ["Engine"]


@dataclass(frozen=True)
class Call:
    """One client step to be made."""

    state: State = field(repr=False)  # of the client
    down: Message = field(repr=False)  # the message to it
    context: Context  # where in the federation this is; `context.client` says whose step it is


@dataclass(frozen=True)
class Outcome:
    """What came of a call: an answer, or a fault and its reason."""

    # state, message, metrics: as the method gave them
    state: State = field(default_factory=dict, repr=False)
    message: Any = None
    metrics: Metrics = field(default_factory=dict)
    fault: Fault = Fault.NONE  # fault, reason: why there is no answer, in a code and in words
    reason: str = ""


class Engine(Protocol):
    """Makes the client steps of one exchange.

    Examples
    --------
    >>> class Backwards:
    ...     def step(self, method, calls):
    ...         return [answer(method, call) for call in reversed(calls)][::-1]
    >>> Backwards().step(None, [])
    []
    """

    def step(self, method: Method, calls: Sequence[Call]) -> list[Outcome]:
        """Make the `calls` of `method`, and answer in their order; a failure is a fault."""
        ...


def answer(method: Method, call: Call) -> Outcome:
    """Make one call in this process; an error of the client is a fault, not an error of ours."""
    try:
        state, message, metrics = method.client_step(call.state, call.down, call.context)
    except Exception as error:  # whatever a client does wrong concerns that client alone
        return _raised(error)
    return Outcome(state, message, metrics)


def answers(method: Method, calls: Sequence[Call]) -> list[Outcome]:
    """Make calls in this process, together if the method can; outcomes in the order of `calls`."""
    together = getattr(method, "client_steps", None)
    if together is not None:
        try:
            found: list[Outcome] = together(calls)
            return found
        except HopfedError:
            raise
        except Exception as error:
            if len(calls) == 1:
                return [_raised(error)]
            return [outcome for call in calls for outcome in answers(method, [call])]
    return [answer(method, call) for call in calls]


def shares(method: Method, calls: Sequence[Call], workers: int) -> list[list[int]]:
    """Calls, by their place, that go to a worker as one: shares of clients that are alike."""
    if not hasattr(method, "client_steps"):
        return [[i] for i in range(len(calls))]
    alike = getattr(method, "alike", None)
    groups: dict[Any, list[int]] = {}
    for i, call in enumerate(calls):
        groups.setdefault(alike and alike(call.context.client), []).append(i)
    found = [group[w::workers] for group in groups.values() for w in range(workers)]
    return [share for share in found if share]


def _raised(error: Exception) -> Outcome:
    return Outcome(fault=Fault.RAISED, reason=f"{type(error).__name__}: {error}")


def unpickled(payload: bytes) -> Method:
    """A method in a worker process."""
    try:
        method: Method = pickle.loads(payload)
    except Exception as error:
        raise HopfedError(
            "a worker process could not load the method: what it is made of must be importable "
            f"from a module ({error})"
        ) from None
    return method
