"""Frames and mappings with odd indices and types: nothing is lost, and no error is a traceback."""

import types

import numpy as np
import pytest

import hopfed
from hopfed.errors import DataError
from hopfed.hopfield.channel import small_sample
from hopfed.kernels import unpack
from hopfed.tables.examples import as_examples

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


def test_stacked_owners_are_not_taken_for_images():
    """Three owners of 200 rows each were three rows of 40,000 columns."""
    rows = small_sample()[1][:600]
    stacked = np.stack([rows[:200], rows[200:400], rows[400:]])
    message = r"a table is \(M, N\), got \(3, 200, 200\); give a list of tables for several owners"
    for read in (hopfed.recover, as_examples):
        with pytest.raises(DataError, match=message):
            read(stacked)
    assert len(hopfed.recover(list(stacked), seed=1)) == 3


@pytest.mark.parametrize("kind", ["float32", "bfloat16", "float16", "int8", "bool"])
def test_tensors_of_every_kind_are_read(kind):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    rows = np.random.default_rng(0).integers(0, 2, (6, 5))
    tensor = torch.tensor(rows).to(getattr(torch, kind))
    if kind == "float32":
        tensor.requires_grad_()
    for read in (as_examples, lambda x: hopfed.read_table(x).rows):
        np.testing.assert_array_equal(unpack(read(tensor)) > 0, rows > 0)


def test_a_sparse_tensor_is_one_line():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    for read in (as_examples, hopfed.read_table):
        with pytest.raises(DataError, match="a dense tensor is needed"):
            read(torch.eye(3).to_sparse())
