"""Tables in text: what cells mean, what names rows and columns, and what is said of oddities."""

import csv
import io

import numpy as np
import pyarrow as pa
import pytest

import hopfed
from hopfed import kernels
from hopfed.errors import ArgumentError, DataError
from hopfed.kernels import unpack
from hopfed.tables.coding import Coding
from hopfed.tables.reading import read_tables


def write(path, text):
    path.write_text(text)
    return path


def signs(table):
    return unpack(table.rows).tolist()


def test_many_numbers_are_cut_as_numpy_does(tmp_path):
    x = np.random.default_rng(0).normal(size=(3000, 2)).round(6)
    text = "a,b\n" + "".join(f"{u},{v}\n" for u, v in x)
    path = write(tmp_path / "a.csv", text)
    for how, cut in (
        ("median", np.median(x, axis=0)),
        ("quantile:0.25", np.quantile(x, 0.25, axis=0)),
        ("mean", x.mean(axis=0)),
    ):
        table = hopfed.read_table(path, binarize=how)
        np.testing.assert_allclose([code.threshold for code in table.coding.codes], cut)
        np.testing.assert_array_equal(unpack(table.rows) > 0, x > cut)


def test_the_same_coding_for_another_table(tmp_path):
    first = hopfed.read_table(
        write(tmp_path / "a.csv", "id,tree,tea,n\na,oak,yes,3\nb,ash,no,5\nc,yew,no,9\n"),
        binarize="median",
    )
    coding = Coding.from_json(first.coding.to_json())
    assert coding == first.coding
    other = write(tmp_path / "b.csv", "more,n,tea,tree\n1,6,YES,ash\n1,?,no,oak\n")
    table = hopfed.read_table(other, coding=coding)
    assert table.columns == first.columns
    assert table.ids is None
    assert signs(table) == [[1, -1, -1, 1, 1], [-1, 1, -1, -1, 0]]
    with pytest.raises(DataError, match=r"b.csv: lacks 'tree', 'n' of the coding"):
        hopfed.read_table(write(other, "a,tea\n6,YES\n1,no\n"), coding=coding)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"version": 2}', "[" * 9999, '{"version": 1, "codes": [{}]}']
)
def test_a_coding_from_elsewhere_is_checked(text):
    with pytest.raises(DataError, match="no coding of a table") as caught:
        Coding.from_json(text)
    assert str(caught.value).count("\n") == 0


def test_tables_without_names_are_read_as_they_were(tmp_path):
    X = np.random.default_rng(0).integers(0, 2, (30, 70))
    np.savetxt(tmp_path / "a.csv", X, delimiter=",", fmt="%d")
    np.save(tmp_path / "a.npy", X)
    for source in (tmp_path / "a.csv", tmp_path / "a.npy", X, X.tolist(), X > 0, 2 * X - 1):
        table = hopfed.read_table(source)
        assert not table.rows.gaps
        np.testing.assert_array_equal(unpack(table.rows), 2 * X - 1)
        assert table.columns[:2] == ("column 1", "column 2")
    with pytest.raises(DataError, match="got 3 at row 1, column 2"):
        hopfed.read_table([[1, 3], [0, 1], [0, 0]])


def test_a_first_row_of_told_words_is_no_header(tmp_path):
    path = write(tmp_path / "a.csv", "Agree,Not\nNot,agree\nNot,Not\nAgree,refused\n")
    words = {"agree": True, "not": False, "Refused": None}
    table = hopfed.read_table(path, words=words)
    assert table.columns == ("column 1", "column 2")
    assert signs(table) == [[1, -1], [-1, 1], [-1, -1], [1, 0]]
    assert signs(hopfed.read_table(path, coding=table.coding)) == signs(table)
    assert hopfed.read_table(path).coding.names == ("column 1", "column 2")  # as the rows say
    named = write(tmp_path / "b.csv", "tea,coffee\nAgree,Not\nNot,Agree\n")
    assert hopfed.read_table(named, words=words).columns == ("tea", "coffee")
    turned = write(tmp_path / "c.csv", "coffee,tea\nNot,Agree\nAgree,Not\n")
    again = hopfed.read_table(turned, coding=hopfed.read_table(named, words=words).coding)
    assert (again.columns, signs(again)) == (("tea", "coffee"), [[1, -1], [-1, 1]])


def test_owners_are_matched_by_name():
    x = np.random.default_rng(1).integers(0, 2, (20, 9))
    one = {f"q{j}": x[:10, j].tolist() for j in range(9)}
    two = {f"q{j}": x[10:, j].tolist() for j in (3, 8, 0, 5, 7, 1, 2, 6, 4)}
    tables = read_tables([one, two])
    assert [table.columns for table in tables] == [tuple(one)] * 2
    assert signs(tables[0]) + signs(tables[1]) == (2 * x - 1).tolist()
    assert signs(read_tables([x[:5], one])[1]) == signs(tables[0])  # one has no names
    with pytest.raises(DataError, match=r"examples\[1\]: lacks 'q1' of examples\[0\]"):
        hopfed.recover([one, {k: v for k, v in two.items() if k != "q1"}], seed=0)


