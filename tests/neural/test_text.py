"""Characters as numbers, windows of speeches, and plays in `.npz` files."""

import string

import numpy as np
import pytest
from stand_ins import real

from hopfed.errors import DataError
from hopfed.neural.data import load
from hopfed.neural.data.text import LENGTH, VOCABULARY, encode_text, speech_windows


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


def test_real_speeches():
    data = real("shakespeare")
    assert data.shape == (80,)
    assert len(data) == 1_027_835
    first = "".join(VOCABULARY[c] for c in data.labels[data.group == 0])
    assert first == "Before we proceed any further, hear me speak.\n"
    assert data.writer_names[data.writer[0]] == "First Citizen"
