"""What columns become, what is said of them before any work, and errors that can be pasted away."""

import re
import shlex
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from helpers import filled
from sklearn.exceptions import ConvergenceWarning

import hopfed
from hopfed import kernels, read_table
from hopfed.cli.inputs import choices_of
from hopfed.errors import ArgumentError, ColumnsError, DataError, HopfedError
from hopfed.kernels import unpack
from hopfed.sklearn import ArchetypeMixture
from hopfed.tables.choosing import Choices
from hopfed.tables.reading import read_tables

CLI = Choices(options=True)


def signs(table):
    return unpack(table.held).T.tolist()


def pasted(text):
    """Choices that a line of an error asks for, parsed as a shell and the command do."""
    options = {"id": None, "ignore": [], "words": [], "binarize": [], "sheet": None, "ordinal": []}
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
    told = hopfed.read_table({"\x1b[31m": [0, 1, 1], "b": [0, 1, 1]}).notes
    assert all(line.isprintable() for line in told)


@pytest.mark.parametrize("word", ["#NULL!", "--", "DK", "unknown", "Missing", "don't know"])
def test_words_of_no_answer_are_gaps_where_a_column_otherwise_reads(word):
    table = hopfed.read_table(
        {"tea": ["yes", word, "no"], "n": ["1", "0", word], "kg": ["5", "7.5", word]},
        binarize={"kg": 6},
    )
    assert signs(table) == [[1, 0, -1], [1, -1, 0], [-1, 1, 0]]
    if word not in ("#NULL!", "--"):
        assert f"'{word.lower()}' is taken for no answer, in 'tea', 'n', 'kg'" in table.notes
        levels = hopfed.read_table({"tree": ["oak", word, "oak"], "b": [0, 1, 1]}).columns
        assert levels[0] in (f"tree={word}", "tree=oak")  # beside other words it is one of them
    again = hopfed.read_table(
        {"tea": [word, "yes"], "n": ["1", word], "kg": [word, "9"]}, coding=table.coding
    )
    assert signs(again) == [[0, 1], [1, 0], [0, 1]]


ZERO = r"0 is missing, as -1 occurs.*; where 0 means no, say so"


def test_a_zero_that_is_taken_for_missing_is_said_before_any_work():
    with pytest.warns(UserWarning, match=ZERO):
        table = hopfed.read_table({"a": [-1, 0, 1, 1], "b": [1, 0, -1, 1]})
    assert signs(table) == [[-1, 0, 1, 1], [1, 0, -1, 1]]
    with pytest.warns(UserWarning, match=ZERO):
        hopfed.read_table(np.array([[-1, 0], [1, 1], [0, 1]]))
    [told] = read_tables([{"a": [-1, 0, 1, 1]}], choices=CLI)
    ways = re.findall(r"--words=?\s?(\S+)", " ".join(told.notes).replace(";", " ").replace("'", ""))
    [read] = read_tables([{"a": [-1, 0, 1, 1]}], choices=pasted(f"--words={ways[0]}"))
    assert signs(read) == [[-1, -1, 1, 1]]


X = ["x", "", "x"]


@pytest.mark.parametrize(
    ("table", "more", "line"),
    [
        ({"a": X, "b": X}, {}, r"one word .* in 'a', 'b'; if they mean no: words={.*'a': .*}"),
        (
            {"a": ["p;q", "", "q;r", "p"]},
            {"words": {"a": "answers"}},
            r"if they mean none: words=",
        ),
    ],
)
def test_blanks_that_may_mean_no_are_told(table, more, line):
    assert any(re.search(line, note) for note in hopfed.read_table(table, **more).notes)


@pytest.mark.parametrize("rows", [3, 5_000])
@pytest.mark.parametrize("made", [dict, lambda table: np.array(table["kg"])[:, None]])
def test_numbers_without_an_end_are_refused(rows, made):
    table = made({"kg": [*np.arange(rows) * 1.5, 2, np.inf]})
    with pytest.raises(
        ColumnsError, match=r"'inf', which is no number.*'inf': 'missing'"
    ) as caught:
        hopfed.read_table(table, binarize="mean")
    words = {caught.value.columns[0]: {"inf": None}}
    assert signs(hopfed.read_table(table, binarize="mean", words=words))[0][-1] == 0


def test_the_line_to_paste_cuts_no_ids_weights_or_totals():
    table = {
        "person_id": [7, 7, 8, 8, 9, 9],
        "wt": [0.5, 1.5, 1, 1, 2, 1],
        "total_score": [3, 4, 5, 3, 2, 1],
        "age": [30, 40, 50, 60, 70, 80],
        **{name: ["yes", "no", "NS/NC", "yes", "no", "no"] for name in ("a", "b", "c")},
    }
    with pytest.raises(ColumnsError) as caught:
        read_tables([table], choices=CLI)
    last = str(caught.value).split("\n")[-1]
    assert last == (
        "to settle all of them: --words NS/NC=missing "
        "--binarize age=median "
        "--ignore person_id --ignore wt --ignore total_score"
    )
    [read] = read_tables([table], choices=pasted(last.partition(": ")[2]))
    assert read.columns == ("age", "a", "b", "c")


