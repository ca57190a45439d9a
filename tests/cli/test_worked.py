"""The worked examples run, and what they show holds."""

import csv
import re
import shlex

import numpy as np
import pytest

from hopfed.experiments.worked import plan_a_study, spreadsheet, three_owners


def test_three_owners_find_all_types_together(capsys):
    found = three_owners.main()
    assert (found.status, found.n_detected) == ("ok", 6)
    said = capsys.readouterr().out
    assert said.count("100.0% of its answers") == 6
    assert "made up: 0" in said


def test_a_study_is_as_powerful_as_planned():
    rows = plan_a_study.main(studies=20)
    sizes, predicted, observed = zip(*rows, strict=True)
    assert sizes[1] == 2 * sizes[0] or sizes[1] == 2 * sizes[0] + 1
    assert predicted[1] >= 0.9 > plan_a_study.chance(sizes[1] - 1)
    for p, seen in zip(predicted, observed, strict=True):
        assert abs(p - seen) < 0.1 + 3 * (p * (1 - p) / 20) ** 0.5


def test_a_spreadsheet_gets_an_answer_for_every_row(hopfed, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    found, counts = spreadsheet.main()
    assert found.status == "ok"
    assert "flavanoids (" in capsys.readouterr().out
    assert counts.sum() == 178
    assert counts[:-1].max(axis=1).sum() > 0.85 * 178  # archetypes keep the growers apart
    python = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    for line in re.findall(r"^    hopfed (.*)$", spreadsheet.__doc__, re.MULTILINE):
        status, _, errors = hopfed(*shlex.split(line))
        assert status == 0, errors
    assert (tmp_path / "archetypes.csv").read_bytes() == python["archetypes.csv"]
    with open("bottles.csv", newline="") as file:
        bottles = list(csv.DictReader(file))
    assert [row["id"] for row in bottles] == [f"bottle {i}" for i in range(1, 179)]
    numbers = np.array([int(row["archetype"] or 0) for row in bottles])
    np.testing.assert_array_equal(np.bincount(numbers, minlength=5)[1:], counts[:-1].sum(axis=1))
    with open("wines.csv", newline="") as before, open("whole.csv", newline="") as after:
        for old, new in zip(csv.reader(before), csv.reader(after), strict=True):
            assert "" not in new
            assert all(a in ("", b) for a, b in zip(old, new, strict=True))


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
