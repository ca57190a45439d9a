"""Tables of features as data of networks."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install hopfed[neural]")

from hopfed.errors import DataError  # noqa: E402
from hopfed.neural.data import load  # noqa: E402


def test_a_table_of_features(tmp_path):
    file = tmp_path / "t.csv"
    file.write_text("x,y,writer,w\n1,10,ann,0\n2,9,ben,1.5\n3,10,ann,-2\n")
    data = load(str(file))
    assert (data.shape, data.class_names, data.writer_names) == (
        (2, 1, 1),
        ("9", "10"),
        ("ann", "ben"),
    )
    assert data.labels.tolist() == [1, 0, 1]
    assert data.inputs[:, :, 0, 0].tolist() == [[1, 0], [2, 1.5], [3, -2]]
    assert load(f"{file}:w").shape == (2, 1, 1)
    for text, name, words in (
        ("a,b\n1,2\n", "", r"none of the columns a, b is called label, class, target or y: say"),
        ("a,y,label\n1,2,3\n", "", "more than one of the columns"),
        ("a,label\n1,ash\noak,yew\n", "", "column a holds words"),
        ("a,b,label\n1,2,ash\n1,,yew\n", "", "row 2, column b is missing"),
        ("a,label\n1,ash\n2,?\n", "", "row 2, column label is missing"),
        ("a,b\n1,2\n", ":c", "no column 'c' among a, b"),
        ("label\nash\nyew\n", ":label", "no features"),
    ):  # fmt: skip
        file.write_text(text)
        with pytest.raises(DataError, match=words):
            load(f"{file}{name}")
