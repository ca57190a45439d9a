"""Dicts of arrays as bytes, and back."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hopfed.errors import DataError
from hopfed.federation.packing import pack, unpack

KINDS = ("<f4", "<f8", "<i8", "|u1", "|b1", "<c8", "|S7")
ARRAYS = st.sampled_from(KINDS).flatmap(
    lambda kind: hnp.arrays(kind, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0))
)


@given(st.dictionaries(st.text(max_size=5), ARRAYS, max_size=4))
def test_packed_arrays_come_back_as_they_were(arrays):
    got = unpack(pack(arrays))
    assert list(got) == list(arrays)
    for name, array in arrays.items():
        assert got[name].tobytes() == array.tobytes()
        assert (got[name].dtype, got[name].shape) == (array.dtype, array.shape)


@pytest.mark.parametrize("cut", [0, 7, 15, 40, 300, -1])
def test_packed_arrays_that_are_cut_or_foreign_are_refused(cut):
    data = pack({"w": np.zeros(64, np.float32), "x": np.zeros(16, np.float32)})
    with pytest.raises(DataError):
        unpack(data[:cut])
    with pytest.raises(DataError):
        unpack(data[::-1].copy())
    with pytest.raises(DataError, match="cannot be kept"):
        pack({"w": np.array([None])})
