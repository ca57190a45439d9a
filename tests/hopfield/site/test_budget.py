"""The ledger of what was released: every way to ask twice for the same rows."""

import json
import os
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from federations import private_patterns

from hopfed._lib.random import stream
from hopfed.errors import DataError, HopfedError
from hopfed.federation.contract import Context
from hopfed.federation.messages import digest
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.hopfield.example_sources import BatchSource
from hopfed.hopfield.privacy_ledger import Ledger, Terms
from hopfed.kernels import Rows
from hopfed.kernels.examples import as_examples

N = 24


def examples(n=60, seed=0):
    rng = stream(seed, "ledger")
    return as_examples(draw_examples(rademacher(2, N, rng), n, 0.6, rng)[0])


def joined(*parts):
    return Rows(np.concatenate([p.signs for p in parts]), N)


def asked(ledger, rows, epsilon=1.0, delta=1e-5, rounds=1, t=0):
    """Message that leaves the machine of an owner of `rows`."""
    rows, secret = ledger.charge(rows, Terms(epsilon, delta, rounds))
    method = private_patterns(BatchSource((rows,), rounds), N, epsilon, delta, secret=secret)
    return method.client.client_step({}, {}, Context(seed=5, round=t, exchange=0, client=3))[1]


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path / "home" / "privacy")


def test_other_terms_are_refused_whether_larger_or_smaller(ledger):
    asked(ledger, examples())
    below, least = ({"epsilon": np.nextafter(1.0, 0)}, {"delta": np.nextafter(1e-5, 0)})
    for change in (below, least, {"epsilon": 0.1}, {"epsilon": 2.0}, {"rounds": 2}):
        with pytest.raises(DataError, match=r"epsilon 1\.0, delta 1e-05, 1 round"):
            asked(Ledger(ledger.folder), examples(), **change)
    asked(ledger, examples())


def test_the_noise_is_another_one_for_everything_that_is_asked(tmp_path):
    """And for every home, data set, and batch."""
    usual = Terms(1.0, 1e-5)
    homes = (("a", 0), ("b", 0), ("a", 1))
    secrets = {Ledger(tmp_path / home).charge(examples(seed=s), usual)[1] for home, s in homes}
    for change in ({"epsilon": 1.0 + 1e-12}, {"delta": 1e-5 + 1e-15}, {"rounds": 2}):
        folder = tmp_path / next(iter(change))  # the same secret in an empty ledger
        folder.mkdir()
        (folder / "secret").write_bytes((tmp_path / "a" / "secret").read_bytes())
        secrets.add(Ledger(folder).charge(examples(), replace(usual, **change))[1])
    assert len(secrets) == 6


@pytest.mark.parametrize(
    ("change", "shared", "first"),
    [
        (lambda rows: joined(examples(3, seed=9), rows), 60, 4),
        (lambda rows: joined(examples(50, seed=9), rows[7:8]), 1, 51),
        (lambda rows: joined(rows, rows[:1]), 61, 1),
    ],
)
def test_a_file_that_shares_rows_with_a_released_one_is_refused(ledger, change, shared, first):
    rows = examples()
    asked(ledger, rows)
    other = change(rows)
    with pytest.raises(DataError, match=f"{shared} of these {len(other)} rows, row {first} first"):
        ledger.check(other)
    with pytest.raises(DataError, match="a part of these examples was released before") as told:
        asked(ledger, other)
    assert not any(c.isdigit() for c in str(told.value)), "a server may be told this"


def test_in_which_round_a_row_is_released_is_drawn_by_the_secret_alone(tmp_path):
    """Not by its place in a sorted file: one row moved 191 of 300 others to another round."""
    x, order = np.unique(stream(0, "rows").choice([-1, 1], (300, 20)), axis=0), np.arange(300)
    dealt = np.zeros((60, 300), int)
    for k in range(60):
        ledger, mixed = Ledger(tmp_path / f"{k}"), np.random.default_rng(k).permutation(order)
        ledger.folder.mkdir()
        (ledger.folder / "secret").write_text(f"{k // 2:064x}")
        batches = BatchSource((ledger.charge(as_examples(x[mixed]), Terms(1.0, 1e-5, 3))[0],), 3)
        at = {row.tobytes(): t for t in range(3) for row in batches.examples(t, 0).signs}
        dealt[k] = [at[row.tobytes()] for row in as_examples(x).signs]
    assert (dealt[::2] == dealt[1::2]).all()
    often = np.stack([(dealt[::2] == t).sum(axis=0) for t in range(3)])
    assert (often.min(), often.max()) > (0, 8)  # of 10, with a spread of 2.6
    assert often.max() < 22


