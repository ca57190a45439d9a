import gzip
import json
import os
import pickle
import string
import struct
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from hopfed.errors import ArgumentError, BackendError, DataError
from hopfed.neural.data import Dataset, load
from hopfed.neural.data.archives import read_npz
from hopfed.neural.data.text import LENGTH, VOCABULARY, encode_text, speech_windows
from hopfed.neural.data.unpickle import read_pickle

DATA = Path(os.environ.get("HOPFED_DATA", Path(__file__).parents[3] / "shared" / "data"))
RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, size=(6, 5, 4), dtype=np.uint8)
LABELS = np.array([0, 1, 2, 0, 1, 2])


def real(name):
    if not any(DATA.glob(f"{name}*.npz")):
        pytest.skip(f"{name} not at hand; set HOPFED_DATA to its folder")
    return load(name.replace("_", "-"), root=DATA)


def npz(folder, **arrays):
    path = folder / "a.npz"
    np.savez(path, **{"images": IMAGES, "labels": LABELS} | arrays)
    return path


def picture(path, colour, size=(4, 4), mode="RGB"):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, colour).save(path)


def one_line(error):
    return "\n" not in str(error.value)


# Archives


def test_digits_are_those_of_scikit_learn():
    from sklearn.datasets import load_digits

    want = load_digits()
    data = load("digits")
    np.testing.assert_array_equal(data.inputs[:, 0], want.images)
    np.testing.assert_array_equal(data.labels, want.target)
    assert (data.classes, data.shape, data.inputs.dtype) == (10, (1, 8, 8), np.uint8)


@pytest.mark.parametrize(
    ("images", "want"),
    [
        (IMAGES, IMAGES[:, None]),
        (IMAGES > 99, (IMAGES > 99)[:, None].astype(np.uint8)),
        (IMAGES.astype(np.int64), IMAGES[:, None]),
        (IMAGES / 255, (IMAGES / 255).astype(np.float32)[:, None]),
        (np.stack([IMAGES] * 3, axis=3), np.stack([IMAGES] * 3, axis=1)),
        (np.stack([IMAGES] * 3, axis=1), np.stack([IMAGES] * 3, axis=1)),
    ],
)
def test_every_layout_of_images_becomes_channels_first(tmp_path, images, want):
    data = read_npz(npz(tmp_path, images=images))
    assert data.inputs.dtype == want.dtype
    np.testing.assert_array_equal(data.inputs, want)
    np.testing.assert_array_equal(data.labels, LABELS)


def test_optional_columns_as_numbers_and_as_words(tmp_path):
    path = npz(
        tmp_path,
        class_names=["a", "b", "c", "never"],
        domain=np.array(["photo", "art", "art", "photo", "art", "photo"]),
        writer=np.array([2, 0, 0, 2, 1, 1], dtype=np.uint8),
        writer_names=["x", "y", "z"],
        coarse_labels=[0, 1, 1, 0, 1, 1],
        labels=LABELS,
        train=[True, True, False, False, True, True],
    )
    with pytest.raises(DataError, match="every class must have one coarse label"):
        read_npz(path)  # the class that never occurs has none
    data = read_npz(npz(tmp_path, **dict(np.load(path)) | {"class_names": ["a", "b", "c"]}))
    assert data.class_names == ("a", "b", "c")
    assert data.domain_names == ("art", "photo")
    assert data.domain.tolist() == [1, 0, 0, 1, 0, 1]
    assert data.writer.tolist() == [2, 0, 0, 2, 1, 1]
    assert data.writer_names == ("x", "y", "z")
    assert data.coarse.tolist() == [0, 1, 1]
    assert data.train.tolist() == [True, True, False, False, True, True]


