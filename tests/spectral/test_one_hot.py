"""Levels of a variable that are written as columns of 0 and 1 are counted together."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import hopfed
from hopfed import kernels
from hopfed.spectral.one_hot import one_hot


def dummies(seed, rows=1500, variables=5, levels=4):
    """Independent variables, each as columns of 0 and 1."""
    drawn = np.random.default_rng(seed).integers(levels, size=(rows, variables))
    return (drawn[:, :, None] == np.arange(levels)).reshape(rows, -1).astype(int)


def named(table):
    """The columns of a table with names."""
    return {f"{'vwxyz'[j // 4]}_{j % 4}": table[:, j].tolist() for j in range(table.shape[1])}


@given(st.integers(0, 10_000), st.integers(1, 3), st.booleans())
def test_neighbours_of_which_one_is_up_are_found(seed, owners, packed):
    rng = np.random.default_rng(seed)
    levels = int(rng.integers(3, 7))
    columns = 2 * dummies(seed, 40 * owners, 2, levels) - 1
    columns[rng.random(len(columns)) < 0.2, :levels] = 0  # the first variable has gaps
    assume((columns > 0).any(axis=0).all())
    others = rng.choice([-1, 1], (len(columns), 3))
    rows = np.hstack([others[:, :1], columns, others[:, 1:]])
    parts = np.array_split(rows, owners)
    found = one_hot([kernels.pack_masked(p) for p in parts] if packed else parts)
    assert [group.tolist() for group in found] == [
        list(range(1, 1 + levels)),
        list(range(1 + levels, 1 + 2 * levels)),
    ]


@pytest.mark.parametrize("change", ["two", "none", "gap"])
def test_columns_of_which_one_row_has_another_number_are_none(change):
    rows = 2 * dummies(3, 60, 1) - 1
    rows[5] = {"two": [1, 1, -1, -1], "none": [-1] * 4, "gap": [0, 1, -1, -1]}[change]
    assert one_hot([rows]) == []
    assert one_hot([rows[:5], rows[5:]]) == []


def test_independent_variables_are_no_classes():
    """Dummies of independent categories were twenty archetypes."""
    found = hopfed.recover(hopfed.read_table(named(dummies(4))), seed=1)
    assert found.status == "one class"
    assert found.coding.groups == tuple(tuple(range(4 * k, 4 * k + 4)) for k in range(5))


def test_levels_are_recovered_and_assigned_as_categories_are(tmp_path):
    rng = np.random.default_rng(5)
    rates = rng.dirichlet(np.full(4, 0.4), (3, 5))
    kinds = rng.integers(3, size=1500)
    drawn = (rng.random((1500, 5, 1)) > np.cumsum(rates[kinds], axis=2)).sum(axis=2)
    table = named((drawn[:, :, None] == np.arange(4)).reshape(1500, -1).astype(int))
    letters = {"vwxyz"[k]: np.array(list("abcd"))[drawn[:, k]].tolist() for k in range(5)}
    found = hopfed.recover(hopfed.read_table(table), seed=1)
    same = hopfed.recover(hopfed.read_table(letters), seed=1)
    assert len(found) == len(same) == 3
    assert np.allclose(found.means, same.means, atol=1e-6)
    found.save(tmp_path / "found.h5")
    again = hopfed.load(tmp_path / "found.h5")
    assert again.coding == found.coding
    labels, sure = again.assign(table)
    others, as_sure = same.assign(letters)
    assert np.array_equal(labels, others)
    assert np.allclose(sure, as_sure, atol=1e-5)
