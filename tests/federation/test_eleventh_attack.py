"""Attacks of somebody who wrote none of it: links of others, kept memories, and what is sent late.

None of these take another file away, or end in anything but a line.
"""

import json
import os
import stat
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from hopfed import runs
from hopfed._lib.outputs import check_outputs, replacing
from hopfed.errors import ArgumentError, RunFileError
from hopfed.federation.packing import pack, unpack
from hopfed.runs import Run


@pytest.mark.parametrize("through", ["rows.csv", "folder/rows.csv", "mine/rows.csv"])
def test_an_output_does_not_go_where_a_link_of_somebody_else_leads(tmp_path, monkeypatch, through):
    """Linux follows no such link in a folder for all; hopfed follows links before Linux does."""
    shared, home = tmp_path / "shared", tmp_path / "home"
    shared.mkdir()
    shared.chmod(0o1777)
    home.mkdir()
    (home / "rows.csv").write_text("precious")
    (shared / "rows.csv").symlink_to(home / "rows.csv")
    (shared / "folder").symlink_to(home)
    (tmp_path / "mine").symlink_to(shared)  # one's own link, to that of somebody else
    path = (tmp_path if through.startswith("mine") else shared) / through
    check_outputs(("--out", path, (".csv",)))  # one's own are followed
    real = Path.lstat

    def of_others(self):
        found = real(self)
        other = found.st_uid + (self.parent.resolve() == shared.resolve())
        return SimpleNamespace(st_mode=found.st_mode, st_uid=other)

    monkeypatch.setattr(Path, "lstat", of_others)
    with pytest.raises(ArgumentError, match="a link of somebody else"):
        check_outputs(("--out", path, (".csv",)))
    with pytest.raises(RunFileError), replacing(path) as temporary:
        temporary.write_text("rows")
    assert (home / "rows.csv").read_text() == "precious"
    shared.chmod(0o700)
    with replacing(path) as temporary:
        temporary.write_text("rows")
    assert (home / "rows.csv").read_text() == "rows"


def test_a_file_that_was_there_does_not_say_who_runs_the_new_one(tmp_path):
    path = tmp_path / "rows.csv"
    path.touch()
    path.chmod(0o4755)
    with replacing(path) as temporary:
        temporary.write_text("rows")
        assert stat.S_IMODE(os.stat(temporary).st_mode) == 0o755


@pytest.fixture
def kept(hopfed, tmp_path, monkeypatch):
    """Kept clients of kNN-Per, and what `fl predict` makes of them: a line at most."""
    pytest.importorskip("torch", reason="PyTorch is not installed: pip install hopfed[neural]")
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    rows = "\n".join(
        ",".join(f"{x:.3f}" for x in r) + f",{'ab'[int(r[0] > 0)]}"
        for r in rng.normal(size=(90, 3))
    )
    (tmp_path / "data.csv").write_text(f"p,q,r,label\n{rows}\n")
    quick = ("--models", "mlp:4", "--clients", 2, "--rounds", 1, "--partition", "iid")
    assert hopfed("fl", "run", "knn-per", "--data", "data.csv", *quick, "--keep", "states")[0] == 0

    def predict(words):
        status, _, err = hopfed("fl", "predict", "states/seed-0", "data.csv", "--out", "o.csv")
        assert (status, err.count("\n")) == (2, 1)
        assert words in err
        assert not (tmp_path / "o.csv").exists()

    return tmp_path / "states" / "seed-0", predict


def test_a_folder_of_kept_memories_that_says_other_things_is_one_line(kept):
    folder, predict = kept
    whole = json.loads((folder / "model.json").read_text())
    changes = [
        ({"seed": "x"}, "seed is 'x'"),
        ({"seed": 1e400}, "seed is inf"),
        ({"classes": {"a": 1}}, "classes is"),
        ({"classes": [0, 1]}, "classes are not words"),
        ({"classes": ["a"] * 9}, "9 classes, but"),
        *(({name: None}, f"{name} is None") for name in ("method", "round", "alone")),
        ({"examples": None}, "other examples than those"),
    ]
    for change, words in changes:
        (folder / "model.json").write_text(json.dumps(whole | change))
        predict(words)
    for name in ("seed", "method", "round", "alone", "classes", "examples"):
        left = {key: value for key, value in whole.items() if key != name}
        (folder / "model.json").write_text(json.dumps(left))
        predict("lacks what" if name == "examples" else f"'{name}' is missing")


def test_a_memory_of_words_is_one_line(kept):
    folder, predict = kept
    held = unpack(np.frombuffer((folder / "server.memory").read_bytes(), np.uint8))
    for array in (np.array(["x"] * 3), np.ones(3, ">f4")):
        (folder / "server.memory").write_bytes(pack(dict.fromkeys(held, array)).tobytes())
        predict("not what knn-per remembers")


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


@pytest.mark.parametrize("seeds", [np.array(1.0), np.zeros(0, int)])
def test_rounds_without_their_seeds_are_not_exported(hopfed, tmp_path, seeds):
    Run("fl", {}, {"test": np.ones((1, 1, 2)), "seeds": seeds}, {}).save(tmp_path / "r.h5")
    status, _, err = hopfed("export", tmp_path / "r.h5", "--out", tmp_path / "o.csv")
    assert (status, err.count("\n")) == (2, 1)
    assert "cannot be used as a run of fl" in err
    assert not (tmp_path / "o.csv").exists()
