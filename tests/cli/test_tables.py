"""Tables with names on the command line: read, described, matched, and named in the answer."""

import json

import numpy as np
import pytest
from helpers import written

NAMES = [f"q{j}" for j in range(30)]


def rows(seed=0, m=600):
    T = np.where(np.random.default_rng(9).random((3, 30)) < 0.5, 0.1, 0.9)
    rng = np.random.default_rng(seed)
    return rng.random((m, 30)) < T[rng.integers(3, size=m)]


def write(path, x, columns=range(30), extra=()):
    cells = [
        [f"row {k}", *("yes" if row[j] else "no" for j in columns), *(c(k) for _, c in extra)]
        for k, row in enumerate(x)
    ]
    head = ["id", *(NAMES[j] for j in columns), *(name for name, _ in extra)]
    return written(path, head, cells)


def test_owners_are_matched_by_name_and_may_lack_columns(hopfed, tmp_path):
    x = rows()
    a, b = write(tmp_path / "a.csv", x[:300]), write(tmp_path / "b.csv", x[300:], range(28))
    error = hopfed.refused("recover", a, b)
    assert error.startswith(f"error: {b}: lacks 'q28', 'q29' of {a}; columns that not all have")
    hopfed.done("recover", a, b, "--columns", "union", "--out", tmp_path / "run.h5")
    given = ("assign", tmp_path / "run.h5", b, "--out", tmp_path / "rows.csv", "--json")
    assert json.loads(hopfed.done(*given)[0])["none"] < 30


def test_a_dry_run_says_what_was_read(hopfed, tmp_path):
    path = write(tmp_path / "a.csv", rows(), extra=[("n", lambda k: str(k % 4))])
    status, text, error = hopfed("recover", path, "--dry-run", "--binarize", "n=levels")
    assert (status, error) == (0, "")
    assert "600 rows, 34 columns, no gaps" in text
    assert "y/yes is +1, n/no is -1: 'q0', 'q1'" in text
    assert "4 categories: 0, 1, 2, 3: 'n'" in text
    assert "smallest share found" in text
    said = json.loads(hopfed.done("recover", path, "--dry-run", "--json", "--ignore", "n")[0])
    assert (said["rows"], said["columns"], said["missing"]) == (600, 30, 0.0)
    assert said["rates"]["q3"] == pytest.approx(rows()[:, 3].mean())
    shares = [line["smallest_share"] for line in said["expected"]]
    assert shares == sorted(shares, reverse=True)