@pytest.mark.parametrize(
    ("first", "second"), [("ja nein", "n y"), ("no yes", "1 0"), ("t f", "oui non"), ("+ -", "0 1")]
)
def test_each_owner_may_have_words_of_its_own(tmp_path, first, second):
    a, b = (
        write(tmp_path / name, "tea,coffee\n" + "".join(f"{w},{w}\n" for w in words.split()))
        for name, words in (("a.csv", first), ("b.csv", second))
    )
    high = {"ja", "yes", "t", "+", "y", "1", "oui"}
    tables = read_tables([a, b])
    for table, words in zip(tables, (first, second), strict=True):
        assert signs(table) == [[1, 1] if w in high else [-1, -1] for w in words.split()]
    assert tables[0].coding == tables[1].coding == read_tables([b, a])[0].coding
    mixed = write(tmp_path / "c.csv", "tea,coffee\nja,ja\nno,no\n")
    with pytest.raises(DataError, match=r"row 1, column 'tea': 'ja' stands beside 'no'"):
        read_tables([mixed])


@pytest.mark.parametrize("how", ["texts", "numbers"])
def test_long_codes_are_different_levels(how):
    """As floats, 12345678901234567 and ...568 are one."""
    codes = [2**53, 2**53 + 1, 123456789012345678] * 40
    cells = list(map(str, codes)) if how == "texts" else pa.array(codes, pa.int64())
    table = hopfed.read_table({"code": cells, "q": [0, 1] * 60}, words={"code": "category"})
    assert table.coding.codes[0].levels == tuple(map(str, sorted({*codes})))
    assert np.array_equal((unpack(table.rows)[:, :3] > 0).sum(axis=0), [40, 40, 40])


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
    assert any("lacks 'salt'" in line for line in first.notes)
    again = read_tables(files, columns="union", memory=1)  # not held
    for table, other in zip((first, second), again, strict=True):
        np.testing.assert_array_equal(kernels.unpack(other.rows[:]), kernels.unpack(table.held))


def test_what_all_share_is_left_of_the_others(files):
    first, second = read_tables(files, columns="shared")
    assert first.columns == second.columns == ("tea", "tree=ash", "tree=oak", "tree=yew")
    assert any("left out 'milk', which not all have" in note for note in first.notes)
    assert entries(second)["tree=yew"] == [1, -1, -1]


def test_an_owner_who_has_no_names_of_rows_does_not_hide_those_of_others(tmp_path):
    (tmp_path / "a.csv").write_text("id,x\n" + "".join(f"r{i},{i % 2}\n" for i in range(12)))
    (tmp_path / "b.csv").write_text("x\n1\n0\n")
    first, second = read_tables([tmp_path / "a.csv", tmp_path / "b.csv"], columns="union")
    assert first.columns == second.columns == ("x",)
    assert first.ids[0] == "r0"


ONE = {"tea": [0, 1], "milk": [1, 0]}


@pytest.mark.parametrize(
    ("tables", "columns", "message"),
    [
        ([np.eye(3), np.eye(4)[:, :2]], "union", "no names"),
        ([{"a": [0, 1]}, {"b": [0, 1]}], "shared", "no column is left to use"),
        ([{"a": [0, 1, 1]}, {"a": [1, 2, 2]}], "same", "column 'a' .*: write them in one way"),
        ([ONE, {"teas": [1, 0], "milk": [0, 1]}], "same", "lacks 'tea' of .* has 'teas' beside"),
    ],
)
def test_columns_that_cannot_be_matched_are_named(tables, columns, message):
    with pytest.raises(DataError, match=message):
        read_tables(tables, columns=columns)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("block", [1, 7, 30])
def test_cells_with_ends_of_lines_are_read_wherever_a_block_ends(tmp_path, monkeypatch, end, block):
    cells = [["two\nlines", "no"], ['5" pipe', "yes"], ["a,b", ""], ["two\nlines", "yes"]] * 5
    text = io.StringIO(newline="")  # a writer quotes the letters of its own ends of lines only
    csv.writer(text, lineterminator="\r\n").writerows([["what", "tea"], *cells])
    (tmp_path / "a.csv").write_bytes(text.getvalue().replace("\r\n", end).encode())
    whole = hopfed.read_table(tmp_path / "a.csv")
    assert whole.columns == ('what=5" pipe', "what=a,b", "what=two\nlines", "tea")
    assert signs(whole)[:3] == [[-1, -1, 1, -1], [1, -1, -1, 1], [-1, 1, -1, 0]]
    monkeypatch.setattr("hopfed.tables.formats.BLOCK", block)
    monkeypatch.setattr("hopfed.tables.formats.ROWS", 0)
    assert signs(hopfed.read_table(tmp_path / "a.csv")) == signs(whole)


def test_rows_that_a_quotation_mark_joins_are_noted(tmp_path):
    """A mark that opens in one cell and closes in a later row made one row of several."""
    path = write(tmp_path / "a.csv", 'a,b,c\n1,z,1\n1,"x,0\n0,1,1\n1,y",0\n0,x,1\n0,y,1\n')
    table = hopfed.read_table(path, words={"b": "category"})
    assert (len(table), table.notes[0][:28]) == (4, "cells of 'b' hold ends of li")
