"""The worked examples run, and what they show holds."""

import json

import pytest

from hopfed.experiments.publish import notebooks
from hopfed.experiments.worked import spreadsheet


def test_a_method_of_ones_own():
    pytest.importorskip("torch", reason="torch is not installed")
    from hopfed.experiments.worked import own_method

    found = own_method.main(rounds=4)
    assert found["beta=0"] == found["fedavg"] != found["beta=0.5"]


def test_a_method_in_a_file_and_what_it_refuses_by_itself(hopfed, tmp_path, monkeypatch):
    pytest.importorskip("torch", reason="torch is not installed")
    lines = (
        "from hopfed.neural.methods.fedavg import FedAvg",
        "class Mine(FedAvg):",
        "    def __post_init__(self):",
        "        if self.training.epochs > 1: raise ValueError('one epoch')",
    )
    (tmp_path / "my_method_here.py").write_text("\n".join(lines))
    small = ["--clients", "3", "--rounds", "1", "--models", "mlp", "--set", "examples=200"]
    text, _ = hopfed.done("fl", "run", f"{tmp_path / 'my_method_here.py'}:Mine", *small)
    assert "test accuracy" in text
    monkeypatch.chdir(tmp_path)
    named = ("fl", "run", "my_method_here:Mine", *small)
    assert hopfed(*named)[0] == 0
    status, _, errors = hopfed(*named, "--set", "epochs=2")
    assert (status, "ValueError: one epoch" in errors, errors.count("\n")) == (2, True, 1)


def test_a_spreadsheet_gets_an_answer_for_every_row(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found, counts = spreadsheet.main()
    assert found.status == "ok"
    assert counts[:-1].max(axis=1).sum() > 0.85 * 178  # archetypes keep the growers apart


@pytest.mark.parametrize("name", notebooks.NAMES)
def test_a_notebook_runs_from_its_first_cell_to_its_last(name, tmp_path, monkeypatch, capsys):
    if name == "own_method":
        pytest.importorskip("torch", reason="torch is not installed")
    monkeypatch.chdir(tmp_path)
    held = json.loads(notebooks.notebook(name))
    names = {"__name__": "__main__"}
    for cell in held["cells"]:
        if cell["cell_type"] == "code":
            exec(compile(cell["source"], name, "exec", dont_inherit=True), names)
    assert capsys.readouterr().out
