"""Where commands write: never over an input, a device or each other; checked before any work."""

import os
import resource
import subprocess
import sys

import h5py
import numpy as np
import pytest
from commands import commands
from helpers import sample

from hopfed.runs import Run

COMMAND = [sys.executable, "-c", "from hopfed.__main__ import main; main()"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Data, run files, links to them and to a device."""
    rows = sample(3, 48, 300, 0.8, 0)[1]
    np.save(tmp_path / "a.npy", rows)
    np.savetxt(tmp_path / "a.csv", rows, delimiter=",", fmt="%d")
    np.savez(tmp_path / "a.npz", images=np.zeros((4, 8, 8), np.uint8), labels=np.arange(4))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["examples"] = rows
    Run("recover", {}, {"x": np.ones(3)}, {"n_detected": 2}).save(tmp_path / "run.h5")
    for link, target in (
        ("run.png", "run.h5"),
        ("run.html", "run.h5"),
        ("npy.h5", "a.npy"),
        ("npz.h5", "a.npz"),
        ("null.h5", os.devnull),
        ("null.png", os.devnull),
        ("null.html", os.devnull),
        ("silhouettes.png", "a.npz"),
    ):
        (tmp_path / link).symlink_to(target)
    os.link(tmp_path / "a.npy", tmp_path / "hard.h5")
    (tmp_path / "settings.toml").write_text("clients = 3\n")
    (tmp_path / "toml.h5").symlink_to("settings.toml")
    for name in ("old.png", "old.html"):
        (tmp_path / name).write_text("the one before")
    monkeypatch.chdir(tmp_path)
    return tmp_path


NEW = "a new file (--overwrite replaces this one)"
INPUT = "another file than the input"
DEVICE = "not a device"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("recover a.h5 --out a.h5", INPUT),
        ("recover a.npy --out npy.h5", INPUT),
        ("recover a.npy --out hard.h5", INPUT),
        ("recover a.csv --out a.h5", "a new file, or a run file of hopfed"),
        ("figure run.h5 --out old.png", NEW),
        ("theory capacity --figure old.png", NEW),
        ("run bbp --out run.h5 --overwrite --resume", "left out with --resume"),
        ("fl run fedavg --data a.npz --out run.h5", "--overwrite replaces this one, --resume"),
        ("recover a.npy a.csv --out a.csv", INPUT),
        ("recover a.npy --out run.h5", NEW),
        ("export a.h5 --out run.h5", NEW),
        ("join --data a.npy --out run.h5", NEW),
        ("run bbp --preset quick --out run.h5", "--overwrite replaces this one, --resume"),
        ("recover a.npy --out found", "--out must be a .csv, .json, .parquet, .h5 or .hdf5 file"),
        ("recover a.npy --out null.h5", DEVICE),
        ("recover a.npy --out /dev/stdout", "a .csv, .json, .parquet, .h5 or .hdf5 file"),
        ("recover a.npy --out run.h5 --figure run.png", "another file than that of --out"),
        ("recover a.npy --shape 5x9", "--shape must be height x width with a product of 48"),
        ("recover a.npy --shape ²x48", "--shape must be height x width"),
        ("figure run.h5 --out run.png", INPUT),
        ("figure run.h5 --out null.png", DEVICE),
        ("run bbp --out null.h5", DEVICE),
        ("run bbp --out a.h5 --resume", "a new file, or a run file of hopfed"),
        ("fl run fedavg --data a.npz --out npz.h5", INPUT),
        ("fl run fedavg --config settings.toml --out toml.h5", INPUT),
        ("demo --figure null.png", DEVICE),
        ("theory capacity --figure null.png", DEVICE),
    ],
)
def test_what_would_be_lost_is_refused_before_any_work(hopfed, folder, arguments, words):
    before = {p.name: (p.lstat().st_ino, p.is_symlink()) for p in folder.iterdir()}
    data = {p.name: p.read_bytes() for p in folder.iterdir()}
    status, out, err = hopfed(*arguments.split())
    assert (status, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1
    assert {p.name: (p.lstat().st_ino, p.is_symlink()) for p in folder.iterdir()} == before
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == data


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
    ("assign found.h5 a.csv --out rows.csv", ["rows.csv"]),
    ("complete found.h5 a.csv --out full.csv", ["full.csv"]),
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


def test_pictures_are_replaced_and_links_stay(hopfed, folder):
    (folder / "there").mkdir()
    (folder / "link.h5").symlink_to("there/found.h5")
    for _ in range(2):
        arguments = ("recover", "a.npy", "--out", "link.h5", "--figure", "found.png")
        assert hopfed(*arguments, "--shape", "6x8", "--overwrite")[0] == 0
        first = Run.load(folder / "there" / "found.h5")
        (folder / "there" / "found.h5").rename(folder / "kept.h5")
    first.save(folder / "there" / "found.h5")
    assert (folder / "link.h5").is_symlink()
    assert Run.load(folder / "there" / "found.h5").kind == "recover"
    assert (folder / "found.png").stat().st_size > 1000


@pytest.mark.slow
def test_the_umask_is_kept(folder):
    umask = {"preexec_fn": lambda: os.umask(0o077)}
    subprocess.run([*COMMAND, "recover", "a.npy", "--out", "new.h5"], check=True, **umask)
    assert (folder / "new.h5").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("limit", [1 << 12, 1 << 17])
def test_a_full_disk_leaves_the_earlier_file(folder, limit):
    """Full from the start, or filled by the page; the limit on file sizes stands for the disk."""
    noise = np.random.default_rng(0).standard_normal(30_000)
    Run("mine", {}, {"x": noise}, {}).save(folder / "noise.h5")
    (folder / "page.html").write_text("the earlier one")
    before = sorted(os.listdir(folder))
    answer = subprocess.run(
        [*COMMAND, "report", "noise.h5", "--out", "page.html", "--overwrite"],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr.count("\n") == 1
    assert "File too large" in answer.stderr
    assert (folder / "page.html").read_text() == "the earlier one"
    assert sorted(os.listdir(folder)) == before
