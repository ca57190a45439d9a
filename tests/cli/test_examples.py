"""Every command's help ends in an example, and the example works."""

import shlex
import shutil

import h5py
import numpy as np
import pytest
from commands import commands
from helpers import written

from hopfed.cli import main
from hopfed.hopfield.channel import draw_examples, rademacher

# What would take long is shortened by options that come later and win.
SHORTER = {
    "fl": "--clients 3 --rounds 1 --set examples=200",
    "run": "--set N=60 --seeds 2",
    "sweep": "--seeds 0:1",
}
# Long-running ends of a network are in tests/federation, benchmarks in test_bench.
ELSEWHERE = ("serve", "join", "bench")
SLOW = ("demo", "theory capacity", "theory plan", "theory", "sweep", "fl")
NEEDS = {"certs": "cryptography", "fl": "torch"}


def example(command):
    """The example of a command's help, None if there is none."""
    lines = [line.strip() for line in (command.help or "").splitlines()]
    found = [line for line in lines if line.startswith("Example: hopfed ")]
    return shlex.split(found[0].removeprefix("Example: hopfed ")) if len(found) == 1 else None


EXAMPLES = {" ".join(path): example(command) for path, command in commands()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The files that the examples speak of."""
    folder = tmp_path_factory.mktemp("examples")
    xi, rng = rademacher(3, 60, np.random.default_rng(0)), np.random.default_rng(1)
    rows = draw_examples(xi, 300, 0.8, rng)[0]
    np.save(folder / "a.npy", rows[:100])
    np.savetxt(folder / "b.csv", rows[100:200], fmt="%d", delimiter=",")
    with h5py.File(folder / "c.h5", "w") as file:
        file["examples"] = rows[200:]
    np.save(folder / "patterns.npy", xi)
    np.savetxt(folder / "returns.csv", rng.standard_normal((200, 20)), delimiter=",")
    np.save(folder / "cues.npy", rows[:5])
    cells = np.column_stack([[f"P{i}" for i in range(200)], rows[:200].astype(str)])
    cells[0, 4] = cells[5, 8] = ""
    names, ages = ["id", *(f"q{j}" for j in range(60))], 20 + np.arange(200) * 7 % 50
    written(folder / "survey.csv", names, cells)
    written(folder / "people.csv", [*names, "age"], np.column_stack([cells, ages]))
    main(["recover", str(folder / "survey.csv"), "--out", str(folder / "run.h5")])
    main(["store", str(folder / "patterns.npy"), "--out", str(folder / "memory.h5")])
    for name, seeds in (("bbp", 2), ("before", 2), ("after", 3)):
        settings = ["--set", "N=60", "--set", "M=100,200", "--seeds", str(seeds)]
        main(["run", "bbp", *settings, "--out", str(folder / f"{name}.h5")])
    return folder


def cases():
    for name in EXAMPLES:
        yield pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW))


@pytest.mark.parametrize("name", list(cases()))
def test_the_example_works(hopfed, folder, tmp_path, monkeypatch, name):
    first = name.split()[0]
    assert EXAMPLES[name], f"hopfed {name}"
    if first in ELSEWHERE:
        return
    if first in NEEDS:
        pytest.importorskip(NEEDS[first], reason=f"{NEEDS[first]} is not installed")
    for file in folder.iterdir():
        shutil.copy(file, tmp_path)
    monkeypatch.chdir(tmp_path)
    words = list(EXAMPLES[name])
    if name in ("run", "fl", "fl run"):
        words += shlex.split(SHORTER[first])
    if "--out" in words:
        (tmp_path / words[words.index("--out") + 1]).unlink(missing_ok=True)
    if name == "fl predict":  # of a run that was made before
        main(shlex.split("fl run fedavg --models mlp:8 --rounds 1 --clients 4 --out kept.h5"))
    before = {path.name for path in tmp_path.iterdir()}
    status, text, errors = hopfed(*words)
    assert (status, errors) == (0, "")
    assert text or {path.name for path in tmp_path.iterdir()} - before
