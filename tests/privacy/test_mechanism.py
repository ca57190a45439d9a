"""Operators with noise: its scale, what is refused, and what is counted beside it."""

import json
import sys

import numpy as np
import pytest
from helpers import sample

from hopfed.errors import ArgumentError, BackendError
from hopfed.privacy.mechanism import PrivateOperator, accountant, noisy
from hopfed.privacy.recover import private_spectrum
from hopfed.spectral.eigenpairs import eigenpairs
from hopfed.spectral.noise import Sample
from hopfed.spectral.operators import DenseOperator, pool
from hopfed.spectral.rank import TracyWidom
from hopfed.theory import private

Z = private.noise_multiplier(1.0, 1e-5)


def operator(N=60, M=300, quality=0.6, seed=0, K=2):
    return DenseOperator.from_examples(sample(K, N, M, quality, seed)[1])


@pytest.mark.parametrize("diagonal", [False, True])
def test_noise_is_symmetric_of_the_scale_and_on_the_diagonal_where_rows_are_no_signs(diagonal):
    own = operator(N=200)
    got = noisy(own, Z * 200, np.random.default_rng(1), diagonal)
    draw = got.matrix - own.matrix
    np.testing.assert_array_equal(draw, draw.T)
    spread = np.std(np.diag(draw)) / (Z * 200)
    assert spread == (pytest.approx(np.sqrt(2), rel=0.2) if diagonal else 0)
    above = draw[np.triu_indices(200, 1)]
    assert np.std(above) == pytest.approx(Z * 200, rel=0.03)  # 6 standard errors
    assert abs(np.mean(above)) < 4 * Z * 200 / np.sqrt(200 * 199 / 2)
    assert np.linalg.eigvalsh(draw / got.mass)[-1] == pytest.approx(got.radius, rel=0.05)


def test_pooled_noise_has_the_predicted_radius():
    owners = [operator(seed=s) for s in range(5)]
    rng = np.random.default_rng(2)
    pooled = pool([noisy(own, Z * 60, rng) for own in owners])
    assert pooled.radius == pytest.approx(float(private.noise_radius(Z, 60, 1500, clients=5)))
    assert (pooled * 0.1).radius == pytest.approx(pooled.radius)
    draw = (pooled.matrix - pool(owners).matrix)[np.triu_indices(60, 1)]
    assert np.std(draw) == pytest.approx(np.sqrt(pooled.noise), rel=0.1)
    with pytest.raises(ArgumentError, match="one form"):
        pooled + owners[0]
    for own in (pooled, owners[0] * 0.5, DenseOperator(60, 300.0, 300.0, np.eye(60))):
        with pytest.raises(ArgumentError, match=r"operator must be without noise, over \+-1"):
            noisy(own, Z, rng)


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
        clean = TracyWidom(0.01)(Sample(eigenpairs(own, 0).values, 150, 400))
        got = private_spectrum(PrivateOperator(**vars(own)), 0.01)[1]
        assert got.n_detected == clean.n_detected == 4
        for name in ("variance", "strengths", "overlaps", "threshold"):
            np.testing.assert_allclose(getattr(got, name), getattr(clean, name), rtol=1e-3)


def test_false_alarms_beside_noise_near_the_stated_rate_and_spikes_debiased_for_it():
    # 40 nulls at 20%: two and a half standard errors are 16 points.
    alarms, scale = 0, 50 * private.noise_multiplier(2.0, 1e-5)
    for seed in range(40):
        own = operator(N=50, M=150, quality=0.0, seed=seed, K=1)
        got = noisy(own, scale, np.random.default_rng(seed))
        alarms += private_spectrum(got, 0.2)[1].n_detected > 0
    assert 0.04 < alarms / 40 < 0.36
    own = operator(150, 30_000, 0.5, 1, K=1)
    rank = private_spectrum(noisy(own, 150 * Z, np.random.default_rng(9)))[1]
    assert (rank.n_detected, rank.quality) == (1, pytest.approx(0.5, abs=0.02))
    assert rank.variance * rank.strengths[0] == pytest.approx(150 * 0.25, rel=0.05)


def test_the_plan_with_privacy_is_that_of_theory(hopfed):
    line = "--r 0.4 --N 60 --exposure 0.5 --epsilon 1 --delta 1e-6 --clients 20 --rounds 4 --json"
    got = json.loads(hopfed.done("theory", "plan", *line.split())[0])
    z = private.noise_multiplier(1.0, 1e-6, 4)
    want = private.plan(0.4, [0.5], 60, z, 20)
    assert [row["M"] for row in got["private_plan"]] == want.samples.tolist()
    about = {"epsilon": 1.0, "delta": 1e-6, "clients": 20, "rounds": 4, "noise_multiplier": z}
    assert got["privacy"][0] == about
