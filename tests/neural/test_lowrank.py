"""Truncated updates: the singular directions that are kept, and what they cost."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopfed._lib.random import stream
from hopfed.errors import ArgumentError
from hopfed.federation.messages import malformed
from hopfed.neural.lowrank import expanded, form, truncate, truncated


def back(rows, m):
    return rows[:, :m].T @ rows[:, m:]


@given(st.integers(0, 99), st.integers(1, 7), st.integers(1, 7), st.sampled_from([0.3, 0.95, 1.0]))
def test_the_truncation_is_that_of_a_singular_value_decomposition(seed, m, n, energy):
    matrix = stream(seed, "matrix").normal(size=(m, n))
    rows = truncate(matrix, energy)
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    shares = np.cumsum(values**2) / (values**2).sum()
    k = len(rows)
    assert 1 <= k <= min(m, n)
    assert shares[k - 1] >= energy - 1e-9
    assert k == 1 or shares[k - 2] < energy + 1e-9
    np.testing.assert_allclose(back(rows, m), (left[:, :k] * values[:k]) @ right[:k], atol=1e-8)


@pytest.mark.parametrize("matrix", [np.zeros((4, 3)), np.zeros((1, 1)), np.diag([5.0, 1e-9, 0.0])])
def test_one_direction_is_always_kept(matrix):
    rows = truncate(matrix, 0.95)
    assert rows.shape == (1, sum(matrix.shape))
    np.testing.assert_allclose(back(rows, len(matrix)), matrix, atol=1e-8)


def test_a_matrix_that_is_not_finite_stays_visible():
    assert np.isnan(truncate(np.array([[np.inf, 1.0], [0.0, 1.0]]), 0.9)).all()


def test_an_update_and_its_form():
    draws = stream(0, "update")
    update = {
        "kernel": draws.normal(size=(6, 2, 3, 3)).astype(np.float32),
        "bias": draws.normal(size=6).astype(np.float32),
        "seen": np.array(3),
    }
    sent = truncated(update, 0.9)
    assert sent["kernel"].shape[1] == 6 + 18
    assert sent["kernel"].dtype == np.float32
    assert malformed(sent, form(update)) is None
    assert "kernel" in malformed(sent | {"kernel": sent["kernel"][:, 1:]}, form(update))
    found = expanded(sent, update)
    lost = ((found["kernel"] - update["kernel"]) ** 2).sum() / (update["kernel"] ** 2).sum()
    assert 0 < lost <= 0.1
    np.testing.assert_array_equal(found["bias"], update["bias"])
    np.testing.assert_array_equal(found["seen"], update["seen"])


@pytest.mark.parametrize("energy", [0.0, 1.1])
def test_bad_energy(energy):
    with pytest.raises(ArgumentError, match=r"energy must be in \(0, 1\]"):
        truncate(np.eye(2), energy)
