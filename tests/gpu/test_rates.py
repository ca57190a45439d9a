"""Rates of a device, the emulated one: its times mean nothing, its numbers do."""

import shutil

import numpy as np
import pytest
from emulator.device import Emulated
from gpu.rates import Sizes, measures

from hopfed.kernels.cuda.products import rounded, widened

pytestmark = pytest.mark.skipif(
    not (shutil.which("g++") or shutil.which("c++")), reason="no C++ compiler"
)

UNITS = {"copy", "float32", "float64", "int8", "bf16", "b1"}
GAPS = {"float32": 1e-6, "float64": 1e-14, "int8": 1e-15, "bf16": 1e-6}  # of products
FEW = Sizes(copy=300, side=24, loops=2, repeats=1)


def test_products_of_every_type_are_those_of_exact_numbers():
    found = {unit: run() for unit, run in measures(Emulated(), FEW).items()}
    assert set(found) == UNITS
    assert all(each["rate"] > 0 for each in found.values())
    gaps = {unit: found[unit]["gap"] for unit in GAPS}
    assert gaps["int8"] == 0
    assert all(0 <= gap < GAPS[unit] for unit, gap in gaps.items())


def test_an_old_chip_lacks_the_new_instructions():
    old = Emulated()
    old.capability = 75
    assert set(measures(old, FEW)) == UNITS - {"bf16", "b1"}


def test_rounding_to_sixteen_bits():
    x = np.array([1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20, -0.0, 3e38], np.float32)
    found = widened(rounded(x))
    np.testing.assert_array_equal(found[:4], np.float32([1, 1 + 2**-6, 1 + 2**-7, -0.0]))
    assert abs(found[4] / x[4] - 1) < 2**-8
    y = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    assert (abs(widened(rounded(y)) - y) <= 2**-8 * abs(y)).all()
