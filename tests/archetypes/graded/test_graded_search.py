from dataclasses import replace

import numpy as np
import pytest
import sklearn.cluster
from graded_tables import classes, error, fitted, known, sums_of, whiten
from helpers import rest_slow

from hopfed.archetypes import class_questions
from hopfed.archetypes.channel import QUALITIES, choose, pattern_gains
from hopfed.archetypes.class_questions import sketch
from hopfed.archetypes.mixture import ClassSums, Mixture, Prior, expect
from hopfed.archetypes.search import Search, _better, find_classes, halves, merge_gains
from hopfed.archetypes.session import Owners


@pytest.mark.parametrize(
    ("size", "shape"),
    rest_slow(
        [
            ((3, 150, 1000), (1, 1)),
            ((3, 500, 200), (1, 4)),
            ((3, 150, 1000), (0.5, 5)),
            ((8, 200, 2000), (0.3, 0.3)),
            ((3, 50, 3000), (5, 5)),
        ],
        1,
    ),
    ids=str,
)
def test_planted_classes_are_found_as_with_true_labels(size, shape):
    K, N, M = size
    T, y, x = classes(K, N, M, 7, shape=shape, missing=0.2)
    _, fit = fitted(x)
    assert fit.size == K
    bound = 1.03 if N > 50 else 1.6  # rows of 50 columns that differ little are unsure of theirs
    assert error(fit.classes.means, T) < bound * error(known(x, y, K), T) + 0.002


def test_a_class_that_is_there_twice_is_never_better():
    """Its evidence was overrated: 24 species of mushrooms for 23, where rows told no difference."""
    owners, fit = fitted(classes(3, 60, 600, 7)[2])
    twice = Mixture(
        fit.classes.means[[0, 0, 1, 2]],
        fit.classes.shares[:, [0, 0, 1, 2]] / np.array([2, 2, 1, 1]),
    )
    asked = expect(owners, twice, fit.prior)
    same = min(asked.sums.log_likelihood, fit.sums.log_likelihood)  # but for rounding
    sums = replace(asked.sums, log_likelihood=same)
    twice = replace(asked, sums=sums, evidence=fit.evidence + 50)
    assert not _better(twice, fit)
    assert _better(fit, twice)


def test_opposite_classes_are_found_though_the_spectrum_has_one_direction():
    rng = np.random.default_rng(10)
    T = 0.6 * rng.choice([-1, 1], 100)
    y = rng.integers(2, size=1000)
    x = np.where(rng.random((1000, 100)) < (1 + np.where(y[:, None], T, -T)) / 2, 1, -1)
    assert whiten([x]).spectrum.vectors.shape[1] == 1
    _, fit = fitted(x)
    assert fit.size == 2
    assert error(fit.classes.means, np.stack([T, -T])) < 0.06


def test_steps_of_a_scale_beyond_the_rank_are_found_by_splitting():
    rng = np.random.default_rng(11)
    b = rng.standard_normal(80)
    T = np.tanh((np.array([-3.0, -1.0, 1.0, 3.0])[:, None] - b) / 2)
    y = rng.integers(4, size=3000)
    x = np.where(rng.random((3000, 80)) < (1 + T[y]) / 2, 1, -1)
    _, fit = fitted(x)
    assert fit.size == 4
    assert error(fit.classes.means, T) < 0.08


def test_a_sketch_holds_no_centre_of_few_rows():
    _, _, x = classes(3, 40, 300, 13)
    owner = Owners.of([x], 0).members[0]
    basis = np.random.default_rng(0).standard_normal((40, 3)).astype(np.float32)
    told = {"basis": basis, "centres": np.int32(200)}
    answer, other = (sketch(seed, 0, owner, told) for seed in (0, 1))
    assert not np.array_equal(answer["centres"], other["centres"])
    assert (answer["counts"] >= 5).all()
    assert answer["centres"].shape == (len(answer["counts"]), 3)


def test_a_class_that_is_two_gains_by_its_halves_and_a_true_one_does_not():
    T, y, x = classes(3, 100, 1500, 14)
    owners = Owners.of([x], 0)
    prior = Prior.of(owners)
    sums = sums_of(x, np.minimum(y, 1), 2)  # classes 1 and 2 in one
    prior = prior.fitted(sums)
    parts = halves(owners, expect(owners, prior.mixture(sums), prior))
    assert parts.gains[1] > 100
    assert parts.gains[0] < 0
    assert len(parts.sums(np.array([1])).seen) == 3


