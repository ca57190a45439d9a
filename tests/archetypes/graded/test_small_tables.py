"""A small table as numbers says what its bits say."""

import numpy as np
import pytest

from hopfed import kernels
from hopfed.archetypes import session as asking
from hopfed.archetypes.class_questions import (
    ratios,
    repeated,
    residual_product,
    residual_products,
    residual_squares,
    sums_and_pairs,
)
from hopfed.archetypes.session import Owner, Variables

K, M, N = 4, 90, 33


def owners(monkeypatch, gaps):
    """The same rows as numbers and as bits, which have learned the same classes."""
    rng = np.random.default_rng(3)
    x = rng.choice([-1, 1], (M, N))
    x = np.where(rng.random((M, N)) < 0.2, 0, x) if gaps else x
    variables = Variables.of([(0, 1, 2), (5, 6)], N)
    means, shares = rng.uniform(-0.9, 0.9, (K, N)), rng.dirichlet(np.ones(K))
    found = []
    for most in (asking.SMALL, 0):
        monkeypatch.setattr(asking, "SMALL", most)
        found.append(Owner(kernels.pack_masked(x), 0, variables))
        assert (found[-1].dense is not None) == (most > 0)
        answer = sums_and_pairs(found[-1], {"means": means, "shares": shares})
        found.append(answer)
    return found


@pytest.mark.parametrize("gaps", [False, True])
def test_sums_over_classes(monkeypatch, gaps):
    held, numbers, packed, bits = owners(monkeypatch, gaps)
    assert numbers.keys() == bits.keys()
    for name, wanted in bits.items():
        assert numbers[name].shape == wanted.shape
        assert numbers[name].dtype == wanted.dtype
        np.testing.assert_allclose(numbers[name], wanted, rtol=2e-5, atol=2e-4)
    np.testing.assert_allclose(held.posterior, packed.posterior, atol=1e-5)
    np.testing.assert_allclose(held.weights, packed.weights, atol=1e-5)
    np.testing.assert_allclose(held.log_densities, packed.log_densities, rtol=1e-5)


@pytest.mark.parametrize("gaps", [False, True])
def test_ratios_and_products(monkeypatch, gaps):
    held, _, packed, _ = owners(monkeypatch, gaps)
    rng = np.random.default_rng(4)
    asked = rng.uniform(-0.9, 0.9, (3, K, N)), rng.normal(0, 1, (3, K))
    found, wanted = (ratios(o, *asked) for o in (held, packed))
    np.testing.assert_allclose(found, wanted, rtol=1e-4)
    w = rng.normal(size=(K, N)).astype(np.float32)
    for question in (residual_products, residual_squares, residual_product, repeated):
        told = {"directions": w, "vector": w[0]}
        found, wanted = (question(o, told) for o in (held, packed))
        for name, array in wanted.items():
            np.testing.assert_allclose(found[name], array, rtol=1e-3, atol=1e-2, err_msg=name)
