"""The engine `flower`: the steps of an exchange as messages through a Flower grid.

It rests on Flower's public modules alone. In `FlowerEngine.simulated` the nodes are in this
process: Flower's own simulation runs them in Ray, a cluster framework that hopfed has no other use
for. With the grid that Flower hands to a ServerApp, the nodes are those of its SuperLink, where
each runs `client_app(method)`. The state of a client stays in the context of its node.
"""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Iterable, Sequence
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
            sent |= {f"up/{name}": array for name, array in as_message(outcome.message).items()}  # type: ignore[arg-type]
        return Message(_record(sent), reply_to=message)

    return app


class FlowerEngine:
    """Steps behind a Flower grid, each of whose nodes is a client; a context manager."""

    def __init__(self, grid: Grid):
        self.grid = grid

    @classmethod
    def simulated(cls) -> FlowerEngine:
        """Return an engine whose nodes are in this process, and answer one after the other."""
        return cls(_HereGrid())

    def __enter__(self) -> FlowerEngine:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def step(self, method: Method, calls: Sequence[Call]) -> list[Outcome]:
        """Outcomes in the order of `calls`."""
        here = self.grid if isinstance(self.grid, _HereGrid) else None
        if here is not None:
            here.prepare(method, calls)
        nodes, sent, places = list(self.grid.get_node_ids()), [], dict[int, int]()
        for i, call in enumerate(calls):
            c = call.context
            where = json.dumps([c.seed, c.round, c.exchange, c.client]).encode()
            down = {f"down/{name}": array for name, array in call.down.items()}
            record = _record({"where": np.frombuffer(where, np.uint8), **down})
            node = nodes[int(c.client or 0)] if nodes else 1 + int(c.client or 0)
            places[node] = i
            sent.append(self.grid.create_message(record, "query", node, ""))
        found = [Outcome(fault=Fault.TIMED_OUT, reason="no answer")] * len(calls)
        for reply in self.grid.send_and_receive(sent):
            node = reply.metadata.src_node_id
            kept = here.contexts[node].state if here is not None else RecordDict()
            found[places[node]] = _outcome(reply, kept)
        return found


class _HereGrid(Grid):
    """A grid whose nodes answer at once, in this process; whatever their number, they are there."""

    def __init__(self) -> None:
        self.contexts: dict[int, Context] = {}

    def prepare(self, method: Method, calls: Sequence[Call]) -> None:
        """Give the nodes of `calls` the method, and the states that their clients have."""
        self.app, self.contexts = client_app(method), {}
        for call in calls:
            node = 1 + int(call.context.client or 0)
            self.contexts[node] = Context(0, node, {}, _record(as_message(call.state)), {})

    def set_run(self, run: Any) -> None:
        """Do nothing: there is one run."""

    @property
    def run(self) -> Any:
        """None: a run of this process has no record at a SuperLink."""
        return None

    def create_message(
        self,
        content: RecordDict,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | None = None,
    ) -> Message:
        """Return a message to a node."""
        life = 3600.0 if ttl is None else ttl
        names = 1, "", 0, dst_node_id, "", group_id  # run, message, from, to, in answer to, group
        return Message(content, metadata=Metadata(*names, time.time(), life, message_type))

    def get_node_ids(self) -> Iterable[int]:
        """Nobody: the node of client c is 1 + c."""
        return []

    def get_nodes(self) -> Iterable[Any]:
        """Nobody, as there is no list of them."""
        return []

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:  # noqa: ARG002
        """Fail: answers come at once."""
        raise BackendError("send_and_receive answers at once")

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:  # noqa: ARG002
        """Nothing is left to be fetched."""
        return []

    def send_and_receive(
        self,
        messages: Iterable[Message],
        *,
        timeout: float | None = None,  # noqa: ARG002
    ) -> Iterable[Message]:
        """Hand each message to its node, and yield the answer."""
        for message in messages:
            yield self.app(message, self.contexts[message.metadata.dst_node_id])


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
