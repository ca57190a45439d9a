"""Commands run in a folder that somebody else filled: nothing there runs, or is obeyed."""

import os
import subprocess
import sys

import pytest

PLANTED = """
open("RAN", "w").write("x")
import sys
sys.path.pop(0)
del sys.modules["multiprocessing"]
import multiprocessing
"""
COMMAND = [
    sys.executable,
    "-c",
    "import sys; sys.path.remove(''); import hopfed.__main__ as m; m.main()",
]


@pytest.mark.parametrize("engine", [(), ("--engine", "dask", "--dask", "local")])
def test_workers_import_nothing_from_the_current_folder(tmp_path, engine):
    if engine:
        pytest.importorskip("distributed", reason="Dask is not installed: pip install hopfed[dask]")
    (tmp_path / "multiprocessing.py").write_text(PLANTED)
    settings = ("--preset", "quick", "--set", "seeds=2", "--set", "M=100", "--workers", "2")
    clean = {k: v for k, v in os.environ.items() if k != "PYTHONSAFEPATH"}
    done = subprocess.run(
        [*COMMAND, "run", "bbp", *settings, *engine, "--out", "run.h5"],
        cwd=tmp_path, env=clean, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["multiprocessing.py", "run.h5"]


def test_no_typesetter_is_started_for_a_figure():
    import matplotlib

    from hopfed.figures import new_figure

    with matplotlib.rc_context({"text.usetex": True}):  # as a matplotlibrc in the folder may say
        new_figure(80, 60)
        assert not matplotlib.rcParams["text.usetex"]
