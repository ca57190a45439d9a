"""`hopfed theory` as a user runs it."""

import json

import numpy as np
import pytest

from hopfed.theory import concentration, marchenko_pastur, spikes, storage, study, tracy_widom


@pytest.fixture
def theory(hopfed):
    """Run `hopfed theory LINE`; answer (exit status, stdout, stderr)."""
    return lambda line: hopfed("theory", *line.split())


@pytest.fixture
def tables(theory):
    """Answer the tables of `hopfed theory ... --json`."""

    def call(line):
        status, out, err = theory(line + " --json")
        assert (status, err) == (0, "")
        return json.loads(out)

    return call


def column(rows, name):
    return np.array([row[name] for row in rows], dtype=float)


def test_mp(tables):
    got = tables("mp --q 0.25,4 --variance 2 --at 1,3 --p 0.5,0.9")
    assert got["edges"][0] == {
        "q": 0.25,
        "lower": 0.5,
        "upper": 4.5,
        "atom": 0.0,
        "median_nonzero": float(marchenko_pastur.median_nonzero(0.25, 2.0)),
    }
    q, x = column(got["values"], "q"), column(got["values"], "x")
    assert q.tolist() == [0.25, 0.25, 4, 4]
    assert x.tolist() == [1, 3, 1, 3]
    np.testing.assert_array_equal(
        column(got["values"], "distribution"), marchenko_pastur.cdf(x, q, 2)
    )
    np.testing.assert_array_equal(column(got["values"], "density"), marchenko_pastur.pdf(x, q, 2))
    p = column(got["quantiles"], "p")
    want = marchenko_pastur.quantile(p, column(got["quantiles"], "q"), 2)
    np.testing.assert_array_equal(column(got["quantiles"], "x"), want)


def test_bounds(tables):
    got = tables("bounds --N 400 --M 100,1000 --r 0.6 --exposure 0.5,0.3,0.2 --C 0.5 --band 0,0")
    rows = got["deviation"]
    M = column(rows, "M")
    proxy = concentration.variance_proxy(0.6, 400, [0.5, 0.3, 0.2])
    want = concentration.bernstein_deviation(0.05, 400, M, proxy)
    np.testing.assert_array_equal(column(rows, "bernstein"), want)
    assert (column(rows, "form_36") >= want).all()  # which it follows from
    u = column(rows, "form_35")
    log_tail = np.log(2 * 400) - 0.375 * M * np.minimum(u**2, u)
    np.testing.assert_allclose(log_tail, np.log(0.05))
    u = column(rows, "form_38")
    log_tail = np.log(2) + 0.5 * np.log(400) - 0.375 * M * np.minimum(4 * u**2, u)
    np.testing.assert_allclose(log_tail, np.log(0.05))
    edges = marchenko_pastur.edges(400 / M, 0.64)
    np.testing.assert_allclose([column(got["band"], n) for n in ("lower", "upper")], edges)


def test_tw(tables):
    got = tables("tw --p 0.95,0.99 --at 0 --N 25 --M 100 --variance 2")
    quantile = column(got["quantiles"], "quantile")
    np.testing.assert_allclose(quantile, [0.979316053469554568, 2.02344928138016270], rtol=1e-12)
    centre, scale = tracy_widom.wishart_scaling(100, 25)
    want = 2 * (centre + scale * quantile) / 100
    np.testing.assert_allclose(column(got["quantiles"], "eigenvalue"), want, rtol=1e-14)
    assert got["values"][0]["distribution"] == pytest.approx(0.831908066202951927, abs=1e-13)
    assert got["moments"][0]["mean"] == pytest.approx(-1.20653357458202481, abs=1e-12)
    assert tables("tw --beta 2 --at -2")["values"][0]["distribution"] == pytest.approx(
        0.413224142505122555, abs=1e-12
    )


def test_spike_by_strength_and_by_exposure(tables):
    got = tables("spike --kappa 0.5,2 --q 0.5 --eigenvalue 3.75,1")
    assert got["spikes"][0]["detectable"] is False
    assert got["spikes"][1] == {
        "kappa": 2.0,
        "detectable": True,
        "eigenvalue": 3.75,
        "overlap": pytest.approx(0.7),
    }
    assert got["inverse"][0]["kappa"] == pytest.approx(2)
    assert got["inverse"][1]["kappa"] is None
    got = tables("spike --N 400 --M 1600 --r 0.2 --exposure 0.5,0.3")
    kappa = spikes.spike_strength(0.2, np.array([0.5, 0.3]), 400)
    np.testing.assert_allclose(column(got["spikes"], "kappa"), kappa)
    # Simulated over 200 draws: 7.634 and 6.072.
    np.testing.assert_allclose(column(got["spikes"], "eigenvalue"), [7.634, 6.072], rtol=0.25)
    sd = spikes.outlier_sd(kappa, 0.25, 1600, 0.96, exposure=np.array([0.5, 0.3]))
    np.testing.assert_allclose(column(got["spikes"], "eigenvalue_sd"), sd)


