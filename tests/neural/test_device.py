"""Training, evaluation and neighbours on a device, which `pretend` stands for where there is none.

A tensor of the device that meets one of the CPU is an error there, and whatever makes the host
wait is counted.
"""

from dataclasses import replace
from itertools import product

import numpy as np
import pretend
import pytest
import torch
from asked import short_run
from helpers import rest_slow

from hopfed.experiments import fl
from hopfed.federation.engines import LocalEngine
from hopfed.neural.methods import METHODS
from hopfed.neural.training.task import task_of

# What the fast tests play, with a small network; all methods with LeNet are slow.
FAST = [("fedavg", "stacked"), ("apfl", "sequential"), ("fedh2l", "stacked")]
FAST += [("knn-per", "stacked")]
PLAYED = [(*both, "mlp:8") for both in FAST]
PLAYED += product(METHODS, ("sequential", "stacked"), ("lenet",))

pytestmark = pytest.mark.filterwarnings("ignore::hopfed.neural.memory.SmallStoreWarning")


@pytest.fixture(autouse=True)
def _forget():
    """Tasks and networks of one device are not those of the next."""
    yield
    task_of.cache_clear()


def settings(name, **changes):
    base = {"clients": 3, "rate": 0.7, "examples": 100, "partition": "iid"}
    return short_run(name, **(base | changes))


def play(config):
    """Losses and test accuracies of two rounds; clients take part in one, both or none."""
    found, state = [], None
    for t in range(config.rounds):
        arrays, state = fl.measure_round(1, config, t, state, LocalEngine())
        assert (arrays["faults/code"] <= 1).all()
        found.append((arrays["client/loss"], arrays["test"]))
    return found


@pytest.mark.parametrize(("name", "way", "model"), rest_slow(PLAYED, len(FAST)))
def test_a_method_on_a_device(monkeypatch, name, way, model):
    """Nothing is mixed, results are those of the CPU, and waits do not grow with the epochs."""
    waits = []
    for epochs in (1, 3):
        config = settings(name, models=(model,), way=way, epochs=epochs, device="cuda:0")
        if name in ("fedh2l", "fedmd"):  # whose rounds are steps
            own = replace(config, options=f"steps={epochs}", epochs=1)
            config = config if name == "fedmd" else own
        with pretend.device(monkeypatch) as counts:
            there = play(config)
            counts.pop("to device")
            waits.append(dict(counts))
        task_of.cache_clear()
    here = play(replace(config, device="cpu"))
    for (loss, test), (loss_here, test_here) in zip(there, here, strict=True):
        np.testing.assert_allclose(loss, loss_here, rtol=2e-3)
        np.testing.assert_allclose(test, test_here, atol=0.2)  # of ten examples
    assert all(count <= waits[0].get(what, 0) for what, count in waits[1].items()), waits


WAYS = sorted(product(("sgd", "adam", "amsgrad"), ("stacked", "sequential")))


@pytest.mark.parametrize(("optimizer", "way"), rest_slow(WAYS, 1))
def test_every_optimizer_keeps_its_state_on_the_way(monkeypatch, optimizer, way):
    # FedMD's optimizers go on from round to round.
    own = {"optimizer": optimizer, "lr": 0.003, "clip": 1.0, "augment": True}
    config = settings("agg", models=("mlp:16",), way=way, **own)
    with pretend.device(monkeypatch) as counts:
        there = play(replace(config, device="cuda:0"))
        assert not any(name.startswith("read") for name in counts), counts
    task_of.cache_clear()
    for (loss, _), (loss_here, _) in zip(there, play(config), strict=True):
        np.testing.assert_allclose(loss, loss_here, rtol=2e-3)


def test_the_check_itself_finds_what_is_mixed_or_read(monkeypatch):
    with pretend.device(monkeypatch) as counts:
        a = torch.ones(3, device="cuda:0")
        with pytest.raises(RuntimeError, match="expected all tensors on one device"):
            torch.nn.functional.linear(a, torch.ones(2, 3))
        assert (a + torch.tensor(1.0)).device == pretend.DEVICE  # a number may come along
        assert not counts["to host"]
        assert float(a.sum()) == 3
        a.cpu()
        assert (counts["read by _local_scalar_dense"], counts["to host"]) == (1, 1)


@pytest.mark.parametrize("way", rest_slow(["sequential", "stacked"], 1))
def test_compiled_losses_are_the_same(way):
    config = settings("fedprox", way=way, rounds=1)
    plain, compiled = play(config), play(replace(config, compile="eager"))
    for (loss, _), (other, _) in zip(plain, compiled, strict=True):
        np.testing.assert_allclose(loss, other, rtol=1e-4)
