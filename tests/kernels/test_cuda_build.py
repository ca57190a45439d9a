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
        text = device.cuda_source(name)
        assert '#include "common.cu"' not in text or name == "common"
    with pytest.raises(FileNotFoundError):
        device.cuda_source("nothing")


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


STATIC = 4 * 32 * 4 + 2 * 4  # bytes that a kernel declares


class Kernel:
    """A kernel of CuPy on a chip that gives a block no more than it asked for."""

    shared_size_bytes = STATIC
    max_dynamic_shared_size_bytes = None

    def __call__(self, grid, block, args, shared_mem):
        asked = self.max_dynamic_shared_size_bytes
        most = (48 << 10) - STATIC if asked is None else asked
        if shared_mem > most:
            raise RuntimeError("CUDA_ERROR_INVALID_VALUE: invalid argument")


@pytest.mark.parametrize("rank", [16, 12_144, 12_160, 12_272, 12_288, 12_304, 40_000])
def test_a_block_gets_what_it_declares_and_what_it_is_given(rank):
    chip = object.__new__(device.Cuda)
    module = types.SimpleNamespace(get_function=lambda name: Kernel())
    chip.xp = types.SimpleNamespace(RawModule=lambda **options: module)
    chip._modules, chip._kernels = {}, {}
    chip.launch("heatbath", "heat_bath", (1, 1), (), 128, shared=4 * rank)
