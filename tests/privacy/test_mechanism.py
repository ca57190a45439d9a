"""Operators with noise: its scale, what is refused, and what is counted beside it."""

import json
import sys

import numpy as np
import pytest
from helpers import sample
from hypothesis import given
from hypothesis import strategies as st

from hopfed.errors import ArgumentError, BackendError
from hopfed.privacy.mechanism import GaussianMechanism, accountant, noisy
from hopfed.privacy.recover import PrivateTracyWidom, private_spectrum
from hopfed.spectral.eigenpairs import eigenpairs
from hopfed.spectral.noise import Sample
from hopfed.spectral.operators import DenseOperator, pool
from hopfed.spectral.rank import TracyWidom
from hopfed.theory import private

MECHANISM = GaussianMechanism(epsilon=1.0, delta=1e-5)
Z = MECHANISM.noise_multiplier


def operator(N=60, M=300, quality=0.6, seed=0, K=2):
    return DenseOperator.from_examples(sample(K, N, M, quality, seed)[1])


def released(change):
    """Vector that the noise covers: entries above the diagonal."""
    return change[np.triu_indices(len(change), 1)]


@given(N=st.integers(2, 40), seed=st.integers(0, 10**6))
def test_no_replaced_example_changes_more_than_the_sensitivity(N, seed):
    x, y = np.random.default_rng(seed).choice([-1.0, 1.0], size=(2, N))
    change = np.outer(x, x) - np.outer(y, y)
    assert (np.diag(change) == 0).all()
    assert np.linalg.norm(released(change)) <= MECHANISM.sensitivity(N) * (1 + 1e-12)


def test_noise_is_symmetric_of_the_calibrated_scale_and_spares_the_diagonal():
    own = operator(N=200)
    got = noisy(own, MECHANISM, np.random.default_rng(1))
    draw = got.matrix - own.matrix
    np.testing.assert_array_equal(draw, draw.T)
    np.testing.assert_array_equal(np.diag(got.matrix), 300.0)
    assert got.noise == pytest.approx((Z * 200) ** 2)
    assert np.std(released(draw)) == pytest.approx(Z * 200, rel=0.03)  # 6 standard errors
    assert abs(np.mean(released(draw))) < 4 * Z * 200 / np.sqrt(200 * 199 / 2)
    assert np.linalg.eigvalsh(draw / got.mass)[-1] == pytest.approx(got.radius, rel=0.05)
    assert got.trace == 200.0


def test_pooled_noise_has_the_predicted_radius():
    owners = [operator(seed=s) for s in range(5)]
    rng = np.random.default_rng(2)
    pooled = pool([noisy(own, MECHANISM, rng) for own in owners])
    assert pooled.radius == pytest.approx(float(private.noise_radius(Z, 60, 1500, clients=5)))
    assert (pooled * 0.1).radius == pytest.approx(pooled.radius)
    draw = pooled.matrix - pool(owners).matrix
    assert np.std(released(draw)) == pytest.approx(np.sqrt(pooled.noise), rel=0.1)
    with pytest.raises(ArgumentError, match="one form"):
        pooled + owners[0]


def clipped(clip, N=300):
    """The operator of real rows that are no longer than clip sqrt N."""
    rows = np.random.default_rng(3).standard_normal((400, N))
    norm = np.linalg.norm(rows, axis=1, keepdims=True)
    x = rows / np.maximum(norm / (clip * np.sqrt(N)), 1.0)
    return DenseOperator(N, float(len(x)), float(len(x)), x.T @ x)


def test_rows_that_are_not_signs_get_noise_on_the_diagonal_too():
    own = clipped(0.5)
    got = noisy(own, GaussianMechanism(1.0, 1e-5, clip=0.5), np.random.default_rng(4))
    draw, scale = got.matrix - own.matrix, Z * 300 * 0.25
    assert np.std(released(draw)) == pytest.approx(scale, rel=0.03)
    assert np.std(np.diag(draw)) == pytest.approx(np.sqrt(2) * scale, rel=0.2)