def test_phase(tables):
    got = tables("phase --N 400 --M 400 --r 0.2,0.5 --exposure 0.003,0.03")
    np.testing.assert_allclose(column(got["boundary"], "least_exposure"), [0.06, 0.0075])
    needed = column(got["boundary"], "for_power_0.9")
    assert (needed > column(got["boundary"], "least_exposure")).all()
    assert [row["detectable"] for row in got["diagram"]] == [False, False, False, True]


def test_plan(tables):
    got = tables("plan --r 0.3 --N 200 --exposure 0.1,0.05")["plan"]
    want = study.promises(0.3, [0.1, 0.05], 200)
    np.testing.assert_array_equal(column(got, "M"), want.each)
    assert (column(got, "power") >= 0.9).all()
    assert (column(got, "M") > column(got, "M_boundary")).all()


def test_capacity(tables):
    got = tables("capacity --t 0,1 --alpha 0.1,0.3 --temperature 0.542255 --simulate 300")
    np.testing.assert_allclose(
        column(got["capacity"], "capacity"), [0.137905566494931738, 0.386596], rtol=1e-5
    )
    m = column(got["magnetisation"], "magnetisation")
    np.testing.assert_array_equal(m, storage.magnetisation([0.1, 0.3, 0.1, 0.3], [0, 0, 1, 1]))
    assert got["temperature"][0]["capacity"] == pytest.approx(0.05, abs=1e-6)
    low, high = got["simulation"][0], got["simulation"][4]
    assert low["simulated"] > 0.99 > high["simulated"]


@pytest.mark.parametrize(
    "line",
    [
        "mp --q 0.25,1,4",
        "tw",
        "spike --kappa 0.5,1,2 --q 0.5",
        "phase --N 400 --M 1600",
        "plan --r 0.3 --N 400 --exposure 0.1,0.01",
        "capacity --t 0,1 --simulate 200",
        "bounds --N 400 --M 1000 --exposure 0.5,0.5",
    ],
)
def test_tables_and_figures(theory, tmp_path, line):
    figure = tmp_path / "figure.svg"
    status, out, err = theory(f"{line} --figure {figure}")
    assert (status, err) == (0, "")
    assert len(out.splitlines()) >= 3
    assert f"wrote {figure}" in out.replace("\n", "")
    assert figure.read_text().startswith("<?xml")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("mp --q 0", "q must be a finite number above 0, got 0.0"),
        ("mp --q nan", "'nan' is not a number"),
        ("mp --p 0.5,1", "p must be a number in (0, 1), got 1.0"),
        ("bounds --N 9 --exposure 0.9,0.9", "--exposure must be shares that sum to at most 1"),
        ("bounds --N 9 --band 1", "--band must be two numbers"),
        ("tw --beta 3", "beta must be one of (1, 2)"),
        ("tw --N 5", "--N and --M must be given together"),
        ("tw --N 5 --M 5 --beta 2", "--beta must be 1"),
        ("spike --kappa 0 --q 1", "kappa must be a finite number above 0"),
        ("spike --kappa 1", "--q must be given, or --N and --M"),
        ("spike --kappa 1 --q 1 --N 2 --M 2", "--q must be left out"),
        ("spike --q 1", "--kappa must be given"),
        ("spike --q 1 --exposure 0.5", "--exposure must be given together with --r and --N"),
        ("spike --N 9 --M 9 --r 0.2 --exposure .6,.6", "shares that sum to at most 1, got 1.2"),
        ("spike --q 1 --exposure 2 --r 0.5 --N 9", "exposure must be a number in [0, 1]"),
        ("phase --N 9 --M 9 --r 0", "r must be a number in (0, 1)"),
        ("phase --N 9", "Missing option '--M'"),
        ("plan --r 1.5 --N 100", "r must be a number in (0, 1)"),
        ("plan --r 0.3 --N 100 --exposure 0", "exposure must be a number in (0, 1]"),
        ("capacity --t -1", "t must be a number of at least 0, or inf"),
        ("capacity --t 30", "--t must be at most 20"),
        ("capacity --temperature 1", "temperature must be a number in [0.01, 1)"),
        ("capacity --simulate 5", "--simulate must be between 100 and 20000"),
        ("law", "No such command 'law'"),
    ],
)
def test_what_is_wrong_is_one_line(theory, line, words):
    status, out, err = theory(line)
    assert status == 2
    assert out == ""
    assert words in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("bounds --N 400 --level 0", "--level must be a number in (0, 1), got 0.0"),
        ("bounds --N 400 --c 0", "--c must be"),
        ("bounds --N 400 --band 1,-1", "--band must be"),
        ("plan --r 0.5 --N 10 --alpha 2", "--alpha must be"),
        ("plan --r 0.5 --N 10 --epsilon 1 --delta 2", "--delta must be"),
        ("mp --q 0", "--q must be"),
    ],
)
def test_errors_name_the_option_that_was_given(hopfed, words, said):
    """They named arguments of the laws, which nobody gave."""
    status, _, text = hopfed("theory", *words.split())
    assert (status, said in text) == (2, True)
