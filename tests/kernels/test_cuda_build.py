"""What can be checked of the CUDA kernels without a GPU: they compile, and their arithmetic."""

import shutil
import subprocess
import sys
import types
from itertools import product

import pytest
from helpers import rest_slow

from hopfed.errors import BackendError
from hopfed.kernels.cuda import device

SOURCES = sorted(path.stem for path in device.FOLDER.glob("*.cu"))


@pytest.mark.parametrize(
    ("name", "chip"),
    rest_slow([("gram", "sm_90"), *product(SOURCES, ("sm_80", "sm_90", "sm_100"))], 1),
)
def test_nvcc_compiles(name, chip, tmp_path):
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("no nvcc to compile the CUDA kernels with")
    command = [
        nvcc, f"-arch={chip}", *device.OPTIONS, "-cubin", "-Xptxas=-v",
        str(device.FOLDER / f"{name}.cu"), "-o", str(tmp_path / "out.cubin"),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    report = done.stderr.replace("0 bytes spill", "")
    assert "spill" not in report, done.stderr
    assert "warning" not in report, done.stderr


def test_sources_are_complete_in_themselves():
    for name in SOURCES:
        text = device.source(name)
        assert '#include "common.cu"' not in text or name == "common"
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


def test_without_cupy_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(BackendError, match="pip install"):
        device.Cuda()


def test_importing_loads_no_cupy():
    modules = "bits, device, gram, heatbath, layered, products"
    code = f"import sys; from hopfed.kernels.cuda import {modules}; print('cupy' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"
