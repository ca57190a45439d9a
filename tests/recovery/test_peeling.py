"""Recovery in layers, where more archetypes are behind the examples than one spectrum separates."""

import numpy as np
import pytest
from helpers import rest_slow

import hopfed
from hopfed.archetypes.overlap import retrieval
from hopfed.archetypes.patterns import Patterns
from hopfed.archetypes.votes import FEW
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.recovery.recover import run_recovery


def expect_all(found, xi, labels):
    """Every archetype of at least `FEW` examples, and nothing else."""
    score = retrieval(found.patterns, xi)
    enough = np.bincount(labels, minlength=len(xi)) >= FEW
    assert (score.magnetisation[enough] > 0.95).all()
    assert score.false_discoveries == 0
    assert len(found) == score.found(0.9)


def drawn(K, N, M, quality, seed):
    rng = np.random.default_rng([seed, K])
    xi = rademacher(K, N, rng)
    return xi, *draw_examples(xi, M, quality, rng)


@pytest.mark.parametrize(
    ("K", "N", "M", "r"), rest_slow([(110, 200, 2000, 0.8), (300, 400, 4000, 0.8)], 1)
)
@pytest.mark.parametrize("seed", [100, 101])
def test_all_come_out_in_layers_where_one_spectrum_is_too_crowded(K, N, M, r, seed):
    xi, eta, labels = drawn(K, N, M, r, seed)
    one = hopfed.recover(eta, seed=seed, patterns=Patterns(method="joint"))  # of one spectrum
    assert one.status in ("incomplete", "poor fit")
    run = run_recovery(eta, seed=seed)
    assert run.layers > 1
    found = run.archetypes
    expect_all(found, xi, labels)
    assert found.status == "ok"
    assert found.channel == "symmetric"
    assert found.quality == pytest.approx(r, abs=0.01)
    assert found.explained > 0.99
    shares = np.bincount(labels, minlength=K)[retrieval(found.patterns, xi).best] / M
    np.testing.assert_allclose(found.exposures, shares, atol=1.5 / M)


@pytest.mark.slow
@pytest.mark.parametrize("K", [500, 700])
@pytest.mark.parametrize("seed", [100, 101, 102, 103, 104])
def test_loads_of_a_half_and_more(K, seed):
    xi, eta, labels = drawn(K, 1000, 10_000, 0.8, seed)
    expect_all(hopfed.recover(eta, seed=seed), xi, labels)


def test_each_owner_votes_on_its_own_rows_and_noise_hides_nothing():
    rng = np.random.default_rng(104)
    xi = rademacher(110, 200, rng)
    owners = [draw_examples(xi, 600, r, rng) for r in (0.9, 0.8, 0.75, 0.8)]
    labels = np.concatenate([labels for _, labels in owners])
    noise = rng.choice(np.array([-1, 1], np.int8), (400, 200))
    run = run_recovery([*(x for x, _ in owners), noise], seed=0)
    expect_all(run.archetypes, xi, labels)
    assert run.archetypes.explained == pytest.approx(2400 / 2800, abs=0.01)
    assert run.exchanges > 4 + 3 * (run.layers - 1) > 4
    assert (run.traffic.up > 0).all()  # sums over patterns or columns: never rows


def test_other_structure_is_not_peeled():
    rng = np.random.default_rng(12)
    eta = np.sign(rng.standard_normal((2000, 100)) @ rng.standard_normal((100, 200)))
    run = run_recovery(eta, seed=0, channel="symmetric")
    assert run.archetypes.n_detected > 40
    assert (run.layers, run.archetypes.status) == (1, "poor fit")
