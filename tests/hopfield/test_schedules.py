"""Schedules: rows on the simplex, floors kept, shapes as their docstrings say, all from a seed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopfed.errors import ArgumentError
from hopfed.hopfield.schedules import (
    BoundedRandomWalk,
    Cyclic,
    Fixed,
    NoveltyRamp,
    PiecewiseDirichlet,
    Sequential,
)

seeds = st.integers(0, 2**32)
fractions = st.floats(0, 1)


@st.composite
def cases(draw):
    """Draw a schedule of any kind with K and rounds that it accepts, and its floor."""
    K, rounds = draw(st.integers(2, 9)), draw(st.integers(9, 40))
    floor = draw(st.floats(0, 0.99)) / K
    schedule, kept = draw(
        st.sampled_from(
            [
                (Fixed(), 1 / K),
                (Fixed(tuple(float(k) for k in range(K))), 0),
                (Sequential(draw(st.integers(0, K)), draw(fractions), floor), floor),
                (Cyclic(draw(st.integers(K, 50)), floor, draw(fractions)), floor),
                (PiecewiseDirichlet(draw(st.integers(1, rounds)), draw(st.floats(1e-3, 1e6))), 0),
                (BoundedRandomWalk(draw(fractions), floor), floor),
                (
                    NoveltyRamp(
                        draw(st.integers(1, K - 1)),
                        draw(st.integers(1, rounds - 1)),
                        draw(st.integers(1, 50)),
                    ),
                    0,
                ),
            ]
        )
    )
    return schedule, K, rounds, kept


@given(cases(), seeds)
def test_rows_lie_on_the_simplex_above_the_floor_and_come_from_the_seed(case, seed):
    schedule, K, rounds, floor = case
    rows = schedule.mixture(K, rounds, seed)
    assert rows.shape == (rounds, K)
    assert rows.dtype == np.float64
    assert (rows >= floor).all()
    np.testing.assert_allclose(rows.sum(axis=1), 1, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(rows, schedule.mixture(K, rounds, seed))


@given(st.integers(1, 8), st.integers(1, 6), fractions, fractions)
def test_sequential_gives_every_archetype_its_turn(K, length, overlap, part):
    floor = 0.99 * part / K
    rows = Sequential(overlap=overlap, floor=floor).mixture(K, K * length, 0)
    lead = rows.argmax(axis=1)
    assert (np.diff(lead) >= 0).all()
    assert set(lead) == set(range(K))
    # What one gives at a border the other gets: equal in sum, and the same read from the end.
    np.testing.assert_allclose(rows.mean(axis=0), 1 / K, atol=1e-12)
    np.testing.assert_allclose(rows[::-1, ::-1], rows, atol=1e-12)


@given(st.integers(1, 6), st.integers(1, 5), fractions)
def test_cyclic_comes_round_again(K, length, overlap):
    period = K * length
    rows = Cyclic(period, overlap=overlap).mixture(K, 3 * period, 0)
    np.testing.assert_array_equal(rows[period:], rows[:-period])
    # A turn later the next archetype stands where this one stood.
    np.testing.assert_allclose(np.roll(rows, 1, axis=1)[:-length], rows[length:], atol=1e-12)
    hard = Cyclic(period, overlap=0.0).mixture(K, period, 0)
    np.testing.assert_array_equal(hard, Sequential(overlap=0.0).mixture(K, period, 0))


@pytest.mark.parametrize("concentration", [0.2, 1.0, 30.0])
def test_pieces_follow_the_dirichlet_law(concentration):
    K, draws = 4, 20_000
    rows = PiecewiseDirichlet(draws, concentration).mixture(K, draws, 3)
    square = (rows**2).sum(axis=1)
    want = (concentration + 1) / (K * concentration + 1)
    assert abs(square.mean() - want) < 5 * square.std() / np.sqrt(draws)
    error = 5 * rows.std(axis=0) / np.sqrt(draws)
    assert (np.abs(rows.mean(axis=0) - 1 / K) < error).all()


@given(st.integers(1, 8), st.integers(1, 30), st.integers(0, 30), fractions, seeds)
def test_the_walk_starts_equal_and_its_past_does_not_depend_on_its_future(K, T, more, step, seed):
    walk = BoundedRandomWalk(step)
    rows = walk.mixture(K, T, seed)
    np.testing.assert_array_equal(rows[0], 1 / K)
    np.testing.assert_array_equal(walk.mixture(K, T + more, seed)[:T], rows)


@given(st.integers(1, 5), st.integers(1, 5), st.integers(1, 20), st.integers(1, 10))
def test_the_novelty_ramp_is_monotone_and_ends_in_equal_shares(old, new, at, ramp):
    K, rounds = old + new, at + ramp + 3
    rows = NoveltyRamp(old, at, ramp).mixture(K, rounds, 0)
    assert (rows[:at, old:] == 0).all()
    np.testing.assert_allclose(rows[:at, :old], 1 / old)
    assert (rows[at:, old:] > 0).all()
    np.testing.assert_allclose(np.diff(rows[at - 1 : at + ramp, old:], axis=0), 1 / (K * ramp))
    assert (np.diff(rows[:, :old], axis=0) <= 1e-15).all()
    np.testing.assert_allclose(rows[at + ramp - 1 :], 1 / K, rtol=1e-12)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Fixed((1.0, -1.0)), "exposures must be at least 0 each"),
        (lambda: Fixed((0.0, 0.0)), "exposures must be of a finite sum above 0"),
        (lambda: Fixed((1.0, np.inf)), "exposures must be finite"),
        (lambda: Fixed([1.0]), "exposures must be a tuple, each a number"),
        (lambda: Fixed((1.0, 2.0)).mixture(3, 4, 0), "exposures must be one for each of K = 3"),
        (lambda: Fixed().mixture(0, 4, 0), "K must be at least 1, got 0"),
        (lambda: Fixed().mixture(3, 0, 0), "rounds must be at least 1, got 0"),
        (lambda: Fixed().mixture(3, 4, -1), "seed must be a non-negative integer"),
        (lambda: Sequential(stages=4).mixture(3, 9, 0), "stages must be at most K = 3, got 4"),
        (lambda: Sequential().mixture(4, 3, 0), "rounds must be at least one for each of 4"),
        (lambda: Sequential(overlap=1.5), "overlap must be in"),
        (lambda: Sequential(floor=0.5).mixture(2, 9, 0), "floor must be below 1 / K = 0.5"),
        (lambda: Cyclic(period=2).mixture(3, 9, 0), "period must be at least K = 3, got 2"),
        (lambda: Cyclic(period=2.5), "period must be a whole number"),
        (lambda: PiecewiseDirichlet(0), "pieces must be at least 1"),
        (lambda: PiecewiseDirichlet(concentration=0.0), "concentration must be above 0"),
        (lambda: PiecewiseDirichlet(5).mixture(2, 4, 0), "rounds must be at least 5"),
        (lambda: BoundedRandomWalk(step=2.0), "step must be in"),
        (lambda: BoundedRandomWalk(floor=0.4).mixture(3, 4, 0), "floor must be below 1 / K"),
        (lambda: NoveltyRamp(old=0), "old must be at least 1"),
        (lambda: NoveltyRamp(old=3).mixture(3, 24, 0), "old must be below K = 3"),
        (lambda: NoveltyRamp(at=12).mixture(6, 12, 0), "at must be below the number of rounds, 12"),
    ],
)
def test_a_bad_setting_is_named_in_one_line(build, message):
    with pytest.raises(ArgumentError) as error:
        build()
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_sequential_has_plateaus_and_linear_passages():
    rows = Sequential(overlap=0.5, floor=0.1).mixture(3, 60, 0)
    top = np.isclose(rows.max(axis=1), 0.8)
    assert top.sum() == 60 - 2 * 10  # two borders, over half a stage of 20 rounds each
    assert top[:15].all()
    np.testing.assert_allclose(np.diff(rows[15:25, 1]), 0.07, atol=1e-12)
    np.testing.assert_allclose(rows[15:25, :2].sum(axis=1), 0.9, atol=1e-12)
