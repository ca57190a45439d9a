import numpy as np
import pytest
from graded_tables import classes, error, known, labelled

from hopfed.archetypes.classes import Classes
from hopfed.archetypes.session import Owners
from hopfed.kernels import pack_masked
from hopfed.recovery.recover import recover


@pytest.mark.slow
def test_three_owners_with_gaps():
    T, y, x = classes(4, 80, 900, 1, missing=0.25)
    rows = [x[:150], x[150:450], x[450:]]
    found = Classes().fit(Owners.over(rows, 0)).archetypes
    assert (len(found), found.status, found.channel) == (4, "ok", "graded")
    assert error(found.means, T) < 1.03 * error(known(x, y, 4), T) + 0.002
    assert (np.diff(found.shares) <= 1e-3).all()  # heaviest first
    assert found.shares.sum() == pytest.approx(1)
    assert found.client_shares.shape == (3, 4)
    assert found.patterns.dtype == np.int8
    match = np.argmin(((found.means[:, None] - T) ** 2).sum(axis=2), axis=1)
    off = (found.means - T[match]) / found.errors
    assert off.std() == pytest.approx(1, abs=0.15)
    surest = found.probabilities(pack_masked(rows[1])).argmax(axis=1)
    assert (match[surest] == y[150:450]).mean() > 0.98


SHAPES = ((1, 1), (0.3, 0.3), (5, 5), (1, 4), (0.5, 5))
SIZES = (
    *((3, 150, 1000), (3, 50, 3000), (8, 200, 2000), (20, 500, 5000), (3, 1000, 200)),
    *((5, 200, 2000), (10, 300, 4000), (30, 1000, 10_000), (50, 1000, 10_000), (50, 2000, 20_000)),
)
MISSING = (0.0, 0.05, 0.2, 0.5, 0.8)


def play(seed):
    """Whether the classes of a draw are counted, and known as well as they can be."""
    rng = np.random.default_rng([seed, 22])
    size, shape, missing = (many[rng.integers(len(many))] for many in (SIZES, SHAPES, MISSING))
    T, y, x = classes(*size, seed, shape=shape, missing=missing)
    found = recover(x, seed=seed, channel="graded")
    if len(found) != size[0]:
        return False, False
    truth = labelled(x, y, size[0])[1]
    best = max(error(means, T) for means in (known(x, y, size[0]), truth.classes.means))
    return True, error(found.means, T) <= 1.03 * best


@pytest.mark.slow
def test_planted_classes_of_a_wide_grid_are_counted_and_estimated():
    exact, near = np.mean([play(seed) for seed in range(620, 640)], axis=0)
    assert exact >= 0.9
    assert near >= 0.9
