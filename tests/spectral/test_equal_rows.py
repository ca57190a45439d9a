"""Rows that are equal get equal numbers, in whatever form they are; others do not."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hopfed.kernels import pack, pack_masked
from hopfed.spectral.equal_rows import equals, row_marks


@given(st.integers(0, 10**6), st.integers(1, 40), st.integers(1, 200), st.booleans())
def test_rows_share_a_number_where_they_are_equal_and_only_there(seed, M, N, gaps):
    rng = np.random.default_rng(seed)
    kinds = rng.choice([-1, 0, 1] if gaps else [-1, 1], (max(M // 2, 1), N)).astype(np.int8)
    x = kinds[rng.integers(len(kinds), size=M)]
    x[0, rng.integers(N)] *= -1  # one entry makes another row
    rows = pack_masked(x, x == 0) if gaps else pack(x)
    marks = row_marks(rows)
    equal = (x[:, None] == x[None]).all(axis=2)
    np.testing.assert_array_equal(marks[:, None] == marks[None], equal)
    expected = np.unique(x, axis=0, return_counts=True)[1]
    assert equals(rows).tolist() == [(expected - 1).sum(), (expected == 1).sum()]
