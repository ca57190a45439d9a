"""Operators, patterns, groups and votes as messages: exact, and refused where no rows give them."""

import re

import numpy as np
import pytest
from federations import of_patterns
from hypothesis import given
from hypothesis import strategies as st

from hopfed import kernels
from hopfed.federation.contract import Context
from hopfed.federation.messages import malformed
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.hopfield.clients import PatternClient, vote
from hopfed.hopfield.encoding import (
    decode,
    encode,
    lower,
    operator_complaint,
    pack_patterns,
    projections_complaint,
    unpack_patterns,
    votes_complaint,
)
from hopfed.hopfield.guard import bounded
from hopfed.hopfield.plasticity import Broadcast


def project(x, V, seed):
    client = PatternClient(None, x.shape[1], groups=4)
    return client.projected(kernels.pack(x), V, seed, 0)


def rows(M, N, seed, kind="channel"):
    """Examples of archetypes, of nothing, all alike, of two kinds, or in pairs of opposites."""
    rng = np.random.default_rng(seed)
    noise = rademacher(M, N, rng)
    return {
        "channel": lambda: draw_examples(rademacher(3, N, rng), M, 0.8, rng)[0],
        "noise": lambda: noise,
        "alike": lambda: np.repeat(noise[:1], M, axis=0),
        "few": lambda: noise[rng.integers(0, min(2, M), M)],
        "opposite": lambda: noise[:1] * np.where(np.arange(M) % 2, 1, -1)[:, None].astype(np.int8),
    }[kind]()


KINDS = st.sampled_from(("channel", "noise", "alike", "few", "opposite"))


def told(x):
    columns = x.sum(axis=0, dtype=np.int32)
    return encode(kernels.pack(x)) | {"columns": columns, "weight": np.array(1.0)}


def spec(N):
    return of_patterns(None, N).client.expects({}, Context(0, 0, 0, 0))


@given(KINDS, st.integers(1, 80), st.integers(2, 50), st.integers(0, 99))
def test_what_rows_give_is_never_refused(kind, M, N, seed):
    x = rows(M, N, seed, kind)
    sent = told(x)
    assert malformed(sent, spec(N)) is None
    decoded = decode(sent, N)
    np.testing.assert_array_equal(decoded.matrix, x.T.astype(int) @ x)
    assert decoded.mass == decoded.sum_sq_weights == M
    assert operator_complaint(sent) is None
    V = np.linalg.qr(np.random.default_rng(seed).standard_normal((N, min(3, N))))[0]
    projected = project(x, V, seed)
    exact = V.T @ (x.T.astype(float) @ x) @ V
    assert projections_complaint(projected, M, N, exact) is None
    votes = vote(kernels.pack(x), Broadcast(rows(2, N, seed, "noise"), 0.5), np.ones(2))
    assert votes_complaint(votes, M) is None


def lies():
    N, M = 40, 60
    x = rows(M, N, 1)
    S = x.T.astype(int) @ x
    rng = np.random.default_rng(2)
    even = rng.integers(-M // 2, M // 2, (N, N)) * 2
    other, c = "not those of any examples", x.sum(axis=0)
    return [
        (S + 1, c, other),
        (S + 0.5, c, "not whole numbers"),
        (np.tril(even) + np.tril(even, -1).T, c, other),
        (-S, c, other),
        (S, c + 1, "parity of examples"),
        (S, 60 - 2 * np.arange(40) % 60, other),
        (S, 4 - c, "negative eigenvalue"),
    ]


@pytest.mark.parametrize(("S", "columns", "words"), lies())
def test_counts_and_columns_that_no_rows_have_are_refused(S, columns, words):
    sent = told(rows(60, 40, 1)) | {"columns": columns, "counts": np.clip(lower(S), -60, 60)}
    assert re.search(words, operator_complaint(sent))


def groups(seed=0, M=60, N=40, K=3):
    x = rows(M, N, seed)
    V = np.linalg.qr(np.random.default_rng(seed).standard_normal((N, K)))[0]
    return project(x, V, seed), V.T @ (x.T.astype(float) @ x) @ V


def test_projections_that_no_rows_have_are_refused():
    sent, expected = groups()
    sizes, sums = sent["sizes"], sent["groups"]
    always = [{"sizes": s} for s in (np.full(4, 2**62), sizes * [1, -1, 1, 1], sizes + 1)]
    always.append({"groups": sums * 1e30})
    checked = [{"groups": g} for g in (sums * 2, -sums, groups(seed=7)[0]["groups"])]
    for change in always + checked:
        told_ = sent | change
        assert projections_complaint(told_, 60, 40, expected) is not None
        refused = projections_complaint(told_, 60, 40, None) is not None
        assert refused == any(change is each for each in always)


def test_votes_that_no_rows_cast_are_refused():
    small = ([5, 1], 3), ([2, 1], 3), ([1, 1], -3)
    for votes, voters in (*small, ([-(2**63), 0], 0), ([2**62, 0], 2**62)):
        message = {"votes": np.array([votes]), "voters": np.array([voters])}
        assert votes_complaint(message, 9) is not None


@given(st.lists(st.integers(1, 60), min_size=1, max_size=6), st.floats(1, 5))
def test_a_client_counts_for_no_more_than_a_multiple_of_the_median(sizes, most):
    """The lower one: of two clients the one that claims more does not choose the bound."""
    sent = {c: {"examples": np.asarray(m)} for c, m in enumerate(sizes)}
    heard = bounded(sent, most)
    limit = most * np.sort(sizes)[(len(sizes) - 1) // 2]
    np.testing.assert_allclose([heard[c]["examples"] for c in heard], np.minimum(sizes, limit))
    assert all(heard[c] is sent[c] for c, m in enumerate(sizes) if m <= limit)


def test_the_operator_of_a_client_that_is_cut_is_the_same_of_fewer_examples():
    sent = {m: told(rows(m, 24, m)) for m in (10, 12, 80)}
    heard = bounded(sent, 2.0)[80]
    whole, part = decode(sent[80], 24), decode(heard, 24)
    assert part.mass == part.n_examples == 24
    np.testing.assert_allclose(part.matmat(np.eye(24)), whole.matmat(np.eye(24)), atol=1e-6)
    np.testing.assert_allclose(heard["columns"] / 24, sent[80]["columns"] / 80)


@given(st.integers(0, 5), st.integers(1, 40))
def test_patterns_survive_packing(K, N):
    x = rademacher(K, N, np.random.default_rng(N))
    packed = pack_patterns(x)
    assert packed.nbytes == K * -(-N // 8)
    np.testing.assert_array_equal(unpack_patterns(packed, N), x)
