from itertools import product

import numpy as np
import pytest
from graded_tables import classes, fitted, judged, whiten
from helpers import rest_slow

from hopfed.archetypes import judging as verdict_module
from hopfed.archetypes.channel import drawn, replica
from hopfed.archetypes.judging import carrying
from hopfed.archetypes.mixture import expect, improve
from hopfed.kernels import pack, pack_masked, unpack

M, N = 1000, 120


def verdict(x):
    owners, fit = fitted(x, [min(400, len(x) // 2)])
    return judged(owners, fit), fit


def signs(p, rng):
    return np.where(rng.random((M, N)) < p, 1, -1)


@pytest.mark.parametrize(
    ("shape", "missing"),
    rest_slow([((1, 1), 0.3), *product([(0.5, 5), (5, 5)], [0.0, 0.3]), ((1, 1), 0.0)], 1),
    ids=str,
)
def test_true_classes_are_ok(shape, missing):
    found, fit = verdict(classes(4, N, M, 20, shape=shape, missing=missing)[2])
    assert fit.size == 4
    assert found.status == "ok", found
    assert found.residual.columns.size == 0
    assert abs(found.residual.ratio - found.residual.expected) < 4 * found.residual.error


def logistic(z):
    return 1 / (1 + np.exp(-z))


NOT_CLASSES = {
    "trait": lambda rng: signs(logistic(rng.standard_normal((M, 1)) - rng.standard_normal(N)), rng),
    "row rates": lambda rng: signs(rng.beta(2, 2, (M, 1)), rng),
    "blocks": lambda rng: np.sign(
        0.6 * rng.standard_normal((M, 4))[:, np.arange(N) * 4 // N]
        + 0.8 * rng.standard_normal((M, N))
    ),
    "trend": lambda rng: signs(
        logistic(np.linspace(-1, 1, M)[:, None] * rng.standard_normal(N)), rng
    ),
    "mixed memberships": lambda rng: signs(
        rng.dirichlet(np.full(3, 0.5), M) @ rng.beta(0.5, 0.5, (3, N)), rng
    ),
    "topics": lambda rng: signs(
        rng.dirichlet(np.full(4, 0.7), M) @ rng.uniform(0.1, 0.9, (4, N)), rng
    ),
    "one-hot": lambda rng: 2 * np.eye(4)[rng.integers(4, size=(M, N // 4))].reshape(M, N) - 1,
    "columns twice": lambda rng: np.repeat(signs(rng.random(N), rng)[:, : N // 2], 2, axis=1),
    "row quality": lambda rng: signs(
        (1 + rng.beta(2, 2, (M, 1)) * rng.choice([-1, 1], (3, N))[rng.integers(3, size=M)]) / 2, rng
    ),
}


@pytest.mark.parametrize(
    "kind", rest_slow(["row rates", *sorted({*NOT_CLASSES} - {"row rates"})], 1)
)
def test_what_is_no_classes_is_not_ok(kind):
    found, _ = verdict(NOT_CLASSES[kind](np.random.default_rng(22)))
    assert found.status == "structure, but not classes", found
    assert found.advice.endswith(".")


@pytest.mark.parametrize("status", rest_slow(["ok", "structure, but not classes"], 1))
def test_where_statistics_are_clear_a_few_replicas_say_what_all_would(monkeypatch, status):
    drawn, replica = [], verdict_module.replica
    monkeypatch.setattr(verdict_module, "replica", lambda *of: drawn.append(1) or replica(*of))
    rng = np.random.default_rng(26)
    fine = classes(4, N, M, 20, shape=(1, 1), missing=0.0)[2]
    x = fine if status == "ok" else NOT_CLASSES["blocks"](rng)
    assert verdict(x)[0].status == status
    assert len(drawn) == verdict_module.FEW
    drawn.clear()
    monkeypatch.setattr(verdict_module, "CLEAR", np.inf)
    monkeypatch.setattr(verdict_module, "QUIET", -np.inf)
    assert verdict(x)[0].status == status
    assert len(drawn) == verdict_module.REPLICAS


def test_copies_of_rows_are_called_that():
    rng = np.random.default_rng(23)
    x = signs(rng.random(N), rng)[:20]
    found, fit = verdict(x[np.arange(400) % 20])
    assert fit.size == 20
    assert found.status == "copies"


@pytest.mark.slow
def test_columns_that_depend_within_classes_are_named():
    _, _, x = classes(3, N, M, 24)
    x[:, 17] = np.where(np.random.default_rng(0).random(M) < 0.8, x[:, 3], x[:, 17])
    found, _ = verdict(x)
    assert found.status == "structure, but not classes"
    assert set(found.residual.columns[:2].tolist()) == {3, 17}
    assert found.advice.startswith(("Columns 18, 4 depend", "Columns 4, 18 depend"))  # from 1


def test_pairs_of_equal_columns_are_no_classes():
    rng = np.random.default_rng(27)
    x = np.where(rng.random((3000, 50)) < rng.uniform(0.2, 0.8, 50), 1, -1)
    x[:, 1], x[:, 9] = x[:, 0], x[:, 8]
    found, fit = verdict(x)
    assert fit.size == 4  # which leave no dependence, but rest on four columns
    assert set(carrying(fit, np.ones(50)).tolist()) == {0, 1, 8, 9}
    assert found.status == "structure, but not classes"
    assert "at least 5 columns are needed" in found.advice


def test_one_column_that_never_errs_does_not_hide_the_others():
    rng = np.random.default_rng(28)
    T, y = 2 * rng.beta(0.3, 0.3, (2, 50)) - 1, rng.integers(2, size=600)
    x = np.where(rng.random((600, 50)) < (1 + T[y]) / 2, 1, -1)
    x[:, 7] = 2 * y - 1
    found, fit = verdict(x)
    assert len(carrying(fit, np.where(np.arange(50) == 7, 1e-3, 0.5))) > 5
    assert found.status == "ok", found


def test_replicas_keep_the_gaps_and_the_form():
    T, _, x = classes(2, 30, 200, 25, missing=0.4)
    shares = np.array([0.5, 0.5])
    replica = unpack(drawn(pack_masked(x), T, shares, seed=1, number=3))
    np.testing.assert_array_equal(replica == 0, x == 0)
    assert (np.abs(replica).sum(0) == np.abs(x).sum(0)).all()
    bits = drawn(pack(np.where(x < 0, -1, 1)), T, shares, seed=1)
    assert not bits.gaps
    assert bits.shape == x.shape
    assert abs(unpack(bits, dtype=float).mean(0) - T.mean(0)).max() < 0.35


@pytest.mark.slow
def test_too_few_rows_are_told_from_another_structure():
    _, _, x = classes(12, 240, 720, 20, shape=(5, 5), missing=0.7)
    shown = whiten([x]).spectrum.vectors.shape[1]
    assert shown > 1
    found = judged(*fitted(x), shown)
    assert found.status != "ok"
    assert found.advice.endswith("give more rows.")


def test_replicas_are_fitted_until_hardly_anything_is_gained():
    for shape, missing in ((1, 1), 0.0), ((3, 3), 0.5):
        _, _, x = classes(2, 40, 800, 30, shape=shape, missing=missing)
        owners, fit = fitted(x)
        for table, sums in (replica(owners, fit, b) for b in range(3)):
            better = improve(table, expect(table, table.heard, fit.prior), 200, 1e-3)
            assert better.sums.log_likelihood - sums.log_likelihood < 3
