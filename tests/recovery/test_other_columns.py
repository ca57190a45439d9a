"""Owners who hold different columns are not taken for classes, and classes are found all the same.

The spectrum shows up to four directions more, as the owners' shares differ by chance.
"""

import json

import numpy as np
import pytest
from graded_tables import classes
from helpers import rest_slow, written

from hopfed.recovery.recover import run_recovery


def recovered(x, part, seed):
    """Recovery from three owners, each without another part of the columns."""
    N = x.shape[1]
    order, size = np.random.default_rng(seed).permutation(N), int(N * part)
    owners = []
    for owner, rows in enumerate(np.array_split(x, 3)):
        kept = np.delete(order, slice(owner * size, (owner + 1) * size))
        cells = np.where(rows[:, kept] == 0, np.nan, rows[:, kept])
        owners.append({f"q{j}": column for j, column in zip(kept, cells.T, strict=True)})
    return run_recovery(owners, seed=seed, columns="union").archetypes


@pytest.mark.parametrize(
    ("K", "N", "M", "shape", "missing", "part"),
    rest_slow(
        [
            (3, 60, 1500, (1, 1), 0.0, 1 / 3),
            (4, 90, 900, (1, 4), 0.2, 1 / 4),
            (8, 200, 2400, (0.5, 5), 0.0, 1 / 3),
            (3, 300, 240, (1, 1), 0.0, 1 / 4),
        ],
        1,
    ),
)
def test_classes_are_found(K, N, M, shape, missing, part):
    found = recovered(classes(K, N, M, 0, shape=shape, missing=missing)[2], part, 0)
    assert len(found) == K
    assert found.status == "ok"
    assert K <= found.n_detected <= K + 4
    assert len(found.columns) == N


def test_classes_that_only_one_owner_has_are_found():
    """Nobody knows their means in columns that this owner lacks."""
    T, y, x = classes(4, 80, 1600, 3)
    found = recovered(x[np.argsort(y)], 1 / 4, 3)
    assert len(found) == 4
    order = [int(name[1:]) for name in found.columns]
    distance = np.median(np.abs(found.means[:, None] - T[None, :, order]), axis=2)
    assert (distance.min(axis=0) < 0.1).all()


@pytest.mark.parametrize("seed", rest_slow(range(10), 1))
def test_owners_of_independent_columns_are_no_classes(seed):
    rng = np.random.default_rng(seed)
    found = recovered(np.where(rng.random((1200, 100)) < rng.random(100), 1, -1), 1 / 3, seed)
    assert (found.status, len(found)) == ("one class", 1)
    assert found.n_detected <= 1


def test_the_command_takes_files_of_different_columns(hopfed, tmp_path):
    x, files = classes(3, 40, 600, 5)[2] > 0, []
    for owner, rows in enumerate(np.array_split(x, 3)):
        kept = [j for j in range(40) if j % 5 != owner]
        head = [f"q{j}" for j in kept]
        files.append(written(tmp_path / f"{owner}.csv", head, rows[:, kept].astype(int)))
    assert "--columns union" in hopfed.refused("recover", *files)
    text, notes = hopfed.done("recover", *files, "--columns", "union", "--json")
    report = json.loads(text)
    assert (report["status"], report["n_archetypes"]) == ("ok", 3)
    assert sorted(report["columns"]) == sorted(f"q{j}" for j in range(40))
    assert "lacks 'q0', 'q5'" in notes
    text, _ = hopfed.done("recover", *files, "--columns", "shared", "--dry-run", "--json")
    assert sorted(json.loads(text)["rates"]) == sorted(f"q{j}" for j in range(40) if j % 5 > 2)
