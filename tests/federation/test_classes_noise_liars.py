"""An owner that lies about classes with noise, also where owners lack columns."""

import numpy as np
import pytest
from graded_tables import classes, error

from hopfed.experiments import serve
from hopfed.federation.engines.local import LocalEngine
from hopfed.federation.rounds import play_round
from hopfed.hopfield.batches import Batches
from hopfed.hopfield.graded.noisy import PARTS
from hopfed.hopfield.graded.noisy_sums import Present
from hopfed.tables.examples import as_examples

N, OWNERS, ROWS = 24, 10, 1500


OWN = np.sign(np.random.default_rng(9).standard_normal(N))


LEFT, RIGHT = np.triu_indices(N, 1)


RARE = np.arange(N - N // 3, N)


class Lacking(LocalEngine):
    """All owners but the first say 0 of a third of the columns; the first may lie.

    With `shared`, so many owners have the columns of the last third, and the others all lack these.
    """

    def __init__(self, seed, lie, shared=0):
        super().__init__()
        rng = np.random.default_rng(seed)
        self.lacks = [[], *(rng.permutation(N)[: N // 3] for _ in range(OWNERS - 1))]
        if shared:
            self.lacks = [[]] * shared + [RARE] * (OWNERS - shared)
        self.lie = lie

    def step(self, method, calls):
        outcomes = super().step(method, calls)
        for call, outcome in zip(calls, outcomes, strict=True):
            gone, told = self.lacks[call.context.client], outcome.message
            if not told:
                continue
            for name in ("signed", "seen"):
                told[name][:, gone] = 0
            if "pairs" in told:
                told["pairs"][:, np.isin(LEFT, gone) | np.isin(RIGHT, gone)] = 0
            if call.context.client == 0:
                self.lie(told)
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


def found(seed, lie=honest, small=1.0, shared=0):
    """Means of the classes, as they are and as they are found."""
    T, _, x = classes(3, N, OWNERS * ROWS, seed, missing=0.2)
    parts = np.array_split(x, OWNERS)
    parts[0] = parts[0][: int(small * ROWS)]
    rows = tuple(as_examples(part, gaps=True) for part in parts)
    method = serve.Config(columns=N, clients=OWNERS, graded=True, epsilon=4.0).make(Batches(rows))
    engine = Lacking(seed, lie, shared)
    played = play_round(method, None, 0, seed=0, clients=OWNERS, engine=engine)
    return T, played.state.server["memory/means"]


@pytest.mark.parametrize("seed", [4, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("lie", "small"),
    [(two_rows, 1.0), (own_pairs, 1.0), (honest, 0.1)],
    ids=["two rows", "own pairs", "a tenth of the rows"],
)
def test_one_of_ten_does_not_keep_classes_from_being_found(seed, lie, small):
    T, means = found(seed, lie, small)
    assert len(means) == 3
    assert error(means, T) < 0.12


def test_two_columns_that_only_those_have_who_may_lie_are_not_believed():
    has = np.ones((10, 6), bool)
    has[1:, 0] = False
    rows = np.full(10, 1000.0)
    believed = Present(has).believed(rows, 1)
    assert not believed[0, 1:].any()
    assert (believed[1:, 1:] == 1).all()
    assert Present(has).believed(rows, 0)[0, 1] == pytest.approx(0.1)
    rows[0] = 2.0
    assert 0 < Present(has).believed(rows, 0)[0, 1] < 1e-3
    has[1], rows[0] = True, 1000.0
    assert not Present(has).believed(rows, 1)[0, 1:].any()  # one of two may lie
    has[2] = True
    assert Present(has).believed(rows, 1)[0, 1] > 0


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


def test_a_liar_does_not_split_classes_by_products_of_columns():
    """A trimmed mean keeps a little of every entry: along one direction it adds up."""
    T, _, x = classes(3, N, 10_000, 3)
    owners = tuple(as_examples(part, gaps=True) for part in np.array_split(x, 10))
    config = serve.Config(columns=N, clients=10, graded=True, epsilon=8.0)
    played = play_round(config.make(Batches(owners)), None, 0, seed=0, clients=10, engine=Pairs())
    means = played.state.server["memory/means"]
    assert len(means) == 3
    assert error(means, T) < 0.05
