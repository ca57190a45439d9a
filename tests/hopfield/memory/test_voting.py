"""One vote for each example, and none where examples cannot be told apart."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopfed import kernels
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.hopfield.clients import vote
from hopfed.hopfield.plasticity import Broadcast
from hopfed.hopfield.remembered import ASTRAY, Votes, separable

N = 30


def said(sums, voters):
    return {"votes": np.asarray(sums, np.int64), "voters": np.asarray(voters, np.int64)}


@given(st.lists(st.floats(0.1, 1), min_size=1, max_size=4), st.integers(0, 99))
def test_honest_votes_are_added_with_their_weights(weights, seed):
    rng = np.random.default_rng(seed)
    voters = rng.integers(0, 9, (len(weights), 2))
    sums = rng.integers(-1, 2, (len(weights), 2, N)) * voters[:, :, None]
    messages = {c: said(s, v) for c, (s, v) in enumerate(zip(sums, voters, strict=True))}
    examples = {c: v.sum() for c, v in enumerate(voters)}
    total = Votes.gather(messages, dict(enumerate(weights)), examples, (2, N))
    w = np.array(weights)
    np.testing.assert_allclose(total.sums, np.tensordot(w, sums, 1), atol=1e-12)
    np.testing.assert_allclose(total.voters, w @ voters)
    np.testing.assert_allclose(total.squares, w**2 @ voters)


@given(st.integers(-(10**6), 10**6), st.integers(-50, 50), st.integers(-50, 50))
def test_no_client_has_more_votes_than_examples(loud, first, second):
    message = said(np.full((2, N), loud), [first, second])
    total = Votes.gather({0: message}, {0: 1.0}, {0: 20}, (2, N))
    assert np.abs(total.sums).sum(axis=0).max() <= 20 + 1e-9
    heard = min(first + second, 20) if min(first, second) >= 0 else 0
    assert total.voters.sum() == pytest.approx(heard)
    assert (np.abs(total.sums) <= total.voters[:, None] + 1e-9).all()


@pytest.mark.parametrize(("r", "K"), [(0.1, 3), (0.16, 4), (0.2, 3), (0.25, 20)])
def test_examples_are_told_apart_where_few_go_astray(r, K):
    """The bound holds, and is no more than twice the share that goes astray where it decides."""
    n = 400
    rng = np.random.default_rng(0)
    xi = rademacher(K, n, rng)
    examples, labels = draw_examples(xi, 4000, r, rng)
    overlap = examples @ xi.T.astype(float) / n
    astray = np.mean(np.abs(overlap).argmax(axis=1) != labels)
    if separable(np.ones(K), r, n).all():
        assert astray < ASTRAY
    else:
        assert astray > ASTRAY / 2


def test_examples_find_a_blurred_pattern_when_it_is_known_how_blurred_it_is():
    n, r = 400, 0.8
    rng = np.random.default_rng(1)
    xi = rademacher(2, n, rng)
    blurred = xi.copy()
    blurred[1, : n // 4] *= -1  # overlap 1/2
    examples, labels = draw_examples(xi, 200, r, rng)
    memory, rows = Broadcast(blurred, r), kernels.pack(examples)
    blind = vote(rows, memory, np.ones(2))["voters"]
    seeing = vote(rows, memory, np.array([1.0, 0.5]))["voters"]
    np.testing.assert_array_equal(blind, [(labels == 0).sum(), 0])
    np.testing.assert_array_equal(seeing, np.bincount(labels))


@given(st.integers(3, 9), st.integers(0, 99))
def test_a_few_that_lie_do_not_turn_a_site(clients, seed):
    """Whatever they say, a site on which the others agree keeps their sign."""
    rng = np.random.default_rng(seed)
    liars = (clients - 1) // 2
    truth = rng.choice([-1, 1], N)
    honest = {c: said([5 * truth], [9]) for c in range(clients)}
    lies = {c: said([rng.integers(-20, 21, N)], [20]) for c in range(liars)}
    everyone = dict.fromkeys(honest, 1.0), dict.fromkeys(honest, 20), (1, N)
    total = Votes.gather(honest | lies, *everyone, liars)
    assert (np.sign(total.sums[0]) == truth).all()
    plain = Votes.gather(honest, *everyone)
    same = Votes.gather(honest, *everyone, liars)
    np.testing.assert_allclose(same.sums, plain.sums)
    np.testing.assert_allclose(same.voters, plain.voters)
    assert (same.squares >= plain.squares).all()
