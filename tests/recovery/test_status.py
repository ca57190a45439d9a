"""What the status promises: "ok" is said of patterns that are right, and of clean data too."""

import numpy as np
import pytest
from helpers import rest_slow, sample

import hopfed
from hopfed.archetypes.overlap import retrieval
from hopfed.archetypes.patterns import Patterns
from hopfed.archetypes.session import Owners
from hopfed.archetypes.verdict import FOUND
from hopfed.archetypes.votes import measure_agreement, rows_fit_patterns
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.kernels import pack
from hopfed.recovery.recover import run_recovery
from hopfed.theory.planning import minimal_samples

QUALITIES = (0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 1.0)
RIGHT = ("ok", "one class")  # a single pattern is one class


def draw(seed, index):
    """Examples from just above the threshold (1.1 times its examples) to far above (30 times)."""
    rng = np.random.default_rng([seed, index])
    while True:
        N, K = int(rng.choice([100, 200, 400, 800])), int(rng.choice([1, 2, 3, 5, 10, 20]))
        r = float(rng.choice(QUALITIES))
        above = np.exp(rng.uniform(np.log(1.1), np.log(30)))
        M = int(np.ceil(above * minimal_samples(min(r, 0.999), 1 / K, N)))
        if (M := max(M, 3 * K, 12)) <= 4_000:
            break
    exposures = None if rng.random() < 0.6 else rng.dirichlet(np.full(K, 5.0))
    xi = rademacher(K, N, rng)
    return xi, draw_examples(xi, M, r, rng, exposures=exposures)[0]


@pytest.mark.parametrize(("draws", "said"), rest_slow([(10, 0.1), (2_000, 0.25)], 1))
def test_patterns_under_ok_are_right(draws, said):
    overlaps, found = [], 0
    for index in range(draws):
        xi, eta = draw(100, index)
        answer = hopfed.recover(eta, seed=index, channel="symmetric", support=1)
        found += answer.status in (*FOUND, "one class")
        if answer.status in RIGHT:
            overlaps.append(np.abs(answer.patterns.astype(float) @ xi.T).max(axis=1) / xi.shape[1])
    assert (np.concatenate(overlaps) < 0.9).mean() <= 0.01
    assert len(overlaps) >= said * draws
    assert found >= 0.9 * draws


def test_the_examples_that_it_asks_for_do_resolve_them():
    rng = np.random.default_rng(101)
    xi = rademacher(5, 400, rng)
    few = hopfed.recover(draw_examples(xi, 250, 0.25, rng)[0], seed=0)
    assert few.status == "detected, not resolved"
    asked = int(few.advice.rsplit("About ")[1].split(" ")[0].replace(",", ""))
    assert 250 < asked < 2_500
    said = []
    for _ in range(3):
        found = hopfed.recover(draw_examples(xi, 2 * asked, 0.25, rng)[0], seed=0)
        said.append(found.status)
        assert retrieval(found.patterns, xi).magnetisation.min() > 0.9
    assert said.count("ok") == 3


@pytest.mark.parametrize("r", rest_slow([0.1, 0.3, 0.97, 0.05, 0.2, 0.5, 0.7, 0.9, 1.0], 3))
@pytest.mark.parametrize("K", [1, 2, 4])
def test_every_quality_gives_an_answer_that_holds(K, r):
    xi, eta = sample(K, 200, 600, r, 100)
    found = hopfed.recover(eta, seed=100, channel="symmetric")
    assert found.status in (*FOUND, "one class", "no signal")
    if found.status in RIGHT:
        assert retrieval(found.patterns, xi).magnetisation.min() > 0.9
    if r >= 0.3:
        assert (found.status, len(found)) == (RIGHT[K == 1], K)


@pytest.mark.parametrize("constant", rest_slow([10, 200, 1, 50], 2))
@pytest.mark.parametrize("channel", ["auto", "symmetric"])
def test_columns_of_one_value_are_left_out_of_the_count(constant, channel):
    xi, eta = sample(3, 100, 400, 0.8, 102)
    signs = np.random.default_rng(0).choice(np.array([-1, 1], np.int8), constant)
    wide = np.hstack([eta, np.tile(signs, (400, 1))])
    owners = np.array_split(wide, 2)
    run = run_recovery(owners, seed=0, channel=channel)
    found = run.archetypes
    assert (found.status, found.n_detected, found.channel) == ("ok", 3, "symmetric")
    assert run.constant_columns.tolist() == list(range(100, 100 + constant))
    assert retrieval(found.patterns[:, :100], xi).magnetisation.min() == 1
    assert (found.patterns[:, 100:] == signs).all()
    assert found.quality == pytest.approx(0.8, abs=0.02)
    assert (run.traffic.up > 0).all()


@pytest.mark.parametrize("rows", [[[1, 1], [1, -1]], [[0, 1, 1], [0, 1, 1]], np.ones((5, 3))])
@pytest.mark.parametrize("channel", ["auto", "symmetric"])
def test_too_little_data_says_so(rows, channel):
    found = hopfed.recover(np.array(rows), seed=0, channel=channel)
    assert found.status == "too little data"


@pytest.mark.parametrize(
    ("N", "K", "M"), rest_slow([(200, 5, 2000), (400, 10, 400), (1000, 5, 500)], 1)
)
def test_rare_flips_are_not_counted(N, K, M):
    """Columns and rows of many flips, where most have few, stand out of the bulk by chance."""
    counted = []
    for r in (0.98, 0.99, 0.995):
        eta, joint = sample(K, N, M, r, 100)[1], Patterns(method="joint")
        found = hopfed.recover(eta, seed=0, channel="symmetric", patterns=joint)
        counted.append(found.n_detected)
    assert sum(number != K for number in counted) <= 1


def test_patterns_that_explain_no_row_are_borne_out_by_none():
    """Such patterns can come of few exact rows of many; asking then ended in an error of NumPy."""
    rng = np.random.default_rng(0)
    clients = [pack(rademacher(20, 200, rng)) for _ in range(2)]
    others = rademacher(3, 200, rng).astype(np.int8)
    session = Owners.over(clients, 0)
    assert measure_agreement(session, others, 0.9)[0] == []
    assert not rows_fit_patterns(session, others, 0.9)
