"""An owner that lies about classes with noise."""

import numpy as np
import pytest
from federations import Changed, played
from graded_tables import classes, error
from helpers import rest_slow

from hopfed.experiments import serve
from hopfed.hopfield.batches import Batches
from hopfed.hopfield.noise import PARTS
from hopfed.tables.examples import as_examples

N, OWNERS, ROWS = 24, 10, 1500
OWN = np.sign(np.random.default_rng(9).standard_normal(N))
LEFT, RIGHT = np.triu_indices(N, 1)


def honest(_):
    pass


def two_rows(told):
    """Say that there are two rows, and something small of every column."""
    told["examples"] = np.asarray(2)
    for name in set(told) - {"examples"}:
        told[name] = np.ones_like(told[name])
    told["counts"] += 2 * PARTS // len(told["counts"])


def own_pairs(told):
    if "pairs" in told:
        own = told["counts"][:, None] * OWN[LEFT] * OWN[RIGHT]
        told["pairs"] = own.astype(told["pairs"].dtype)


def found(seed, lie=honest, small=1.0, epsilon=4.0, rows=ROWS, missing=0.2):
    """Means of the classes, as they are and as they are found where the first owner lies."""
    T, _, x = classes(3, N, OWNERS * rows, seed, missing=missing)
    parts = np.array_split(x, OWNERS)
    parts[0] = parts[0][: int(small * rows)]
    source = Batches(tuple(as_examples(part, gaps=True) for part in parts))
    config = serve.Config(columns=N, clients=OWNERS, graded=True, epsilon=epsilon)

    def first(call, message):
        if call.context.client == 0:
            lie(message)

    result = played(config.make(source), clients=OWNERS, engine=Changed(first))
    return T, result.state.server["memory/means"]


CASES = (own_pairs, 1.0), (two_rows, 1.0), (honest, 0.1)


@pytest.mark.parametrize(
    ("seed", "lie", "small"), rest_slow([(seed, *case) for seed in (4, 2) for case in CASES], 1)
)
def test_one_of_ten_does_not_keep_classes_from_being_found(seed, lie, small):
    T, means = found(seed, lie, small)
    assert len(means) == 3
    assert error(means, T) < 0.12


def all_pairs(told):
    """Say that columns of its rows agree as in a pattern of its own."""
    if "pairs" in told:
        most = PARTS * float(told["examples"]) * OWN[LEFT] * OWN[RIGHT]
        told["pairs"] = np.tile(most, (len(told["pairs"]), 1)).astype(told["pairs"].dtype)


@pytest.mark.slow
def test_a_liar_does_not_split_classes_by_products_of_columns():
    """A trimmed mean keeps a little of every entry: along one direction it adds up."""
    T, means = found(3, all_pairs, epsilon=8.0, rows=1000, missing=0.0)
    assert len(means) == 3
    assert error(means, T) < 0.05
