"""Many rows of few columns: equal rows are merged, and any number of rows counts alike."""

from dataclasses import replace

import numpy as np
import pytest
from helpers import rest_slow

from hopfed import kernels, recover
from hopfed.archetypes.channel import drawn_often
from hopfed.archetypes.judging import statistics
from hopfed.archetypes.mixture import Mixture, Prior, expect, improve
from hopfed.archetypes.session import Owner, Owners, Variables
from hopfed.federation.messages import Traffic
from hopfed.recovery.recover import run_recovery
from hopfed.spectral.rows import merged
from hopfed.tables.reading import gathered
from hopfed.tables.table import Source


def classes(seed, K, N, M):
    """Rates uniform on (.1, .9), and rows of 0 and 1."""
    rng = np.random.default_rng(seed)
    y, rates = rng.integers(K, size=M), rng.uniform(0.1, 0.9, (K, N))
    return rates, y, (rng.random((M, N)) < rates[y]).astype(np.int8)


def error(means, rates):
    """Root mean square by which the rates of K classes are off, each matched with the nearest."""
    off = (((1 + means) / 2)[:, None] - rates) ** 2
    return np.sqrt(off.mean(axis=2).min(axis=0).mean())


@pytest.mark.parametrize(
    ("seed", "K", "owners", "M"),
    rest_slow([(2, 2, 1, 50_000), (1, 3, 3, 200_000), (4, 4, 1, 200_000), (2, 2, 3, 200_000)], 1),
)
def test_classes_of_many_rows(seed, K, owners, M):
    rates, y, x = classes(seed, K, 10, M)
    found = recover(x if owners == 1 else np.array_split(x, owners), seed=0)
    assert (len(found), found.status) == (K, "ok")
    known = np.sqrt(np.mean([(x[y == k].mean(axis=0) - rates[k]) ** 2 for k in range(K)]))
    assert error(found.means, rates) < 4 * known  # rows are not sure of their class


@pytest.mark.slow
def test_merges_of_unsure_classes_are_settled_before_they_are_judged():
    """Six classes stood 56 nats below these four: merges were given up while they still rose."""
    rng = np.random.default_rng(771_007)
    K, N, M = 4, 9, 1_432_666
    rng.integers(2, 5), rng.integers(8, 17), rng.uniform()
    rates = rng.uniform(0.1, 0.9, (K, N))
    y = rng.choice(K, M, p=rng.dirichlet(np.full(K, 5.0)))
    found = recover((rng.random((M, N), dtype=np.float32) < rates[y]).astype(np.int8), seed=0)
    assert len(found) == K
    assert error(found.means, rates) < 0.01


def test_rows_that_are_read_again_are_merged_as_those_that_are_held():
    x = classes(1, 3, 10, 30_000)[2]
    bits = kernels.pack(x)
    blocks = [bits[first : first + 7_000] for first in range(0, len(x), 7_000)]
    source = Source("rows", (), lambda: iter(()))
    rows = gathered(source, blocks, lambda: iter(blocks), most=0)
    again = run_recovery(rows, seed=0).archetypes
    held = recover(x, seed=0)
    assert again.status == held.status == "ok"
    # The order of sums differs, and fits end within .02 nats of each other.
    np.testing.assert_allclose(again.means, held.means, atol=2e-3)


def both(x, groups=()):
    """The same rows, each as often as it occurs, and one by one."""
    bits, one = kernels.pack_masked(x, x == 0), Variables.of(groups, x.shape[1]) if groups else None
    found = merged(bits)
    owners = [Owner(found, 0, one), Owner(bits, 0, one)]
    return [Owners([owner], 0, Traffic(1)) for owner in owners]


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("groups", [(), ((0, 1, 2),)])
def test_counts_give_the_fit_of_rows_that_are_repeated(missing, groups):
    rng = np.random.default_rng(3)
    x = 2 * classes(3, 2, 8, 3_000)[2] - 1
    for group in groups:
        x[:, group] = 2 * np.eye(len(group), dtype=int)[rng.integers(len(group), size=len(x))] - 1
    gaps = rng.random(x.shape) < missing
    for group in groups:
        gaps[:, group] = gaps[:, group[:1]]
    start = Mixture(rng.uniform(-0.5, 0.5, (2, 8)), np.full((1, 2), 0.5))
    found = []
    for owners in both(np.where(gaps, 0, x), groups):
        fit = improve(owners, expect(owners, start, Prior.of(owners)), 400, 1e-3)
        edge, _, squares, rows = statistics(owners, fit.sums)
        found.append((fit, edge[0], squares, rows))
    (a, edge, squares, rows), (b, *others) = found
    assert a.evidence == pytest.approx(b.evidence, abs=0.1)  # rounding of single precision
    np.testing.assert_allclose(a.classes.means, b.classes.means, atol=0.01)
    np.testing.assert_allclose(edge, others[0], rtol=0.01)
    np.testing.assert_allclose(squares, others[1], rtol=0.01)
    for name in ("repeats", "single"):
        assert rows[name] == pytest.approx(others[2][name], abs=3e-3)


def test_rows_that_are_drawn_often_have_the_rates_the_levels_and_the_gaps_of_their_classes():
    seen = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 1], [0, 0, 0, 1, 1]])
    counts = np.array([50_000.0, 30_000.0, 20_000.0])
    means = np.array([[-0.2, -0.4, -0.4, 0.8, 0.0], [-0.8, -0.8, 0.6, -0.6, 0.4]])
    rows = replace(kernels.pack_masked(seen, seen == 0), counts=counts)
    found = drawn_often(
        rows, means, np.array([0.3, 0.7]), 1, variables=Variables.of([(0, 1, 2)], 5)
    )
    x, often = kernels.unpack(found), found.weights
    assert len(np.unique(x, axis=0)) == len(x)
    assert often.sum() == counts.sum()
    assert set((x[:, :3] > 0).sum(axis=1)[x[:, 0] != 0]) == {1}
    np.testing.assert_array_equal(often @ (x != 0), counts @ seen)
    rates = (often @ (x > 0)) / (counts @ seen)
    wanted = np.array([0.3, 0.7]) @ (1 + means) / 2
    np.testing.assert_allclose(rates, wanted, atol=5 * 0.5 / np.sqrt(50_000))


@pytest.mark.parametrize(
    "x",
    [
        np.array([[1, np.nan, 0], [np.nan, 1, 0], [1, 0, 1]]),
        np.random.default_rng(0).integers(0, 2, (6, 3)),
        np.where(np.random.default_rng(0).random((6, 3)) < [0.2, 0.5, 0.8], 1, 0),
        np.random.default_rng(1).integers(0, 2, (6, 40)),
    ],
    ids=["one complete row", "coins", "other coins", "wide"],
)
def test_tables_in_which_no_kinds_could_be_seen_are_too_little_data(x):
    found = recover(x, seed=0)
    assert found.status == "too little data"
    assert "give more rows." in found.advice  # columns that were left out are named after it
