"""Datasets by name, file and folder: what is read, and what is refused in one line."""

import io
import os
import sys
import types

import numpy as np
import pytest
from PIL import Image
from stand_ins import IMAGES, LABELS, npz, one_line

from hopfed.errors import ArgumentError, BackendError, DataError
from hopfed.neural.data import load, partition
from hopfed.neural.data.sources import LENGTH, VOCABULARY, holds_features, read_npz


def refused(source, words, error=DataError):
    """It is not read, for a reason of one line."""
    with pytest.raises(error, match=words) as caught:
        load(str(source))
    assert one_line(caught)


def picture(path, colour, size=(4, 4), mode="RGB"):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, colour).save(path)


@pytest.mark.parametrize("form", ["{client}/{part}.npz", "{part}/{client}.npz"])
def test_a_folder_of_clients_is_their_own_partition(tmp_path, form):
    rng = np.random.default_rng(0)
    for client, n in (("10", 8), ("9", 12)):
        for part, size in (("train", n), ("test", n // 2)):
            path = tmp_path / form.format(client=client, part=part)
            path.parent.mkdir(exist_ok=True)
            np.savez(path, x=rng.normal(size=(size, 3)), y=np.arange(size) % 2)
    data = load(str(tmp_path))
    assert holds_features(str(tmp_path))
    part = partition("given", data, 2, seed=1)
    assert part.names == ("9", "10")  # by size
    assert all(data.train[rows].all() for rows in part.train)
    assert not any(data.train[rows].any() for rows in part.test)
    assert part.sizes[:, 2].tolist() == [6, 4]
    assert part.sizes.sum(axis=1).tolist() == [18, 12]
    with pytest.raises(ArgumentError, match="clients must be 2, the number in the data"):
        partition("given", data, 3)
    pickled = np.array({"x": [], "y": []}, dtype=object)
    for arrays, words in (
        ({"x": np.zeros((6, 4)), "y": np.zeros(6)}, "clients have examples of different shapes"),
        ({"data": pickled}, r"write each file anew: d = np.load"),
        ({"x": np.zeros((6, 3))}, "needs x and y of equal length, found x of 6"),
        ({"x": np.zeros((6, 3)), "y": np.zeros(5)}, "found x of 6, y of 5"),
    ):
        np.savez(path, **arrays)
        refused(tmp_path, words)
    path.unlink()
    refused(tmp_path, "no such file")


def test_names_are_looked_for_where_the_environment_says(tmp_path, monkeypatch):
    forms = r"data must be digits, FILE.npz, FILE.csv\[:COLUMN\], a folder of pictures"
    hint = r"did you mean digits\?\), got 'digitz'"
    for name, words in (("digitz", hint), ("/a/folder", forms), ("", "data must be")):
        refused(name, words, ArgumentError)
    for place, words in (
        ("", r"set HOPFED_DATA to the folder .*, or take hub:mnist"),  # as if it were not set
        (tmp_path / "nowhere", "nowhere: no such folder"),
        (tmp_path, r"no mnist.npz and no folder mnist in"),
    ):
        monkeypatch.setenv("HOPFED_DATA", str(place))
        refused("mnist", words)
    for name in ("cifar100_jpeg90", "mnist_small", "mnist_large", "mnist"):
        npz(tmp_path).rename(tmp_path / f"{name}.npz")
        if name == "mnist_large":
            refused("mnist", r"several files in .*: mnist_large.npz, mnist_s")
        else:
            assert load("MNIST" if "mnist" in name else f"{name}.npz").name == name
    refused("cifar10", r"no cifar10.npz and no folder cifar10 in")


@pytest.mark.parametrize(
    ("images", "want"),
    [
        (IMAGES, IMAGES[:, None]),
        (IMAGES.astype(np.int64), IMAGES[:, None]),
        (IMAGES / 255, (IMAGES / 255).astype(np.float32)[:, None]),
        (np.stack([IMAGES] * 3, axis=3), np.stack([IMAGES] * 3, axis=1)),
        (np.stack([IMAGES] * 3, axis=1), np.stack([IMAGES] * 3, axis=1)),
        (IMAGES.reshape(6, 20), IMAGES.reshape(6, 20, 1, 1).astype(np.float32)),
    ],
)
def test_every_layout_of_inputs_is_read(tmp_path, images, want):
    path = npz(tmp_path, images=images)
    data = read_npz(path)
    assert data.inputs.dtype == want.dtype
    np.testing.assert_array_equal(data.inputs, want)
    np.testing.assert_array_equal(data.labels, LABELS)
    assert holds_features(str(path)) == (images.ndim == 2)


def test_columns_beside_the_images(tmp_path):
    columns = {
        "class_names": ["a", "b", "c"],
        "domain": ["photo", "art", "art", "photo", "art", "photo"],
        "writer": np.array([2, 0, 0, 2, 1, 1], dtype=np.uint8),
        "writer_names": ["x", "y", "z"],
        "coarse_labels": [0, 1, 1, 0, 1, 1],
        "train": [True, True, False, False, True, True],
    }
    data = read_npz(npz(tmp_path, **columns))
    assert (data.domain_names, data.domain.tolist()) == (("art", "photo"), [1, 0, 0, 1, 0, 1])
    for name in ("class_names", "writer", "writer_names", "train"):
        assert list(getattr(data, name)) == list(columns[name])
    assert data.coarse.tolist() == [0, 1, 1]
    names = {"class_names": ["a", "b", "c", "never"]}  # a class that has no superclass
    refused(npz(tmp_path, **columns | names), "every class must have one coarse label")


@pytest.mark.parametrize("naming", ["{0}_{1}", "{1}_{0}"])
@pytest.mark.parametrize("parts", [("train", "val"), ("train", "val", "test")])
def test_parts_of_a_split_may_be_arrays_of_their_own(tmp_path, naming, parts):
    """A published validation set trains only beside a test set."""
    cuts = {"train": slice(0, 3), "val": slice(3, 4), "test": slice(4, 6)}
    arrays = {naming.format("images", part): IMAGES[cuts[part]] for part in parts}
    arrays |= {naming.format("y", part): LABELS[cuts[part], None] for part in parts}
    np.savez(tmp_path / "own.npz", **arrays)
    data = read_npz(tmp_path / "own.npz")
    rows = np.concatenate([np.arange(6)[cuts[part]] for part in parts])
    np.testing.assert_array_equal(data.inputs, IMAGES[rows, None])
    assert [data.class_names[k] for k in data.labels] == [str(k) for k in LABELS[rows]]
    held = 2 if "test" in parts else 1
    assert data.train.tolist() == [True] * (len(rows) - held) + [False] * held


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (LABELS[:, None] * 1000 - 1, ("-1", "999", "1999")),
        (LABELS / 2, ("0.0", "0.5", "1.0")),
        (np.array(["9", "10", "11"])[LABELS], ("9", "10", "11")),
        (np.array(["ash", "oak", "yew"])[LABELS], ("ash", "oak", "yew")),
    ],
)
def test_every_value_of_the_labels_is_a_class_as_in_a_table(tmp_path, labels, names):
    data = read_npz(npz(tmp_path, labels=labels))
    assert data.class_names == names
    table = ["a,y", *(f"{k},{label}" for k, label in enumerate(np.ravel(labels)))]
    (tmp_path / "t.csv").write_text("\n".join(table) + "\n")
    for each in (data, load(str(tmp_path / "t.csv"))):
        np.testing.assert_array_equal(each.labels, LABELS)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"labels": LABELS[:5]}, "6 inputs for 5 labels"),
        ({"labels": LABELS - 1, "class_names": ["a", "b", "c"]}, "label -1 of row 0 is outside"),
        ({"labels": np.zeros(0, int), "images": IMAGES[:0]}, r"labels of shape \(0,\)"),
        ({"images": np.array([IMAGES[0], IMAGES[0, :2]], dtype=object)}, "Object arrays"),
        ({"images": np.where(IMAGES > 9, np.nan, 1.0)}, "row 0 of the inputs"),
        ({"images": IMAGES.astype(int) + 256 - IMAGES.max()}, r"in 0..255, got \d+\.\.256"),
        ({"split": ["train", "test", "new", "train", "test", "test"]}, "or words among train"),
        ({"writer": [0, 1, 2, 3, 4, 9], "writer_names": ["a"]}, "writer 1 of row 1"),
        ({"x_train": IMAGES, "y_train": LABELS, "x_test": IMAGES}, "y of test is missing"),
    ],
)
def test_malformed_archives_get_one_line(tmp_path, arrays, message):
    refused(npz(tmp_path, **arrays), message)


