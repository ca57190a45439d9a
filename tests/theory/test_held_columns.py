"""Edge of the noise of owners who hold different columns, against draws."""

import numpy as np
import pytest

from hopfed.theory.held_columns import factors, upper_edge
from hopfed.theory.tracy_widom import wishart_scaling

THIRDS = 1.0 - np.eye(3)


def test_one_kind_of_column_has_the_edge_of_white_noise():
    for q in (0.1, 1.0, 4.0):
        assert upper_edge(np.ones((1, 1)), np.ones(1), [q]) == pytest.approx((1 + q**0.5) ** 2)
        two = upper_edge(np.ones((3, 2)), np.full(3, 1 / 3), [q / 4, 3 * q / 4])
        assert two == pytest.approx((1 + q**0.5) ** 2)


def test_factors_leave_what_gaps_at_random_would_have_left():
    rows, held = np.array([0.5, 0.3, 0.2]), np.array([[1, 1, 0], [1, 0, 1], [1, 1, 1]])
    f = factors(held, rows)
    assert f[0].tolist() == [1, 1, 1]  # all hold the first
    assert f[1, 2] == pytest.approx(0.7 * 0.5 / 0.2)
    assert f[1, 1] == pytest.approx(0.7)


@pytest.mark.parametrize(
    ("held", "sizes", "rows"),
    [
        (THIRDS, [80, 80, 80], [300, 300, 300]),
        (THIRDS, [120, 60, 60], [60, 120, 90]),
        (np.c_[THIRDS, np.ones(3)], [60, 60, 60, 60], [300, 200, 100]),
        (np.array([[1, 1, 0, 0], [1, 0, 1, 0], [1, 0, 0, 1]]), [60] * 4, [200] * 3),
    ],
)
def test_the_edge_is_that_of_draws(held, sizes, rows):
    rng, label, M = np.random.default_rng(0), np.repeat(np.arange(len(sizes)), sizes), sum(rows)
    shares = np.array(rows) / M
    there = np.repeat(held, rows, axis=0)[:, label] / np.sqrt((shares @ held)[label])
    f, tops = factors(held, shares)[np.ix_(label, label)], []
    for _ in range(12):
        x = there * np.where(rng.random(there.shape) < 0.5, 1, -1)
        C = x.T @ x / M
        tops.append(np.linalg.eigvalsh(C * f + np.diag(np.diag(C) * (1 - np.diag(f))))[-1])
    edge = upper_edge(held, shares, np.array(sizes) / M)
    width = wishart_scaling(M, sum(sizes))[1] / M  # the top lies 1.2 widths below, on average
    assert edge - 3 * width < np.mean(tops) < edge + 0.5 * width
    assert np.max(tops) < edge + 4 * width
