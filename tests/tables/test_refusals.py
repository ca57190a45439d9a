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


def test_the_few_words_of_another_kind_are_named(tmp_path, hopfed):
    """A row of totals below the answers is what does not fit, not the answers."""
    path = tmp_path / "a.csv"
    answers = "".join(f"P{k},{'yn'[k % 2]},{'ny'[k % 3 == 0]}\n" for k in range(50))
    path.write_text("person,tea,milk\n" + answers + "Total,25,17\n")
    _, _, errors = hopfed("recover", path)
    assert "row 51, column 'tea': '25' is a number beside 'n', 'y' (and so in 'milk')" in errors
    assert "; if row 51 sums up others, remove it; if these are categories: --words tea=" in errors
    _, _, errors = hopfed("recover", path, "--words", "n=-1,y=+1")
    assert "row 51, column 'tea': '25' is not among the words that were given" in errors
    path.write_text("person,tea,milk\n" + answers + "Total,25,17\n" * 200)
    _, _, errors = hopfed("recover", path)
    assert "row 1, column 'tea': 'y' is not a number" in errors


def test_codes_of_no_answer_are_told_by_an_option_that_works(tmp_path, hopfed):
    path = tmp_path / "a.csv"
    rows = "".join(f"P{k},{k % 2 + 1},{9 if k % 5 == 0 else k % 3 % 2 + 1}\n" for k in range(50))
    path.write_text("person,tea,milk\n" + rows)
    _, _, errors = hopfed("recover", path)
    way = errors.partition("if 9 means that there is no answer: ")[2].split()
    assert way == ["--words", "milk=9=missing"]
    status, text, errors = hopfed("recover", path, *way, "--dry-run")
    assert status == 0, errors
    assert "10.0% of the entries missing" in text


def test_several_words_are_told_at_once_and_none_in_vain(tmp_path, hopfed):
    """Of a list only the last was taken, and the others for a part of its word."""
    path = tmp_path / "a.csv"
    cells = ("oft,nie", "nie,oft", "oft,kaum")
    path.write_text("person,tea,milk\n" + "".join(f"P{k},{cells[k % 3]}\n" for k in range(27)))
    given = "--words", "oft=+1,nie=-1,kaum=missing", "--words", "selten=-1", "--dry-run"
    status, text, errors = hopfed("recover", path, *given)
    assert status == 0, errors
    assert "16.7% of the entries missing" in text
    assert "no cell holds 'selten'" in text
    assert hopfed("recover", path, "--words", "oft=+1,nie")[0] == 2
    status, text, _ = hopfed("recover", path, "--words", "oft=True,nie=false,kaum=0", "--dry-run")
    assert (status, "no cell holds" in text) == (0, False)


def test_a_title_above_the_names_of_columns_is_pointed_out(tmp_path, hopfed):
    path = tmp_path / "a.csv"
    path.write_text("Survey,,,\nperson,tea,milk,party\n" + "A,yes,no,b\nB,no,no,c\n" * 9)
    status, _, errors = hopfed("recover", path)
    assert status == 2
    assert "the first line has one cell that is filled, of 4: remove a title" in errors
    path.write_text(
        "Survey,of us,,,\nid,tea,milk,rum,party\n" + "A,yes,no,no,b\nB,no,no,no,c\n" * 9
    )
    _, _, errors = hopfed("recover", path, "--ignore", "party")
    assert "if a line stands above the names of the columns, remove it" in errors


def test_a_word_among_numbers_with_decimal_commas_is_named(tmp_path):
    lines = ["name;kg;tea", *(f"P{i};{i},5;{'ja' if i % 2 else 'nein'}" for i in range(1, 41))]
    clean, path = tmp_path / "clean.csv", tmp_path / "a.csv"
    clean.write_text("\n".join(lines))
    lines[4] = "P4;schwer;nein"
    path.write_text("\n".join(lines))
    with pytest.raises(DataError, match=r"row 4, column 'kg': 'schwer' is not a number.*missing"):
        read_table(path, binarize="median")
    told = read_table(path, binarize="median", words={"schwer": "missing"})
    assert told.shape == (40, 2)
    coding = read_table(clean, binarize="median").coding
    said = r"row 4, column 'kg': 'schwer' is not a number; if .* --words schwer=missing"
    with pytest.raises(DataError, match=said):
        read_table(path, coding=coding)


def test_two_spellings_of_a_column_are_said_at_once():
    with pytest.raises(DataError, match=r"column 'Tea' is 'tea' in .*: give both one name"):
        read_tables([{"tea": [0, 1], "a": [0, 1]}, {"Tea": [0, 1], "a": [1, 0]}])


@pytest.mark.parametrize(
    ("name", "different"),
    [(lambda k: f"M{k:03}", 400), (lambda k: k + 7, 400), (lambda k: k + 7, 1200)],
)
def test_names_of_rows_that_come_twice_are_said_to_and_the_option_works(
    tmp_path, hopfed, name, different
):
    """Copies of rows have the names of those that they copy: it was only said to leave them out."""
    path = tmp_path / "twice.csv"
    rows = 2 * different
    lines = [f"{name(k % different)},{'yes' if k % 3 else 'no'},{k % 2}" for k in range(rows)]
    path.write_text("\n".join(["id,tea,milk", *lines]))
    status, _, errors = hopfed("recover", path, "--dry-run")
    assert status == 2
    assert errors.rstrip().endswith("names the rows: --id id")
    if isinstance(name(0), str):
        assert "column 'id' holds 400 different words, which repeat in its 800 rows" in errors
    status, text, errors = hopfed("recover", path, "--dry-run", "--id", "id")
    assert (status, f"{rows:,} rows, 2 columns" in text) == (0, True), errors
    with pytest.raises(DataError, match=r"names the rows: id='id'$"):
        read_table(path)
