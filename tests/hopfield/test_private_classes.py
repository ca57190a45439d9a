"""Answers about classes with noise: what a row changes, what noise hides it, what is found."""

import itertools

import numpy as np
import pytest
from federations import played, private_classes
from graded_tables import classes, error

from hopfed import kernels
from hopfed.errors import ArgumentError
from hopfed.hopfield.noise import PARTS, ClassNoise, exact_sums, memberships
from hopfed.hopfield.stream import Batches, Elsewhere
from hopfed.privacy.discrete_gaussian import concentrated_rho
from hopfed.tables.examples import as_examples

SUMS = ("counts", "signed", "seen")


def first_question(N):
    return {"means": np.zeros((1, N), np.float32), "shares": np.ones(1, np.float32)}


def asked(K, N, seed=0, sure=1.0):
    rng = np.random.default_rng(seed)
    return {"means": sure * rng.uniform(-1, 1, (K, N)), "shares": rng.dirichlet(np.ones(K))}


def contributions(N, down):
    """What every row of {-1, 0, 1}^N adds to an answer, divided by the root of the noise."""
    noise = ClassNoise(N, 1.0, 1e-5, 7)
    rows = list(itertools.product((-1, 0, 1), repeat=N))
    found = {"sums": [], "pairs": []}
    for row in rows:
        each = exact_sums("pairs", kernels.pack_masked(np.array([row])), down)
        scaled = {
            name: array.ravel() / noise.variances[name] ** 0.5 for name, array in each.items()
        }
        found["sums"].append(np.concatenate([scaled[name] for name in SUMS]))
        found["pairs"].append(scaled["pairs"])
    return {name: np.array(parts) for name, parts in found.items()}


@pytest.mark.parametrize(("N", "K"), [(2, 1), (3, 2), (4, 2), (5, 3)])
def test_no_row_in_the_place_of_another_changes_an_answer_by_more_than_is_said(N, K):
    rho = concentrated_rho(1.0, 1e-5) / 7
    for sure in (0.3, 0.9, 1.0):  # rows that are partly, and wholly, of a class
        for part in contributions(N, asked(K, N, 0, sure)).values():
            moved = ((part[:, None] - part[None]) ** 2).sum(axis=2) / 2
            assert moved.max() <= rho * (1 + 1e-12)


def test_a_row_is_of_the_same_classes_whatever_rows_are_beside_it():
    rng, down = np.random.default_rng(0), asked(5, 37)
    x = rng.choice([-1, 0, 1], (201, 37)).astype(np.int8)
    q = memberships(kernels.pack_masked(x), **down)
    assert (q.sum(axis=1) == PARTS).all()
    assert q.min() >= 0
    assert (q == np.rint(q)).all()
    assert ((q > 0).sum(axis=1) > 1).mean() > 0.2
    some = rng.permutation(201)[:47]
    np.testing.assert_array_equal(memberships(kernels.pack_masked(x[some]), **down), q[some])


def test_the_noise_is_as_large_as_it_says_and_another_one_for_every_question():
    x = np.random.default_rng(0).choice([-1, 0, 1], (300, 40)).astype(np.int8)
    rows, noise, down = kernels.pack_masked(x), ClassNoise(40, 1.0, 1e-5, 8), asked(3, 40)
    exact = exact_sums("pairs", rows, down)
    told = [noise.answer("pairs", rows, down, key) for key in (b"a", b"a", b"b")]
    for name, array in exact.items():
        drawn = [(one[name] - array).ravel() / noise.variances[name] ** 0.5 for one in told]
        np.testing.assert_array_equal(drawn[0], drawn[1])
        assert abs((drawn[0] ** 2).mean() - 1) < 5 * (2 / array.size) ** 0.5
        assert abs(drawn[0] @ drawn[2]) < 5 * array.size**0.5
    assert abs((told[0]["signed"] - exact["signed"]).mean()) < 5 * noise.scale("signed") * PARTS


@pytest.mark.parametrize(
    ("K", "rows", "epsilon", "found"), [(3, 1500, 4.0, 3), (3, 200, 0.5, 1), (1, 400, 8.0, 1)]
)
def test_classes_are_found_beside_the_noise_and_none_are_made_up(K, rows, epsilon, found):
    T, _, x = classes(K, 24, 5 * rows, 0, missing=0.2)
    owners = tuple(as_examples(part, gaps=True) for part in np.array_split(x, 5))
    result = played(private_classes(Batches(owners), 24, epsilon, byzantine=0.1), clients=5)
    assert result.faults.words() == []
    means = result.state.server["memory/means"]
    assert len(means) == found
    assert found < K or K == 1 or error(means, T) < 0.09


def test_wrong_settings_are_refused_in_a_line():
    for wrong, words in (
        ({"epsilon": 1e-9}, "epsilon must be larger"),
        ({"looks": 0}, "looks must"),
    ):
        with pytest.raises(ArgumentError, match=words):
            private_classes(Elsewhere(), 10, **{"epsilon": 4.0} | wrong)
