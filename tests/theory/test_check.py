"""What all laws share: the ends of the line, shapes that do not fit, one value of each kind."""

import numpy as np
import pytest

from hopfed.errors import ArgumentError
from hopfed.theory import (
    concentration,
    covariance,
    discrete_gaussian,
    ensembles,
    graded_planning,
    marchenko_pastur,
    planning,
    private,
    profile,
    shrinkage,
    spiked,
    spikes,
    storage,
    study,
    tyler,
)
from hopfed.theory import tracy_widom as tw

ENDS = np.array([-np.inf, np.inf])


def test_a_distribution_is_0_and_1_at_the_ends_of_the_line():
    law = covariance.Population([1.0, 3.0])
    for found in (
        tw.cdf(ENDS), tw.cdf(ENDS, 2), 1 - tw.sf(ENDS), marchenko_pastur.cdf(ENDS, 0.5),
        marchenko_pastur.cdf(ENDS, 2.0, 3.0), covariance.cdf(ENDS, law, 0.5),
        covariance.cdf(ENDS, law, 2.0),
    ):  # fmt: skip
        np.testing.assert_array_equal(found, [0, 1])
    with pytest.raises(ArgumentError, match="s must be a number"):
        tw.cdf(np.nan)


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda x, y: spikes.outlier(x, y), "kappa, q"),
        (lambda x, y: spikes.outlier_sd(x, 0.5, y), "kappa, M"),
        (lambda x, y: planning.margin(0.5, x / 10, 100, y), "exposure, M"),
        (lambda x, y: planning.plan(x / 10, y / 10, 100), "r, exposure"),
        (lambda x, y: marchenko_pastur.quantile(x / 10, y), "p, q"),
        (lambda x, y: storage.magnetisation(x / 10, y), "alpha, t"),
    ],
)
def test_shapes_that_do_not_fit_are_named_in_one_line(call, argument):
    with pytest.raises(ArgumentError, match="of shapes that broadcast, got") as error:
        call(np.array([1.0, 2.0]), np.array([1.0, 2.0, 3.0]))
    assert error.value.argument == argument


def test_the_projector_has_its_line():
    np.testing.assert_array_equal(storage.capacity([0.0, np.inf]).round(3), [0.138, 1.0])
    assert storage.critical_magnetisation(np.inf) == 1
    np.testing.assert_array_equal(storage.magnetisation([0.9, 1.0], np.inf), [1, 0])
    with pytest.raises(ArgumentError, match="t must be a number of at least 0, or inf"):
        storage.capacity(np.nan)


WHITE = covariance.Population.flat()


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: spikes.threshold(0.0), "q"),
        (lambda: spikes.strength(np.inf, 1.0), "eigenvalue"),
        (lambda: spikes.finite_size(np.zeros((2, 4)), [0.5, 0.5], 0.5, 10), "archetypes"),
        (lambda: spikes.finite_size(np.ones((2, 4)), [0.9, 0.9], 0.5, 10), "exposures"),
        (lambda: planning.margin([0.5, np.nan], 0.1, 10, 10), "r"),
        (lambda: planning.plan(0.5, 0.1, 10, power=1.0), "power"),
        (lambda: planning.detection_power(0.5, 0.1, 10, 10, stronger=10), "stronger"),
        (lambda: planning.exposure_needed(0.5, 10, 10.5), "M"),
        (lambda: marchenko_pastur.moment(400, 100.0), "k"),
        (lambda: marchenko_pastur.stieltjes(0.0, 2.0), "z"),
        (lambda: marchenko_pastur.atom("many"), "q"),
        (lambda: tw.quantile(1.0), "p"),
        (lambda: tw.cdf(0.0, 3), "beta"),
        (lambda: covariance.Population([1.0], [-1.0]), "weights"),
        (lambda: covariance.upper_edge(WHITE, [0.5, 1.0]), "q"),
        (lambda: covariance.outlier(3.0, WHITE, 0.5, -1.0), "radius"),
        (lambda: covariance.upper_edge(2.0, 0.5).critical, "population"),
        (lambda: concentration.variance_proxy(0.5, 10, [1.5]), "exposures"),
        (lambda: private.noise_multiplier(1.0, 0.0), "delta"),
        (lambda: private.noise_multiplier(0.0, 1e-5), "epsilon"),
        (lambda: private.noise_radius(1.0, 10, 10, 0.5), "clients"),
        (lambda: private.plan(0.5, 0.1, 10, 1.0, clients=0), "clients"),
        (lambda: profile.profile_spikes([0.5], [[0.8, 0.8]], 10, 10), "exposures"),
        (lambda: profile.profile_edge([], 0.5), "qualities"),
        (lambda: storage.thermal_capacity(1.0), "temperature"),
        (lambda: tyler.tyler(np.zeros((3, 2))), "samples"),
        (lambda: tyler.tyler(np.eye(4), shrinkage=0.0), "shrinkage"),
        (lambda: graded_planning.ClassLaw(rates=(1, 1), r=0.5), "r"),
        (lambda: graded_planning.plan(graded_planning.ClassLaw(r=0.5), 1.0, 10), "exposure"),
        (lambda: study.Study(0.4, [0.5, 0.6], 100), "exposures"),
        (lambda: discrete_gaussian.delta_bound(1.0, 63, 10), "variance"),
        (lambda: discrete_gaussian.least_variance(1e-9, 1e-12, 10), "epsilon"),
        (lambda: ensembles.Wigner(10, 3), "beta"),
        (lambda: spiked.predict([1.0], 20, 40, exposures=[0.5, 0.6]), "exposures"),
        (lambda: shrinkage.shrink([1.0], 5, 5), "singular_values"),
        (lambda: shrinkage.clean([0.0, 1.0], 5), "eigenvalues"),
    ],
)
def test_bad_arguments_are_named(call, argument):
    with pytest.raises(ArgumentError) as raised:
        call()
    assert raised.value.argument == argument
