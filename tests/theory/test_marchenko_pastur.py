import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from hopfed.theory import marchenko_pastur as mp

aspects = st.floats(1e-6, 1e6)
variances = st.floats(1e-6, 1e6)
NODES = np.polynomial.legendre.leggauss(600)

# Five terms of up to 1 / (pi rho), rounded; those of rho below 1/8 are summed as a series.
ROUNDING = 5 * 8 * 2.2e-16

# cdf at lower + (0.1, 0.5, 0.9) (upper - lower), and the median of the part off zero.
REFERENCE = {
    0.1: (0.09621734554318429, 0.6291642114001258, 0.9685792877527585, 0.9665651474028224),
    0.5: (0.2286536192313347, 0.7542448820632494, 0.9810303863862778, 0.8304658815813636),
    1.0: (0.3958186964094079, 0.8183098861837907, 0.986153167011141, 0.6527759416335704),
    2.0: (0.6143268096156674, 0.8771224410316247, 0.9905151931931389, 1.660931763162727),
    5.0: (0.825597885193874, 0.9352643195629434, 0.9947606149479352, 4.6645773830022),
}


def integrate(q, variance, upper_angle, function):
    """Gauss-Legendre integral of function(x) pdf(x) from the lower edge, in the angle."""
    nodes, weights = NODES
    tau = upper_angle / 2 * (nodes + 1)
    x = variance * ((1 - np.sqrt(q)) ** 2 + 4 * np.sqrt(q) * np.sin(tau / 2) ** 2)
    jacobian = 2 * np.sqrt(q) * variance * np.sin(tau)
    return upper_angle / 2 * np.sum(weights * function(x) * mp.pdf(x, q, variance) * jacobian)


@pytest.mark.parametrize("q", REFERENCE)
def test_reference_values(q):
    lower, upper = mp.edges(q)
    x = lower + np.array([0.1, 0.5, 0.9]) * (upper - lower)
    np.testing.assert_allclose(mp.cdf(x, q), REFERENCE[q][:3], rtol=0, atol=ROUNDING)
    np.testing.assert_allclose(mp.median_nonzero(q), REFERENCE[q][3], rtol=1e-13)


@given(
    q=st.one_of(st.floats(1e-3, 0.8), st.just(1.0), st.floats(1.25, 1e3)),
    variance=st.floats(0.01, 100),
    angle=st.floats(0.01, np.pi),
)
def test_cdf_is_the_integral_of_the_density(q, variance, angle):
    x = variance * ((1 - np.sqrt(q)) ** 2 + 4 * np.sqrt(q) * np.sin(angle / 2) ** 2)
    expected = mp.atom(q) + integrate(q, variance, angle, np.ones_like)
    np.testing.assert_allclose(mp.cdf(x, q, variance), expected, rtol=0, atol=1e-12)


@given(q=st.floats(1e-6, 1e3), variance=variances, u=st.floats(1e-9, 1 - 1e-9))
@example(q=592.0625, variance=1.0, u=0.56990557477912)  # a last step out of its bracket by an ulp
def test_quantile_inverts_cdf(q, variance, u):
    lower, upper = mp.edges(q, variance)
    x = lower + u * (upper - lower)
    p = mp.cdf(x, q, variance)
    assume(p < 1)  # of a tail below the rounding of 1
    # Where the density is d, what the cdf is off by moves x by that over d.
    slack = 1e-10 * variance + ROUNDING / mp.pdf(x, q, variance)
    np.testing.assert_allclose(mp.quantile(p, q, variance), x, rtol=1e-10, atol=slack)


@given(q=aspects)
def test_cdf_rises_from_the_atom_to_one(q):
    lower, upper = mp.edges(q)
    p = mp.cdf(np.linspace(lower, upper, 500), q)
    assert p[0] == pytest.approx(mp.atom(q), abs=1e-12)
    assert p[-1] == pytest.approx(1, abs=ROUNDING)
    assert np.diff(p).min() > -ROUNDING
    assert mp.cdf(-1e-9, q) == 0
    assert mp.cdf(2 * upper, q) == 1


@given(q=st.floats(1e-3, 1e3), variance=st.floats(0.1, 10), k=st.integers(0, 6))
def test_moments_are_integrals(q, variance, k):
    if 0.8 < q < 1.25:
        q = 1.0  # near 1 the quadrature, not the moment, is inexact
    integral = integrate(q, variance, np.pi, lambda x: x**k)
    if k == 0:
        integral += mp.atom(q)
    np.testing.assert_allclose(mp.moment(k, q, variance), integral, rtol=1e-11)


@given(q=st.floats(1e-2, 1e2), re=st.floats(-20, 20), im=st.floats(1e-6, 20))
def test_stieltjes_solves_its_equation_in_the_upper_half_plane(q, re, im):
    z = complex(re, im)
    m = mp.stieltjes(z, q, 2.0)
    terms = np.array([q * 2.0 * z * m * m, (z - 2.0 * (1 - q)) * m, 1.0])
    assert abs(terms.sum()) < 1e-12 * np.abs(terms).sum()
    assert m.imag > 0
    assert mp.stieltjes(np.conj(z), q, 2.0) == pytest.approx(np.conj(m), rel=1e-12)
