"""Networks and tables that hopfed does not know: a stranger's module, a library's, a CSV."""

import pickle
import sys
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
import torch
from asked import SILENT, known, play, short_run
from helpers import first_fast
from stand_ins import npz, plays

from hopfed.errors import ArgumentError, DataError
from hopfed.experiments import fl
from hopfed.experiments.runner import execute
from hopfed.neural.methods import METHODS, method
from hopfed.neural.models import build
from hopfed.neural.models.architectures import Shape
from hopfed.neural.models.networks import make, plain_names
from hopfed.neural.training.task import TaskSpec, copied, task_of
from hopfed.neural.training.together import AloneWarning
from hopfed.neural.training.training import Training

pytestmark = [
    pytest.mark.filterwarnings("ignore::hopfed.neural.models.networks.HeadWarning"),
    pytest.mark.filterwarnings("ignore::hopfed.neural.training.task.ScalingWarning"),
]

FAST = ("fedavg", "fedproto", "fml", "sohip", "hebbian")  # parts of their own beside the network


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

def conv():  # for 8 x 8 grey images, of 7 classes whatever it is asked
    maps = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Flatten()
    hidden = nn.Linear(4 * 36, 12), nn.BatchNorm1d(12), nn.ReLU(inplace=True)
    return nn.Sequential(*maps, *hidden, nn.Linear(12, 7))

class Viewed(nn.Module):  # relies on how its maps lie in memory
    def __init__(self, classes):
        super().__init__()
        self.maps, self.out = nn.Conv2d(1, 4, 3), nn.Linear(4 * 36, classes)

    def forward(self, x):
        return self.out(F.relu(self.maps(x)).view(len(x), -1))

class Asking(nn.Module):  # cannot be batched over clients
    def __init__(self, classes):
        super().__init__()
        self.out = nn.Linear(64, classes)

    def forward(self, x):
        if x.sum().item() > 1e9:
            x = -x
        return self.out(x.flatten(1))

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

def demanding(wishes):
    return nn.Linear(64, wishes)

