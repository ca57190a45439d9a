"""Components of any matrix beside its noise: counts, levels, what is checked, and the command."""

import json
import re

import numpy as np
import pytest
from helpers import rest_slow
from scipy.stats import binom

import hopfed
from hopfed.errors import ArgumentError
from hopfed.spectral.operators import FactorOperator
from hopfed.spectral.rows import neighbour_deviation
from hopfed.spectral.spectrum import NULLS, ratio_law
from hopfed.theory import tracy_widom

M, N = 120, 40


def planted(rng, kappa=(6.0, 3.0), M=M, N=N):
    """Rows of Gaussian noise with orthogonal components, which come with them."""
    U = np.linalg.qr(rng.standard_normal((N, len(kappa))))[0]
    signal = rng.standard_normal((M, len(kappa))) * np.sqrt(kappa) @ U.T
    return rng.standard_normal((M, N)) + signal, U


@pytest.mark.parametrize("null", NULLS)
def test_every_null_finds_what_is_there_and_nothing_else(null):
    rng = np.random.default_rng(1)
    X, U = planted(rng)
    found = hopfed.spectrum(X, null, 0.05)
    assert (found.n_components, found.status, found.advice) == (2, "ok", ())
    assert (found.p_values[:2] <= 0.05).all()
    assert found.p_values[2] > 0.05
    truth = ((found.vectors.T @ U) ** 2).diagonal()
    assert (np.abs(truth - found.overlaps) < 4 * found.overlap_errors).all()
    assert hopfed.spectrum(rng.standard_normal((M, N)), null, 0.001).n_components == 0
    again = hopfed.spectrum(X + 5, null, 0.05)  # means of columns are no component
    np.testing.assert_allclose(again.eigenvalues, np.linalg.eigvalsh(np.cov(X.T))[::-1])


