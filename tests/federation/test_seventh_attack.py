"""What a seventh attack on clients, servers and files found; each test fails on the code before."""

import numpy as np

from hopfed import kernels
from hopfed.hopfield.apart import lines_apart, set_apart
from hopfed.kernels import PackedBits


def test_a_row_among_many_millions_is_counted():
    """Sums in single precision lost one row of 33 million, which an exact table holds."""
    M = 2**25 + 2
    few = kernels.pack(np.array([[1, 1, 1], [1, -1, 1]])).words
    words = np.repeat(few[:1], M, axis=0)
    words[M // 2] = few[1]
    rows = PackedBits(words, 3)
    assert set_apart(rows, 3) == [(1,), (0, 1), (1, 2)]


def test_votes_are_looked_at_in_either_precision(monkeypatch):
    rows = kernels.pack(np.random.default_rng(0).choice([-1, 1], (200, 12)))
    votes = np.where(np.arange(200) < 90, 1.0, 0.0)[:, None]
    cases = [(votes, 2), (votes, 80), (votes[:, :0], 2)]
    single = [lines_apart(rows, *case) for case in cases]
    monkeypatch.setattr("hopfed.hopfield.apart.EXACT", 0)
    assert [lines_apart(rows, *case) for case in cases] == single == [None, 0, None]
