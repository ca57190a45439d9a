"""The engine `flower`: the steps of an exchange as messages through a Flower grid.

It rests on Flower's public modules alone. In `FlowerEngine.simulated` the nodes are in this
process: Flower's own simulation runs them in Ray, a cluster framework that hopfed has no other use
for. With the grid that Flower hands to a ServerApp, the nodes are those of its SuperLink, where
each runs `client_app`.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from hopfed.errors import BackendError, DataError
from hopfed.federation.contract import Method
from hopfed.federation.engines import Call, Outcome
from hopfed.federation.faults import Fault
from hopfed.federation.machines.node import KeptStates, Node
from hopfed.federation.machines.wire import (
    Reply,
    Request,
    client_of,
    outcome_of,
    read_reply,
    requests_of,
    write_request,
)

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


def client_app(node: Node) -> ClientApp:
    """Return the Flower app of a node: it answers questions in bytes with bytes."""
    app = ClientApp()

    @app.query()  # type: ignore[untyped-decorator, unused-ignore]
    def query(message: Message, _: Context) -> Message:
        return Message(_record(node.written(_bytes(message))), reply_to=message)

    return app


class FlowerEngine:
    """Steps behind a Flower grid, each of whose nodes is a client; a context manager."""

    def __init__(self, grid: Grid, kept: KeptStates | None = None, run: str = "flower"):
        self.grid, self.kept, self.run = grid, kept, run

    @classmethod
    def simulated(cls) -> FlowerEngine:
        """Return an engine whose nodes are in this process, and answer one after the other."""
        kept = KeptStates()
        # What this process describes it may also make: classes of any module.
        return cls(_HereGrid(client_app(Node(kept, trusted=None))), kept)

    def __enter__(self) -> FlowerEngine:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def step(self, method: Method, calls: Sequence[Call]) -> list[Outcome]:
        """Outcomes in the order of `calls`."""
        requests = requests_of(self.run, method, calls)
        if self.kept is not None:
            requests = [
                replace(request, base=self.kept.put(self.run, client_of(request), 0, 0, call.state))
                for request, call in zip(requests, calls, strict=True)
            ]
        nodes = list(self.grid.get_node_ids())
        places = {nodes[client_of(r)] if nodes else 1 + client_of(r): r for r in requests}
        sent = [self._message(_record(write_request(r)), node) for node, r in places.items()]
        found = {
            client_of(places[reply.metadata.src_node_id]): _read(reply)
            for reply in self.grid.send_and_receive(sent)
        }
        silent = Reply(fault=Fault.TIMED_OUT, reason="no answer")
        outcomes = [self._outcome(r, found.get(client_of(r), silent)) for r in requests]
        if self.kept is not None:
            self.kept.clear()
        return outcomes

    def _message(self, record: RecordDict, node: int) -> Message:
        made: Message = self.grid.create_message(record, "query", node, "")
        return made

    def _outcome(self, request: Request, reply: Reply) -> Outcome:
        outcome = outcome_of(reply)
        if self.kept is None or outcome.fault:
            return outcome
        state = self.kept.get(self.run, client_of(request), reply.state)
        return replace(outcome, state=state)


class _HereGrid(Grid):
    """A grid whose nodes answer at once, in this process; whatever their number, they are there."""

    def __init__(self, app: ClientApp):
        self.app = app

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
            node = message.metadata.dst_node_id
            yield self.app(message, Context(0, node, {}, RecordDict(), {}))


def _record(data: bytes) -> RecordDict:
    return RecordDict({KEY: ConfigRecord({KEY: data})})


def _bytes(message: Message) -> bytes:
    record = message.content.get(KEY)
    data = record.get(KEY) if isinstance(record, ConfigRecord) else None
    return data if isinstance(data, bytes) else b""


def _read(message: Message) -> Reply:
    if message.has_error():
        return Reply(fault=Fault.RAISED, reason=str(message.error.reason or "no reason given"))
    try:
        return read_reply(_bytes(message))
    except DataError as error:
        return Reply(fault=Fault.MALFORMED, reason=str(error))
