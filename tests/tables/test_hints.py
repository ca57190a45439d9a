"""What a message proposes must lead to a right reading."""

import re

import numpy as np
import pytest

from hopfed import read_table
from hopfed.errors import DataError
from hopfed.tables.options import Choices
from hopfed.tables.reading import read_tables

ROWS = 40
YES = [k % 3 == 0 for k in range(ROWS)]


def owner(yes, no, first=1):
    words = [yes if y else no for y in YES]
    return {"id": [str(k) for k in range(first, first + ROWS)], "tea": words, "pipe": words[::-1]}


def told(*options):
    words = dict(option.rsplit("=", 1) for option in options)
    return Choices(words=words or None, options=True)


def test_an_owner_with_1_and_2_beside_others_with_words_is_asked_what_they_stand_for():
    owners = [owner("yes", "no"), owner("Ja", "Nein"), owner("1", "2")]
    message = r"examples\[2\]: column 'tea' holds '1', '2' where others hold 'ja', 'nein', 'no', "
    message += "'yes': say what they stand for, --words 1=[+]1,2=-1 or --words 1=-1,2=[+]1$"
    with pytest.raises(DataError, match=message):
        read_tables(owners, choices=told())
    tables = read_tables(owners, choices=told("1=+1", "2=-1"))
    assert all(table.coding.ids == ("id",) for table in tables)
    assert (tables[2].held.words == tables[0].held.words).all()
    with pytest.raises(DataError, match=re.escape("say what they stand for, words={'1': 1,")):
        read_tables(owners)


def test_a_code_of_no_answer_is_proposed_to_be_missing():
    owners = [owner("yes", "no"), owner("1", "2")]
    owners[1]["tea"][3] = "9"
    with pytest.raises(DataError, match=re.escape("--words 1=+1,2=-1,9=missing or --words 1=-1,")):
        read_tables(owners, choices=told())


def test_words_of_entries_leave_running_numbers_names_of_rows():
    table = read_table(owner("1", "2"), words={"1": 1, "2": -1})
    assert table.coding.ids == ("id",)
    with pytest.raises(DataError, match=r"if 'id' names the rows: id='id'$"):
        read_table(
            {"id": ["1", "2", "A"] * 20, "tea": ["1", "2", "2"] * 20}, words={"1": 1, "2": -1}
        )


def test_a_number_near_to_others_is_no_code_of_no_answer():
    near = read_table({"hb": [7 + k % 9 for k in range(ROWS)], "tea": YES}, binarize="median")
    assert not any("far" in line for line in near.notes)
    ages = [str(20 + k % 50) for k in range(ROWS)]
    ages[5] = "-99"
    choices = Choices(binarize={"age": "median"}, options=True)
    far = read_tables([{"age": ages, "tea": YES}], choices=choices)[0]
    assert "'age' holds -99, far from its other numbers: if that stands for no answer" in str(
        far.notes
    )
    assert "(--words age=-99=missing)" in str(far.notes)


def test_categories_that_differ_in_case_or_spaces_are_named():
    wards = [{"ward": ["surgery", "medicine"] * 9}, {"ward": ["surgery", "Medicine "] * 9}]
    line = "'ward' holds 'Medicine', 'medicine', each by itself: if they are the same but for case"
    assert any(note.startswith(line) for note in read_tables(wards)[0].notes)
    alone = read_table({"city": ["Köln", "köln", "Bonn"] * 9})
    assert any(note.startswith("'city' holds 'Köln', 'köln', each") for note in alone.notes)
    apart = read_table({"c": ["-1.5", "15", "1 5"] * 9}, words={"c": "category"})
    assert not any("'-1.5', '15'" in note for note in apart.notes)


def test_a_row_of_totals_is_said_to_be_one():
    held = {name: [str(int(y)) for y in YES] for name in ("tea", "pipe", "cat")}
    table = {name: [*words, str(sum(YES))] for name, words in held.items()}
    with pytest.raises(DataError, match=r"hold numbers .* or if row 41 of .* sums up the others, "):
        read_table(table)
    table["tea"][3] = "14"  # a number that others have, too
    with pytest.raises(DataError) as told:
        read_table(table)
    assert "sums up" not in str(told.value)


