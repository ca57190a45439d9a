"""Schedules: shares on the simplex, dealt to clients by what these hold."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hopfed.errors import ArgumentError
from hopfed.experiments.shared.schedules import (
    client_mixtures,
    cyclic,
    novelty_ramp,
    sequential,
    supports,
)

seeds = st.integers(0, 2**32)
SIXTH = 1 / 6


@pytest.mark.parametrize(
    ("made", "first"),
    [
        (sequential(2, 6, 0.5), [1, 1, 1 - SIXTH, SIXTH, 0, 0]),
        (cyclic(2, 8, 4, 1.0), [0.75, 0.75, 0.25, 0.25] * 2),  # which follow each other again
        (cyclic(3, 6, 6, 0.0)[:, ::-1], [0, 0, 0, 0, 1, 1]),
        (novelty_ramp(2, 4, 6, 2, 2), [0.5, 0.5, 0.375, 0.25, 0.25, 0.25]),
    ],
)
def test_schedules_by_hand(made, first):
    np.testing.assert_allclose(made[:, 0], first, atol=1e-12)
    np.testing.assert_allclose(made.sum(axis=1), 1, rtol=0, atol=1e-12)
    assert (made >= 0).all()


@given(st.integers(1, 8), st.integers(1, 5), st.integers(1, 6), st.floats(0, 1), seeds)
def test_client_mixtures_are_the_round_mixture_seen_through_the_supports(K, clients, T, more, seed):
    share = max(1 / clients, more)
    size = math.ceil(share * K)
    assume(size - share * K < 0.999)
    held = supports(K, clients, share, seed)
    assert (held.sum(axis=1) == size).all()
    assert held.any(axis=0).all()
    mixture = np.random.default_rng(seed).dirichlet(np.ones(K), T)
    shares = client_mixtures(mixture, held)
    assert shares.shape == (T, clients, K)
    np.testing.assert_allclose(shares.sum(axis=2), 1, atol=1e-12)
    assert (shares[:, ~held] == 0).all()
    # Proportions between what a client holds are those of the round.
    own = mixture[:, None] * held
    np.testing.assert_allclose(shares * own.sum(axis=2, keepdims=True), own, atol=1e-12)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: supports(10, 3, 0.2, 0), "share must be large enough for 3 clients of 2 to cover"),
        (lambda: sequential(4, 3), "rounds must be at least one for each of 4"),
        (lambda: cyclic(3, 9, period=2), "period must be at least K = 3, got 2"),
    ],
)
def test_bad_input_is_named_in_one_line(build, message):
    with pytest.raises(ArgumentError, match=message):
        build()
