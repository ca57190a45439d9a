"""What columns become, what is said of them before any work, and errors that can be pasted away."""

import re
import shlex

import numpy as np
import pytest

import hopfed
from hopfed.cli.tables.reading import choices_of
from hopfed.errors import ColumnsError, DataError
from hopfed.kernels import unpack
from hopfed.tables.options import Choices
from hopfed.tables.reading import read_tables

CLI = Choices(options=True)


def signs(table):
    return unpack(table.held).T.tolist()


def pasted(text):
    """Choices that a line of an error asks for, parsed as a shell and the command do."""
    options = {"id": None, "ignore": [], "words": [], "binarize": [], "sheet": None}
    words = shlex.split(text)
    while words:
        name, equals, value = words.pop(0).removeprefix("--").partition("=")
        options[name].append(value if equals else words.pop(0))
    return choices_of(options)


def spoilt(columns):
    """A table of many columns, each of which is in the way."""
    rng = np.random.default_rng(columns)
    made = {"id": [f"p{k}" for k in range(120)]}
    for j in range(columns):
        answers = rng.choice(["yes", "no"], 120).astype(object)
        answers[5] = "refused"
        cells = (
            answers,
            rng.random(120).round(3),
            [f"2020-01-{k % 28 + 1:02d}" for k in range(120)],
            rng.choice([1, 2, 9], 120),
            [f"name {k % 110}" for k in range(120)],
            rng.choice(["1,000", "2,500", "12,250"], 120),
            rng.choice(["f", "r", "4"], 120),
            rng.choice(["yes", "true"], 120),
        )[j % 8]
        made[f"q{j}, or so"] = list(cells)
    return made


@pytest.mark.parametrize("columns", [2, 5, 8, 30])
def test_one_line_settles_every_fault(columns):
    table = spoilt(columns)
    with pytest.raises(ColumnsError) as caught:
        read_tables([table], choices=CLI)
    lines = str(caught.value).split("\n")
    assert len(lines) == 1 + min(columns, 10) + (columns > 10) + 1
    assert all("; give --" in line for line in lines[1 : 1 + min(columns, 10)])
    assert len(caught.value.columns) == columns
    line = lines[-1].removeprefix("to settle all of them: ")
    [read] = read_tables([table], choices=pasted(line))
    assert len(read) == 120
    with pytest.raises(ColumnsError) as caught:
        hopfed.read_table(table)
    last = str(caught.value).split("\n")[-1].removeprefix("to settle all of them: ")
    again = hopfed.read_table(table, **eval(f"dict({last})"))  # arguments, as they are pasted
    assert again.columns == read.columns


def test_names_that_steer_a_terminal_are_spelt_out():
    with pytest.raises(ColumnsError) as caught:
        hopfed.read_table({"a\x1b[2J\nx": [0.1, 0.2, 0.3], "b": ["\x1b[31m", "yes", "no"]})
    assert all(line.isprintable() for line in str(caught.value).split("\n"))


@pytest.mark.parametrize("word", ["#NULL!", "--", "DK", "unknown", "Missing", "don't know"])
def test_words_of_no_answer_are_gaps_where_a_column_otherwise_reads(word):
    table = hopfed.read_table(
        {"tea": ["yes", word, "no"], "n": ["1", "0", word], "kg": ["5", "7.5", word]},
        binarize={"kg": 6},
    )
    assert signs(table) == [[1, 0, -1], [1, -1, 0], [-1, 1, 0]]
    if word not in ("#NULL!", "--"):
        assert f"'{word.lower()}' is taken for no answer in 'tea', 'n', 'kg'" in table.notes
        levels = hopfed.read_table({"tree": ["oak", word, "oak"], "b": [0, 1, 1]}).columns
        assert levels[0] in (f"tree={word}", "tree=oak")  # beside other words it is one of them
    again = table.coding.apply({"tea": [word, "yes"], "n": ["1", word], "kg": [word, "9"]})
    assert signs(again) == [[0, 1], [1, 0], [0, 1]]


def test_missing_beside_present_is_no_gap():
    with pytest.raises(ColumnsError, match="'missing' stands beside 'present'"):
        hopfed.read_table({"gene": ["present", "missing", "present"], "b": [0, 1, 1]})


ZERO = r"0 is missing.*, as -1 occurs; where 0 means no, say so"


def test_a_zero_that_is_taken_for_missing_is_said_before_any_work():
    with pytest.warns(UserWarning, match=ZERO):
        table = hopfed.read_table({"a": [-1, 0, 1, 1], "b": [1, 0, -1, 1]})
    assert signs(table) == [[-1, 0, 1, 1], [1, 0, -1, 1]]
    with pytest.warns(UserWarning, match=ZERO):
        hopfed.read_table(np.array([[-1, 0], [1, 1], [0, 1]]))
    [told] = read_tables([{"a": [-1, 0, 1, 1]}], choices=CLI)
    ways = re.findall(r"--words=?\s?(\S+)", " ".join(told.notes).replace(";", " ").replace("'", ""))
    assert ways == ["0=-1", "-1=missing,0=-1"]
    [read] = read_tables([{"a": [-1, 0, 1, 1]}], choices=pasted(f"--words={ways[1]}"))
    assert signs(read) == [[0, -1, 1, 1]]


def test_a_column_of_counts_is_told_to_repeat_rows():
    table = {"a": [0, 1, 1], "b": [1, 0, 1], "count": [17, 4, 230]}
    with pytest.raises(ColumnsError, match="how often a row occurs: repeat each row so many times"):
        hopfed.read_table(table)


def test_owners_with_words_of_different_kinds_are_asked():
    tables = [{"tea": ["yes", "no", "no"]}, {"tea": [1, 2, 2]}]
    with pytest.raises(ColumnsError, match="column 'tea'"):
        read_tables(tables, choices=CLI)
    read = read_tables(tables, choices=pasted("--words 1=+1,2=-1"))
    assert [signs(table) for table in read] == [[[1, -1, -1]], [[1, -1, -1]]]


def test_a_column_that_is_not_there_is_told_with_the_nearest():
    with pytest.raises(DataError, match="no column 'Grower'; did you mean 'grower'"):
        hopfed.read_table({"grower": ["a", "b"], "ash": [0, 1]}, ignore="Grower")


def test_a_coding_tells_all_columns_whose_words_it_does_not_know():
    table = {"tree": ["oak", "ash", "oak"], "ink": ["red", "blue", "red"], "kg": [1, 5, 9]}
    coding = hopfed.read_table(table, binarize=4).coding
    other = {"tree": ["oak", "fir"], "ink": ["green", "red"], "kg": ["7", "heavy"]}
    with pytest.raises(ColumnsError) as caught:
        coding.apply(other)
    lines = str(caught.value).split("\n")
    assert len(lines) == 5
    assert "row 2, column 'tree': 'fir'" in lines[1]
    assert "--words fir=missing,green=missing,heavy=missing" in lines[-1]
    told = dict.fromkeys(("fir", "green", "heavy"))
    assert signs(hopfed.read_table(other, coding=coding, words=told))[-1] == [1, 0]
