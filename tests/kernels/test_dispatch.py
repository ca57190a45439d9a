"""Public functions send device arrays to their CUDA twins; here on the emulated device."""

import shutil

import numpy as np
import pytest
from emulator.device import Emulated

from hopfed import kernels
from hopfed.errors import ArgumentError
from hopfed.kernels.cuda import bits
from hopfed.kernels.dispatch import on_device

pytestmark = pytest.mark.skipif(
    not (shutil.which("g++") or shutil.which("c++")), reason="no C++ compiler to emulate a device"
)


@pytest.fixture(scope="module")
def device():
    return Emulated()


def test_the_same_call_on_either_side(device):
    rng = np.random.default_rng(0)
    x = rng.choice(np.array([-1, 1], np.int8), (70, 130))
    X = rng.standard_normal((130, 3))
    p, d = kernels.pack(x), kernels.pack(device.xp.asarray(x))
    assert isinstance(d, bits.DevicePacked)
    assert on_device(d)
    assert not on_device(p)
    np.testing.assert_array_equal(kernels.gram(d).get(), kernels.gram(p))
    np.testing.assert_array_equal(kernels.second_moment(d).get(), kernels.second_moment(p))
    np.testing.assert_array_equal(kernels.column_sums(d).get(), kernels.column_sums(p))
    both = kernels.concatenate([d, d])
    np.testing.assert_array_equal(kernels.unpack(both).get(), np.vstack([x, x]))
    on = kernels.matmat(d, device.xp.asarray(X)).get()
    np.testing.assert_allclose(on, kernels.matmat(p, X), rtol=1e-10)


def test_trajectories_are_the_same_draws(device):
    rng = np.random.default_rng(1)
    state = rng.choice(np.array([-1, 1], np.int8), (4, 96))
    # Multiples of 1/8 and few of them: fields are exact in float32, so trajectories are equal.
    W = rng.integers(-2, 3, (96, 4)).astype(np.float32) / 8
    options = {"beta": 1.5, "sweeps": 6, "seed": 3}
    host = kernels.heat_bath(state, W, **options)
    there = kernels.heat_bath(device.xp.asarray(state), device.xp.asarray(W), **options)
    np.testing.assert_array_equal(there.state.get(), host.state)


def test_host_and_device_do_not_mix(device):
    x = np.ones((4, 8), np.int8)
    with pytest.raises(ArgumentError):
        kernels.matmat(kernels.pack(device.xp.asarray(x)), np.ones((8, 2)))
