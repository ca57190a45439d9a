"""Run files that others made or damaged: shown, drawn, compared or continued, or refused in a line.

Valid files are changed at random in their bytes and in what they hold (see `foreign`).
"""

import resource
import shutil
from pathlib import Path

import calls
import foreign
import h5py
import pytest
from helpers import sample
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hopfed.recovery.recover import as_run, run_recovery
from hopfed.runs import Run

MEMORY = 2 << 20  # kB

# As in the command itself: what NumPy thinks of means of nothing is not for users.
pytestmark = pytest.mark.filterwarnings("ignore")

FEW = settings(max_examples=100, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A complete run of an experiment and of a recovery, and one that is interrupted."""
    folder = tmp_path_factory.mktemp("runs")
    small = ["run", "bbp", "--set", "N=40", "--set", "M=60,80", "--seeds", "3"]
    assert told(*small, "--out", folder / "bbp.h5")[0] == 0
    recovery = run_recovery([sample(3, 48, 400, 0.8, 0)[1]], seed=0)
    as_run(recovery, {"files": ["a.npy"]}).save(folder / "recover.h5")
    run = Run.load(folder / "bbp.h5")
    arrays = {name: array[:2] for name, array in run.arrays.items()}
    half = Run("bbp", run.config, arrays, {}, run.provenance, 2, 3)
    half.save(folder / "half.h5")
    return folder


def told(*arguments):
    """Exit status, standard output and standard error of `hopfed ARGUMENTS`, which ends soon."""
    return calls.run([str(a) for a in arguments])


def check(*arguments):
    """The command does its work, or says in one line why not; in little memory."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    status, out, err = told(*arguments)
    assert status in (0, 2), (arguments, status, err)
    if status:
        assert out == ""
        assert err.startswith("error: ")
        assert err.count("\n") == 1
    assert "\x1b" not in out + err
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert after == before or after < MEMORY
    return status


def changed(data, source, target):
    change = data.draw(st.sampled_from((foreign.bytes_changed, foreign.contents_changed)))
    change(data.draw, source, target)
    return target


READS = ("show CHANGED", "show CHANGED --json", "compare SOURCE CHANGED")
READS += ("figure CHANGED --out OUT.png", "report CHANGED --out OUT.html")


@settings(FEW, max_examples=30)
@given(st.data())
def test_commands_that_read_a_run(folder, data):
    source = folder / data.draw(st.sampled_from(("bbp.h5", "recover.h5", "half.h5")))
    path, line = changed(data, source, folder / "changed.h5"), data.draw(st.sampled_from(READS))
    words = line.replace("CHANGED", str(path)).replace("SOURCE", str(source))
    words = words.replace("OUT", str(folder / "out")).split()
    if "--out" in words:
        Path(words[-1]).unlink(missing_ok=True)
    status = check(*words)
    if "--out" in words:
        assert Path(words[-1]).exists() == (status == 0)


@settings(FEW, max_examples=20)
@given(st.data())
def test_resume(folder, data):
    source = folder / data.draw(st.sampled_from(("bbp.h5", "half.h5")))
    path = changed(data, source, folder / "resumed.h5")
    before = path.read_bytes()
    # The settings stay small: what a file may ask for is as much as the command line may.
    given = [f"--set=N={data.draw(st.sampled_from((40, 41)))}", "--set=M=60,80", "--seeds=3"]
    if check("run", "bbp", *given, "--out", path, "--resume"):
        assert path.read_bytes() == before or Run.load(path).committed < 3
    else:
        assert Run.load(path).complete


def test_what_a_file_may_not_refer_to(folder, tmp_path):
    """Other files, and arrays that unfold to more than the file holds."""
    for name in ("elsewhere", "vast", "unwritten", "wide", "packed", "linked", "words", "record"):
        path = tmp_path / f"{name}.h5"
        shutil.copy(folder / "recover.h5", path)
        with h5py.File(path, "r+") as file:
            array = file["archetypes/scores"][()]
            del file["archetypes/scores"]
            foreign.CHANGES[name](file, "archetypes/scores", array)
        status, out, err = told("show", path)
        if name == "linked":  # links are not followed
            assert (status, "archetypes/scores" in out) == (0, False)
            continue
        assert status == 2, name
        assert "archetypes/scores" in err or "not in it" in err
