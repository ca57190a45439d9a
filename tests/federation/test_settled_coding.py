"""With epsilon no row decides how others are coded, or which column or row holds names."""

from contextlib import suppress

import pytest

from hopfed._lib.random import stream
from hopfed.cli import main

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


def join(capsys, *words):
    with suppress(SystemExit):
        main(["join", "--dry-run", "--epsilon", "1", *map(str, words)])
    said = capsys.readouterr()
    return said.err or said.out
