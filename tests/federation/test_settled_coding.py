"""With epsilon no row decides how others are coded, or which column or row holds names."""

import numpy as np
import pytest

from hopfed._lib.random import stream
from hopfed.tables.reading import read_table

M = 400
ANSWERS = stream(0, "answers").integers(0, 2, (M, 6))


@pytest.fixture
def join(hopfed, tmp_path, monkeypatch):
    """What `hopfed join` says of columns that it would take part with."""
    monkeypatch.setenv("HOPFED_HOME", str(tmp_path / "home"))

    def said(head, columns, *options, way=("--epsilon", "1")):
        rows = zip(*columns, strict=True)
        path = tmp_path / "a.csv"
        path.write_text("\n".join([*head, *(",".join(map(str, row)) for row in rows)]))
        status, out, err = hopfed("join", "--data", path, "--dry-run", *way, *options)
        assert status == (2 if err else 0)
        return err or out

    return said


WORDS, CUT = ("--words", "ash=-1,yew=+1,oak=+1"), ("--binarize", "own=12")
MEAN, MEDIAN = (("--binarize", f"own={how}") for how in ("mean", "median"))
TREES = ["ash"] * 200 + ["yew"] * 200
CHANGED = [  # the column of one table, what the last person says in the other one, what settles it
    (["ash"] * M, "yew", (), WORDS, "--ignore"),
    (TREES, "oak", (), WORDS, "--words ash=-1,yew=+1"),
    (["5"] * M, "7", (), ("--words", "5=-1,7=+1,0=+1"), "--words 5="),
    (["10"] * 200 + ["20"] * 199 + ["30"], "10", MEAN, CUT, "--binarize COLUMN=NUMBER"),
    (["10"] * 200 + ["20"] * 200, "90", MEDIAN, CUT, "--binarize COLUMN=NUMBER"),
    (["ash", "oak", "yew", "fir"] * 100, "ash", (), ("--ignore", "own"), "--ignore"),
    # beside a 7, no 1 would be +1
    (["1"] * 399 + ["0"], "1", ("--binarize", "own=5"), (), "--binarize COLUMN=NUMBER"),
]
HEAD = ["a,b,c,d,e,f,own"]


@pytest.mark.parametrize(("column", "last", "options", "settled", "advice"), CHANGED)
def test_with_epsilon_no_row_decides_how_others_are_coded(
    join, column, last, options, settled, advice
):
    """Of "ash" alone and of 399 "ash" and a "yew", 399 rows were opposite; noise is for one."""
    for cells in (column, [*column[:-1], last]):
        assert "decides how column 'own' is coded" in join(HEAD, [*ANSWERS.T, cells], *options)
        assert "Nothing was sent" in join(HEAD, [*ANSWERS.T, cells], *settled)
    said = join(HEAD, [*ANSWERS.T, column], *options)
    assert advice in said.partition("without these rows: ")[2]
    if column == TREES or options == MEDIAN:  # without noise either: one's 2 is another's "ja"
        said = join(HEAD, [*ANSWERS.T, column], *options, way=("--trust-server",))
        assert "decides how column 'own' is coded, so that other owners' columns mean" in said


@pytest.mark.parametrize(("cells", "last"), [(["0", "1"] * 200, "-1"), (["-"] * 400, "+")])
def test_no_row_decides_which_entries_of_others_are_missing(join, cells, last):
    """Where both tables are taken, a - is a gap in either."""
    assert "Nothing was sent" in join(HEAD, [*ANSWERS.T, cells])
    said = join(HEAD, [*ANSWERS.T, [*cells[:-1], last]])
    assert ("if 0 means no answer" if last == "-1" else "These rows have gaps") in said


@pytest.mark.parametrize("changed", [0, 1])
def test_with_epsilon_no_row_decides_which_column_is_left_out(join, changed):
    """Two columns of whole numbers, one of which would name rows but for one row."""
    draws = stream(0, "tables")
    scores, index = draws.integers(0, 100, (M, 3)), draws.permutation(M)
    columns = [np.arange(M), index, *scores.T]
    columns[changed][7] = columns[changed][8]  # which no longer differ, and are no names
    given = ["key,index,a,b,c"], columns, "--binarize", "50"
    told = join(*given)
    assert f"how column '{['index', 'key'][changed]}' is" in told
    for settled in (["--id", "key"], ["--id", ""], ["--ignore", "key", "--ignore", "index"]):
        assert "Nothing was sent" in join(
            ["key,index,a,b,c"], columns, "--binarize", "50", *settled
        )


@pytest.mark.parametrize("last", [["ash", "yew"], ["0", "1"]])
def test_the_first_row_is_not_taken_for_names(tmp_path, join, last):
    """Where its words are said to be entries, it told of itself by the number of rows."""
    draws = stream(0, "tables")
    cells = [draws.choice(words, M + 1) for words in (["ash", "yew"], last)]
    assert "Nothing was sent" in join([], cells, "--words", "ash=+1", "--words", "yew=-1")
    assert len(read_table(tmp_path / "a.csv", words={"ash": True, "yew": False})) == M + 1
