"""Run files that others made or damaged: commands do their work, or one line says why not."""

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

# As in the command itself: what NumPy thinks of means of nothing is not for users.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A complete run of an experiment and of a recovery, and one that is interrupted."""
    folder = tmp_path_factory.mktemp("runs")
    small = ["run", "bbp", "--set", "N=40", "--set", "M=60,80", "--seeds", "3", "--out"]
    assert calls.run([*small, str(folder / "bbp.h5")])[0] == 0
    recovery = run_recovery([sample(3, 48, 400, 0.8, 0)[1]], seed=0)
    as_run(recovery, {"files": ["a.npy"]}).save(folder / "recover.h5")
    run = Run.load(folder / "bbp.h5")
    arrays = {name: array[:2] for name, array in run.arrays.items()}
    Run("bbp", run.config, arrays, {}, run.provenance, 2, 3).save(folder / "half.h5")
    return folder


# Settings stay small: what a file may ask for is as much as the command line may.
LINES = ("show CHANGED", "show CHANGED --json", "compare SOURCE CHANGED")
LINES += ("figure CHANGED --out OUT.png", "report CHANGED --out OUT.html")
LINES += tuple(
    f"run bbp --set=N={N} --set=M=60,80 --seeds=3 --out CHANGED --resume" for N in (40, 41)
)


@settings(max_examples=50, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_commands_that_read_a_run(folder, data):
    source = folder / data.draw(st.sampled_from(("bbp.h5", "recover.h5", "half.h5")))
    change = data.draw(st.sampled_from((foreign.bytes_changed, foreign.contents_changed)))
    path, line = folder / "changed.h5", data.draw(st.sampled_from(LINES))
    change(data.draw, source, path)
    before = path.read_bytes()
    words = line.replace("CHANGED", str(path)).replace("SOURCE", str(source))
    words = words.replace("OUT", str(folder / "out")).split()
    made = Path(words[-1])
    if "OUT" in line:
        made.unlink(missing_ok=True)
    status, out, err = calls.run(words)
    assert status in (0, 2), (words, status, err)
    if status:
        assert (out, err[:7], err.count("\n")) == ("", "error: ", 1)
    assert "\x1b" not in out + err
    if "OUT" in line:
        assert made.exists() == (status == 0)
    elif "--resume" in line and status == 0:
        assert Run.load(path).complete
    elif "--resume" in line:
        assert path.read_bytes() == before or Run.load(path).committed < 3


@pytest.mark.parametrize("name", sorted(foreign.WRITTEN))
def test_what_a_file_may_not_refer_to(folder, tmp_path, name):
    """Other files, and arrays that unfold to more than the file holds."""
    path = tmp_path / f"{name}.h5"
    shutil.copy(folder / "recover.h5", path)
    with h5py.File(path, "r+") as file:
        del file["archetypes/scores"]
        foreign.WRITTEN[name](file, "archetypes/scores")
    status, out, err = calls.run(["show", str(path)])
    if name == "linked":  # links are not followed
        assert (status, "archetypes/scores" in out) == (0, False)
    else:
        assert status == 2
        assert "archetypes/scores" in err or "not in it" in err
