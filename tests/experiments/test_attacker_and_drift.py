"""The experiments `attacker` and `drift`; a federation killed and resumed as a user does."""

import random
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

from hopfed._lib.random import stream
from hopfed.errors import ArgumentError
from hopfed.experiments import attacker, drift
from hopfed.experiments.runner.execute import execute
from hopfed.experiments.shared.tracking import lag, shares_of
from hopfed.figures import attacker as attacker_figure
from hopfed.figures import drift as drift_figure
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.runs import Run
from hopfed.spectral.operators import DenseOperator

SMALL = attacker.Config(N=150, examples=200, rounds=7, attackers=(1,), noise=(0.0,), seeds=2)


@pytest.fixture(scope="module")
def attacked():
    return execute(attacker, SMALL)


@pytest.fixture(scope="module")
def drifted():
    return execute(drift, replace(drift.PRESETS["quick"], seeds=1))


def test_noise_is_shut_out_by_ours_and_let_in_by_the_entropy_rule(attacked):
    s = attacked.summary
    assert s["attacker/structure"] < 0.05
    assert s["attacker/entropy"] > 0.9
    assert s["good/structure"][0] > 0.4
    assert s["magnetisation/structure"] == 1
    assert s["false/structure"] == 0


def test_the_aim_says_after_how_many_rounds_it_holds():
    """The quick preset has fewer rounds, and prints a larger weight beside it."""
    aim = attacker.RECORD.measures["attacker/structure"].aim
    for name, config in attacker.PRESETS.items():
        assert (f"after {config.rounds} rounds" in aim) == (name != "quick")


def test_weights_of_good_clients_are_alike_and_start_at_one(attacked):
    w = attacked.arrays["1 of r=0/structure/client/weight"]
    assert w.shape == (2, 7, 5)
    np.testing.assert_array_equal(w[:, 0], 1)
    assert np.ptp(w[:, -1, :4]) < 0.05


def test_drift_separates_the_three_behaviours(drifted):
    s = drifted.summary
    assert s["kept/w = 0"][0] < 0.5
    assert s["kept/w = 1"][0] < 0.5
    assert s["kept/kept apart"][0] == 1
    assert s["lowest/kept apart"] > 0.99
    assert s["false/kept apart"] == 0


def test_fresh_operators_show_the_mixture_as_it_is_and_evidence_that_fades_shows_it_late(drifted):
    """A weight of zero keeps the first picture; with a discount of a half it is a little late."""
    s = drifted.summary
    assert s["distance/w = 1"][0] < 0.01
    assert s["lag/w = 1"][0] == 0
    assert s["distance/w = 0"][0] > 0.3
    assert 0.25 <= s["lag/kept apart"][0] <= 1
    assert s["distance/w = 1"][0] < s["distance/kept apart"][0] < s["distance/structure"][0]


def test_a_run_from_before_mixtures_were_kept_is_drawn_without_them(drifted):
    older = {k: v for k, v in drifted.arrays.items() if not k.endswith("/mixture")}
    drawn = drift_figure.draw_whole(replace(drifted, arrays=older))
    assert len(drawn.axes) == len(drift_figure.draw_whole(drifted).axes) - 2


def test_shares_of_an_operator_of_examples_are_those_of_the_labels():
    """To the noise of the flips, whatever the overlap of the archetypes."""
    rng = stream(0, "shares")
    xi = rademacher(3, 400, rng)
    xi[2, :200] = xi[1, :200]
    rows, labels = draw_examples(xi, 4_000, 0.7, rng, exposures=np.array([0.6, 0.3, 0.1]))
    found = shares_of(DenseOperator.from_examples(rows), xi)
    true = np.bincount(labels, minlength=3) / len(labels)
    np.testing.assert_allclose(found / found.sum(), true, atol=0.01)


@pytest.mark.parametrize("late", [0.0, 0.75, 2.0])
def test_the_lag_of_a_path_that_is_late(late):
    t = np.arange(36)
    angles = 2 * np.pi * (t[:, None] / 18 + np.arange(3) / 3)
    true = (1 + np.cos(angles)) / 3
    held = np.column_stack([np.interp(np.maximum(t - late, 0), t, c) for c in true.T])
    found, now, then = lag(held, true)
    assert found == late
    assert then == pytest.approx(0, abs=1e-12)
    assert (now > 0.02) == (late > 0)


@pytest.mark.parametrize(
    ("figure", "fixture"), [(attacker_figure, "attacked"), (drift_figure, "drifted")]
)
def test_figures_are_drawn_from_the_run_alone(figure, fixture, request, tmp_path):
    run = request.getfixturevalue(fixture)
    run.save(tmp_path / "run.h5")
    for draw in (figure.draw, figure.draw_whole):
        drawn = draw(Run.load(tmp_path / "run.h5"))
        assert all(axes.has_data() for axes in drawn.axes)


def test_processes_for_seeds_and_for_clients_change_nothing(attacked, tmp_path):
    attacked.save(tmp_path / "whole.h5")
    execute(attacker, SMALL, out=tmp_path / "pool.h5", engine="pool", workers=2)
    assert (tmp_path / "pool.h5").read_bytes() == (tmp_path / "whole.h5").read_bytes()


def test_an_experiment_that_is_no_federation_has_no_engines():
    from hopfed.experiments import bbp

    with pytest.raises(ArgumentError, match="engine must be local or dask: this is not"):
        execute(bbp, bbp.Config(N=50, M=(100,), seeds=1), engine="pool")


@pytest.mark.slow
def test_killed_ten_times_a_federation_ends_in_the_same_file(attacked, tmp_path):
    attacked.save(tmp_path / "whole.h5")
    out, moments = tmp_path / "killed.h5", random.Random(1)
    sets = ["N=150", "examples=200", "rounds=7", "attackers=1", "noise=0"]
    command = [sys.executable, "-m", "hopfed", "run", "attacker", "--seeds", "2", "--out", str(out)]
    command += [word for s in sets for word in ("--set", s)]
    for kill in range(10):
        process = subprocess.Popen(
            command + ["--resume"] * (kill > 0), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        before = out.stat().st_mtime_ns if out.exists() else 0
        while process.poll() is None and (not out.exists() or out.stat().st_mtime_ns == before):
            time.sleep(0.005)
        time.sleep(moments.uniform(0, 0.4))
        process.send_signal(signal.SIGKILL)
        process.communicate()
    subprocess.run([*command, "--resume"], check=True, stdout=subprocess.DEVNULL)
    assert out.read_bytes() == (tmp_path / "whole.h5").read_bytes()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"attackers": (5,), "noise": (0.1,)}, "attackers must be between 1 and 4"),
        ({"noise": (0.1,)}, "noise must be one for each of 3"),
        ({"quality": 1.0}, "quality must be in"),
        ({"N": 10}, "N must be at least 50"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(ArgumentError, match=message):
        attacker.Config(**settings)
