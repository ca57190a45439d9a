"""Owners who hold different columns are not taken for classes, and classes are found all the same.

The spectrum shows up to four directions more, as the owners' shares differ by chance.
"""

import json

import numpy as np
import pytest
from graded_tables import classes
from helpers import rest_slow

from hopfed.recovery.recover import run_recovery

SIZES = (
    (3, 60, 1500, (1, 1), 0.0),
    (5, 120, 3000, (1, 1), 0.0),
    (8, 200, 2400, (0.5, 5), 0.0),
    (4, 90, 900, (1, 4), 0.2),
    (3, 300, 240, (1, 1), 0.0),
)


def owners(x, part, seed):
    """Columns of three owners, each without another part of the columns."""
    N = x.shape[1]
    order, size = np.random.default_rng(seed).permutation(N), int(N * part)
    found = []
    for owner, rows in enumerate(np.array_split(x, 3)):
        kept = np.delete(order, slice(owner * size, (owner + 1) * size))
        cells = np.where(rows[:, kept] == 0, np.nan, rows[:, kept])
        found.append({f"q{j}": column for j, column in zip(kept, cells.T, strict=True)})
    return found


def independent(N, M, rng, rates=None):
    rates = rng.random(N) if rates is None else rates
    return np.where(rng.random((M, N)) < rates, 1, -1).astype(np.int8)


def planted(size, part, seed):
    K, N, M, shape, missing = size
    x = classes(K, N, M, seed, shape=shape, missing=missing)[2]
    return run_recovery(owners(x, part, seed), seed=seed, columns="union")


@pytest.mark.parametrize(("size", "part"), rest_slow([(SIZES[0], 1 / 3), (SIZES[3], 1 / 4)], 1))
def test_classes_are_found(size, part):
    recovery = planted(size, part, 0)
    assert len(recovery.archetypes) == size[0]
    assert recovery.archetypes.status == "ok"
    assert size[0] <= recovery.archetypes.n_detected <= size[0] + 2
    assert len(recovery.archetypes.columns) == size[1]


def test_classes_that_only_one_owner_has_are_found():
    """Nobody knows their means in columns that this owner lacks."""
    T, y, x = classes(4, 80, 1600, 3)
    parts = owners(x[np.argsort(y)], 1 / 4, 3)
    found = run_recovery(parts, seed=0, columns="union")
    assert len(found.archetypes) == 4
    order = [int(name[1:]) for name in found.archetypes.columns]
    distance = np.median(np.abs(found.archetypes.means[:, None] - T[None, :, order]), axis=2)
    assert (distance.min(axis=0) < 0.1).all()


def test_owners_of_independent_columns_are_no_classes():
    x = independent(100, 1200, np.random.default_rng(1))
    found = run_recovery(owners(x, 1 / 3, 1), seed=1, columns="union")
    assert found.archetypes.status == "one class"
    assert len(found.archetypes) == 1
    assert found.archetypes.n_detected <= 1


def test_the_command_takes_files_of_different_columns(hopfed, tmp_path):
    x = classes(3, 40, 600, 5)[2] > 0
    for owner, rows in enumerate(np.array_split(x, 3)):
        kept = [j for j in range(40) if j % 5 != owner]
        text = [",".join(f"q{j}" for j in kept)]
        text += [",".join(map(str, row[kept].astype(int))) for row in rows]
        (tmp_path / f"{owner}.csv").write_text("\n".join(text) + "\n")
    files = [tmp_path / f"{owner}.csv" for owner in range(3)]
    status, _, error = hopfed("recover", *files)
    assert status == 2
    assert "--columns union" in error
    _, text, notes = hopfed("recover", *files, "--columns", "union", "--json")
    report = json.loads(text)
    assert (report["status"], report["n_archetypes"]) == ("ok", 3)
    assert sorted(report["columns"]) == sorted(f"q{j}" for j in range(40))
    assert "lacks 'q0', 'q5'" in notes
    _, text, _ = hopfed("recover", *files, "--columns", "shared", "--dry-run", "--json")
    assert sorted(json.loads(text)["rates"]) == sorted(f"q{j}" for j in range(40) if j % 5 > 2)


@pytest.mark.slow
@pytest.mark.parametrize("part", [1 / 3, 1 / 4])
def test_classes_and_their_absence_over_ten_draws(part):
    for size in SIZES:
        exact = [len(planted(size, part, seed).archetypes) == size[0] for seed in range(10)]
        assert sum(exact) >= 9, size
    for N, M in ((100, 1200), (300, 240)):
        for seed in range(10):
            x = independent(N, M, np.random.default_rng(seed))
            found = run_recovery(owners(x, part, seed), seed=seed, columns="union")
            assert found.archetypes.status == "one class"
