"""Owners of tables with names of columns, and a server that asks them in one process, for tests."""

import numpy as np
from asking import N

from hopfed.experiments import serve
from hopfed.federation.contract import Context
from hopfed.federation.engines import Outcome
from hopfed.federation.machines.node import KeptStates, Node
from hopfed.federation.machines.wire import (
    Request,
    read_reply,
    write_request,
)
from hopfed.federation.recipes import describe
from hopfed.hopfield.columns import told_names
from hopfed.hopfield.ledger import Ledger
from hopfed.hopfield.owner import ALLOWED, Owner, as_recorded
from hopfed.tables.examples import as_examples

NAMES = tuple(f"question {j}" for j in range(N))
ORDER = np.random.default_rng(5).permutation(N)


def node(folder, rows, names, epsilon=None):
    """Return a node as `hopfed join` makes it of a table with names, in a home of its own."""
    rows = as_examples(rows, gaps=True)
    folder.mkdir(parents=True, exist_ok=True)
    ledger, names = Ledger(folder / "privacy"), tuple(map(str, names))
    rows, filed = as_recorded(rows, names, ledger)
    named = Owner(rows, 7, epsilon, 1e-5, ledger, names, filed)
    adapt = lambda method, request: named.adapt(method, request.columns)  # noqa: E731
    return Node(KeptStates(folder / "states"), adapt, trusted=ALLOWED, private=True)


def put(node, method, told, exchange=0, base=b"", down=None, run="run"):
    """Ask a node as a server that says this of its columns."""
    text, parts = describe(getattr(method, "client", method))
    where = Context(0, 0, exchange, 0)
    request = Request(run, where, base, text, parts, down or {}, columns=told)
    return node.answer(write_request(request))


class Together:
    """A server and its clients in one process, with all that travels written and read."""

    def __init__(self, nodes):
        self.nodes, self.columns = nodes, {}

    def step(self, method, calls):
        text, parts = describe(method)
        replies = []
        for call in calls:
            base = np.asarray(call.state.get("held", ())).tobytes()
            where = Context(0, call.context.round, call.context.exchange, call.context.client)
            request = Request("run", where, base, text, parts, call.down, columns=self.columns)
            reply = read_reply(self.nodes[where.client].written(write_request(request)))
            state = {"held": np.frombuffer(reply.state, np.uint8)}
            replies.append(Outcome(state, reply.up, reply.metrics, reply.fault, reply.reason))
        return replies

    def play(self, config):
        """What `hopfed serve` makes of these clients."""
        self.columns = told_names(config.names) if config.names else {}
        arrays, _ = serve.play(config, config.make(), 0, 0, None, self)
        last = {name: value[None, None] for name, value in arrays.items()}
        return serve.served_archetypes(config, last), arrays
