"""What all laws share: the ends of the line, shapes that do not fit, one value of each kind."""

import numpy as np
import pytest

from hopfed.errors import ArgumentError
from hopfed.theory import covariance, density, marchenko_pastur, planning, spikes, storage
from hopfed.theory import tracy_widom as tw

ENDS = np.array([-np.inf, np.inf])


def test_a_distribution_is_0_and_1_at_the_ends_of_the_line():
    law = covariance.Population([1.0, 3.0])
    for found in (
        tw.cdf(ENDS), tw.cdf(ENDS, 2), 1 - tw.sf(ENDS), marchenko_pastur.cdf(ENDS, 0.5),
        marchenko_pastur.cdf(ENDS, 2.0, 3.0), density.cdf(ENDS, law, 0.5),
        density.cdf(ENDS, law, 0.5, 0.3),
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