@pytest.mark.parametrize(
    ("words", "train"),
    [
        (["train", "train", "test", "test", "train", "test"], [1, 1, 0, 0, 1, 0]),
        (["train", "val", "test", "test", "train", "test"], [1, 1, 0, 0, 1, 0]),
        (["Train", "valid", "valid", "train", "train", "valid"], [1, 0, 0, 1, 1, 0]),
    ],
)
def test_a_published_validation_set_trains_only_beside_a_test_set(tmp_path, words, train):
    assert read_npz(npz(tmp_path, split=words)).train.tolist() == [bool(t) for t in train]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"labels": LABELS[:5]}, "6 inputs for 5 labels"),
        ({"labels": LABELS - 1}, "label -1 of row 0 is outside of 0..1"),
        ({"labels": LABELS, "class_names": ["a", "b"]}, "label 2 of row 2 is outside of 0..1"),
        ({"labels": LABELS / 2}, "whole numbers or words"),
        ({"labels": np.zeros(0, int), "images": IMAGES[:0]}, "whole numbers or words"),
        ({"images": np.array([IMAGES[0], IMAGES[0, :2]], dtype=object)}, "Object arrays"),
        ({"images": np.where(IMAGES > 9, np.nan, 1.0)}, "NaN"),
        ({"images": IMAGES.astype(int) + 256 - IMAGES.max()}, r"in 0..255, got \d+\.\.256"),
        ({"images": IMAGES.reshape(6, 20)}, r"shape \(6, 20\)"),
        ({"images": IMAGES.astype(str)}, "must be numbers"),
        (
            {"split": ["train", "test", "new", "train", "test", "test"]},
            "split must be of the words",
        ),
        ({"domain": [0, 1]}, r"domain has shape \(2,\)"),
        ({"writer": [0, 1, 2, 3, 4, 9], "writer_names": ["a"]}, "writer 1 of row 1"),
        ({"coarse_labels": [0, 1, 1, 1, 1, 1]}, "one coarse label"),
        ({"coarse_labels": [0, 1]}, "cannot be read"),
    ],
)
def test_malformed_archives_get_one_line(tmp_path, arrays, message):
    path = npz(tmp_path, **arrays)
    with pytest.raises(DataError, match=message) as caught:
        read_npz(path)
    assert one_line(caught)


