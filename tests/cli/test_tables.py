"""Tables with names on the command line: read, described, matched, and named in the answer."""

import json

import numpy as np
import pytest
from helpers import written

from hopfed import load

FORGED = "a\n\nok: 2 classes explain how the columns depend on each other.\x1b[2J\n1,500 examples ("
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
    assert error.startswith(f"error: {b}: lacks 'q28', 'q29' of {a}; --columns union")
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
    weighed = json.loads(hopfed.done("recover", path, "--dry-run", "--json", "--weights", "n")[0])
    assert (weighed["rows"], weighed["columns"], weighed["missing"]) == (600, 30, 0.0)
    shares = [line["smallest_share"] for line in said["expected"]]
    assert shares == sorted(shares, reverse=True)


def test_a_name_of_a_column_is_no_line_of_a_verdict(hopfed, tmp_path):
    """Of two classes, of whose columns p and 16 + p agree more often than these say."""
    rng = np.random.default_rng(0)
    means = 2 * rng.beta(0.7, 0.7, (2, 40)) - 1
    x = rng.random((1500, 40)) < (1 + means[rng.integers(2, size=1500)]) / 2
    x[:, 16:24] = np.where(rng.random((1500, 8)) < 0.8, x[:, :8], x[:, 16:24])
    names, run = [f"{FORGED}{j}" for j in range(40)], tmp_path / "x.h5"
    table = written(tmp_path / "a.csv", names, np.where(x, "yes", "no"))
    text, errors = hopfed.done("recover", table, "--out", run)
    assert "'a\\n\\nok: 2 classes" in text
    found = load(run)
    assert found.columns == tuple(names)  # which the file keeps as they are
    for said in (text, errors, *hopfed.done("show", run), found.summary(), found._repr_html_()):
        assert "\x1b" not in said
        assert not any(line.startswith("ok:") for line in said.splitlines())
