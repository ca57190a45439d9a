"""The experiments on the associative memory: what they count, and that they run and draw."""

from dataclasses import replace

import numpy as np
import pytest

from hopfed.errors import ArgumentError
from hopfed.experiments import capacity, completion, disentangle
from hopfed.experiments.runner import execute
from hopfed.experiments.shared import critical
from hopfed.figures import drawer
from hopfed.memory.rules import Layered

SMALL = {
    capacity: capacity.Config(
        N=100, loads=(0.03, 0.4), flips=(0.0, 0.3), cues=5, seeds=2, dense_sites=30,
        dense_loads=(0.1,), exp_sites=12, exp_rates=(0.1, 0.3), sizes=(100, 200, 400),
        ratios=(0.5, 0.95, 1.8),
    ),
    disentangle: disentangle.Config(
        N=60, starts=2, updates=4, K=(3, 6), repulsions=(0.0, 0.45), temperatures=(0.1,),
        layers=(1, 3), seeds=3,
    ),
    completion: completion.Config(
        N=80, K=8, masked=(0.3, 0.6), cues=10, classes=(1, 3), rows=100, columns=20, seeds=2
    ),
}  # fmt: skip


@pytest.mark.parametrize("experiment", SMALL, ids=lambda e: e.__name__.rpartition(".")[2])
def test_runs_repeat_and_are_drawn(experiment):
    run = execute(experiment, SMALL[experiment])
    again = experiment.run(SMALL[experiment], 1)
    for name, array in again.items():
        np.testing.assert_array_equal(run.arrays[name][1], array, err_msg=name)
    assert set(run.summary) >= set(experiment.RECORD.measures)
    figure = drawer(run.kind)(run)
    figure.canvas.draw()
    assert len(figure.axes) >= 3


def test_every_rule_returns_what_it_should():
    """Far below, and for Hebb far above, capacity."""
    arrays = capacity.run(SMALL[capacity], 0)
    returned = arrays["random/returned"]
    assert (returned[:, 0, 0] == 1).all()
    assert returned[0, 1, 0] == 0
    assert (returned[2:, 1, 0] == 1).all()
    assert np.isnan(arrays["table/overlap"]).all()  # no file was given
    assert np.isfinite(arrays["pictures/overlap"][:, 0]).all()


def test_correlated_patterns_overlap_as_asked():
    config = replace(SMALL[capacity], N=2000, loads=(0.01, 0.02), parent=0.3)
    xi = capacity.patterns_of(config, "correlated", 0).astype(float)
    overlaps = xi @ xi.T / 2000
    assert overlaps[np.triu_indices(len(xi), 1)].mean() == pytest.approx(0.3, abs=0.02)


def test_crossings_and_basins():
    x = np.array([0.1, 0.2, 0.3])
    assert capacity.crossing(x, np.ones(3)) is None
    assert capacity.basin(x, np.ones(3)) == 0.3
    assert capacity.basin(x, np.zeros(3)) == 0.0
    assert capacity.gap(np.ones((1, 2)), x[:2], 0.0) == 0.0
    wide = capacity.gap(np.array([[0.9, 1.0], [0.8, 1.0]]), np.array([0.05, 0.01]), 0.0)
    assert wide == pytest.approx(0.15 / 0.05, rel=1e-3)


def test_capacities_of_finite_memories_and_their_limit():
    shares = np.array([[1.0, 0.8, 0.2], [1.0, 0.6, 0.0]])
    x, error = critical.half_lost(np.array([0.1, 0.2, 0.3]), shares)
    assert x == pytest.approx(0.2 + 0.1 * 0.2 / 0.6)
    # Without one seed the other is left: .25 and 1 / 60 above .2; the jackknife of two.
    assert error == pytest.approx((0.05 - 0.1 / 6) / 2)
    assert np.isnan(critical.half_lost(np.array([0.1, 0.2]), np.ones((2, 2)))).all()
    sizes, rng = np.array([500, 1000, 2000, 4000, 8000]), np.random.default_rng(1)
    off = []
    for _ in range(300):
        noisy = 0.138 + 0.8 * sizes**-0.5 + 0.001 * rng.standard_normal(5)
        found, error = critical.limit(sizes, noisy, np.full(5, 0.001))
        off.append((found - 0.138) / error)
    assert abs(np.mean(off)) < 0.2
    assert 0.6 < np.std(off) < 1.1  # enlarged where the line fits badly, never made smaller
    assert critical.limit(sizes[:2], np.ones(2), np.ones(2)) is None