@pytest.mark.parametrize(
    ("column", "more", "message"),
    [
        (["present", "missing", "present"], {}, "'missing' stands beside 'present'"),
        (["5", "x", "5"], {}, "'x' is not a number; commonest"),
        (["a", "b", "a"], {"words": "a=answers"}, "words must be a dict"),
        (["a", "b", "a"], {"ignore": "Count"}, "no column 'Count'; did you mean 'count'"),
    ],
)
def test_what_is_in_the_way_is_said(column, more, message):
    with pytest.raises(HopfedError, match=message):
        hopfed.read_table({"count": column, "a": [0, 1, 1], "b": [1, 0, 1]}, **more)


@pytest.mark.parametrize(
    ("counts", "cut"),
    [
        ([5, 5, 10, 20, 160], 4),  # "5" is the median: nothing lay above it
        ([5, 35, 45, 10, 5], 2),  # 60 of 100 lie above 2, and 15 above the median
        ([160, 20, 10, 5, 5], 1),
    ],
)
def test_a_median_halves_the_rows_as_well_as_any_value(counts, cut):
    x = np.random.default_rng(0).permutation(np.repeat([1, 2, 3, 4, 5], counts))
    table = hopfed.read_table({"a": x, "b": x % 2}, binarize={"a": "median"})
    assert table.coding.codes[0].threshold == cut
    assert (unpack(table.rows)[:, 0] > 0).tolist() == (x > cut).tolist()
    with pytest.warns(ConvergenceWarning, match="too little data"):
        mine = ArchetypeMixture().fit(np.stack([x, x % 2], axis=1))
    assert ((x > mine.thresholds_[0]) == (x > cut)).all()


def dummies(columns, rows=60, seed=0, low=0):
    return np.random.default_rng(seed).integers(low, 2, (rows, columns))


def test_a_column_with_minus_one_does_not_make_zeros_of_dummies_missing():
    """`complete` wrote 1 over every 0 of them, and one with a -1 was never cut."""
    table = {f"d{j}": column.tolist() for j, column in enumerate(dummies(4).T)}
    table["change"] = dummies(1, seed=1, low=-1)[:, 0].tolist()
    with pytest.raises(DataError, match=r"column 'change' holds numbers; commonest -1"):
        hopfed.read_table(table)
    read = hopfed.read_table(table, binarize={"change": "median"})
    assert np.array_equal(unpack(read.rows)[:, :4], 2 * dummies(4) - 1)
    assert np.array_equal(unpack(read.rows)[:, 4] > 0, np.array(table["change"]) > 0)
    read = hopfed.read_table(table, words={"change": {"0": None}})
    assert np.array_equal(unpack(read.rows)[:, :4], 2 * dummies(4) - 1)
    assert np.array_equal(unpack(read.rows)[:, 4], table["change"])
    table["change"] = (2 * dummies(1, seed=2)[:, 0] - 1).tolist()  # signs without a 0
    read = hopfed.read_table(table)
    assert np.array_equal(unpack(read.rows)[:, :4], 2 * dummies(4) - 1)


@pytest.mark.filterwarnings("ignore:.*0 is missing")
def test_a_zero_is_missing_where_nearly_all_columns_have_a_minus_one():
    rows = np.hstack([dummies(8, low=-1), dummies(1, seed=1)])
    table = {f"q{j}": column.tolist() for j, column in enumerate(rows.T)}
    read = hopfed.read_table(table)
    assert np.array_equal(unpack(read.rows), rows)
    assert "where 0 means no, say so: words={'q8': {'0': -1}}" in read.notes[0]
    read = hopfed.read_table(table, words={"q8": {"0": -1}})
    assert np.array_equal(unpack(read.rows), np.hstack([rows[:, :8], 2 * rows[:, 8:] - 1]))
    assert np.array_equal(unpack(hopfed.read_table(rows).rows), rows)  # without names


def column(options, mark, rows):
    """Every combination of some options, drawn for each row."""
    held = [mark.join(c) for n in range(1, len(options) + 1) for c in combinations(options, n)]
    chosen = np.random.default_rng(0).integers(0, len(held), rows)
    chosen[: len(held)] = np.arange(len(held))
    return [held[k] for k in chosen]


@pytest.mark.parametrize("mark", [";", "; ", "|", ", "])
def test_combinations_that_became_categories_are_told(mark):
    """Of four options fifteen categories were made, without a word."""
    ways = column(["bike", "bus", "car", "train"], mark, 400)
    table = read_table({"tea": ["yes", "no"] * 200, "way": ways})
    assert len(table.columns) == 16
    said = [line for line in table.notes if "combinations" in line]
    assert len(said) == 1
    assert f"with '{mark.strip()}' between" in said[0]
    assert said[0].endswith("in 'way'; for a column of each: words={'way': 'answers'}")
    told = read_table({"tea": ["yes", "no"] * 200, "way": ways}, words={"way": "category"})
    assert not any("combinations" in line for line in told.notes)


