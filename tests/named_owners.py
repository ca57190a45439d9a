"""Owners of tables with names of columns, and a server that asks them in one process, for tests."""

import numpy as np
from asking import N, ask

from hopfed.experiments import serve
from hopfed.federation.machines.node import Node
from hopfed.federation.machines.wire import read_reply, requests_of
from hopfed.hopfield.ledger import Ledger
from hopfed.hopfield.owner import ALLOWED, Owner, as_recorded
from hopfed.tables.examples import as_examples

NAMES = tuple(f"question {j}" for j in range(N))
ORDER = np.random.default_rng(5).permutation(N)


def node(folder, rows, names, epsilon=None):
    """Return a node as `hopfed join` makes it of a table with names, in a home of its own."""
    rows = as_examples(rows, gaps=True)
    ledger, names = Ledger(folder / "privacy"), tuple(map(str, names))
    rows, filed = as_recorded(rows, names, ledger)
    return Node(Owner(rows, ledger, epsilon, 1e-5, names, filed).adapt, ALLOWED)


def put(node, method, told, exchange=0, state=None, down=None):
    """Ask a node as a server that says this of its columns."""
    return ask(node, method, 0, exchange, state, down, told)


class Together:
    """A server and its clients in one process, with all that travels written and read."""

    def __init__(self, nodes):
        self.nodes, self.columns = nodes, ()

    def step(self, method, calls):
        asked = requests_of(method, calls, self.columns)
        return [read_reply(self.nodes[c].written(data)) for c, data in asked.items()]

    def play(self, config):
        """What `hopfed serve` makes of these clients."""
        self.columns = config.names
        arrays, _ = serve.measure_round(0, config, 0, None, self)
        last = {name: value[None, None] for name, value in arrays.items()}
        return serve.served_archetypes(config, last), arrays
