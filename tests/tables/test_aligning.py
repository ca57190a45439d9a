"""Owners with different columns: refused, together with gaps, or what all of them have."""

import numpy as np
import pytest

from hopfed import kernels, read_table, recover
from hopfed.errors import ArgumentError, DataError
from hopfed.tables.reading import read_tables

FIRST = "name,tea,milk,tree\nAnn,yes,no,ash\nBen,no,no,oak\nCem,no,yes,oak\n"
SECOND = "tree,name,salt,tea\nyew,Dan,0,yes\nash,Eve,1,?\noak,Fay,1,no\n"


@pytest.fixture
def files(tmp_path):
    paths = [tmp_path / "a.csv", tmp_path / "b.csv"]
    for path, text in zip(paths, (FIRST, SECOND), strict=True):
        path.write_text(text)
    return paths


def entries(table):
    return dict(zip(table.columns, kernels.unpack(table.held).T.tolist(), strict=True))


def test_other_columns_are_refused_and_the_way_out_is_named(files):
    with pytest.raises(DataError, match=r"lacks 'milk' of .*, and has 'salt' beside; .*union"):
        read_tables(files)
    with pytest.raises(ArgumentError, match="columns must be one of same, union, shared"):
        read_tables(files, columns="all")


def test_a_union_has_every_column_and_gaps_where_an_owner_lacks_it(files):
    first, second = read_tables(files, columns="union")
    levels = ("tree=ash", "tree=oak", "tree=yew")
    assert first.columns == second.columns == ("tea", "milk", *levels, "salt")
    assert first.coding == second.coding
    assert first.ids.tolist() == ["Ann", "Ben", "Cem"]
    assert second.ids.tolist() == ["Dan", "Eve", "Fay"]
    assert entries(first)["salt"] == entries(second)["milk"] == [0, 0, 0]
    assert entries(first)["tree=oak"] == [-1, 1, 1]
    assert entries(second)["tea"] == [1, 0, -1]
    assert "lacks 'salt'" in first.notes[-1] or any("lacks 'salt'" in n for n in first.notes)


def test_what_all_share_is_left_of_the_others(files):
    first, second = read_tables(files, columns="shared")
    assert first.columns == second.columns == ("tea", "tree=ash", "tree=oak", "tree=yew")
    assert any("left out 'milk', which not all have" in note for note in first.notes)
    assert entries(second)["tree=yew"] == [1, -1, -1]


def test_rows_that_are_not_held_have_gaps_as_well(files):
    held = read_tables(files, columns="union")
    again = read_tables(files, columns="union", memory=1)
    for one, two in zip(held, again, strict=True):
        np.testing.assert_array_equal(kernels.unpack(two.rows[:]), kernels.unpack(one.held))


def test_an_owner_who_has_no_names_of_rows_does_not_hide_those_of_others(tmp_path):
    (tmp_path / "a.csv").write_text("id,x\n" + "".join(f"r{i},{i % 2}\n" for i in range(12)))
    (tmp_path / "b.csv").write_text("x\n1\n0\n")
    first, second = read_tables([tmp_path / "a.csv", tmp_path / "b.csv"], columns="union")
    assert first.columns == second.columns == ("x",)
    assert first.ids[0] == "r0"


def test_tables_that_were_read_one_by_one_need_the_same_columns():
    one, two = read_table({"a": [0, 1], "b": [1, 1]}), read_table({"c": [0, 1], "b": [1, 0]})
    with pytest.raises(ArgumentError, match="columns must be same where tables were read one by"):
        recover([one, two], columns="union")


def test_columns_without_names_cannot_be_matched():
    with pytest.raises(DataError, match="no names"):
        read_tables([np.eye(3), np.eye(4)[:, :2]], columns="union")
    with pytest.raises(DataError, match="no column is in all"):
        read_tables([{"a": [0, 1]}, {"b": [0, 1]}], columns="shared")


def test_a_table_without_a_shared_column_is_refused_and_two_spellings_are_named():
    one, other = {"tea": [0, 1], "milk": [1, 0]}, {"rum": [1, 0], "beer": [0, 0]}
    assert read_tables([one], columns="union")[0].columns == ("tea", "milk")
    one["name"], other["name"] = ["Ann", "Ben"], ["Cem", "Dan"]
    with pytest.raises(DataError, match="shares no column with another table"):
        read_tables([one, one, other], columns="union")
    spelt = {"Tea ": [1, 0], "milk": [0, 1]}
    with pytest.raises(DataError, match=r"column 'Tea' is 'tea' in .*: give both one name"):
        read_tables([one, spelt], columns="union")


def test_a_misspelt_column_is_to_be_renamed():
    tables = [{"medicines": ["y", "n"], "age": [0, 1]}, {"medicnes": ["n", "y"], "age": [1, 1]}]
    with pytest.raises(DataError, match=r"if 'medicnes' is 'medicines', rename it"):
        recover([read_table(t) for t in tables])
