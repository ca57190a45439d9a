"""What a message proposes must lead to a right reading."""

import re

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
    with pytest.raises(DataError, match=r"or if it names the rows: id='id'$"):
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
    assert "'age' holds -99, far from its other numbers: if there is no answer, say so" in str(
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
