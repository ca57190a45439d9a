"""Schedules and streams: shares on the simplex; a draw depends on its name alone."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hopfed.errors import ArgumentError
from hopfed.hopfield.channel import rademacher
from hopfed.hopfield.stream import (
    ArchetypeStream,
    client_mixtures,
    cyclic,
    novelty_ramp,
    sequential,
    supports,
)

seeds, fractions = st.integers(0, 2**32), st.floats(0, 1)
K, N, T, L = 4, 30, 3, 2
XI = rademacher(K, N, np.random.default_rng(0))


def federation(sizes=20, qualities=0.8, seed=5, mixtures=None):
    if mixtures is None:
        mixture = np.random.default_rng(seed).dirichlet(np.ones(K), T)
        mixtures = client_mixtures(mixture, supports(K, L, 0.75, seed))
    return ArchetypeStream(XI, mixtures, sizes, qualities, seed)


@given(st.integers(2, 9), st.integers(9, 40), fractions, st.data())
def test_rows_lie_on_the_simplex(K, rounds, overlap, data):
    old, at, ramp = (data.draw(st.integers(1, most)) for most in (K - 1, rounds - 1, 50))
    for rows in (
        sequential(K, rounds, overlap),
        cyclic(K, rounds, data.draw(st.integers(K, 50)), overlap),
        novelty_ramp(old, K, rounds, at, ramp),
    ):
        assert rows.shape == (rounds, K)
        assert (rows >= 0).all()
        np.testing.assert_allclose(rows.sum(axis=1), 1, rtol=0, atol=1e-12)


@given(st.integers(1, 8), st.integers(1, 6), fractions)
def test_sequential_gives_every_archetype_its_turn(K, length, overlap):
    rows = sequential(K, K * length, overlap)
    lead = rows.argmax(axis=1)
    assert (np.diff(lead) >= 0).all()
    assert set(lead) == set(range(K))
    # What one gives at a border the other gets: equal in sum, and the same read from the end.
    np.testing.assert_allclose(rows.mean(axis=0), 1 / K, atol=1e-12)
    np.testing.assert_allclose(rows[::-1, ::-1], rows, atol=1e-12)


@given(st.integers(1, 6), st.integers(1, 5), fractions)
def test_cyclic_comes_round_again(K, length, overlap):
    period = K * length
    rows = cyclic(K, 3 * period, period, overlap)
    np.testing.assert_array_equal(rows[period:], rows[:-period])
    # A turn later the next archetype stands where this one stood.
    np.testing.assert_allclose(np.roll(rows, 1, axis=1)[:-length], rows[length:], atol=1e-12)
    hard = cyclic(K, period, period, overlap=0.0)
    np.testing.assert_array_equal(hard, sequential(K, period, overlap=0.0))


@given(st.integers(1, 5), st.integers(1, 5), st.integers(1, 20), st.integers(1, 10))
def test_the_novelty_ramp_is_monotone_and_ends_in_equal_shares(old, new, at, ramp):
    K, rounds = old + new, at + ramp + 3
    rows = novelty_ramp(old, K, rounds, at, ramp)
    assert (rows[:at, old:] == 0).all()
    np.testing.assert_allclose(rows[:at, :old], 1 / old)
    np.testing.assert_allclose(np.diff(rows[at - 1 : at + ramp, old:], axis=0), 1 / (K * ramp))
    np.testing.assert_allclose(rows[at + ramp - 1 :], 1 / K, rtol=1e-12)


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
    shares = client_mixtures(mixture, held)
    assert shares.shape == (T, clients, K)
    np.testing.assert_allclose(shares.sum(axis=2), 1, atol=1e-12)
    assert (shares[:, ~held] == 0).all()
    # Proportions between what a client holds are those of the round.
    own = mixture[:, None] * held
    np.testing.assert_allclose(shares * own.sum(axis=2, keepdims=True), own, atol=1e-12)


def test_the_order_of_calls_and_the_number_of_clients_change_nothing():
    data = federation()
    cells = [(t, c) for t in range(T) for c in range(L)]
    forward = {cell: data.examples(*cell) for cell in cells}
    data.labels(0, 0)
    for cell in reversed(cells):
        np.testing.assert_array_equal(data.examples(*cell), forward[cell])
    fewer = federation(mixtures=data.mixtures[:2, :1])
    np.testing.assert_array_equal(fewer.examples(1, 0), forward[1, 0])
    np.testing.assert_array_equal(fewer.examples(np.int32(1), np.int64(0)), forward[1, 0])


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: federation().examples(T, 0), "round must be in 0 .. 2, got 3"),
        (lambda: federation(qualities=1.2), "qualities must be a number in [0, 1]"),
        (lambda: federation(mixtures=np.ones((T, L, K))), "mixtures must be rows of shares"),
        (lambda: supports(10, 3, 0.2, 0), "share must be large enough for 3 clients of 2 to cover"),
        (lambda: client_mixtures(np.ones((1, 2)), np.ones((1, 2))), "supports must be bool"),
        (lambda: sequential(4, 3), "rounds must be at least one for each of 4"),
        (lambda: cyclic(3, 9, period=2), "period must be at least K = 3, got 2"),
        (lambda: novelty_ramp(3, 6, 12, 12, 4), "at must be below the number of rounds, 12"),
    ],
)
def test_bad_input_is_named_in_one_line(build, message):
    with pytest.raises(ArgumentError) as error:
        build()
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_exposures_are_those_of_the_draw():
    data = federation(sizes=np.array([[10, 30], [0, 5], [0, 0]]))
    counts = sum(np.bincount(data.labels(0, c), minlength=K) for c in range(L))
    np.testing.assert_allclose(data.pooled_exposures(0), counts / 40, rtol=1e-12)
    np.testing.assert_array_equal(data.pooled_exposures(2), 0)
    assert data.examples(2, 0).shape == (0, N)


def test_every_client_has_its_own_quality():
    data = federation(sizes=2_000, qualities=(0.9, 0.0))
    for c, r in enumerate(data.qualities):
        agree = (data.examples(0, c) * XI[data.labels(0, c)]).mean()
        assert abs(agree - r) < 5 * np.sqrt((1 - r**2) / (2_000 * N))
