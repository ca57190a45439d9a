"""Where columns of numbers are cut: never so that nothing lies above."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import hopfed
from hopfed.errors import DataError
from hopfed.kernels import unpack
from hopfed.sklearn import ArchetypeMixture


def answers(counts, seed=0):
    """Answers from 1 on, each as often as is said, in any order."""
    held = np.repeat(np.arange(1, len(counts) + 1), counts)
    return np.random.default_rng(seed).permutation(held)


@pytest.mark.parametrize(
    ("counts", "cut"),
    [
        ([5, 5, 10, 20, 160], 4),  # "5" is the median: nothing lay above it
        ([5, 35, 45, 10, 5], 2),  # 60 of 100 lie above 2, and 15 above the median
        ([160, 20, 10, 5, 5], 1),
    ],
)
def test_a_median_halves_the_rows_as_well_as_any_value(counts, cut):
    x = answers(counts)
    table = hopfed.read_table({"a": x, "b": x % 2}, binarize={"a": "median"})
    assert table.coding.codes[0].threshold == cut
    assert (unpack(table.rows)[:, 0] > 0).tolist() == (x > cut).tolist()
    assert not any(line.startswith("the same in every row") for line in table.notes)
    with pytest.warns(ConvergenceWarning, match="too little data"):
        mine = ArchetypeMixture().fit(np.stack([x, x % 2], axis=1))
    assert ((x > mine.thresholds_[0]) == (x > cut)).all()


@pytest.mark.parametrize("counts", [[10, 20, 40, 20, 10], [10, 37, 5, 38, 10], [9, 30, 31, 20, 10]])
def test_a_median_that_halves_nearly_as_well_stays(counts):
    x = answers(counts)
    table = hopfed.read_table({"a": x, "b": x % 2}, binarize={"a": "median"})
    assert table.coding.codes[0].threshold == np.median(x)


def test_a_quantile_leaves_something_above():
    x = answers([5, 5, 10, 20, 160])
    table = hopfed.read_table({"a": x, "b": x % 2}, binarize={"a": "quantile:0.9"})
    assert table.coding.codes[0].threshold == 4
    only = hopfed.read_table({"a": [7, 7, 7], "b": [0, 1, 1]}, binarize={"a": "median"})
    assert "the same in every row, and of no use: 'a'" in only.notes


def test_a_majority_of_fives_is_not_lost(tmp_path, hopfed):
    """Every column of answers was constant, and the verdict a wrong "ok"."""
    rng = np.random.default_rng(1)
    good = rng.random(400) < 0.7
    rows = np.where(
        (rng.random((400, 12)) < 0.85) == good[:, None], 5, rng.integers(1, 5, (400, 12))
    )
    path = tmp_path / "likert.csv"
    names = ",".join(f"q{j}" for j in range(12))
    np.savetxt(path, rows, "%d", ",", header=names, comments="")
    status, text, errors = hopfed("recover", path, "--binarize", "median", "--dry-run")
    assert status == 0
    assert "> 4" in text or "above 4" in text
    assert "the same in every row" not in text + errors


def dummies(columns, rows=60, seed=0, low=0):
    return np.random.default_rng(seed).integers(low, 2, (rows, columns))


def test_a_column_with_minus_one_does_not_make_zeros_of_dummies_missing():
    """`complete` wrote 1 over every 0 of them, and one with a -1 was never cut."""
    table = {f"d{j}": column.tolist() for j, column in enumerate(dummies(4).T)}
    table["change"] = dummies(1, seed=1, low=-1)[:, 0].tolist()
    with pytest.raises(DataError, match=r"column 'change' holds numbers; commonest -1") as caught:
        hopfed.read_table(table)
    assert "words={'change': {'0': 'missing'}}" in str(caught.value)
    read = hopfed.read_table(table, binarize={"change": "median"})
    assert np.array_equal(unpack(read.rows)[:, :4], 2 * dummies(4) - 1)
    assert np.array_equal(unpack(read.rows)[:, 4] > 0, np.array(table["change"]) > 0)
    read = hopfed.read_table(table, words={"change": {"0": None}})
    assert np.array_equal(unpack(read.rows)[:, :4], 2 * dummies(4) - 1)
    assert np.array_equal(unpack(read.rows)[:, 4], table["change"])
    table["change"] = (2 * dummies(1, seed=2)[:, 0] - 1).tolist()  # signs without a 0
    read = hopfed.read_table(table)
    assert np.array_equal(unpack(read.rows)[:, :4], 2 * dummies(4) - 1)


@pytest.mark.filterwarnings("ignore:.*0 is missing")
def test_a_zero_is_missing_where_nearly_all_columns_have_a_minus_one():
    rows = np.hstack([dummies(8, low=-1), dummies(1, seed=1)])
    table = {f"q{j}": column.tolist() for j, column in enumerate(rows.T)}
    read = hopfed.read_table(table)
    assert np.array_equal(unpack(read.rows), rows)
    assert "where 0 means no, say so: words={'q8': {'0': -1}}" in read.notes[0]
    read = hopfed.read_table(table, words={"q8": {"0": -1}})
    assert np.array_equal(unpack(read.rows), np.hstack([rows[:, :8], 2 * rows[:, 8:] - 1]))
    assert np.array_equal(unpack(hopfed.read_table(rows).rows), rows)  # without names