def test_a_mixture_is_the_majority_and_apart_means_every_part():
    config = replace(SMALL[disentangle], starts=4)
    xi, cues = disentangle.mixture(config, 0, 6, 3)
    np.testing.assert_array_equal(cues, np.sign(xi[:3].sum(axis=0))[None].repeat(4, axis=0))
    even = disentangle.mixture(config, 0, 6, 2)[1]
    assert len(np.unique(even, axis=0)) == 4  # ties are drawn for each start
    negatives = np.stack([xi[[0, 1, 2]], -xi[[2, 1, 0]], xi[[0, 0, 1]]])
    assert disentangle.score(negatives, xi[:3]) == (2 / 3, 8 / 9)


def test_layers_that_repel_find_more():
    config = disentangle.Config(N=300, starts=10)
    free, pushed = (
        disentangle.score(*disentangle._relaxed(config, 1, Layered(3, r), 3, 0.1))[0]
        for r in (0.0, 0.45)
    )
    assert pushed > 0.7 > free


def test_graphs_of_layers():
    assert (disentangle.graph("ring", 4).sum(axis=0) == 2).all()
    assert disentangle.graph("star", 4).sum() == 6
    assert disentangle.graph("all", 4).sum() == 12
    config = disentangle.Config(N=200, starts=6, updates=30)
    parts = disentangle._by_graph(config, 1, "all")
    assert parts.max() > parts[0] + 0.2  # layers that do not repel each other find little


def test_classes_are_found_and_chosen_by_unseen_rows():
    config = completion.Config(rows=900, columns=60)
    rows, (means, shares) = completion._table(config, 0)
    rng = np.random.default_rng(0)
    found, found_shares = completion.chosen_classes(rows, (3, 5, 8), rng)
    assert len(found) == 5
    nearest = np.abs(found[:, None] - means[None]).mean(axis=2)
    order = nearest.argmin(axis=0)
    assert sorted(order) == list(range(5))
    assert nearest.min(axis=0).max() < 0.1
    np.testing.assert_allclose(found_shares[order], shares, atol=0.04)


def test_bayes_rule_fills_gaps_as_well_as_can_be():
    arrays = completion.run(
        completion.Config(rows=900, columns=50, cues=90, masked=(0.5,), classes=(3, 5, 7)), 0
    )
    right = dict(zip(completion.METHODS, arrays["table/right"][:, 0], strict=True))
    best = right.pop("true classes")
    assert right["graded"] > best - 0.02
    assert right["graded"] == max(right.values())


@pytest.mark.parametrize(
    ("experiment", "bad", "argument"),
    [
        (capacity, {"loads": (0.2, 0.1)}, "loads"),
        (capacity, {"flips": (0.0, 0.6)}, "flips"),
        (capacity, {"N": 5}, "N"),
        (capacity, {"parent": 1.0}, "parent"),
        (capacity, {"sizes": (50, 100)}, "sizes"),
        (capacity, {"ratios": (1.0, 2.5)}, "ratios"),
        (disentangle, {"repulsions": (0.0, 0.5)}, "repulsions"),
        (disentangle, {"repulsions": (0.1,)}, "repulsions"),
        (disentangle, {"K": (2,)}, "K"),
        (disentangle, {"temperatures": (0.0,)}, "temperatures"),
        (completion, {"masked": (0.0, 0.5)}, "masked"),
        (completion, {"rows": 3}, "rows"),
        (completion, {"classes": (0,)}, "classes"),
    ],
)
def test_bad_settings_name_themselves(experiment, bad, argument):
    with pytest.raises(ArgumentError) as error:
        experiment.Config(**bad)
    assert error.value.argument == argument


def test_a_table_of_a_few_rows_is_refused(tmp_path):
    np.savez(tmp_path / "few.npz", np.ones((9, 20), np.int8))
    config = replace(SMALL[completion], table=str(tmp_path / "few.npz"))
    with pytest.raises(ArgumentError, match="table must be a file of at least 10 rows, got 9"):
        completion.run(config, 0)
