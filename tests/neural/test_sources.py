"""Finding a dataset by its name, and what is found in the real ones."""

import numpy as np
import pytest
from stand_ins import IMAGES, LABELS, npz, one_line, real

from hopfed.errors import ArgumentError, DataError
from hopfed.neural.data import Dataset, load


def test_digits_are_those_of_scikit_learn():
    from sklearn.datasets import load_digits

    want = load_digits()
    data = load("digits")
    np.testing.assert_array_equal(data.inputs[:, 0], want.images)
    np.testing.assert_array_equal(data.labels, want.target)
    assert (data.classes, data.shape, data.inputs.dtype) == (10, (1, 8, 8), np.uint8)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("digitz", r"did you mean digits\?\), got 'digitz'"),
        ("minst", "did you mean mnist"),
        ("/a/folder", r"data must be digits, FILE.npz, FILE.csv\[:COLUMN\], hub:NAME"),
        ("", "data must be"),
        ("hub:", "hub:NAME with a name of mnist"),
    ],
)
def test_unknown_names(spec, message):
    with pytest.raises(ArgumentError, match=message) as caught:
        load(spec)
    assert one_line(caught)


def test_the_root_is_the_argument_or_the_environment(tmp_path, monkeypatch):
    monkeypatch.delenv("HOPFED_DATA", raising=False)
    with pytest.raises(DataError, match="mnist: give its root, set HOPFED_DATA, or take hub:mnist"):
        load("mnist")
    with pytest.raises(DataError, match="nowhere: no such folder"):
        load("mnist", root=tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"neither mnist.npz nor a folder MNIST/raw"):
        load("mnist", root=tmp_path)
    npz(tmp_path).rename(tmp_path / "mnist_small.npz")
    monkeypatch.setenv("HOPFED_DATA", str(tmp_path))
    assert load("mnist").name == "mnist_small"
    npz(tmp_path).rename(tmp_path / "mnist_large.npz")
    with pytest.raises(DataError, match=r"several files in .*: mnist_large.npz, mnist_small.npz"):
        load("mnist")
    npz(tmp_path).rename(tmp_path / "mnist.npz")
    assert load("MNIST").name == "mnist"


def test_cifar10_is_not_cifar100(tmp_path):
    npz(tmp_path).rename(tmp_path / "cifar100_jpeg90.npz")
    assert load("cifar100", root=tmp_path).name == "cifar100_jpeg90"
    with pytest.raises(DataError, match=r"neither cifar10.npz"):
        load("cifar10", root=tmp_path)


@pytest.mark.parametrize(
    ("spec", "size", "message"),
    [
        ("digits", 16, "digits is not resized"),
        ("a.npz", 16, "a.npz is not resized"),
        ("mnist", 16, "mnist.npz is not resized"),
        ("pacs", 0, "a number of pixels above 0"),
        ("pacs", 2.5, "a number of pixels above 0"),
    ],
)
def test_size_is_only_for_decoded_pictures(tmp_path, spec, size, message):
    npz(tmp_path)
    npz(tmp_path).rename(tmp_path / "mnist.npz")
    with pytest.raises(ArgumentError, match=message):
        load(spec, root=tmp_path, size=size)


def test_a_dataset_checks_itself_and_takes_rows():
    data = Dataset("d", IMAGES[:, None], LABELS, ("a", "b", "c"), train=LABELS > 0)
    part = data.take(np.array([4, 2]))
    np.testing.assert_array_equal(part.inputs, IMAGES[[4, 2], None])
    assert (part.labels.tolist(), part.train.tolist()) == ([1, 2], [True, True])
    with pytest.raises(DataError, match="images are float64"):
        Dataset("d", IMAGES[:, None] / 2, LABELS, ("a", "b", "c"))
    with pytest.raises(DataError, match="neither images nor tokens"):
        Dataset("d", IMAGES, LABELS, ("a", "b", "c"))
    with pytest.raises(DataError, match="superclasses for 3 classes"):
        Dataset("d", IMAGES[:, None], LABELS, ("a", "b", "c"), coarse=np.zeros(2, np.int64))


# The real data, where they are at hand


@pytest.mark.parametrize(
    ("name", "rows", "shape", "classes", "train"),
    [
        ("mnist", 70_000, (1, 28, 28), 10, 60_000),
        ("cifar10", 60_000, (3, 32, 32), 10, 50_000),
        ("tiny_imagenet", 500, (3, 64, 64), 10, 400),
        ("pacs", 9_991, (3, 64, 64), 7, 7_993),
    ],
)
def test_real_images(name, rows, shape, classes, train):
    data = real(name)
    assert (len(data), data.shape, data.classes, data.train.sum()) == (rows, shape, classes, train)
    assert np.bincount(data.labels, minlength=classes).min() > 0
    assert 40 < data.inputs[::50].std() < 110  # pictures, neither empty nor noise


def test_real_cifar100_has_five_classes_in_each_superclass():
    data = real("cifar100")
    assert np.bincount(data.coarse).tolist() == [5] * 20
    bear = data.coarse[data.class_names.index("bear")]
    names = [data.class_names[k] for k in np.flatnonzero(data.coarse == bear)]
    assert names == ["bear", "leopard", "lion", "tiger", "wolf"]


def test_names_that_no_file_can_have(tmp_path):
    for spec in ("a" * 300 + ".npz", "a\0b.npz"):
        for root in (None, tmp_path, "b" * 300):
            with pytest.raises(DataError) as caught:
                load(spec, root=root)
            assert "\n" not in str(caught.value)
    with pytest.raises(DataError, match="no such folder"):
        load("mnist", root="b" * 300)
