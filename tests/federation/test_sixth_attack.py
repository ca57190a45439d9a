"""What a sixth attack on the defaults found, as tests."""

from contextlib import suppress

import numpy as np
import pytest

from hopfed import kernels
from hopfed._lib.random import stream
from hopfed.cli import main
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


@pytest.mark.parametrize(("last", "rows"), [(["ash", "yew"], M), (["0", "1"], M + 1)])
def test_the_first_row_is_not_taken_for_names(tmp_path, capsys, monkeypatch, last, rows):
    """Where its words are said to be entries, it told of itself by the number of rows."""
    monkeypatch.setenv("HOPFED_HOME", str(tmp_path / "home"))
    draws = stream(0, "sixth attack")
    cells = np.column_stack([draws.choice(words, M + 1) for words in (["ash", "yew"], last)])
    path = tmp_path / "own.csv"
    path.write_text("\n".join(",".join(row) for row in cells))
    assert len(read_table(path, words={"ash": True, "yew": False})) == rows
    told = join(capsys, "--data", path, "--words", "ash=+1", "--words", "yew=-1")
    assert ("decides how column" in told) == (rows == M)
    assert ("Nothing was sent" in told) == (rows > M)
