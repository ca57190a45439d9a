"""What `export` says of the columns of a federation, whose names the server was not told."""

from dataclasses import replace

import pytest

from hopfed import recover
from hopfed.archetypes.storage import holding
from hopfed.hopfield.channel import small_sample
from hopfed.runs import Run


@pytest.mark.parametrize(
    ("order", "line"),
    [
        ("sorted 79a0", "column 1 and so on follow the sorted names of the owners' columns, cap"),
        ("ordered 79a0", "column 1 and so on follow the columns of the owners"),
        ("", ""),
    ],
)
def test_the_order_of_columns_without_names_is_said(tmp_path, hopfed, order, line):
    found = recover(small_sample()[1])
    run, out = tmp_path / "served.h5", tmp_path / "found.csv"
    holding(Run("serve", {"order": order}, {}, {}), replace(found, columns=None)).save(run)
    status, said, errors = hopfed("export", run, "--out", out)
    assert status == 0, errors
    assert line in said
    assert ("column 1" in said) == bool(order)


def test_names_that_are_known_need_no_order(tmp_path, hopfed):
    found = recover({f"q{j}": column for j, column in enumerate(small_sample()[1].T)})
    holding(Run("serve", {"order": "sorted 79a0"}, {}, {}), found).save(tmp_path / "a.h5")
    assert "column 1" not in hopfed("export", tmp_path / "a.h5", "--out", tmp_path / "a.csv")[1]
