"""`hopfed theory plan` for graded classes with gaps, as a user runs it."""

import json

import numpy as np
import pytest

from hopfed.cli import theory as theory_plan
from hopfed.theory import graded_simulation, planning, study
from hopfed.theory.graded_planning import ClassLaw, plan


@pytest.fixture
def asked(hopfed):
    """Run `hopfed theory plan LINE`; answer (exit status, stdout, stderr)."""
    return lambda line: hopfed("theory", "plan", *line.split())


@pytest.fixture
def tables(asked):
    def call(line):
        status, out, err = asked(line + " --json")
        assert (status, err) == (0, "")
        return json.loads(out)

    return call


def column(rows, name):
    return np.array([row[name] for row in rows], dtype=float)


def test_numbers_are_those_of_the_plan(tables):
    got = tables("--rates 1,4 --missing 0.3 --N 60 --exposure 0.3,0.1 --power 0.8")
    assert list(got) == ["plan"]
    want = plan(ClassLaw(rates=(1, 4), missing=0.3), [0.3, 0.1], 60, 0.8)
    assert set(got["plan"][0]) == set(theory_plan._MEANINGS)
    for name, field in theory_plan._FIELDS.items():
        np.testing.assert_array_equal(column(got["plan"], name), getattr(want, field))


def test_one_study_makes_three_promises(asked, tables):
    got = tables("--r 0.4 --N 100 --K 3")
    want = study.promises(0.4, np.full(3, 1 / 3), 100)
    assert [row["exposure"] for row in got["plan"]] == [1 / 3]
    assert [row["promise"] for row in got["promises"]] == ["seen", "all", "resolved"]
    np.testing.assert_array_equal(column(got["promises"], "M"), list(want.samples.values()))
    assert (column(got["promises"], "power") >= 0.9).all()
    status, out, _ = asked("--r 0.4 --N 100 --K 3")
    assert status == 0
    assert f"resolved  {want.samples['resolved']:.0f}" in out


def test_alone_each_share_is_a_formula(tables):
    for line, stronger in (("--exposure 0.3,0.9", 0), ("--exposure 0.3,0.1 --stronger 2", 2)):
        got = tables(f"--r 0.4 --N 100 {line}")
        shares = column(got["plan"], "exposure")
        want = planning.plan(0.4, shares, 100, stronger=stronger)
        assert list(got) == ["plan"]
        np.testing.assert_array_equal(column(got["plan"], "M"), want.samples)


def test_every_number_has_a_line_and_a_meaning(asked):
    status, out, err = asked("--rates 2,2 --N 50 --exposure 0.3,0.1")
    assert (status, err) == (0, "")
    lines = [line.split() for line in out.splitlines() if line.strip()]
    names = list(theory_plan._MEANINGS)
    assert [line[0] for line in lines[: len(names)]] == names
    assert all(len(line) == 3 for line in lines[: len(names)])
    assert [line[0] for line in lines[len(names) :]] == names
    assert max(map(len, out.splitlines())) < 100


def test_a_simulation_stands_beside_the_plan(asked, tables):
    line = "--rates 2,2 --missing 0.2 --N 60 --M 300 --exposure 0.3 --simulate 10"
    got = tables(line)["simulation"]
    assert [row["quantity"] for row in got] == list(graded_simulation.QUANTITIES)
    assert all(row["agrees"] is True for row in got)
    assert (column(got, "measured") > 0).all()
    assert got == tables(f"{line} --seed 0")["simulation"]
    assert got != tables(f"{line} --seed 1")["simulation"]
    status, out, _ = asked(line)
    assert status == 0
    assert out.count(" yes") == len(got)
    assert "allowed: 4 standard errors and 3% of the prediction, added up" in " ".join(out.split())
    off = np.abs(column(got, "measured") - column(got, "predicted"))
    assert (off <= column(got, "allowed")).all()
    for row in got[1:]:  # the first is the power
        assert row["allowed"] == pytest.approx(4 * row["standard_error"] + 0.03 * row["predicted"])


def test_a_failed_prediction_is_named_and_sets_the_exit_status(asked, monkeypatch):
    monkeypatch.setattr(graded_simulation, "_TOLERANCE", -1.0)
    status, out, err = asked("--r 0.4 --N 40 --M 300 --exposure 0.3 --simulate 5")
    assert status == 1
    assert "eigenvalue at 0.3" in " ".join(err.split())
    assert " no" in out


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--N 20 --r 0.5 --K 0", "--K must be at least 1, got 0"),
        ("--N 20 --r 0.5 --K 30", "must be fewer than N = 20, got 30"),
        ("--N 20 --r 0.5 --K 3 --exposure 0.1", "--K must be left out beside --exposure"),
        ("--N 20", "--r must be given, or --rates A,B, got neither"),
        ("--N 20 --missing 0.1", "r must be given where rates are symmetric"),
        ("--N 20 --rates 1", "'1' is not 'symmetric' or two numbers above 0, A,B"),
        ("--N 20 --rates 1,1 --r 0.5", "r must be left out beside rates"),
        ("--N 20 --rates 1,1 --epsilon 1", "--epsilon must be left out beside --rates"),
        ("--N 20 --r 0.5 --M 9 --figure a.png", "--figure must be left out beside --M"),
        ("--N 20 --rates 1,1 --seed 1", "--simulate must be given beside --seed"),
        ("--N 20 --rates 1,1 --M 20 --simulate 1", "--simulate must be from 2 to 10,000 draws"),
        ("--N 9999 --r 0.5 --M 99999 --simulate 2", "tables of at most 100,000,000 entries"),
    ],
)
def test_bad_requests_end_in_one_line(asked, line, words):
    status, out, err = asked(line)
    assert (status, out) == (2, "")
    assert words in err
    assert len(err.splitlines()) == 1
