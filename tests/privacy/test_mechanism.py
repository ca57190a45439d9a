import json
import sys

import numpy as np
import pytest
from helpers import sample
from hypothesis import given
from hypothesis import strategies as st

from hopfed.errors import ArgumentError, BackendError
from hopfed.privacy.mechanism import (
    GaussianMechanism,
    accountant,
    noisy,
)
from hopfed.privacy.recover import PrivateTracyWidom, private_spectrum
from hopfed.spectral.eigenpairs import eigenpairs
from hopfed.spectral.noise import Sample
from hopfed.spectral.operators import DenseOperator, pool
from hopfed.spectral.rank import TracyWidom
from hopfed.theory import private

MECHANISM = GaussianMechanism(epsilon=1.0, delta=1e-5)


def operator(N=60, M=300, quality=0.6, seed=0, K=2):
    return DenseOperator.from_examples(sample(K, N, M, quality, seed)[1])


def released(change, diagonal=False):
    """Vector that the noise covers: entries above the diagonal, and it over sqrt 2 if sent."""
    upper = change[np.triu_indices(len(change), 1)]
    return np.append(upper, np.diag(change) / np.sqrt(2)) if diagonal else upper


def clipped(rows, clip):
    """The operator of real rows that are no longer than clip sqrt N."""
    norm = np.linalg.norm(rows, axis=1, keepdims=True)
    x = rows / np.maximum(norm / (clip * np.sqrt(rows.shape[1])), 1.0)
    return DenseOperator(x.shape[1], float(len(x)), float(len(x)), x.T @ x)


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
    upper = released(draw)
    scale = MECHANISM.noise_multiplier * 200
    assert got.noise == pytest.approx(scale**2)
    assert np.std(upper) == pytest.approx(scale, rel=0.03)  # 19,900 entries: 6 standard errors
    assert abs(np.mean(upper)) < 4 * scale / np.sqrt(upper.size)
    top = np.linalg.eigvalsh(draw / got.mass)[-1]
    assert top == pytest.approx(got.radius, rel=0.05)
    assert got.trace == 200.0


def test_pooled_noise_has_the_predicted_radius():
    owners = [operator(seed=s) for s in range(5)]
    rng = np.random.default_rng(2)
    pooled = pool([noisy(own, MECHANISM, rng) for own in owners])
    z = MECHANISM.noise_multiplier
    assert pooled.radius == pytest.approx(float(private.noise_radius(z, 60, 1500, clients=5)))
    assert (pooled * 0.1).radius == pytest.approx(pooled.radius)
    draw = pooled.matrix - pool(owners).matrix
    assert np.std(released(draw)) == pytest.approx(np.sqrt(pooled.noise), rel=0.1)
    with pytest.raises(ArgumentError, match="one form"):
        pooled + owners[0]


def test_rows_that_are_not_signs_get_noise_on_the_diagonal_too():
    rows = np.random.default_rng(3).standard_normal((400, 300))
    own = clipped(rows, 0.5)
    mechanism = GaussianMechanism(1.0, 1e-5, clip=0.5)
    got = noisy(own, mechanism, np.random.default_rng(4))
    draw = got.matrix - own.matrix
    scale = MECHANISM.noise_multiplier * 300 * 0.25
    assert np.std(released(draw)) == pytest.approx(scale, rel=0.03)
    assert np.std(np.diag(draw)) == pytest.approx(np.sqrt(2) * scale, rel=0.2)


@pytest.mark.parametrize(("epsilon", "rounds"), [(0.5, 1), (2.0, 100)])
def test_the_library_agrees_with_the_closed_form(epsilon, rounds):
    pytest.importorskip("dp_accounting")
    z = private.noise_multiplier(epsilon, 1e-5, rounds)
    assert accountant(z, rounds, delta=1e-5) == pytest.approx(epsilon, rel=1e-4)


def test_a_missing_accountant_names_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(BackendError, match=r"pip install 'hopfed\[privacy\]'"):
        accountant(1.0, delta=1e-5)


def test_without_noise_the_count_is_that_of_the_clean_rule():
    for seed in range(2):
        own = operator(N=150, M=400, quality=0.7, seed=seed, K=4)
        values = eigenpairs(own, 0).values
        clean, got = (
            rule(Sample(values, 150, 400)) for rule in (TracyWidom(0.01), PrivateTracyWidom(0.01))
        )
        assert got.n_detected == clean.n_detected == 4
        assert got.variance == pytest.approx(clean.variance, abs=1e-4)
        np.testing.assert_allclose(got.strengths, clean.strengths, rtol=1e-3)
        np.testing.assert_allclose(got.overlaps, clean.overlaps, rtol=1e-3)
        assert got.threshold == pytest.approx(clean.threshold, rel=1e-3)


def test_false_alarms_beside_noise_near_the_stated_rate():
    # 40 nulls at 20%: two and a half standard errors are 16 points.
    alarms = 0
    for seed in range(40):
        own = operator(N=50, M=150, quality=0.0, seed=seed, K=1)
        got = noisy(own, GaussianMechanism(2.0, 1e-5), np.random.default_rng(seed))
        alarms += private_spectrum(got, 0.2)[1].n_detected > 0
    assert 0.04 < alarms / 40 < 0.36


def test_spikes_are_debiased_for_the_noise():
    xi, x = sample(1, 150, 30_000, 0.5, 1)
    got = noisy(DenseOperator.from_examples(x), MECHANISM, np.random.default_rng(9))
    rank = private_spectrum(got)[1]
    assert rank.n_detected == 1
    assert rank.quality == pytest.approx(0.5, abs=0.02)
    assert rank.variance * rank.strengths[0] == pytest.approx(150 * 0.25, rel=0.05)


def test_a_mechanism_that_breaks_a_rule_is_named():
    for wrong in ({"epsilon": 0.0}, {"delta": 1.0}, {"clip": 0.0}):
        with pytest.raises(ArgumentError, match=next(iter(wrong))):
            GaussianMechanism(**({"epsilon": 1.0, "delta": 1e-5} | wrong))


def test_operators_that_must_not_be_released_are_refused():
    rng = np.random.default_rng(0)
    with pytest.raises(ArgumentError, match="one without noise"):
        noisy(noisy(operator(), MECHANISM, rng), MECHANISM, rng)
    with pytest.raises(ArgumentError, match="weight one"):
        noisy(operator() * 0.5, MECHANISM, rng)
    real = clipped(rng.standard_normal((50, 60)), 2.0)
    with pytest.raises(ArgumentError, match=r"rows no longer|\+-1 examples"):
        noisy(real, MECHANISM, rng)
    with pytest.raises(ArgumentError, match="rows no longer"):
        noisy(real, GaussianMechanism(1.0, 1e-5, clip=0.1), rng)


def test_the_plan_with_privacy_is_that_of_theory(hopfed):
    line = "--r 0.4 --N 60 --exposure 0.5 --epsilon 1 --delta 1e-6 --clients 20 --rounds 4 --json"
    status, out, err = hopfed("theory", "plan", *line.split())
    assert (status, err) == (0, "")
    got = json.loads(out)
    z = private.noise_multiplier(1.0, 1e-6, 4)
    want = private.plan(0.4, [0.5], 60, z, 20)
    assert [row["M"] for row in got["private_plan"]] == want.samples.tolist()
    assert got["privacy"][0] == {
        "epsilon": 1.0,
        "delta": 1e-6,
        "clients": 20,
        "rounds": 4,
        "noise_multiplier": z,
    }
