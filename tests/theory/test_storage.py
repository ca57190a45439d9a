import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopfed.theory import storage, storage_thermal

CAPACITY = {
    0: 0.137905566494931738,
    0.01: 0.140593,
    0.1: 0.165140,
    0.25: 0.206532,
    0.5: 0.273104,
    1: 0.386596,
    2: 0.540440,
    5: 0.747361,
    10: 0.869653,
    20: 0.954654,
}
MAGNETISATION = {0.05: 0.9999922281, 0.10: 0.9979992663, 0.13: 0.9872118908, 0.137: 0.9754441294}
DREAMT = {
    (0.30, 1): 0.99875,
    (0.34, 1): 0.99643,
    (0.37, 1): 0.99170,
    (0.8, 10): 0.99978,
    (0.84, 10): 0.99910,
}
LINE = {0.01: 0.801018, 0.05: 0.542255, 0.1: 0.315432, 0.12: 0.215087}


def test_capacities():
    np.testing.assert_allclose(storage.capacity(list(CAPACITY)), list(CAPACITY.values()), atol=6e-7)
    # A maximum, of a dozen roundings; it is flat, so its place has half of the digits.
    assert storage.capacity() == pytest.approx(0.137905566494931738, rel=1e-13)
    assert storage.critical_magnetisation() == pytest.approx(0.967417115685291592, rel=1e-8)


def test_magnetisations():
    np.testing.assert_allclose(
        storage.magnetisation(list(MAGNETISATION)), list(MAGNETISATION.values()), atol=6e-11
    )
    for (alpha, t), m in DREAMT.items():
        assert storage.magnetisation(alpha, t) == pytest.approx(m, abs=6e-6)


@given(fraction=st.floats(0.05, 0.98), t=st.just(0.0) | st.floats(0.01, 20))
def test_magnetisation_solves_the_saddle_point_equations(fraction, t):
    # The five equations themselves, from which the explicit form was reduced, with s unknown.
    from scipy.optimize import brentq
    from scipy.special import erfinv

    alpha = fraction * storage.capacity(t)
    m = storage.magnetisation(alpha, t)
    if m > 1 - 1e-12:
        return  # erfinv has no digits left
    y = erfinv(m)

    def residuals(s):
        M = np.sqrt(2) * s * y
        D = m / M - t
        p = np.exp(-(y**2)) / (np.sqrt(2 * np.pi) * s)
        u = 1 / (1 - (2 * p - t) / D)
        size = M * m + s * np.sqrt(2 / np.pi) * np.exp(-(y**2))
        q = (1 - 2 * t * size + t**2 * (M**2 + s**2)) / D**2
        return D - 1 - alpha * t * u, (s**2 - alpha * q * u**2) / s**2

    top = m / (np.sqrt(2) * y) / (1 + t)
    trial = top * np.linspace(0.3, 1 + 1e-9, 200)
    first = np.array([residuals(s)[0] for s in trial])
    crossings = np.flatnonzero(np.sign(first[:-1]) != np.sign(first[1:]))
    roots = [brentq(lambda s: residuals(s)[0], *trial[[k, k + 1]], xtol=1e-15) for k in crossings]
    assert min(abs(residuals(s)[1]) for s in roots) < 1e-5


def test_thermal_reference_values():
    found = storage_thermal.thermal_capacity(list(LINE.values()))
    np.testing.assert_allclose(found, list(LINE), atol=2e-6)
