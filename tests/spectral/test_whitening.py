from itertools import product

import numpy as np
import pytest
from graded_tables import classes
from helpers import rest_slow, sample

from hopfed import recover
from hopfed.errors import ArgumentError
from hopfed.spectral import whitening
from hopfed.spectral.eigenpairs import eigenpairs
from hopfed.spectral.operators import DenseOperator, FactorOperator, PooledOperator
from hopfed.spectral.rank import Sample, TracyWidom
from hopfed.spectral.whitening import count_whitened_classes as count_in_whitened_coordinates


def plain(x):
    """Rows of -1, 0 (missing) and +1 as an operator."""
    M, N = x.shape
    return FactorOperator(N, float(M), float(M), x.astype(np.float32), np.ones(M))


def whitened(x, rule, operator=None):
    """The count on rows, or on another operator of the same."""
    op = plain(x) if operator is None else operator
    return count_in_whitened_coordinates(op, rule, mean=x.mean(axis=0))


def with_gaps(x, missing, rng):
    return np.where(rng.random(x.shape) < missing, 0, x)


@pytest.mark.parametrize(
    ("K", "N", "M", "quality"),
    rest_slow(
        [(3, 200, 400, 0.8), (0, 100, 300, 0.0), (10, 300, 150, 0.8), (20, 300, 3000, 0.5)], 2
    ),
)
def test_symmetric_data_give_todays_counts(K, N, M, quality):
    for seed in range(3):
        x = sample(max(K, 1), N, M, quality, seed)[1]
        op = FactorOperator.from_examples(x)
        today = TracyWidom()(Sample(eigenpairs(op, 0).values, N, M))
        found = whitened(x, TracyWidom(), op)
        assert found.rank.n_detected == today.n_detected == K
        assert found.spectrum.status == "converged"


SIZES = product([(300, 100), (150, 150), (100, 300)], [0.0, 0.2, 0.5, 0.8], [400], [0.05])


@pytest.mark.parametrize(
    ("size", "missing", "draws", "alpha"), rest_slow([((60, 120), 0.5, 100, 0.1), *SIZES], 1)
)
def test_false_alarm_rate_over_400_draws(size, missing, draws, alpha):
    """Independent columns of any rates, in which more than one class is counted."""
    count = 0
    for seed in range(draws):
        rng = np.random.default_rng([seed, *size])
        x = np.where(rng.random(size) < rng.random(size[1]), 1, -1)
        count += whitened(with_gaps(x, missing, rng), TracyWidom(alpha)).rank.n_detected > 1
    assert abs(count / draws - alpha) < 3.2 * np.sqrt(alpha * (1 - alpha) / draws)


@pytest.mark.parametrize(
    ("a", "b", "K", "N", "M", "missing"),
    rest_slow(
        [
            (1, 4, 3, 150, 1000, 0.5),
            (0.3, 0.3, 3, 1000, 200, 0.0),
            (0.3, 0.3, 3, 50, 3000, 0.5),
            (1, 1, 3, 150, 1000, 0.0),
            (1, 1, 8, 200, 2000, 0.5),
        ],
        2,
    ),
)
def test_graded_classes_are_counted(a, b, K, N, M, missing):
    means, label, x = classes(K, N, M, 0, shape=(a, b), missing=missing)
    found = whitened(x, TracyWidom())
    assert found.rank.n_detected == K
    seen = 1 - missing
    share = np.bincount(label, minlength=K) / M
    true = seen - seen**2 * share @ means**2
    # The counted pairs hold the classes' own variance, the rest is the noise within classes.
    common = true > 0.2 * seen
    assert np.median(np.abs(found.variances / true - 1)[common]) < 0.1
    U = found.spectrum.vectors
    np.testing.assert_allclose(U.T @ U, np.eye(K), atol=1e-5)


def test_all_forms_of_operators_and_routes_agree():
    means, label, x = classes(4, 90, 400, 1)
    operators = [
        FactorOperator.from_examples(x),
        plain(x),
        DenseOperator.from_examples(x),
        PooledOperator.over([plain(x[:100]), plain(x[100:])]),
    ]
    found = [whitened(x, TracyWidom(), op) for op in operators]
    assert [f.rank.n_detected for f in found] == [4] * len(operators)
    assert {f.spectrum.route for f in found} == {"dense", "krylov"}
    for f in found[1:]:
        angles = np.linalg.svd(f.spectrum.vectors.T @ found[0].spectrum.vectors, compute_uv=False)
        assert angles.min() > 0.97
    np.testing.assert_allclose(found[3].variances, found[0].variances, rtol=0.01)


def test_many_packed_rows_stay_packed(monkeypatch):
    _, _, x = classes(3, 300, 120, 2)
    bits = FactorOperator.from_examples(x)
    unpacked = whitened(x, TracyWidom(), bits)
    monkeypatch.setattr(whitening, "UNPACKED", 0)
    packed = whitened(x, TracyWidom(), bits)
    assert (unpacked.spectrum.route, packed.spectrum.route) == ("gram", "krylov")
    assert packed.rank.n_detected == unpacked.rank.n_detected == 3
    np.testing.assert_allclose(packed.variances, unpacked.variances, rtol=0.02)


def test_columns_that_tell_nothing_are_left_out():
    _, _, x = classes(3, 100, 500, 3, missing=0.3)
    x[:, 4], x[:, 17], x[:, 30] = 0, 1, np.where(x[:, 30] == 0, 0, -1)
    found = whitened(x, TracyWidom())
    assert found.dropped.tolist() == [4, 17, 30]
    assert found.rank.n_detected == 3
    assert not found.spectrum.vectors[[4, 17, 30]].any()
    assert (found.variances[[4, 17, 30]] == 1).all()
    assert found.spectrum.n_sites == 97


@pytest.mark.parametrize(("M", "N"), rest_slow([(1000, 200), (200, 600)], 1))
def test_rows_that_are_seen_at_different_rates_are_no_classes(M, N):
    rng = np.random.default_rng(5)
    x = np.where(rng.random((M, N)) < rng.random(N), 1, -1)
    x = with_gaps(x, np.where(np.arange(M) % 2, 0.8, 0.0)[:, None], rng)
    found = recover([x[::2], x[1::2]], seed=0)
    assert (found.status, found.n_detected) == ("one class", 1)


def test_bad_arguments():
    op = FactorOperator.from_examples(np.ones((5, 3)))
    with pytest.raises(ArgumentError, match="at least two columns that vary"):
        whitened(np.ones((5, 3)), TracyWidom(), op)
    with pytest.raises(ArgumentError, match="mean must be of 3 numbers"):
        whitened(np.ones((5, 2)), TracyWidom(), op)
