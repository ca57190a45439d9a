"""Networks and tables that hopfed does not know: a stranger's module, a library's, a CSV."""

import json
import pickle
import sys
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
import torch
from asked import SILENT, TRAINED, known, play, short_run
from helpers import first_fast
from stand_ins import npz, one_line

from hopfed.errors import ArgumentError, DataError
from hopfed.experiments import fl
from hopfed.experiments.machinery.runner import execute
from hopfed.experiments.shared.kept_networks import ABOUT, predict_classes
from hopfed.neural.methods import METHODS, method
from hopfed.neural.models import build
from hopfed.neural.models.architectures import Shape
from hopfed.neural.models.networks import (
    NetworkWarning,
    make_user_network,
    read_tensors,
    rename_as_source,
)
from hopfed.neural.training.job import Training
from hopfed.neural.training.task import TaskSpec, copy_parameters, task_of

pytestmark = [
    pytest.mark.filterwarnings("ignore::hopfed.neural.models.networks.NetworkWarning"),
]

# Unlike memories, and modules of their own.
FAST = ("fedavg", "knn-per", "fedproto", "sohip", "hebbian", "apfl", "fml", "pfedgp", "fedssa")
OPTIONS = dict.fromkeys(("hebbian", "afl", "safle"), "filters=4")
OPTIONS |= {"ranpac": "random=50", "fedproto": "nearest=1"}


NETS = """
import torch
from torch import nn
from torch.nn import functional as F

class Net(nn.Module):
    def __init__(self, in_features, classes):
        super().__init__()
        self.last = nn.Linear(16, classes)  # defined first, passed last
        self.first = nn.Linear(in_features, 16)
        self.drop = nn.Dropout(0.2)

    def forward(self, x):
        return F.log_softmax(self.last(self.drop(F.relu(self.first(x)))), dim=1)

class Asking(nn.Module):  # cannot be batched over clients, relies on how its maps lie in memory
    def __init__(self, classes):
        super().__init__()
        self.maps, self.out = nn.Conv2d(1, 4, 3), nn.Linear(4 * 36, classes)

    def forward(self, x):
        if x.sum().item() > 1e9:
            x = -x
        return self.out(F.relu(self.maps(x)).view(len(x), -1))

class Squared(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.inner, self.out = nn.Linear(64, 8), nn.Linear(8, classes)

    def forward(self, x):
        return self.out(self.inner(x.flatten(1)).relu()) ** 2

def tied():
    a, b = nn.Linear(64, 64), nn.Linear(64, 64)
    b.weight = a.weight
    return nn.Sequential(nn.Flatten(), a, b)

"""


@pytest.fixture
def nets(tmp_path):
    """Path of a file of networks."""
    file = tmp_path / "nets.py"
    file.write_text(NETS)
    return file


def settings(table, nets, name="fedavg", options="", **changes):
    own = {"data": str(table), "models": (f"{nets}:Net",), "partition": "iid"}
    more = {"clients": 3, "rounds": 4, "lr": 0.3, "rate": 0.7} | changes
    return short_run(name, options, **own, **more)


@pytest.mark.parametrize("name", first_fast(METHODS, FAST))
def test_a_strangers_network_and_table_with_every_method(table, nets, tmp_path, name):
    conf = settings(table, nets, name, OPTIONS.get(name, ""), way="stacked", keep=str(tmp_path))
    run = execute(fl, conf, out=tmp_path / "run.h5")
    assert run.complete
    assert run.arrays["test"].shape == (1, 4, 3)
    assert set(run.arrays["faults/code"].ravel().tolist()) <= {0, 1}  # none, or absent
    assert run.summary["last"][0] > 0.6  # chance is a third
    scaling = 8 * (1 + 2 * 6)  # bytes of the sums by which six columns are scaled
    assert (run.arrays["traffic/up"] > scaling).any() == (name not in SILENT)
    # Each client classifies as in its run, and networks that are kept load into their class.
    split, best = task_of(conf.make(0).task).split, fl.chosen_round(run.arrays)[0][0]
    for c in range(3):
        rows = split.test[c]
        _, found = predict_classes(tmp_path / "run.h5", conf, c, split.dataset.inputs[rows])
        np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-5)
        right = (found.argmax(axis=1) == split.dataset.labels[rows]).mean()
        a_tie = 1.01 / len(rows)  # a row may be near both of two classes
        assert right == pytest.approx(run.arrays["test"][0, -1, c], abs=a_tie)
    about = json.loads((tmp_path / "seed-0" / ABOUT).read_text())
    assert about["round"] == best + 1
    shared = {"everyone.pt"} if name == "fedavg" else {f"client-{c}.pt" for c in range(3)}
    assert name not in ("fedavg", "fedproto") or set(about["files"]) == shared
    for file in about["files"] if name in TRAINED else ():
        own = make_user_network(f"{nets}:Net", Shape(6, 1, 3))
        own.load_state_dict(read_tensors(tmp_path / "seed-0" / file))


