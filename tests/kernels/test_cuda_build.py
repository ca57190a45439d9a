"""What can be checked of the CUDA kernels without a GPU: they compile, and their arithmetic."""

import importlib.util
import os
import shutil
import subprocess
import sys
import types

import pytest

from hopfed.errors import BackendError
from hopfed.kernels.cuda import device

SOURCES = sorted(path.stem for path in device.FOLDER.glob("*.cu"))

SIMULATED = """
import numpy as np
from hopfed.kernels import reference
from hopfed.kernels.cuda import simulated

rng = np.random.default_rng(0)
for shape in ((1, 1), (1, 70), (9, 1), (11, 300)):
    x = rng.choice(np.array([-1, 1], np.int8), shape)
    words = simulated.pack(x)
    np.testing.assert_array_equal(words, reference.pack(x))
    np.testing.assert_array_equal(simulated.unpack(words, shape[1]), x)
    np.testing.assert_array_equal(simulated.gram(words, shape[1]), reference.gram(x))
for n, seed in ((1, 0), (37, 2**40 + 1)):
    got = simulated.draws(n, 5, 6, seed, 2**32 - 1)
    np.testing.assert_array_equal(got, reference.draws(n, 5, 6, seed, 2**32 - 1))
print("equal")
"""


@pytest.mark.parametrize("name", SOURCES)
def test_nvcc_compiles(name, tmp_path):
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("no nvcc to compile the CUDA kernels with")
    command = [
        nvcc, "-arch=sm_90", *device.OPTIONS, "-cubin", "-Xptxas=-v",
        str(device.FOLDER / f"{name}.cu"), "-o", str(tmp_path / "out.cubin"),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    report = done.stderr.replace("0 bytes spill", "")
    assert "spill" not in report, done.stderr  # registers overflowed to memory
    assert "warning" not in report, done.stderr


def test_sources_are_complete_in_themselves():
    for name in SOURCES:
        text = device.source(name)
        assert '#include "common.cu"' not in text or name in ("common", "emulate")
    with pytest.raises(FileNotFoundError):
        device.source("nothing")


def test_a_driver_without_the_libraries_of_cuda_is_one_clear_line(monkeypatch):
    """CuPy can be imported, and sees the device, without them; it loads them when first asked."""

    properties = {"name": b"a device", "major": 9, "minor": 0, "sharedMemPerBlockOptin": 1}
    runtime = types.SimpleNamespace(
        getDeviceProperties=lambda ordinal: properties, CUDARuntimeError=RuntimeError
    )
    cupy = types.ModuleType("cupy")
    cupy.cuda = types.SimpleNamespace(runtime=runtime)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setitem(sys.modules, "cupy_backends.cuda.libs", types.ModuleType("libs"))
    with pytest.raises(BackendError, match=r"CUDA.s libraries .*hopfed\[cuda13\]") as found:
        device.Cuda()
    assert "\n" not in str(found.value)


def test_numba_kernels_in_the_simulator():
    if importlib.util.find_spec("numba_cuda") is None and not _numba_has_cuda():
        pytest.skip("numba-cuda is not installed")
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}
    done = subprocess.run(
        [sys.executable, "-c", SIMULATED], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "equal"


def _numba_has_cuda():
    return importlib.util.find_spec("numba.cuda") is not None


def test_without_cupy_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(BackendError, match="pip install"):
        device.Cuda()


def test_importing_loads_no_cupy():
    modules = "bits, device, emulator, gram, heatbath, lam, products, scoring, shuffle"
    code = f"import sys; from hopfed.kernels.cuda import {modules}; print('cupy' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"
