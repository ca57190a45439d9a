"""Learning rates over rounds, and settings chosen by validation."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install hopfed[neural]")

from hopfed.errors import ArgumentError  # noqa: E402
from hopfed.experiments import find, fl  # noqa: E402
from hopfed.experiments.runner import execute  # noqa: E402
from hopfed.federation.engines.local import LocalEngine  # noqa: E402
from hopfed.federation.rounds import play_round  # noqa: E402
from hopfed.neural.methods.fedavg import FedAvg  # noqa: E402
from hopfed.neural.training.schedules import factor  # noqa: E402
from hopfed.neural.training.task import TaskSpec  # noqa: E402
from hopfed.neural.training.training import Training  # noqa: E402

SMALL = {"models": ("mlp:16",), "clients": 3, "examples": 200, "rounds": 3, "way": "sequential"}


def test_schedules_by_hand():
    assert [factor("constant", 3, t, 9) for t in range(5)] == [0.25, 0.5, 0.75, 1, 1]
    assert [factor("step:3:0.1", 0, t, 9) for t in (0, 2, 3, 6)] == pytest.approx([1, 1, 0.1, 0.01])
    cosine = [factor("cosine", 0, t, 100) for t in range(100)]
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
