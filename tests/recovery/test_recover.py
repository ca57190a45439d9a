"""The pipeline as a whole, scored against a truth it never sees."""

import json

import numpy as np
import pytest
from helpers import rest_slow, sample
from hypothesis import given, settings
from hypothesis import strategies as st

import hopfed
from hopfed.archetypes.overlap import retrieval
from hopfed.archetypes.patterns import Patterns
from hopfed.errors import DataError
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.kernels import pack
from hopfed.recovery.recover import deal_rows, run_recovery


def complete(found, xi, level=0.99):
    score = retrieval(found.patterns, xi)
    return score.found(level) == len(xi) and score.false_discoveries == 0


@pytest.mark.parametrize(
    ("K", "N", "M", "quality"), [(6, 400, 1000, 0.8), (40, 400, 4000, 0.8), (30, 1000, 4000, 0.6)]
)
@pytest.mark.parametrize("seed", rest_slow([0, 1, 2], 1))
def test_every_archetype_and_none_false(K, N, M, quality, seed):
    xi, eta = sample(K, N, M, quality, seed)
    found = hopfed.recover(eta, seed=seed)
    assert complete(found, xi)
    assert (found.patterns.astype(int) @ xi.T).max(axis=1).min() > 0.9 * N  # as the examples point
    assert (found.status, found.n_detected) == ("ok", K)
    assert found.quality == pytest.approx(quality, abs=0.01)
    assert found.exposures.sum() == pytest.approx(1, abs=0.02)
    np.testing.assert_allclose(found.scores, found.predicted_scores, atol=0.02)


def test_a_list_of_paths_is_one_owner_each(tmp_path):
    parts = np.array_split(sample(3, 60, 400, 0.8, 4)[1], 2)
    paths = [tmp_path / "a.npy", tmp_path / "b.npy"]
    for path, rows in zip(paths, parts, strict=True):
        np.save(path, rows)
    found, held = (hopfed.recover(owners, seed=0) for owners in (paths, parts))
    np.testing.assert_array_equal(found.client_shares, held.client_shares)
    with pytest.raises(DataError, match="no such file"):
        hopfed.recover([paths[0], tmp_path / "c.csv"])


OPTIONS = (
    {"refit": True},
    {"patterns": Patterns(method="joint")},
    {"quality": 0.7},
    {"alpha": 0.01},
)


@pytest.mark.parametrize("option", OPTIONS[:2], ids=str)
def test_an_option_of_the_symmetric_channel_bears_nothing_out(option):
    """Columns that are flipped unequally often are not taken for archetypes unasked."""
    rng = np.random.default_rng(1)
    xi, flips = rng.choice([-1, 1], (3, 30)), rng.uniform(0, 0.3, 30)
    x = xi[rng.integers(3, size=800)] * np.where(rng.random((800, 30)) < flips, -1, 1)
    assert hopfed.recover(x, seed=0, channel="symmetric", **option).status == "incomplete"
    found = hopfed.recover(x, seed=0, **option)
    assert found.status == "poor fit"
    name = "method" if "patterns" in option else next(iter(option))
    assert f"'{name}' takes for granted" in found.advice


@pytest.mark.parametrize("option", OPTIONS, ids=str)
def test_options_of_the_symmetric_channel_are_borne_out_by_its_rows(option):
    eta = sample(4, 200, 2000, 0.7, 8)[1]
    assert hopfed.recover(eta, seed=0, **option).status == "ok"


@settings(max_examples=2)
@given(st.integers(0, 2**32))
def test_gauge_of_the_whole_pipeline(seed):
    xi, eta = sample(5, 150, 500, 0.8, seed)
    D = np.random.default_rng(seed).choice(np.array([-1, 1], np.int8), size=150)
    for method in ("auto", "layered"):
        one = hopfed.recover(eta, seed=7, patterns=Patterns(method=method))
        two = hopfed.recover(eta * D, seed=7, patterns=Patterns(method=method))
        assert one.status == two.status
        assert one.status == "ok" or one.n_detected == 6  # a false alarm, one draw of a thousand
        np.testing.assert_array_equal(two.patterns, one.patterns * D)
        np.testing.assert_allclose(two.exposures, one.exposures, atol=1e-5)


