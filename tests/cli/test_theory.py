"""`hopfed theory`: tables are those of the laws, pictures are drawn, errors name the option."""

import json

import numpy as np
import pytest
from helpers import rest_slow

from hopfed.cli import theory as command
from hopfed.theory import marchenko_pastur, planning, spikes, storage, study, tracy_widom
from hopfed.theory.graded_planning import ClassLaw, plan


@pytest.fixture
def theory(hopfed):
    """Run `hopfed theory LINE`; answer what it prints."""
    return lambda line: hopfed.done("theory", *line.split())[0]


@pytest.fixture
def tables(theory):
    """Answer the tables of `hopfed theory ... --json`, as arrays by column."""
    return lambda line: {
        name: {key: np.array([row[key] for row in rows]) for key in rows[0]}
        for name, rows in json.loads(theory(line + " --json")).items()
    }


def test_spikes_by_strength_and_by_exposure(tables):
    got = tables("spike --kappa 0.5,2 --q 0.5 --eigenvalue 3.75,1")
    assert got["spikes"]["detectable"].tolist() == [False, True]
    assert got["spikes"]["overlap"][1] == pytest.approx(0.7)
    assert got["inverse"]["kappa"].tolist() == [pytest.approx(2), None]
    got = tables("spike --N 400 --M 1600 --r 0.2 --exposure 0.5,0.3")
    kappa = spikes.spike_strength(0.2, np.array([0.5, 0.3]), 400)
    np.testing.assert_allclose(got["spikes"]["kappa"], kappa)
    assert (got["at_this_size"]["power"] > 0.99).all()


def test_a_table_for_each_that_is_asked_for(tables):
    got = tables("capacity --t 0,1 --alpha 0.1,0.3 --temperature 0.542255")
    m = storage.magnetisation([0.1, 0.3, 0.1, 0.3], [0, 0, 1, 1])
    np.testing.assert_array_equal(got["magnetisation"]["magnetisation"].astype(float), m)
    assert got["temperature"]["capacity"][0] == pytest.approx(0.05, abs=1e-6)
    got = tables("mp --q 0.25,4 --variance 2 --p 0.5,0.9")
    assert (got["edges"]["lower"][0], got["edges"]["upper"][0]) == (0.5, 4.5)
    held = got["quantiles"]
    np.testing.assert_array_equal(held["x"], marchenko_pastur.quantile(held["p"], held["q"], 2))
    got = tables("phase --N 400 --M 400 --r 0.2,0.5 --exposure 0.003,0.03")
    np.testing.assert_allclose(got["boundary"]["least_exposure"], [0.06, 0.0075])
    assert got["diagram"]["detectable"].tolist() == [False, False, False, True]
    got = tables("tw --p 0.95,0.99 --N 25 --M 100")
    centre, scale = tracy_widom.wishart_scaling(100, 25)
    want = (centre + scale * tracy_widom.quantile([0.95, 0.99])) / 100
    np.testing.assert_allclose(got["quantiles"]["eigenvalue"], want, rtol=1e-14)


@pytest.mark.slow
def test_a_plan_is_of_one_study_of_each_share_alone_or_of_graded_classes(theory, tables):
    got, want = tables("plan --r 0.4 --N 100 --K 3"), study.promises(0.4, np.full(3, 1 / 3), 100)
    np.testing.assert_array_equal(got["promises"]["M"], list(want.samples.values()))
    said = theory("plan --r 0.4 --N 100 --K 3")
    assert f"resolved  {want.samples['resolved']:.0f}" in said
    assert "all that are given" in said
    got = tables("plan --r 0.4 --N 100 --exposure 0.3,0.9")
    assert list(got) == ["plan"]
    alone = planning.plan(0.4, got["plan"]["exposure"], 100)
    np.testing.assert_array_equal(got["plan"]["M"], alone.samples)
    got = tables("plan --rates 1,4 --missing 0.3 --N 60 --exposure 0.3,0.1 --power 0.8")["plan"]
    want = plan(ClassLaw(rates=(1, 4), missing=0.3), [0.3, 0.1], 60, 0.8)
    for name, field in command._FIELDS.items():
        np.testing.assert_array_equal(got[name], getattr(want, field))


FIGURES = ("tw", "spike --kappa 0.5,1,2 --q 0.5", "mp --q 0.25,1,4", "phase --N 400 --M 1600",
           "capacity --t 0,1", "plan --r 0.3 --N 400 --exposure 0.1,0.01")  # fmt: skip


@pytest.mark.parametrize("line", rest_slow(FIGURES, 2))
def test_figures(theory, tmp_path, line):
    figure = tmp_path / "figure.svg"
    theory(f"{line} --figure {figure}")
    assert figure.read_text().startswith("<?xml")


def test_columns_of_a_table_are_left_out_of_its_spectrum(hopfed, tmp_path):
    path = tmp_path / "table.csv"
    rows = np.random.default_rng(0).standard_normal((30, 3)).round(3)
    path.write_text("id,a,b,c\n" + "".join(f"r,{','.join(map(str, row))}\n" for row in rows))
    out, _ = hopfed.done("spectrum", path, "--ignore", "id", "--json")
    assert json.loads(out)["shape"] == [29, 3]


def test_basins(tables):
    got = tables("basins --rule dense --set n=4 --N 40 --loads 0.5 --flips 0,0.1 --cues 5")
    assert got["basins"]["patterns"].tolist() == [20]
    assert got["recalled"]["recalled"].tolist() == [1, 1]
