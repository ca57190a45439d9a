"""Streams of examples: a draw depends on its name alone."""

import numpy as np
import pytest

from hopfed.errors import ArgumentError
from hopfed.hopfield.channel import rademacher
from hopfed.hopfield.stream import ArchetypeStream

K, N, T, L = 4, 30, 3, 2
XI = rademacher(K, N, np.random.default_rng(0))


def federation(sizes=20, qualities=0.8, seed=5, mixtures=None):
    if mixtures is None:
        mixtures = np.random.default_rng(seed).dirichlet(np.ones(K), (T, L))
    return ArchetypeStream(XI, mixtures, sizes, qualities, seed)


def test_the_order_of_calls_and_the_number_of_clients_change_nothing():
    data = federation()
    cells = [(t, c) for t in range(T) for c in range(L)]
    forward = {cell: data.examples(*cell) for cell in cells}
    data.labels(0, 0)
    for cell in reversed(cells):
        np.testing.assert_array_equal(data.examples(*cell), forward[cell])
    fewer = federation(mixtures=data.mixtures[:2, :1])
    np.testing.assert_array_equal(fewer.examples(np.int32(1), np.int64(0)), forward[1, 0])


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: federation().examples(T, 0), "round must be in 0 .. 2, got 3"),
        (lambda: federation(qualities=1.2), "qualities must be a number in [0, 1]"),
        (lambda: federation(mixtures=np.ones((T, L, K))), "mixtures must be rows of shares"),
    ],
)
def test_bad_input_is_named_in_one_line(build, message):
    with pytest.raises(ArgumentError) as error:
        build()
    assert message in str(error.value)


def test_exposures_and_qualities_are_those_of_the_draw():
    data = federation(sizes=np.array([[10, 30], [0, 5], [0, 0]]))
    counts = sum(np.bincount(data.labels(0, c), minlength=K) for c in range(L))
    np.testing.assert_allclose(data.pooled_exposures(0), counts / 40, rtol=1e-12)
    np.testing.assert_array_equal(data.pooled_exposures(2), 0)
    assert data.examples(2, 0).shape == (0, N)
    data = federation(sizes=2_000, qualities=(0.9, 0.0))
    for c, r in enumerate(data.qualities):
        agree = (data.examples(0, c) * XI[data.labels(0, c)]).mean()
        assert abs(agree - r) < 5 * np.sqrt((1 - r**2) / (2_000 * N))