@settings(max_examples=2)
@given(st.integers(0, 2**32))
def test_order_of_examples_and_clients_does_not_matter(seed):
    xi, eta = sample(5, 150, 600, 0.8, seed)
    order = np.random.default_rng(seed).permutation(600)
    clients = np.array_split(eta, 4)
    want = hopfed.recover(clients, seed=1).patterns
    for other in (clients[::-1], [c[::-1] for c in clients], np.array_split(eta[order], 3)):
        np.testing.assert_array_equal(hopfed.recover(other, seed=1).patterns, want)


def test_wide_data_over_clients_go_by_krylov():
    xi, eta = sample(8, 3000, 900, 0.8, 9)
    run = run_recovery(np.array_split(eta, 3), seed=9)
    assert complete(run.archetypes, xi)
    assert run.exchanges >= 3
    assert run.traffic.up.max() < min(3000**2, 4 * 3000 * 64 * run.exchanges)


def test_refit_brings_weak_patterns_to_the_bound_of_true_labels():
    xi, eta = sample(10, 400, 4000, 0.15, 10)
    plain, refit = (hopfed.recover(eta, seed=1, refit=f) for f in (False, True))
    before, after = (retrieval(f.patterns, xi).magnetisation.mean() for f in (plain, refit))
    assert len(plain) >= 5
    assert after > before


def test_correlated_archetypes(silhouettes):
    for picks, M, quality in (((6, 4, 9), 336, 0.6), (range(0, 100, 8), 3000, 0.8)):
        xi = silhouettes[list(picks)]
        eta = draw_examples(xi, M, quality, np.random.default_rng(0))[0]
        assert complete(hopfed.recover(eta, seed=0), xi)


def test_split_deals_every_row_once():
    packed = pack(sample(3, 70, 101, 0.8, 15)[1])
    parts = deal_rows(packed, 4, seed=0)
    assert sorted(len(p) for p in parts) == [25, 25, 25, 26]
    rows = np.vstack([p.signs for p in parts])
    assert sorted(map(bytes, rows)) == sorted(map(bytes, packed.signs))


@pytest.mark.parametrize(
    ("M", "N", "r", "copies"), rest_slow([(400, 200, 0.45, 3), (1000, 600, 0.35, 4)], 1)
)
def test_copies_of_one_row_are_not_shown(M, N, r, copies):
    """Second moments take them for more rows, and rows of no class may join them."""
    rng = np.random.default_rng(1)
    xi = rng.choice([-1, 1], (3, N))
    x = xi[rng.integers(3, size=M)] * np.where(rng.random((M, N)) < (1 - r) / 2, -1, 1)
    x[:copies] = person = rng.choice([-1, 1], N)
    found = hopfed.recover(x, seed=0)
    assert len(found) >= 3
    assert np.abs(found.patterns @ person / N).max() < 0.9


def test_values_that_may_be_meant_otherwise_are_warned_of():
    x = rademacher(60, 8, np.random.default_rng(1))
    with pytest.warns(UserWarning, match="0 is missing, as -1 occurs"):
        hopfed.recover(np.where(np.arange(8) == 3, 0, x))


def test_owners_send_counts_once():
    owners = np.split(sample(2, 200, 1200, 0.8, 0)[1], 3)
    few = run_recovery(owners, seed=0, channel="symmetric").traffic.up
    counts = 2 * 200 * 201 // 2
    rest = 4 * 200 + 4 * 10 * 10  # column sums, and what follows of few directions
    assert counts < few.min() <= few.max() < counts + rest


def test_rows_in_bits_are_said_beside_what_was_sent(tmp_path, hopfed):
    tables = np.split(sample(2, 200, 180, 0.8, 0)[1], 3)
    gaps = [np.where(np.random.default_rng(1).random(x.shape) < 0.1, 0, x) for x in tables]
    for rows, planes in ((tables, 1), (gaps, 2)):
        assert run_recovery(rows, seed=0).raw_nbytes == [planes * 60 * 200 // 8] * 3
    files = [tmp_path / "0.npy", tmp_path / "1.npy"]
    for file, rows in zip(files, tables, strict=False):
        np.save(file, rows)
    assert json.loads(hopfed.done("recover", *files, "--json")[0])["bytes_raw"] == [1500] * 2
    said, _ = hopfed.done("recover", files[0])
    assert "one owner, so nothing was exchanged" in " ".join(said.split())
