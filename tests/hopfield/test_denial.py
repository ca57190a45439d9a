"""One owner denies that a class is two, where answers have noise."""

import numpy as np
import pytest
from graded_tables import classes, error

from hopfed.experiments.serve import Config
from hopfed.federation.engines.local import LocalEngine
from hopfed.federation.rounds import play_round
from hopfed.hopfield.batches import Batches
from hopfed.hopfield.graded.noisy import PARTS
from hopfed.tables.examples import as_examples

N, CLIENTS, ROWS = 40, 10, 1000


class Denying(LocalEngine):
    """The first owner says of products of columns the opposite of what its rows show."""

    def __init__(self, deny):
        super().__init__()
        self.deny = deny

    def step(self, method, calls):
        outcomes = super().step(method, calls)
        for call, outcome in zip(calls, outcomes, strict=True):
            if call.context.client == 0 and "pairs" in outcome.message:
                pairs = outcome.message["pairs"]
                most = PARTS * float(outcome.message["examples"])
                outcome.message["pairs"] = self.deny(outcome.message, most).astype(pairs.dtype)
        return outcomes


def along_its_own(message, most):
    """As large as its rows allow, along the direction in which they vary most."""
    i, j = np.triu_indices(N, 1)
    counts = np.maximum(message["counts"] / PARTS, 1)[:, None]
    mean = message["signed"] / PARTS / counts
    found = message["pairs"] / PARTS - counts * mean[:, i] * mean[:, j]
    said = []
    for line in found:
        moment = np.zeros((N, N))
        moment[i, j] = line
        v = np.linalg.eigh(moment + moment.T)[1][:, -1]
        said.append(-most * np.sign(v[i] * v[j]))
    return np.array(said)


def eightfold(message, most):
    return np.clip(-8.0 * message["pairs"], -most, most)


@pytest.mark.parametrize("deny", [along_its_own, eightfold])
def test_one_owner_of_ten_does_not_keep_classes_together(deny):
    """What the strongest say was left out already; now what the weakest say is, too."""
    T, _, x = classes(3, N, CLIENTS * ROWS, 3)
    rows = tuple(as_examples(part, gaps=True) for part in np.array_split(x, CLIENTS))
    config = Config(columns=N, clients=CLIENTS, graded=True, epsilon=8.0)
    asking = config.make(Batches(rows, config.rounds))
    played = play_round(asking, None, 0, seed=0, clients=CLIENTS, engine=Denying(deny))
    means = played.state.server["memory/means"]
    assert means.shape == (3, N)
    assert error(means, T) < 0.1
