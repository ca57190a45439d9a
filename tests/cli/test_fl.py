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


@pytest.mark.parametrize("method", ["fedavg", "hebbian"])
def test_rows_of_features_get_a_network_that_reads_them_and_it_is_said(hopfed, tmp_path, method):
    rng = np.random.default_rng(0)
    kinds, rows = rng.integers(0, 2, 80), rng.normal(size=(80, 2))
    np.savez(tmp_path / "plants.npz", x=rows, y=kinds)
    head = ["width", "length", "species"]
    written(tmp_path / "plants.csv", head, np.column_stack([rows, kinds]))
    data = tmp_path / ("plants.npz" if method == "hebbian" else "plants.csv:species")
    options = ("--data", data, "--clients", 2, "--rounds", 1, "--json")
    text, err = hopfed.done("fl", "run", method, *options)
    assert err == "as the data ask: models=mlp:64\n"
    assert json.loads(text)["config"]["models"] == ["mlp:64"]
    assert hopfed.done("fl", "run", method, *options, "--models", "mlp:8")[1] == ""
    error = hopfed.refused("fl", "run", "fedavg", *options, "--models", "cnn-1")
    assert error.startswith("error: models must be mlp:64")


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
    assert (tmp_path / "table.csv").read_text().startswith("method,accuracy,accuracy standard ")


def test_autocast_and_compile_are_settings_of_the_run(hopfed, monkeypatch):
    asked = set()
    monkeypatch.setattr(torch, "compile", lambda loss, backend: asked.add(backend) or loss)
    few = "--clients 2 --rounds 1 --models mlp:16 --set examples=210 --set way=stacked --json"
    text, _ = hopfed.done("fl", "run", "fedprox", *few.split(), "--compile", "--autocast", "bf16")
    config = json.loads(text)["config"]
    assert (config["precision"], config["compile"], asked) == ("bfloat16", "inductor", {"inductor"})


@pytest.mark.slow
def test_a_warning_of_a_worker_process_is_a_line_of_it(tmp_path):
    command = tmp_path / "command.py"  # as the installed one, which a worker imports once more
    command.write_text("from hopfed.__main__ import main\nif __name__ == '__main__':\n    main()\n")
    line = "fl run knn-per --models mlp:8 --set k=9999 --engine pool --workers 2 --rounds 2"
    words = [sys.executable, command, *line.split(), "--clients", "3", "--set", "examples=150"]
    clean = {k: v for k, v in os.environ.items() if k != "PYTHONWARNINGS"}
    answer = subprocess.run(words, env=clean, capture_output=True, text=True, check=True)
    said = answer.stderr.splitlines()
    assert set(said) == {
        "warning: k = 9999 exceeds the number of examples in a store: all of them are used"
    }
    assert len(said) <= 2  # once in each process
