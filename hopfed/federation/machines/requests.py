"""Calls as requests to clients whose states stay with them, and replies as outcomes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hopfed.federation.contract import Method
from hopfed.federation.engines import Call, Outcome
from hopfed.federation.faults import Fault
from hopfed.federation.machines.wire import Reply, Request
from hopfed.federation.messages import Message
from hopfed.federation.recipes import describe

HELD = "held"  # the entry of a state that is elsewhere: its name


def requests_of(
    run: str, method: Method, calls: Sequence[Call], columns: Message | None = None
) -> list[Request]:
    """Requests of an exchange; the state of a call is the name of one that is elsewhere."""
    text, made_of = describe(method)
    return [
        Request(
            run,
            call.context,
            np.asarray(call.state[HELD]).tobytes() if HELD in call.state else b"",
            text,
            made_of,
            call.down,
            columns=columns or {},
        )
        for call in calls
    ]


def outcome_of(reply: Reply) -> Outcome:
    """Outcome of a step whose state stays where it was made."""
    if reply.fault != Fault.NONE:
        return Outcome(fault=reply.fault, reason=reply.reason)
    state = {HELD: np.frombuffer(reply.state, dtype=np.uint8)}
    return Outcome(state, reply.up, reply.metrics)


def client_of(request: Request) -> int:
    """Number of the client that is asked; -1 for the one of nobody."""
    return -1 if request.context.client is None else request.context.client
