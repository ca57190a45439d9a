"""An owner that lies about classes with noise."""

import numpy as np
import pytest
from graded_tables import classes, error
from helpers import rest_slow

from hopfed.experiments import serve
from hopfed.federation.engines.local import LocalEngine
from hopfed.federation.rounds import play_round
from hopfed.hopfield.batches import Batches
from hopfed.hopfield.noise import PARTS
from hopfed.tables.examples import as_examples

N, OWNERS, ROWS = 24, 10, 1500


OWN = np.sign(np.random.default_rng(9).standard_normal(N))


LEFT, RIGHT = np.triu_indices(N, 1)


class Lying(LocalEngine):
    """The first owner changes what it says."""

    def __init__(self, lie):
        super().__init__()
        self.lie = lie

    def step(self, method, calls):
        outcomes = super().step(method, calls)
        for call, outcome in zip(calls, outcomes, strict=True):
            if outcome.message and call.context.client == 0:
                self.lie(outcome.message)
        return outcomes


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
        told["pairs"] = (told["counts"][:, None] * OWN[LEFT] * OWN[RIGHT]).astype(
            told["pairs"].dtype
        )


def found(seed, lie=honest, small=1.0):
    """Means of the classes, as they are and as they are found."""
    T, _, x = classes(3, N, OWNERS * ROWS, seed, missing=0.2)
    parts = np.array_split(x, OWNERS)
    parts[0] = parts[0][: int(small * ROWS)]
    rows = tuple(as_examples(part, gaps=True) for part in parts)
    method = serve.Config(columns=N, clients=OWNERS, graded=True, epsilon=4.0).make(Batches(rows))
    played = play_round(method, None, 0, seed=0, clients=OWNERS, engine=Lying(lie))
    return T, played.state.server["memory/means"]


@pytest.mark.parametrize(
    ("seed", "lie", "small"),
    rest_slow(
        [
            (4, own_pairs, 1.0),
            *((4, lie, part) for lie, part in ((two_rows, 1.0), (honest, 0.1))),
            *((2, lie, part) for lie, part in ((two_rows, 1.0), (own_pairs, 1.0), (honest, 0.1))),
        ],
        1,
    ),
)
def test_one_of_ten_does_not_keep_classes_from_being_found(seed, lie, small):
    T, means = found(seed, lie, small)
    assert len(means) == 3
    assert error(means, T) < 0.12


class Pairs(LocalEngine):
    """Client 0 says that columns of its rows agree as in a pattern of its own."""

    def step(self, method, calls):
        outcomes = super().step(method, calls)
        own = np.sign(np.random.default_rng(9).standard_normal(N))
        i, j = np.triu_indices(N, 1)
        for call, outcome in zip(calls, outcomes, strict=True):
            if call.context.client == 0 and "pairs" in outcome.message:
                told = outcome.message["pairs"]
                most = PARTS * float(outcome.message["examples"])
                outcome.message["pairs"] = np.tile(most * own[i] * own[j], (len(told), 1)).astype(
                    told.dtype
                )
        return outcomes


@pytest.mark.slow
def test_a_liar_does_not_split_classes_by_products_of_columns():
    """A trimmed mean keeps a little of every entry: along one direction it adds up."""
    T, _, x = classes(3, N, 10_000, 3)
    owners = tuple(as_examples(part, gaps=True) for part in np.array_split(x, 10))
    config = serve.Config(columns=N, clients=10, graded=True, epsilon=8.0)
    played = play_round(config.make(Batches(owners)), None, 0, seed=0, clients=10, engine=Pairs())
    means = played.state.server["memory/means"]
    assert len(means) == 3
    assert error(means, T) < 0.05
