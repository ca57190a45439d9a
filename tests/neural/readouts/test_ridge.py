"""Read-outs and ridges from sums, and what examples of a client are worth to another one."""

import numpy as np
import pytest
from asked import play
from hypothesis import given, settings
from hypothesis import strategies as st

from hopfed.memory.rules import dream
from hopfed.neural.methods.hebbian import Hebbian
from hopfed.neural.readouts.ridge import Spectrum, Sums, best_ridge, predicted_error, worth
from hopfed.neural.training.task import TaskSpec


def signs(rng, *shape):
    return np.where(rng.random(shape) < 0.5, 1, -1).astype(np.int8)


def drawn(n, width, classes=3, seed=0, flip=0.1):
    """Bits, and labels that a few of them tell."""
    rng = np.random.default_rng(seed)
    z = signs(rng, n, width)
    z[:, -1] = 1
    told = (z[:, :5] @ rng.standard_normal((5, classes))).argmax(axis=1)
    return z, np.where(rng.random(n) < flip, rng.integers(classes, size=n), told)


def spectrum(z, y, classes=3):
    return Spectrum.of(Sums.of(z, y, classes))


@given(st.integers(0, 10**6), st.sampled_from([0.1, 1.0, 7.0]), st.integers(1, 12))
@settings(max_examples=25, deadline=None)
def test_a_read_out_is_the_ridge_solution(seed, ridge, width):
    rng = np.random.default_rng(seed)
    z = signs(rng, 30, width)
    y = rng.integers(4, size=30)
    found = Spectrum.of(Sums.of(z, y, 4)).readouts((ridge,))[0]
    z = z.astype(float)
    wanted = np.linalg.solve(z.T @ z + ridge * 30 * np.eye(width), z.T @ np.eye(4)[y])
    np.testing.assert_allclose(found, wanted, atol=1e-10)


def test_a_read_out_is_an_operator_that_has_dreamed():
    """``W = t / D (B - t / (1 + t) J(t) B) / n`` with J = A / (n D) and t = D / rho."""
    rng, rho, D = np.random.default_rng(1), 0.3, 9
    z, y = signs(rng, 40, D), rng.integers(3, size=40)
    sums, t = Sums.of(z, y, 3), D / rho
    B, found = sums.by_class / 40, Spectrum.of(sums).readouts((rho,))[0]
    values, V = np.linalg.eigh(z.T.astype(float) @ z / z.size)
    dreamed = (V * dream(values.clip(0), t)) @ (V.T @ B)
    np.testing.assert_allclose(found, t / D * (B - t / (1 + t) * dreamed), atol=1e-10)


@pytest.mark.parametrize("n", [60, 15])  # more examples than bits, and fewer
def test_cross_validation_is_the_formula_of_the_smoother(n):
    z, y = drawn(n, 20)
    Y, rho = np.eye(3)[y], 0.4
    z = z.astype(float)
    smoother = z @ np.linalg.solve(z.T @ z + rho * n * np.eye(20), z.T)
    residual = ((Y - smoother @ Y) ** 2).sum()
    wanted = n * residual / np.trace(np.eye(n) - smoother) ** 2
    np.testing.assert_allclose(predicted_error(spectrum(z.astype(np.int8), y), rho), wanted)


def test_the_ridge_is_nearly_as_good_as_the_best_for_new_examples():
    z, y = drawn(4000, 60)
    seen = spectrum(z[:150], y[:150])

    def error(rho):
        scores = z[150:].astype(float) @ seen.readouts((rho,))[0]
        return ((scores - np.eye(3)[y[150:]]) ** 2).sum(axis=1).mean()

    best = min(error(rho) for rho in np.geomspace(1e-3, 1e2, 40))
    assert error(best_ridge(seen)) < 1.03 * best
    assert error(1e-3) > 1.1 * best  # so there was something to choose


def test_a_federation_without_a_grid_of_ridges():
    task = TaskSpec(models=("mlp",), clients=3, examples=400)
    method = Hebbian(task, filters=8, ridge="gcv")
    down = play(method).state.down.get(-1)
    assert method.choices()[int(down["choice"])].ridge == 0
    pooled = Spectrum.of(method.pooled_sums(down))
    wanted = pooled.readouts((best_ridge(pooled),))[0]
    weights, _ = method._weights({}, down, 0)
    np.testing.assert_allclose(weights(0.0, 0.0), wanted, atol=1e-12)
    assert len(Hebbian(task, filters=8).choices()) == 4 * len(method.choices())


def test_no_examples_have_no_ridge():
    empty = spectrum(np.zeros((0, 8), np.int8), np.zeros(0, np.int64))
    assert best_ridge(empty) == 1.0
    assert not empty.readouts((1.0,)).any()


D, C = 400, 3


def valued(by_class, counts):
    every = [Sums(np.eye(D) * n.sum(), sums, n) for sums, n in zip(by_class, counts, strict=True)]
    return worth(every)


def sums(rng, rates, counts):
    """Sums by class of bits of one client: 1 with the rates (D, C)."""
    ones = rng.binomial(np.broadcast_to(counts, (D, C)), rates)
    return 2 * ones - counts


def of_kinds(seed, kinds, counts):
    """Clients of the given kinds, each kind with its own rates of the bits."""
    rng = np.random.default_rng(seed)
    rates = rng.random((max(kinds) + 1, D, C))
    found = [sums(rng, rates[kind], n) for kind, n in zip(kinds, counts, strict=True)]
    return np.array(found), np.asarray(counts), rates


@pytest.mark.parametrize("seed", range(5))
def test_clients_of_one_kind_count_whole_and_others_little(seed):
    kinds, counts = [0, 0, 1, 1], np.full((4, C), 60)
    by_class, counts, rates = of_kinds(seed, kinds, counts)
    found = valued(by_class, counts)
    same = np.equal.outer(kinds, kinds)
    assert found[same].min() > 0.85
    means = 2 * rates - 1
    squared, variance = ((means[0] - means[1]) ** 2).sum(), (1 - means**2).sum(axis=(1, 2)).mean()
    np.testing.assert_allclose(found[~same], 1 / (1 + 60 * squared / variance), rtol=0.1)


def test_more_examples_of_another_kind_are_worth_no_more():
    """In all they count for as many as the difference allows: the variance over its square."""
    by_class, counts, _ = of_kinds(0, [0, 1, 1], [[50] * C, [200] * C, [3200] * C])
    found = valued(by_class, counts)
    assert found[0, 1] * 200 == pytest.approx(found[0, 2] * 3200, rel=0.1)


def test_who_shares_no_class_is_not_told_apart():
    by_class, counts, _ = of_kinds(0, [0, 1], [[50, 0, 1], [0, 50, 1]])
    for found in (valued(by_class, counts), valued(by_class[:, :, :1] * 0, counts[:, :1] * 0)):
        np.testing.assert_array_equal(found, np.ones((2, 2)))


def test_labels_alone_do_not_make_clients_unlike():
    rng = np.random.default_rng(1)
    counts = rng.integers(2, 200, size=(6, C))
    by_class, counts, _ = of_kinds(2, [0] * 6, counts)
    assert valued(by_class, counts).min() > 0.8
