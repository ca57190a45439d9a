import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopfed.errors import ArgumentError
from hopfed.memory.rules import dream

times = st.floats(0, 1e6)
values = st.lists(st.floats(0, 10), min_size=1, max_size=20).map(np.array)


@given(values, times)
def test_dream_is_monotone_in_the_eigenvalue_and_keeps_zero_and_one(lam, t):
    out = dream(np.sort(lam), t)
    assert (np.diff(out) >= -1e-12).all()
    np.testing.assert_allclose(dream(np.array([0.0, 1.0]), t), [0, 1], rtol=1e-12)


@given(st.floats(0, 5), st.floats(0, 100), st.floats(0, 100))
def test_dreaming_times_compose(lam, s, t):
    # (1 + t) multiplies: the flow is logistic in log(1 + t).
    once = dream(np.array([lam]), (1 + s) * (1 + t) - 1)
    np.testing.assert_allclose(dream(dream(np.array([lam]), s), t), once, rtol=1e-9, atol=1e-300)


def test_dream_at_the_ends():
    lam = np.array([0.0, 0.3, 2.0])
    np.testing.assert_array_equal(dream(lam, 0), lam)
    np.testing.assert_array_equal(dream(lam, np.inf), [0, 1, 1])
    np.testing.assert_allclose(dream(lam, 1e12), [0, 1, 1], atol=1e-11)


@pytest.mark.parametrize(("eps", "tolerance"), [(0.02, 8e-3), (0.01, 4e-3), (0.0025, 1e-3)])
def test_iteration_agrees_with_the_closed_form_to_order_eps(eps, tolerance):
    rng = np.random.default_rng(0)
    xi = rng.choice([-1.0, 1.0], size=(4, 60))
    J = xi.T @ xi / 60
    lam, V = np.linalg.eigh(J)
    closed = (V * dream(np.maximum(lam, 0), 2.0)) @ V.T
    for n in range(round(2 / eps)):
        J = J + eps / (1 + eps * n) * (J - J @ J)
    assert np.abs(J - closed).max() < tolerance


def test_long_dreams_reach_the_projector():
    rng = np.random.default_rng(1)
    xi = rng.choice([-1.0, 1.0], size=(3, 40))
    V = np.linalg.qr(xi.T)[0]
    lam, U = np.linalg.eigh(xi.T @ xi / 40)
    lam = np.where(lam < 1e-9, 0, lam)
    np.testing.assert_allclose((U * dream(lam, 1e9)) @ U.T, V @ V.T, atol=1e-7)


def test_bad_arguments_name_themselves():
    with pytest.raises(ArgumentError, match="t must be a dreaming time"):
        dream(np.ones(2), -1.0)
