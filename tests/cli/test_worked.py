"""The worked examples run, and what they show holds."""

import csv
import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from helpers import DATA

from hopfed.errors import DataError
from hopfed.experiments.publish import notebooks
from hopfed.experiments.worked import spreadsheet, votes


def test_a_spreadsheet_gets_an_answer_for_every_row(hopfed, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    found, counts = spreadsheet.main()
    assert found.status == "ok"
    assert "flavanoids > " in capsys.readouterr().out
    assert counts.sum() == 178
    assert counts[:-1].max(axis=1).sum() > 0.85 * 178  # archetypes keep the growers apart
    for line in re.findall(r"^    hopfed (.*)$", spreadsheet.__doc__, re.MULTILINE):
        status, _, errors = hopfed(*shlex.split(line))
        assert status == 0, errors
    assert Path("types.csv").read_bytes() == Path("archetypes.csv").read_bytes()
    with open("bottles.csv", newline="") as file:
        bottles = list(csv.DictReader(file))
    assert [row["id"] for row in bottles] == [f"bottle {i}" for i in range(1, 179)]
    numbers = np.array([int(row["archetype"] or 0) for row in bottles])
    np.testing.assert_array_equal(np.bincount(numbers, minlength=5)[1:], counts[:-1].sum(axis=1))


def test_a_method_of_ones_own(hopfed):
    pytest.importorskip("torch", reason="torch is not installed")
    from hopfed.experiments.worked import own_method

    found = own_method.main(rounds=4)
    assert found["own, beta = 0"] == found["fedavg"]
    assert found["own, beta = 0.5"] != found["fedavg"]
    name = "hopfed.experiments.worked.own_method:FedAvgM"
    small = "--clients 3 --rounds 1 --models mlp --set examples=200 --set beta=0.7"
    status, text, _ = hopfed("fl", "run", name, *small.split())
    assert (status, "test accuracy" in text) == (0, True)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nowhere:Method", "importable as module:Class"),
        ("hopfed.neural.methods.fedavg:Nobody", "importable as module:Class"),
        ("hopfed.neural.training.task:Task", "a subclass of NeuralMethod"),
    ],
)
def test_a_method_that_is_none(hopfed, name, words):
    pytest.importorskip("torch", reason="torch is not installed")
    status, _, errors = hopfed("fl", "run", name)
    assert (status, words in errors, errors.count("\n")) == (2, True, 1)


def test_parties_are_found_and_who_votes_against_their_own(tmp_path, capsys):
    """A parliament in small: two parties, a member of each with the votes of the other, gaps."""
    rng = np.random.default_rng(4)
    rates = np.where(rng.random((1, 20)) < 0.5, 0.9, 0.1)
    rates = np.vstack([rates, 1 - rates])
    party = rng.integers(2, size=240)
    votes_of = party.copy()
    for whose in (0, 1):
        turned = np.flatnonzero(party == whose)[0]
        votes_of[turned] = 1 - whose
    yes = rng.random((240, 20)) < rates[votes_of]
    gone = rng.random((240, 20)) < 0.1
    lines = ["member,party," + ",".join(f"vote {j}" for j in range(20))]
    for i in range(240):
        cells = ["" if gone[i, j] else "ny"[int(yes[i, j])] for j in range(20)]
        lines.append(",".join([f"M{i}", "ab"[party[i]], *cells]))
    (tmp_path / "votes.csv").write_text("\n".join(lines))
    outcome = votes.main(tmp_path / "votes.csv", tmp_path)
    assert outcome.found.status == "ok"
    assert outcome.counts.sum(axis=1).min() > 90
    assert np.sort(outcome.counts, axis=1)[:, 0].tolist() == [1, 1]
    turned = {(f"M{i}", "ab"[party[i]]) for i in np.flatnonzero(votes_of != party)}
    assert set(outcome.against) == turned
    assert "vote with the other party (90% sure):" in capsys.readouterr().out
    assert "party" not in outcome.found.columns
    (tmp_path / "none.csv").write_text("a,b\n1,0\n")
    with pytest.raises(DataError, match="lacks the column 'party'"):
        votes.main(tmp_path / "none.csv", tmp_path)


@pytest.mark.skipif(
    not (DATA / "tables" / "votes.csv").exists(), reason="the votes are not at hand"
)
def test_the_parties_of_congress(tmp_path):
    outcome = votes.main(DATA / "tables" / "votes.csv", tmp_path)
    assert outcome.parties == ["democrat", "republican"]
    agree = outcome.counts.max(axis=1).sum() / outcome.counts.sum()
    assert agree > 0.93
    assert len(outcome.against) >= 4


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
