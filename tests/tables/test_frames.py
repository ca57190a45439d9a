"""Frames and mappings with odd indices and types: nothing is lost, and no error is a traceback."""

import types

import numpy as np
import pytest

import hopfed
from hopfed.errors import DataError
from hopfed.kernels import unpack

BITS = [[1, 0, 1], [0, 0, 1], [1, 1, 0], [0, 1, 0], [1, 1, 1], [0, 0, 0]]


def frame(**more):
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    return pd.DataFrame(BITS, columns=list("abc")).assign(**more)


def test_intervals_and_periods_are_words():
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    ages = pd.cut([3, 70, 30, 40, 12, 80], [0, 18, 65, 100])
    found = hopfed.read_table(frame(age=ages))
    assert found.columns[3:] == ("age=(0, 18]", "age=(18, 65]", "age=(65, 100]")
    assert unpack(found.rows)[:3, 3:].tolist() == [[1, -1, -1], [-1, -1, 1], [-1, 1, -1]]
    months = pd.period_range("2024-01", periods=6, freq="M")
    assert hopfed.read_table(frame(id=months)).ids[0] == "2024-01"


def test_categories_of_dates_are_refused_as_dates_are():
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    days = pd.Categorical(pd.date_range("2024", periods=6))
    with pytest.raises(DataError, match="'day' holds dates or times"):
        hopfed.read_table(frame(day=days))


@pytest.mark.parametrize("cells", [1, "yes", np.float64(1), np.array(1), np.ones((2, 2))])
def test_columns_of_a_mapping_are_lists(cells):
    with pytest.raises(DataError, match="column 'tea' must be a list of cells"):
        hopfed.read_table({"tea": cells})


def test_any_mapping_is_one_of_columns():
    given = types.MappingProxyType({"tea": [1, 0], "oak": ["yes", "no"]})
    assert hopfed.read_table(given).columns == ("tea", "oak")
    with pytest.raises(DataError, match="there are no columns"):
        hopfed.read_table({})
