"""The engine `flower`: the steps of an exchange as messages of Flower.

It rests on Flower's public modules alone. Apps run in this process, as Flower's own simulation
runs them in Ray, a cluster framework that hopfed has no other use for. With the grid that Flower
hands to a ServerApp, they are at the nodes of its SuperLink, where each runs `client_app(method)`.
The state of a client stays in the context of its node.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hopfed.errors import BackendError, DataError
from hopfed.federation.contract import Call, Fault, Method, Outcome
from hopfed.federation.engines import answer
from hopfed.federation.machines import wire
from hopfed.federation.messages import as_message, below, pack, unpack

os.environ["FLWR_TELEMETRY_ENABLED"] = "0"
try:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what its dependencies deprecate in one another
        from flwr.app import ConfigRecord, Context, Message, Metadata, RecordDict
        from flwr.clientapp import ClientApp
        from flwr.serverapp import Grid
except ImportError:
    raise BackendError("flwr is not installed: pip install 'hopfed[flower]'") from None

KEY = "hopfed"


def client_app(method: Method) -> ClientApp:
    """Return the Flower app of a node, which makes the steps of a method's clients."""
    app = ClientApp()

    @app.query()  # type: ignore[untyped-decorator, unused-ignore]
    def query(message: Message, here: Context) -> Message:
        asked = wire.read_question(_data(message.content))[0]
        where = asked.context
        state = _state(here.state) or method.client_start(int(where.client or 0), where.seed)
        outcome = answer(method, Call(state, asked.down, where))
        if outcome.fault == Fault.NONE:
            here.state = _record(pack(as_message(outcome.state)).tobytes())
            sent = {f"up/{name}": array for name, array in as_message(outcome.message).items()}
            sent |= {f"metrics/{name}": np.array(x) for name, x in outcome.metrics.items()}
            outcome = Outcome(message=sent)
        return Message(_record(wire.write_reply(outcome)), reply_to=message)

    return app


class FlowerEngine:
    """Steps as Flower's messages to its apps, each of which is a client; a context manager.

    Without a grid the apps are in this process, and answer one after the other.
    """

    def __init__(self, grid: Grid | None = None):
        self.grid = grid

    def __enter__(self) -> FlowerEngine:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def step(self, method: Method, calls: Sequence[Call]) -> list[Outcome]:
        """Outcomes in the order of `calls`."""
        if self.grid is None:
            app = client_app(method)
            return [_step_here(app, call) for call in calls]
        nodes, sent, places = list(self.grid.get_node_ids()), [], dict[int, int]()
        for i, call in enumerate(calls):
            node = nodes[int(call.context.client or 0)]
            places[node] = i
            sent.append(self.grid.create_message(_question(call), "query", node, ""))
        found = [Outcome(fault=Fault.TIMED_OUT, reason="no answer")] * len(calls)
        for reply in self.grid.send_and_receive(sent):
            found[places[reply.metadata.src_node_id]] = _outcome(reply, RecordDict())
        return found


def _step_here(app: ClientApp, call: Call) -> Outcome:
    """Hand a call to an app of this process; the state of the client does not travel."""
    node = 1 + int(call.context.client or 0)
    names = 1, "", 0, node, "", ""  # run, message, from, to, in answer to, group
    message = Message(_question(call), metadata=Metadata(*names, time.time(), 3600.0, "query"))
    state = _record(pack(as_message(call.state)).tobytes())
    here = Context(0, node, {}, state, {})
    return _outcome(app(message, here), here.state)


def _question(call: Call) -> RecordDict:
    """What is asked of a client, and where in the federation this is."""
    return _record(wire.write_question(Call({}, call.down, call.context)))


def _record(data: bytes) -> RecordDict:
    return RecordDict({KEY: ConfigRecord({KEY: data})})


def _data(content: RecordDict) -> bytes:
    """Bytes of a record; none where there is none."""
    record = content.get(KEY)
    data = record.get(KEY) if isinstance(record, ConfigRecord) else None
    return data if isinstance(data, bytes) else b""


def _state(content: RecordDict) -> dict[str, Any]:
    """State of a client, which a step may change; nothing where there is none."""
    data = _data(content)
    return unpack(np.frombuffer(bytearray(data), np.uint8)) if data else {}


def _outcome(message: Message, state: RecordDict) -> Outcome:
    if message.has_error():
        return Outcome(fault=Fault.RAISED, reason=str(message.error.reason or "no reason given"))
    try:
        found = wire.read_reply(_data(message.content))
    except DataError as error:
        return Outcome(fault=Fault.MALFORMED, reason=str(error))
    metrics = {name: float(x) for name, x in below(found.message, "metrics").items()}
    sent = below(found.message, "up")
    return replace(found, state=_state(state), message=sent, metrics=metrics)