def test_foreign_and_truncated_archives(tmp_path):
    np.savez(tmp_path / "b.npz", x=IMAGES)
    refused(tmp_path / "b.npz", r"labels \(or y or Y\) and one of images, .* found x")
    whole = npz(tmp_path).read_bytes()
    for size in (0, 10, len(whole) // 2, len(whole) - 5):
        (tmp_path / "a.npz").write_bytes(whole[:size])
        refused(tmp_path / "a.npz", "cannot be read")


def test_jpeg_sheets_are_cut_row_by_row(tmp_path):
    colours = np.random.default_rng(0).integers(0, 256, size=(8, 1, 1, 3), dtype=np.uint8)
    blobs = []
    for four in np.broadcast_to(colours, (8, 8, 8, 3)).reshape(2, 2, 2, 8, 8, 3):
        out = io.BytesIO()
        sheet = Image.fromarray(four.transpose(0, 2, 1, 3, 4).reshape(16, 16, 3))
        sheet.save(out, "JPEG", quality=95, subsampling=0)
        blobs.append(np.frombuffer(out.getvalue(), np.uint8))
    offsets, path = np.cumsum([0, *map(len, blobs)]), tmp_path / "a.npz"
    arrays = {"jpeg": np.concatenate(blobs), "offsets": offsets, "tile": [2, 8]}
    arrays["labels"] = np.arange(7) % 3
    np.savez(path, **arrays)
    want = np.broadcast_to(colours[:7].transpose(0, 3, 1, 2), (7, 3, 8, 8))
    np.testing.assert_allclose(load(str(path)).inputs.astype(int), want, atol=3)
    for change, message in (
        ({"labels": np.zeros(9, int)}, "8 inputs for 9 labels"),
        ({"offsets": offsets - [0, 40, 0]}, "a.npz"),
        ({"tile": [2, 9]}, "cannot be read"),
        ({"tile": [2, 2**40]}, "of memory"),
    ):
        np.savez(path, **arrays | change)
        refused(path, message)


def test_speeches_by_speaker(tmp_path):
    script = np.frombuffer("Ay. Nay,\nnay é.  So be it.".encode(), np.uint8)
    path, sound = tmp_path / "play.npz", {"start": [0, 4, 16, 18], "end": [3, 16, 18, 27]}
    sound |= {"text": script, "labels": [1, 0, 0, 1], "class_names": ["ANN", "BOB"]}
    np.savez(path, **sound)
    data = load(str(path))
    assert (data.shape, data.classes, data.writer_names) == ((80,), 80, ("ANN", "BOB"))
    said = {0: "Ay.\n", 1: "Nay, nay   .\n", 2: "", 3: "So be it.\n"}
    for k, text in said.items():  # each character after the 80 before it
        rows = np.flatnonzero(data.group == k)
        assert "".join(VOCABULARY[c] for c in data.labels[rows]) == text
        for j, row in enumerate(data.inputs[rows]):
            assert "".join(VOCABULARY[c] for c in row) == (" " * LENGTH + text)[j : j + LENGTH]
    assert [data.writer[data.group == k][0] for k in (0, 1, 3)] == [1, 0, 1]
    np.savez(path, **sound | {"labels": [0, 1]})
    refused(path, "cannot be read")


def test_a_table_of_features(tmp_path):
    file = tmp_path / "t.csv"
    file.write_text("x,y,writer,w\n1,10,ann,0\n2,9,ben,1.5\n3,10,ann,-2\n")
    data = load(str(file))
    names = (data.shape, data.class_names, data.writer_names)
    assert names == ((2, 1, 1), ("9", "10"), ("ann", "ben"))
    assert data.labels.tolist() == [1, 0, 1]
    assert data.inputs[:, :, 0, 0].tolist() == [[1, 0], [2, 1.5], [3, -2]]
    assert load(f"{file}:w").shape == (2, 1, 1)
    assert load(f"{file}:w", labelled=False).class_names == ("-2", "0", "1.5")
    for text, name, words in (
        ("a,b\n1,2\n", "", r"none of the columns a, b is called label, class, target or y: give"),
        ("a,y,label\n1,2,3\n", "", "more than one of the columns"),
        ("a,label\n1,ash\noak,yew\n", "", "t.csv: column a: .*'oak'"),
        ("a,b,label\n1,2,ash\n1,,yew\n", "", "t.csv: column b: "),
        ("a,label\n1,ash\n2,NA\n", "", "label of row 1 is missing"),
        ("a,label,label\n1,2,2\n3,4,4\n", "", "two columns are called 'label'"),
        ("a,b\n1,2\n", ":c", "no column 'c' among a, b"),
        ("label\nash\nyew\n", ":label", "no features"),
    ):
        file.write_text(text)
        refused(f"{file}{name}", words)


@pytest.mark.parametrize("ending", ["tsv", "csv.gz", "parquet", "feather"])
def test_other_forms_of_tables(tmp_path, ending):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1.5, 2], "good": [1, 0], "label": ["yew", "ash"]})
    path, text = tmp_path / f"t.{ending}", {"index": False, "sep": "\t" if ending == "tsv" else ";"}
    write = getattr(frame, f"to_{ending}", None)
    write(path) if write else frame.to_csv(path, **text)
    data = load(str(path))
    assert data.inputs[:, :, 0, 0].tolist() == [[1.5, 1], [2, 0]]
    assert (data.labels.tolist(), data.class_names) == ([1, 0], ("ash", "yew"))


