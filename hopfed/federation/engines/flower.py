"""The engine `flower`: the steps of an exchange as messages of Flower.

It rests on Flower's public modules alone. Apps run in this process, as Flower's own simulation
runs them in Ray, a cluster framework that hopfed has no other use for. With the grid that Flower
hands to a ServerApp, they are at the nodes of its SuperLink, where each runs `client_app(method)`.
The state of a client stays in the context of its node.
"""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

import hopfed.federation.contract as contract
from hopfed.errors import BackendError, DataError
from hopfed.federation.contract import Method
from hopfed.federation.engines import Call, Outcome, answer
from hopfed.federation.faults import Fault
from hopfed.federation.messages import as_message, below
from hopfed.federation.packing import pack, unpack

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
        asked = _read(message.content)
        where = contract.Context(*json.loads(asked.pop("where").tobytes()))
        state = _read(here.state) or method.client_start(int(where.client or 0), where.seed)
        outcome = answer(method, Call(state, below(asked, "down"), where))
        words = json.dumps([outcome.fault, outcome.reason, outcome.metrics], default=float)
        sent = {"words": np.frombuffer(words.encode(), np.uint8)}
        if outcome.fault == Fault.NONE:
            here.state = _record(as_message(outcome.state))
            sent |= {f"up/{name}": array for name, array in as_message(outcome.message).items()}
        return Message(_record(sent), reply_to=message)

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
    here = Context(0, node, {}, _record(as_message(call.state)), {})
    return _outcome(app(message, here), here.state)


def _question(call: Call) -> RecordDict:
    """What is asked of a client, and where in the federation this is."""
    c = call.context
    where = json.dumps([c.seed, c.round, c.exchange, c.client]).encode()
    down = {f"down/{name}": array for name, array in call.down.items()}
    return _record({"where": np.frombuffer(where, np.uint8), **down})


def _record(arrays: dict[str, Any]) -> RecordDict:
    return RecordDict({KEY: ConfigRecord({KEY: pack(arrays).tobytes()})} if arrays else {})


def _read(content: RecordDict) -> dict[str, Any]:
    """Arrays of a record, which a step may change; nothing where there is none."""
    record = content.get(KEY)
    data = record.get(KEY) if isinstance(record, ConfigRecord) else None
    return unpack(np.frombuffer(bytearray(data), np.uint8)) if isinstance(data, bytes) else {}


def _outcome(message: Message, state: RecordDict) -> Outcome:
    if message.has_error():
        return Outcome(fault=Fault.RAISED, reason=str(message.error.reason or "no reason given"))
    try:
        found = _read(message.content)
        fault, reason, metrics = json.loads(found["words"].tobytes())
        return Outcome(_read(state), below(found, "up"), metrics, Fault(fault), reason)
    except (DataError, KeyError, TypeError, ValueError) as error:
        return Outcome(fault=Fault.MALFORMED, reason=str(error))
