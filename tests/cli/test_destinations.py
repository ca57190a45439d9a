"""Files that commands write: replaced with --overwrite alone (`test_refusals.py` has the rest)."""

import os

import numpy as np
import pytest
from commands import commands
from helpers import sample


@pytest.fixture
def folder(tmp_path, monkeypatch):
    np.save(tmp_path / "a.npy", sample(3, 48, 300, 0.8, 0)[1])
    monkeypatch.chdir(tmp_path)
    return tmp_path


WRITES = {"out_file", "figure"}
MAKES = {"certs": "keys", "sweep": "swept"}  # beside --out and --figure


def test_every_command_that_writes_takes_overwrite():
    for path, command in commands():
        name, taken = " ".join(path), {parameter.name for parameter in command.params}
        writes = bool(taken & WRITES) or name in MAKES
        assert ("overwrite" in taken) == writes, name


TWICE = [
    ("recover a.npy --out found.h5 --figure found.svg", ["found.h5", "found.svg"]),
    ("export found.h5 --out means.csv", ["means.csv"]),
    ("assign found.h5 a.npy --out rows.csv", ["rows.csv"]),
    ("complete found.h5 a.npy --out full.csv", ["full.csv"]),
    ("report found.h5", ["found.html"]),
    ("figure found.h5", ["found.png"]),
    ("store a.npy --out memory.h5", ["memory.h5"]),
    ("recall memory.h5 cues.npy --out states.npy", ["states.npy"]),
    ("theory mp --figure mp.svg", ["mp.svg"]),
    ("run bbp --preset quick --set N=40 --set M=40 --seeds 1 --out bbp.h5", ["bbp.h5"]),
    ("certs keys --clients 2", ["keys/ca.pem", "keys/client-1.key"]),
]


@pytest.mark.slow
def test_commands_run_twice_with_overwrite(hopfed, folder):
    pytest.importorskip("cryptography", reason="cryptography is not installed")
    np.save(folder / "cues.npy", np.load(folder / "a.npy")[:4])
    for arguments, made in TWICE:
        assert hopfed(*arguments.split())[0] == 0, arguments
        held = {name: (folder / name).stat().st_ino for name in made}
        status, _, err = hopfed(*arguments.split())
        assert (status, "--overwrite replaces" in err) == (2, True), arguments
        assert {name: (folder / name).stat().st_ino for name in made} == held
        assert hopfed(*arguments.split(), "--overwrite")[0] == 0, arguments
        assert all((folder / name).stat().st_ino != held[name] for name in made), arguments
    assert not [name for name in os.listdir(folder) if name.endswith(".old")]


def test_a_sweep_goes_on_or_begins_anew(hopfed, folder):
    quick = ("--preset", "quick", "--set", "M=40", "--seeds", "1")
    words = ("sweep", "bbp", *quick, "--grid", "N=30,40", "--out", "swept")
    assert hopfed(*words)[0] == 0
    held = (folder / "swept" / "N=30.h5").stat().st_ino
    assert hopfed(*words)[0] == 0
    assert (folder / "swept" / "N=30.h5").stat().st_ino == held
    assert hopfed(*words, "--overwrite")[0] == 0
    assert (folder / "swept" / "N=30.h5").stat().st_ino != held
