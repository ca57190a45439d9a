"""Presets of comparisons of networks beyond the three that all have, at a tiny size."""

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from hopfed.errors import ArgumentError  # noqa: E402
from hopfed.experiments import find  # noqa: E402
from hopfed.experiments.runner.execute import execute  # noqa: E402
from hopfed.experiments.shared import cells as _cells  # noqa: E402
from hopfed.experiments.shared import store_sizes  # noqa: E402
from hopfed.figures import drawer  # noqa: E402
from hopfed.neural.methods.fedavg import FedAvgPlus  # noqa: E402
from hopfed.neural.training.task import TaskSpec  # noqa: E402
from hopfed.report.tables import tables_of  # noqa: E402

SMALL = {"clients": 4, "examples": 240, "rounds": 2, "early": 1, "every": 1, "seeds": 1, "lr": 0.05}
LAX = "best test round %"


def tiny(name, preset, **changes):
    config = find(name).PRESETS[preset]
    return replace(config, **(SMALL | {"data": "digits", "models": ("mlp:16",)} | changes))


def test_the_deciding_experiment_has_its_rows_settings_and_the_laxer_protocol():
    sohip = find("sohip")
    config = tiny("sohip", "deciding", partition="classes:4", models=("mlp:8x16", "mlp:16"))
    cells = _cells.cells_of(config)
    rows = {"standalone", "standalone-bias", "sohip", "proposed: by sample", "fedmrl", "fedssa"}
    assert {c.row for c in cells} == rows | {"lg-fedavg"}
    swept = {c.section: {d.at for d in cells if d.section == c.section} for c in cells}
    assert swept["initialisation"] == {"he", "own"}
    assert swept["augmentation"] == {"no", "yes"}
    assert {len(swept[s]) for s in ("learning rate", "participation")} == {3}
    augmented = {c.at: c.config.augment for c in cells if c.section == "augmentation"}
    assert augmented == {"no": False, "yes": True}
    assert config.played < config.units  # what the table has is not trained again
    config = replace(config, sections=("methods", "initialisation"))
    run = execute(sohip, config)
    arrays = {n: a for n, a in run.arrays.items() if n != "seeds"}
    for key, a in _cells.by_cell(config, arrays).items():
        assert run.summary[f"{key}/best_test"][0] == a["test"][0].mean(axis=1).max()
        assert run.summary[f"{key}/best_test"][0] >= run.summary[f"{key}/test"][0]
    assert "initialisation/sohip/own/gain" in run.summary
    table, swept, lax, gains = tables_of(run)
    assert LAX in table.columns
    assert (lax.title, gains.title[:16]) == (f"initialisation: {LAX}", "initialisation: ")
    assert [row[0] for row in lax.rows] == [row[0] for row in swept.rows]
    assert drawer("sohip")(run).axes
    with pytest.raises(ArgumentError, match="swept must be among"):
        replace(config, swept=("fedsgd",))


def test_sohip_at_its_own_size_is_the_table_alone():
    config = find("sohip").PRESETS["clients100"]
    assert (config.clients, config.rate, config.rounds, config.data) == (100, 0.1, 500, "cifar100")
    assert {c.section for c in config.cells()} == {"methods"}


@pytest.mark.parametrize("preset", ["cifar10", "homogeneous"])
def test_tables_of_fedssa_on_ten_clients(preset):
    models = ("mlp:16",) if preset == "homogeneous" else ("mlp:8x16", "mlp:16")
    full = find("fedssa").PRESETS[preset]
    assert (full.clients, full.partition, full.rate) == (10, "classes:2", 1.0)
    assert full.homogeneous == (preset == "homogeneous")
    rows = ("standalone", "lg-fedavg", "fedssa") + ("fedavg",) * full.homogeneous
    run = execute(find("fedssa"), tiny("fedssa", preset, models=models, rows=rows))
    (table,) = tables_of(run)
    assert {row[0] for row in table.rows} == set(rows)
    assert LAX in table.columns


