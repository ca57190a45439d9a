"""What is remembered over rounds: learning, voting, merging, confirming."""

import numpy as np
import pytest

from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.hopfield.remembered import Remembered, Votes

N = 64


def patterns(K, seed=0):
    return rademacher(K, N, np.random.default_rng(seed))


def flipped(pattern, count, seed=0):
    """The pattern with `count` of its sites turned."""
    x = pattern.copy()
    x[np.random.default_rng(seed).permutation(N)[:count]] *= -1
    return x


def memory(x, t=0, sure=0.5):
    return Remembered.nothing(x.shape[1]).learn(x, np.full(len(x), sure), t)


def votes(sums, voters):
    """Votes of examples of weight 1."""
    voters = np.asarray(voters, dtype=float)
    return Votes(np.asarray(sums, dtype=float), voters, voters)


def test_votes_add_up_over_rounds_and_their_signs_are_the_patterns():
    x = patterns(3)
    rng = np.random.default_rng(5)
    rounds = [(rng.integers(-9, 9, (3, N)) + 30.0 * x, 40 * rng.random(3)) for _ in range(3)]
    known = memory(x)
    for sums, voters in rounds:
        known = known.vote(votes(sums, voters), 0.8)
    total = sum(v for v, _ in rounds)
    np.testing.assert_array_equal(known.votes, total)
    np.testing.assert_allclose(known.voters, sum(w for _, w in rounds))
    np.testing.assert_array_equal(known.patterns, np.sign(total))
    assert known.patterns.dtype == np.int8


@pytest.mark.parametrize(("r", "M"), [(0.3, 30), (0.6, 1), (0.6, 4), (0.8, 9)])
def test_votes_promise_what_their_signs_hold(M, r):
    """Up to a few hundredths, and for few votes somewhat less."""
    n = 4000
    rng = np.random.default_rng(M)
    xi = rademacher(1, n, rng)
    sums = draw_examples(xi, M, r, rng)[0].sum(axis=0, keepdims=True)
    blurred = xi * rng.permutation(np.repeat([1, -1], n // 2))  # overlap 0: what ties leave
    after = memory(blurred.astype(np.int8), sure=0.0).vote(votes(sums, [M]), r)
    overlap = float(after.patterns[0].astype(float) @ xi[0]) / n
    assert overlap - 0.1 < after.sure[0] < overlap + 0.05
    if M > 8:
        np.testing.assert_allclose(after.sure[0], overlap, atol=0.04)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(("promise", "taken"), [(0.6, True), (0.4, False)])
def test_a_pattern_is_renewed_by_what_is_surer(sign, promise, taken):
    x = patterns(2)
    better = flipped(x[0], 10)
    known = memory(x, 3, sure=0.5).confirm(np.array([True, True]), 5)
    after = known.renew(sign * better[None], np.array([promise]), np.array([0, -1]))
    np.testing.assert_array_equal(after.patterns, [better if taken else x[0], x[1]])
    np.testing.assert_allclose(after.sure, [promise if taken else 0.5, 0.5])
    for name in ("born", "seen", "rounds", "votes", "voters"):
        np.testing.assert_array_equal(getattr(after, name), getattr(known, name))


@pytest.mark.parametrize("sign", [1, -1])
def test_patterns_that_turn_out_to_be_one_are_merged_into_the_oldest(sign):
    x = patterns(3)
    near = np.stack([sign * flipped(x[0], 8), x[2]])
    known = memory(x[:2], 1).learn(near, np.full(2, 0.5), 4)
    known = known.confirm(np.array([True, True, False, True]), 4)
    known = known.confirm(np.array([False, False, True, False]), 6)
    sums = np.stack([20.0 * x[0], 10.0 * x[1], sign * 30.0 * x[0], 10.0 * x[2]])
    after = known.vote(votes(sums, [20, 10, 30, 10]), 0.8).merged()
    np.testing.assert_array_equal(after.patterns, x)
    np.testing.assert_array_equal(after.votes[0], 50.0 * x[0])
    np.testing.assert_array_equal(after.voters, [50, 10, 10])
    np.testing.assert_array_equal(after.squares, [50, 10, 10])
    np.testing.assert_array_equal(after.born, [1, 1, 4])
    np.testing.assert_array_equal(after.seen, [6, 4, 4])
    np.testing.assert_array_equal(after.rounds, [1, 1, 1])
