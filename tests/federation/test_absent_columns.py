"""Owners that lack some of the columns of a federation: gaps in its rows, and no class of its own.

Measured with seeds 0 and 1: three owners, each without another third of the columns, `serve --set
looks=4`, with `--liars 0.1` and with `--liars 0`. (K, N, M) = (3, 60, 1500), (5, 120, 3000), and
(4, 90, 900) of Beta(1, 4) with 20% missing beside: K exact in 12 of 12; the largest error of a
class's means .049 to .088, of the same tables read by `recover` .049 to .087, of owners with all
columns .039 to .079. Independent columns, (100, 1200) and (60, 1500): one class in 8 of 8.

With noise, 3 classes of 40 columns, 20% missing beside, owners of 2,000 rows: all three found in 19
of 19 (3 owners at epsilon 8, with `--liars 0.1`, 13 seeds, and with 0, 3 seeds; 10 at epsilon 4, 3
seeds), the largest error .032 to .084, and once .158; .029 to .091 with all columns. Independent
columns: one class in 24 of 24. Where each of 3 owners has one class or two (epsilon 8 and 50), 2
classes are told in 3 of 12 and 4 in 3 of 12; with all columns 3 in 12 of 12.
"""

import numpy as np
import pytest
from asking import refused, signs
from federations import of_classes, of_patterns, private_patterns
from graded_tables import classes, error
from helpers import rest_slow
from named_owners import Together, node, put

from hopfed import kernels
from hopfed.errors import OtherColumnsError
from hopfed.experiments import serve
from hopfed.hopfield.batches import Elsewhere
from hopfed.hopfield.columns import places_of, told_names
from hopfed.hopfield.encoding import Encoding
from hopfed.hopfield.owner import Owner, laid_out, pairs_laid_out
from hopfed.recovery.recover import run_recovery
from hopfed.tables.examples import as_examples


def names(N):
    return tuple(f"q{j}" for j in range(N))


def without_thirds(x, lacks=(0, 1, 2), seed=0):
    """Rows (M, n) of three owners and their columns, each without one third of the columns."""
    thirds = np.array_split(np.random.default_rng(seed).permutation(x.shape[1]), 3)
    for rows, third in zip(np.array_split(x, 3), lacks, strict=True):
        kept = np.random.default_rng(third).permutation(
            np.delete(np.arange(x.shape[1]), thirds[third])
        )
        yield rows[:, kept], kept


def found(folder, pieces, N, **settings):
    """Means (K, N) that a server tells which says how the columns are called."""
    called, sites, epsilon = names(N), {}, settings.get("epsilon")
    for c, (rows, kept) in enumerate(pieces):
        gappy = np.where(rows == 0, np.nan, rows.astype(float))
        sites[c] = node(folder / f"{c}", gappy, [called[j] for j in kept], epsilon)
    given = {"columns": N, "clients": len(sites), "names": called, "graded": True, **settings}
    _, arrays = Together(sites).play(serve.Config(**given))
    assert not arrays["faults/code"].any(), arrays["faults/reason"]
    return arrays["archetypes/means"][: int(arrays["archetypes/number"])]


def pooled(pieces):
    """Means of the same rows in one process, columns matched by name."""
    tables = []
    for rows, kept in pieces:
        gappy = np.where(rows == 0, np.nan, rows.astype(float))
        tables.append({f"q{j}": gappy[:, i] for i, j in enumerate(kept)})
    recovery = run_recovery(tables, seed=0, columns="union")
    order = np.argsort([int(name[1:]) for name in recovery.archetypes.columns])
    return recovery.archetypes.means[:, order]


@pytest.mark.parametrize("liars", rest_slow([0.1, 0.0], 1))
def test_classes_are_found_as_well_as_in_one_pooled_table(tmp_path, liars):
    T, _, x = classes(3, 36, 900, 0)
    pieces = list(without_thirds(x))
    most = 1.2 * error(pooled(pieces), T)
    means = found(tmp_path, pieces, 36, liars=liars)
    assert len(means) == 3
    assert error(means, T) < most


def test_fewer_than_two_thirds_are_refused_and_others_have_to_be_among_them(tmp_path):
    told, graded = told_names(names(40)), of_classes(Elsewhere(), 40)
    few = node(tmp_path / "few", signs()[:, :26], names(26))
    refused(put(few, graded, told), "not those of the federation")
    with pytest.raises(OtherColumnsError, match="two thirds of them are needed"):
        places_of(names(26), 26, told, gaps=True)
    enough = node(tmp_path / "enough", signs()[:, :27], names(27))
    reply = put(enough, graded, told)
    assert reply.up["seen"].shape == (1, 40)
    assert not reply.up["seen"][:, 27:].any()
    assert reply.up["seen"][:, :27].all()
    strange = node(tmp_path / "strange", signs(), (*names(39), "tea"))
    refused(put(strange, graded, told), "not those of the federation")


def test_operators_need_all_columns(tmp_path):
    told = told_names(names(40))
    site = node(tmp_path / "exact", signs()[:, :39], names(39))
    refused(put(site, of_patterns(Elsewhere(), Encoding(40)), told), "not those of the")
    site = node(tmp_path / "noise", signs(400)[:, :39], names(39), 4.0)
    refused(put(site, private_patterns(Elsewhere(), 40, 4.0), told), "not those of the")
    assert not list((tmp_path / "noise" / "privacy").glob("ledger"))


def test_columns_come_in_the_order_of_the_file_and_those_it_lacks_last(tmp_path):
    rows = as_examples(np.array([[0, 1, 1], [1, 1, 0], [1, 0, 0]]))
    named = Owner(rows, 7, names=("d", "a", "c"))
    order, called = named.order(told_names("abcd"))
    assert (order.tolist(), called) == ([3, 0, 2, 1], ("d", "a", "c", "b"))
    places = places_of(named.names, 3, told_names("abcd"), gaps=True)
    x = kernels.unpack(laid_out(rows, places))
    np.testing.assert_array_equal(x, [[1, 0, 1, -1], [1, 0, -1, 1], [-1, 0, -1, 1]])


def test_pairs_of_columns_are_put_in_order():
    rng = np.random.default_rng(0)
    whole = rng.integers(1, 100, (5, 5))
    whole += whole.T
    places = np.array([3, 0, 4, 1, 2])
    due = whole[np.ix_(places, places)]
    lower, upper = np.tril_indices(5, -1), np.triu_indices(5, 1)
    np.testing.assert_array_equal(pairs_laid_out(whole[lower], places, False), due[lower])
    np.testing.assert_array_equal(pairs_laid_out(whole[upper], places, True), due[upper])
