"""What a reviewer of a comparison asks: divergence is said, costs are whole, networks stay."""

import json
from contextlib import nullcontext
from functools import partial

import numpy as np
import pytest
import torch
from asked import known, no_bias, short_run
from torch import nn

from hopfed.errors import ArgumentError, DataError, HopfedError
from hopfed.experiments import fl
from hopfed.experiments.machinery.runner import execute
from hopfed.federation.engines import LocalEngine
from hopfed.federation.messages import nbytes
from hopfed.neural.data import partition
from hopfed.neural.data.dataset import from_arrays
from hopfed.neural.methods import METHODS
from hopfed.neural.models.networks import NetworkWarning, build, load_weights, read_tensors
from hopfed.neural.training.task import TaskSpec, task_of


def played(name, **settings):
    conf = short_run(name, **settings)
    method = conf.make(0)
    arrays, state = fl.train_round(conf, method, 0, None, LocalEngine())
    return method, state, arrays | fl.score_clients(conf, method, 0, state, arrays)


def rows_of(clients, data):
    """A partition that gives each client the next of the rows."""
    return partition(np.split(np.arange(len(data[0])), clients), from_arrays(*data)).scheme


def test_who_diverges_is_told_at_once_and_in_the_summary():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(120, 4)), np.arange(120) % 2
    x[:40] *= 1e30  # the first client's rows, which overflow
    more = {"partition": rows_of(3, (x, y)), "clients": 3, "scaling": "none", "batch": 8}
    words = "round 1: updates discarded, 1 in all, of clients 0"
    with pytest.warns(fl.TroubleWarning, match=words):
        said = execute(fl, short_run(data=(x, y), rounds=3, **more)).summary["trouble"]
    assert "updates discarded, 3 in all, of clients 0 not finite" in said
    assert "lr = 0.01 is likely too high" in said


def test_a_network_that_is_not_finite_has_no_accuracy_and_its_rate_is_not_chosen(hopfed, tmp_path):
    small = ("--clients", 3, "--rounds", 2, "--models", "mlp:8", "--set", "examples=200")
    out, more = tmp_path / "run.h5", (*small, "--set", "lr=1e20")
    with pytest.warns(fl.TroubleWarning, match="networks not finite"):
        status, text, err = hopfed("fl", "run", "standalone", *more, "--json", "--out", out)
    assert status == 2
    assert "error: no network is finite; lr = 1e+20 is likely too high" in err
    summary = json.loads(text)["summary"]
    assert summary["test"] == [None, None]
    said = "networks not finite, without accuracy, 6 in all, of clients 0, 1, 2"
    assert said in summary["trouble"]
    assert "networks not finite" in " ".join(hopfed("show", out)[1].split())
    assert hopfed.refused("fl", "run", "fedavg", *more).endswith("lr = 1e+20 is likely too high\n")
    sets = ("method=standalone", "clients=2", "rounds=1", "models=mlp:8", "examples=100")
    sets = [word for setting in sets for word in ("--set", setting)]
    grid = ("--grid", "lr=0.05,1e20", "--choose", "validation", "--out", tmp_path / "swept")
    with pytest.warns(fl.TroubleWarning, match="networks not finite"):
        text, _ = hopfed.done("sweep", "fl", *sets, *grid)
    assert "chosen: --set lr=0.05" in text


def test_a_round_in_which_a_network_is_lost_is_not_chosen():
    kinds = {"validation": [[0.1, 0.1], [0.9, np.nan]], "test": [[0.2, 0.2], [0.9, np.nan]]}
    arrays = {name: np.array([values]) for name, values in kinds.items()}
    arrays["scored"] = np.ones((1, 2, 2), bool)
    best, chosen = fl.chosen_round(arrays)
    assert (best.tolist(), chosen.tolist()) == ([0], [[0.2, 0.2]])
    assert not fl.all_lost(arrays)


def test_who_never_takes_part_changes_no_scale():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(200, 3)), np.arange(200) % 2
    small = {"unseen": 0.25, "partition": rows_of(4, (x, y)), "examples": 0}
    moved = np.where(np.arange(200)[:, None] < 150, x, x + 100)
    one, two = (execute(fl, short_run(data=(d, y), **small)).arrays for d in (x, moved))
    for name in ("test", "validation", "client/loss"):
        np.testing.assert_array_equal(one[name][..., :3], two[name][..., :3])


def test_scaling_is_a_setting_and_its_sums_are_counted():
    sums = 8 * (1 + 2), 8 * 2  # number, sum and sum of squares of a channel; mean and deviation
    base = {"models": ("mlp:8",), "clients": 4, "examples": 200}
    for scaling, counted in (("train", True), ("none", False), ("8:4", False)):
        _, _, arrays = played("standalone", scaling=scaling, unseen=0.25)
        assert arrays["traffic/up"].tolist() == [sums[0] * counted] * 3 + [0]
        assert arrays["traffic/down"].tolist() == [sums[1] * counted] * 3 + [0]
    raw = task_of(TaskSpec(scaling="none", **base)).tensors
    x = raw.batch(torch.arange(3))[0]
    torch.testing.assert_close(x, raw.inputs[:3].float(), rtol=0, atol=0)
    given = task_of(TaskSpec(scaling="8:4", **base)).tensors.batch(torch.arange(3))[0]
    torch.testing.assert_close(given, (x - 8) / 4)
    with pytest.raises(ArgumentError, match="one number, or one for each of the 1 channels"):
        task_of(TaskSpec(scaling="1,2:1,1", **base))
    for wrong in ("half", "1", "1:0", "1:nan"):
        with pytest.raises(ArgumentError, match="scaling must be"):
            TaskSpec(scaling=wrong)


