"""Files of others: no code in them runs, and no other file is read or lost."""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest

from hopfed import runs
from hopfed._lib.settings import to_plain
from hopfed.experiments import find_experiment
from hopfed.experiments.fl import Config
from hopfed.runs import Run

EVIL = "open('ran', 'w').close()\nfrom torch import nn\nclass Net(nn.Module): pass\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder with code in it that leaves a mark when it is imported."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evil.py").write_text(EVIL)
    return tmp_path


QUICK = ("--clients", 3, "--rounds", 1, "--models", "mlp:4")


def test_networks_are_kept_where_nobody_else_keeps_anything(hopfed, folder):
    """The folder of a seed was removed, whatever was in it."""
    pytest.importorskip("torch")
    thesis = folder / "work" / "seed-0" / "thesis.txt"
    thesis.parent.mkdir(parents=True)
    thesis.write_text("of years")
    quick = ("--preset", "quick", "--set", "keep=work", "--set", "models=mlp:4")
    for more in ((), ("--resume", "--out", "new.h5")):
        hopfed.refused("run", "fl", *quick, *more)
    error = hopfed.refused("sweep", "fl", *quick, "--grid", "lr=0.1,0.2", "--out", "out")
    assert "keep must be left out" in error
    assert thesis.read_text() == "of years"


@pytest.mark.parametrize(
    "line", ["tables data ../mine", "capacity data mine.npz", "fl weights nets/mine.pt"]
)
def test_a_run_that_is_resumed_reads_no_file_that_it_alone_names(hopfed, tmp_path, line):
    kind, setting, file = line.split()
    if kind == "fl":
        pytest.importorskip("torch")
    out = tmp_path / "theirs.h5"
    held = {"weights": (file,), "scaling": "none"} if kind == "fl" else {setting: file}
    config = to_plain(find_experiment(kind).Config(**held, seeds=1))
    Run(kind, config, {}, {}, committed=0, planned=1).save(out)
    before = out.read_bytes()
    again = "run", kind, "--resume", "--out", out
    error = hopfed.refused(*again)
    assert f"names a file to read, {file}; give the same --set {setting}=" in error
    assert out.read_bytes() == before
    assert "names a file to read" not in hopfed.refused(*again, "--set", f"{setting}={file}")


NAME = "spy_of_a_run_file"
DATA = "rows/of$\\frac$x.npz"  # would be a formula in a label


@pytest.fixture
def marker(folder, monkeypatch):
    """What the module `spy_of_a_run_file` leaves when it is imported."""
    (folder / f"{NAME}.py").write_text(EVIL)
    monkeypatch.syspath_prepend(str(folder))
    yield folder / "ran"
    sys.modules.pop(NAME, None)


def run_of(kind, committed=1):
    """A run file of `hopfed fl run`, complete or not yet begun, whose method is the spy."""
    config = to_plain(Config(method=f"{NAME}:Method", data=DATA, clients=2, rounds=1))
    shape = (committed, 1, 2)
    arrays = {n: np.full(shape, 0.5) for n in ("validation", "test", "client/flops")}
    arrays |= {f"traffic/{way}": np.ones(shape, int) for way in ("up", "down")}
    arrays = (arrays if committed else {}) | {"seeds": np.arange(committed)}
    return Run(kind, config, arrays, {"test": [0.5, None]}, committed=committed, planned=1)


@pytest.mark.parametrize("kind", ["fl", NAME, f"_{NAME}"])
def test_nothing_that_reads_a_run_imports_what_it_names(hopfed, marker, kind):
    run_of(kind).save("run.h5")
    lines = "show run.h5 | compare run.h5 run.h5 | report run.h5 --out page.html"
    for line in lines.split("|"):
        hopfed.done(*line.split())
    assert hopfed("figure", "run.h5", "--out", "f.png")[0] == (0 if kind == "fl" else 2)
    for words in ("fl run fedavg --resume --out", "run bbp --resume --out", "fl predict"):
        hopfed.refused(*words.split(), "run.h5", *(["digits"] if "predict" in words else []))
    assert not marker.exists()


def test_a_resumed_run_imports_only_what_the_command_names(hopfed, tmp_path, marker):
    pytest.importorskip("torch")
    path = tmp_path / "run.h5"
    run_of("fl", 0).save(path)
    before, command = path.read_bytes(), ("run", "fl", "--resume", "--out", path)
    for other in ((), ("--set", "method=fedavg:X"), ("--set", f"options={NAME}:Method,a=1")):
        hopfed.refused(*command, *other)
        assert not marker.exists()
        assert path.read_bytes() == before
    way = "spy_of_a_run_file:Method; give the same --set method=spy_of_a_run_file:Method if you"
    assert way in hopfed(*command)[2]
    err = hopfed.refused(*command, "--set", f"method={NAME}:Method", "--set", f"data={DATA}")
    assert "module:Class" in err  # the spy has no such class
    assert marker.exists()


def test_a_memory_that_says_other_things_is_refused(hopfed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.csv").write_text("id,p,q,r\nAnn,yes,no,yes\nBen,no,no,yes\n")
    hopfed.done("store", "p.csv", "--id", "id", "--out", "m.h5")
    run, cases = Run.load("m.h5"), []
    for name in ("rows/names", "columns/names"):
        for array in (np.array(1.0), np.ones(3), np.array([b"\xff"] * 3), run.arrays[name][:-1]):
            cases.append(("m.h5: ", {"arrays": run.arrays | {name: array}}))
    held = json.loads(run.config["coding"])
    word = {"kind": "words", "words": [["no", "INF"], ["yes", 1]]}
    for code in ("x", 1, None, word):
        text = json.dumps(held | {"codes": [code]}).replace('"INF"', "1e999")
        cases.append(("no coding of a table", {"config": run.config | {"coding": text}}))
    cases.append(("not a readable", {"summary": run.summary | {"sites": float("inf")}}))
    monkeypatch.setattr(
        runs, "to_json_values", lambda held: held
    )  # JSON as others write it has infinities
    for words, changed in cases:
        replace(run, **changed).save("m.h5")
        assert words in hopfed.refused("recall", "m.h5", "p.csv", "--json")
