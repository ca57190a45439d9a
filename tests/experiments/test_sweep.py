"""A grid of settings: resumed, tabled, drawn; a cell that fails costs no other its result."""

import csv
import math

import numpy as np
import pytest
from toy_experiments import Stop, stop_after

from hopfed.errors import ArgumentError, HopfedError
from hopfed.experiments.machinery import runner
from hopfed.experiments.machinery.runner import execute
from hopfed.experiments.machinery.sweep import OK, Cell, best_cell, parse_grid, run_sweep
from hopfed.runs import Run

GRID = {"N": ("3", "5"), "fail": ("-1", "1")}
MP = ("--preset", "quick", "--set", "nulls=6", "--set", "shuffle=false", "--seeds", "5:7", "--out")


@pytest.fixture
def quick(walk):
    return walk.Config(seeds=3)


def read(folder):
    with open(folder / "table.csv", newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize(("engine", "workers"), [("local", 1), ("pool", 2)])
def test_every_engine_gives_the_files_of_single_runs(engine, workers, walk, quick, tmp_path):
    cells = run_sweep(walk, quick, GRID, tmp_path / "out", engine=engine, workers=workers)
    assert [cell.values for cell in cells] == [("3", "-1"), ("3", "1"), ("5", "-1"), ("5", "1")]
    rows = read(tmp_path / "out")
    for row, cell in zip(rows, cells, strict=True):
        if cell.values[1] == "1":
            assert row["status"] == cell.status == "seed must be one that works, got 1"
            assert (row["mean"], cell.measure("mean")) == ("", None)
            continue
        alone = tmp_path / f"{cell.values[0]}.h5"
        run = execute(walk, walk.Config(N=int(cell.values[0]), seeds=3), out=alone)
        assert cell.path.read_bytes() == alone.read_bytes()
        mean, spread = cell.measure("mean")
        assert (row["status"], float(row["mean"]), mean) == (OK, mean, run.arrays["x"].mean())
        assert math.isnan(spread)


def test_a_sweep_goes_on_where_it_stopped(walk, quick, tmp_path, monkeypatch):
    done = []
    unit = runner.compute_unit

    def counted(job, seed, *rest, **engine):
        done.append((job[1].N, seed))
        return unit(job, seed, *rest, **engine)

    monkeypatch.setattr(runner, "compute_unit", counted)
    grid = {"N": ("3", "5")}
    with pytest.raises(Stop):
        run_sweep(walk, quick, grid, tmp_path, report=stop_after(4))
    assert len(done) in (3, 4)
    run_sweep(walk, quick, grid, tmp_path)
    assert sorted(done) == [(n, seed) for n in (3, 5) for seed in range(3)]  # none was made twice
    more = run_sweep(walk, walk.Config(seeds=4), {"N": ("3", "5", "7")}, tmp_path)
    assert sorted(done[6:]) == [(3, 3), (5, 3), (7, 0), (7, 1), (7, 2), (7, 3)]
    assert [cell.status for cell in more] == [OK] * 3
    again = run_sweep(walk, walk.Config(seeds=4), {"N": ("3",)}, tmp_path)
    assert len(done) == 12
    np.testing.assert_equal(dict(again[0].summary), dict(more[0].summary))


def test_what_stands_in_the_way_of_a_cell_is_its_reason(walk, quick, tmp_path):
    (tmp_path / "N=3.h5").write_text("no run")
    cells = run_sweep(walk, quick, {"N": ("3", "4", "x")}, tmp_path)
    assert [cell.status == OK for cell in cells] == [False, True, False]
    assert "N=3.h5" in cells[0].status
    assert cells[2].status == "N must be a whole number, got 'x'"


def test_bad_arguments_are_one_line(walk, quick, tmp_path, hopfed):
    many = "N=" + ",".join(map(str, range(10_001)))
    for texts in (["N"], ["N="], ["N=1,,2"], ["N=1", "N=2"], [many]):
        with pytest.raises(ArgumentError, match="--grid must be"):
            parse_grid(texts)
    with pytest.raises(HopfedError, match="no cell could be run; the first: --set must be one of"):
        run_sweep(walk, quick, {"M": ("0",)}, tmp_path / "none")
    assert not (tmp_path / "none").exists()
    with pytest.raises(ArgumentError, match="engine must be one of local, pool, dask"):
        run_sweep(walk, quick, {"N": ("1",)}, tmp_path, engine="cloud")
    for wrong in (["--grid", "N=5,6", "--dask", "local"], ["--grid", "N"], ["--grid", "Q=1"]):
        hopfed.refused("sweep", "mp", *wrong, "--out", tmp_path / "out")
    hopfed.refused("sweep", "mp", "--grid", "N=5,6", "--out", tmp_path / "absent" / "out")


def test_the_command_tables_draws_and_lists_what_failed(hopfed, tmp_path):
    out = tmp_path / "out"
    status, text, error = hopfed("sweep", "mp", "--grid", "N=40,50,x", *MP, out)
    assert (status, error) == (1, "failed: N=x: N must be a whole number, got 'x'\n")
    assert "distance_signs" in text
    assert (out / "figure.png").stat().st_size > 1000
    assert Run.load(out / "N=40.h5").arrays["seeds"].tolist() == [5, 6]
    more = ("--grid", "N=40,50", "--grid", "ratios=0.5,2;1")
    status, text, error = hopfed("sweep", "mp", *more, *MP, out)
    assert (status, error) == (0, "")
    assert [row["ratios"] for row in read(out)] == ["0.5,2", "1"] * 2


def test_settings_are_chosen_by_a_number_of_the_summary(hopfed, tmp_path):
    cells = [Cell((x,), tmp_path, summary=s) for x, s in (("a", {"m": [0.1, 1]}), ("b", {"m": 2}))]
    assert best_cell([*cells, Cell(("c",), tmp_path, "failed")], "m").values == ("b",)
    with pytest.raises(ArgumentError, match="--choose must be one of m"):
        best_cell(cells, "test")
    pytest.importorskip("torch", reason="needs the extra neural")
    small = ("method=fedprox", "clients=3", "models=mlp:16", "examples=120", "rounds=1")
    options = [word for s in small for word in ("--set", s)]
    grid = ("--grid", "lr=0.001,0.1", "--grid", "mu=0.1", "--choose", "validation")
    status, text, error = hopfed("sweep", "fl", *options, *grid, "--out", tmp_path / "out")
    assert (status, error) == (0, "")
    found = {row["lr"]: float(row["validation"]) for row in read(tmp_path / "out")}
    assert f"chosen: --set lr={max(found, key=found.get)} --set mu=0.1" in text
