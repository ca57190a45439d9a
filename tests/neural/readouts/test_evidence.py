"""Ridge and rank from the spectrum: exact formulas, and how near they come to what is best."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from hopfed.federation.engines.local import LocalEngine  # noqa: E402
from hopfed.federation.rounds import play_round  # noqa: E402
from hopfed.hopfield.channel import draw_examples, rademacher  # noqa: E402
from hopfed.kernels import pack  # noqa: E402
from hopfed.neural.methods.hebbian import Hebbian  # noqa: E402
from hopfed.neural.readouts.evidence import best_ridge, count, log_evidence, predicted_error  # noqa: E402
from hopfed.neural.readouts.ridge import Spectrum, Sums  # noqa: E402
from hopfed.neural.training.task import TaskSpec  # noqa: E402


def drawn(n, width, classes=3, seed=0, flip=0.1):
    """Bits, and labels that a few of them tell."""
    rng = np.random.default_rng(seed)
    z = np.where(rng.random((n, width)) < 0.5, 1, -1).astype(np.int8)
    z[:, -1] = 1
    told = (z[:, :5] @ rng.standard_normal((5, classes))).argmax(axis=1)
    return z, np.where(rng.random(n) < flip, rng.integers(classes, size=n), told)


def spectrum(z, y, classes=3):
    return Spectrum.of(Sums.of(pack(z), y, classes))


@pytest.mark.parametrize("n", [60, 15])  # more examples than bits, and fewer
def test_the_evidence_is_that_of_the_gaussian_model(n):
    z, y = drawn(n, 20)
    Y, rho = np.eye(3)[y], 0.4
    # Labels are Gaussian with covariance s2 (1 + Z Z^T / (rho n)), s2 the best one.
    K = np.eye(n) + z.astype(float) @ z.T / (rho * n)
    s2 = (Y * np.linalg.solve(K, Y)).sum() / (3 * n)
    sign, logdet = np.linalg.slogdet(2 * np.pi * s2 * K)
    wanted = -0.5 * (3 * logdet + (Y * np.linalg.solve(s2 * K, Y)).sum())
    assert sign == 1
    np.testing.assert_allclose(log_evidence(spectrum(z, y), rho), wanted, rtol=1e-10)


@pytest.mark.parametrize("n", [60, 15])
def test_cross_validation_is_the_formula_of_the_smoother(n):
    z, y = drawn(n, 20)
    Y, rho = np.eye(3)[y], 0.4
    z = z.astype(float)
    smoother = z @ np.linalg.solve(z.T @ z + rho * n * np.eye(20), z.T)
    residual = ((Y - smoother @ Y) ** 2).sum()
    wanted = n * residual / np.trace(np.eye(n) - smoother) ** 2
    np.testing.assert_allclose(predicted_error(spectrum(z.astype(np.int8), y), rho), wanted)


@pytest.mark.parametrize("rule", ["evidence", "gcv"])
def test_the_ridge_is_nearly_as_good_as_the_best_for_new_examples(rule):
    z, y = drawn(4000, 60)
    seen = spectrum(z[:150], y[:150])

    def error(rho):
        scores = z[150:].astype(float) @ seen.readouts((rho,))[0]
        return ((scores - np.eye(3)[y[150:]]) ** 2).sum(axis=1).mean()

    best = min(error(rho) for rho in np.geomspace(1e-3, 1e2, 40))
    assert error(best_ridge(seen, rule)) < 1.03 * best
    assert error(1e-3) > 1.1 * best  # so there was something to choose


def test_what_pooling_gains_is_predicted_in_squared_error():
    """From the spectra alone, of few examples and of ten times as many."""
    z, y = drawn(8000, 60, flip=0.2)
    found = {}
    for n in (200, 2000):
        seen = spectrum(z[:n], y[:n])
        rho = best_ridge(seen, "gcv")
        scores = z[2000:].astype(float) @ seen.readouts((rho,))[0]
        measured = ((scores - np.eye(3)[y[2000:]]) ** 2).sum(axis=1).mean()
        found[n] = predicted_error(seen, rho), measured
    predicted, measured = (found[200][i] - found[2000][i] for i in (0, 1))
    assert measured > 0.05
    assert 0.6 < predicted / measured < 1.6


@pytest.mark.parametrize("rule", ["tracy-widom", "marchenko-pastur"])
def test_the_count_is_that_of_the_patterns(rule):
    rng = np.random.default_rng(0)
    z = draw_examples(rademacher(4, 80, rng), 600, 0.7, rng)[0]
    seen = spectrum(z, rng.integers(3, size=600))
    assert count(seen, rule) == 4
    few = seen.leading(4)
    assert few.readouts((1.0,)).shape == (1, 80, 3)
    # Nothing of it points out of the leading directions.
    W = few.readouts((1.0,))[0]
    np.testing.assert_allclose(few.vectors @ (few.vectors.T @ W), W, atol=1e-12)


@pytest.mark.parametrize(
    "own", [{"ridge": "evidence"}, {"ridge": "gcv"}, {"ridge": "gcv", "rank": "tracy-widom"}]
)
def test_a_federation_without_a_grid_of_ridges(own, one_thread):
    task = TaskSpec(models=("mlp",), clients=3, examples=400)
    method = Hebbian(task, filters=8, **own)
    played = play_round(method, None, 0, seed=0, clients=3, engine=LocalEngine())
    down = played.state.down.get(-1)
    choice = method.choices()[int(down["choice"])]
    assert choice.ridge == 0
    pooled = Spectrum.of(method.pooled_sums(down))
    if "rank" in own:
        pooled = pooled.leading(count(pooled, "tracy-widom"))
    wanted = pooled.readouts((best_ridge(pooled, own["ridge"]),))
    found = method._readouts(down, method.pooled_sums(down), None, 0.0, (0.0,), 0)
    np.testing.assert_allclose(found, wanted, atol=1e-12)
    whole = Hebbian(task, filters=8)
    assert len(whole.choices()) == 4 * len(method.choices())


def test_no_examples_have_no_ridge():
    empty = spectrum(np.zeros((0, 8), np.int8), np.zeros(0, np.int64))
    assert best_ridge(empty, "gcv") == 1.0
    assert count(empty, "tracy-widom") == 0
    assert not empty.readouts((1.0,)).any()
