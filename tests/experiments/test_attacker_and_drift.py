"""The experiments `attacker` and `drift`; a federation killed and resumed as a user does."""

import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from hopfed.errors import ArgumentError
from hopfed.experiments import attacker, drift
from hopfed.experiments.runner.execute import execute
from hopfed.figures import attacker as attacker_figure
from hopfed.figures import drift as drift_figure
from hopfed.runs import Run

SMALL = attacker.Config(N=150, examples=200, rounds=7, attackers=(1,), noise=(0.0,), seeds=2)


@pytest.fixture(scope="module")
def attacked():
    return execute(attacker, SMALL)


@pytest.fixture(scope="module")
def drifted():
    return execute(drift, drift.PRESETS["quick"])


def test_noise_is_shut_out_by_ours_and_let_in_by_the_entropy_rule(attacked):
    s = attacked.summary
    assert s["attacker/structure"] < 0.05
    assert s["attacker/entropy"] > 0.9
    assert s["good/structure"][0] > 0.4
    assert s["magnetisation/structure"] == 1
    assert s["false/structure"] == 0


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


@pytest.mark.parametrize(
    ("figure", "fixture"), [(attacker_figure, "attacked"), (drift_figure, "drifted")]
)
def test_figures_are_drawn_from_the_run_alone(figure, fixture, request, tmp_path):
    run = request.getfixturevalue(fixture)
    run.save(tmp_path / "run.h5")
    drawn = figure.draw(Run.load(tmp_path / "run.h5"))
    assert all(axes.has_data() for axes in drawn.axes)


def test_processes_for_seeds_and_for_clients_change_nothing(attacked, tmp_path):
    attacked.save(tmp_path / "whole.h5")
    execute(attacker, SMALL, out=tmp_path / "pool.h5", engine="pool", workers=2)
    assert (tmp_path / "pool.h5").read_bytes() == (tmp_path / "whole.h5").read_bytes()


def test_an_experiment_that_is_no_federation_has_no_engines():
    from hopfed.experiments import bbp

    with pytest.raises(ArgumentError, match="engine must be local: this is not a federation"):
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
