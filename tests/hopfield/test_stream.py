"""Streams: supports, mixtures and budgets keep their laws; a draw depends on its name alone."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hopfed.errors import ArgumentError
from hopfed.hopfield.channel import rademacher
from hopfed.hopfield.stream import (
    ArchetypeStream,
    budget,
    client_mixtures,
    exposures,
    supports,
)

seeds = st.integers(0, 2**32)
K, N, T, L = 4, 30, 3, 2
XI = rademacher(K, N, np.random.default_rng(0))


def federation(sizes=20, qualities=0.8, seed=5, mixtures=None):
    if mixtures is None:
        mixture = np.random.default_rng(seed).dirichlet(np.ones(K), T)
        mixtures = client_mixtures(mixture, supports(K, L, 0.75, seed), seed=seed)
    return ArchetypeStream(XI, mixtures, sizes, qualities, seed)


@given(st.integers(1, 12), st.integers(1, 12), st.floats(0.01, 1), seeds)
def test_supports_are_of_one_size_and_cover_everything(K, clients, share, seed):
    size = math.ceil(share * K)
    assume(size * clients >= K and size - share * K < 0.999)
    held = supports(K, clients, share, seed)
    assert held.shape == (clients, K)
    assert held.dtype == bool
    assert (held.sum(axis=1) == size).all()
    assert held.any(axis=0).all()
    np.testing.assert_array_equal(held, supports(K, clients, share, seed))


@given(st.integers(1, 8), st.integers(1, 5), st.integers(1, 6), st.floats(0, 1), seeds)
def test_client_mixtures_are_the_round_mixture_seen_through_the_supports(K, clients, T, more, seed):
    held = supports(K, clients, max(1 / clients, more), seed)
    mixture = np.random.default_rng(seed).dirichlet(np.ones(K), T)
    shares = client_mixtures(mixture, held, seed=seed)
    assert shares.shape == (T, clients, K)
    np.testing.assert_allclose(shares.sum(axis=2), 1, atol=1e-12)
    assert (shares[:, ~held] == 0).all()
    # Proportions between what a client holds are those of the round.
    own = mixture[:, None] * held
    np.testing.assert_allclose(shares * own.sum(axis=2, keepdims=True), own, atol=1e-12)


@pytest.mark.parametrize("concentration", [0.01, 1.0, 50.0])
def test_scatter_is_dirichlet_around_the_restricted_mixture(concentration):
    T = 1_000
    mixture = np.tile([0.5, 0.3, 0.2, 0.0], (T, 1))
    held = np.array([[True, True, True, True], [False, True, True, True]])
    exact = client_mixtures(mixture, held, seed=0)[0]
    shares = client_mixtures(mixture, held, concentration=concentration, seed=1)
    np.testing.assert_allclose(shares.sum(axis=2), 1, atol=1e-12)
    assert (shares[:, exact == 0] == 0).all()
    error = 5 * np.sqrt(exact * (1 - exact) / (concentration + 1) / T)
    assert (np.abs(shares.mean(axis=0) - exact) <= error + 1e-12).all()
    variance = exact * (1 - exact) / (concentration + 1)
    np.testing.assert_allclose(shares.var(axis=0), variance, rtol=0.3, atol=1e-12)


@given(st.integers(1, 10), st.integers(1, 10), st.integers(0, 10_000))
def test_a_budget_is_spent_evenly_and_to_the_last_example(rounds, clients, spare):
    total = rounds * clients + spare
    sizes = budget(total, rounds, clients)
    assert sizes.shape == (rounds, clients)
    assert sizes.dtype == np.int64
    assert sizes.sum() == total
    assert sizes.min() >= 1
    assert np.ptp(sizes) <= 1


def test_exposures_weigh_clients_alike():
    labels = [np.zeros(99, int), np.array([1]), np.array([], int)]
    np.testing.assert_array_equal(exposures(labels, 3), [0.5, 0.5, 0])
    np.testing.assert_array_equal(exposures([np.array([], int)], 2), [0, 0])
    with pytest.raises(ArgumentError, match="labels must be below K = 2, got 5"):
        exposures([np.array([5]), np.array([0])], 2)


def test_the_order_of_calls_and_the_number_of_clients_change_nothing():
    data = federation()
    cells = [(t, c) for t in range(T) for c in range(L)]
    forward = {cell: data.examples(*cell) for cell in cells}
    data.labels(0, 0)
    data.exposures(1)
    for cell in reversed(cells):
        np.testing.assert_array_equal(data.examples(*cell), forward[cell])
    fewer = federation(mixtures=data.mixtures[:2, :1])
    np.testing.assert_array_equal(fewer.examples(1, 0), forward[1, 0])
    np.testing.assert_array_equal(fewer.examples(np.int32(1), np.int64(0)), forward[1, 0])


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: federation().examples(T, 0), "round must be in 0 .. 2, got 3"),
        (lambda: federation(sizes=1.5), "sample_sizes must be a whole number"),
        (lambda: federation(qualities=1.2), "qualities must be a number in [0, 1]"),
        (lambda: federation(mixtures=np.ones((T, L, K))), "mixtures must be rows of shares"),
        (lambda: ArchetypeStream(XI * 1.0, np.ones((1, 1, K)), 1, 1, 0), "archetypes must be int8"),
        (lambda: supports(10, 3, 0.2, 0), "share must be large enough for 3 clients of 2 to cover"),
        (lambda: budget(5, 2, 3), "total must be at least 6, one each, got 5"),
        (
            lambda: client_mixtures(np.ones((1, 2)), np.ones((1, 2)), seed=0),
            "supports must be bool",
        ),
    ],
)
def test_bad_input_is_named_in_one_line(build, message):
    with pytest.raises(ArgumentError) as error:
        build()
    assert message in str(error.value)
    assert "\n" not in str(error.value)


K, N, T, L = 4, 30, 3, 2


def test_exposures_are_those_of_the_draw_and_near_the_mixture():
    sizes = np.array([[10, 30], [0, 5], [0, 0]])
    data = federation(sizes=sizes)
    counts = np.array(
        [[np.bincount(data.labels(t, c), minlength=K) for c in range(L)] for t in range(T)]
    )
    np.testing.assert_array_equal(counts.sum(axis=2), sizes)
    mean = (counts[0] / sizes[0][:, None]).mean(axis=0)
    np.testing.assert_allclose(data.exposures(0), mean, rtol=1e-12)
    np.testing.assert_allclose(data.pooled_exposures(0), counts[0].sum(axis=0) / 40, rtol=1e-12)
    np.testing.assert_allclose(data.exposures(1), counts[1, 1] / 5, rtol=1e-12)
    np.testing.assert_array_equal(data.exposures(2), 0)
    np.testing.assert_array_equal(data.pooled_exposures(2), 0)
    assert data.examples(2, 0).shape == (0, N)

    many = federation(sizes=50_000)
    np.testing.assert_allclose(many.exposures(1), many.mixtures[1].mean(axis=0), atol=0.01)
