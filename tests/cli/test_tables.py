"""Tables with names on the command line: read, described, matched, and named in the answer."""

import json

import numpy as np
import pytest
from helpers import written

NAMES = [f"q{j}" for j in range(30)]


def rows(seed=0, m=600):
    rng = np.random.default_rng(seed)
    T = np.where(np.random.default_rng(9).random((3, 30)) < 0.5, 0.1, 0.9)
    return rng.random((m, 30)) < T[rng.integers(3, size=m)]


def write(path, x, order=range(30), extra=()):
    cells = [
        [f"{path.stem}{k}", *("yes" if row[j] else "no" for j in order), *(c(k) for _, c in extra)]
        for k, row in enumerate(x)
    ]
    return written(path, ["id", *(NAMES[j] for j in order), *(name for name, _ in extra)], cells)


def test_owners_are_matched_by_name(hopfed, tmp_path):
    x, turned = rows(), np.random.default_rng(2).permutation(30)
    a, b = write(tmp_path / "a.csv", x[:300]), write(tmp_path / "b.csv", x[300:], turned)
    _, text, _ = hopfed("recover", a, b, "--json")
    np.save(tmp_path / "a.npy", x[:300])
    np.save(tmp_path / "b.npy", x[300:])
    _, plain, _ = hopfed("recover", tmp_path / "a.npy", tmp_path / "b.npy", "--json")
    one, two = json.loads(text), json.loads(plain)
    assert one["n_archetypes"] == two["n_archetypes"] == 3
    assert one["exposures"] == two["exposures"]
    union, run = write(tmp_path / "u.csv", x[300:], [*range(28)]), tmp_path / "run.h5"
    hopfed.done("recover", a, union, "--columns", "union", "--out", run)
    text, _ = hopfed.done("assign", run, union, "--out", tmp_path / "rows.csv", "--json")
    assert json.loads(text)["none"] < 30
    error = hopfed.refused("recover", a, union)
    assert error.startswith(f"error: {union}: lacks 'q28', 'q29' of {a}; columns that not all have")


def test_a_dry_run_says_what_was_read(hopfed, tmp_path):
    path = write(tmp_path / "a.csv", rows(), extra=[("n", lambda k: str(k % 4))])
    status, text, error = hopfed("recover", path, "--dry-run", "--binarize", "n=levels")
    assert (status, error) == (0, "")
    assert "600 rows, 34 columns, no gaps" in text
    assert "y/yes is +1, n/no is -1: 'q0', 'q1'" in text
    assert "4 categories: 0, 1, 2, 3: 'n'" in text
    assert "smallest share found" in text
    _, text, _ = hopfed("recover", path, "--dry-run", "--json", "--ignore", "n")
    said = json.loads(text)
    assert (said["rows"], said["columns"], said["missing"]) == (600, 30, 0.0)
    assert said["rates"]["q3"] == pytest.approx(rows()[:, 3].mean())
    shares = [line["smallest_share"] for line in said["expected"]]
    assert shares == sorted(shares, reverse=True)
    assert not list(tmp_path.glob("*.h5"))
