"""Schedules: rows on the simplex, shapes as their docstrings say."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopfed.errors import ArgumentError
from hopfed.hopfield.stream import cyclic, novelty_ramp, sequential

fractions = st.floats(0, 1)


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


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: sequential(4, 3), "rounds must be at least one for each of 4"),
        (lambda: sequential(3, 9, 1.5), "overlap must be in [0, 1], got 1.5"),
        (lambda: cyclic(3, 9, period=2), "period must be at least K = 3, got 2"),
        (lambda: novelty_ramp(3, 6, 12, 12, 4), "at must be below the number of rounds, 12"),
    ],
)
def test_a_bad_setting_is_named_in_one_line(build, message):
    with pytest.raises(ArgumentError) as error:
        build()
    assert message in str(error.value)
    assert "\n" not in str(error.value)
