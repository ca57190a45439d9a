"""Pictures: the loader, its stand-in, a spread without near-duplicates, decorrelation."""

import numpy as np
import pytest
from helpers import data_file
from hypothesis import given
from hypothesis import strategies as st

from hopfed.errors import ArgumentError, DataError
from hopfed.experiments.shared.silhouettes import (
    choose_patterns,
    decorrelate,
    load_silhouettes,
    pattern_overlaps,
)

NAMES = ["ant", "bass", "Faces 2", "Faces 3", "bass drum"]
LETTERS = load_silhouettes(classes=())


def largest(patterns):
    return np.abs(pattern_overlaps(patterns) - np.eye(len(patterns))).max()


@pytest.fixture
def small(tmp_path):
    """Three pictures of each class: one of the test split, then two to train on."""
    parts = {
        "images": np.random.default_rng(0).integers(0, 2, (15, 4, 4), dtype=np.uint8),
        "labels": np.repeat(np.arange(5), 3),
        "split": np.tile(["test", "train", "train"], 5),
        "class_names": np.array(NAMES),
    }

    def write(**changes):
        kept = {k: v for k, v in (parts | changes).items() if v is not None}
        np.savez(tmp_path / "small.npz", **kept)
        return tmp_path / "small.npz"

    return write


def test_a_picture_of_a_class_is_the_first_of_the_training_split(small):
    path = small()
    found = load_silhouettes(path, ("bass", "ANT"))
    images = np.load(path)["images"]
    np.testing.assert_array_equal(found == 1, images[[4, 1]].reshape(2, -1) == 0)
    assert found.dtype == np.int8
    assert len(load_silhouettes(path, ())) == len(NAMES)
    for file, word in ((path, "whale"), (small(split=np.array(["test"] * 15)), "ant")):
        with pytest.raises(ArgumentError, match=f"with a picture to train on, got '{word}'"):
            load_silhouettes(file, (word,))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"split": None}, "cannot be read: .*split"),
        ({"images": np.full((15, 4, 4), 7)}, "must be squares of 0 and 1"),
        ({"images": np.zeros((15, 16))}, "must be squares"),
        ({"labels": np.zeros(3)}, "with a label and a split"),
    ],
)
def test_files_of_another_kind_get_one_line(small, changes, message):
    with pytest.raises(DataError, match=message):
        load_silhouettes(small(**changes), ())


def test_a_spread_is_even_until_a_likeness_is_met():
    pictures = np.random.default_rng(0).choice([-1, 1], (20, 400)).astype(np.int8)
    np.testing.assert_array_equal(choose_patterns(pictures, 5), pictures[[0, 4, 8, 12, 16]])
    pictures[8] = -pictures[4]  # the same up to its sign
    np.testing.assert_array_equal(choose_patterns(pictures, 5), pictures[[0, 4, 9, 12, 16]])
    with pytest.raises(ArgumentError, match="K must be at most 19 for overlaps up to"):
        choose_patterns(pictures, 20)


@given(st.integers(1, 5), st.floats(0.1, 0.9), st.integers(0, 2**32))
def test_decorrelation_reaches_its_target_from_the_seed(K, target, seed):
    patterns = LETTERS[:K].copy()
    apart = decorrelate(patterns, target, seed)
    np.testing.assert_array_equal(patterns, LETTERS[:K])
    assert apart.dtype == np.int8
    assert set(np.unique(apart)) <= {-1, 1}
    assert largest(apart) <= target
    np.testing.assert_array_equal(apart, decorrelate(patterns, target, seed))


def test_a_target_out_of_reach_is_refused():
    odd = np.ones((3, 9), np.int8)  # overlaps of an odd number of pixels are never below 1/9
    with pytest.raises(ArgumentError, match=r"target must be larger: 27 flips do not"):
        decorrelate(odd, 0.05, 0)


def test_the_papers_three_silhouettes():
    three = load_silhouettes(data_file("caltech101_silhouettes_28.npz"))
    got = pattern_overlaps(three)[np.triu_indices(3, 1)]
    np.testing.assert_allclose(got, np.array([290, 204, 402]) / 784, rtol=1e-12)
    assert largest(decorrelate(three, 0.1, 0)) <= 0.1
