"""Random streams, the cache of results, and retrieval: small modules, one file."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopfed._lib.cache import Recent
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
    assert stream(0, "ab", "c").random() != stream(0, "a", "bc").random()
    for bad in (-1, 1.5, "0", None, True):
        with pytest.raises(ArgumentError, match="seed must be a non-negative integer"):
            check_seed(bad)


def test_retrieval_counts_archetypes_and_false_discoveries():
    xi, stranger = np.split(np.random.default_rng(0).choice([-1, 1], size=(4, 400)), [3])
    worse = xi[1] * np.where(np.arange(400) < 10, -1, 1)
    found = np.stack([-xi[0], worse, *stranger])
    score = retrieval(found, xi)
    assert (score.found(), score.found(0.9), score.false_discoveries) == (1, 2, 1)
    assert score.best[:2].tolist() == [0, 1]
    assert score.matched.tolist() == [1, 0.95, abs(int(stranger[0] @ xi[2])) / 400]
    J, Jhat = xi.T @ xi / 400, found.T @ found / 400
    np.testing.assert_allclose(score.frobenius, np.linalg.norm(Jhat - J) / np.linalg.norm(J))
    none = retrieval(np.zeros((0, 400), np.int8), xi)
    assert (none.found(), none.frobenius, none.matched.tolist()) == (0, 1.0, [0, 0, 0])


def test_what_was_asked_for_long_ago_is_let_go_and_what_is_held_is_not_made_again():
    recent, made = Recent(room=100), []
    for key in (0, *range(20), 18, 19):
        recent.get(key, lambda key=key: made.append(key) or np.zeros(5))
    assert (made, list(recent.held), recent.used) == ([*range(20)], [18, 19], 80)
    recent.get(20, lambda: np.zeros(1000))  # too large for the room, and kept as the last
    assert list(recent.held) == [20]
