"""Comparisons of neural methods: cells, readings, gains, tables; and networks that are kept."""

import csv
import sys
from dataclasses import replace

import numpy as np
import pytest
from helpers import rest_slow

torch = pytest.importorskip("torch", reason="torch is not installed")

from hopfed._lib.settings import to_plain, with_settings  # noqa: E402
from hopfed.errors import ArgumentError, HopfedError, RunFileError  # noqa: E402
from hopfed.experiments import find_experiment, fl, knnper, methods, preset, presets  # noqa: E402
from hopfed.experiments.machinery import checkpoint  # noqa: E402
from hopfed.experiments.machinery.pictures import draw_runs  # noqa: E402
from hopfed.experiments.machinery.runner import execute  # noqa: E402
from hopfed.experiments.shared import cells as _cells  # noqa: E402
from hopfed.experiments.shared.cells import TABLE, CellSettings  # noqa: E402
from hopfed.experiments.shared.long_table import columns, frame  # noqa: E402
from hopfed.federation.contract import EVERYONE  # noqa: E402
from hopfed.federation.engines import LocalEngine  # noqa: E402
from hopfed.neural.models.networks import read_tensors  # noqa: E402
from hopfed.neural.training.evaluation import mark_correct  # noqa: E402
from hopfed.neural.training.task import task_of  # noqa: E402
from hopfed.report.tables import load_complete, tables_of  # noqa: E402
from hopfed.runs import Run  # noqa: E402

SMALL = {"models": ("mlp:16",), "clients": 3, "examples": 200, "rounds": 4, "lr": 0.05}
TINY = {"clients": 4, "examples": 240, "rounds": 2, "early": 1, "every": 1, "seeds": 1, "lr": 0.05}


class Toy(CellSettings):
    data: str = "digits"
    partition: str = "dirichlet:0.5"
    clients: int = 4
    models: tuple[str, ...] = ("mlp:16",)
    examples: int = 200
    rate: float = 0.75
    rounds: int = 2
    early: int = 1
    lr: float = 0.05
    seeds: int = 2
    sections: tuple[str, ...] = (TABLE, "rate", "tune", "way")

    @classmethod
    def plans(cls):
        rows = {"standalone": "", "fedavg": "", "fedavg+": "tune=1", "fedprox": "mu=0.1"}
        tuned = {"rows": ["fedavg+"], "values": ["0", "3"], "options": "tune={at}"}
        base = f"{TABLE}/fedavg+"
        return {
            "specs": rows,
            "paper": {"rows": ["fedavg+"], "clients=5": "1", "clients=4 rate=0.75": "12.3"},
            "sections": {
                TABLE: {"rows": list(rows)},
                "rate": {"rows": ["fedavg+"], "values": ["0.5", "1.0"], "set": ["rate={at}"]},
                "tune": tuned | {"read": base, "round": "2"},
                "way": {"rows": {"fedavg": "tune=0"}, "values": ["1"], "read": base, "round": "1"},
            },
        }


# This module is the experiment.
MODULE, Config = sys.modules[__name__], Toy
measure_round, summarise = _cells.measure_round, _cells.summarise


@pytest.fixture(scope="module")
def run():
    return execute(MODULE, Toy())


@pytest.fixture(scope="module")
def arrays(run):
    return {n: a for n, a in run.arrays.items() if n != "seeds"}


def test_a_cell_is_what_it_would_be_alone_though_some_share_a_training(arrays):
    toy = Toy()
    groups = [[cell.key for cell in group] for group in _cells.groups_of(toy)]
    assert [f"{TABLE}/fedavg", f"{TABLE}/fedavg+"] in groups
    for cell in _cells.cells_of(toy):
        alone = execute(fl, replace(cell.config, seeds=2)).arrays
        ours = _cells.arrays_by_cell(toy, arrays)[cell.key]
        for name in set(ours) - {"readings"}:
            np.testing.assert_array_equal(ours[name], alone[name], err_msg=f"{cell.key} {name}")


