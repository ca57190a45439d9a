"""The same rows in several tables are noticed; rows that are alike by chance are not."""

import numpy as np
import pytest

from hopfed import read_table
from hopfed.tables.remarks import repeated


def classes(seed, rows, columns, quality=0.9):
    rng = np.random.default_rng(seed)
    heads = np.where(rng.random((3, columns)) < 0.5, (1 - quality) / 2, (1 + quality) / 2)
    return (rng.random((rows, columns)) < heads[rng.integers(3, size=rows)]).astype(int)


@pytest.mark.parametrize("columns", [3, 6, 10, 14, 40])
@pytest.mark.parametrize("first", [40, 500, 1500])
def test_rows_that_are_alike_by_chance_are_not_called_the_same(columns, first):
    for seed in range(5):
        x = classes(seed, 2000, columns)
        assert repeated([read_table(x[:first]), read_table(x[first:])], ["a", "b"]) == []


@pytest.mark.parametrize("columns", [30, 40, 130])
def test_a_part_that_two_files_share_is_told(columns):
    x = classes(9, 1200, columns)
    own = np.random.default_rng(1).permutation(x[400:])
    for gaps in (False, True):
        tables = [x[:600].astype(float), own.astype(float)]
        if gaps:
            tables = [np.where(np.arange(columns) == 2, np.nan, rows) for rows in tables]
        [line] = repeated([read_table(rows) for rows in tables], ["a", "b"])
        assert line.endswith("of a and b")


def test_the_command_warns_once_and_goes_on(hopfed, tmp_path):
    x = classes(4, 600, 40)
    for name, rows in (("a", x[:300]), ("b", x[200:500]), ("c", x[500:])):
        np.save(tmp_path / f"{name}.npy", rows)
    a, b, c = (tmp_path / f"{name}.npy" for name in "abc")
    assert "given twice" in hopfed("recover", a, c, a)[2]
    status, _, errors = hopfed("recover", a, b, c)
    assert (status, errors.count("the same rows are in several files")) == (0, 1)
    assert "twice" not in hopfed("recover", a, c)[2]
