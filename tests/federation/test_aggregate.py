"""Means over participants."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hopfed.errors import ArgumentError
from hopfed.federation.aggregate import Mean, weighted_mean

numbers = st.floats(-1e6, 1e6, width=32)
stacks = st.integers(1, 6).flatmap(lambda n: arrays(np.float64, (n, 3), elements=numbers))


@given(stacks, st.data())
def test_the_weighted_mean_is_that_of_numpy(parts, data):
    weights = data.draw(st.lists(st.floats(0.01, 10), min_size=len(parts), max_size=len(parts)))
    expected = np.average(parts, axis=0, weights=weights)
    np.testing.assert_allclose(weighted_mean(list(parts), weights), expected, atol=1e-6)
    mean = Mean()
    for part, weight in zip(parts, weights, strict=True):
        mean.add({"x": part, "steps": np.array(3)}, weight)
    np.testing.assert_allclose(mean.result()["x"], expected, atol=1e-6)
    assert (mean.result()["steps"], mean.result()["steps"].dtype) == (3, int)
    one = Mean()
    one.add({"x": parts[0].astype(np.float32)}, 1_000_003)  # to the bit
    np.testing.assert_array_equal(one.result()["x"], parts[0].astype(np.float32))


@pytest.mark.parametrize("count", [1, 3, 7, 49])
def test_entries_are_averaged_over_those_who_hold_them(count):
    """What all hold as without masks, to the bit."""
    parts = list(np.random.default_rng(count).standard_normal((count, 4, 2)).astype(np.float32))
    masks = [np.array([True, True, c == 0, False]) for c in range(count)]
    default = np.full((4, 2), 9.0, np.float32)
    for w in (None, np.arange(1.0, count + 1)):
        plain = weighted_mean(parts, w)
        masked = weighted_mean(parts, w, masks=masks, default=default)
        np.testing.assert_array_equal(masked[:2], plain[:2])
        np.testing.assert_allclose(masked[2], parts[0][2], rtol=1e-5)
        np.testing.assert_array_equal(masked[3], default[3])
    with pytest.raises(ArgumentError, match="default"):
        weighted_mean(parts, masks=masks)


WRONG = [
    (([np.ones(2)], [1, 2]), None, "weights must be 1 numbers"),
    (([np.ones(2)], [-1]), None, "weights must be 1 numbers of at least 0"),
    (([np.ones(2), np.ones(3)],), None, "parts must be of one shape"),
    (([np.ones(2)],), [np.ones(3, bool)], "masks must be over"),
]


@pytest.mark.parametrize(("arguments", "masks", "message"), WRONG)
def test_bad_input_is_one_clear_line(arguments, masks, message):
    with pytest.raises(ArgumentError, match=message):
        weighted_mean(*arguments, masks=masks)
