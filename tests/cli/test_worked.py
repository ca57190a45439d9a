"""The worked examples run, and what they show holds."""

import pytest

from hopfed.experiments.worked import plan_a_study, three_owners


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
