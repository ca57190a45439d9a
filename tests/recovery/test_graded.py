import csv

import numpy as np
import pytest
from graded_tables import classes, error, known, whiten
from helpers import DATA

from hopfed.archetypes.graded.fitting.search import Search
from hopfed.errors import ArgumentError
from hopfed.kernels import pack
from hopfed.recovery.graded import recover_graded


def test_three_owners_with_gaps():
    T, y, x = classes(4, 120, 1500, 1, missing=0.25)
    rows = [x[:200], x[200:700], x[700:]]
    found = recover_graded(rows, seed=0, whitened=whiten(rows))
    assert (found.size, found.status, found.channel) == (4, "ok", "graded")
    assert error(found.means, T) < 1.03 * error(known(x, y, 4), T) + 0.002
    assert (np.diff(found.shares) <= 1e-3).all()  # heaviest first
    assert found.shares.sum() == pytest.approx(1)
    assert found.owner_shares.shape == (3, 4)
    assert found.patterns.dtype == np.int8
    match = np.argmin(((found.means[:, None] - T) ** 2).sum(axis=2), axis=1)
    off = (found.means - T[match]) / found.errors
    assert off.std() == pytest.approx(1, abs=0.15)
    surest = found.responsibilities(rows[1], owner=1).argmax(axis=1)
    assert (match[surest] == y[200:700]).mean() > 0.98
    assert found.n_examples == [200, 500, 800]
    assert (found.traffic.up > 0).all()


def test_bits_and_dense_rows_give_the_same():
    _, _, x = classes(3, 90, 600, 2)
    white = whiten([x])
    dense = recover_graded([x], seed=0, whitened=white)
    bits = recover_graded([pack(x)], seed=0, whitened=white)
    assert (dense.size, dense.status) == (bits.size, bits.status) == (3, "ok")
    np.testing.assert_allclose(dense.means, bits.means, atol=1e-3)


def test_symmetric_patterns_get_their_quality():
    rng = np.random.default_rng(3)
    xi = rng.choice([-1, 1], (3, 100))
    x = np.where(rng.random((900, 100)) < (1 + 0.6 * xi[rng.integers(3, size=900)]) / 2, 1, -1)
    found = recover_graded([x], seed=0, whitened=whiten([x]))
    assert found.channel == "symmetric"
    assert found.quality == pytest.approx(0.6, abs=0.02)
    assert {tuple(p) for p in found.patterns} == {tuple(p) for p in xi}


def test_one_class_is_said():
    rng = np.random.default_rng(4)
    x = np.where(rng.random((500, 80)) < rng.random(80), 1, -1)
    found = recover_graded([x], seed=0, whitened=whiten([x]))
    assert (found.size, found.status, found.shares.tolist()) == (1, "one class", [1.0])
    assert np.abs(found.means[0] - x.mean(axis=0)).max() < 0.01


def test_an_owner_who_lies_moves_no_more_than_its_bound():
    T, _, x = classes(3, 60, 900, 5)
    liar = np.ones((9000, 60), np.int8)
    rows = [x[:300], x[300:600], x[600:], liar]
    found = recover_graded(rows, seed=0, whitened=whiten(rows), search=Search(influence=0.25))
    assert found.size == 4
    distance = np.sqrt(((found.means[:, None] - T) ** 2).mean(axis=2)).min(axis=0)
    assert distance.max() < 0.1


def test_a_count_of_other_columns_is_refused():
    _, _, x = classes(2, 20, 100, 6)
    with pytest.raises(ArgumentError, match="whitened must be of 30 columns"):
        recover_graded([np.ones((10, 30))], seed=0, whitened=whiten([x]))


def test_votes_in_congress():
    path = DATA / "tables" / "votes.csv"
    if not path.is_file():
        pytest.skip("votes.csv not at hand; set HOPFED_DATA to its folder")
    with path.open() as file:
        table = list(csv.reader(file))[1:]
    x = np.array([[{"y": 1, "n": -1}.get(v, 0) for v in row[2:]] for row in table], np.int8)
    party = np.array([row[1] == "republican" for row in table])
    rows = np.array_split(x[np.random.default_rng(0).permutation(len(x))], 3)
    found = recover_graded(list(rows), seed=0, whitened=whiten(rows))
    assert 2 <= found.size <= 8
    side = found.responsibilities(x).argmax(axis=1)
    majority = np.array([party[side == k].mean() > 0.5 for k in range(found.size)])
    assert (majority[side] == party).mean() > 0.9
    assert found.log_likelihood > -0.45
