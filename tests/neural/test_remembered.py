"""Kept clients that classify with more than a network do the same when they are read back."""

import json
from dataclasses import replace

import numpy as np
import pytest
from asked import TRAINED, no_bias, short_run
from helpers import first_fast

from hopfed.experiments import fl
from hopfed.experiments.runner import execute
from hopfed.experiments.shared.kept_networks import ABOUT, read
from hopfed.neural.methods import METHODS
from hopfed.neural.models.networks import read_tensors
from hopfed.neural.training.task import task_of

SMALL = {"models": ("mlp:16",), "clients": 3, "lr": 0.05, "rate": 0.7}
OPTIONS = dict.fromkeys(("hebbian", "afl", "safle"), "filters=4")
OPTIONS |= {"ranpac": "random=50", "fedproto": "nearest=1"}
# Unlike memories, and modules of their own.
FAST = ("fedavg", "knn-per", "fedproto", "sohip", "hebbian", "apfl", "fml", "pfedgp", "fedssa")
pytestmark = pytest.mark.filterwarnings("ignore::hopfed.neural.memory.SmallStoreWarning")


@pytest.mark.parametrize("name", first_fast(METHODS, FAST))
def test_every_method_classifies_as_in_its_run_and_networks_load_into_their_class(tmp_path, name):
    more = SMALL | {"models": (no_bias,), "keep": str(tmp_path)}
    config = short_run(name, OPTIONS.get(name, ""), **more)
    run = execute(fl, config)
    best, chosen = fl.chosen_round(run.arrays)
    task = task_of(config.make(0).task)
    for c in range(3):
        kept = read(tmp_path / "seed-0", c)
        rows = task.split.test[c]
        found = kept.probabilities(task.split.dataset.inputs[rows])
        np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-5)
        right = (found.argmax(axis=1) == task.split.dataset.labels[rows]).mean()
        assert right == pytest.approx(chosen[0, c])
    assert kept.about["round"] == best[0] + 1
    shared = {"everyone.pt"} if name == "fedavg" else {f"client-{c}.pt" for c in range(3)}
    assert name not in ("fedavg", "fedproto") or set(kept.about["files"]) == shared
    for file in kept.about["files"] if name in TRAINED else ():
        no_bias().load_state_dict(read_tensors(tmp_path / "seed-0" / file))


@pytest.fixture
def folder(table):
    """Kept clients of kNN-Per, made of a file of features."""
    where = {"data": str(table), "keep": str(table.parent / "states"), "partition": "iid"}
    execute(fl, short_run("knn-per", "k=3,lam=0.7", **where, **(SMALL | {"rate": 1.0})))
    return table.parent / "states" / "seed-0"


def test_neighbours_are_asked_from_the_command_line(hopfed, folder, table):
    status, text, err = hopfed("fl", "predict", folder, table, "--client", 1)
    assert (status, err) == (0, "")
    assert "knn-per, network and memory of client 1" in text
    kept = read(folder, 1)
    inputs = np.float32(np.random.default_rng(1).normal(size=(40, 6, 1, 1)))
    alone = replace(kept, classifier=kept.model).probabilities(inputs)
    assert np.abs(kept.probabilities(inputs) - alone).max() > 0.1


def test_a_memory_that_cannot_be_made_again_is_one_line(hopfed, folder, table):
    text = table.read_text()
    about = json.loads((folder / ABOUT).read_text())

    def refused(*words, data=table):
        task_of.cache_clear()  # another process would read the file again
        status, out, err = hopfed("fl", "predict", folder, data)
        assert (status, out, err.count("\n")) == (2, "", 1)
        for word in words:
            assert word in err

    table.write_text(text.replace("ash\n", "oak\n", 1))
    refused("plants.csv: other examples than those that knn-per remembers")
    moved = table.rename(table.with_name("moved.csv"))
    words = "knn-per classifies with the examples of its run", "plants.csv: no such file"
    refused(*words, data=moved)
    table.write_text(text)
    whole = (folder / "state.memory").read_bytes()
    (folder / "state.memory").write_bytes(whole[:-1] if len(whole) % 64 else whole[:5])
    refused("state.memory")
    (folder / "state.memory").write_bytes(whole)
    (folder / "state.memory").rename(folder / "away")
    refused("state.memory: no such file")
    (folder / "away").rename(folder / "state.memory")
    own = about | {"config": about["config"] | {"method": "os:abort"}}
    (folder / ABOUT).write_text(json.dumps(own))
    refused("names code to run, os:abort")
    del about["config"]
    (folder / ABOUT).write_text(json.dumps(about))
    refused("lacks what knn-per remembers beside its networks")
