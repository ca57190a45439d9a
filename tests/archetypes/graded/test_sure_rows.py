"""Sums over classes and likelihoods beside them, by the classes that rows may be of."""

import numpy as np
import pytest
from graded_tables import classes

from hopfed.archetypes import class_questions
from hopfed.kernels import pack_masked


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("unsure", [0, 30, 120])
def test_sums_are_those_of_the_products(monkeypatch, missing, unsure):
    monkeypatch.setattr(class_questions, "WORTH", 1)
    _, y, x = classes(5, 70, 150, 0, missing=missing)
    rng = np.random.default_rng(1)
    weights = np.eye(5, dtype=np.float32)[y]
    weights[:unsure] = rng.dirichlet(np.ones(5), unsure)
    weights[140:] = 0  # rows that are left out
    signed, seen = class_questions.sums_over(pack_masked(x), weights)
    np.testing.assert_allclose(signed, weights.T @ x, atol=1e-4)
    np.testing.assert_allclose(seen, weights.T @ (x != 0), atol=1e-4)


def test_counting_sure_rows_is_exact_and_needs_no_product(monkeypatch):
    monkeypatch.setattr(class_questions, "WORTH", 1)
    monkeypatch.setattr(class_questions, "transposed_times", None)  # would fail if it were called
    _, y, x = classes(3, 40, 90, 2, missing=0.2)
    signed, seen = class_questions.sums_over(pack_masked(x), np.eye(3, dtype=np.float32)[y])
    np.testing.assert_array_equal(signed, np.eye(3)[y].T @ x)
    np.testing.assert_array_equal(seen, np.eye(3)[y].T @ (x != 0))
