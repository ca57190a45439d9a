"""Tables in text: what cells mean, what names rows and columns, and what is said of oddities."""

import numpy as np
import pyarrow as pa
import pytest

import hopfed
from hopfed.errors import ArgumentError, DataError
from hopfed.kernels import PackedBits, unpack
from hopfed.tables.coding import Coding
from hopfed.tables.reading import read_tables


def write(path, text):
    path.write_text(text)
    return path


def signs(table):
    return unpack(table.rows).tolist()


def test_words_that_are_told(tmp_path):
    text = "a,b\nagree,1\nrefuse,0\ndunno,8\nAGREE,1\n"
    path = write(tmp_path / "a.csv", text)
    told = {"agree": True, "refuse": -1, "dunno": None, "8": "missing"}
    table = hopfed.read_table(path, words=told)
    assert signs(table) == [[1, 1], [-1, -1], [0, 0], [1, 1]]
    own = {"a": {"agree": 1, "refuse": 0}, "b": "category", "dunno": None}
    table = hopfed.read_table(path, words=own)
    assert table.columns == ("a", "b=0", "b=1", "b=8")
    assert [row[0] for row in signs(table)] == [1, 0, 0, 1]
    with pytest.raises(DataError, match="row 3, column 'a': 'dunno' is not among the words"):
        hopfed.read_table(path, words={"agree": 1, "refuse": -1})
    with pytest.raises(ArgumentError, match=r"words must be for \+1, -1 or missing.*, got maybe"):
        hopfed.read_table(path, words={"agree": "maybe"})


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
    table = coding.apply(other)
    assert table.columns == first.columns
    assert table.ids is None
    assert signs(table) == [[1, -1, -1, 1, 1], [-1, 1, -1, -1, 0]]
    with pytest.raises(DataError, match=r"row 2, column 'tree': 'elm' was not there"):
        coding.apply(write(tmp_path / "b.csv", "n,tea,tree\n6,YES,ash\n1,no,elm\n"))
    with pytest.raises(DataError, match=r"row 1, column 'n': 'six' is not a number"):
        coding.apply(write(tmp_path / "b.csv", "n,tea,tree\nsix,YES,ash\n1,no,oak\n"))
    with pytest.raises(DataError, match=r"b.csv: lacks the column\(s\) 'tree', 'n'"):
        coding.apply(write(tmp_path / "b.csv", "a,tea\n6,YES\n1,no\n"))


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"version": 2}', "[" * 9999, '{"version": 1, "codes": [{}]}']
)
def test_a_coding_from_elsewhere_is_checked(text):
    with pytest.raises(DataError, match="no coding of a table") as caught:
        Coding.from_json(text)
    assert str(caught.value).count("\n") == 0


def test_oddities_are_named(tmp_path):
    text = "a,b,c,d,e,f\n1,0,1,,1,0\n0,1,1,,0,0\n0,1,1,,0,1\n1,0,1,,,0\n"
    table = hopfed.read_table(write(tmp_path / "a.csv", text))
    assert table.notes == (
        "without any entry: 'd'",
        "the same in every row, and of no use: 'c'",
        "equal or opposite in every row: 'a' and 'b'",
    )


def test_tables_without_names_are_read_as_they_were(tmp_path):
    X = np.random.default_rng(0).integers(0, 2, (30, 70))
    np.savetxt(tmp_path / "a.csv", X, delimiter=",", fmt="%d")
    np.save(tmp_path / "a.npy", X)
    for source in (tmp_path / "a.csv", tmp_path / "a.npy", X, X.tolist(), X > 0, 2 * X - 1):
        table = hopfed.read_table(source)
        assert isinstance(table.rows, PackedBits)
        np.testing.assert_array_equal(unpack(table.rows), 2 * X - 1)
        assert table.columns[:2] == ("column 1", "column 2")
    with pytest.raises(DataError, match="got 3 at row 1, column 2"):
        hopfed.read_table([[1, 3], [0, 1], [0, 0]])
    with pytest.raises(DataError, match="got 5 at row 2, column 1; commonest"):
        hopfed.read_table(write(tmp_path / "b.csv", "1,0\n5,1\n0,1\n"))


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


def test_owners_are_matched_by_name(tmp_path):
    rng = np.random.default_rng(1)
    T = np.where(rng.random((3, 40)) < 0.5, 0.1, 0.9)
    X = (rng.random((600, 40)) < T[rng.integers(3, size=600)]).astype(int)
    names, turned = [f"q{j}" for j in range(40)], rng.permutation(40)
    one = dict(zip(names, X[:300].T.tolist(), strict=True))
    two = {names[j]: X[300:, j].tolist() for j in turned}
    found = hopfed.recover([one, two], seed=0)
    plain = hopfed.recover([X[:300], X[300:]], seed=0)
    np.testing.assert_array_equal(found.patterns, plain.patterns)
    assert found.columns == tuple(names)
    assert plain.columns is None
    with pytest.raises(DataError, match=r"examples\[1\]: lacks 'q1' of examples\[0\]"):
        hopfed.recover([one, {k: v for k, v in two.items() if k != "q1"}], seed=0)
    tables = [hopfed.read_table(part) for part in (one, two)]
    np.testing.assert_array_equal(hopfed.recover(tables, seed=0).patterns, plain.patterns)


def test_files_are_coded_together(tmp_path):
    a = write(tmp_path / "a.csv", "q,tree,n\nno,ash,1\nno,oak,1\n")
    b = write(tmp_path / "b.csv", "n,q,tree\n2,yes,yew\n1,no,ash\n")
    tables = read_tables([a, b])
    assert {table.columns for table in tables} == {("q", "tree=ash", "tree=oak", "tree=yew", "n")}
    assert signs(tables[0]) == [[-1, 1, -1, -1, -1], [-1, -1, 1, -1, -1]]
    assert signs(tables[1]) == [[1, -1, -1, 1, 1], [-1, 1, -1, -1, -1]]
    c = write(tmp_path / "c.csv", "n,q,trees\n2,yes,yew\n1,no,ash\n")
    with pytest.raises(DataError, match=r"lacks 'tree' of .*a\.csv, and has 'trees' beside"):
        read_tables([a, c])


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
