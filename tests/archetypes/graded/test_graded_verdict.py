from itertools import product

import numpy as np
import pytest
from graded_tables import classes, fitted, judged, whiten
from helpers import rest_slow

from hopfed.archetypes.channel_and_replicas import draw_rows
from hopfed.archetypes.session import NONE, Owners
from hopfed.kernels import pack, pack_masked, unpack

M, N = 1000, 120


def verdict(x):
    owners, fit = fitted(x, [min(400, len(x) // 2)])
    return judged(owners, fit), fit


@pytest.mark.parametrize(
    ("shape", "missing"),
    rest_slow([((1, 1), 0.3), *product([(0.5, 5), (5, 5)], [0.0, 0.3]), ((1, 1), 0.0)], 1),
    ids=str,
)
def test_true_classes_are_ok(shape, missing):
    found, fit = verdict(classes(4, N, M, 20, shape=shape, missing=missing)[2])
    assert fit.size == 4
    assert found.status == "ok", found
    assert found.residual.columns.size == 0
    assert abs(found.residual.ratio - found.residual.expected) < 4 * found.residual.error


@pytest.mark.slow
def test_columns_that_depend_within_classes_are_named():
    _, _, x = classes(3, N, M, 24)
    x[:, 17] = np.where(np.random.default_rng(0).random(M) < 0.8, x[:, 3], x[:, 17])
    found, _ = verdict(x)
    assert found.status == "structure, but not classes"
    assert set(found.residual.columns[:2].tolist()) == {3, 17}
    assert found.advice.startswith(("Columns 18, 4 depend", "Columns 4, 18 depend"))  # from 1


def test_replicas_keep_the_gaps_and_the_form():
    T, _, x = classes(2, 30, 200, 25, missing=0.4)
    shares = np.array([0.5, 0.5])
    replica = unpack(draw_rows(pack_masked(x), T, shares, NONE, 1, 0, 3))
    np.testing.assert_array_equal(replica == 0, x == 0)
    assert (np.abs(replica).sum(0) == np.abs(x).sum(0)).all()
    bits = draw_rows(pack(np.where(x < 0, -1, 1)), T, shares, NONE, 1)
    assert not bits.gaps
    assert bits.shape == x.shape
    assert abs(unpack(bits, dtype=float).mean(0) - T.mean(0)).max() < 0.35


@pytest.mark.slow
def test_too_few_rows_are_told_from_another_structure():
    _, _, x = classes(12, 240, 720, 20, shape=(5, 5), missing=0.7)
    shown = whiten(Owners.of([x], 0)).spectrum.vectors.shape[1]
    assert shown > 1
    found = judged(*fitted(x), shown)
    assert found.status != "ok"
    assert found.advice.endswith("give more rows.")
