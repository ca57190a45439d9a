"""Commands run in a folder that somebody else filled: nothing there runs, or is obeyed."""

import os
import pickle
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
RUN = "import sys; sys.path.remove(''); import hopfed.__main__ as m; m.main()"
SMALL = ["run", "bbp", "--preset", "quick", "--set", "M=100", "--seeds", "2", "--workers", "2"]
DASK = ["--engine", "dask", "--dask", "local"]


@pytest.mark.parametrize(
    ("module", "command"),
    [("multiprocessing", ["-c", RUN, *SMALL]),
     pytest.param("multiprocessing", ["-c", RUN, *SMALL, *DASK], marks=pytest.mark.slow),
     ("click", ["-m", "hopfed", "--version"])],
)  # fmt: skip
def test_modules_in_the_folder_are_not_those_that_they_are_called(tmp_path, module, command):
    if "dask" in command:
        pytest.importorskip("distributed", reason="Dask is not installed: pip install hopfed[dask]")
    (tmp_path / f"{module}.py").write_text(PLANTED)
    clean = {k: v for k, v in os.environ.items() if k != "PYTHONSAFEPATH"}
    subprocess.run([sys.executable, *command], cwd=tmp_path, env=clean, timeout=300, check=True)
    assert [path.name for path in tmp_path.iterdir()] == [f"{module}.py"]


class Planted:
    """Runs when it is unpickled."""

    def __reduce__(self):
        return open, ("RAN", "w")


@pytest.mark.slow
def test_numba_takes_nothing_that_it_unpickles_from_where_a_file_in_the_folder_says(tmp_path):
    pytest.importorskip("yaml", reason="PyYAML is not installed")
    clean = {k: v for k, v in os.environ.items() if not k.startswith("NUMBA_")}
    code = "from hopfed.kernels import pack; import numpy as np; pack(np.ones((4, 9), np.int8))"
    command, kept = [sys.executable, "-P", "-c", code], tmp_path / "cache"
    own = clean | {"NUMBA_CACHE_DIR": str(kept)}
    subprocess.run(command, cwd=tmp_path, env=own, timeout=300, check=True)
    found = list(kept.rglob("*.nbi"))
    assert found
    for index in found:
        index.write_bytes(pickle.dumps(Planted()))
    (tmp_path / ".numba_config.yaml").write_text("cache_dir: cache\n")
    subprocess.run(command, cwd=tmp_path, env=clean, timeout=300, check=True)
    assert not (tmp_path / "RAN").exists()