def test_a_reading_scores_the_trained_model_by_other_options(arrays):
    read, cells = _cells.reading_accuracies(Toy(), arrays), _cells.arrays_by_cell(Toy(), arrays)
    # Without tuning FedAvg+ is FedAvg, which the cell with a step of tuning is not.
    fedavg = cells[f"{TABLE}/fedavg"]["test"].mean(axis=2)
    np.testing.assert_array_equal(read["tune/fedavg+/0"], fedavg[:, -1])
    assert not np.array_equal(read["tune/fedavg+/3"], fedavg[:, -1])
    np.testing.assert_array_equal(read["way/fedavg/1"], fedavg[:, 0])


def test_gains_are_paired_seed_by_seed_and_tabled(run, arrays):
    by_seed = _cells.numbers_per_seed(Toy(), arrays)
    base = by_seed["methods/standalone"]["test"]
    for key in ("methods/fedavg+", "rate/fedavg+/0.5"):  # the table's reference serves a sweep
        gain = by_seed[key]["test"] - base
        mean, error = run.summary[f"{key}/gain"]
        assert mean == pytest.approx(gain.mean())
        assert error == pytest.approx(gain.std(ddof=1) / np.sqrt(2))
    made = _cells.tables(Toy(), run.summary)
    assert [t.title for t in made] == ["methods", "rate", "tune", "way"]
    assert (made[0].columns[-1], made[0].rows[2][-1]) == ("paper", "12.3")
    assert [row[0] for row in made[1].rows] == ["fedavg+ 0.5", "fedavg+ 1.0"]
    assert all(len(row) == len(t.columns) + 1 for t in made for row in t.rows)


def test_rows_and_sections_that_cannot_be_played():
    for rows, sections in (
        (("standalone", "fedsgd"), (TABLE,)),
        (("standalone", "all"), (TABLE,)),
        (("all",), ()),
        (("all",), ("tune",)),  # a reading of no cell
        (("all",), (TABLE, "colour")),
    ):
        with pytest.raises(ArgumentError, match=r"(rows|sections) must be"):
            Toy(rows=rows, sections=sections)


@pytest.mark.parametrize("name", rest_slow(["oneshot", "fedh2l", "fedssa", "sohip", "knnper"], 1))
def test_the_quick_preset_runs_and_is_drawn(name, tmp_path):
    module = find_experiment(name)
    keys = [p.key for n in presets(module) for p in preset(module, n).places()]
    assert keys
    config = replace(preset(module, "quick"), seeds=1)
    if name == "oneshot":
        config = replace(config, filters=4, examples=400)
    execute(module, config, out=tmp_path / "run.h5")
    run = Run.load(tmp_path / "run.h5", complete=True)
    for cell in _cells.cells_of(config):
        assert 0 <= run.summary[f"{cell.key}/test"][0] <= 1
    assert tables_of(run)[0].title == TABLE
    assert all(axes.has_data() for axes in draw_runs([run], whole=True).axes if axes.axison)


def test_features_are_compared_in_bytes_and_on_all_examples(tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, 300)
    x = np.abs(rng.normal(size=(300, 20)) + 2 * np.eye(20)[y])
    np.savez(tmp_path / "rows.npz", inputs=x, labels=y)
    small = {"data": str(tmp_path / "rows.npz"), "clients": 3, "seeds": 1, "rounds": 2, "every": 2}
    rows = ("hebbian alone", "hebbian components", "hebbian small", "afl")
    config = replace(
        preset(find_experiment("oneshot"), "features10"), **small, early=2, components=12,
        columns=10, partitions=("iid",), rows=rows,
    )  # fmt: skip
    execute(find_experiment("oneshot"), config, out=tmp_path / "run.h5")
    run = load_complete(tmp_path / "run.h5")
    of = {row: run.summary[f"features/{row}/iid/up"][0] for row in rows}
    assert of["hebbian small"] < of["afl"] / 4
    assert run.summary["features/afl/iid/weighted"][0] > 0.4
    assert {"all examples %", "MB up"} <= set(tables_of(run)[0].columns)
    assert all(axes.has_data() for axes in draw_runs([run], whole=True).axes if axes.axison)


