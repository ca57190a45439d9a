"""Pictures: the loader, its stand-in, a spread without near-duplicates, decorrelation."""

import numpy as np
import pytest
from helpers import DATA
from hypothesis import given
from hypothesis import strategies as st

from hopfed.errors import ArgumentError, DataError
from hopfed.experiments.shared.silhouettes import Pictures, decorrelate, load_silhouettes, overlaps

NAMES = ["ant", "bass", "Faces 2", "Faces 3", "bass drum"]


def largest(patterns):
    return np.abs(overlaps(patterns) - np.eye(len(patterns))).max()


def random_pictures(n, side, seed):
    patterns = np.random.default_rng(seed).choice([-1, 1], (n, side * side)).astype(np.int8)
    return Pictures(patterns, tuple(f"p{k}" for k in range(n)))


@pytest.fixture(scope="module")
def caltech():
    path = DATA / "caltech101_silhouettes_28.npz"
    if not path.is_file():
        pytest.skip("Caltech silhouettes not at hand; set HOPFED_DATA to their folder")
    return path


@pytest.fixture(scope="module")
def letters():
    return load_silhouettes(classes=())


@pytest.fixture
def small(tmp_path):
    """Three pictures of each class: one of the test split, then two to train on."""
    rng = np.random.default_rng(0)
    parts = {
        "images": rng.integers(0, 2, (15, 4, 4), dtype=np.uint8),
        "labels": np.repeat(np.arange(5), 3),
        "split": np.tile(["test", "train", "train"], 5),
        "class_names": np.array(NAMES),
    }

    def write(**changes):
        kept = {k: v for k, v in (parts | changes).items() if v is not None}
        np.savez(tmp_path / "small.npz", **kept)
        return tmp_path / "small.npz", parts["images"]

    return write


def test_a_picture_of_a_class_is_the_one_asked_for_of_the_training_split(small):
    path, images = small()
    for example, row in ((0, 1), (1, 2)):
        found = load_silhouettes(path, ("bass", "ANT"), example=example)
        assert found.names == ("bass", "ANT")
        pixels = images[[3 + row, row]].reshape(2, -1)
        np.testing.assert_array_equal(found.patterns == 1, pixels == 0)
        assert found.patterns.dtype == np.int8
        assert set(np.unique(found.patterns)) == {-1, 1}
    assert load_silhouettes(path, ()).names == tuple(NAMES)


@pytest.mark.parametrize(
    ("classes", "example", "message"),
    [
        (("whale",), 0, "classes must be of the file, got 'whale'"),
        (("ant",), 2, "example must be below 2, the training pictures of ant, got 2"),
        (("ant",), -1, "example must be below 2"),
    ],
)
def test_a_bad_choice_is_named_in_one_line(small, classes, example, message):
    with pytest.raises(ArgumentError) as error:
        load_silhouettes(small()[0], classes, example=example)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"split": None}, "silhouettes are images, labels, split, class_names: no split"),
        ({"images": np.full((15, 4, 4), 7)}, "must be squares of 0 and 1"),
        ({"images": np.zeros((15, 16))}, "must be squares"),
        ({"labels": np.zeros(3)}, "with a label and a split"),
    ],
)
def test_files_of_another_kind_get_one_line(small, changes, message):
    with pytest.raises(DataError, match=message):
        load_silhouettes(small(**changes)[0], ())


def test_a_spread_is_even_until_a_likeness_is_met():
    pictures = random_pictures(20, 20, 0)
    assert pictures.spread(5).names == ("p0", "p4", "p8", "p12", "p16")
    pictures.patterns[8] = -pictures.patterns[4]  # the same up to its sign
    assert pictures.spread(5).names == ("p0", "p4", "p9", "p12", "p16")
    with pytest.raises(ArgumentError, match="K must be at most 19 for overlaps up to"):
        pictures.spread(20)
    with pytest.raises(ArgumentError, match="K must be in 1"):
        pictures.spread(21)


@given(st.integers(1, 5), st.floats(0.1, 0.9), st.integers(0, 2**32))
def test_decorrelation_reaches_its_target_from_the_seed(letters, K, target, seed):
    patterns = letters.patterns[:K]
    before = patterns.copy()
    apart = decorrelate(patterns, target, seed)
    np.testing.assert_array_equal(patterns, before)
    assert apart.dtype == np.int8
    assert set(np.unique(apart)) <= {-1, 1}
    assert largest(apart) <= target
    np.testing.assert_array_equal(apart, decorrelate(patterns, target, seed))


def test_a_target_out_of_reach_is_refused():
    odd = np.ones((3, 9), np.int8)  # overlaps of an odd number of pixels are never below 1/9
    with pytest.raises(ArgumentError, match=r"target must be larger: 27 flips do not"):
        decorrelate(odd, 0.05, 0)
    with pytest.raises(ArgumentError, match="target must be in"):
        decorrelate(odd, 0.0, 0)


def test_the_papers_three_silhouettes(caltech):
    three = load_silhouettes(caltech)
    assert three.names == ("anchor", "Motorbikes 16", "bass")
    assert three.patterns.shape == (3, 784)
    got = overlaps(three.patterns)[np.triu_indices(3, 1)]
    np.testing.assert_allclose(got, np.array([290, 204, 402]) / 784, rtol=1e-12)
    assert largest(decorrelate(three.patterns, 0.1, 0)) <= 0.1
