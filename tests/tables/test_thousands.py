"""Marks of thousands are not taken for decimal signs: 6.372 beside 346, and 6,372."""

import numpy as np
import pytest

from hopfed import read_table
from hopfed.errors import DataError

COUNTS = ("346", "6.372", "3.846", "12.001", "871", "5.020") * 4


def written(tmp_path, counts=COUNTS, beside="1,5", delimiter=";"):
    path = tmp_path / "lab.csv"
    lines = [delimiter.join((f"P{k}", count, beside)) for k, count in enumerate(counts)]
    path.write_text("\n".join([delimiter.join(("id", "cells", "hb")), *lines, ""]))
    return path


@pytest.mark.parametrize("beside", ["1,5", "7"])
def test_a_point_that_may_be_of_thousands_is_refused(tmp_path, beside):
    message = "column 'cells' holds '6.372' .* write it as 6372 if .* 6.3720 if it is a decimal one"
    with pytest.raises(DataError, match=message):
        read_table(written(tmp_path, beside=beside), binarize="median")


def test_so_it_is_where_the_numbers_are_many(tmp_path):
    plain = [str(k) for k in range(1, 990)]
    counts = [*plain, *(f"{k}.{k:03d}" for k in range(100, 400))]
    with pytest.raises(DataError, match=r"holds '100\.100'"):
        read_table(written(tmp_path, counts), binarize="median")
    late = [*plain, *(f"{k}5" for k in plain), *counts[-2:]]
    with pytest.raises(DataError, match=r"holds '398\.398'"):
        read_table(written(tmp_path, late), binarize="median")


@pytest.mark.parametrize(
    ("counts", "beside", "delimiter"),
    [
        ([*COUNTS, "6.3720"], "1,5", ";"),  # a decimal point for sure
        ([*COUNTS, "0.372"], "1,5", ";"),
        (COUNTS, "1.5", ";"),  # the file has decimal points
        ([*COUNTS, "12346"], "7", ";"),  # which would be 12.346
        (COUNTS, "7", "\t"),
    ],
)
def test_decimal_points_are_read(tmp_path, counts, beside, delimiter):
    table = read_table(written(tmp_path, counts, beside, delimiter), binarize="mean")
    mean = np.mean([float(count) for count in counts])
    assert table.coding.codes[0].threshold == pytest.approx(mean)


def test_a_column_that_is_left_out_or_names_rows_may_hold_them(tmp_path):
    path = written(tmp_path)
    assert read_table(path, ignore="cells", binarize="median").columns == ("hb",)
    assert read_table(path, id="cells", ignore="id", binarize="median").ids[1] == "6.372"
    assert "cells=6.372" in read_table(path, words={"cells": "category"}, binarize=1.2).columns


def test_a_coding_refuses_them_too(tmp_path):
    clean = written(tmp_path, [count.replace(".", "") for count in COUNTS])
    coding = read_table(clean, binarize="median").coding
    with pytest.raises(DataError, match=r"column 'cells' holds '6\.372' in a file with decimal"):
        read_table(written(tmp_path), coding=coding)


@pytest.mark.parametrize("copies", [1, 60])  # up to, and more than, the words that are kept
def test_commas_of_thousands_are_named(copies):
    words = ["346", *(f"{k % 9 + 1},{k:03d}" for k in range(20 * copies))]
    message = "column 'cells' holds numbers that are written like '1,.*': write 1.*, without marks"
    with pytest.raises(DataError, match=message):
        read_table({"cells": words, "hb": ["yes", *["no"] * (len(words) - 1)]})
