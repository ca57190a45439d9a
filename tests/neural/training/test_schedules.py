"""Learning rates over rounds, and settings chosen by validation."""

import json
import tomllib

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install hopfed[neural]")

from hopfed.errors import ArgumentError, HopfedError  # noqa: E402
from hopfed.experiments import find, fl  # noqa: E402
from hopfed.experiments.runner.execute import execute  # noqa: E402
from hopfed.experiments.shared import tuning  # noqa: E402
from hopfed.federation.engines.local import LocalEngine  # noqa: E402
from hopfed.federation.rounds import play_round  # noqa: E402
from hopfed.neural.methods.fedavg import FedAvg  # noqa: E402
from hopfed.neural.training.task import TaskSpec  # noqa: E402
from hopfed.neural.training.training import Training  # noqa: E402

SMALL = {"models": ("mlp:16",), "clients": 3, "examples": 200, "rounds": 3, "way": "sequential"}


def test_schedules_by_hand():
    warm, steps = Training(warmup=3), Training(schedule="step:3:0.1")
    assert [warm.factor(t) for t in range(5)] == [0.25, 0.5, 0.75, 1, 1]
    assert [steps.factor(t) for t in (0, 2, 3, 6)] == pytest.approx([1, 1, 0.1, 0.01])
    cosine = [Training(schedule="cosine", rounds=100).factor(t) for t in range(100)]
    assert cosine == pytest.approx([np.cos(np.pi * t / 200) ** 2 for t in range(100)])
    assert 0 < Training(schedule="cosine", rounds=4).at(9).lr <= 1e-12  # a round beyond the last
    plain = Training(lr=0.3)
    assert plain.at(7) is plain


@pytest.mark.parametrize(
    "word", ["linear", "step", "step:0:0.5", "step:5:2", "step:5", "step:a:b", "cosine:3", ""]
)
def test_other_schedules_are_refused(word):
    with pytest.raises(ArgumentError, match="schedule must be"):
        Training(schedule=word)
    with pytest.raises(ArgumentError, match="warmup must be at least 0"):
        Training(warmup=-1)


@pytest.mark.parametrize("way", ["sequential", "stacked"])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_a_round_is_trained_at_its_rate(way, optimizer):
    task = TaskSpec(models=("mlp:16",), clients=3, examples=200)

    def play(rates, schedule="constant"):
        state = None
        for t, lr in enumerate(rates):
            training = Training(optimizer, lr, rounds=3, way=way, schedule=schedule, batch=16)
            method = FedAvg(task, training)
            state = play_round(method, state, t, seed=0, clients=3, engine=LocalEngine()).state
        return state.server

    a, b = play([0.04] * 3, "step:1:0.5"), play([0.04, 0.02, 0.01])
    for name, array in a.items():
        np.testing.assert_array_equal(array, b[name])


def test_a_run_with_a_schedule_resumes_to_the_same_bits(tmp_path):
    conf = fl.Config(schedule="cosine", warmup=1, **SMALL)

    class Stop(BaseException):
        pass

    def stop(done, planned):
        if done == 2:
            raise Stop

    execute(fl, conf, out=tmp_path / "a.h5")
    with pytest.raises(Stop):
        execute(fl, conf, out=tmp_path / "b.h5", report=stop)
    execute(fl, conf, out=tmp_path / "b.h5", resume=True)
    assert (tmp_path / "a.h5").read_bytes() == (tmp_path / "b.h5").read_bytes()
    constant = execute(fl, fl.Config(**SMALL)).arrays["client/loss"]
    loss = execute(fl, conf).arrays["client/loss"]
    assert (loss[:, 2] != constant[:, 2]).all()


@pytest.mark.parametrize("name", ["sohip", "fedssa", "fedh2l", "knnper", "oneshot"])
def test_every_comparison_has_these_settings(name):
    wanted = {"augment": True, "init": "own", "schedule": "cosine", "warmup": 2, "clip": 1.0}
    bench = find(name).Config(**wanted)
    for cell in bench.cells():
        assert {n: getattr(cell.config, n) for n in wanted} == wanted


def test_the_best_point_is_chosen_by_validation_alone(tmp_path):
    config = fl.Config(**SMALL, seeds=2)
    points = tuning.tune(config, tuning.grid(["lr=1e-6,0.1,1e30", "clip=0,5"]))
    assert [p.settings for p in points][1] == ("lr=1e-6", "clip=5")
    chosen = tuning.best(points)
    assert "lr=0.1" in chosen.settings
    run = execute(fl, fl.with_options(config, list(chosen.settings)))
    best = run.arrays["validation"].mean(axis=2).max(axis=1).mean()
    assert chosen.validation == pytest.approx(best)
    assert chosen.gigaflops == pytest.approx(run.arrays["client/flops"].sum() / 1e9)
    sent = run.arrays["traffic/up"].sum() + run.arrays["traffic/down"].sum()
    assert chosen.megabytes == pytest.approx(sent / 1e6)
    broken = next(p for p in points if p.settings == ("lr=1e30", "clip=0"))
    assert broken.fault
    assert np.isnan(broken.validation)
    with pytest.raises(HopfedError, match="no point of the grid could be played"):
        tuning.best([broken])


def test_tuning_from_the_command_line(hopfed, tmp_path):
    out = tmp_path / "best.toml"
    small = ("--models", "mlp:16", "--clients", 3, "--rounds", 2, "--set", "examples=200")
    grid = ("--grid", "lr=0.0001,0.1", "--grid", "mu=0.1")
    status, text, err = hopfed("fl", "tune", "fedprox", *small, *grid, "--out", out)
    assert (status, err) == (0, "")
    assert "chosen: lr=0.1 mu=0.1" in text
    written = out.read_text()
    assert "2 points, 1 seeds, 2 rounds each" in written
    assert "cost of the grid" in written
    assert "lr=0.0001 mu=0.1" in written
    held = tomllib.loads(written)
    assert (held["lr"], held["models"], held["options"]) == (0.1, ["mlp:16"], {"mu": "0.1"})
    status, text, _ = hopfed("fl", "run", "fedprox", "--config", out, "--rounds", 1, "--json")
    config = json.loads(text)["config"]
    assert (config["lr"], config["options"], config["rounds"]) == (0.1, "mu=0.1", 1)
    status, text, _ = hopfed("fl", "tune", "fedprox", *small, *grid, "--json")
    assert len(json.loads(text)["points"]) == 2


@pytest.mark.parametrize(
    ("grid", "words"),
    [
        (("lr",), "--grid must be of the form key=value,value"),
        (("lr=1,,2",), "--grid must be of the form"),
        (("lr=1", "lr=2"), "--grid must be given once for each setting"),
        (("epochz=1",), "did you mean epochs"),
        (("lr=0.1,0",), "lr must be above 0"),
        (("lr=" + ",".join(map(str, range(1, 300))),), "at most 256 points"),
    ],
)
def test_a_bad_grid_is_one_line(hopfed, grid, words):
    given = [part for axis in grid for part in ("--grid", axis)]
    status, out, err = hopfed("fl", "tune", "fedavg", *given)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert words in err
