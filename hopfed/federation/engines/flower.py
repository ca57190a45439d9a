"""The engine `flower`: client steps as messages of Flower, by its public modules alone.

With the grid that Flower hands to a ServerApp, clients are the nodes of its SuperLink, where each
runs `client_app(method)`, and the state of a client stays in the context of its node. Without one,
apps run in this process: Flower's simulation runs them in Ray.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hopfed._lib.settings import require
from hopfed.errors import BackendError, DataError
from hopfed.federation.contract import Call, Fault, Method, Outcome
from hopfed.federation.engines import make_step
from hopfed.federation.machines import wire
from hopfed.federation.messages import as_message, pack, part_of, unpack

os.environ["FLWR_TELEMETRY_ENABLED"] = "0"
try:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecations among its dependencies
        from flwr.app import ConfigRecord, Context, Message, Metadata, RecordDict
        from flwr.clientapp import ClientApp
except ImportError:
    raise BackendError("flwr is not installed: pip install 'hopfed[flower]'") from None

KEY, STATE = "hopfed", "state"  # names of records


def client_app(method: Any) -> ClientApp:
    """Return the Flower app of a node, which makes the client steps of `method`."""
    app, method = ClientApp(), getattr(method, "client", method)  # the part for the clients

    @app.query()  # type: ignore[untyped-decorator, unused-ignore]
    def query(message: Message, here: Context) -> Message:
        call = wire.read_question(_data(message.content))[0]
        state = _state(here.state)
        if state is None:
            state = method.client_start(call.context.client, call.context.seed)
        outcome = make_step(method, replace(call, state=state))
        if outcome.fault == Fault.NONE:
            here.state[STATE] = ConfigRecord({KEY: pack(outcome.state).tobytes()})
            sent = {f"up/{name}": array for name, array in as_message(outcome.message).items()}
            sent |= {f"metrics/{name}": np.array(x) for name, x in outcome.metrics.items()}
            outcome = Outcome(message=sent)
        reply = ConfigRecord({KEY: wire.write_reply(outcome)})
        return Message(RecordDict({KEY: reply}), reply_to=message)

    return app


class FlowerEngine:
    """Engine by Flower's messages to its apps: at the nodes of a `grid`, or in this process.

    Client c is the node ``nodes[c]``, of the nodes that are connected now.
    """

    def __init__(self, grid: Any = None):
        self.grid = grid
        self.nodes = range(1, 1 << 32) if grid is None else sorted(grid.get_node_ids())

    def step(self, method: Method, calls: Sequence[Call]) -> list[Outcome]:
        """Outcomes in the order of `calls`."""
        grid, nodes, sent = self.grid or _LocalGrid(method, calls), [], []
        for call in calls:
            client, there = int(call.context.client or 0), len(self.nodes)
            require(client < there, "clients", f"at most the {there} nodes there", client + 1)
            nodes.append(self.nodes[client])
            question = ConfigRecord({KEY: wire.write_question(replace(call, state={}))})
            sent.append(grid.create_message(RecordDict({KEY: question}), "query", nodes[-1], ""))
        replies = grid.send_and_receive(sent)
        found = {reply.metadata.src_node_id: _outcome(reply) for reply in replies}
        return [found.get(n, Outcome(fault=Fault.TIMED_OUT, reason="no answer")) for n in nodes]


class _LocalGrid:
    """Flower grid in this process, whose nodes are the clients that are called."""

    def __init__(self, method: Method, calls: Sequence[Call]):
        self.app = client_app(method)
        self.states = {1 + int(call.context.client or 0): call.state for call in calls}

    def create_message(self, content: RecordDict, kind: str, node: int, group: str) -> Message:
        names = 1, "", 0, node, "", group  # run, message, from, to, in answer to
        return Message(content, metadata=Metadata(*names, time.time(), 3600.0, kind))

    def send_and_receive(self, messages: Sequence[Message], **_: object) -> Iterable[Message]:
        for message in messages:
            node = message.metadata.dst_node_id
            state = ConfigRecord({KEY: pack(self.states[node]).tobytes()})
            here = Context(0, node, {}, RecordDict({STATE: state}), {})
            reply = self.app(message, here)
            reply.content[STATE] = here.state[STATE]  # at a node of Flower it stays
            yield reply


def _data(content: RecordDict, name: str = KEY) -> bytes:
    """Bytes of a Flower record; empty if it is missing."""
    record = content.get(name)
    data = record.get(KEY) if isinstance(record, ConfigRecord) else None
    return data if isinstance(data, bytes) else b""


def _outcome(reply: Message) -> Outcome:
    """Outcome of a call, from a reply that may be malformed."""
    if reply.has_error():
        return Outcome(fault=Fault.RAISED, reason=str(reply.error.reason))
    try:
        found = wire.read_reply(_data(reply.content))
        metrics = {name: float(x) for name, x in part_of(found.message, "metrics").items()}
        state = _state(reply.content) or {}
    except (DataError, TypeError) as error:
        return Outcome(fault=Fault.MALFORMED, reason=str(error))
    return replace(found, state=state, message=part_of(found.message, "up"), metrics=metrics)


def _state(content: RecordDict) -> dict[str, Any] | None:
    """State of a client in a Flower record of its own; None if it is missing."""
    data = bytearray(_data(content, STATE))  # a copy, which a step may change
    return unpack(np.frombuffer(data, np.uint8)) if data else None