NOISE = {
    "gaussian": lambda rng: rng.standard_normal((M, N)),
    "uniform": lambda rng: rng.uniform(-1, 1, (M, N)),
    "t5": lambda rng: rng.standard_t(5, (M, N)),
    "signs": lambda rng: np.where(rng.random((M, N)) < np.linspace(0.2, 0.8, N), 1.0, -1.0),
    "scales": lambda rng: rng.standard_normal((M, N)) * np.linspace(0.5, 2, N),
    "rows": lambda rng: rng.standard_normal((M, N)) * np.linspace(0.5, 2, M)[:, None],
    "copies": lambda rng: rng.permutation(np.repeat(rng.standard_normal((M // 2, N)), 2, axis=0)),
    "walks": lambda rng: np.cumsum(rng.standard_normal((M, N)), axis=0),
    "small": lambda rng: rng.standard_normal((20, 5)),
    "time": lambda rng: _slow(rng),
}


def _slow(rng):
    x = rng.standard_normal((M + 30, N))
    for i in range(1, len(x)):
        x[i] += 0.6 * x[i - 1]
    return x[30:]


@pytest.mark.parametrize(
    ("null", "kind", "columns"),
    rest_slow([
        ("entries", "small", "standardised"),
        ("entries", "signs", "standardised"), ("permutation", "t5", "centred"),
        ("gaussian", "gaussian", "centred"), ("entries", "uniform", "centred"),
        ("entries", "t5", "standardised"), ("entries", "scales", "standardised"),
        ("permutation", "scales", "centred"), ("flips", "rows", "centred"),
        ("shifts", "time", "centred"),
    ], 3),
)  # fmt: skip
def test_noise_passes_at_its_level(null, kind, columns):
    """Of 40 draws at .05 at most 8: a level that holds is called broken once in 2,000 tests."""
    rng = np.random.default_rng([3, len(null), len(kind)])
    alarms = sum(
        hopfed.spectrum(NOISE[kind](rng), null, 0.05, columns=columns, draws=19).n_components > 0
        for _ in range(40)
    )
    assert alarms <= binom.isf(5e-4, 40, 0.05)


@pytest.mark.parametrize(
    ("kind", "null", "named"),
    rest_slow([
        ("copies", "", "copies"), ("walks", "shifts", "slow"),
        ("time", "entries", "order"), ("uniform", "gaussian", "normal"),
        ("rows", "entries", "rows"), ("scales", "gaussian", "columns"),
        ("rows", "permutation", "rows"), ("time", "permutation", "order"),
    ], 5),
)  # fmt: skip
def test_an_assumption_that_fails_is_named(kind, null, named):
    found = hopfed.spectrum(NOISE[kind](np.random.default_rng(5)), null)
    assert found.status == "doubtful"
    assert named in [check.name for check in found.checks if not check.holds]


def test_one_large_entry_is_named():
    x = np.random.default_rng(6).standard_normal((M, N))
    x[3, 4] = 30.0
    found = hopfed.spectrum(x, "entries")
    assert found.n_components == 1
    assert re.search(r"heavy tails \(up to (29|3\d) deviations\)", found.advice[-1])
    found = hopfed.spectrum(x)  # without a null, another is taken where the law does not hold
    assert (found.n_components, found.null, found.status) == (0, "permutation", "ok")


def test_rows_and_columns_of_unequal_variance_are_flipped():
    """Permuted columns mix the rows' variances: they alarmed in .4 of such tables at .05."""
    rng = np.random.default_rng(8)
    scales = rng.uniform(0.5, 2, 40) * rng.uniform(0.5, 2, (200, 1))
    found = hopfed.spectrum(rng.standard_normal((200, 40)) * scales)
    assert (found.null, found.n_components, found.status) == ("flips", 0, "ok")


@pytest.mark.parametrize(("null", "axis"), [("permutation", 0), ("flips", 1)])
def test_noise_that_is_uneven_beside_components(null, axis):
    """Residuals alone, which lack what components took, alarmed in .25 of such tables at .05."""
    alarms, lost = 0, np.zeros(2)  # of the weakest component: in truth, and as said
    for seed in range(40):
        rng = np.random.default_rng([14, seed])
        U = np.linalg.qr(rng.standard_normal((N, 3)))[0]
        scales = np.exp(rng.normal(0, 0.7, (1, N) if axis == 0 else (100, 1)))
        X = (
            rng.standard_normal((100, 3)) * [20, 15, 6] @ U.T
            + rng.standard_normal((100, N)) * scales
        )
        found = hopfed.spectrum(X, null, 0.05, draws=19)
        alarms += found.n_components > 3 and found.status == "ok"
        if found.n_components == 3 and found.status == "ok":
            lost += 1 - (U[:, 2] @ found.vectors[:, 2]) ** 2, 1 - found.limits[0, 2]
    assert 0.7 < lost[1] / lost[0] < 1.4  # .5 with the law of white noise
    assert alarms <= binom.isf(5e-4, 40, 0.05)


def test_a_covariance_and_an_operator_are_counted_by_their_rows():
    X, _ = planted(np.random.default_rng(7))
    whole = hopfed.spectrum(X, "gaussian")
    found = hopfed.spectrum(np.cov(X.T), n_rows=M - 1)
    np.testing.assert_allclose(found.p_values, whole.p_values, rtol=1e-6, atol=1e-300)
    rng = np.random.default_rng(8)
    xi = rng.choice([-1, 1], N)
    signs = np.where(rng.random((M, N)) < 0.3, xi, rng.choice([-1, 1], (M, N)))
    found = hopfed.spectrum(FactorOperator.from_examples(signs))
    assert (found.n_components, found.null) == (1, "entries")
    with pytest.raises(ArgumentError, match="null must be gaussian where there are no rows"):
        hopfed.spectrum(np.cov(X.T), "flips", n_rows=M)


@pytest.mark.parametrize("kappa", [12.0, 400.0])
def test_gaps_take_the_fit_of_the_components(kappa):
    """With the mean of their column, .57 of tables with a tenth of gaps alarmed at .05."""
    X, U = planted(np.random.default_rng(9), kappa=(kappa,))
    X[np.random.default_rng(10).random(X.shape) < 0.2] = np.nan
    for null in ("entries", "permutation", "flips"):
        found = hopfed.spectrum(X, null)
        assert (found.n_components, found.status) == (1, "ok")
        cosine = (found.vectors[:, 0] @ U[:, 0]) ** 2
        assert abs(cosine - found.overlaps[0]) < 4 * found.overlap_errors[0]


def test_the_ratio_to_the_trace_passes_at_its_level():
    """At the scale of the eigenvalue alone .032 of these draws pass at .05."""
    X = np.random.default_rng(11).standard_normal((6000, 20, 30))
    values = np.linalg.eigvalsh(X @ X.transpose(0, 2, 1))
    centre, scale = ratio_law(20, 30)
    z = (values[:, -1] / values.mean(axis=1) * 30 - centre) / scale
    assert abs(np.mean(z > tracy_widom.isf(0.05)) - 0.05) < 4 * np.sqrt(0.05 / 6000)


def test_rows_in_any_order_have_a_normal_deviation():
    rng = np.random.default_rng(12)
    rows = rng.standard_t(4, (500, 30, 20))
    z = np.array([neighbour_deviation(table) for table in rows])
    assert abs(z.mean()) < 0.2
    assert 0.85 < z.std() < 1.15
    assert neighbour_deviation(np.repeat(rng.standard_normal((10, 20)), 5, axis=0)) > 5  # blocks
    assert neighbour_deviation(np.zeros((5, 3))) == 0


@pytest.mark.parametrize(
    ("X", "options", "argument"),
    [(np.ones((5, 3)), {}, "X"), (np.eye(4)[:2], {}, "X"), (np.eye(3), {"n_rows": 1}, "n_rows"),
     (np.full((5, 3), np.inf), {}, "X"), (np.eye(5), {"null": "horn"}, "null"),
     (np.eye(5), {"level": 0.0}, "level"), (np.eye(5), {"columns": "all"}, "columns"),
     (np.eye(5), {"null": "flips", "draws": 3}, "draws"), ([["a"]], {}, "X"),
     (np.eye(5) + 1j, {}, "X"), (np.eye(5) * 1e80, {}, "X"), (np.eye(5), {"level": "a"}, "level"),
     (np.arange(12.0).reshape(4, 3), {"n_rows": 9}, "X")],
)  # fmt: skip
def test_bad_arguments_name_themselves(X, options, argument):
    with pytest.raises(ArgumentError) as error:
        hopfed.spectrum(X, **options)
    assert error.value.argument == argument


def test_the_command_says_the_same(hopfed, tmp_path):
    X, _ = planted(np.random.default_rng(13))
    file, picture = tmp_path / "x.csv", tmp_path / "x.pdf"
    np.savetxt(file, X, delimiter=",", header=",".join(f"c{j}" for j in range(N)), comments="")
    status, out, _ = hopfed("spectrum", file, "--json", "--figure", picture)
    said = json.loads(out)
    assert (status, said["n_components"], said["status"]) == (0, 2, "ok")
    assert picture.stat().st_size > 1000
    assert "2 components above the edge" in hopfed("spectrum", file, "--null", "flips")[1]
    status, _, err = hopfed("spectrum", file, "--draws", "3", "--null", "flips")
    assert (status, err.count("\n"), "--draws must be at least 99" in err) == (2, 1, True)
    file.write_text("a,b\n1,x\n2,y\n3,z\n")
    status, _, err = hopfed("spectrum", file)
    assert (status, err.count("\n")) == (2, 1)
