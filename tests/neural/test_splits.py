"""The training, validation and test examples of a client."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from stand_ins import labelled, seeds

from hopfed.errors import DataError
from hopfed.neural.data import splits


@given(labelled(), seeds, st.tuples(*[st.integers(1, 9)] * 3))
def test_parts_are_stratified_to_less_than_one_example(labels, seed, shares):
    labels = np.array(labels)
    n = len(labels)
    assume(n >= 3)
    parts = splits.stratified(labels, shares, np.random.default_rng(seed))
    sizes = np.bincount(parts, minlength=3)
    assert sizes.tolist() == splits.part_sizes(n, shares)
    assert sizes.min() >= 1
    classes, counts = np.unique(labels, return_counts=True)
    test = np.array([(parts[labels == k] == splits.TEST).sum() for k in classes])
    assert (np.abs(test - sizes[2] * counts / n) < 1).all()
    validation = np.array([(parts[labels == k] == splits.VALIDATION).sum() for k in classes])
    assert (np.abs(validation - sizes[1] * (counts - test) / (n - sizes[2])) < 1).all()


@given(st.integers(3, 500), st.tuples(*[st.floats(0.01, 1)] * 3))
def test_part_sizes_add_up_and_are_near_their_shares(n, shares):
    sizes = np.array(splits.part_sizes(n, shares))
    assert sizes.sum() == n
    assert sizes.min() >= 1
    want = np.array(shares) / sum(shares) * n
    assert (np.abs(sizes - want) <= 2).all()


@given(st.lists(st.integers(1, 30), min_size=3, max_size=20), seeds)
def test_groups_stay_whole_and_no_part_is_empty(sizes, seed):
    group = np.repeat(np.arange(len(sizes)), sizes)
    parts = splits.grouped(group, (8, 1, 1), np.random.default_rng(seed))
    assert all(len(set(parts[group == g])) == 1 for g in range(len(sizes)))
    assert set(parts) == {0, 1, 2}


def test_groups_keep_the_shares_where_they_can():
    group = np.repeat(np.arange(1000), np.random.default_rng(0).integers(1, 20, size=1000))
    parts = splits.grouped(group, (8, 1, 1), np.random.default_rng(1))
    np.testing.assert_allclose(np.bincount(parts) / len(parts), (0.8, 0.1, 0.1), atol=0.003)
    long, labels = np.repeat(np.arange(21), [100] + [5] * 20), np.arange(200) % 2
    for seed in range(40):  # a speech of half of all examples never becomes the test set
        parts = splits.split(labels, long, (8, 1, 1), np.random.default_rng(seed))
        assert parts[0] == splits.TRAIN
    with pytest.raises(DataError, match="2 groups of examples cannot be split into 3 parts"):
        splits.grouped(np.array([0, 0, 1]), (8, 1, 1), np.random.default_rng(0))
