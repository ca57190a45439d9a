"""Errors, random streams, array namespaces and metrics: small modules, one file."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopfed._lib.random import check_seed, derive, stream
from hopfed.archetypes.overlap import retrieval
from hopfed.errors import ArgumentError

names = st.lists(st.one_of(st.text(max_size=5), st.integers(0, 99)), max_size=4)


@given(st.integers(0, 2**63), names, names)
def test_streams_differ_by_name_and_repeat_by_name(seed, a, b):
    assert stream(seed, *a).random() == stream(seed, *a).random()
    assert derive(seed, *a) == derive(seed, *a) < 2**63
    if a != b:
        assert stream(seed, *a).random() != stream(seed, *b).random()
        assert derive(seed, *a) != derive(seed, *b)


def test_numbers_and_words_name_different_streams():
    assert stream(0, 1).random() != stream(0, "1").random()
    assert stream(0, np.int64(1)).random() == stream(0, 1).random()
    assert stream(0, "ab", "c").random() != stream(0, "a", "bc").random()


@pytest.mark.parametrize("bad", [-1, 1.5, "0", None, True])
def test_seeds_are_natural_numbers(bad):
    with pytest.raises(ArgumentError, match="seed must be a non-negative integer"):
        check_seed(bad)


def test_retrieval_counts_archetypes_and_false_discoveries():
    rng = np.random.default_rng(0)
    xi = rng.choice([-1, 1], size=(3, 400))
    worse = xi[1].copy()
    worse[:10] *= -1
    stranger = rng.choice([-1, 1], size=400)
    score = retrieval(np.stack([-xi[0], worse, stranger]), xi)
    assert score.found() == 1
    assert score.found(0.9) == 2
    assert score.false_discoveries == 1
    assert score.best[:2].tolist() == [0, 1]
    assert score.matched[:2].tolist() == [1, 0.95]
    assert score.matched[2] == abs(int(stranger @ xi[2])) / 400
    none = retrieval(np.zeros((0, 400), np.int8), xi)
    assert (none.found(), none.frobenius, none.matched.tolist()) == (0, 1.0, [0, 0, 0])


def test_the_frobenius_error_is_that_of_the_operators():
    rng = np.random.default_rng(1)
    xi, found = rng.choice([-1, 1], size=(3, 60)), rng.choice([-1, 1], size=(5, 60))
    J, Jhat = xi.T @ xi / 60, found.T @ found / 60
    error = np.linalg.norm(Jhat - J) / np.linalg.norm(J)
    np.testing.assert_allclose(retrieval(found, xi).frobenius, error)
    assert retrieval(-xi[::-1], xi).frobenius == 0
