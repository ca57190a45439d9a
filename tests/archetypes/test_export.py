"""Archetypes for other programs: what is exported is what is known, and nothing that is not."""

from dataclasses import replace

import numpy as np
import pytest

import hopfed
from hopfed.archetypes.export import errors_of, report_of
from hopfed.data.channel import draw_examples, rademacher


@pytest.fixture(scope="module")
def found():
    """Archetypes of one rate for all columns, of rows with gaps."""
    rng = np.random.default_rng(0)
    xi = rademacher(3, 60, rng)
    x = draw_examples(xi, 900, 0.7, rng)[0].astype(float)
    x[rng.random(x.shape) < 0.1] = np.nan
    return hopfed.recover(x, seed=0)


def test_the_one_rate_has_its_error_in_every_column(found):
    assert found.channel == "symmetric"
    errors = np.array(report_of(found)["errors"])
    least = np.sqrt((1 - 0.7**2) / (900 * 60))  # of a share of all entries, in units of a mean
    assert least < errors.min() < 5 * least
    assert abs(found.quality - 0.7) < 4 * errors.min()


def test_where_no_error_is_known_none_is_exported(found):
    by_column = replace(found, channel="by column", errors=np.zeros_like(found.means))
    assert np.isnan(errors_of(by_column)).all()
    assert report_of(by_column)["errors"][0][0] is None