def test_a_method_that_diverges_ends_no_other_and_departures_are_paired_with_defaults():
    rows = ("standalone", "scaffold")
    config = methods.Config(**TINY, models=("mlp:8",), sections=(TABLE,), rows=rows, plain=1e20)
    summary = execute(methods, config).summary
    assert summary["methods/scaffold/discarded"] == [1.0]
    assert summary["methods/standalone/test"][0] > 0.3
    assert "discarded updates %" in methods.tables(config, summary)[0].columns
    rows = ("standalone", "apfl", "apfl learn=no,alpha=0.5")
    config = methods.Config(**TINY, models=("mlp:8",), sections=("departures",), rows=rows)
    found = execute(methods, config).summary
    change = found[f"departures/{rows[2]}/change"][0]
    tests = [found[f"departures/{row}/test"][0] for row in rows[1:]]
    assert change == pytest.approx(tests[1] - tests[0])
    assert "change ± s.e." in methods.tables(config, found)[0].columns


@pytest.mark.slow
def test_domains_and_the_round_with_the_best_accuracy_on_all():
    fedh2l = find_experiment("fedh2l")
    quick = replace(preset(fedh2l, "quick"), shares=(6.0, 2.0, 2.0), lr=0.01, every=1, choose="acc")
    rows = ("ind", "agg equal images", "fedh2l", "fedavg", "fedprox")
    config = replace(
        quick, rows=rows, sections=(TABLE, "averaging", "bandwidth"), models=("mlp:16",)
    )
    run = execute(fedh2l, config)
    arrays = {n: a for n, a in run.arrays.items() if n != "seeds"}
    for key, a in _cells.arrays_by_cell(config, arrays).items():
        best = a["validation"].mean(axis=2).argmax(axis=1)[0]
        assert run.summary[f"{key}/acc"][0] == pytest.approx(a["domains/acc"][0, best].mean())
        own = np.diagonal(a["domains/accuracy"][0, -1])
        np.testing.assert_allclose(own, a["domains/wdp"][0, -1])
    assert run.summary["bandwidth/fedavg/matched"] >= 1


def test_a_stream_ends_where_its_store_says():
    config = fl.Config(method="knn-per", clients=3, models=("mlp",), examples=300, rounds=1)
    method = config.make(0)
    _, state = fl.train_round(config, method, 0, None, LocalEngine())
    down, split = state.down[EVERYONE], method.loaded.split
    for rule in ("fixed", "fifo"):
        spec = knnper.Config.plans()["sections"]["stream"]["rows"][rule]
        made = with_settings(method, spec.split(","))
        found = knnper._streamed(made, state, 5, 2)
        for c, other in enumerate((1, 2, 0)):
            mine, theirs = (knnper._arriving(method, client) for client in (c, other))
            half = (len(mine) + 1) // 2
            last = mine[:half] if rule == "fixed" else np.concatenate([mine, theirs])[-half:]
            store = made.remember(down, c, last)
            right = mark_correct(
                made.mixed(store, down, c), method.loaded.tensors, split.test[other]
            )
            assert found[-1, c] == right.mean()


# Networks that are kept, and rounds as a table


def test_an_interrupted_run_is_drawn_and_ends_as_if_it_had_not_been(hopfed, tmp_path):
    class Stop(BaseException):
        pass

    def stop(done, planned):
        if done == 2:
            raise Stop

    whole, parts = (fl.Config(keep=str(tmp_path / n), **SMALL) for n in ("whole", "parts"))
    execute(fl, whole)
    with pytest.raises(Stop):
        execute(fl, parts, out=tmp_path / "run.h5", report=stop)
    assert hopfed("figure", tmp_path / "run.h5")[0] == 0  # what an interrupted run has in its file
    assert hopfed("export", tmp_path / "run.h5", "--out", tmp_path / "begun.csv")[0] == 0
    assert len((tmp_path / "begun.csv").read_text().splitlines()) == 1 + 2 * 3
    execute(fl, parts, out=tmp_path / "run.h5", resume=True)
    a, b = (tmp_path / n / "seed-0" for n in ("whole", "parts"))
    assert (a / "model.json").read_text() == (b / "model.json").read_text()
    name = "everyone.pt"
    held, other = read_tensors(a / name), read_tensors(b / name)
    assert all(torch.equal(t, other[n]) for n, t in held.items())


