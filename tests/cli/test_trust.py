"""A run file names code, and nothing imports it unasked."""

import sys

import numpy as np
import pytest

from hopfed._lib.settings import to_plain
from hopfed.experiments.fl import Config
from hopfed.runs import Run

NAME = "spy_of_a_run_file"
DATA = "rows/of$\\frac$x.npz"  # would be a formula in a label


@pytest.fixture
def marker(tmp_path, monkeypatch):
    """Where the module `spy_of_a_run_file` leaves a file when it is imported."""
    folder = tmp_path / "modules"
    folder.mkdir()
    marker = folder / "imported"
    (folder / f"{NAME}.py").write_text(f"open({str(marker)!r}, 'w').close()\n")
    monkeypatch.syspath_prepend(str(folder))
    yield marker
    sys.modules.pop(NAME, None)


def run_of(kind, committed=1):
    """A run file of `hopfed fl run`, complete or not yet begun, whose method is the spy."""
    config = to_plain(Config(method=f"{NAME}:Method", data=DATA, clients=2, rounds=1))
    shape = (committed, 1, 2)
    numbers = {n: np.full(shape, 0.5) for n in ("validation", "test", "client/flops")}
    traffic = {f"traffic/{way}": np.ones(shape, int) for way in ("up", "down")}
    arrays = {"seeds": np.arange(committed), **numbers, **traffic} if committed else {}
    arrays |= {"seeds": np.arange(committed)}
    return Run(kind, config, arrays, {"test": [0.5, None]}, committed=committed, planned=1)


@pytest.mark.parametrize("kind", ["fl", NAME, f"_{NAME}"])
def test_nothing_that_reads_a_run_imports_what_it_names(hopfed, tmp_path, marker, kind):
    path = tmp_path / "run.h5"
    run_of(kind).save(path)
    assert hopfed("show", path)[0] == 0
    assert hopfed("compare", path, path)[0] == 0
    assert hopfed("report", path, "--out", tmp_path / "page.html")[0] == 0
    assert hopfed("figure", path, "--out", tmp_path / "f.png")[0] == (0 if kind == "fl" else 2)
    assert hopfed("fl", "run", "fedavg", "--resume", "--out", path)[0] == 2
    assert hopfed("run", "bbp", "--resume", "--out", path)[0] == 2
    assert not marker.exists()


@pytest.mark.parametrize("committed", [0, 1])
def test_a_resumed_run_imports_only_what_is_trusted(hopfed, tmp_path, marker, committed):
    path = tmp_path / "run.h5"
    run_of("fl", committed).save(path)
    before = path.read_bytes()
    command = ("run", "fl", "--resume", "--out", path)
    for other in ((), ("--set", "method=fedavg:X"), ("--set", f"options={NAME}:Method,a=1")):
        status, out, err = hopfed(*command, *other)
        assert (status, out) == (2, "")
        assert err.count("\n") == 1
        assert not marker.exists()
        assert path.read_bytes() == before
    assert "names code to run, spy_of_a_run_file:Method" in hopfed(*command)[2]
    if committed:
        return  # nothing is left to run
    named = ("--set", f"method={NAME}:Method", "--set", f"data={DATA}")
    for asked in (("--trust",), named):
        status, _, err = hopfed(*command, *asked)
        assert status == 2
        assert "module:Class" in err  # the spy has no such class
        assert marker.exists()
        marker.unlink()
        del sys.modules[NAME]
