"""Networks that do not fit the data are refused before the first round, in words."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from stand_ins import npz  # noqa: E402

from hopfed.errors import ArgumentError  # noqa: E402
from hopfed.federation.engines.local import LocalEngine  # noqa: E402
from hopfed.federation.rounds import play_round  # noqa: E402
from hopfed.neural.methods import method  # noqa: E402
from hopfed.neural.training.task import TaskSpec  # noqa: E402
from hopfed.neural.training.training import Training  # noqa: E402

TRAINING = Training(way="sequential", batch=8)


def started(name, model, path, **settings):
    task = TaskSpec(data=str(path), models=(model,), clients=2, partition="iid")
    made = method(name)(task, TRAINING, **settings)
    return play_round(made, None, 0, seed=0, clients=2, engine=LocalEngine())


@pytest.fixture
def oblong(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, size=(40, 12, 9), dtype=np.uint8)
    return npz(tmp_path, images=images, labels=np.arange(40) % 2)


@pytest.fixture
def play(tmp_path):
    path = tmp_path / "play.npz"
    text = np.frombuffer(b"Ay. Nay, nay.  So be it. " * 4, np.uint8)
    ends = 25 * np.arange(1, 5)
    np.savez(path, text=text, start=ends - 25, end=ends, labels=[0, 1, 0, 1])
    return path


@pytest.mark.parametrize("name", ["fedavg", "fedproto", "fedssa", "fml", "knn-per"])
def test_images_that_are_not_square(oblong, name):
    rule = "data must be square images for mlp, got 12 x 9 pixels"
    with pytest.raises(ArgumentError, match=rule):
        started(name, "mlp", oblong)


@pytest.mark.parametrize(("name", "model"), [("fedavg", "resnet-18"), ("hebbian", "mlp")])
def test_what_takes_any_image_takes_those_that_are_not_square(oblong, name, model):
    assert (started(name, model, oblong).traffic.up > 0).all()


@pytest.mark.parametrize("name", ["fml", "fedkd", "fedmrl"])
def test_a_proxy_for_other_data(play, name):
    with pytest.raises(ArgumentError, match="proxy must be lstm for the inputs of play"):
        started(name, "lstm:4", play)
