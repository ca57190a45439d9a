"""Files of `hopfed fl` that somebody else wrote: settings, sums and kept networks.

No code in them runs, and no other file is read or lost.
"""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hopfed.errors import DataError, RunFileError
from hopfed.experiments.shared.kept_networks import read
from hopfed.runs import Run

EVIL = "open('ran', 'w').close()\nfrom torch import nn\nclass Net(nn.Module): pass\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder with code in it that leaves a mark when it is imported."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evil.py").write_text(EVIL)
    (tmp_path / "timm:").mkdir()
    (tmp_path / "timm:" / "evil.py").write_text(EVIL)
    return tmp_path


@pytest.mark.parametrize(
    "text",
    [
        'models = ["evil.py:Net"]',
        'models = ["timm:/evil.py:Net"]',
        'method = "evil:Net"',
        'keep = "elsewhere/states"',
        "lr = " + "9" * 5_000,
        "options = 3",
    ],
)
def test_a_file_of_settings_runs_no_code_and_names_no_folder(hopfed, folder, text):
    pytest.importorskip("torch")
    (folder / "s.toml").write_text(text + "\n")
    quick = ("--clients", 3, "--rounds", 1, "--models", "mlp:4")
    given = quick[:4] if "models" in text else quick
    status, _, words = hopfed("fl", "run", "fedavg", "--config", "s.toml", *given, "--out", "o.h5")
    assert (status, words.count("\n")) == (2, 1)
    assert not (folder / "ran").exists()
    assert not (folder / "elsewhere").exists()
    assert not (folder / "o.h5").exists()


def test_a_run_file_names_no_folder_to_write_and_no_code_in_a_folder_like_a_library(hopfed, folder):
    pytest.importorskip("torch")
    quick = ("--clients", 3, "--models", "mlp:4", "--rounds")
    assert hopfed("fl", "run", "fedavg", *quick, 1, "--out", "a.h5")[0] == 0
    run = Run.load("a.h5")
    for change in ({"keep": str(folder / "out")}, {"models": ["timm:/evil.py:Net"]}):
        replace(run, config=run.config | change | {"seeds": 2}).save("evil.h5")
        status, _, words = hopfed("run", "fl", "--resume", "--out", "evil.h5")
        assert (status, words.count("\n")) == (2, 1)
        assert "names" in words
        assert not (folder / "out").exists()
        assert not (folder / "ran").exists()


@pytest.mark.parametrize(
    "text",
    [
        '" models" = ["evil.py:Net"]',
        '"models\\t" = ["evil.py:Net"]',
        '[options]\n" models" = ["evil.py:Net"]',
        '" keep" = "elsewhere/states"',
        '[options]\n"keep " = "elsewhere/states"',
    ],
)
def test_a_name_with_a_space_is_the_same_name(hopfed, folder, text):
    """It was looked for without the space when code was refused, and taken with it."""
    pytest.importorskip("torch")
    (folder / "s.toml").write_text(text + "\n")
    quick = ("fedavg", "--config", "s.toml", "--clients", 3, "--rounds", 1)
    status, _, words = hopfed("fl", "run", *quick)
    assert (status, words.count("\n")) == (2, 1)
    assert "names" in words
    assert not (folder / "ran").exists()
    assert not (folder / "elsewhere").exists()


def test_what_the_command_line_names_a_file_may_name(hopfed, folder):
    pytest.importorskip("torch")
    (folder / "s.toml").write_text('models = ["evil.py:Net"]\nlr = 0.1\n')
    given = ("--config", "s.toml", "--clients", 3, "--rounds", 1, "--models", "evil.py:Net")
    assert "network for inputs" in hopfed("fl", "run", "fedavg", *given)[2]
    assert (folder / "ran").exists()


def test_networks_are_kept_where_nobody_else_keeps_anything(hopfed, folder):
    """The folder of a seed was removed, whatever was in it."""
    pytest.importorskip("torch")
    from hopfed.experiments.shared.kept_networks import _require_ours

    thesis = folder / "work" / "seed-0" / "thesis.txt"
    thesis.parent.mkdir(parents=True)
    thesis.write_text("of years")
    quick = ("--preset", "quick", "--set", "keep=work", "--set", "models=mlp:4")
    resumed = ("--resume", "--out", "new.h5")
    for command in (("run", "fl"), ("run", "fl", *resumed)):
        status, _, words = hopfed(*command, *quick)
        assert (status, words.count("\n")) == (2, 1)
    status, _, words = hopfed("sweep", "fl", *quick, "--grid", "lr=0.1,0.2", "--out", "out")
    assert (status, words.count("\n")) == (2, 1)
    assert "keep must be left out" in words
    assert thesis.read_text() == "of years"
    with pytest.raises(RunFileError, match=r"thesis\.txt"):
        _require_ours(folder / "none", thesis.parent)
    (folder / "link").symlink_to(folder / "none")
    with pytest.raises(RunFileError, match="a link"):
        _require_ours(folder / "link")
    (folder / "ours").mkdir()
    for name in ("model.json", "everyone.pt", "client-12.safetensors"):
        (folder / "ours" / name).touch()
    _require_ours(folder / "ours")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"mean": [0.0] * 7, "std": [1.0] * 7}, "mean is not a number for each of 1 channels"),
        ({"shape": [1, 10**6, 10**6]}, "of memory"),
        ({"models": ["lstm:1000000"] * 3, "images": False, "tokens": 9, "mean": None, "std": None},
         "of memory"),
    ],
)  # fmt: skip
def test_kept_networks_that_fit_nothing_are_one_line(hopfed, folder, change, words):
    torch = pytest.importorskip("torch")
    quick = ("--models", "mlp:4", "--clients", 3, "--rounds", 1, "--keep", "states")
    assert hopfed("fl", "run", "fedavg", *quick)[0] == 0
    about = folder / "states" / "seed-0" / "model.json"
    whole = json.loads(about.read_text())
    about.write_text(json.dumps(whole | change))
    with pytest.raises(DataError, match=words):
        read(about.parent, 0)
    about.write_text(json.dumps(whole))
    torch.save({"w": Path("a file")}, about.parent / "everyone.pt")
    with pytest.raises(DataError, match="not a file of weights alone") as said:
        read(about.parent, 0)
    assert "weights_only" not in str(said.value), "no advice to let it run code"


def test_kept_networks_of_more_classes_than_their_files_hold_are_refused(tmp_path):
    about = {"method": "fedavg", "round": 1, "seed": 0, "alone": True, "classes": ["a"] * 200}
    about |= {"models": ["mlp:16"], "files": ["everyone.safetensors"], "shape": [1, 8, 8]}
    (tmp_path / "everyone.safetensors").write_bytes(bytes(100))
    (tmp_path / "model.json").write_text(json.dumps(about))
    with pytest.raises(DataError, match=r"200 classes, more than everyone\.safetensors has bytes"):
        read(tmp_path, 0)
    (tmp_path / "model.json").write_text(json.dumps(about | {"classes": ["a"] * (1 << 22)}))
    with pytest.raises(DataError, match="bytes, above 16,777,216"):
        read(tmp_path, 0)


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
