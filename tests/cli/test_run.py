"""`hopfed run`, `list`, `show`, `compare` and `figure` as a user runs them."""

import json
import re
from base64 import b64decode

import numpy as np
import pytest

from hopfed.cli import main
from hopfed.experiments import NAMES
from hopfed.runs import Run

SMALL = ("--set", "N=60", "--set", "M=100,200", "--seeds", "3")


@pytest.fixture(scope="module")
def run_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "run.h5"
    main(["run", "bbp", *SMALL, "--out", str(path)])
    return path


def test_resume_gives_the_same_file(hopfed, run_file, tmp_path):
    out, err = hopfed.done("run", "bbp", *SMALL)
    for word in ("measured", "paper", "aim", ".0163", "median overlap gap", "3 seeds in"):
        assert (err, word in out) == ("", True)
    answer = json.loads(hopfed.done("run", "bbp", *SMALL, "--json")[0])
    assert answer["config"]["M"] == [100, 200]
    assert answer["summary"] == Run.load(run_file).summary
    other = tmp_path / "other.h5"
    hopfed.done("run", "bbp", *SMALL[:-1], "2", "--out", other)
    hopfed.done("run", "bbp", "--seeds", 3, "--out", other, "--resume")
    assert other.read_bytes() == run_file.read_bytes()
    arrays = len(Run.load(other).arrays)
    same = f"{arrays} of {arrays} arrays are equal to the last bit"
    assert same in hopfed.done("compare", run_file, other)[0]
    hopfed.done("run", "bbp", *SMALL, "--set", "quality=0.5", "--out", other, "--overwrite")
    assert "0.9 | 0.5" in hopfed.done("compare", run_file, other)[0]


def test_list(hopfed):
    out, _ = hopfed.done("list")
    for name in NAMES:
        assert f"{name}: " in out
    out, _ = hopfed.done("list", "heavy_tails")
    for word in ("minutes: quick", "Student-t", "draws", "sites"):
        assert word in out
    out, _ = hopfed.done("list", "oneshot")  # of fifteen presets, three are columns
    assert "dirichlet:0.3" in out
    assert "--preset pacs: settings that differ from default's\n    seeds = 3\n" in out


def test_show(hopfed, run_file, tmp_path):
    out, _ = hopfed.done("show", run_file)
    for word in ("bbp, complete", "100,200", "numpy", "float64 [3, 2, 10]", "measured"):
        assert word in out
    shown = json.loads(hopfed("show", run_file, "--json")[1])
    assert shown["committed"] == shown["planned"] == 3
    for name, score in (("a", 0.8), ("b", 0.7)):
        summary = {"scores": [0.9, score], "n_detected": 2, "status": "ok"}
        config = {"seed": 0, "note": "word " * 400}  # which is cut
        Run("recover", config, {"x": np.ones(2)}, summary).save(tmp_path / f"{name}.h5")
    out, _ = hopfed.done("show", tmp_path / "a.h5")
    assert 10 < out.count("word") < 70
    out, _ = hopfed.done("compare", tmp_path / "a.h5", tmp_path / "b.h5")
    assert ("0.9, 0.8" in out, "0.9, 0.7" in out, "1 of 1 arrays" in out) == (True, True, True)


def test_the_whole_picture_has_what_the_first_one_leaves_out(hopfed, tmp_path):
    run, page = tmp_path / "run.h5", tmp_path / "page.html"
    first, whole = tmp_path / "first.svg", tmp_path / "whole.svg"
    many = ("qualities=0.1,0.2,0.3,0.4,0.5,0.6,0.7", "N=20", "M=50,100")
    settings = (word for setting in many for word in ("--set", setting))
    hopfed.done("run", "concentration", *settings, "--out", run)
    assert "--whole draws all panels" in hopfed.done("figure", run, "--out", first)[0]
    assert "--whole" not in hopfed.done("figure", run, "--out", whole, "--whole")[0]
    assert [path.read_text().count("r = 0.7") for path in (first, whole)] == [0, 1]
    hopfed.done("report", run, "--out", page)
    (picture,) = set(re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', page.read_text()))
    assert b64decode(picture).decode().count("r = 0.7") == 1


def test_a_sweep_goes_on_or_begins_anew(hopfed, tmp_path):
    quick = ("--preset", "quick", "--set", "M=40", "--seeds", "1")
    words = ("sweep", "bbp", *quick, "--grid", "N=30,40", "--out", tmp_path)
    hopfed.done(*words)
    held = (tmp_path / "N=30.h5").stat().st_ino
    hopfed.done(*words)
    assert (tmp_path / "N=30.h5").stat().st_ino == held
    hopfed.done(*words, "--overwrite")
    assert (tmp_path / "N=30.h5").stat().st_ino != held
