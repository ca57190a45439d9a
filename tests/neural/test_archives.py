"""Datasets in `.npz` files: their layouts, their optional columns, and those that are refused."""

import io

import numpy as np
import pytest
from PIL import Image
from stand_ins import IMAGES, LABELS, npz, one_line

from hopfed.errors import DataError
from hopfed.neural.data import load
from hopfed.neural.data.archives import read_npz


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
        ({"labels": LABELS - 1, "class_names": ["a", "b", "c"]}, "label -1 of row 0 is outside"),
        ({"labels": LABELS, "class_names": ["a", "b"]}, "label 2 of row 2 is outside of 0..1"),
        ({"labels": np.where(LABELS > 1, np.nan, 1)}, "the label of row 2 is missing"),
        ({"labels": np.eye(6)}, r"labels of shape \(6, 6\) are not one for each example"),
        ({"labels": np.zeros(0, int), "images": IMAGES[:0]}, "there are no examples"),
        ({"images": np.array([IMAGES[0], IMAGES[0, :2]], dtype=object)}, "Object arrays"),
        ({"images": np.where(IMAGES > 9, np.nan, 1.0)}, "NaN"),
        ({"images": IMAGES.astype(int) + 256 - IMAGES.max()}, r"in 0..255, got \d+\.\.256"),
        ({"images": np.where(IMAGES.reshape(6, 20) > 9, np.inf, 1)}, "row 0 of the features"),
        ({"images": IMAGES.ravel()}, r"shape \(120,\)"),
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
    for arrays in ({"x": IMAGES}, {"x": IMAGES, "X": IMAGES, "y": LABELS}):
        np.savez(tmp_path / "b.npz", **arrays)
        with pytest.raises(DataError, match=r"labels \(or y or Y\) and one of images, .* found x"):
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
    rng = np.random.default_rng(0)
    colours = rng.integers(0, 256, size=(7, 1, 1, channels), dtype=np.uint8)
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


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"labels": np.full(6, 2**63, np.uint64), "class_names": ["a"]}, "numbers of 64 bits"),
        ({"writer": LABELS + 10**9}, "goes up to 1000000002"),
        ({"coarse_labels": np.full(6, 3 * 10**15)}, "coarse label 3000000000000000 for 3 classes"),
        ({"coarse_labels": LABELS / 2}, "whole numbers are due"),
        ({"train": np.full(6, np.nan)}, "whole numbers are due"),
        ({"train": LABELS}, "train must be truth values"),
        ({"split": LABELS}, "split must be words"),
        ({"images": IMAGES * 1e300}, "NaN or infinity"),
        ({"class_names": np.array(["a", "\ud800", "c"])}, "words that are no text"),
    ],
)
def test_numbers_beyond_all_measure(tmp_path, arrays, message):
    with pytest.raises(DataError, match=message) as caught:
        read_npz(npz(tmp_path, **arrays))
    assert one_line(caught)


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (LABELS + 60, ("60", "61", "62")),
        (LABELS - 1.0, ("-1", "0", "1")),
        (LABELS * 1000, ("0", "1000", "2000")),
        (LABELS + 3 * 10**15, ("3000000000000000", "3000000000000001", "3000000000000002")),
        (LABELS[:, None], ("0", "1", "2")),
        (LABELS / 2, ("0.0", "0.5", "1.0")),
        (np.array(["9", "10", "11"])[LABELS], ("9", "10", "11")),
        (np.array(["yew", "ash", "oak"])[LABELS], ("ash", "oak", "yew")),
    ],
)
def test_every_value_of_the_labels_is_a_class_as_in_a_table(tmp_path, labels, names):
    data = read_npz(npz(tmp_path, labels=labels))
    assert data.class_names == names
    if names[0] != "ash":
        np.testing.assert_array_equal(data.labels, LABELS)
    table = ["a,y", *(f"{k},{label}" for k, label in enumerate(np.ravel(labels)))]
    (tmp_path / "t.csv").write_text("\n".join(table) + "\n")
    np.testing.assert_array_equal(load(str(tmp_path / "t.csv")).labels, data.labels)


def test_rows_of_features_and_other_names_of_the_arrays(tmp_path):
    rows = IMAGES.reshape(6, 20)
    for inputs, labels in (("x", "y"), ("X", "y"), ("X", "Y"), ("features", "labels")):
        np.savez(tmp_path / "b.npz", **{inputs: rows, labels: LABELS})
        data = read_npz(tmp_path / "b.npz")
        assert (data.shape, data.inputs.dtype) == ((20, 1, 1), np.float32)
        np.testing.assert_array_equal(data.inputs[:, :, 0, 0], rows)
    data = read_npz(npz(tmp_path, x=rows, X=rows, y=LABELS))
    assert data.shape == (1, 5, 4)  # images and labels, which are there, are meant


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"tile": np.array(3)}, "tile must be"),
        ({"tile": np.array([0, 8])}, "tile must be"),
        ({"tile": np.array([2, 2**40])}, "of memory"),
        ({"tile": np.array([1, 8])}, "too few pictures|pixels for"),
        ({"tile": np.array([2, 9])}, "pixels for 2 x 2 of 9"),
        ({"offsets": np.array([0, -1])}, "offsets must ascend"),
        ({"offsets": np.array([0, 2**62])}, "offsets must ascend"),
        ({"offsets": np.array([0.5, 1.0])}, "whole numbers are due"),
        ({"jpeg": np.zeros(9)}, "an array of bytes"),
    ],
)
def test_malformed_sheets_get_one_line(tmp_path, arrays, message):
    rng = np.random.default_rng(0)
    sound = sheets(rng.integers(0, 256, size=(4, 8, 8, 3), dtype=np.uint8), grid=2)
    np.savez(tmp_path / "a.npz", labels=np.arange(4), **sound | arrays)
    with pytest.raises(DataError, match=message) as caught:
        read_npz(tmp_path / "a.npz")
    assert one_line(caught)


