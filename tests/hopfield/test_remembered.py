"""What is remembered over rounds: learning, voting, merging, confirming."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopfed.data.channel import draw_examples, rademacher
from hopfed.hopfield.remembered import SAME, Remembered

N = 64


def patterns(K, seed=0):
    return rademacher(K, N, np.random.default_rng(seed))


def flipped(pattern, count, seed=0):
    """The pattern with `count` of its sites turned."""
    x = pattern.copy()
    x[np.random.default_rng(seed).permutation(N)[:count]] *= -1
    return x


def memory(x, t=0):
    return Remembered.nothing(x.shape[1]).learn(x, t)


def same(a, b):
    """Whether two memories are equal to the bit, names and dtypes included."""
    left, right = a.flatten(), b.flatten()
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
    known = known.vote(rng.integers(-20, 20, (K, N)) + 40 * x, rng.random(K))
    return known.confirm(rng.random(K) < 0.5, draw(st.integers(10, 20)))


@given(memories())
def test_it_survives_being_flattened(known):
    assert same(Remembered.unflatten(known.flatten()), known)
    assert all(isinstance(v, np.ndarray) for v in known.flatten().values())


@given(memories(), st.integers(0, 30))
def test_what_is_known_is_not_learnt_again(known, t):
    assert same(known.learn(known.patterns, t), known)
    assert same(known.learn(-known.patterns[::-1], t), known)
    assert same(known.learn(known.patterns[:0], t), known)


@given(memories(), st.integers(0, 6), st.integers(0, 30))
def test_what_is_new_is_learnt_behind_what_is_known(known, C, t):
    fresh = patterns(6, 1000)[:C]
    more = known.learn(fresh, t)
    assert same(more.select(np.arange(len(known))), known)
    tail = more.select(np.arange(len(known), len(more)))
    assert same(tail, memory(fresh, t))
    np.testing.assert_array_equal(tail.patterns, fresh)
    assert (tail.born == t).all()
    assert (tail.seen == t).all()
    assert not tail.rounds.any()
    assert not tail.voters.any()
    assert not tail.votes.any()


@pytest.mark.parametrize("sign", [1, -1])
def test_of_likenesses_in_one_round_the_first_is_learnt(sign):
    """Two of them would each take the other's support (`hopfed.hopfield.support`)."""
    x = patterns(2)
    near = flipped(x[0], round((1 - SAME) / 2 * N) - 1)
    far = flipped(x[0], round((1 - SAME) / 2 * N) + 2)
    np.testing.assert_array_equal(memory(np.stack([*x, sign * near])).patterns, x)
    assert len(memory(np.stack([*x, sign * far]))) == 3


@given(memories(), st.data())
def test_near_says_which_patterns_are_among_others_of_either_sign(known, data):
    K = len(known)
    chosen = np.array(data.draw(st.lists(st.booleans(), min_size=K, max_size=K)), dtype=bool)
    signs = np.where(np.arange(chosen.sum()) % 2, 1, -1).astype(np.int8)
    others = np.concatenate([known.patterns[chosen] * signs[:, None], patterns(2, 1000)])
    np.testing.assert_array_equal(known.near(others), chosen)
    assert not known.near(others[:0]).any()


def test_votes_add_up_over_rounds_and_their_signs_are_the_patterns():
    x = patterns(3)
    rng = np.random.default_rng(5)
    rounds = [(rng.integers(-9, 9, (3, N)) + 30.0 * x, rng.random(3)) for _ in range(3)]
    known = memory(x)
    for votes, voters in rounds:
        known = known.vote(votes, voters)
    total = sum(v for v, _ in rounds)
    np.testing.assert_array_equal(known.votes, total)
    np.testing.assert_allclose(known.voters, sum(w for _, w in rounds))
    np.testing.assert_array_equal(known.patterns, np.sign(total))
    assert known.patterns.dtype == np.int8


def test_a_site_on_which_votes_are_even_keeps_its_sign():
    x = patterns(2)
    votes = np.zeros((2, N))
    votes[0, 0], votes[1, 1] = -3.0 * x[0, 0], 2.0 * x[1, 1]
    after = memory(x).vote(votes, np.ones(2))
    expected = x.copy()
    expected[0, 0] *= -1
    np.testing.assert_array_equal(after.patterns, expected)


@given(st.integers(3, 25), st.integers(0, 50))
def test_with_labelled_examples_the_votes_reach_the_majority_of_the_labels(M, seed):
    rng = np.random.default_rng(seed)
    xi = rademacher(3, N, rng)
    examples, labels = draw_examples(xi, 3 * M, 0.7, rng)
    blurred = np.stack([flipped(x, 8, seed) for x in xi])
    sums = np.stack([examples[labels == k].sum(axis=0) for k in range(3)])
    after = memory(blurred).vote(sums.astype(float), np.bincount(labels, minlength=3))
    decided = sums != 0
    np.testing.assert_array_equal(after.patterns[decided], np.sign(sums)[decided])
    np.testing.assert_array_equal(after.patterns[~decided], blurred[~decided])


@pytest.mark.parametrize("sign", [1, -1])
def test_patterns_that_turn_out_to_be_one_are_merged_into_the_oldest(sign):
    x = patterns(3)
    known = memory(x[:2], 1).learn(np.stack([sign * flipped(x[0], 8), x[2]]), 4)
    known = known.confirm(np.array([True, True, False, True]), 4)
    known = known.confirm(np.array([False, False, True, False]), 6)
    votes = np.stack([2.0 * x[0], x[1], sign * 3.0 * x[0], x[2]])
    after = known.vote(votes, np.array([2.0, 1.0, 3.0, 1.0]))
    np.testing.assert_array_equal(after.patterns, x)
    np.testing.assert_array_equal(after.votes[0], 5.0 * x[0])
    np.testing.assert_array_equal(after.voters, [5, 1, 1])
    np.testing.assert_array_equal(after.born, [1, 1, 4])
    np.testing.assert_array_equal(after.seen, [6, 4, 4])
    np.testing.assert_array_equal(after.rounds, [1, 1, 1])


@given(memories(), st.data())
def test_confirming_counts_rounds_and_touches_nothing_else(known, data):
    K = len(known)
    shown = np.array(data.draw(st.lists(st.booleans(), min_size=K, max_size=K)), dtype=bool)
    after = known.confirm(shown, 50)
    np.testing.assert_array_equal(after.rounds, known.rounds + shown)
    np.testing.assert_array_equal(after.seen, np.where(shown, 50, known.seen))
    for name in ("patterns", "votes", "voters", "born"):
        assert getattr(after, name) is getattr(known, name)


@given(memories(), st.data())
def test_selecting_by_mask_and_by_index_agree(known, data):
    K = len(known)
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=K, max_size=K)), dtype=bool)
    assert same(known.select(mask), known.select(np.flatnonzero(mask)))
    assert len(known.select(mask)) == mask.sum()


def test_new_patterns_are_turned_to_the_examples_and_old_ones_stay():
    x = patterns(3)
    known = memory(-x).vote(-10.0 * np.stack([x[0], 0 * x[1], 0 * x[2]]), np.array([10.0, 0, 0]))
    mean = 0.5 * x[0] + 0.2 * x[1] + 0.3 * x[2]
    turned = known.oriented(mean)
    np.testing.assert_array_equal(turned.patterns, [-x[0], x[1], x[2]])
    assert same(turned.oriented(mean), turned)
