"""Owners of tables with names of columns, and a server that asks them in one process, for tests."""

import numpy as np
from asking import N, ask

from hopfed.federation.machines.client import Node
from hopfed.hopfield.columns import in_order
from hopfed.hopfield.ledger import Ledger
from hopfed.hopfield.owner import Owner, as_recorded
from hopfed.tables.examples import as_examples

NAMES = tuple(f"question {j}" for j in range(N))
ORDER = np.random.default_rng(5).permutation(N)


def node(folder, rows, names, epsilon=None):
    """Return a node as `hopfed join` makes it of a table with names, in a home of its own."""
    rows = as_examples(rows, gaps=True)
    ledger, names = Ledger(folder / "privacy"), tuple(map(str, names))
    rows, order = as_recorded(rows, names, ledger), in_order(names)
    owner = Owner(rows, ledger, epsilon, 1e-5, tuple(names[j] for j in order))
    return Node(owner.asked)


def put(node, method, told, exchange=0, state=None, down=None):
    """Ask a node as a server that says this of its columns."""
    return ask(node, method, 0, exchange, state, down, told)
