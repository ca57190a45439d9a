"""What is remembered over rounds: learning, voting, merging, confirming."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopfed.federation.messages import flatten
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.hopfield.remembered import WORTH, Remembered, Votes
from hopfed.theory.resolution import expected_overlap

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


def same(a, b):
    """Whether two memories are equal to the bit, names and dtypes included."""
    left, right = flatten(a), flatten(b)
    assert left.keys() == right.keys()
    for name in left:
        assert left[name].dtype == right[name].dtype
        np.testing.assert_array_equal(left[name], right[name])
    return True


@st.composite
def memories(draw):
    """Memories of up to five patterns with a history."""
    K, seed = draw(st.integers(0, 5)), draw(st.integers(0, 99))
    rng = np.random.default_rng(seed)
    x = patterns(5, seed)[:K]
    known = memory(x, draw(st.integers(0, 9)))
    known = known.vote(votes(rng.integers(-20, 20, (K, N)) + 40 * x, 60 * rng.random(K)), 0.6)
    return known.confirm(rng.random(K) < 0.5, draw(st.integers(10, 20)))


@given(memories(), st.integers(0, 30))
def test_what_is_known_is_not_learnt_again(known, t):
    sure = np.ones(len(known))
    assert same(known.learn(known.patterns, sure, t), known)
    assert same(known.learn(-known.patterns[::-1], sure, t), known)
    assert same(known.learn(known.patterns[:0], sure[:0], t), known)


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


@given(st.floats(0.05, 0.9), st.floats(0.05, 0.9))
def test_evidence_must_be_worth_more_than_the_votes_whose_place_it_takes(gamma, now):
    x = patterns(1)
    better = flipped(x[0], 10)[None]
    number = gamma / (1 - gamma) / (0.5**2 / 0.75) + 1  # examples that promise this gamma
    known = memory(x, sure=0.0).vote(votes(number * x, [number]), 0.5)
    if number >= 2:
        np.testing.assert_allclose(known.sure, expected_overlap(np.array([gamma])), rtol=1e-9)
    after = known.renew(better, expected_overlap(np.array([now])), np.array([0]))
    had = expected_overlap(np.array([0.0]))
    assert known.sure > had
    ratio = now / (1 - now) / (min(number, max(number - 1, 1.0)) * (0.5**2 / 0.75))
    if abs(ratio - WORTH) > 1e-6:
        np.testing.assert_array_equal(after.patterns, better if ratio > WORTH else x)


def test_of_several_that_have_become_one_the_surest_stays_with_the_votes_of_all():
    x = patterns(3)
    like = flipped(x[0], 20)
    known = memory(np.stack([like, x[1]]), 1, sure=0.4).learn(x[:1], np.array([0.9]), 4)
    known = known.vote(votes([2.0 * like, 0 * x[1], 3.0 * x[0]], [2, 0, 3]), 0.1)
    after = known.renew(x[:1], np.array([0.8]), np.array([0, -1, 0]))
    np.testing.assert_array_equal(after.patterns, [x[1], x[0]])
    np.testing.assert_array_equal(after.votes[1], 2.0 * like + 3.0 * x[0])
    np.testing.assert_array_equal(after.voters, [0, 5])
    np.testing.assert_array_equal(after.born, [1, 4])


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
