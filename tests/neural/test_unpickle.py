"""The pickled batches of CIFAR, and the pickles that are refused."""

import os
import pickle
import struct
import tracemalloc

import numpy as np
import pytest
from stand_ins import one_line

from hopfed.errors import DataError
from hopfed.neural.data import load
from hopfed.neural.data.unpickle import read_pickle


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
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 256, size=(12, 3072), dtype=np.uint8)
    labels = rng.integers(0, 10, size=12).tolist()
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
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 256, size=(5, 3072), dtype=np.uint8)
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


@pytest.mark.parametrize(
    "opcodes",
    [
        b"}r\xff\xff\xff\x7f0N.",  # a place in the memo for which C sets aside 34 GB
        b"\x8e" + (2**60).to_bytes(8, "little") + b"x.",  # 2^60 bytes, of which one is there
        b"\x95" + (2**62).to_bytes(8, "little") + b"N.",  # a frame of that length
        b"}" + b"(" * 10**5 + b")" + b"\x85" * 10**5 + b"I1\ns.",  # a key nested 10^5 deep
        b"}(" + b")" + b"\x85" * 10**5 + b"I1\nu.",
        b"(" + b")" + b"\x85" * 10**5 + b"I1\nd.",
        b"\x8f(" + b")" + b"\x85" * 10**5 + b"\x90.",
        b"(ios\nsystem\n.",
    ],
)
def test_opcodes_that_ask_for_too_much(tmp_path, opcodes):
    path = tmp_path / "a"
    path.write_bytes(b"\x80\x04" + opcodes)
    tracemalloc.start()
    try:
        with pytest.raises(DataError) as caught:
            read_pickle(path)
        assert tracemalloc.get_traced_memory()[1] < 10**8
    finally:
        tracemalloc.stop()
    assert one_line(caught)


@pytest.mark.parametrize(
    "labels", [[0.5] * 2, [np.nan, 0.0], [3 * 10**15, 0], ["a", "b"], [-1, 0], 7]
)
def test_labels_of_cifar_that_are_none(tmp_path, labels):
    rows = np.zeros((2, 3072), np.uint8)
    for name in ("data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5"):
        (tmp_path / name).write_bytes(old_pickle(data=rows, labels=[0, 1]))
    (tmp_path / "test_batch").write_bytes(pickle.dumps({"data": rows, "labels": labels}, 2))
    (tmp_path / "batches.meta").write_bytes(old_pickle(label_names=list("ab")))
    with pytest.raises(DataError) as caught:
        load("cifar10", root=tmp_path)
    assert one_line(caught)
