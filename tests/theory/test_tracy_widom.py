from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopfed.theory import tracy_widom as tw

# 200-bit ball arithmetic, two quadratures agreeing to 18 digits.
MOMENTS = {
    1: (-1.20653357458202481, 1.60778103458136112, 0.293464524086523303, 0.165242938455559607),
    2: (-1.77108680741160163, 0.813194792832957845, 0.224084203610730313, 0.0934480876609831407),
}
QUANTILES = {
    0.001: -4.65419824442179395,
    0.01: -3.89543267306422130,
    0.05: -3.18037997693772401,
    0.10: -2.78242790569529428,
    0.50: -1.26857461658107111,
    0.90: 0.450143289058251088,
    0.95: 0.979316053469554568,
    0.99: 2.02344928138016270,
    0.999: 3.27219605900209007,
}
CDF = {
    -8: 1.80682792118541665e-12,
    -5: 2.77917754916790370e-4,
    -2: 0.274320197909217858,
    -1: 0.583789895519732283,
    0: 0.831908066202951927,
    2: 0.989597571084826992,
    4: 0.999779655512567001,
}
SF = {
    0: 0.168091933797048073,
    2: 0.0104024289151730079,
    4: 2.20344487432998648e-4,
    5: 2.28715180443204378e-5,
    6: 1.94081407264621710e-6,
}
PDF = {-2: 0.281388430902672826, 0: 0.181419571221334743, 2: 0.0174700541976750040}

# The log of a tail is a sum of some 20 terms, together about its own size L: the tail is known to
# 20 eps L, relative to it. L is up to 27 in the tables, and L exp(-L) is below 1.
RELATIVE, ABSOLUTE = 20 * 2.2e-16 * 27, 20 * 2.2e-16

betas = st.sampled_from([1, 2])


def test_reference_values():
    def compare(function, table):
        np.testing.assert_allclose(function(list(table)), list(table.values()), rtol=RELATIVE)

    compare(tw.cdf, CDF)
    compare(tw.sf, SF)
    compare(tw.pdf, PDF)
    compare(tw.quantile, QUANTILES)
    compare(partial(tw.cdf, beta=2), {-2: 0.413224142505122555, 0: 0.969372828355262668})
    assert tw.isf(1e-4) == pytest.approx(4.35942034391388143, rel=RELATIVE)


@pytest.mark.parametrize("beta", [1, 2])
def test_moments(beta):
    np.testing.assert_allclose(tw.moments(beta), MOMENTS[beta], rtol=1e-12)


@pytest.mark.parametrize("x", [16.0, 20.0, 24.0])
def test_left_tail_has_the_known_expansion(x):
    # Baik, Buckingham, DiFranco, Comm. Math. Phys. 280 (2008) 463, with zeta'(-1) in the constant;
    # the neglected terms are of relative order x^-6 (beta 2) and x^-3/2 (beta 1).
    zeta = -0.165421143700450929
    log_two = -(x**3) / 12 - np.log(x) / 8 + np.log(2) / 24 + zeta + 3 / (64 * x**3)
    log_one = -(x**3) / 24 - x**1.5 / (3 * np.sqrt(2)) - np.log(x) / 16
    log_one += -11 / 48 * np.log(2) + zeta / 2
    if x < 20:
        assert np.log(tw.cdf(-x, 2)) == pytest.approx(log_two, abs=3 / x**6)
    assert np.log(tw.cdf(-x, 1)) == pytest.approx(log_one, abs=0.1 / x**1.5)


@given(s=st.floats(-24, 10))
def test_densities_solve_painleve_two(s):
    # With q the Hastings-McLeod solution, q = (log F2 - 2 log F1)' and q'' = s q + 2 q^3: ties
    # the two laws, and both tails, to an equation that no coefficient was computed from.
    def hastings_mcleod(at):
        with np.errstate(under="ignore"):
            one = tw._log_tail(at, 1)
            two = tw._log_tail(at, 2)
        slope = []
        for log_tail, derivative in (one, two):
            right = -derivative * np.exp(log_tail) / -np.expm1(log_tail)
            slope.append(np.where(at < -2, derivative, right))
        return slope[1] - 2 * slope[0]

    # q'' by Chebyshev differentiation over a short interval.
    nodes = np.cos(np.pi * (np.arange(16) + 0.5) / 16)
    series = np.polynomial.chebyshev.Chebyshev.fit(nodes, hastings_mcleod(s + 0.5 * nodes), 13)
    q, second = series(0.0), series.deriv(2)(0.0) / 0.25
    assert second == pytest.approx(s * q + 2 * q**3, abs=1e-6 * (1 + abs(s) ** 1.5))


@given(s=st.floats(-20, 60), beta=betas)
def test_quantile_and_isf_invert(s, beta):
    lower, upper = tw.cdf(s, beta), tw.sf(s, beta)
    if 0 < lower < 0.7:
        assert tw.quantile(lower, beta) == pytest.approx(s, abs=1e-10)
    if 0 < upper < 0.7:
        assert tw.isf(upper, beta) == pytest.approx(s, abs=1e-10)


@pytest.mark.parametrize(("M", "N", "seed"), [(100, 25, 0), (40, 120, 1)], ids=["tall", "wide"])
def test_scaled_wishart_eigenvalues_follow_the_law(M, N, seed):
    rng = np.random.default_rng(seed)
    draws = 4000
    X = rng.standard_normal((draws, M, N))
    gram = X @ X.transpose(0, 2, 1) if M < N else X.transpose(0, 2, 1) @ X
    top = np.linalg.eigvalsh(gram)[:, -1]
    centre, scale = tw.wishart_scaling(M, N)
    for level in (0.1, 0.05, 0.01):
        size = np.mean(top > centre + scale * tw.isf(level))
        # Published and measured sizes of Ma's scaling are within a tenth of nominal.
        assert size == pytest.approx(level, abs=4 * np.sqrt(level / draws) + 0.1 * level)
