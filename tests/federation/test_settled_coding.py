"""With epsilon no row decides how others are coded, or which column or row holds names."""

from contextlib import suppress

import numpy as np
import pytest

from hopfed import kernels
from hopfed._lib.random import stream
from hopfed.cli import main
from hopfed.cli.machines.join_checks import unsettled
from hopfed.tables.options import Choices
from hopfed.tables.reading import read_table

M = 400


@pytest.fixture
def survey(tmp_path, monkeypatch):
    """Write 400 rows of yes and no and a column more."""
    monkeypatch.setenv("HOPFED_HOME", str(tmp_path / "home"))
    answers = stream(0, "answers").integers(0, 2, (M, 6)).tolist()

    def write(name, column):
        lines = [
            ",".join(map(str, row)) + f",{cell}" for row, cell in zip(answers, column, strict=True)
        ]
        path = tmp_path / name
        path.write_text("\n".join(["a,b,c,d,e,f,own", *lines]))
        return path

    return write


CHANGED = [  # the column of one table, and what the last person says in the other one
    (["ash"] * M, "yew", ()),
    (["5"] * M, "7", ()),
    (["10"] * 200 + ["20"] * 199 + ["30"], "10", ("--binarize", "own=mean")),
    (["10"] * 200 + ["20"] * 200, "10", ("--binarize", "own=median")),
    (["ash"] * 200 + ["yew"] * 200, "oak", ()),
    (["1"] * 399 + ["0"], "1", ("--binarize", "own=5")),  # beside a 7, no 1 would be +1
]


@pytest.mark.parametrize(("column", "last", "options"), CHANGED)
def test_with_epsilon_no_row_decides_how_others_are_coded(survey, capsys, column, last, options):
    """Of "ash" alone and of 399 "ash" and a "yew", 399 rows were opposite; noise is for one."""
    for name, cells in (("a.csv", column), ("b.csv", [*column[:-1], last])):
        words = ["join", "--data", str(survey(name, cells)), "--dry-run", "--epsilon", "1"]
        with pytest.raises(SystemExit) as end:
            main([*words, *options])
        assert end.value.code == 2
        assert "decides how column 'own' is coded" in capsys.readouterr().err


def test_what_is_said_of_words_and_numbers_is_enough(survey, capsys):
    """The rows other than the changed one are the same."""
    for column, last, options in (
        (["ash"] * M, "yew", ("--words", "ash=-1", "--words", "yew=+1")),
        (["1"] * M, "2", ("--words", "1=-1", "--words", "2=+1", "--words", "0=+1")),
        (["10"] * 200 + ["20"] * 200, "90", ("--binarize", "own=12")),
        (["yes"] * M, "no", ()),
    ):
        for name, cells in (("a.csv", column), ("b.csv", [*column[:-1], last])):
            path = survey(name, cells)
            main(["join", "--data", str(path), "--dry-run", "--epsilon", "1", *options])
            assert "Nothing was sent" in capsys.readouterr().out


SETTLED = [  # a column, and how the whole table was to be read
    (["ash"] * 200 + ["yew"] * 200, ()),
    (["5"] * 200 + ["7"] * 200, ()),
    (["1"] * 200 + ["2"] * 200, ()),
    (["10", "20", "30", "40"] * 100, ("--binarize", "own=median")),
    (["10", "20", "30", "40"] * 100, ("--binarize", "20")),  # which is for 0 and 1, too
    (["10", "20", "30", "40"] * 100, ("--binarize", "own=levels")),
    (["ash", "oak", "yew", "fir"] * 100, ()),
    (["ash", "oak", "yew", "fir"] * 100, ("--words", "own=category")),
    (["1"] * 399 + ["0"], ("--binarize", "own=5")),
]


