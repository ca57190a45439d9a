"""`hopfed store` and `hopfed recall` as a user runs them."""

import json
from pathlib import Path

import numpy as np
import pytest
from helpers import lines_of, sample, written
from memory.oracle import corrupted, random_signs

from hopfed.experiments.worked import woven_letters
from hopfed.memory.associative import AssociativeMemory
from hopfed.memory.rules import Dense
from hopfed.runs import Run


@pytest.fixture
def patterns(tmp_path, monkeypatch):
    """Six patterns and damaged copies of them, as files."""
    monkeypatch.chdir(tmp_path)
    xi = random_signs((6, 100), 1)
    np.save("patterns.npy", xi)
    np.save("cues.npy", corrupted(xi, 0.15, 2))
    return xi


def test_damaged_patterns_are_recalled(hopfed, patterns):
    text, _ = hopfed.done("store", "patterns.npy", "--out", "m.h5")
    assert "6 patterns of 100 sites by Projector()" in text
    text, _ = hopfed.done("recall", "m.h5", "cues.npy", "--out", "out.npy", "--figure", "f.png")
    np.testing.assert_array_equal(np.load("out.npy"), patterns)
    assert Path("f.png").read_bytes().startswith(b"\x89PNG")
    assert text.count("1.0000") == text.count("yes") == 6
    # An overlap of -1 is not shown as if the pattern were recalled.
    np.save("opposite.npy", np.stack([-patterns[2], patterns[1]]))
    assert "nearest to the opposite of that" in hopfed.done("recall", "m.h5", "opposite.npy")[0]
    said = json.loads(hopfed.done("recall", "m.h5", "opposite.npy", "--json")[0])
    assert (said["nearest"], said["overlap"]) == ([2, 1], [-1, 1])


def test_everything_goes_to_a_run_file_that_can_be_drawn(hopfed, patterns):
    options = ("--rule", "dense", "--set", "n=4", "--json")
    text, _ = hopfed.done("store", "patterns.npy", "--out", "m.h5", *options)
    assert json.loads(text)["settings"] == {"n": 4}
    hot = ("--temperature", "0.1:0", "--updates", "20", "--order", "synchronous", "--seed", "3")
    text, _ = hopfed.done("recall", "m.h5", "cues.npy", "--out", "r.h5", *hot, "--json")
    run = Run.load("r.h5")
    assert json.loads(text) == run.summary
    direct = AssociativeMemory.store(patterns, Dense(4)).recall(
        np.load("cues.npy"), temperature=0.1 * (1 - np.minimum(np.arange(20) / 18, 1)), updates=20,
        order="synchronous", seed=3,
    )  # fmt: skip
    np.testing.assert_array_equal(run.arrays["states"], direct.states)
    assert run.arrays["steps/states"].shape == (len(run.arrays["steps/updates"]), 6, 100)
    hopfed.done("figure", "r.h5", "--out", "f.svg")


def test_gaps_and_graded_patterns(hopfed, tmp_path):
    means = np.array([[0.9, 0.8, -0.9, 0.0], [-0.9, -0.8, 0.9, 0.5]])
    np.savetxt(tmp_path / "means.csv", means, delimiter=",")
    cues = np.array([[1, np.nan, np.nan, np.nan], [0, np.nan, 1, np.nan]])
    np.savetxt(tmp_path / "cues.csv", cues, delimiter=",")
    memory, out = tmp_path / "m.h5", tmp_path / "out.npy"
    assert "2 graded patterns" in hopfed.done("store", tmp_path / "means.csv", "--out", memory)[0]
    recall = ("recall", memory, tmp_path / "cues.csv", "--out", out)
    hopfed.done(*recall)
    wanted = AssociativeMemory.store(means).recall([[1, 0, 0, 0], [-1, 0, 1, 0]]).states
    np.testing.assert_allclose(np.load(out), wanted)
    hopfed.done(*recall, "--free", "--overwrite")
    assert np.abs(np.load(out)).max() < 1


def test_words_and_names_go_in_and_come_out(hopfed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    xi = np.where(np.random.default_rng(0).random((4, 50)) < 0.5, 1, -1)
    names = [f"q{j}" for j in range(50)]
    animals = ["ant", "bee", "cat", "dog"]

    def table(path, rows, ids, order):
        cells = np.array(["", "yes", "no"])[rows[:, order]]  # 0, 1 and -1
        written(path, ["id", *(names[j] for j in order)], np.column_stack([ids, cells]))

    table("animals.csv", xi, animals, np.arange(50))
    hopfed.done("store", "animals.csv", "--out", "m.h5")
    cues = np.where(np.arange(50) < 15, 0, xi[[2, 0]])
    table("cues.csv", cues, ["first", "second"], np.arange(50)[::-1])
    text, _ = hopfed.done("recall", "m.h5", "cues.csv", "--out", "out.csv")
    _, first, second, _ = (line.split()[:3] for line in text.splitlines())
    assert (first, second) == (["first", "cat", "1.0000"], ["second", "ant", "1.0000"])
    head, *found = lines_of("out.csv")
    assert head == ["id", *names]
    np.testing.assert_array_equal(np.array([row[1:] for row in found], int), xi[[2, 0]])
    hopfed.done("recall", "m.h5", "cues.csv", "--out", "out.h5")
    held = Run.load("out.h5")
    assert (held.summary["ids"], held.summary["patterns"]) == (["first", "second"], animals)
    assert held.arrays["columns/names"].tolist() == [name.encode() for name in names]


def test_a_recovery_and_an_operator_of_examples_are_stored(hopfed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    xi, eta = sample(4, 150, 900, 0.8, 0)
    np.save("examples.npy", eta)
    np.save("cues.npy", corrupted(xi, 0.2, 1))
    hopfed.done("recover", "examples.npy", "--out", "run.h5")
    for given, words in (("run.h5", "4 patterns of 150"), ("examples.npy", "of 4 components")):
        operator = ["--operator"] * given.endswith(".npy")
        text, _ = hopfed.done("store", given, *operator, "--out", "m.h5", "--overwrite")
        assert words in text
        hopfed.done("recall", "m.h5", "cues.npy", "--out", "out.npy", "--overwrite")
        overlaps = np.abs((np.load("out.npy") * xi.astype(int)).mean(axis=1))
        assert overlaps.min() > 0.97


@pytest.mark.slow
def test_a_mixture_is_taken_apart_by_two_commands(hopfed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    woven_letters.main()
    hopfed.done("store", "woven.npy", "--out", "woven.h5", "--rule", "layered")
    words = "woven.h5 mixture.npy --temperature 0.1:0 --out apart.npy"
    text, _ = hopfed.done("recall", *words.split())
    overlaps = np.load("apart.npy")[0] @ woven_letters.weave_letters()[:3].T.astype(int)
    np.testing.assert_array_equal(np.sort(overlaps.argmax(axis=1)), np.arange(3))
    assert text.count("1.0000") == 3
