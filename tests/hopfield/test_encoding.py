"""Operators and patterns as messages."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hopfed import kernels
from hopfed.federation.messages import malformed
from hopfed.hopfield.channel import rademacher
from hopfed.hopfield.encoding import decode, encode, operator_spec, pack_patterns, unpack_patterns


@given(st.integers(1, 30), st.integers(2, 40), st.integers(0, 99))
def test_counts_are_exact(M, N, seed):
    x = np.sign(np.random.default_rng(seed).standard_normal((M, N))).astype(np.int8)
    message = encode(kernels.pack(x))
    assert malformed(message, operator_spec(N)) is None
    decoded = decode(message, N)
    np.testing.assert_array_equal(decoded.matrix, x.T.astype(int) @ x)
    assert decoded.mass == decoded.sum_sq_weights == M


@given(st.integers(0, 5), st.integers(1, 40))
def test_patterns_survive_packing(K, N):
    x = rademacher(K, N, np.random.default_rng(N))
    packed = pack_patterns(x)
    assert packed.nbytes == K * -(-N // 8)
    np.testing.assert_array_equal(unpack_patterns(packed, N), x)