def test_a_trained_network_sees_what_it_was_trained_on_and_it_is_said():
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    spec = TaskSpec(models=(net,), clients=2, examples=200)
    with pytest.warns(NetworkWarning, match="scaling=none"):
        tensors = task_of(spec).tensors
    assert tensors.batch(torch.arange(5))[0].max() > 10


def two_layers():
    head = nn.Sequential(nn.Tanh(), nn.Linear(12, 6), nn.ReLU(), nn.Linear(6, 10))
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 12), head)


@pytest.mark.filterwarnings("ignore::hopfed.neural.models.networks.NetworkWarning")
@pytest.mark.parametrize("make", [two_layers, partial(nn.Linear, 64, 10, bias=False)])
def test_heads_of_any_form_are_kept_whole(make, tmp_path):
    net, rng = make(), np.random.default_rng(0)
    rows = rng.normal(size=(200, 64)), np.arange(200) % 10
    more = {"data": rows, "keep": str(tmp_path), "partition": "iid"}
    execute(fl, short_run("fedprox", models=(net,), rounds=1, epochs=0, **more))
    (file,) = (tmp_path / "seed-0").glob("everyone.*")
    again = make()
    again.load_state_dict(read_tensors(file))
    for n, t in net.state_dict().items():
        torch.testing.assert_close(again.state_dict()[n], t)


def test_a_head_that_does_not_fit_is_replaced_with_a_word_and_misfits_are_counted():
    small = {"channels": 1, "size": 8, "classes": 7, "seed": 0}
    name = TaskSpec(models=(no_bias(),)).models[0]
    with pytest.warns(NetworkWarning, match="its head 3 is for 10 classes, the data have 7"):
        model = build(name, **small)
    assert model.head.bias is None
    with pytest.warns(NetworkWarning, match="head.weight fits other classes"):
        load_weights(model, no_bias().state_dict())
    wrong = {f"layer{i}": torch.ones(1) for i in range(5)}
    with pytest.raises(DataError, match=r"lacks 2 of 3: .*; adds 5 of 3: 'layer0"):
        load_weights(model, wrong)


class Unread(dict):
    """A message that cannot be read."""

    __getitem__ = get = items = values = None


@pytest.mark.parametrize("name", METHODS)
def test_a_model_that_is_scored_was_sent(name):
    """A classifier reads the last message from the server exactly where it says so."""
    method, state, _ = played(name, rate=0.5)
    absent = next(c for c in range(4) if c not in state.clients)
    for c in (min(state.clients), absent):
        own, down = known(state, c)
        reads = down and method.fetches(c in state.clients)
        with pytest.raises(TypeError) if reads else nullcontext():
            method.classifier(own, Unread(down), c)


def test_the_first_and_the_scored_model_are_downloads():
    whole = 4 * (65 * 8 + 9 * 10)
    run = execute(fl, short_run(rate=0.5, rounds=3, scaling="none"))
    asked = run.arrays["faults/code"][0] == 0
    np.testing.assert_array_equal(run.arrays["traffic/down"][0, 0], whole * asked[0])
    assert (run.arrays["scoring/bytes"] == whole).all()  # to every client, in every round
    assert not run.arrays["traffic/down"][0, 1:].any()  # which begins with what it was scored with
    seldom = execute(fl, short_run(rate=0.5, rounds=3, scaling="none", every=3)).arrays
    np.testing.assert_array_equal(seldom["traffic/down"][0], whole * asked)
    assert seldom["scoring/bytes"][0].sum(axis=1).tolist() == [0, 0, 4 * whole]
    part = execute(fl, short_run(rate=0.25, scaling="none", scoring="part")).arrays
    assert part["scored"][0].sum(axis=1).tolist() == [1, 2]
    assert np.isnan(part["test"][0]).sum(axis=1).tolist() == [3, 2]
    head = nbytes({"w": np.zeros((10, 9), np.float32)})
    first = played("lg-fedavg", scaling="none")[2]["traffic/down"]
    assert first.tolist() == [head] * 4


@pytest.mark.parametrize("name", ["fedrep", "ditto", "apfl", "fedavg+"])
def test_training_for_scores_is_counted_apart(name):
    _, state, arrays = played(name, rate=0.5, partition="iid")
    took = np.isin(range(4), list(state.clients))
    assert (arrays["scoring/flops"][took] == 0).all()
    # An epoch, which those that took part have beside their own training.
    due = arrays["client/flops"][took][0] / (2 if name == "fedavg+" else 1)
    np.testing.assert_allclose(arrays["scoring/flops"][~took], due, rtol=0.05)


def test_a_client_that_fails_in_every_round_is_told():
    conf = short_run()

    class Failing(type(conf.make(0))):
        def answer(self, client, question, down):
            if client.number == 2:
                raise RuntimeError("no room")
            return (yield from super().answer(client, question, down))

    made = Failing(**vars(conf.make(0)))
    arrays, _ = fl.train_round(conf, made, 0, None, LocalEngine())
    scored = {"scored": np.ones(4, bool), "test": np.ones(4)}
    with pytest.warns(fl.TroubleWarning, match="of clients 2 raised: RuntimeError: no room"):
        fl.alarm(conf)(0, 0, arrays | scored)
    with pytest.raises(HopfedError):
        fl.train_round(short_run(minimum=4), made, 0, None, LocalEngine())
