"""Memories and run files that somebody else wrote, and that hold something else: one line each."""

import json
from dataclasses import replace

import numpy as np
import pytest

from hopfed import runs
from hopfed.runs import Run


@pytest.fixture
def memory(hopfed, tmp_path, monkeypatch):
    """A memory of named patterns, changed; and what `recall` makes of it: a line."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.csv").write_text("id,p,q,r\nAnn,yes,no,yes\nBen,no,no,yes\n")
    assert hopfed("store", "p.csv", "--id", "id", "--out", "m.h5")[0] == 0
    run = Run.load("m.h5")

    def recall(words, **changed):
        replace(run, **changed).save("m.h5")
        status, _, err = hopfed("recall", "m.h5", "p.csv", "--json")
        assert (status, err.count("\n")) == (2, 1)
        assert words in err

    return run, recall


@pytest.mark.parametrize("name", ["rows/names", "columns/names"])
def test_names_in_a_memory_that_are_none_are_one_line(memory, name):
    run, recall = memory
    odd = np.array(1.0), np.ones(3), np.array([b"\xff"] * 3), run.arrays[name][:-1]
    for array in odd:
        recall("m.h5: ", arrays=run.arrays | {name: array})


def test_a_coding_in_a_memory_that_is_none_is_one_line(memory, monkeypatch):
    run, recall = memory
    held = json.loads(run.config["coding"])
    word = {"kind": "words", "words": [["no", "INF"], ["yes", 1]]}
    for code in ("x", 1, None, word):
        text = json.dumps(held | {"codes": [code]}).replace('"INF"', "1e999")
        recall("no coding of a table", config=run.config | {"coding": text})
    monkeypatch.setattr(runs, "plain", lambda held: held)  # JSON as others write it has infinities
    recall("not a readable memory", summary=run.summary | {"sites": float("inf")})


@pytest.mark.parametrize("patterns", [np.array(1.0), np.array([[b"ab"] * 3])])
def test_archetypes_that_are_none_are_not_stored(hopfed, tmp_path, patterns):
    Run("recover", {}, {"archetypes/patterns": patterns}, {}).save(tmp_path / "r.h5")
    status, _, err = hopfed("store", tmp_path / "r.h5", "--out", tmp_path / "m.h5")
    assert (status, err.count("\n")) == (2, 1)
    assert "found no archetypes" in err