@pytest.mark.parametrize("above", [("",), ("train", "test"), ("photo", "art")])
def test_pictures_in_folders_by_class(tmp_path, above):
    for i, place in enumerate(above):
        for j, kind in enumerate(("dog", "house")):
            for k in range(2):
                picture(tmp_path / "own" / place / kind / f"{k}.png", (50 * i, 100 * j, k))
    data = load(str(tmp_path / "own"))
    assert (data.name, data.shape, data.class_names) == ("own", (3, 4, 4), ("dog", "house"))
    np.testing.assert_array_equal(data.inputs[:, 1, 0, 0], 100 * data.labels)
    place = data.inputs[:, 0, 0, 0] // 50
    assert above[0] != "train" or (place == ~data.train).all()
    if above[0] == "photo":
        assert data.domain_names == ("art", "photo")
        np.testing.assert_array_equal(place, 1 - data.domain)


def test_pictures_that_do_not_fit_or_are_none(tmp_path, monkeypatch):
    """Pillow looks at the bytes: of PostScript called .jpg it has a program make a picture."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "gs").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\necho 10.0\n")
    (tmp_path / "bin" / "gs").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    (tmp_path / "own").mkdir()
    refused(tmp_path / "own", "no pictures")
    for kind in ("cat", "dog"):
        picture(tmp_path / "own" / kind / "a.png", (1, 2, 3))
    odd = tmp_path / "own" / "dog" / "b.png"
    script = "%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\n{} loop\n%%EOF\n"
    for make, words in (
        (lambda: odd.write_text(script), "cannot be read"),
        (lambda: picture(odd, 0, (5, 4)), r"images of differing size, \(4, 5\) after"),
        (lambda: os.mkfifo(odd), "a pipe or a device"),
        (lambda: picture(odd, 0, (20_000, 10_000), "1"), ".*bomb"),
    ):
        make()
        refused(tmp_path / "own", f"b.png: {words}")
        odd.unlink()
    assert not (tmp_path / "ran").exists()


# The hub, from tables as the `datasets` library gives them


class Table(dict):
    def __init__(self, columns, names=()):
        super().__init__(columns)
        image, other = type("Image", (), {})(), types.SimpleNamespace(names=names)
        self.features = {k: image if k in ("image", "img") else other for k in columns}

    def __len__(self):
        return len(next(iter(self.values())))


def pictures(n, size=(4, 4)):
    return [Image.new("RGB", size, (k, 0, 0)) for k in range(n)]


def test_pictures_of_the_hub(monkeypatch, tmp_path):
    columns = {"img": pictures(4), "fine_label": [0, 1, 2, 1], "coarse_label": [1, 0, 1, 0]}
    table = Table(columns, ["a", "b", "c"])
    mine = {"image": pictures(2), "label": [0, 1], "domain": ["art", "photo"]}
    unlike = {"image": pictures(1) + pictures(1, (5, 4)), "label": [0, 1]}
    hub = {"uoft-cs/cifar100": {"train": table, "test": table}}
    hub["me/mine"] = {"train": Table(mine | {"writer_id": ["f2", "f1"]})}
    hub["a/b"] = {"train": Table({"image": pictures(2), "lable": [0, 1]})}
    hub["a/c"] = {"train": Table(unlike)}
    library = types.SimpleNamespace(load_dataset=hub.__getitem__)
    monkeypatch.setitem(sys.modules, "datasets", library)
    data = load("hub:cifar100")
    assert (data.coarse.tolist(), data.class_names) == ([1, 0, 1], ("a", "b", "c"))
    assert data.inputs[:, 0, 0, 0].tolist() == [0, 1, 2, 3] * 2
    assert data.train.tolist() == [True] * 4 + [False] * 4
    data = load("hub:me/mine")
    assert (data.shape, data.train, data.domain_names) == ((3, 64, 64), None, ("art", "photo"))
    assert data.writer.tolist() == [1, 0]
    refused("hub:a/b", "no column of pictures or of labels in image, lable")
    refused("hub:a/c", "row 1: images of differing size")
    refused("hub:cifar10", r"uoft-cs/cifar10 cannot be loaded: 'uoft-cs/cifar10'$", BackendError)
    refused("hub:cifar11", "not OWNER/NAME")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ylecun" / "mnist").mkdir(parents=True)  # it would be read instead
    refused("hub:mnist", "a local folder has that name")
    monkeypatch.setitem(sys.modules, "datasets", None)
    refused("hub:pacs", r"hub:pacs needs the datasets library: pip install", BackendError)
