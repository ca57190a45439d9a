"""The privacy experiment: its claims hold on the quick preset, and truth only scores."""

import math
from dataclasses import replace

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from hopfed._lib.settings import from_plain, to_plain
from hopfed.errors import ArgumentError
from hopfed.experiments import PRESET_NAMES, privacy
from hopfed.experiments.runner import execute
from hopfed.figures import privacy as figure
from hopfed.figures import save
from hopfed.runs import Run

TINY = privacy.Config(N=60, M=200, clients=4, epsilons=(4.0, math.inf), seeds=2)


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """A run of one seed of the quick preset, read back from its file."""
    path = tmp_path_factory.mktemp("runs") / "privacy.h5"
    execute(privacy, replace(privacy.PRESETS["quick"], seeds=1), out=path)
    return Run.load(path, complete=True)


def test_what_every_experiment_offers():
    assert tuple(privacy.PRESETS) == PRESET_NAMES
    assert set(privacy.RECORD.minutes) == set(PRESET_NAMES)
    for config in privacy.PRESETS.values():
        assert from_plain(privacy.Config, to_plain(config)) == config
    assert "hopfed run privacy --preset paper" in privacy.__doc__


def test_the_quick_preset_fills_its_summary_and_its_figure(quick, tmp_path):
    assert set(privacy.RECORD.measures) <= set(quick.summary)
    save(figure.draw(quick), tmp_path / "figure.svg")
    assert (tmp_path / "figure.svg").read_text().count("<path") > 20


def test_archetypes_are_lost_weakest_first_and_where_theory_says(quick):
    n_detected, foreseen = quick.arrays["n_detected"], quick.arrays["foreseen/n_detected"]
    assert (np.diff(n_detected, axis=1) >= 0).all()  # budgets rise
    assert (n_detected[:, 0] <= 2).all()
    assert (n_detected[:, -1] == 5).all()
    assert np.abs(n_detected - foreseen).max() <= 1
    assert quick.summary["overlap_gap"][0] < 0.02
    assert quick.summary["overlap_r2"][0] > 0.95
    assert quick.summary["outlier_error"][0] < 0.03
    assert quick.summary["count_gap"][0] <= 1
    m = quick.arrays["magnetisation"]
    assert (m[:, -1] > 0.99).all()
    assert (m[:, 1, 0] > 0.95).all()
    assert (m[:, 1, 4] < 0.5).all()


def test_the_noise_has_the_radius_of_the_budget(quick):
    radius = quick.arrays["radius"][0]
    # Noise multipliers of Balle and Wang at delta = 1e-5.
    z = np.array([7.03182667558, 3.73063163482, 1.08116184952, 0.0])
    np.testing.assert_allclose(radius, 2 * z * 256**1.5 / (512 * math.sqrt(50)), rtol=1e-9)


def test_one_seed_alone_is_the_same_seed():
    run = execute(privacy, TINY)
    with threadpool_limits(1):
        alone = privacy.run(TINY, 1)
    for name, value in alone.items():
        np.testing.assert_array_equal(run.arrays[name][1], value)


@pytest.mark.parametrize("epsilons", [(2.0,), (math.inf,)])
def test_a_single_seed_and_budget_have_no_spread_but_a_figure(epsilons, tmp_path):
    config = replace(TINY, seeds=1, epsilons=epsilons)
    run = execute(privacy, config, out=tmp_path / "one.h5")
    assert set(privacy.RECORD.measures) <= set(run.summary)
    save(figure.draw(Run.load(tmp_path / "one.h5")), tmp_path / "figure.png")


def test_truth_only_scores(monkeypatch):
    honest = privacy.run(TINY, 0)
    draw = privacy.draw_examples

    def shuffled(archetypes, M, quality, rng, *, exposures):
        examples, labels = draw(archetypes, M, quality, rng, exposures=exposures)
        archetypes *= np.where(np.arange(archetypes.shape[1]) % 2, 1, -1).astype(np.int8)
        return examples, labels[::-1] % 2

    monkeypatch.setattr(privacy, "draw_examples", shuffled)
    wrong = privacy.run(TINY, 0)
    for name in ("eigenvalues", "threshold", "n_detected", "radius", "null"):
        np.testing.assert_array_equal(wrong[name], honest[name])
    for name in ("magnetisation", "overlap", "foreseen/overlap"):
        assert not np.allclose(wrong[name], honest[name])


@pytest.mark.parametrize(
    "wrong",
    [
        {"N": 10},
        {"M": 1},
        {"clients": 0},
        {"quality": 1.0},
        {"exposures": (0.5, 0.0)},
        {"exposures": (0.1,) * 30},
        {"epsilons": (0.0, 1.0)},
        {"delta": 1.0},
        {"alpha": 0.0},
        {"seeds": 0},
    ],
)
def test_a_config_that_breaks_a_rule_is_named(wrong):
    with pytest.raises(ArgumentError) as error:
        privacy.Config(**wrong)
    assert error.value.argument == next(iter(wrong))