def test_a_bomb_among_sheets_is_not_decoded(tmp_path):
    out = io.BytesIO()
    Image.new("1", (20_000, 20_000)).save(out, "PNG")
    data = np.frombuffer(out.getvalue(), np.uint8)
    offsets, tile = np.array([0, len(data)]), np.array([2, 10_000])
    np.savez(tmp_path / "a.npz", labels=np.arange(4), jpeg=data, offsets=offsets, tile=tile)
    with pytest.raises(DataError, match="decompression bomb"):
        read_npz(tmp_path / "a.npz")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"start": np.array([0, -5])}, "outside of the 23 characters"),
        ({"end": np.array([13, 2**62])}, "outside of the 23 characters"),
        ({"end": np.array([13, 3])}, "outside of the 23 characters"),
        ({"end": np.array([13])}, "of one length"),
        ({"start": np.array([0.0, 1.0])}, "whole numbers are due"),
    ],
)
def test_speeches_outside_of_the_text(tmp_path, arrays, message):
    sound = {"start": np.array([0, 14]), "end": np.array([13, 23]), "labels": np.array(["a", "b"])}
    text = np.frombuffer(b"Speak, speak. Resolved.", np.uint8)
    np.savez(tmp_path / "a.npz", text=text, **sound | arrays)
    with pytest.raises(DataError, match=message):
        read_npz(tmp_path / "a.npz")


def test_the_same_speech_a_million_times_does_not_fit(tmp_path):
    n, length = 10**6, 10**6
    ends = {"start": np.zeros(n, int), "end": np.full(n, length), "labels": np.zeros(n, int)}
    np.savez_compressed(tmp_path / "a.npz", text=np.zeros(length, np.uint8), **ends)
    with pytest.raises(DataError, match=r"speeches: needs .* of memory"):
        read_npz(tmp_path / "a.npz")


PARTS = {"train": slice(0, 3), "val": slice(3, 4), "test": slice(4, 6)}


@pytest.mark.parametrize(
    "naming",
    [
        lambda array, part: f"{array}_{part}",
        lambda array, part: f"{part}_{ {'x': 'images', 'y': 'labels'}[array] }",
    ],
)
@pytest.mark.parametrize(
    ("parts", "train"),
    [
        (("train", "test"), [1, 1, 1, 0, 0]),
        (("train", "val"), [1, 1, 1, 0]),
        (("train", "val", "test"), [1, 1, 1, 1, 0, 0]),
    ],
)
def test_parts_of_a_split_may_be_arrays_of_their_own(tmp_path, naming, parts, train):
    arrays = {naming("x", part): IMAGES[PARTS[part]] for part in parts}
    arrays |= {naming("y", part): LABELS[PARTS[part], None] for part in parts}
    np.savez(tmp_path / "own.npz", **arrays)
    data = read_npz(tmp_path / "own.npz")
    rows = np.concatenate([np.arange(6)[PARTS[part]] for part in parts])
    np.testing.assert_array_equal(data.inputs, IMAGES[rows, None])
    assert [data.class_names[k] for k in data.labels] == [str(k) for k in LABELS[rows]]
    assert data.train.tolist() == [bool(t) for t in train]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y_test": None}, "y of test is missing, found x_train, y_train, x_test"),
        ({"x_test": IMAGES[:2, 1:]}, r"parts of x differ in shape: \(4, .*\) and \(2, .*\)"),
        ({"split": ["train"] * 6}, "split is said twice"),
        ({"y_test": LABELS[:1]}, "6 inputs for 5 labels"),
    ],
)
def test_parts_that_do_not_fit_get_one_line(tmp_path, change, message):
    arrays = {"x_train": IMAGES[:4], "y_train": LABELS[:4]}
    arrays |= {"x_test": IMAGES[4:], "y_test": LABELS[4:]} | change
    np.savez(tmp_path / "own.npz", **{k: v for k, v in arrays.items() if v is not None})
    with pytest.raises(DataError, match=message) as error:
        read_npz(tmp_path / "own.npz")
    assert one_line(error)


def test_a_test_set_alone_is_no_split(tmp_path):
    np.savez(tmp_path / "own.npz", x_test=IMAGES, y_test=LABELS)
    with pytest.raises(DataError, match="are due, found x_test, y_test"):
        read_npz(tmp_path / "own.npz")
