"""Clients classify other data as in their run; kept networks load into their own class."""

import json

import numpy as np
import pytest
from asked import TRAINED, no_bias, short_run
from helpers import first_fast

from hopfed.experiments import fl
from hopfed.experiments.runner import execute
from hopfed.experiments.shared.kept_networks import ABOUT, predicted
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
    run = execute(fl, config, out=tmp_path / "run.h5")
    split = task_of(config.make(0).task).split
    for c in range(3):
        rows = split.test[c]
        _, found = predicted(tmp_path / "run.h5", config, c, split.dataset.inputs[rows])
        np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-5)
        right = (found.argmax(axis=1) == split.dataset.labels[rows]).mean()
        assert right == pytest.approx(run.arrays["test"][0, -1, c])
    about = json.loads((tmp_path / "seed-0" / ABOUT).read_text())
    assert about["round"] == fl.chosen_round(run.arrays)[0] + 1
    shared = {"everyone.pt"} if name == "fedavg" else {f"client-{c}.pt" for c in range(3)}
    assert name not in ("fedavg", "fedproto") or set(about["files"]) == shared
    for file in about["files"] if name in TRAINED else ():
        no_bias().load_state_dict(read_tensors(tmp_path / "seed-0" / file))


def test_neighbours_are_asked_from_the_command_line(hopfed, table):
    config = short_run("knn-per", "k=3,lam=0.7", data=str(table), partition="iid", **SMALL)
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
