"""A column without any entry: nothing is known of it, so that nothing is filled or told."""

import csv
import json

import numpy as np
import pytest
from pyarrow import parquet

from hopfed import load, read_table, recover
from hopfed.archetypes.assignment import unknown_columns

CLUBS = [f"club {j}" for j in range(12)]


def read(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def files(tmp_path, hopfed):
    """A table of two kinds of rows with a column without entries, its run, and what it said."""
    rng = np.random.default_rng(0)
    kind = rng.integers(2, size=400)
    rate = np.where(kind[:, None] == np.arange(len(CLUBS)) % 2, 0.9, 0.1)
    cells = np.where(rng.random(rate.shape) < rate, "yes", "no").astype(object)
    cells[rng.random(cells.shape) < 0.1] = ""
    path, run = tmp_path / "clubs.csv", tmp_path / "run.h5"
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([[*CLUBS, "void"], *([*row, ""] for row in cells)])
    status, said, errors = hopfed("recover", path, "--out", run)
    assert status == 0, errors
    return path, run, said + errors


def test_it_is_said_to_hold_no_entry_and_not_a_single_value(files):
    assert "1 column(s) hold no entry: void" in files[2]
    assert "without any entry: 'void'" in files[2]
    assert "single value" not in files[2]


def test_its_gaps_stay_blank_and_are_not_counted(files, tmp_path, hopfed):
    path, run, _ = files
    out = tmp_path / "full.csv"
    status, said, _ = hopfed("complete", run, path, "--out", out)
    assert status == 0
    assert "of 4,800 cells" in said
    assert "gaps in 'void' stay blank" in said
    rows = read(out)
    assert {row["void"] for row in rows} == {""}
    assert not any(row[club] == "" for row in rows for club in CLUBS)


def test_no_rate_of_it_is_exported(files, tmp_path, hopfed):
    run = files[1]
    for ending in ("csv", "json", "parquet", "h5"):
        status, said, _ = hopfed("export", run, "--out", tmp_path / f"found.{ending}")
        assert status == 0
        assert "void" not in said
    rows = read(tmp_path / "found.csv")
    assert [(row["void"], row["club 0"] == "") for row in rows] == [("", False)] * 2
    held = json.loads((tmp_path / "found.json").read_text())
    assert [row[-1] for row in held["means"]] == [row[-1] for row in held["errors"]] == [None] * 2
    assert [row[-1] for row in held["patterns"]] == [0, 0]
    assert np.isnan(parquet.read_table(tmp_path / "found.parquet")["void"].to_numpy()).all()
    again = load(tmp_path / "found.h5")  # a run file stays one
    assert unknown_columns(again).tolist() == [False] * 12 + [True]
    assert np.isnan(again.to_frame()["void"]).all()
    assert np.isfinite(again.assign(files[0]).probability).all()


def test_a_column_that_halves_each_class_is_known():
    rows = np.repeat([[1] * 12, [-1] * 12], 40, axis=0)
    even = np.tile([1, -1], 40)
    table = {f"q{j}": rows[:, j] for j in range(12)} | {"even": np.where(even > 0, "yes", "no")}
    assert not unknown_columns(recover(read_table(table))).any()
