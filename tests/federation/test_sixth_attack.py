"""What a sixth attack on the defaults found, as tests."""

from contextlib import suppress

import numpy as np
import pytest

from hopfed import kernels
from hopfed._lib.random import stream
from hopfed.cli import main
from hopfed.hopfield.leaks.broken_relations import broken_by
from hopfed.tables.reading import read_table

M = 400


def visits(path, changed):
    """Write two columns of whole numbers and three of scores; one row is changed, or another."""
    draws = stream(0, "sixth attack")
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
    draws = stream(0, "sixth attack")
    cells = np.column_stack([draws.choice(words, M + 1) for words in (["ash", "yew"], last)])
    path = tmp_path / "own.csv"
    path.write_text("\n".join(",".join(row) for row in cells))
    assert len(read_table(path, words={"ash": True, "yew": False})) == M + 1
    told = join(capsys, "--data", path, "--words", "ash=+1", "--words", "yew=-1")
    assert "Nothing was sent" in told


@pytest.mark.parametrize(("answers", "found"), [((0, 3, 5), 1), ((0, 3, 5, 8), 1), ((2, 2, 2), 0)])
@pytest.mark.parametrize(("rows", "columns"), [(1000, 60), (2000, 200)])
def test_rows_that_break_a_relation_by_different_amounts_are_digits(rows, columns, answers, found):
    """Of 2,000 rows with one answer of eight, those with none, three and five were read off."""
    draws = stream(0, "sixth attack")
    x = draws.choice([-1, 1], (rows, columns))
    given = np.ones(rows, int)
    who = np.arange(len(answers))
    given[who] = answers
    x[:, :8] = np.where(draws.random((rows, 8)).argsort(axis=1) < given[:, None], 1, -1)
    weights = (x[:, :8].sum(axis=1) + 6) / 2
    assert (np.flatnonzero(weights) == who).all()
    if found:  # -1, 2, 4 and 7: of the sum, the sign of the largest weight is that of its row
        assert (np.sign(weights @ x) == x[who[-1]]).mean() > 0.8
    assert (len(broken_by(kernels.pack(x), 3)) > 0) == bool(found)
    assert len(broken_by(kernels.pack(x), 2)) == 0


@pytest.mark.parametrize("questions", [2, 4, 8])
def test_relations_that_others_break_too_do_not_hide_each_other(questions):
    draws = stream(0, "sixth attack")
    parts = [draws.choice([-1, 1], (3000, 20))]
    for k in range(questions):
        given = np.ones(3000, int)
        given[3 * k : 3 * k + 3] = 0, 3, 5
        order = draws.random((3000, 8)).argsort(axis=1)
        parts.append(np.where(order < given[:, None], 1, -1))
    found = broken_by(kernels.pack(np.hstack(parts)), 3)
    assert set(3 * np.arange(questions) + 2) <= set(found.tolist())
