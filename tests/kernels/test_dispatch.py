"""Functions send device arrays to their CUDA twins; here on the emulated device."""

import shutil
from importlib import import_module

import numpy as np
import pytest
from emulator.device import Emulated

from hopfed import kernels
from hopfed.errors import ArgumentError
from hopfed.kernels.dispatch import DEVICE

pytestmark = pytest.mark.skipif(
    not (shutil.which("g++") or shutil.which("c++")), reason="no C++ compiler to emulate a device"
)


@pytest.fixture(scope="module")
def device():
    return Emulated()


def test_host_and_device_do_not_mix(device):
    x = np.ones((4, 8), np.int8)
    with pytest.raises(ArgumentError):
        kernels.matmat(kernels.pack(device.xp.asarray(x)), np.ones((8, 2)))


def test_the_table_names_what_there_is():
    """Whatever takes a device by itself is in it, under the name that it has there."""
    for module, names in DEVICE.items():
        twins = import_module(f"hopfed.kernels.cuda.{module}")
        for name in names:
            assert callable(getattr(twins, name))