sigmoid_of_no_layer = nn.Sigmoid
"""


@pytest.fixture
def nets(tmp_path):
    """Path of a file of networks."""
    file = tmp_path / "nets.py"
    file.write_text(NETS)
    return file


def settings(table, nets, name="fedavg", **changes):
    own = {"data": str(table), "models": (f"{nets}:Net",), "partition": "iid"}
    more = {"clients": 3, "rounds": 4, "lr": 0.3, "rate": 0.7} | changes
    return short_run(name, **own, **more)


@pytest.mark.filterwarnings("ignore::hopfed.neural.memory.SmallStoreWarning")
@pytest.mark.parametrize("name", first_fast(METHODS, FAST))
def test_a_strangers_network_and_table_with_every_method(table, nets, name):
    run = execute(fl, settings(table, nets, name, way="stacked"))
    assert run.complete
    assert run.arrays["test"].shape == (1, 4, 3)
    assert set(run.arrays["faults/code"].ravel().tolist()) <= {0, 1}  # none, or absent
    assert run.summary["last"][0] > 0.6  # chance is a third
    scaling = 8 * (1 + 2 * 6)  # bytes of the sums by which six columns are scaled
    assert (run.arrays["traffic/up"] > scaling).any() == (name not in SILENT)


def test_a_network_of_others_keeps_its_layout(nets):
    models, way = (f"{nets}:Viewed",), "sequential"
    run = execute(fl, short_run("fedrep", data="digits", models=models, way=way, rounds=1))
    assert not run.arrays["faults/code"].any()
    assert np.isfinite(run.arrays["test"]).all()


def test_from_the_command_line(hopfed, table, nets, tmp_path):
    out = tmp_path / "run.h5"
    data = ("--data", table, "--models", f"{nets}:Net", "--partition", "iid")
    more = ("--clients", 3, "--rounds", 4, "--set", "lr=0.2", "--set", "way=stacked")
    status, text, err = hopfed("fl", "run", "knn-per", *data, *more, "--out", out)
    assert (status, err) == (0, "")
    assert float(text.split("mean over clients")[1].split()[0]) > 0.6  # chance is a third
    before = out.read_bytes()
    again = ("--set", f"models={nets}:Net", "--set", f"data={table}")
    assert hopfed("run", "fl", "--resume", "--out", out, *again)[0] == 0
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
    vectors = {"channels": 5, "size": 1, "seed": 0}
    model = build(f"{nets}:Net", classes=3, **vectors)
    x = torch.randn(4, 5, 1, 1)
    assert (model.features.head, model.feature_dim) == ("last", 16)
    model.eval()
    net = model.features.net
    z = net.first(x.flatten(1)).relu()
    assert torch.equal(model(x), model.head(z))
    again = build(f"{nets}:Net", classes=3, **vectors).state_dict()
    assert all(torch.equal(t, again[n]) for n, t in model.state_dict().items())
    conv = build(f"{nets}:conv", channels=1, size=8, classes=10, seed=0)
    assert conv.head.weight.shape == (10, 12)  # it has 7 of its own
    equal = build("mlp:12", channels=1, size=8, classes=10, seed=0).head
    assert torch.equal(conv.head.weight, equal.weight)


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
    with pytest.warns(AloneWarning, match="one by one"):
        stacked = execute(fl, replace(alone, way="stacked"))
    alone = execute(fl, alone)
    np.testing.assert_array_equal(stacked.arrays["client/loss"], alone.arrays["client/loss"])


def test_frozen_extractors_keep_weights_and_statistics(nets):
    for name in ("fedavg", "fedrep"):
        spec = TaskSpec(models=(f"{nets}:conv",), clients=2, examples=120, frozen=True)
        made = method(name)(spec)
        after = made.personal(*made.readied(*known(play(made).state, 0), 0))
        for n, t in made.loaded.initial(0).items():
            kept = torch.allclose(after[n], t, rtol=1e-6, atol=1e-8)  # a mean of equals rounds
            assert kept == n.startswith("features."), n


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nets.py:Nett", "models must be importable .*has no attribute 'Nett'"),
        ("no_such_module:Net", "No module named 'no_such_module'"),
        ("nets.py:demanding", "no value is known for its parameter wishes"),
        ("nets.py:conv", r"for inputs of shape \(3, 8, 8\)"),
        ("given:Net:net123", "known only to the process that got them"),
        ("nets.py:Squared", "ends with the layer out or its softmax"),
        ("nets.py:sigmoid_of_no_layer", "with a linear layer for the classes"),
    ],
)
def test_what_cannot_be_brought_is_one_line(nets, monkeypatch, name, words):
    monkeypatch.chdir(nets.parent)
    with pytest.raises(ArgumentError, match=words) as caught:
        build(name, channels=3 if "conv" in name else 1, size=8, classes=10, seed=0)
    assert "\n" not in str(caught.value)


def test_a_tied_parameter_is_refused_and_a_head_may_be_named(nets):
    small = {"channels": 1, "size": 8, "classes": 10, "seed": 0}
    with pytest.raises(ArgumentError, match="without shared parameters"):
        build(f"{nets}:tied", **small)
    model = build(f"{nets}:Squared", **small, head_layer="out")
    x = torch.randn(2, 1, 8, 8)
    z = model.features.net.inner(x.flatten(1)).relu()
    assert torch.equal(model(x), model.head(z))
    with pytest.raises(ArgumentError, match=r"a linear layer of .*: inner, out, got nothing"):
        build(f"{nets}:Squared", **small, head_layer="nothing")


@pytest.mark.parametrize(
    ("own", "rule"),
    [
        ({"augment": True, "models": ("mlp",)}, "augment must be false for vectors"),
        ({}, r"models must be mlp:64, .* features, got lenet"),
        ({"data": "digits", "models": ("lstm:8",)}, "models must be any but lstm for the inputs"),
        ({"data": plays(np.random.default_rng(0))}, "models must be lstm for the inputs of play"),
    ],
)
def test_data_that_do_not_suit_a_network_are_named(table, own, rule):
    with pytest.raises(ArgumentError, match=rule):
        task_of(TaskSpec(**{"data": str(table), "clients": 2, "partition": "iid"} | own))


def backbone():
    """For pictures of three channels, as pretrained ones are."""
    body = torch.nn.Conv2d(3, 4, 3), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten()
    return torch.nn.Sequential(*body, torch.nn.Linear(4, 10))


def test_a_network_and_what_makes_one_are_given_themselves():
    net = backbone()
    spec = TaskSpec(models=(net, backbone, "mlp:4"), clients=3, examples=120)
    assert spec.models[1].startswith("given:backbone:")
    assert TaskSpec(models=net).models == spec.models[:1]
    task, before = task_of(spec), copied(net)
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
    for folder in (tmp_path / "one", tmp_path / "two"):
        folder.mkdir()
        (folder / "helper.py").touch()
        body = f"{line}\nimport torch\nclass Net(torch.nn.Linear):\n"
        body += f"    def __init__(self): super().__init__(4, 2); self.said = '{folder.name}'\n"
        (folder / "net.py").write_text(body)
        fails = pytest.raises(ArgumentError, match="ZeroDivisionError")
        with fails if line == "1 / 0" else nullcontext():
            made.append(make(f"{folder}/net.py:Net", Shape(4, 1, 2)))
        assert sys.path == before
    said = [net.said for net in pickle.loads(pickle.dumps(made))]
    assert said == ([] if line == "1 / 0" else ["one", "two"])


def test_weights_come_from_a_file_of_which_no_code_is_run(nets, tmp_path):
    source = build(f"{nets}:conv", channels=1, size=8, classes=7, seed=3)
    held = plain_names(source.state_dict(), source)
    assert "7.weight" in held
    path = tmp_path / "w.pt"
    torch.save(held, path)
    spec = TaskSpec(models=(f"{nets}:conv",), clients=2, examples=100, weights=(str(path),))
    made = task_of(spec).model(0)
    for n, t in made.state_dict().items():
        ours = source.state_dict()[n]
        assert torch.equal(t, ours) if n.startswith("features.") else t.shape != ours.shape

    class Evil:
        def __reduce__(self):
            return (open, (str(tmp_path / "was here"), "w"))

    torch.save({"features.1.weight": Evil()}, tmp_path / "evil.pt")
    (tmp_path / "broken.pt").write_bytes(b"no weights")
    for name in ("broken.pt", "evil.pt"):
        with pytest.raises(DataError, match=name):
            task_of(TaskSpec(clients=2, examples=100, weights=(str(tmp_path / name),)))
    assert not (tmp_path / "was here").exists()


def test_only_some_networks_and_methods_take_images_that_are_not_square(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, size=(40, 12, 9), dtype=np.uint8)
    data = str(npz(tmp_path, images=images, labels=np.arange(40) % 2))

    def started(name, model):
        spec = TaskSpec(data=data, models=(model,), clients=2, partition="iid")
        return play(method(name)(spec, Training(way="sequential", batch=8)))

    rule = "data must be square images for mlp, got 12 x 9 pixels"
    with pytest.raises(ArgumentError, match=rule):
        started("fedavg", "mlp")
    for name, model in (("fedavg", "mobilenet-v2"), ("hebbian", "mlp")):
        assert (started(name, model).traffic.up > 0).all()


def test_a_partition_that_is_given_says_how_many_clients(hopfed, table, tmp_path):
    file = tmp_path / "rows.json"
    file.write_text(str([list(range(k, 150, 3)) for k in range(3)]))
    data = ("--data", table, "--partition", f"given:{file}", "--models", "mlp:4")
    status, text, err = hopfed("fl", "run", "fedavg", *data, "--rounds", 1)
    assert (status, err) == (0, "as the data ask: clients=3\n")
    assert "a round" in text
    status, text, err = hopfed("fl", "partition", table, "--partition", "iid")
    assert (status, err) == (0, "")  # nothing of networks


def test_a_method_that_is_unknown_is_said_before_a_cell_is_run(hopfed, tmp_path):
    grid = ("--grid", "method=standalone,fedavgg", "--out", tmp_path / "swept")
    status, _, err = hopfed("sweep", "fl", "--set", "rounds=1", *grid)
    assert (status, err.count("\n")) == (2, 1)
    assert "did you mean fedavg?" in err
    assert not (tmp_path / "swept").exists()
    assert "use --set data=DATA" in hopfed("sweep", "fl", *grid, "--data", "digits")[2]
