"""FEMNIST and Shakespeare in the JSON files that LEAF makes of them."""

import json
import math

import numpy as np
import pytest
from stand_ins import one_line

from hopfed.errors import DataError
from hopfed.neural.data import load
from hopfed.neural.data.text import VOCABULARY, speech_windows


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
    pixels = np.random.default_rng(0).integers(0, 256, size=(4, 784))
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


@pytest.mark.parametrize(
    "content",
    [
        "[" * 10**5,
        "[]",
        '{"users": "ab", "user_data": {}}',
        '{"users": [["a"]], "user_data": {}}',
        '{"users": ["a", "a"], "user_data": {"a": {"x": [], "y": []}}}',
        '{"users": [], "user_data": {}}',
        '{"users": ["a"], "user_data": [1]}',
        '{"users": ["a"], "user_data": {"a": {"x": 3, "y": 4}}}',
        '{"users": ["a"], "user_data": {"a": {"x": [[NaN]], "y": [NaN]}}}',
        json.dumps({"users": ["a"], "user_data": {"a": {"x": [[0.5] * 784], "y": [0.5]}}}),
        json.dumps({"users": ["a"], "user_data": {"a": {"x": [[0.5] * 784], "y": [10**30]}}}),
        json.dumps({"users": ["a"], "user_data": {"a": {"x": [[math.nan] * 784], "y": [1]}}}),
        json.dumps({"users": ["a"], "user_data": {"a": {"x": [" " * 79 + "\ud800"], "y": [1]}}}),
    ],
)
@pytest.mark.parametrize("name", ["femnist", "shakespeare"])
def test_json_of_another_form_gets_one_line(tmp_path, name, content):
    (tmp_path / "train").mkdir()
    (tmp_path / "train" / "a.json").write_text(content)
    with pytest.raises(DataError) as caught:
        load(name, root=tmp_path)
    assert one_line(caught)
