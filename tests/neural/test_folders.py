"""Datasets as they are published: files of MNIST, folders of pictures."""

import gzip
import os
import struct

import numpy as np
import pytest
from PIL import Image
from stand_ins import IMAGES, LABELS, one_line

from hopfed.errors import DataError
from hopfed.neural.data import load


def idx(array):
    header = struct.pack(f">{1 + array.ndim}I", 0x800 + array.ndim, *array.shape)
    return header + array.astype(np.uint8).tobytes()


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("place", ["MNIST/raw", "."])
def test_mnist_in_idx_files(tmp_path, zipped, place):
    folder = tmp_path / place
    folder.mkdir(parents=True, exist_ok=True)
    for part, rows in (("train", slice(0, 4)), ("t10k", slice(4, 6))):
        for stem, array in ((f"{part}-images-idx3", IMAGES), (f"{part}-labels-idx1", LABELS)):
            content = idx(array[rows])
            path = folder / (f"{stem}-ubyte" + ".gz" * zipped)
            path.write_bytes(gzip.compress(content) if zipped else content)
    data = load("mnist", root=tmp_path)
    np.testing.assert_array_equal(data.inputs[:, 0], IMAGES)
    np.testing.assert_array_equal(data.labels, LABELS)
    assert data.train.tolist() == [True] * 4 + [False] * 2
    path = folder / ("t10k-labels-idx1-ubyte" + ".gz" * zipped)
    floats = b"\0\0\x0d" + idx(LABELS[4:])[3:]
    floats = gzip.compress(floats) if zipped else floats
    for broken in (path.read_bytes()[:-1], path.read_bytes()[:3], b"", b"\0" * 99, floats):
        path.write_bytes(broken)
        with pytest.raises(DataError, match="cannot be read") as caught:
            load("mnist", root=tmp_path)
        assert one_line(caught)
    path.unlink()
    with pytest.raises(DataError, match="neither t10k-labels-idx1-ubyte nor"):
        load("mnist", root=tmp_path)


def picture(path, colour, size=(4, 4), mode="RGB"):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, colour).save(path)


def test_tiny_imagenet_folder(tmp_path):
    folder = tmp_path / "tiny-imagenet-200"
    for k, wnid in enumerate(("n01", "n02")):
        for j in range(3):
            path = folder / "train" / wnid / "images" / f"{wnid}_{j}.png"
            picture(path, 100 * k + j, mode="L")
    for k in range(2):
        picture(folder / "val" / "images" / f"val_{k}.png", (9, 9, 200 + k))
    (folder / "wnids.txt").write_text("n02\nn01\n")
    (folder / "words.txt").write_text("n01\tgoldfish, Carassius\nn02\tbullfrog\nn03\tother\n")
    (folder / "val" / "val_annotations.txt").write_text(
        "val_0.png\tn01\t0\t0\t62\t57\nval_1.png\tn02\t1\t1\t3\t3\n"
    )
    data = load("tiny-imagenet", root=tmp_path)
    assert data.class_names == ("bullfrog", "goldfish, Carassius")
    assert data.labels.tolist() == [0, 0, 0, 1, 1, 1, 1, 0]
    assert data.inputs[:, 2, 0, 0].tolist() == [100, 101, 102, 0, 1, 2, 200, 201]
    assert data.train.tolist() == [True] * 6 + [False] * 2
    assert load("tiny_imagenet", root=folder, size=2).shape == (3, 2, 2)
    picture(folder / "val" / "images" / "val_1.png", (9, 9, 9), size=(5, 4))
    with pytest.raises(DataError, match=r"val_1.png: images of differing size, \(4, 5\) after"):
        load("tiny-imagenet", root=tmp_path)
    (folder / "val" / "images" / "val_1.png").write_bytes(b"no picture")
    with pytest.raises(DataError, match=r"val_1.png: cannot be read"):
        load("tiny-imagenet", root=tmp_path)


