"""With epsilon no row decides how others are coded, or which column or row holds names."""

import re

import numpy as np
import pytest

from hopfed import kernels
from hopfed._lib.random import stream
from hopfed.tables import reading
from hopfed.tables.reading import read_table

M = 400


@pytest.fixture(autouse=True)
def _home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOPFED_HOME", str(tmp_path / "home"))


@pytest.fixture
def survey(tmp_path):
    """Write 400 rows of yes and no and a column more."""
    answers = stream(0, "answers").integers(0, 2, (M, 6)).tolist()

    def write(column):
        lines = [",".join(map(str, [*row, x])) for row, x in zip(answers, column, strict=True)]
        path = tmp_path / "a.csv"
        path.write_text("\n".join(["a,b,c,d,e,f,own", *lines]))
        return path

    return write


@pytest.fixture
def join(hopfed):
    """What `hopfed join` says of a file that it would take part with."""

    def said(path, *options, way=("--epsilon", "1")):
        status, out, err = hopfed("join", "--data", path, "--dry-run", *way, *options)
        assert status == (2 if err else 0)
        return err or out

    return said


WORDS, CUT = ("--words", "ash=-1,yew=+1,oak=+1"), ("--binarize", "own=12")
MEAN, MEDIAN = (("--binarize", f"own={how}") for how in ("mean", "median"))
CHANGED = [  # the column of one table, what the last person says in the other one, what settles it
    (["ash"] * M, "yew", (), WORDS, "--ignore"),
    (["ash"] * 200 + ["yew"] * 200, "oak", (), WORDS, "--words ash=-1,yew=+1"),
    (["5"] * M, "7", (), ("--words", "5=-1,7=+1,0=+1"), "--words 5="),
    (["10"] * 200 + ["20"] * 199 + ["30"], "10", MEAN, CUT, "--binarize COLUMN=NUMBER"),
    (["10"] * 200 + ["20"] * 200, "90", MEDIAN, CUT, "--binarize COLUMN=NUMBER"),
    (["ash", "oak", "yew", "fir"] * 100, "ash", (), ("--ignore", "own"), "--ignore"),
    # beside a 7, no 1 would be +1
    (["1"] * 399 + ["0"], "1", ("--binarize", "own=5"), (), "--binarize COLUMN=NUMBER"),
]


@pytest.mark.parametrize(("column", "last", "options", "settled", "advice"), CHANGED)
def test_with_epsilon_no_row_decides_how_others_are_coded(
    survey, join, column, last, options, settled, advice
):
    """Of "ash" alone and of 399 "ash" and a "yew", 399 rows were opposite; noise is for one."""
    for cells in (column, [*column[:-1], last]):
        assert "decides how column 'own' is coded" in join(survey(cells), *options)
        assert "Nothing was sent" in join(survey(cells), *settled)
    assert advice in join(survey(column), *options).partition("without these rows: ")[2]


def test_without_noise_no_owner_decides_what_the_columns_of_others_mean(survey, join):
    """One owner's 2 was another's "ja", and each cut at a median of its own."""
    for column, options in ((CHANGED[1][0], ()), (CHANGED[4][0], MEDIAN)):
        said = join(survey(column), *options, way=("--trust-server",))
        assert "decides how column 'own' is coded, so that other owners' columns mean" in said


CODED = [  # cells of a column, and what the last row says in the other table
    (["0", "1"] * 200, "-1"),
    (["-"] * 400, "+"),
    (["0", "1"] * 199 + ["0", ""], "-1"),
]


@pytest.mark.parametrize(("cells", "last"), CODED, ids=["zero", "dash", "gap"])
def test_no_row_decides_which_entries_of_others_are_missing(survey, join, monkeypatch, cells, last):
    """Where both tables are taken, the first 399 rows are the same."""
    taken, read_tables, accepted = [], reading.read_tables, []

    def reads(*arguments, **named):
        tables = read_tables(*arguments, **named)
        taken.append(kernels.unpack(tables[0].rows)[: M - 1])
        return tables

    monkeypatch.setattr(reading, "read_tables", reads)
    for column in (cells, [*cells[:-1], last]):
        said = join(survey(column))
        if "Nothing was sent" in said:
            accepted.append(taken[-1])
        else:
            assert re.search("decides how column|if there is no answer|if 0 means no answer", said)
    if len(accepted) == 2:
        np.testing.assert_array_equal(*accepted)


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


def test_with_epsilon_no_row_decides_which_column_is_left_out(tmp_path, join):
    """One row swapped a whole column of the table for another of the same width."""
    paths = [visits(tmp_path / f"{name}.csv", name) for name in ("key", "index")]
    tables = [read_table(path, binarize=50) for path in paths]
    assert [table.columns[0] for table in tables] == ["key", "index"]
    for path in paths:
        told = join(path, "--binarize", "50")
        assert "how column 'index' is" in told or "how column 'key' is" in told
        for settled in (["--id", "key"], ["--id", ""], ["--ignore", "key", "--ignore", "index"]):
            assert "Nothing was sent" in join(path, "--binarize", "50", *settled)


@pytest.mark.parametrize("last", [["ash", "yew"], ["0", "1"]])
def test_the_first_row_is_not_taken_for_names(tmp_path, join, last):
    """Where its words are said to be entries, it told of itself by the number of rows."""
    draws = stream(0, "tables")
    cells = np.column_stack([draws.choice(words, M + 1) for words in (["ash", "yew"], last)])
    path = tmp_path / "own.csv"
    path.write_text("\n".join(",".join(row) for row in cells))
    assert len(read_table(path, words={"ash": True, "yew": False})) == M + 1
    assert "Nothing was sent" in join(path, "--words", "ash=+1", "--words", "yew=-1")
