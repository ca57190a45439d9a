"""What is in the way of a table: all columns at once, in the words of whoever reads it."""

import pytest

from hopfed import read_table
from hopfed.errors import ArgumentError, DataError
from hopfed.tables.options import Choices
from hopfed.tables.reading import read_tables

ROWS = 300


@pytest.fixture
def people(tmp_path):
    """A table with four columns that cannot be used: texts, dates, and numbers that are not cut."""
    path = tmp_path / "people.csv"
    lines = ["tea,note,born,said so,age,milk"]
    for k in range(ROWS):
        cells = "yes", f"word {k % 150}", f"2001-02-{k % 28 + 1:02}", f"said {k % 120}", str(k % 70)
        lines.append(",".join([*cells, "no" if k % 3 else "yes"]))
    path.write_text("\n".join(lines))
    return path


def test_all_columns_are_named_at_once_with_the_option_to_repeat(people, hopfed):
    status, _, errors = hopfed("recover", people)
    assert status == 2
    for said in ("'note' holds 150 different words", "'born' holds dates", "'age' holds numbers"):
        assert said in errors
    assert "(--binarize)" in errors
    assert errors.rstrip().endswith("leave them out: --ignore 'note,born,said so,age'")
    status, text, errors = hopfed("recover", people, "--ignore", "note,born,said so,age", "--json")
    assert (status, "error" in errors) == (0, False), errors


def test_a_call_is_told_of_arguments(people):
    with pytest.raises(DataError, match=r"\(binarize\).* ignore=\['note', 'born', 'said so', 'age"):
        read_table(people)
    with pytest.raises(ArgumentError, match=r"^binarize must be"):
        read_table(people, binarize="most")


def test_one_name_is_a_name_and_not_its_letters(people):
    others = ["note", "born", "said so"]
    table = read_table(people, ignore=[*others, "age"])
    assert table.columns == ("tea", "milk")
    small = {"tea": ["yes", "no"], "age": [31, 62], "a": [1, 0]}
    assert read_table(small, ignore="age").columns == ("tea", "a")


def test_a_comma_parts_names_unless_it_is_in_one():
    table = {"a": ["yes", "no"], "b": ["no", "yes"], "c,d": ["x", "y"], "e": ["no", "yes"]}
    for ignore, left in (
        ("a,b", ("c,d=y", "e")),
        ("c,d", ("a", "b", "e")),
        ("a, e", ("b", "c,d=y")),
    ):
        [read] = read_tables([table], choices=Choices(ignore=(ignore,), options=True))
        assert read.columns == left
    with pytest.raises(DataError, match="no column 'a,b'"):
        read_table(table, ignore="a,b")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--ignore", "Borm"),
        ("--id", "BORN"),
        ("--words", "borne=category"),
        ("--ignore", "tea,bron"),
    ],
)
def test_a_name_that_is_nearly_right_is_told(people, hopfed, option, value):
    status, _, errors = hopfed("recover", people, option, value)
    assert status == 2
    assert "there is no column" in errors
    assert errors.rstrip().endswith("did you mean 'born'?")


def test_a_column_with_a_comma_in_its_name_is_an_option_of_its_own():
    choices = Choices(options=True)
    assert choices.leaving(["a", "b,c", "d"]) == "--ignore a,d --ignore b,c"
    assert "\x1b" not in choices.leaving(["\x1b[2J"])