def test_a_class_in_two_pieces_is_what_a_merge_would_gain_by():
    T, y, x = classes(3, 100, 1500, 15)
    owners = Owners.of([x], 0)
    pieces = np.where((y == 2) & (np.arange(1500) % 2 == 0), 3, y)
    sums = sums_of(x, pieces, 4)
    prior = Prior.of(owners).fitted(sums)
    gain, pair = merge_gains(expect(owners, prior.mixture(sums), prior))[0]
    assert gain > 0
    assert pair == (2, 3)


def test_gains_of_patterns_are_averages_over_both_signs():
    rng = np.random.default_rng(4)
    seen = 300 * rng.random((600, 5))  # more classes than are multiplied at a time
    signed = seen * rng.uniform(-1, 1, seen.shape)
    found = pattern_gains(ClassSums(np.ones((1, 600)), signed, seen))
    for r, line in zip(QUALITIES, found, strict=True):
        high, low = np.log((1 + r) / 2), np.log((1 - r) / 2)
        plus, minus = (seen + signed) / 2, (seen - signed) / 2
        both = np.logaddexp(plus * high + minus * low, plus * low + minus * high) - np.log(2)
        # Exponentials are in single precision: 600 classes, each off by a ten-millionth at most.
        np.testing.assert_allclose(line, both.sum(axis=0), rtol=0, atol=1e-4)


@pytest.mark.parametrize("channel", rest_slow(["by column", "symmetric", "graded"], 1))
def test_the_channel_is_told_from_the_sums(channel):
    rng = np.random.default_rng(16)
    xi = rng.choice([-1, 1], (4, 120))
    r = {"symmetric": 0.7, "by column": rng.uniform(0.2, 1, 120), "graded": rng.random((4, 120))}
    T = r[channel] * xi
    x = np.where(rng.random((2000, 120)) < (1 + T[rng.integers(4, size=2000)]) / 2, 1, -1)
    _, fit = fitted(x)
    assert fit.size == 4
    won = choose(fit, np.ones((1, 1)))
    assert won.name == channel
    assert error(won.means, T) <= error(fit.classes.means, T)
    if channel == "symmetric":
        assert won.quality == pytest.approx(0.7, abs=0.02)
        assert error(won.means, T) < 0.03


def test_patterns_of_another_route_are_one_more_start():
    rng = np.random.default_rng(18)
    xi = rng.choice([-1, 1], (12, 60))
    x = np.where(rng.random((1500, 60)) < (1 + 0.7 * xi[rng.integers(12, size=1500)]) / 2, 1, -1)
    owners = Owners.of([x], 0)
    nothing = np.zeros((60, 0))  # as if the spectrum had shown nothing
    few = Search(exchanges=1)  # and no time to split
    assert find_classes(owners, nothing, np.ones(60), few).size == 1
    fit = find_classes(owners, nothing, np.ones(60), few, patterns=xi)
    assert fit.size == 12
    assert (np.sign(fit.classes.means) == xi).mean() > 0.99


@pytest.mark.parametrize(("points", "threads"), [(500, 1), (400_000, 2)])
def test_small_problems_are_clustered_by_one_thread(monkeypatch, points, threads):
    """Threads of OpenMP wait for each other, twenty times as long where a core is busy."""
    pool = class_questions._openmp()  # not that of a library which other tests load later
    used = []

    def fit(self, X, sample_weight):
        used.append(max(library["num_threads"] for library in pool.info()))
        self.cluster_centers_, self.labels_ = X[: self.n_clusters], np.zeros(len(X), int)
        return self

    monkeypatch.setattr(sklearn.cluster.KMeans, "fit", fit)
    rows = np.random.default_rng(0).normal(size=(points, 3))
    with pool.limit(limits=2):
        class_questions.clusters(rows, np.ones(points), 20, 0, starts=1)
        after = max(library["num_threads"] for library in pool.info())
    assert (used, after) == ([threads], 2)
