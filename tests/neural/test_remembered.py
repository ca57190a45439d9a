"""Kept clients that classify with more than a network do the same when they are read back."""

import json
from dataclasses import fields, replace

import numpy as np
import pytest
from helpers import rest_slow

from hopfed.experiments import fl
from hopfed.experiments.runner import execute
from hopfed.experiments.shared.kept_networks import ABOUT, read
from hopfed.neural.methods import METHODS, method
from hopfed.neural.training.task import task_of

SMALL = {"models": ("mlp:16",), "clients": 3, "examples": 200, "rounds": 2, "lr": 0.05, "rate": 0.7}
OPTIONS = {
    "hebbian": "filters=4",
    "afl": "filters=4",
    "ranpac": "random=50",
    "safle": "filters=4",
    "fedproto": "nearest=1",
}
FAST = ("fedavg", "knn-per", "fedproto", "sohip", "hebbian", "apfl")  # unlike memories
pytestmark = pytest.mark.filterwarnings("ignore::hopfed.neural.memory.SmallStoreWarning")


@pytest.mark.parametrize("name", rest_slow(sorted(METHODS, key=lambda n: n not in FAST), len(FAST)))
def test_every_method_classifies_as_in_its_run(tmp_path, name):
    small = "proxy=mlp:8" if any(f.name == "proxy" for f in fields(method(name))) else ""
    options = OPTIONS.get(name, small)
    config = fl.Config(method=name, options=options, keep=str(tmp_path / "states"), **SMALL)
    run = execute(fl, config)
    _, chosen = fl.chosen_round(run.arrays)
    task = task_of(config.make(0).task)
    for c in range(3):
        kept = read(tmp_path / "states" / "seed-0", c)
        rows = task.split.test[c]
        found = kept.probabilities(task.split.dataset.inputs[rows])
        np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-5)
        right = (found.argmax(axis=1) == task.split.dataset.labels[rows]).mean()
        assert right == pytest.approx(chosen[0, c])


@pytest.fixture
def folder(tmp_path):
    """Kept clients of kNN-Per, made of a file of features."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 150)
    rows = 2 * rng.normal(size=(3, 4))[labels] + rng.normal(size=(150, 4))
    lines = [",".join(f"{v:.3f}" for v in row) for row in rows]
    named = [f"{line},{'abc'[k]}" for line, k in zip(lines, labels, strict=True)]
    (tmp_path / "data.csv").write_text("p,q,r,s,label\n" + "\n".join(named))
    config = fl.Config(
        method="knn-per", options="k=3,lam=0.7", data=str(tmp_path / "data.csv"),
        keep=str(tmp_path / "states"), partition="iid",
        **(SMALL | {"rate": 1.0, "examples": 0}),
    )  # fmt: skip
    execute(fl, config)
    return tmp_path / "states" / "seed-0"


def test_neighbours_are_asked_from_the_command_line(hopfed, folder):
    data = folder.parent.parent / "data.csv"
    status, text, err = hopfed("fl", "predict", folder, data, "--client", 1)
    assert (status, err) == (0, "")
    assert "knn-per, network and memory of client 1" in text
    kept = read(folder, 1)
    inputs = np.float32(np.random.default_rng(1).normal(size=(40, 4, 1, 1)))
    alone = replace(kept, classifier=kept.model).probabilities(inputs)
    assert np.abs(kept.probabilities(inputs) - alone).max() > 0.1


def test_a_memory_that_cannot_be_made_again_is_one_line(hopfed, folder):
    data = folder.parent.parent / "data.csv"
    text = data.read_text()
    about = json.loads((folder / ABOUT).read_text())
    call = ("fl", "predict", folder, data)

    def refused(*words):
        task_of.cache_clear()  # another process would read the file again
        status, out, err = hopfed(*call)
        assert (status, out, err.count("\n")) == (2, "", 1)
        for word in words:
            assert word in err

    data.write_text(text.replace("a\n", "b\n", 1))
    refused("data.csv: other examples than those that knn-per remembers")
    data.rename(data.with_name("moved.csv"))
    call = ("fl", "predict", folder, data.with_name("moved.csv"))
    refused("knn-per classifies with the examples of its run", "data.csv: no such file")
    data.write_text(text)
    whole = (folder / "client-0.memory").read_bytes()
    (folder / "client-0.memory").write_bytes(whole[:-1] if len(whole) % 64 else whole[:5])
    refused("client-0.memory")
    (folder / "client-0.memory").write_bytes(whole)
    (folder / "server.memory").unlink()
    refused("server.memory: no such file")
    own = about | {"config": about["config"] | {"method": "os:abort"}}
    (folder / ABOUT).write_text(json.dumps(own))
    refused("names code to run, os:abort")
    del about["config"]
    (folder / ABOUT).write_text(json.dumps(about))
    refused("lacks what knn-per remembers beside its networks")
