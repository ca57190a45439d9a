"""`hopfed fl` as a user runs it; what it says of its own accord, and how networks are trained."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from helpers import written

from hopfed.runs import Run

torch = pytest.importorskip("torch", reason="torch is not installed")

SMALL = ("--clients", "3", "--rounds", "2", "--models", "mlp", "--set", "examples=300")


def test_a_run_is_drawn_and_resumed(hopfed, tmp_path):
    out = tmp_path / "run.h5"
    text, err = hopfed.done("fl", "run", "fedavg", *SMALL, "--out", out)
    assert (err, "test accuracy, mean over clients" in text) == ("", True)
    hopfed.done("figure", out)
    assert out.with_suffix(".png").stat().st_size > 10_000
    text, _ = hopfed.done("fl", "run", "fedavg", *SMALL, "--out", out, "--resume", "--json")
    assert json.loads(text)["summary"] == Run.load(out).summary


def test_settings_may_come_from_a_file(hopfed, tmp_path):
    file = tmp_path / "settings.toml"
    file.write_text(
        'clients = 3\nrounds = 1\nmodels = ["mlp"]\nexamples = 300\n[options]\nmu = 0.5\n'
    )
    text, _ = hopfed.done("fl", "run", "fedprox", "--config", file, "--json")
    config = json.loads(text)["config"]
    assert (config["options"], config["clients"]) == ("mu=0.5", 3)


@pytest.fixture
def plants(tmp_path):
    """Rows of two features in a .csv and an .npz file."""
    rng = np.random.default_rng(0)
    kinds, rows = rng.integers(0, 2, 80), rng.normal(size=(80, 2))
    rows[:, 0] += 3 * kinds
    head = ["width", "length", "species"]
    written(tmp_path / "plants.csv", head, np.column_stack([rows, kinds]))
    np.savez(tmp_path / "plants.npz", x=rows, y=kinds)
    return [f"{tmp_path}/plants.csv:species", f"{tmp_path}/plants.npz"]


def test_rows_of_features_get_a_network_that_reads_them_and_it_is_said(hopfed, plants):
    for data, method in ((plants[0], "fedavg"), (plants[1], "hebbian")):
        options = ("--data", data, "--clients", 2, "--rounds", 1, "--json")
        status, text, err = hopfed("fl", "run", method, *options)
        assert (status, err) == (0, "as the data ask: models=mlp:64\n")
        assert json.loads(text)["config"]["models"] == ["mlp:64"]
        assert hopfed("fl", "run", method, *options, "--models", "mlp:8")[0] == 0
    status, _, err = hopfed("fl", "run", "fedavg", *options, "--models", "cnn-1")
    assert (status, err.startswith("error: models must be mlp:64")) == (2, True)


def test_methods_are_listed(hopfed):
    text, _ = hopfed.done("fl", "list")
    assert {"standalone", "fedavg", "fedavg+", "fedprox", "mu=0.01"} <= set(text.split())
    assert "strength of the penalty" in hopfed.done("fl", "list", "fedprox")[0]


def test_several_runs_are_drawn_compared_and_tabled_for_a_paper(hopfed, tmp_path):
    files = [tmp_path / f"{m}.h5" for m in ("standalone", "fedprox")]
    for file in files:
        hopfed.done("fl", "run", file.stem, *SMALL, "--seeds", 2, "--out", file)
    hopfed.done("figure", *files, "--out", tmp_path / "all.svg")
    for name in ("standalone", "fedprox", "GFLOP of a client", "share of clients"):
        assert name in (tmp_path / "all.svg").read_text()
    for name in ("table.tex", "table.csv"):
        text, _ = hopfed.done("compare", *files, "--out", tmp_path / name)
    assert "standalone | fedprox" in text
    lines = (tmp_path / "table.tex").read_text().splitlines()
    head = r"method & accuracy & worst tenth & MB up & MB down & GFLOP \\"
    assert lines[:4] == [r"\begin{tabular}{lrrrrr}", r"\hline", head, r"\hline"]
    assert lines[-1] == r"\end{tabular}"
    mean, deviation = Run.load(files[1]).summary["test"]
    name, accuracy, *_ = lines[5].split(" & ")
    shown, error = (float(x) for x in accuracy.strip("$").split(r" \pm "))
    assert (name, shown) == ("fedprox", pytest.approx(mean, abs=0.1 * deviation + 1e-9))
    assert error == pytest.approx(deviation / np.sqrt(2), rel=0.06)
    assert (tmp_path / "table.csv").read_text().startswith("method,accuracy,accuracy +-,worst")


COMMAND = "from hopfed.__main__ import main\nif __name__ == '__main__':\n    main()\n"
NETWORK = """
import warnings
from torch import nn

class Net(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.head = nn.Linear(64, classes)

    def forward(self, x):
        warnings.warn("of no use to users", RuntimeWarning)
        return self.head(x.flatten(1) if x.sum() > -1e9 else x)  # not to be batched by vmap
"""
FEW = "--rounds 2 --clients 3 --set examples=150"
STORE = "warning: k = 9999 is more than the examples of a store: all of a store are used"
WARNINGS = [  # a line, what it says, and how often: once for each process
    ("knn-per --models mlp:8 --set k=9999 --engine pool --workers 2", STORE, 2),
    ("fedavg --models nets.py:Net --set way=stacked", "warning: clients are trained one by one", 1),
]


@pytest.mark.slow
@pytest.mark.parametrize(("line", "words", "most"), WARNINGS)
def test_own_warnings_are_said_once_and_those_of_libraries_are_not(tmp_path, line, words, most):
    (tmp_path / "command.py").write_text(COMMAND)
    (tmp_path / "nets.py").write_text(NETWORK)
    clean = {k: v for k, v in os.environ.items() if k != "PYTHONWARNINGS"}
    command = [sys.executable, "command.py", "fl", "run", *line.split(), *FEW.split()]
    how = {"cwd": tmp_path, "env": clean, "capture_output": True, "text": True}
    done = subprocess.run(command, check=False, timeout=300, **how)
    assert done.returncode == 0, done.stderr
    assert 1 <= len(done.stderr.splitlines()) <= most
    assert all(said.startswith(words) for said in done.stderr.splitlines())


def test_autocast_and_compile_are_settings_of_the_run(hopfed, monkeypatch):
    asked = []
    monkeypatch.setattr(torch, "compile", lambda loss, backend: asked.append(backend) or loss)
    few = ("--clients", 2, "--rounds", 1, "--models", "mlp:16", "--set", "examples=210")
    more = ("--set", "way=stacked", "--compile", "--autocast", "bf16", "--json")
    text, _ = hopfed.done("fl", "run", "fedprox", *few, *more)
    config = json.loads(text)["config"]
    assert (config["precision"], config["compile"], set(asked)) == (
        "bfloat16", "inductor", {"inductor"},
    )  # fmt: skip
