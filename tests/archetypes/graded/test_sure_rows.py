"""Sums over classes and likelihoods beside them, by the classes that rows may be of."""

import numpy as np
import pytest
from graded_tables import classes

from hopfed.archetypes import class_questions
from hopfed.archetypes.judging import residual_edge
from hopfed.archetypes.session import Owner, Session
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


@pytest.mark.parametrize("N", [6, 120])  # rows that are unsure, and sure
def test_ratios_of_likelihoods_are_those_of_all_classes(N):
    T, _, x = classes(4, N, 80, 3, missing=0.2)
    owner = Owner(pack_masked(x))
    owner.learn(T, np.full(4, 0.25))
    rng = np.random.default_rng(0)
    by_sign, by_seen = rng.normal(0, 0.1, (2, 3, 4, N))
    constant = rng.normal(size=(3, 4))
    found = class_questions.mixed_ratios(owner, by_sign, by_seen, constant)
    for s in range(3):
        logs = x @ by_sign[s].T + (x != 0) @ by_seen[s].T + constant[s]
        want = (owner.posterior * np.exp(np.minimum(logs, class_questions.HIGHEST))).sum(axis=1)
        np.testing.assert_allclose(found[:, s], want, rtol=1e-4)
    parts = [class_questions.mixed_ratios(owner, by_sign, by_seen, constant, [k]) for k in range(4)]
    # Exponents are sums in float32 of sizes that add up to 20: 20 x 1.2e-7, in either order.
    np.testing.assert_allclose(sum(parts), found, rtol=5e-6)


@pytest.mark.parametrize("kept", [0, 1 << 25])
def test_residuals_are_the_same_kept_or_made_anew_in_any_blocks(monkeypatch, kept):
    T, _, x = classes(3, 50, 90, 4, missing=0.2)
    owners = Session.of([pack_masked(x[:40]), pack_masked(x[40:])], 0)
    for member in owners.members:
        member.learn(T, np.full(3, 1 / 3))
    whole = residual_edge(owners, 2)
    assert owners.exchanges == 21
    monkeypatch.setattr(class_questions, "KEPT", kept)
    monkeypatch.setattr(class_questions, "BLOCK", 7 * 50)
    for one, other in zip(whole, residual_edge(owners, 2), strict=True):
        np.testing.assert_allclose(np.abs(one), np.abs(other), rtol=1e-3, atol=1e-4)
