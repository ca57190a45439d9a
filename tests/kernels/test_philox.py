import numpy as np
import pytest
from numba import njit

from hopfed.errors import ArgumentError
from hopfed.kernels.philox import philox4x32, split_seed, threshold_table

# The known-answer vectors of Random123: counter, key, output.
KNOWN = [
    ("00000000 " * 4, "00000000 " * 2, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff " * 4, "ffffffff " * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    (
        "243f6a88 85a308d3 13198a2e 03707344",
        "a4093822 299f31d0",
        "d16cfe09 94fdcceb 5001e420 24126ea1",
    ),
]


def words(text):
    return [np.uint64(int(w, 16)) for w in text.split()]


@pytest.mark.parametrize("function", [philox4x32, njit(philox4x32)], ids=["numpy", "numba"])
@pytest.mark.parametrize(("counter", "seed", "wanted"), KNOWN)
def test_known_answers(function, counter, seed, wanted):
    assert list(function(*words(counter), *words(seed))) == words(wanted)


def test_thresholds_are_those_of_the_update_rule():
    v = (2 * np.arange(65536) + 1) / 65536 - 1
    h = np.linspace(-4, 4, 81, dtype=np.float32)
    for noise in (0.0, 0.3, 1.0, 1.7):
        up = h[:, None] >= threshold_table(noise)
        wanted = np.tanh(h.astype(float))[:, None] - noise * v
        sure = np.abs(wanted) > 1e-6
        np.testing.assert_array_equal(up[sure], wanted[sure] > 0)
    share = (h[:, None] >= threshold_table()).mean(axis=1)
    np.testing.assert_allclose(share, (1 + np.tanh(h)) / 2, atol=2**-16)
    assert (threshold_table(0.0) == 0).all()


@pytest.mark.parametrize("seed", [-1, 2**64, 1.5, "1", True])
def test_seeds_out_of_range(seed):
    with pytest.raises(ArgumentError, match="seed must be"):
        split_seed(seed)
