"""Many rows of few columns: equal rows are merged, and any number of rows counts alike."""

from dataclasses import replace

import numpy as np
import pytest
from graded_tables import error

from hopfed import kernels, recover
from hopfed.archetypes.channel_and_replicas import draw_counts
from hopfed.archetypes.session import Variables
from hopfed.recovery.recover import run_recovery
from hopfed.tables.reading import gather_rows
from hopfed.tables.table import Source


@pytest.mark.slow
def test_merges_of_unsure_classes_are_settled_before_they_are_judged():
    """Six classes stood 56 nats below these four: merges were given up while they still rose."""
    rng = np.random.default_rng(771_007)
    rng.integers(2, 5), rng.integers(8, 17), rng.uniform()
    rates = rng.uniform(0.1, 0.9, (4, 9))
    y = rng.choice(4, 1_432_666, p=rng.dirichlet(np.full(4, 5.0)))
    found = recover((rng.random((len(y), 9), dtype=np.float32) < rates[y]).astype(np.int8), seed=0)
    assert len(found) == 4
    assert error(found.means, 2 * rates - 1) < 0.02


def test_rows_that_are_read_again_are_merged_as_those_that_are_held():
    rng = np.random.default_rng(1)
    y, rates = rng.integers(3, size=30_000), rng.uniform(0.1, 0.9, (3, 10))
    x = (rng.random((30_000, 10)) < rates[y]).astype(np.int8)
    bits = kernels.pack(x)
    blocks = [bits[first : first + 7_000] for first in range(0, len(x), 7_000)]
    source = Source("rows", (), lambda: iter(()))
    rows = gather_rows(source, blocks, lambda: iter(blocks), most=0)
    again = run_recovery(rows, seed=0).archetypes
    held = recover(x, seed=0)
    assert again.status == held.status == "ok"
    # The order of sums differs, and fits end within .02 nats of each other.
    np.testing.assert_allclose(again.means, held.means, atol=2e-3)


def test_rows_that_are_drawn_often_have_the_rates_the_levels_and_the_gaps_of_their_classes():
    seen = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 1], [0, 0, 0, 1, 1]])
    counts = np.array([50_000.0, 30_000.0, 20_000.0])
    means = np.array([[-0.2, -0.4, -0.4, 0.8, 0.0], [-0.8, -0.8, 0.6, -0.6, 0.4]])
    rows = replace(kernels.pack_masked(seen, seen == 0), counts=counts)
    variables = Variables.of([(0, 1, 2)], 5)
    found = draw_counts(rows, means, np.array([0.3, 0.7]), variables, 1)
    x, often = kernels.unpack(found), found.weights
    assert len(np.unique(x, axis=0)) == len(x)
    assert often.sum() == counts.sum()
    assert set((x[:, :3] > 0).sum(axis=1)[x[:, 0] != 0]) == {1}
    np.testing.assert_array_equal(often @ (x != 0), counts @ seen)
    rates = (often @ (x > 0)) / (counts @ seen)
    wanted = np.array([0.3, 0.7]) @ (1 + means) / 2
    np.testing.assert_allclose(rates, wanted, atol=5 * 0.5 / np.sqrt(50_000))