def test_from_the_command_line(hopfed, table, nets, tmp_path):
    out = tmp_path / "run.h5"
    data = ("--data", table, "--models", f"{nets}:Net", "--partition", "iid")
    more = ("--clients", 3, "--rounds", 4, "--set", "lr=0.2", "--set", "way=stacked")
    text, err = hopfed.done("fl", "run", "knn-per", *data, *more, "--out", out)
    assert err == ""
    assert float(text.split("mean over clients")[1].split()[0]) > 0.6  # chance is a third
    before = out.read_bytes()
    again = ("--set", f"models={nets}:Net", "--set", f"data={table}")
    hopfed.done("run", "fl", "--resume", "--out", out, *again)
    assert out.read_bytes() == before


def test_layers_that_draw_draw_the_same_after_a_resume(table, nets, tmp_path):
    conf = settings(table, nets, rounds=3)
    torch.manual_seed(1)
    execute(fl, conf, out=tmp_path / "a.h5")
    torch.manual_seed(2)
    execute(fl, replace(conf, rounds=1), out=tmp_path / "b.h5")
    execute(fl, conf, out=tmp_path / "b.h5", resume=True)
    assert (tmp_path / "a.h5").read_bytes() == (tmp_path / "b.h5").read_bytes()


def test_the_head_is_the_last_layer_passed_and_fits_the_classes(nets):
    model, again = (build(f"{nets}:Net", channels=5, size=1, classes=3, seed=0) for _ in range(2))
    x = torch.randn(4, 5, 1, 1)
    assert (model.features.head, model.feature_dim) == ("last", 16)
    z = model.eval().features.net.first(x.flatten(1)).relu()
    assert torch.equal(model(x), model.head(z))
    assert all(torch.equal(t, again.state_dict()[n]) for n, t in model.state_dict().items())
    small = {"channels": 1, "size": 8, "classes": 7, "seed": 0}
    heads = [build(name, **small).head.weight for name in ("asked:Normed", "mlp:144")]
    assert heads[0].shape == (7, 144)  # of a network that has 10 classes of its own
    assert torch.equal(*heads)


def test_initial_weights_are_its_own_or_those_of_he(nets):
    def scale(init, name=f"{nets}:Net"):
        model = build(name, channels=400, size=1, classes=2, seed=0, init=init)
        first = next(p for p in model.features.parameters() if p.ndim == 2 and p.shape[1] == 400)
        return float(first.detach().std() * 400**0.5)

    assert scale("auto") == scale("own") == pytest.approx(3**-0.5, rel=0.05)  # uniform, fan-in
    assert scale("he") == pytest.approx(2**0.5, rel=0.05)
    assert scale("auto", "mlp:16") == scale("he", "mlp:16") == pytest.approx(2**0.5, rel=0.05)
    assert scale("own", "mlp:16") == pytest.approx(3**-0.5, rel=0.05)


def test_a_network_that_cannot_be_stacked_is_trained_alone_and_says_so(nets):
    alone = short_run(models=(f"{nets}:Asking",), clients=2, rounds=1)
    with pytest.warns(NetworkWarning, match="one by one"):
        stacked = execute(fl, replace(alone, way="stacked"))
    alone = execute(fl, alone)
    assert np.isfinite(alone.arrays["test"]).all()
    np.testing.assert_array_equal(stacked.arrays["client/loss"], alone.arrays["client/loss"])


