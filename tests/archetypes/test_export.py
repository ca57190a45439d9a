"""Archetypes for other programs: what is exported is what is known, and nothing that is not."""

from dataclasses import replace

import numpy as np
import pytest

import hopfed
from hopfed.archetypes.storage import report_of
from hopfed.hopfield.channel import draw_examples, rademacher


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


def test_the_errors_of_rates_by_column_are_those_of_their_columns():
    """A pattern is known for sure from 300 rows; how often rows agree with it is not."""
    rng = np.random.default_rng(0)
    xi, r = rademacher(3, 60, rng), rng.uniform(0.5, 0.95, 60)
    kinds = rng.integers(3, size=900)
    x = xi[kinds] * np.where(rng.random((900, 60)) < (1 + r) / 2, 1, -1)
    found = hopfed.recover(x, seed=0, channel="graded")
    assert found.channel == "by column"
    truth = r * xi[np.abs(found.means @ xi.T).argmax(axis=1)]
    off = (found.means - truth)[0] / found.errors[0]  # the rates are those of all three
    assert 0.7 < np.sqrt((off**2).mean()) < 1.4


def test_where_no_error_is_known_none_is_exported(found):
    by_column = replace(found, channel="by column", own_errors=np.zeros_like(found.means))
    assert np.isnan(by_column.errors).all()
    assert report_of(by_column)["errors"][0][0] is None