def test_operators_and_budgets_that_must_not_be_are_refused():
    rng = np.random.default_rng(0)
    for own, mechanism, words in (
        (noisy(operator(), MECHANISM, rng), MECHANISM, "one without noise"),
        (operator() * 0.5, MECHANISM, "weight one"),
        (clipped(2.0), MECHANISM, r"rows no longer|\+-1 examples"),
        (clipped(2.0), GaussianMechanism(1.0, 1e-5, clip=0.1), "rows no longer"),
    ):
        with pytest.raises(ArgumentError, match=words):
            noisy(own, mechanism, rng)
    for wrong in ({"epsilon": 0.0}, {"delta": 1.0}, {"clip": 0.0}):
        with pytest.raises(ArgumentError, match=next(iter(wrong))):
            GaussianMechanism(**({"epsilon": 1.0, "delta": 1e-5} | wrong))


@pytest.mark.parametrize(("epsilon", "rounds"), [(0.5, 1), (2.0, 100)])
def test_the_library_agrees_with_the_closed_form(epsilon, rounds, monkeypatch):
    pytest.importorskip("dp_accounting")
    z = private.noise_multiplier(epsilon, 1e-5, rounds)
    assert accountant(z, rounds, delta=1e-5) == pytest.approx(epsilon, rel=1e-4)
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(BackendError, match=r"pip install 'hopfed\[privacy\]'"):
        accountant(1.0, delta=1e-5)


def test_without_noise_the_count_is_that_of_the_clean_rule():
    for seed in range(2):
        own = operator(N=150, M=400, quality=0.7, seed=seed, K=4)
        held = Sample(eigenpairs(own, 0).values, 150, 400)
        clean, got = TracyWidom(0.01)(held), PrivateTracyWidom(0.01)(held)
        assert got.n_detected == clean.n_detected == 4
        for name in ("variance", "strengths", "overlaps", "threshold"):
            np.testing.assert_allclose(getattr(got, name), getattr(clean, name), rtol=1e-3)


def test_false_alarms_beside_noise_near_the_stated_rate():
    # 40 nulls at 20%: two and a half standard errors are 16 points.
    alarms = 0
    for seed in range(40):
        own = operator(N=50, M=150, quality=0.0, seed=seed, K=1)
        got = noisy(own, GaussianMechanism(2.0, 1e-5), np.random.default_rng(seed))
        alarms += private_spectrum(got, 0.2)[1].n_detected > 0
    assert 0.04 < alarms / 40 < 0.36


def test_spikes_are_debiased_for_the_noise():
    own = operator(150, 30_000, 0.5, 1, K=1)
    rank = private_spectrum(noisy(own, MECHANISM, np.random.default_rng(9)))[1]
    assert rank.n_detected == 1
    assert rank.quality == pytest.approx(0.5, abs=0.02)
    assert rank.variance * rank.strengths[0] == pytest.approx(150 * 0.25, rel=0.05)


def test_the_plan_with_privacy_is_that_of_theory(hopfed):
    line = "--r 0.4 --N 60 --exposure 0.5 --epsilon 1 --delta 1e-6 --clients 20 --rounds 4 --json"
    got = json.loads(hopfed.done("theory", "plan", *line.split())[0])
    z = private.noise_multiplier(1.0, 1e-6, 4)
    want = private.plan(0.4, [0.5], 60, z, 20)
    assert [row["M"] for row in got["private_plan"]] == want.samples.tolist()
    about = {"epsilon": 1.0, "delta": 1e-6, "clients": 20, "rounds": 4, "noise_multiplier": z}
    assert got["privacy"][0] == about
    text = hopfed.done("theory", "plan", *line.split()[:-1])[0]
    assert "after epsilon  from operators with noise" in text
    assert "private_plan" not in text