@pytest.mark.parametrize(("name", "own"), [("fedavg", True), ("fedrep", True), ("ditto", False)])
def test_frozen_extractors_keep_weights_and_statistics(name, own):
    net = "asked:Normed" if own else "mlp:8"  # trained one by one, or stacked
    spec = TaskSpec(models=(net,), clients=2, examples=120, frozen=True)
    made = method(name)(spec, Training(way="stacked"))
    after = made.personal(*made.readied(*known(play(made).state, 0), 0))
    for n, t in made.loaded.initial(0).items():
        kept = torch.allclose(after[n], t, rtol=1e-6, atol=1e-8)  # a mean of equals rounds
        assert kept == n.startswith("features."), n


WRONG = ("lstm:64x32", "lenet:9", "mlp:0", "mlp:")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nets.py:Nett", "models must be importable .*has no attribute 'Nett'"),
        ("no_such_module:Net", "No module named 'no_such_module'"),
        ("torch.nn:Embedding", "no value is known for its parameter num_embeddings"),
        ("asked:Normed", r"for inputs of shape \(3, 8, 8\)"),
        ("nets.py:tied", "without shared parameters"),
        ("given:Net:net123", "known only to the process that got them"),
        ("nets.py:Squared", "ends with the layer out or its softmax"),
        ("torch.nn:Sigmoid", "with a linear layer for the classes"),
        ("mobilenet_v2", r"must be one of mlp, .* \(did you mean mobilenet-v2\?\), got"),
        *((name, "or with widths, mlp:200x100 or lstm:64, got") for name in WRONG),
    ],
)
def test_what_cannot_be_brought_is_one_line(nets, monkeypatch, name, words):
    monkeypatch.chdir(nets.parent)
    with pytest.raises(ArgumentError, match=words) as caught:
        build(name, channels=3 if "Normed" in name else 1, size=8, classes=10, seed=0)
    assert one_line(caught)


def test_a_head_may_be_named(nets):
    small = {"channels": 1, "size": 8, "classes": 10, "seed": 0}
    model = build(f"{nets}:Squared", **small, head_layer="out")
    x = torch.randn(2, 1, 8, 8)
    z = model.features.net.inner(x.flatten(1)).relu()
    assert torch.equal(model(x), model.head(z))
    with pytest.raises(ArgumentError, match=r"a linear layer of .*: inner, out, got nothing"):
        build(f"{nets}:Squared", **small, head_layer="nothing")


def backbone():
    """For pictures of three channels, as pretrained ones are."""
    body = torch.nn.Conv2d(3, 4, 3), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten()
    return torch.nn.Sequential(*body, torch.nn.Linear(4, 10))


def test_a_network_and_what_makes_one_are_given_themselves():
    net = backbone()
    spec = TaskSpec(models=(net, backbone, "mlp:4"), clients=3, examples=120)
    assert spec.models[1].startswith("given:backbone:")
    assert TaskSpec(models=net).models == spec.models[:1]
    task, before = task_of(spec), copy_parameters(net)
    ours, made = task.model(0), task.model(1)
    assert torch.equal(ours.features.net[0].weight, net[0].weight)
    assert torch.equal(ours.head.weight, net[3].weight)  # its head fits: kept as it is
    assert not torch.equal(made.features.net[0].weight, net[0].weight)
    grey = torch.randn(5, 1, 8, 8)
    torch.testing.assert_close(ours.eval()(grey), net(grey.expand(-1, 3, -1, -1)))
    run = execute(fl, short_run(models=(net,), clients=2, rounds=1, frozen=True))
    assert np.isfinite(run.arrays["client/loss"]).all()
    assert all(torch.equal(t, net.state_dict()[n]) for n, t in before.items())
    with torch.no_grad():
        net[3].bias += 1
    assert TaskSpec(models=net).models != spec.models[:1]  # another network, another name


