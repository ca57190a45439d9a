"""Nodes in this process, on Flower's in-memory link: a federation on Flower, on one machine.

Flower's own simulation runs its nodes in Ray, a cluster framework that hopfed has no other use for.
Here a thread takes the place of Ray: messages go through the same link state and the same app as
across machines, and a node is woken when there is something for it instead of asking all the time.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable
from typing import Any
from uuid import uuid4

from flwr.app import Context as FlowerContext
from flwr.app import Message as FlowerMessage
from flwr.app import RecordDict
from flwr.clientapp import ClientApp
from flwr.common.constant import HEARTBEAT_INTERVAL_INF, NOOP_ACCOUNT_NAME, NOOP_FLWR_AID
from flwr.superlink.grid import InMemoryGrid

from hopfed.federation.contract import Method
from hopfed.federation.engines import Call, Outcome
from hopfed.federation.engines.flower.engine import FlowerEngine
from hopfed.federation.engines.flower.kept_states import KeptStates
from hopfed.federation.engines.flower.link import Link
from hopfed.federation.engines.flower.node import Node

PULL = 0.002  # seconds between two looks for replies


class FlowerSimulation(FlowerEngine):
    """Steps of clients that are Flower nodes of this process; a context manager.

    Nodes answer one after the other, in a thread of their own.
    """

    def __init__(self) -> None:
        self._link = Link()
        self._nodes: dict[int, int] = {}
        self._work: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        kept = KeptStates()
        # What this process describes it may also make: classes of any module.
        app = Node(kept, trusted=None).app()
        super().__init__(_Grid(self._link, self._work), self._node, "simulation", kept)
        self._thread = threading.Thread(target=self._serve, args=(app,), daemon=True)
        self._thread.start()

    def __enter__(self) -> FlowerSimulation:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def step(self, method: Method, calls: Any) -> list[Outcome]:
        """Outcomes in the order of `calls`."""
        self._link.enter()
        return super().step(method, list[Call](calls))

    def close(self) -> None:
        """End the thread."""
        self._work.put(None)
        self._thread.join()

    def _node(self, client: int) -> int:
        if client not in self._nodes:
            key = f"client {client}".encode()
            owner = NOOP_FLWR_AID, NOOP_ACCOUNT_NAME
            node = self._link.state.create_node(*owner, key, HEARTBEAT_INTERVAL_INF)
            self._link.state.acknowledge_node_heartbeat(node, HEARTBEAT_INTERVAL_INF)
            self._nodes[client] = node
        return self._nodes[client]

    def _serve(self, app: ClientApp) -> None:
        """Answer what comes, until there is a None."""
        state = self._link.state
        while (node := self._work.get()) is not None:
            for message in state.get_message_ins(node, limit=1):
                context = FlowerContext(self._link.run_id, node, {}, RecordDict(), {})
                reply = app(message, context)
                reply.metadata.__dict__["_message_id"] = str(uuid4())
                state.store_message_res(reply)


class _Grid(InMemoryGrid):
    """Flower's grid in memory, which also wakes the nodes that a message is for."""

    def __init__(self, link: Link, work: queue.SimpleQueue[int | None]):
        super().__init__(link.factory, pull_interval=PULL)
        self.set_run(link.run)
        self._work = work

    def push_messages(self, messages: Iterable[FlowerMessage]) -> Iterable[str]:
        """Push messages, and wake who they are for."""
        messages = list(messages)
        found = super().push_messages(messages)
        for message in messages:
            self._work.put(message.metadata.dst_node_id)
        result: Iterable[str] = found
        return result
