"""`hopfed run`, `list`, `show` and `compare` as a user runs them."""

import json

import h5py
import numpy as np
import pytest

from hopfed.experiments import NAMES
from hopfed.runs import FORMAT, Run

SMALL = ("--set", "N=60", "--set", "M=100,200", "--seeds", "3")


@pytest.fixture
def run_file(hopfed, tmp_path):
    status, out, err = hopfed("run", "bbp", *SMALL, "--out", tmp_path / "run.h5")
    assert (status, err) == (0, "")
    for word in ("measured", "paper", "aim", ".0163", "median overlap gap", "3 seeds in"):
        assert word in out
    return tmp_path / "run.h5"


def refused(answer, *words):
    """One line on standard error, exit status 2, nothing on standard output."""
    status, out, err = answer
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("error: ")
    for word in words:
        assert word in err


def test_resume_gives_the_same_file(hopfed, run_file, tmp_path):
    status, out, _ = hopfed("run", "bbp", *SMALL, "--json")
    answer = json.loads(out)
    assert (status, answer["config"]["M"]) == (0, [100, 200])
    assert answer["summary"] == Run.load(run_file).summary
    other = tmp_path / "other.h5"
    assert hopfed("run", "bbp", *SMALL[:-1], "2", "--out", other)[0] == 0
    assert hopfed("run", "bbp", "--seeds", 3, "--out", other, "--resume")[0] == 0
    assert other.read_bytes() == run_file.read_bytes()
    arrays = len(Run.load(other).arrays)
    same = f"{arrays} of {arrays} arrays are equal to the last bit"
    assert same in hopfed("compare", run_file, other)[1]
    hopfed("run", "bbp", *SMALL, "--set", "quality=0.5", "--out", other, "--overwrite")
    assert "0.9 | 0.5" in hopfed("compare", run_file, other)[1]


def test_resume_takes_the_settings_of_the_file(hopfed, run_file):
    assert hopfed("run", "bbp", "--out", run_file, "--resume")[0] == 0
    again = ("run", "bbp", "--out", run_file, "--resume")
    refused(hopfed(*again, "--set", "N=80"), "made with N = 60, not 80")
    refused(hopfed(*again, "--preset", "quick"), "made with N = 60, not 400")
    refused(hopfed("run", "mp", "--out", run_file, "--resume"), "not of bbp")
    refused(hopfed("run", "bbp", "--out", run_file), "--resume")
    refused(hopfed("run", "bbp", "--resume"), "--out")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("run bpb", ("did you mean bbp?",)),
        ("run bbp --set exposure=1", ("did you mean exposures?",)),
        ("run bbp --set N=many", ("N must be a whole number, got 'many'",)),
        ("run bbp --set quality=1.5", ("quality must be in (0, 1), got 1.5",)),
        ("run bbp --seeds 0", ("seeds must be at least 1",)),
        ("run bbp --preset big", ("quick", "default", "paper")),
        ("run", ("NAME",)),
        ("show /nowhere/run.h5", ("no such run file",)),
    ],
)
def test_what_is_wrong_is_one_line(hopfed, arguments, words):
    refused(hopfed(*arguments.split()), *words)


def test_list(hopfed):
    status, out, _ = hopfed("list")
    assert status == 0
    for name in NAMES:
        assert f"{name}: " in out
    status, out, _ = hopfed("list", "heavy_tails")
    assert status == 0
    for word in ("minutes: quick", "Student-t", "degrees", "3.0,5.0,8.0,inf"):
        assert word in out


def test_show(hopfed, run_file, tmp_path):
    status, out, _ = hopfed("show", run_file)
    assert status == 0
    for word in ("bbp, complete", "100,200", "numpy", "float64 [3, 2, 10]", "measured"):
        assert word in out
    shown = json.loads(hopfed("show", run_file, "--json")[1])
    assert shown["committed"] == shown["planned"] == 3
    for name, scores in (("a", [0.9, 0.8]), ("b", [0.9, 0.7])):
        summary = {"scores": scores, "n_detected": 2, "status": "ok"}
        Run("recover", {"seed": 0}, {"x": np.ones(2)}, summary).save(tmp_path / f"{name}.h5")
    assert "0.9, 0.8" in hopfed("show", tmp_path / "a.h5")[1]
    status, out, _ = hopfed("compare", tmp_path / "a.h5", tmp_path / "b.h5")
    assert (status, "0.9, 0.7" in out, "1 of 1 arrays" in out) == (0, True, True)


def test_files_that_are_not_whole_or_none_of_ours(hopfed, run_file, tmp_path):
    with h5py.File(run_file, "r+") as file:
        file.attrs["planned"] = 9
    status, out, _ = hopfed("show", run_file)
    assert (status, "interrupted: 3 of 9 seeds" in out, "aim" in out) == (0, True, False)
    refused(hopfed("compare", run_file, run_file), "3 of 9 seeds", "--resume")
    with h5py.File(run_file, "r+") as file:
        file.attrs["hopfed_format"] = FORMAT + 1
    for command in (("show",), ("run", "bbp", "--resume", "--out")):
        refused(hopfed(*command, run_file), "newer hopfed", "upgrade")
    text = tmp_path / "text.h5"
    text.write_text("no HDF5")
    refused(hopfed("show", text), "not a readable run file")