@pytest.mark.parametrize(("column", "options"), SETTLED[:1] + SETTLED[3:4] + SETTLED[6:7])
def test_the_option_that_settles_it_is_named(survey, capsys, column, options):
    words = ["join", "--data", str(survey("a.csv", column)), "--dry-run", "--epsilon", "1"]
    with pytest.raises(SystemExit):
        main([*words, *options])
    advice = capsys.readouterr().err.partition("without these rows: ")[2]
    due = {"ash=-1,yew=+1": "yew", "--binarize COLUMN=NUMBER": "40", "--ignore": "fir"}
    assert [option for option in due if option in advice] == [
        option for option, word in due.items() if word == column[-1]
    ]


BY_ROWS = [
    case for case in SETTLED if case[1] not in (("--binarize", "20"), ("--binarize", "own=5"))
]


@pytest.mark.parametrize(("column", "options"), BY_ROWS)
def test_without_noise_owners_say_alike_what_rows_would_decide(survey, capsys, column, options):
    """One owner's 2 was another's "ja", and each cut at a median of its own."""
    path = survey("a.csv", column)
    with pytest.raises(SystemExit):
        main(["join", "--data", str(path), "--trust-server", "--dry-run", *options])
    said = capsys.readouterr().err
    assert "decides how column 'own' is coded, so that other owners' columns mean" in said


def visits(path, changed):
    """Write two columns of whole numbers and three of scores; one row is changed, or another."""
    draws = stream(0, "tables")
    scores, index = draws.integers(0, 100, (M, 3)), draws.permutation(M)
    columns = {"key": np.arange(M), "index": index}
    columns[changed][7] = columns[changed][8]  # which no longer differ, and are no names
    whole = np.column_stack([*columns.values(), scores])
    lines = [",".join(map(str, row)) for row in whole.tolist()]
    path.write_text("\n".join(["key,index,a,b,c", *lines]))
    return path


def join(capsys, *words):
    with suppress(SystemExit):
        main(["join", "--dry-run", "--epsilon", "1", *map(str, words)])
    said = capsys.readouterr()
    return said.err or said.out


def test_with_epsilon_no_row_decides_which_column_is_left_out(tmp_path, capsys, monkeypatch):
    """One row swapped a whole column of the table for another of the same width."""
    monkeypatch.setenv("HOPFED_HOME", str(tmp_path / "home"))
    a, b = (visits(tmp_path / f"{name}.csv", name) for name in ("key", "index"))
    tables = [read_table(path, binarize=50) for path in (a, b)]
    assert [table.columns[0] for table in tables] == ["key", "index"]
    first, second = (kernels.unpack(table.rows).astype(int) for table in tables)
    assert (first != second).any(axis=1).sum() > 50
    for path in (a, b):
        told = join(capsys, "--data", path, "--binarize", "50")
        assert "how column 'index' is" in told or "how column 'key' is" in told
        for settled in (["--id", "key"], ["--id", ""], ["--ignore", "key", "--ignore", "index"]):
            told = join(capsys, "--data", path, "--binarize", "50", *settled)
            assert "Nothing was sent" in told


@pytest.mark.parametrize("last", [["ash", "yew"], ["0", "1"]])
def test_the_first_row_is_not_taken_for_names(tmp_path, capsys, monkeypatch, last):
    """Where its words are said to be entries, it told of itself by the number of rows."""
    monkeypatch.setenv("HOPFED_HOME", str(tmp_path / "home"))
    draws = stream(0, "tables")
    cells = np.column_stack([draws.choice(words, M + 1) for words in (["ash", "yew"], last)])
    path = tmp_path / "own.csv"
    path.write_text("\n".join(",".join(row) for row in cells))
    assert len(read_table(path, words={"ash": True, "yew": False})) == M + 1
    told = join(capsys, "--data", path, "--words", "ash=+1", "--words", "yew=-1")
    assert "Nothing was sent" in told


def test_columns_that_a_row_would_code_in_another_way_are_named():
    table = read_table({"tea": ["yes", "no"], "tree": ["ash", "yew"], "size": [1, 2]})
    assert unsettled(table.coding, Choices()) == {"tree": "category", "size": "words"}
    said = Choices(words={"ash": -1, "yew": 1, "1": -1, "2": 1})
    again = read_table({"tree": ["ash", "yew"], "size": [1, 2]}, words=said.words)
    assert unsettled(again.coding, said) == {}