@pytest.mark.parametrize(
    ("name", "place", "domains"),
    [
        ("pacs", "PACS/kfold", ("art_painting", "cartoon", "photo", "sketch")),
        ("office-home", "OfficeHomeDataset_10072016", ("Art", "Clipart", "Product", "Real World")),
    ],
)
def test_pictures_by_domain_and_class(tmp_path, name, place, domains):
    for k, domain in enumerate(domains):
        for j, kind in enumerate(("dog", "house")):
            for i in range(2):
                path = tmp_path / place / domain / kind / f"{i}.png"
                picture(path, (50 * k, 100 * j, i), size=(5 + k, 7 + i))
    (tmp_path / place / "splits").mkdir()
    data = load(name, root=tmp_path, size=4)
    assert (data.name, data.shape) == (name, (3, 4, 4))
    assert data.class_names == ("dog", "house")
    assert data.domain_names == domains
    np.testing.assert_array_equal(data.inputs[:, 0, 0, 0], 50 * data.domain)
    np.testing.assert_array_equal(data.inputs[:, 1, 0, 0], 100 * data.labels)
    assert load(name, root=tmp_path / place).shape == (3, 64, 64)
    for path in (tmp_path / place / domains[1] / "house").iterdir():
        path.unlink()
    with pytest.raises(DataError, match=f"{domains[1]}: no pictures of class house"):
        load(name, root=tmp_path)


def test_a_bomb_of_idx_is_weighed_before_it_is_unpacked(tmp_path):
    path = tmp_path / "train-images-idx3-ubyte.gz"
    for shape, message in (
        ((2**31, 2**31, 2**31), "cannot hold the shape"),
        ((60, 28, 28), "more or less than the 47040 bytes"),
    ):
        header = struct.pack(">4I", 0x803, *shape)
        path.write_bytes(gzip.compress(header + bytes(10**7)))
        with pytest.raises(DataError, match=message):
            load("mnist", root=tmp_path)


def test_parts_of_mnist_that_do_not_fit_together(tmp_path):
    for part, images in (("train", IMAGES), ("t10k", IMAGES[:, :3])):
        (tmp_path / f"{part}-images-idx3-ubyte").write_bytes(idx(images))
        (tmp_path / f"{part}-labels-idx1-ubyte").write_bytes(idx(LABELS))
    with pytest.raises(DataError, match="cannot be read") as caught:
        load("mnist", root=tmp_path)
    assert one_line(caught)


@pytest.mark.parametrize(
    ("notes", "message"),
    [
        ("../../secret.png\tn01\t0\n", "is not the name of a file"),
        ("val_0.png\n", "cannot be read"),
        ("val_0.png\tn99\n", "'n99' is missing"),
    ],
)
def test_annotations_name_pictures_beside_them(tmp_path, notes, message):
    picture(tmp_path / "train" / "n01" / "images" / "a.png", (1, 2, 3))
    picture(tmp_path / "secret.png", (1, 2, 3))
    (tmp_path / "wnids.txt").write_text("n01\n")
    (tmp_path / "words.txt").write_text("n01\tgoldfish\n")
    (tmp_path / "val").mkdir()
    (tmp_path / "val" / "val_annotations.txt").write_text(notes)
    with pytest.raises(DataError, match=message) as caught:
        load("tiny-imagenet", root=tmp_path)
    assert one_line(caught)


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        ("n01 ../../other", "'../../other' is not the name of a file or a folder"),
        ("n01 " + "n" * 300, "File name too long"),
        ("n02", "no such folder"),
    ],
)
def test_classes_name_folders_below(tmp_path, classes, message):
    picture(tmp_path / "train" / "n01" / "images" / "a.png", (1, 2, 3))
    (tmp_path / "wnids.txt").write_text(classes)
    (tmp_path / "words.txt").write_text("n01\tgoldfish\n")
    with pytest.raises(DataError, match=message) as caught:
        load("tiny-imagenet", root=tmp_path)
    assert one_line(caught)


def test_pictures_that_are_bombs_or_pipes(tmp_path):
    for domain in ("art_painting", "photo"):
        picture(tmp_path / domain / "dog" / "a.png", (1, 2, 3))
    bomb = tmp_path / "photo" / "dog" / "b.png"
    Image.new("1", (20_000, 20_000)).save(bomb)
    with pytest.raises(DataError, match=r"b.png: cannot be read: .*decompression bomb"):
        load("pacs", root=tmp_path)
    bomb.unlink()
    os.mkfifo(bomb)
    with pytest.raises(DataError, match=r"b.png: a pipe or a device"):
        load("pacs", root=tmp_path)
