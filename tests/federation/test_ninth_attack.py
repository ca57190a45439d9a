"""Attacks of somebody who wrote none of it: files that name code or folders, and last words."""

import json
from dataclasses import replace

import numpy as np
import pytest

from hopfed import kernels
from hopfed.cli.join import _finish
from hopfed.errors import DataError
from hopfed.hopfield.graded import noisy
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


@pytest.mark.parametrize("name", ["evil.py:Net", "timm:/evil.py:Net", "evil:Net"])
@pytest.mark.parametrize("command", ["forget", "admit"])
def test_a_file_of_sums_runs_no_code(hopfed, folder, name, command):
    pytest.importorskip("torch")
    small = ("--clients", 3, "--set", "filters=4")
    assert hopfed("fl", "collect", "sums.h5", *small, "--without", 1)[0] == 0
    run = Run.load("sums.h5")
    config = json.loads(json.dumps(run.config))
    config["task"]["models"] = [name]
    replace(run, config=config).save("evil.h5")
    before = (folder / "evil.h5").read_bytes()
    status, _, words = hopfed("fl", command, "evil.h5", 0 if command == "forget" else 1)
    assert (status, words.count("\n")) == (2, 1)
    assert not (folder / "ran").exists()
    assert (folder / "evil.h5").read_bytes() == before


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


@pytest.mark.parametrize("moment", [["x"], {"a": 1}])
def test_kept_states_with_moments_that_are_none(hopfed, folder, moment):
    pytest.importorskip("torch")
    kept = ("--models", "mlp:4", "--clients", 3, "--rounds", 1, "--keep", "states")
    assert hopfed("fl", "run", "fedavg", *kept)[0] == 0
    about = folder / "states" / "seed-0" / "model.json"
    about.write_text(json.dumps(json.loads(about.read_text()) | {"mean": moment}))
    status, _, words = hopfed("fl", "predict", "states/seed-0", "digits")
    assert (status, words.count("\n")) == (2, 1)


@pytest.mark.parametrize(
    "patterns",
    [
        np.zeros((1, 0, 8_000_000), np.uint8),
        np.zeros((2, 4), np.uint8),
        np.zeros((2, 6), np.uint8),
        np.zeros((2, 5), np.int64),
        np.zeros(5, np.uint8),
        np.uint8(0),
    ],
)
def test_a_last_word_of_another_form_is_none(tmp_path, patterns):
    """It was filled up to the number of columns along another axis: 64 bytes filled a disk."""
    with pytest.raises(DataError, match="malformed"):
        _finish({"patterns": np.asarray(patterns)}, 40, tmp_path / "o.npy")
    assert not list(tmp_path.iterdir())
    _finish({"patterns": np.zeros((2, 5), np.uint8)}, 40, tmp_path / "o.npy")
    assert np.load(tmp_path / "o.npy").shape == (2, 40)


@pytest.mark.parametrize("step", ["sums", "pairs"])
def test_sums_of_many_rows_are_made_block_by_block(monkeypatch, step):
    """Memberships of all rows in 200 classes were held at once: kilobytes for each row."""
    rng = np.random.default_rng(0)
    rows = kernels.pack_masked(rng.choice([-1, 0, 1], (50, 9)))
    down = {"means": rng.uniform(-0.9, 0.9, (3, 9)), "shares": np.full(3, 1 / 3)}
    whole = noisy.exact_sums(step, rows, down)
    monkeypatch.setattr(noisy, "ROWS", 7)
    for name, array in noisy.exact_sums(step, rows, down).items():
        np.testing.assert_array_equal(array, whole[name])
        assert array.dtype == np.int64