@pytest.mark.parametrize("line", ["import sys; del sys.path[0]", "import helper", "1 / 0"])
def test_a_file_of_networks_leaves_the_path_and_is_pickled(tmp_path, line):
    before, made = list(sys.path), []
    for place in ("one", "two"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "helper.py").touch()
        body = f"{line}\nimport torch\nclass Net(torch.nn.Linear):\n"
        body += f"    def __init__(self): super().__init__(4, 2); self.said = '{place}'\n"
        (tmp_path / place / "net.py").write_text(body)
        fails = pytest.raises(ArgumentError, match="ZeroDivisionError")
        with fails if line == "1 / 0" else nullcontext():
            made.append(make_user_network(f"{tmp_path}/{place}/net.py:Net", Shape(4, 1, 2)))
        assert sys.path == before
    said = [net.said for net in pickle.loads(pickle.dumps(made))]
    assert said == ([] if line == "1 / 0" else ["one", "two"])


def test_weights_come_from_a_file_of_which_no_code_is_run(tmp_path):
    def first(net, file):
        task = TaskSpec(models=(net,), clients=2, examples=100, weights=(str(tmp_path / file),))
        return task_of(task).model(0)

    source = build("asked:Normed", channels=1, size=8, classes=7, seed=3)
    held = rename_as_source(source.state_dict(), source)
    assert "4.weight" in held
    torch.save(held, tmp_path / "w.pt")
    for n, t in first("asked:Normed", "w.pt").state_dict().items():
        ours = source.state_dict()[n]
        assert torch.equal(t, ours) if n.startswith("features.") else t.shape != ours.shape

    class Evil:
        def __reduce__(self):
            return (open, (str(tmp_path / "was here"), "w"))

    torch.save({"features.1.weight": Evil()}, tmp_path / "evil.pt")
    (tmp_path / "broken.pt").write_bytes(b"no weights")
    for name in ("broken.pt", "evil.pt"):
        with pytest.raises(DataError, match=name):
            first("mlp", name)
    assert not (tmp_path / "was here").exists()


@pytest.mark.parametrize(
    ("name", "model"), [("fedavg", "mlp"), ("fedavg", "mobilenet-v2"), ("hebbian", "mlp")]
)
def test_only_some_networks_and_methods_take_images_that_are_not_square(tmp_path, name, model):
    images = np.random.default_rng(0).integers(0, 256, size=(40, 12, 9), dtype=np.uint8)
    data = str(npz(tmp_path, images=images, labels=np.arange(40) % 2))
    made = short_run(name, data=data, models=(model,), clients=2, partition="iid").make(0)
    rule = pytest.raises(ArgumentError, match="square images for mlp, got 12 x 9 pixels")
    with rule if (name, model) == ("fedavg", "mlp") else nullcontext():
        assert (play(made).traffic.up > 0).all()


def test_a_partition_that_is_given_says_how_many_clients(hopfed, table, tmp_path):
    file = tmp_path / "rows.json"
    file.write_text(str([list(range(k, 150, 3)) for k in range(3)]))
    data = ("--data", table, "--partition", f"given:{file}", "--models", "mlp:4")
    text, err = hopfed.done("fl", "run", "fedavg", *data, "--rounds", 1)
    assert (err, "1 seed in" in text) == ("as the data ask: clients=3\n", True)
    assert hopfed.done("fl", "partition", table, "--partition", "iid")[1] == ""  # of no networks


def test_neighbours_are_asked_from_the_command_line(hopfed, table):
    more = {"models": ("mlp:16",), "clients": 3, "partition": "iid"}
    config = short_run("knn-per", "k=3,lam=0.7", data=str(table), **more)
    out = table.parent / "run.h5"
    execute(fl, config, out=out)
    asked = ("fl", "predict", out, table, "--client", 1)
    text, err = hopfed.done(*asked)
    assert ("knn-per, client 1" in text, err) == (True, "")
    assert "--client must be below 3" in hopfed.refused(*asked[:-1], 3)
    assert "examples of shape (1, 8, 8)" in hopfed.refused(
        *asked[:3], "digits", "--set", f"data={table}"
    )
    table.write_text(table.read_text().replace("ash\n", "oak\n", 1))
    task_of.cache_clear()  # another process would read the file again
    assert "its data have changed" in hopfed.refused(*asked)