def test_missing_foreign_and_truncated_archives(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        load("nowhere.npz", root=tmp_path)
    np.savez(tmp_path / "b.npz", x=IMAGES)
    with pytest.raises(DataError, match="labels and images, jpeg or text are due, found x"):
        load(str(tmp_path / "b.npz"))
    path = npz(tmp_path)
    whole = path.read_bytes()
    for size in (0, 10, len(whole) // 2, len(whole) - 5):
        path.write_bytes(whole[:size])
        with pytest.raises(DataError, match="cannot be read") as caught:
            load("a.npz", root=tmp_path)
        assert one_line(caught)


def sheets(images, grid, quality=95):
    """Lay pictures (n, s, s, 3) out on JPEG sheets of grid x grid."""
    import io

    side = images.shape[1]
    empty = -len(images) % grid**2
    padded = np.concatenate([images, np.zeros((empty, *images.shape[1:]), np.uint8)])
    blobs = []
    for block in padded.reshape(-1, grid, grid, side, side, images.shape[3]):
        sheet = block.transpose(0, 2, 1, 3, 4).reshape(grid * side, grid * side, -1)
        out = io.BytesIO()
        Image.fromarray(sheet.squeeze()).save(out, "JPEG", quality=quality, subsampling=0)
        blobs.append(np.frombuffer(out.getvalue(), np.uint8))
    offsets = np.cumsum([0, *(len(b) for b in blobs)])
    return {"jpeg": np.concatenate(blobs), "offsets": offsets, "tile": [grid, side]}


@pytest.mark.parametrize("channels", [1, 3])
def test_jpeg_sheets_are_cut_row_by_row(tmp_path, channels):
    colours = RNG.integers(0, 256, size=(7, 1, 1, channels), dtype=np.uint8)
    arrays = sheets(np.broadcast_to(colours, (7, 8, 8, channels)), grid=2)
    np.savez(tmp_path / "a.npz", labels=np.arange(7), **arrays)
    data = load("a.npz", root=tmp_path)
    assert data.inputs.shape == (7, channels, 8, 8)
    want = np.broadcast_to(colours.transpose(0, 3, 1, 2), data.inputs.shape)
    np.testing.assert_allclose(data.inputs.astype(int), want, atol=3)
    np.savez(tmp_path / "a.npz", labels=np.arange(9), **arrays)
    with pytest.raises(DataError, match="too few pictures for 9 labels"):
        load("a.npz", root=tmp_path)
    arrays["offsets"][1] -= 40
    np.savez(tmp_path / "a.npz", labels=np.arange(7), **arrays)
    with pytest.raises(DataError, match="cannot be read"):
        load("a.npz", root=tmp_path)


# Text


def test_the_vocabulary_is_that_of_leaf():
    printable = set(string.ascii_letters + string.digits + "\n !\"&'(),-.:;>?[]}")
    assert len(VOCABULARY) == 80
    assert set(VOCABULARY) == printable
    np.testing.assert_array_equal(encode_text(VOCABULARY), np.arange(80))
    np.testing.assert_array_equal(encode_text("$é\U0001f600"), [1, 1, 1])


def test_windows_of_a_speech_end_where_the_next_character_begins():
    speeches = ["Speak, speak.", "You are all\nresolved " + "x" * 100]
    windows, following, speech = speech_windows(speeches)
    assert np.bincount(speech).tolist() == [14, 122]
    for k, text in enumerate(["Speak, speak.\n", "You are all resolved " + "x" * 100 + "\n"]):
        own = np.flatnonzero(speech == k)
        for j, row in enumerate(own):
            context = (" " * LENGTH + text)[j : j + LENGTH]
            assert "".join(VOCABULARY[c] for c in windows[row]) == context
            assert VOCABULARY[following[row]] == text[j]


def test_speeches_by_speaker(tmp_path):
    script = "Ay. Nay, nay.  So be it."
    path = tmp_path / "play.npz"
    np.savez(
        path,
        text=np.frombuffer(script.encode(), np.uint8),
        start=[0, 4, 13, 15],
        end=[3, 13, 15, 24],
        labels=[1, 0, 0, 1],
        class_names=["ANN", "BOB"],
    )
    data = load(str(path))
    assert (data.shape, data.classes) == ((80,), 80)
    assert data.writer_names == ("ANN", "BOB")
    said = {k: "".join(VOCABULARY[c] for c in data.labels[data.group == k]) for k in (0, 1, 2, 3)}
    assert said == {0: "Ay.\n", 1: "Nay, nay.\n", 2: "", 3: "So be it.\n"}
    assert [data.writer[data.group == k][0] for k in (0, 1, 3)] == [1, 0, 1]
    np.savez(path, text=np.zeros(9, np.uint8), start=[0], end=[3], labels=[0, 1])
    with pytest.raises(DataError, match="1 speeches for 2 speakers"):
        load(str(path))


# Official folders


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


def old_string(text):
    """A string as Python 2 pickles it, which is how CIFAR is published."""
    raw = text.encode("latin-1") if isinstance(text, str) else text
    return b"T" + struct.pack("<I", len(raw)) + raw


def old_array(array):
    shape = b"(" + b"".join(b"J" + struct.pack("<i", n) for n in array.shape) + b"t"
    kind = b"cnumpy\ndtype\n" + old_string("u1") + b"K\x00K\x01\x87R"
    state = b"(K\x03" + old_string("|") + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    empty = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85" + old_string("b")
    content = b"(K\x01" + shape + kind + state + b"\x89" + old_string(array.tobytes()) + b"tb"
    return empty + b"\x87R" + content


def old_pickle(**values):
    def item(value):
        if isinstance(value, np.ndarray):
            return old_array(value)
        if isinstance(value, list):
            return b"](" + b"".join(map(item, value)) + b"e"
        return old_string(value) if isinstance(value, str) else b"J" + struct.pack("<i", value)

    pairs = b"".join(old_string(key) + item(value) for key, value in values.items())
    return b"\x80\x02}(" + pairs + b"u."


def test_cifar10_in_batches_of_python_2(tmp_path):
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    rows = RNG.integers(0, 256, size=(12, 3072), dtype=np.uint8)
    labels = RNG.integers(0, 10, size=12).tolist()
    for k in range(6):
        name = "test_batch" if k == 5 else f"data_batch_{k + 1}"
        part = slice(2 * k, 2 * k + 2)
        batch = old_pickle(batch_label="x", data=rows[part], labels=labels[part], filenames=["a"])
        (folder / name).write_bytes(batch)
    (folder / "batches.meta").write_bytes(old_pickle(label_names=list("abcdefghij")))
    data = load("cifar10", root=tmp_path)
    np.testing.assert_array_equal(data.inputs, rows.reshape(12, 3, 32, 32))
    assert data.labels.tolist() == labels
    assert data.class_names == tuple("abcdefghij")
    assert data.train.tolist() == [True] * 10 + [False] * 2
    (folder / "data_batch_2").write_bytes(old_pickle(data=rows[:2]))
    with pytest.raises(DataError, match="cannot be read: 'labels'"):
        load("cifar10", root=tmp_path)
    (folder / "data_batch_2").unlink()
    with pytest.raises(DataError, match="data_batch_2: no such file"):
        load("cifar10", root=folder)


def test_cifar100_has_superclasses(tmp_path):
    folder = tmp_path / "cifar-100-python"
    folder.mkdir()
    rows = RNG.integers(0, 256, size=(5, 3072), dtype=np.uint8)
    for name, part, fine in (("train", rows[:3], [0, 1, 2]), ("test", rows[3:], [2, 0])):
        coarse = [(1, 0, 1)[k] for k in fine]
        batch = old_pickle(data=part, fine_labels=fine, coarse_labels=coarse)
        (folder / name).write_bytes(batch)
    (folder / "meta").write_bytes(old_pickle(fine_label_names=list("abc")))
    data = load("cifar100", root=folder)
    np.testing.assert_array_equal(data.inputs, rows.reshape(5, 3, 32, 32))
    assert data.labels.tolist() == [0, 1, 2, 2, 0]
    assert data.coarse.tolist() == [1, 0, 1]
    assert data.train.sum() == 3


@pytest.mark.parametrize("protocol", [2, 4])
@pytest.mark.parametrize("kind", ["u1", "<i8", ">i4", "<f4"])
def test_pickles_of_this_python_are_read_too(tmp_path, protocol, kind):
    array = np.asfortranarray(np.arange(6).reshape(2, 3).astype(kind))
    path = tmp_path / "a"
    path.write_bytes(pickle.dumps({"x": array, "y": [1, "two"]}, protocol=protocol))
    got = read_pickle(path)
    np.testing.assert_array_equal(got["x"], array)
    assert got["x"].dtype == array.dtype
    assert got["y"] == [1, "two"]


class Calls:
    def __init__(self, *call):
        self.call = call

    def __reduce__(self):
        return self.call[0], self.call[1:]


@pytest.mark.parametrize(
    "call",
    [
        lambda path: (os.mkdir, str(path)),
        lambda path: (eval, f"__import__('os').mkdir({str(path)!r})"),
        lambda path: (np.save, str(path), 1),
        lambda path: (getattr, [], "append"),
        lambda path: (np.fromfile, "/etc/hostname"),
    ],
)
def test_a_pickle_runs_nothing(tmp_path, call):
    made = tmp_path / "made"
    function, *arguments = call(made)
    (tmp_path / "a").write_bytes(pickle.dumps({"data": Calls(function, *arguments)}, protocol=2))
    with pytest.raises(DataError, match="which is refused") as caught:
        read_pickle(tmp_path / "a")
    assert one_line(caught)
    assert not list(tmp_path.glob("made*"))


def test_pickles_of_anything_else_are_refused(tmp_path):
    path = tmp_path / "a"
    for value in ([1, 2], "text", {"x": np.array([{}], dtype=object)}, {"x": np.array(["a"])}):
        path.write_bytes(pickle.dumps(value, protocol=2))
        with pytest.raises(DataError, match="not a pickle of this dataset"):
            read_pickle(path)
    whole = old_pickle(data=np.zeros((2, 3), np.uint8), labels=[0, 1])
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(DataError) as caught:
            read_pickle(path)
        assert one_line(caught)


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


def leaf(folder, part, users):
    (folder / part).mkdir(parents=True, exist_ok=True)
    content = {
        "users": list(users),
        "num_samples": [len(u["y"]) for u in users.values()],
        "user_data": users,
    }
    (folder / part / "all_data_0_niid_0_keep_0.json").write_text(json.dumps(content))


def test_femnist_of_leaf(tmp_path):
    folder = tmp_path / "femnist" / "data"
    pixels = RNG.integers(0, 256, size=(4, 784))
    x = (pixels / 255).tolist()
    leaf(folder, "all_data", {"f1": {"x": x[:3], "y": [0, 61, 10]}, "f0": {"x": x[3:], "y": [36]}})
    data = load("femnist", root=tmp_path)
    np.testing.assert_array_equal(data.inputs.reshape(4, 784), pixels)
    assert [data.class_names[k] for k in data.labels] == ["0", "z", "A", "a"]
    assert [data.writer_names[k] for k in data.writer] == ["f1", "f1", "f1", "f0"]
    assert data.train is None
    leaf(folder, "train", {"f1": {"x": x[:2], "y": [1, 2]}})
    leaf(folder, "test", {"f1": {"x": x[2:], "y": [3, 4]}, "f2": {"x": [], "y": []}})
    data = load("femnist", root=tmp_path)
    assert data.train.tolist() == [True, True, False, False]
    assert data.writer.tolist() == [0, 0, 0, 0]
    for fault, message in (
        ({"x": x[:1], "y": [62]}, "label 62"),
        ({"x": [x[0][:9]], "y": [0]}, "cannot be read"),
        ({"x": [[2.0] * 784], "y": [0]}, r"pixels must be in \[0, 1\]"),
        ({"x": x[:1]}, "cannot be read: 'y'"),
    ):
        users = {"f1": fault}
        content = {"users": ["f1"], "user_data": users}
        (folder / "train" / "all_data_0_niid_0_keep_0.json").write_text(json.dumps(content))
        with pytest.raises(DataError, match=message) as caught:
            load("femnist", root=tmp_path)
        assert one_line(caught)


def test_speeches_of_leaf_are_found_again(tmp_path):
    folder = tmp_path / "shakespeare" / "data"

    def said(*speeches):
        windows, following, _ = speech_windows(speeches)
        x = ["".join(VOCABULARY[c] for c in window) for window in windows]
        return {"x": x, "y": [VOCABULARY[c] for c in following]}

    one, two = said("To be.", "Or not."), said("Ay, my lord.")
    leaf(folder, "train", {"HAMLET": one, "OSRIC": {k: v[4:] for k, v in two.items()}})
    leaf(folder, "test", {"OSRIC": {k: v[:3] for k, v in two.items()}})
    data = load("shakespeare", root=tmp_path)
    assert np.bincount(data.group).tolist() == [7, 8, 9, 3]


def test_shakespeare_of_leaf(tmp_path):
    folder = tmp_path / "shakespeare" / "data"
    line = "To be, or not to be".rjust(80)
    leaf(folder, "all_data", {"HAMLET": {"x": [line, line[1:] + ","], "y": [",", "\n"]}})
    data = load("shakespeare", root=tmp_path)
    assert "".join(VOCABULARY[c] for c in data.inputs[0]) == line
    assert [VOCABULARY[k] for k in data.labels] == [",", "\n"]
    assert data.writer_names == ("HAMLET",)
    for x, y, message in (
        ([line[1:]], ["a"], "sequence 0 has 79 characters, not 80"),
        ([line], ["ab"], "the next character must be one character, got 'ab'"),
        ([line], ["a", "b"], "1 sequences for 2 next characters"),
    ):
        leaf(folder, "all_data", {"HAMLET": {"x": x, "y": y}})
        with pytest.raises(DataError, match=message):
            load("shakespeare", root=tmp_path)
    (folder / "all_data" / "all_data_0_niid_0_keep_0.json").write_text('{"users": ["HAM')
    with pytest.raises(DataError, match="cannot be read") as caught:
        load("shakespeare", root=tmp_path)
    assert one_line(caught)


# The hub


class Table:
    """What is used of a table of the `datasets` library."""

    def __init__(self, columns, names=()):
        self.columns = columns
        self.column_names = list(columns)
        kinds = {name: types.SimpleNamespace() for name in columns}
        self.features = kinds | {k: types.SimpleNamespace(names=v) for k, v in dict(names).items()}

    def __len__(self):
        return len(next(iter(self.columns.values())))

    def __getitem__(self, column):
        return iter(self.columns[column])

    def iter(self, batch_size):
        for start in range(0, len(self), batch_size):
            yield {k: v[start : start + batch_size] for k, v in self.columns.items()}


def pictures(n, mode="RGB", size=(4, 4)):
    return [Image.new(mode, size, k if mode == "L" else (k, 0, 0)) for k in range(n)]


def fake(monkeypatch, tables):
    def load_dataset(path, split):
        if (path, split) not in tables:
            raise ConnectionError("no network\nand more")
        return tables[path, split]

    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(load_dataset=load_dataset))


def test_hub_with_a_published_split(monkeypatch):
    names = {"label": list("0123456789")}
    train = Table({"image": pictures(3, "L"), "label": [5, 0, 4]}, names)
    test = Table({"image": pictures(2, "L"), "label": [7, 2]}, names)
    fake(monkeypatch, {("ylecun/mnist", "train"): train, ("ylecun/mnist", "test"): test})
    data = load("hub:mnist")
    assert data.inputs[:, 0, 0, 0].tolist() == [0, 1, 2, 0, 1]
    assert data.labels.tolist() == [5, 0, 4, 7, 2]
    assert data.train.tolist() == [True, True, True, False, False]
    assert (data.shape, data.classes) == ((1, 4, 4), 10)
    assert load("hub:mnist", size=2).shape == (1, 2, 2)


def test_hub_with_superclasses(monkeypatch):
    columns = {"img": pictures(4), "fine_label": [0, 1, 2, 1], "coarse_label": [1, 0, 1, 0]}
    table = Table(columns, {"fine_label": ["a", "b", "c"]})
    fake(monkeypatch, {("uoft-cs/cifar100", split): table for split in ("train", "test")})
    data = load("hub:cifar100")
    assert data.coarse.tolist() == [1, 0, 1]
    assert data.inputs[:, 0, 0, 0].tolist() == [0, 1, 2, 3] * 2


def test_hub_by_writer_and_by_domain(monkeypatch):
    columns = {"image": pictures(3, "L"), "writer_id": ["f2", "f1", "f2"], "character": [0, 9, 9]}
    femnist = Table(columns, {"character": list("0123456789")})
    columns = {"image": pictures(1) + pictures(1, size=(9, 5)), "domain": ["art", "photo"]}
    pacs = Table(columns | {"label": [0, 1]}, {"label": ["dog", "elephant"]})
    tables = {("flwrlabs/femnist", "train"): femnist, ("flwrlabs/pacs", "train"): pacs}
    fake(monkeypatch, tables)
    data = load("hub:femnist")
    assert data.writer.tolist() == [1, 0, 1]
    assert data.train is None
    data = load("hub:pacs")
    assert data.shape == (3, 64, 64)
    assert data.domain_names == ("art", "photo")


def test_hub_texts(monkeypatch):
    line = "To be, or not to be".rjust(80)
    columns = {"character_id": ["HAMLET"] * 2, "x": [line, line[1:] + ","], "y": [",", "\n"]}
    fake(monkeypatch, {("flwrlabs/shakespeare", "train"): Table(columns)})
    data = load("hub:shakespeare")
    assert "".join(VOCABULARY[c] for c in data.inputs[1]) == line[1:] + ","
    assert data.group.tolist() == [0, 0]
    assert [VOCABULARY[k] for k in data.labels] == [",", "\n"]


def test_hub_faults(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(BackendError, match=r"hub:pacs needs the datasets library: pip install"):
        load("hub:pacs")
    table = Table({"image": pictures(2), "lable": [0, 1]})
    ragged = Table({"image": pictures(1) + pictures(1, size=(5, 4)), "label": [0, 1]})
    tables = {("flwrlabs/office-home", "train"): table}
    tables |= {("zh-plus/tiny-imagenet", split): ragged for split in ("train", "valid")}
    fake(monkeypatch, tables)
    with pytest.raises(DataError, match="no column label in flwrlabs/office-home, only image,"):
        load("hub:office-home")
    with pytest.raises(DataError, match="row 1: images of differing size"):
        load("hub:tiny-imagenet")
    with pytest.raises(BackendError, match=r"uoft-cs/cifar10 cannot be loaded: no network$"):
        load("hub:cifar10")
    with pytest.raises(ArgumentError, match="did you mean hub:cifar10"):
        load("hub:cifar11")


# Finding them


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("digitz", r"did you mean digits\?\), got 'digitz'"),
        ("minst", "did you mean mnist"),
        ("/a/folder", "data must be digits, FILE.npz, hub:NAME"),
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


def test_real_speeches():
    data = real("shakespeare")
    assert data.shape == (80,)
    assert len(data) == 1_027_835
    first = "".join(VOCABULARY[c] for c in data.labels[data.group == 0])
    assert first == "Before we proceed any further, hear me speak.\n"
    assert data.writer_names[data.writer[0]] == "First Citizen"
