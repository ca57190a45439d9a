"""Methods that only read one federation in different ways share its training in a comparison."""

import sys
from dataclasses import dataclass, replace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from hopfed.experiments import find, fl  # noqa: E402
from hopfed.experiments.runner.execute import execute  # noqa: E402
from hopfed.experiments.shared import cells as _cells  # noqa: E402
from hopfed.experiments.shared.cells import TABLE, Bench  # noqa: E402
from hopfed.neural.methods import METHODS, method  # noqa: E402
from hopfed.neural.methods.fedavg import FedAvg, FedAvgPlus  # noqa: E402
from hopfed.neural.training.task import TaskSpec  # noqa: E402

READINGS = {"fedavg-prior": "", "fedavg+": "tune=2", "knn-per": "k=3", "knn-per half": "lam=0.5"}
# What decides what a client trains, sends and receives.
STEPS = (
    "wrap", "phases", "start_params", "start_params_at", "extra", "objective", "finish",
    "finish_at", "answer", "expects", "client_start", "server_start", "client_step", "client_steps",
    "server_step", "alike", "net", "initial", "exchanges", "fresh",
)  # fmt: skip
pytestmark = pytest.mark.filterwarnings("ignore::hopfed.neural.memory.neighbours.SmallStoreWarning")


@dataclass(frozen=True)
class Toy(Bench):
    """Readings of FedAvg, and others between them that are trained alone."""

    clients: int = 4
    models: tuple[str, ...] = ("mlp:16",)
    partition: str = "rotation:0,90,180,270:12"
    domains: bool = True
    unseen: float = 0.25
    rate: float = 0.7
    rounds: int = 3
    early: int = 1
    lr: float = 0.05
    way: str = "sequential"
    seeds: int = 2

    def cells(self):
        rows = {row: (row.split()[0], options) for row, options in READINGS.items()}
        rows = {"standalone": ("standalone", "")} | rows
        rows |= {"divided": ("fedavg-prior", "divide=true"), "fedprox": ("fedprox", "mu=0.1")}
        return tuple(self.cell(TABLE, row, method=m, options=o) for row, (m, o) in rows.items())


# This module is the experiment.
MODULE, Config = sys.modules[__name__], Toy
run_round, summarise = _cells.play, _cells.summarise


def test_what_shares_a_training_is_what_it_is_alone():
    toy = Toy()
    groups = [[cell.row for cell in group] for group in _cells.groups_of(toy)]
    assert groups == [["standalone"], [*READINGS], ["divided"], ["fedprox"]]
    together = execute(MODULE, toy)
    assert together.arrays["test"].shape == (2, len(toy.cells()) * 3, 4)
    arrays = {n: a for n, a in together.arrays.items() if n != "seeds"}
    for key, ours in _cells.by_cell(toy, arrays).items():
        config = next(cell.config for cell in toy.cells() if cell.key == key)
        alone = execute(fl, replace(config, seeds=2)).arrays
        assert not set(ours) - set(alone), key
        for name in ours:
            np.testing.assert_array_equal(ours[name], alone[name], err_msg=f"{key} {name}")


def test_a_training_costs_each_of_its_readings_what_it_would_alone():
    toy = Toy(rows=("standalone", "fedavg+", "knn-per"), unseen=0.0, rate=1.0)
    summary = execute(MODULE, toy).summary
    tuned, kept = (summary[f"methods/{row}/gigaflops"][0] for row in ("fedavg+", "knn-per"))
    assert tuned == pytest.approx(3 * kept * _rounds(summary, "fedavg+", "knn-per"))
    assert summary["methods/knn-per/megabytes"][0] > 0


def _rounds(summary, one, other):
    """How many rounds of `one` count for a round of `other`."""
    return summary[f"methods/{one}/round"][0] / summary[f"methods/{other}/round"][0]


def test_an_interrupted_comparison_ends_in_the_same_bytes(tmp_path):
    class Stop(BaseException):
        pass

    def stop(done, planned):
        assert planned == 2 * 4 * 3  # seeds, groups, rounds
        if done == 5:  # amid the rounds of the shared training
            raise Stop

    execute(MODULE, Toy(), out=tmp_path / "a.h5")
    with pytest.raises(Stop):
        execute(MODULE, Toy(), out=tmp_path / "b.h5", report=stop, at_once=True)
    execute(MODULE, Toy(), out=tmp_path / "b.h5", resume=True)
    assert (tmp_path / "a.h5").read_bytes() == (tmp_path / "b.h5").read_bytes()


@pytest.mark.parametrize("name", METHODS)
def test_who_reads_another_takes_none_of_its_steps(name):
    cls = method(name)
    data = {"data": "digits", "examples": 100, "clients": 2, "models": ("mlp:16",)}
    made = cls(TaskSpec(**data))
    base = made.trained_as()
    if base is made:
        return
    assert base.trained_as() is base
    assert (base.task, base.training) == (made.task, made.training)
    same = [n for n in STEPS if getattr(cls, n) is getattr(type(base), n)]
    changed = set(STEPS) - set(same)
    assert changed == ({"finish", "expects"} if name == "fedavg-prior" else set())  # for `divide`


def test_a_subclass_of_a_reading_trains_for_itself():
    class Own(FedAvgPlus):
        pass

    spec = TaskSpec(models=("mlp:16",), clients=2, examples=100)
    assert Own(spec).trained_as() == Own(spec)
    assert FedAvgPlus(spec).trained_as() == FedAvg(spec)


def test_the_table_of_methods_of_knn_per_trains_fedavg_once():
    config = find("knnper").PRESETS["default"]
    shared = next(g for g in _cells.groups_of(config) if g[0].key == f"{TABLE}/fedavg")
    assert {"fedavg-prior", "fedavg+", "knn-per", "proposed: hopfield"} < {c.row for c in shared}
    assert config.played < 0.7 * config.units
