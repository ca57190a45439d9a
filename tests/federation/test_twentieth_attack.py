"""Attacks on records of two orders, on files that lead to other files, and on the last word."""

import numpy as np
import pytest
from asking import N, method, signs
from named_owners import NAMES, ORDER, node, put

from hopfed.data.batches import Elsewhere
from hopfed.data.readers import as_examples
from hopfed.errors import DataError, RunFileError
from hopfed.federation.states import OWN_FILE, Held, StateStore
from hopfed.hopfield import told as told_of
from hopfed.hopfield.headers import read_names, told_names
from hopfed.hopfield.noisy import PrivateFederation
from hopfed.hopfield.site.released import Released

NOISY = PrivateFederation(Elsewhere(), N, 4.0)
MIXED = tuple(map(str, np.array(NAMES)[ORDER]))


def moved(folder, epsilon):
    """Ask about a table with noise, and again after its columns were moved in the file."""
    rows, order = signs(400), np.random.default_rng(71).permutation(N)
    Released.of(folder / "released", as_examples(rows)).deal(1)  # in file order; nothing left
    first = put(node(folder, rows, MIXED, epsilon=4.0, smallest_set=1), NOISY, told_names(MIXED))
    names = tuple(map(str, np.array(MIXED)[order]))
    again = node(folder, rows[:, order], names, epsilon=epsilon, smallest_set=1)
    return first, put(again, NOISY if epsilon else method(), told_names(MIXED))


def test_noise_is_of_sorted_columns_whatever_was_dealt_before(tmp_path):
    first, again = moved(tmp_path, 4.0)
    np.testing.assert_array_equal(first.up["counts"], again.up["counts"])


def test_nor_does_it_leave_exactly_once_columns_were_moved(tmp_path):
    _, again = moved(tmp_path, None)
    assert again.fault
    assert "columns" not in again.up


def features(seed):
    rng = np.random.default_rng(seed)
    x, y = rng.standard_normal((80, 4)).round(3), rng.integers(0, 2, 80)
    lines = [",".join(map(str, [*row, label])) for row, label in zip(x, y, strict=True)]
    return "\n".join(["a,b,c,d,label", *lines, ""])


def test_sums_that_lead_to_another_file_are_not_taken_for_ones_own(hopfed, tmp_path):
    """Who sends sums and gets them back had the exact sums of any file that their settings name."""
    pytest.importorskip("torch")
    file, data, rng = tmp_path / "sums.h5", tmp_path / "mine.npz", np.random.default_rng(72)
    images, labels = rng.integers(0, 256, (80, 8, 8), np.uint8), rng.integers(0, 2, 80)
    np.savez(data, images=images, labels=labels)
    small = "--data", data, "--clients", 2, "--partition", "iid", "--without", "1"
    status, _, error = hopfed("fl", "collect", file, *small)
    assert status == 0, error
    before = file.read_bytes()
    for command, client in (("admit", 1), ("forget", 0)):
        status, text, error = hopfed("fl", command, file, client)
        assert (status, text) == (2, "")
        assert str(data) in error
        assert "--data" in error
        assert file.read_bytes() == before
    assert hopfed("fl", "admit", file, 1, "--data", data)[0] == 0


def test_a_resumed_run_reads_no_file_that_it_alone_names(hopfed, tmp_path):
    pytest.importorskip("torch")
    file, data = tmp_path / "fl.h5", tmp_path / "mine.csv"
    data.write_text(features(73))
    said = [f"data={data}", "models=mlp", "method=fedavg", "clients=2", "rounds=1", "seeds=1"]
    said = [word for setting in [*said, "partition=iid"] for word in ("--set", setting)]
    status, _, error = hopfed("run", "fl", *said, "--out", file)
    assert status == 0, error
    status, _, error = hopfed("run", "fl", "--resume", "--out", file)
    assert status == 2
    assert "names a file to read" in error
    again = "run", "fl", "--resume", "--out", file, "--set", f"data={data}"
    assert hopfed(*again)[0] == 0


def test_a_state_that_is_a_link_is_not_followed(tmp_path):
    """It led a run to the rows of another owner's run, or to any file of that name."""
    store = StateStore(tmp_path / "states", budget=0)
    frozen = store.freeze({"a": Held({"x": np.zeros(OWN_FILE, np.uint8)})})
    (state,) = (tmp_path / "states").iterdir()
    elsewhere = state.rename(tmp_path / "elsewhere.h5")
    state.symlink_to(elsewhere)
    with pytest.raises(RunFileError, match="a link"):
        store.thaw(frozen)


def test_the_last_word_fits_into_memory(monkeypatch):
    """A message of 20 MB became means of 4 GB on a client that writes a run file."""
    monkeypatch.setattr(told_of, "LARGEST", 4_000)
    told = {"patterns": np.zeros((200, 5), np.uint8)}
    with pytest.raises(DataError, match="too many"):
        told_of.read(told, 40)
    assert len(told_of.read({"patterns": told["patterns"][:100]}, 40).patterns) == 100


def test_a_name_that_a_run_file_would_cut_is_refused():
    """Two names that begin alike became one in the run file of a client."""
    with pytest.raises(DataError, match="no text"):
        read_names(told_names(["tea\0a", "tea\0b"]))