def test_a_finished_run_gets_more_rounds_to_the_same_bytes(hopfed, tmp_path):
    once, parts = tmp_path / "once.h5", tmp_path / "parts.h5"
    options = ("--clients", 3, "--models", "mlp:16", "--set", "examples=200")
    options += ("--set", "alpha=0.4", "--set", "rate=0.5", "--set", "way=stacked")
    hopfed.done("fl", "run", "apfl", *options, "--rounds", 4, "--out", once)
    hopfed.done("fl", "run", "apfl", *options, "--rounds", 2, "--out", parts)
    more = ("fl", "run", "apfl", "--resume", "--out", parts, "--rounds")  # settings are in the file
    hopfed.done(*more, 4, "--set", "alpha=0.4")
    assert parts.read_bytes() == once.read_bytes()
    assert "made with rounds = 4, not 3" in hopfed.refused(*more, 3)
    assert "made with lr = 0.01, not 0.1" in hopfed.refused(*more, 6, "--set", "lr=0.1")
    assert parts.read_bytes() == once.read_bytes()


def test_runs_that_would_be_others_are_not_continued(tmp_path, monkeypatch):
    def refused(words, config, **change):
        out = tmp_path / "run.h5"
        execute(fl, config, out=out, resume=True)
        before = out.read_bytes()
        with pytest.raises(HopfedError, match=words):
            execute(fl, replace(config, **change), out=out, resume=True)
        assert out.read_bytes() == before

    rng, data = np.random.default_rng(0), tmp_path / "data.npz"
    np.savez(data, features=rng.normal(size=(90, 5)), labels=np.arange(90) % 3)
    config = fl.Config(**SMALL | {"data": str(data), "every": 3}, method="fedprox")
    refused("rounds must be 4, as in the file", config, rounds=6)
    with monkeypatch.context() as patch:  # as with another default of the method
        make = fl.Config.make
        patch.setattr(fl.Config, "make", lambda *a: replace(make(*a), mu=0.5))
        with pytest.raises(RunFileError, match=r"options .*mu=0\.01, here is .*mu=0\.5"):
            execute(fl, replace(config, seeds=2), out=tmp_path / "run.h5", resume=True)
    (tmp_path / "run.h5").unlink()
    monkeypatch.setattr(checkpoint, "MOST", 1)
    refused("holds no networks to go on with", replace(config, every=1), rounds=6)
    np.savez(data, features=rng.normal(size=(90, 5)), labels=np.arange(90) % 3)
    task_of.cache_clear()
    with pytest.raises(RunFileError, match=r"made with data .*; resume it where it was made"):
        execute(fl, replace(config, every=1, seeds=2), out=tmp_path / "run.h5", resume=True)


def test_rounds_as_a_table(hopfed, tmp_path):
    path = tmp_path / "run.h5"
    run = execute(fl, fl.Config(seeds=2, **SMALL), out=path)
    kept = frame(run).set_index(["seed", "round", "client"]).test
    assert (len(kept), kept[1, 3, 2]) == (2 * 4 * 3, run.arrays["test"][1, 2, 2])
    assert hopfed("export", path, "--out", tmp_path / "rounds.csv")[0] == 0
    with open(tmp_path / "rounds.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(r["test"]) for r in rows] == run.arrays["test"].ravel().tolist()
    config = find_experiment("sohip").Config(rounds=5, clients=2, rows=("standalone", "sohip"))
    made = {"seeds": np.arange(1), "test": np.zeros((1, 10, 2))}
    assert set(columns(Run("sohip", to_plain(config), made, {}))["row"]) == {
        "methods/standalone", "methods/sohip",
    }  # fmt: skip