@pytest.fixture(scope="module")
def sizes():
    """The preset `sizes` of kNN-Per, tiny, and its run."""
    config = tiny("knnper", "sizes", rows=("fedavg", "fedavg+", "knn-per"))
    return config, execute(find("knnper"), config)


def test_weights_and_capacities_are_read_from_few_trainings(sizes):
    config, run = sizes
    assert config.played == 4 * config.rounds  # the table's and one for each concentration
    for key in (
        "weight by size/5 examples/0.3/test",
        "capacity by heterogeneity/alpha 0.1/0.25/test",
        "capacity by method/fedavg+ at 10/0.05/test",
        "weight by size/best/5",
    ):
        assert np.isfinite(run.summary[key][0]), key
    whole = run.summary["capacity by method/fedavg+ at 10/1/test"][0]
    assert whole == run.summary["heterogeneity/fedavg+/10/last"][0]
    assert run.summary["weight by size/5 examples/0/test"] == pytest.approx(
        run.summary["weight by size/50 examples/0/test"]
    )
    assert drawer("knnper")(run).axes
    with pytest.raises(ArgumentError, match="sections must be with heterogeneity"):
        replace(config, sections=("methods", "capacity by method"))


def test_the_best_weight_of_a_client_by_hand(sizes):
    knnper, (config, run) = find("knnper"), sizes
    arrays = {n: a.copy() for n, a in run.arrays.items() if n != "seeds"}
    arrays["sizes"][:, :, :, 0] = [3, 25, 70, 400]
    keys = [cell.key for cell in _cells.cells_of(config)]
    at = (keys.index(knnper.READ) + 1) * config.rounds - 1
    scores = np.zeros((len(store_sizes.SIZES), len(store_sizes.SHARED_WEIGHTS), 4))
    scores[:, 4:9] = 0.5  # ties of .4 to .8: the middle one is .6
    scores[2:, 10, 3] = 0.9  # with 25 examples and more the last client trusts them alone
    asked = [i for i, r in enumerate(_cells.readings_of(config)) if r.section == knnper.WEIGHTS]
    arrays["readings"][0, at, asked] = scores.reshape(-1, 4)
    ((held, weights),) = store_sizes.best_weights(config, arrays, knnper.READ)
    assert sorted(held.tolist()) == [3, 5, 5, 5, 10, 10, 10, 25, 25, 25, 50, 50, 70, 100, 250]
    found = {(int(n), float(w)) for n, w in zip(held, weights, strict=True)}
    assert {n for n, w in found if w == 1.0} == {25, 50, 100, 250}
    assert {n for n, w in found if w == 0.6} == {3, 5, 10, 25, 50, 70}
    summary = knnper.summarise(config, arrays)
    assert summary["weight by size/best/50"][0] == pytest.approx(0.8)
    assert summary["weight by size/rank correlation"][0] > 0.3


def test_fedavg_plus_is_tuned_on_a_share():
    spec = TaskSpec(models=("mlp:16",), clients=2, examples=200)
    whole, part, least = (FedAvgPlus(spec, capacity=c) for c in (1.0, 0.25, 1e-6))
    rows = whole.loaded.split.train[0]
    assert part.reading_flops(0) == pytest.approx(
        whole.reading_flops(0) * round(0.25 * len(rows)) / len(rows)
    )
    assert least.reading_flops(0) == pytest.approx(whole.reading_flops(0) / len(rows))
    start = whole.loaded.initial(0)
    tuned = [m.personal({}, {}, 0)["head.bias"] for m in (whole, part, least)]
    assert not any(torch.equal(t, start["head.bias"]) for t in tuned)
    assert not torch.equal(tuned[0], tuned[1])
    with pytest.raises(ArgumentError, match="capacity must be"):
        FedAvgPlus(spec, capacity=0.0)