def test_files_are_private_small_and_hold_no_rows(ledger):
    rows = examples(1000)
    asked(ledger, rows)
    for name in ("ledger", "secret", "lock"):
        assert stat.S_IMODE((ledger.folder / name).stat().st_mode) == 0o600
    assert stat.S_IMODE(ledger.folder.stat().st_mode) == 0o700
    text = (ledger.folder / "ledger").read_bytes()
    assert len(text) < 22 * 1000 + 300
    other = Ledger(ledger.folder.parent / "other")
    asked(other, rows)
    first, second = (json.loads((one.folder / "ledger").read_bytes()) for one in (ledger, other))
    assert first["released"][0]["rows"] != second["released"][0]["rows"], "marks are keyed"


@pytest.mark.parametrize("text", [b"12\n", b"\xb2" * 64])
def test_a_broken_secret_is_remade_only_where_nothing_was_released(ledger, text):
    ledger.folder.mkdir(parents=True)
    (ledger.folder / "secret").write_bytes(text)
    first = asked(ledger, examples())
    kept = (ledger.folder / "secret").read_bytes()
    for wrong in (text, None, b"0" * 64):  # broken, gone, and whole, but another one
        if wrong is None:
            (ledger.folder / "secret").unlink()
        else:
            (ledger.folder / "secret").write_bytes(wrong)
        for act, seed in ((asked, 0), (Ledger.check, 0), (asked, 9)):
            with pytest.raises(DataError, match="put that back"):
                act(ledger, examples(seed=seed))
        assert wrong is None or (ledger.folder / "secret").read_bytes() == wrong
    (ledger.folder / "secret").write_bytes(kept)
    assert digest(asked(ledger, examples())) == digest(first)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[" * 100_000,
        b'{"secret": "x", "released": [], "released": []}',
        b'{"secret": "x", "released": [{"delta": "0.1", "rounds": 1, "rows": ""}]}',
        b'{"secret": "x", "released": [{"epsilon": "1", "delta": "0", "rounds": 1, "rows": "A"}]}',
    ],
)
def test_a_damaged_ledger_stops_everything_and_stays_as_it_is(ledger, text):
    asked(ledger, examples())
    (ledger.folder / "ledger").write_bytes(text)
    for act in (asked, Ledger.check, Ledger.released):
        with pytest.raises(DataError, match="damaged") as told:
            act(ledger, examples())
        assert "\n" not in str(told.value)
    assert (ledger.folder / "ledger").read_bytes() == text


def test_it_is_on_the_disk_before_anything_can_be_sent(ledger, monkeypatch):
    acts, fsync, swap = [], os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda fd: (acts.append("fsync"), fsync(fd)))

    def replaced(source, target):
        acts.append(Path(target).name)
        swap(source, target)

    monkeypatch.setattr(os, "replace", replaced)
    ledger.charge(examples(), Terms(1.0, 1e-5))
    assert acts == ["fsync", "secret", "fsync", "fsync", "ledger", "fsync"]


def test_where_the_ledger_cannot_be_written_nothing_is_answered(ledger, monkeypatch):
    asked(ledger, examples())

    def full(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(HopfedError, match="No space left"):
        ledger.charge(examples(seed=9), Terms(1.0, 1e-5))
    monkeypatch.undo()
    assert not ledger.released(examples(seed=9))
    assert sorted(p.name for p in ledger.folder.iterdir()) == ["ledger", "lock", "secret"]


CHARGE = """
import os, sys
sys.path[:0] = {paths!r}
from test_budget import *
try:
    Ledger(Path({folder!r})).charge(examples(), Terms({epsilon}, 1e-5))
except DataError:
    os._exit(3)
os._exit(9)
"""


def test_of_processes_at_once_that_are_killed_before_they_send_one_sets_the_terms(ledger):
    here, folder = Path(__file__).parent, str(ledger.folder)
    paths = [str(here), str(here.parents[1])]
    codes = [CHARGE.format(paths=paths, folder=folder, epsilon=e) for e in (1.0, 2.0)]
    racing = [subprocess.Popen([sys.executable, "-c", code]) for code in codes]
    assert sorted(process.wait() for process in racing) == [3, 9]
    with pytest.raises(DataError, match="not released on other terms"):
        asked(ledger, examples(), epsilon=0.5)
