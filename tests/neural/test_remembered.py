"""Networks that are kept classify as in their run, and load into their own class."""

import json

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
    about = json.loads((tmp_path / "seed-0" / ABOUT).read_text())
    assert about["round"] == best[0] + 1
    for c in range(3) if about["alone"] else ():
        kept = read(tmp_path / "seed-0", c)
        rows = task.split.test[c]
        found = kept.probabilities(task.split.dataset.inputs[rows])
        np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-5)
        right = (found.argmax(axis=1) == task.split.dataset.labels[rows]).mean()
        assert right == pytest.approx(chosen[0, c])
    shared = {"everyone.pt"} if name == "fedavg" else {f"client-{c}.pt" for c in range(3)}
    assert name not in ("fedavg", "fedproto") or set(about["files"]) == shared
    for file in about["files"] if name in TRAINED else ():
        no_bias().load_state_dict(read_tensors(tmp_path / "seed-0" / file))