def test_a_number_among_categories_is_told_of_its_column_alone(tmp_path, hopfed):
    """`--words 4=missing` took the four-wheel drives away, and all cars of four cylinders."""
    path = tmp_path / "cars.csv"
    drives = ["f", "r", "4", "f"] * 20
    lines = [f"{drive},{4 + 2 * (k % 2)},{'yn'[k % 2]}" for k, drive in enumerate(drives)]
    path.write_text("\n".join(["drv,cyl,auto", *lines]))
    status, _, errors = hopfed("recover", path, "--dry-run")
    assert status == 2
    assert "row 3, column 'drv': '4' is a number beside 'f', 'r'; if these are categ" in errors
    assert "sums up others" not in errors
    ways = re.findall(r"--words [^\s;]+", errors)
    assert ways == ["--words drv=category", "--words drv=4=missing"]
    for way in ways:
        status, text, errors = hopfed("recover", path, *way.split(), "--dry-run")
        assert status == 0, errors
        assert ("no gaps" in text) == (way == ways[0])


def test_all_columns_of_mixed_words_are_told_at_once(tmp_path, hopfed):
    path = tmp_path / "a.csv"
    cells = [("yes", "full", "1"), ("no", "no", "none"), ("perhaps", "partial", "3")]
    lines = [",".join([*cells[k % 3], "ab"[k % 2]]) for k in range(30)]
    path.write_text("\n".join(["tea,plumage,cups,kind", *lines]))
    status, _, errors = hopfed("recover", path, "--dry-run")
    assert status == 2
    (way,) = re.findall(r"--words (\S+=category)", errors)
    status, text, errors = hopfed("recover", path, "--words", way, "--dry-run")
    assert status == 0, errors


def test_rare_words_of_yes_and_no_among_many_others_are_names():
    """SI is Slovenia, and NO is Norway."""
    codes = ["AT", "BE", "CZ", "DE", "DK", "EE", "ES", "FI", "FR", "HR", "NO", "SI"]
    table = read_table({"country": codes * 3, "eu": ["y", "n"] * 18})
    assert table.coding.codes[0].levels == tuple(codes)
    with pytest.raises(DataError, match="'unsure' stands beside 'no', 'yes'"):
        read_table({"a": ["yes", "no"] * 9 + ["unsure", "later", "x"]})


def test_measurements_are_no_names_of_rows(tmp_path, hopfed):
    path = tmp_path / "a.csv"
    rng = np.random.default_rng(0)
    prices = rng.random(40).round(4)
    lines = [f"{price},{k % 2},{k % 3 % 2}" for k, price in enumerate(prices)]
    path.write_text("\n".join(["price,a,b", *lines]))
    assert "--id" not in hopfed("recover", path)[2]
    lines = [f"state {k},{1000 + 7 * k},{k % 2}" for k in range(40)]
    path.write_text("\n".join(["state,population,a", *lines]))
    errors = hopfed("recover", path)[2]
    assert "population" in errors  # 'state' names the rows already
    assert "--id" not in errors


def test_leaving_all_columns_out_is_no_way(tmp_path, hopfed):
    path = tmp_path / "a.csv"
    path.write_text("\n".join(["a,b", *(f"{k / 7:.3f},{k * k / 9:.3f}" for k in range(30))]))
    errors = hopfed("recover", path)[2]
    assert "--ignore" not in errors
    path.write_text("\n".join(["a,b", *(f"w{k},v{k % 29}" for k in range(30))]))
    errors = hopfed("recover", path)[2]
    assert "--ignore" not in errors


def test_one_word_and_blanks_is_told_with_the_word_and_its_column(tmp_path, hopfed):
    path = tmp_path / "a.csv"
    lines = [f"{'x' * (k % 3 == 0)},{k % 2},{k // 2 % 2}" for k in range(30)]
    path.write_text("\n".join(["tick,a,b", *lines]))
    _, text, _ = hopfed("recover", path, "--dry-run")
    (way,) = re.findall(r"if blanks mean no, say so: --words (\S+)", text)
    status, text, errors = hopfed("recover", path, "--words", way, "--dry-run")
    assert status == 0, errors
    assert "no gaps" in text


def test_the_largest_class_of_a_number_is_no_code_of_no_answer():
    rng = np.random.default_rng(1)
    table = {"cylinders": rng.choice([3, 4, 5, 8], 400, p=[0.1, 0.4, 0.1, 0.4]).tolist()}
    table["a"] = rng.integers(2, size=400).tolist()
    assert not any("far from" in n for n in read_table(table, binarize="median").notes)
    table["cylinders"][:200] = [99] * 2 + [4] * 198
    notes = read_table(table, binarize="median").notes
    assert any("'cylinders' holds 99, far from" in note for note in notes)


def test_rownames_name_the_rows():
    table = read_table({"rownames": [7, 3, 9, 12], "a": [1, 0, 1, 0], "b": [0, 0, 1, 1]})
    assert table.coding.ids == ("rownames",)
