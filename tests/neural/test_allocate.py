"""Who has what: the laws by which the examples are dealt out to clients."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from stand_ins import disjoint, labelled, seeds

from hopfed.errors import ArgumentError, DataError
from hopfed.neural.data import allocate

numbers = st.integers(1, 8)


@given(labelled(), numbers, seeds)
def test_iid_deals_out_everything_evenly(labels, clients, seed):
    assume(clients <= len(labels))
    own = allocate.iid(np.array(labels), clients, seed)
    np.testing.assert_array_equal(np.sort(np.concatenate(own)), np.arange(len(labels)))
    assert max(map(len, own)) - min(map(len, own)) <= 1


@given(labelled(least=8), numbers, seeds, st.data())
def test_classes_are_exact_balanced_and_shared_out_whole(labels, clients, seed, data):
    labels = np.array(labels)
    classes = len(np.unique(labels))
    k = data.draw(st.integers(1, classes))
    own = allocate.by_classes(labels, clients, seed, k)
    held = np.array([np.bincount(labels[rows], minlength=classes) > 0 for rows in own])
    assert (held.sum(axis=1) == k).all()
    assert np.ptp(held.sum(axis=0)) <= 1
    assert disjoint(own)
    everything = np.isin(labels, np.flatnonzero(held.any(axis=0))).sum()
    assert sum(map(len, own)) == everything


def test_the_holders_of_a_class_get_unequal_shares_of_it():
    labels = np.repeat(np.arange(10), 1000)
    own = allocate.by_classes(labels, 50, seed=3, per_client=2)
    counts = np.array([np.bincount(labels[rows], minlength=10) for rows in own])
    shares = [c[c > 0] / c.sum() for c in counts.T]
    spread = np.array([s.max() / s.min() for s in shares])
    assert (spread < 1.5 + 0.02).all()  # weights in [0.4, 0.6], and rounding
    assert spread.mean() > 1.2
    assert len(set(counts.sum(axis=1))) > 30


@given(labelled(), numbers, seeds, st.sampled_from([1e-3, 0.1, 1.0, 100.0]))
def test_dirichlet_deals_out_everything(labels, clients, seed, alpha):
    assume(clients <= len(labels))
    labels = np.array(labels)
    own = allocate.dirichlet(labels, clients, seed, alpha, redistribute=True)
    np.testing.assert_array_equal(np.sort(np.concatenate(own)), np.arange(len(labels)))
    assert min(map(len, own)) >= 1


@given(labelled(), numbers, seeds, st.integers(1, 6), st.sampled_from([1e-3, 0.1, 1.0]))
def test_redistribution_moves_no_more_than_is_short(labels, clients, seed, minimum, alpha):
    labels = np.array(labels)
    assume(clients * minimum <= len(labels))
    own = allocate.dirichlet(labels, clients, seed, alpha, minimum=minimum, redistribute=True)
    free = allocate.dirichlet(labels, clients, seed, alpha, minimum=0)
    assert disjoint(own)
    assert sum(map(len, own)) == len(labels)
    assert min(map(len, own)) >= minimum
    short = sum(max(minimum - len(rows), 0) for rows in free)
    moved = sum(len(np.setdiff1d(a, b)) for a, b in zip(own, free, strict=True))
    assert moved == short


@pytest.mark.parametrize("alpha", [0.2, 1.0, 5.0])
def test_dirichlet_shares_have_the_moments_of_the_law(alpha):
    labels, m = np.repeat(np.arange(400), 500), 8
    own = allocate.dirichlet(labels, m, seed=5, alpha=alpha)
    shares = np.stack([np.bincount(labels[rows], minlength=400) for rows in own]) / 500
    mean, variance = 1 / m, (1 / m) * (1 - 1 / m) / (m * alpha + 1)
    se = np.sqrt(variance / 400)
    assert np.abs(shares.mean(axis=1) - mean).max() < 4.5 * se
    np.testing.assert_allclose(shares.var(), variance, rtol=0.1)


def test_a_large_alpha_is_even():
    labels = np.repeat(np.arange(5), 1000)
    own = allocate.dirichlet(labels, 10, seed=1, alpha=1e6)
    counts = np.array([np.bincount(labels[rows]) for rows in own])
    assert np.abs(counts - 100).max() <= 3


@given(
    st.lists(st.integers(1, 25), min_size=2, max_size=9),
    numbers,
    seeds,
    st.sampled_from([1e-4, 0.3, 50.0]),
    st.sampled_from([1e-4, 10.0]),
)
def test_pachinko_gives_all_the_same_number_without_replacement(sizes, clients, seed, alpha, beta):
    labels = np.repeat(np.arange(len(sizes)), sizes)
    assume(clients <= len(labels))
    coarse = np.arange(len(sizes)) % 3
    own = allocate.pachinko(labels, clients, seed, coarse, alpha, beta)
    assert disjoint(own)
    assert {len(rows) for rows in own} == {len(labels) // clients}


def test_pachinko_is_a_dirichlet_law_over_coarse_and_over_fine_labels():
    coarse = np.repeat(np.arange(10), 5)
    labels = np.repeat(np.arange(50), 4000)  # a stock that the first clients hardly touch
    own = allocate.pachinko(labels, 500, 0, coarse, 0.3, 10.0)[:80]
    first = np.array([np.bincount(labels[rows], minlength=50) for rows in own], dtype=float)
    first = first.reshape(80, 10, 5)
    over_coarse = first.sum(axis=2) / 400
    want = 0.1 * 0.9 / (10 * 0.3 + 1)
    np.testing.assert_allclose(over_coarse.mean(), 0.1)
    np.testing.assert_allclose(over_coarse.var(), want, rtol=0.15)
    big = first.sum(axis=2) > 100
    over_fine = first[big] / first[big].sum(axis=1, keepdims=True)
    counted = first[big].sum(axis=1)
    want = 0.2 * 0.8 * (1 / 51 + (1 / counted).mean())  # of the law, and of drawing from it
    np.testing.assert_allclose(over_fine.var(), want, rtol=0.25)


def test_writers_become_clients():
    writer = np.array([0, 2, 2, 0, 2, 1, 0, 2])
    units = np.arange(8)
    own = allocate.by_group(writer, None, 0, units=units, minimum=2)
    assert [rows.tolist() for rows in own] == [[0, 3, 6], [1, 2, 4, 7]]
    some = {len(allocate.by_group(writer, 1, s, units=units, minimum=1)[0]) for s in range(30)}
    assert some == {1, 3, 4}
    with pytest.raises(ArgumentError, match="within the writers with enough examples, 2, got 3"):
        allocate.by_group(writer, 3, 0, units=units, minimum=2)
    with pytest.raises(DataError, match="no writer has 5 examples"):
        allocate.by_group(writer, None, 0, units=units, minimum=5)
    speech = np.array([0, 1, 1, 0, 2, 3, 0, 4])
    own = allocate.by_group(writer, None, 0, units=speech, minimum=2)
    assert [rows.tolist() for rows in own] == [[1, 2, 4, 7]]


def test_domains_become_one_client_or_several():
    domain = np.array([0, 1, 1, 0, 1, 1, 0])
    own = allocate.by_domain(domain, None, 0)
    assert [rows.tolist() for rows in own] == [[0, 3, 6], [1, 2, 4, 5]]
    own = allocate.by_domain(domain, 4, 0)
    assert [set(domain[rows]) for rows in own] == [{0}, {0}, {1}, {1}]
    assert sorted(np.concatenate(own)) == list(range(7))
    for clients in (0, 3):
        with pytest.raises(ArgumentError, match="a multiple of the 2 domains"):
            allocate.by_domain(domain, clients, 0)
