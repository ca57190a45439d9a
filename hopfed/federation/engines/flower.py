"""The engine `flower`: the steps of an exchange as messages of Flower, by its public modules alone.

Apps run in this process: Flower's simulation runs them in Ray. States stay with their app.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hopfed.errors import BackendError
from hopfed.federation.contract import Call, Fault, Method, Outcome, State
from hopfed.federation.engines import answer
from hopfed.federation.machines import wire
from hopfed.federation.messages import as_message, below

os.environ["FLWR_TELEMETRY_ENABLED"] = "0"
try:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what its dependencies deprecate in one another
        from flwr.app import ConfigRecord, Context, Message, Metadata, RecordDict
        from flwr.clientapp import ClientApp
except ImportError:
    raise BackendError("flwr is not installed: pip install 'hopfed[flower]'") from None

KEY = "hopfed"


def client_app(method: Method, states: dict[int, State]) -> ClientApp:
    """Return the Flower app of clients whose `states`, by number, lie where it runs."""
    app = ClientApp()

    @app.query()  # type: ignore[untyped-decorator, unused-ignore]
    def query(message: Message, _: Context) -> Message:
        call = wire.read_question(_data(message))[0]
        client = int(call.context.client or 0)
        state = states.get(client) or method.client_start(client, call.context.seed)
        outcome = answer(method, replace(call, state=state))
        if outcome.fault == Fault.NONE:
            states[client] = outcome.state
            sent = {f"up/{name}": array for name, array in as_message(outcome.message).items()}
            sent |= {f"metrics/{name}": np.array(x) for name, x in outcome.metrics.items()}
            outcome = Outcome(message=sent)
        return Message(_record(wire.write_reply(outcome)), reply_to=message)

    return app


class FlowerEngine:
    """Steps as Flower's messages to its apps, which are in this process."""

    def step(self, method: Method, calls: Sequence[Call]) -> list[Outcome]:
        """Outcomes in the order of `calls`."""
        states = {int(call.context.client or 0): call.state for call in calls}
        app, found = client_app(method, states), []
        for client, call in zip(states, calls, strict=True):
            names = 1, "", 0, 1 + client, "", ""  # run, message, from, to, in answer to, group
            question = _record(wire.write_question(replace(call, state={})))
            message = Message(question, metadata=Metadata(*names, time.time(), 3600.0, "query"))
            here = Context(0, 1 + client, {}, RecordDict(), {})
            reply = wire.read_reply(_data(app(message, here)))
            metrics = {name: float(x) for name, x in below(reply.message, "metrics").items()}
            up = below(reply.message, "up")
            found.append(replace(reply, state=states[client], message=up, metrics=metrics))
        return found


def _record(data: bytes) -> RecordDict:
    return RecordDict({KEY: ConfigRecord({KEY: data})})


def _data(message: Message) -> bytes:
    """Bytes that a message holds."""
    data: bytes = message.content[KEY][KEY]  # type: ignore[index, assignment, call-overload, unused-ignore]
    return data
