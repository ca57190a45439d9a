"""The device on which the kernels are tested: emulated, or a GPU (`-m gpu`)."""

import os
import shutil

import pytest
from emulator.device import Emulated

from hopfed.errors import BackendError
from hopfed.kernels.cuda.device import cuda


@pytest.fixture(scope="module", params=["emulated", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    """The emulated device, where there is a C++ compiler; the first CUDA device under `-m gpu`."""
    if request.param == "emulated":
        if not (shutil.which("g++") or shutil.which("c++")):
            pytest.skip("no C++ compiler to emulate a device with")
        return Emulated()
    try:
        return cuda(0)
    except BackendError as error:
        if os.environ.get("HOPFED_REQUIRE") == "cupy":
            pytest.fail(str(error))
        pytest.skip(str(error))