def test_too_many_combinations_are_no_names_of_rows():
    table = {"way": column(list("abcdefg"), ";", 600), "tea": ["yes", "no"] * 300}
    said = "'way' holds 127 different words, combinations of 7 answers .* give words={'way': 'answ"
    with pytest.raises(DataError, match=said):
        read_table(table, id="")


WAYS = ["bus;bike", "", "car; bus", "bike", "?", "bus;"]


def test_each_answer_becomes_a_column():
    """A blank is missing; what a cell does not name is no; answers do not exclude each other."""
    table = read_table({"tea": ["yes", "no"] * 3, "way": WAYS}, words={"way": "answers"})
    assert table.columns == ("tea", "way=bike", "way=bus", "way=car")
    assert kernels.unpack(table.rows)[:, 1:].tolist() == [
        *([1, 1, -1], [0, 0, 0], [-1, 1, 1], [1, -1, -1], [0, 0, 0], [-1, 1, -1])
    ]
    assert table.coding.groups == ()


def test_more_combinations_than_words_are_kept_of_other_columns():
    options = [f"choice {k}" for k in range(14)]
    ticked = np.random.default_rng(1).random((3000, 14)) < 0.5
    cells = [" | ".join(np.array(options)[row].tolist()) for row in ticked]
    assert len(set(cells)) > 1000
    table = read_table({"tea": ["yes", "no"] * 1500, "way": cells}, words={"way": "answers"})
    assert len(table.columns) == 15
    order = [table.columns.index(f"way={name}") for name in options]
    said = ticked.any(axis=1)
    assert np.array_equal(kernels.unpack(table.rows)[:, order][said] > 0, ticked[said])


def test_gaps_are_filled_with_the_answers_that_are_likely():
    rng = np.random.default_rng(2)
    kinds, options = rng.integers(2, size=600), np.array(["bike", "bus", "car", "train"])
    rates = np.array([[0.95, 0.05, 0.9, 0.05], [0.05, 0.9, 0.05, 0.95]])
    ways = [";".join(options[row]) for row in rng.random((600, 4)) < rates[kinds]]
    others = rng.random((600, 5)) < np.where(kinds, 0.9, 0.1)[:, None]
    table = {f"q{j}": column.tolist() for j, column in enumerate(others.T)}
    table["way"] = [None] * 20 + ways[20:]
    found = hopfed.recover(read_table(table, words={"way": "answers"}))
    given = dict(filled(found, table).columns)["way"].to_pylist()
    due = ["bus;train" if kind else "bike;car" for kind in kinds[:20]]
    assert sum(a == b for a, b in zip(given, due, strict=False)) >= 18
    assert given[20:30] == ways[20:30]


def test_numbers_that_may_be_codes_are_offered_as_levels_and_as_categories():
    with pytest.raises(ColumnsError, match="; or --ordinal type; or --words type=category"):
        read_tables([{"type": [1, 2, 3, 4, 5] * 4, "a": [0, 1] * 10}], choices=CLI)


def test_columns_of_numbers_take_no_signs():
    coding = read_table({"kg": [1, 2, 3, 9]}, binarize=2.5).coding
    with pytest.raises(ArgumentError, match="words must be for missing entries, or words of"):
        read_table({"kg": ["much", "1"]}, coding=coding, words={"much": 1})


@pytest.mark.parametrize(
    "how", [{"binarize": "median"}, {"ordinal": "q1,q2", "binarize": {"age": 80}}]
)
@pytest.mark.parametrize("age", [0, 99])
def test_one_option_takes_a_far_number_for_missing_in_all_columns_that_hold_it(how, age):
    cells, choices = [1, 2, 3, 4, 5, 99] * 5, Choices(options=True, **how)
    table = {"q1": cells, "q2": cells[2:] + cells[:2], "age": [age, *range(70, 99)]}
    [read] = read_tables([table], choices=choices)
    way = "q1=99=missing,q2=99=missing" if age else "99=missing"  # an age of 99 is one
    line = f"99, far from others, in 'q1', 'q2'; if that is no answer: --words {way}"
    assert line in read.notes
    told = replace(choices, words=pasted(f"--words {way}").words)
    [again] = read_tables([table], choices=told)
    assert not any("far from others" in said for said in again.notes)
    assert not any(">5" in column for column in again.columns)
    assert not unpack(again.held)[5, : len(again.columns) // 2].any()


@pytest.mark.parametrize("told", [{"ordinal": 5}, {"ignore": [5]}, {"ignore": None}, {"id": 5}])
def test_names_of_columns_are_words(told):
    with pytest.raises(ArgumentError, match=rf"{next(iter(told))} must be (the )?names? of"):
        hopfed.read_table({"a": [0, 1], "b": [1, 0]}, **told)
