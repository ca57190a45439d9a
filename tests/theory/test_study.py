"""Promises of the planner, beside spectra and recoveries of drawn tables."""

import numpy as np
import pytest
from helpers import rest_slow

import hopfed
from hopfed.errors import ArgumentError
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.spectral.noise import Sample
from hopfed.spectral.rank import TracyWidom
from hopfed.theory import planning, resolution, study


def counted(r, exposures, N, M, draws, seed):
    """Archetypes that the rule of `recover` counts in drawn tables."""
    found = []
    for draw in range(draws):
        rng = np.random.default_rng([seed, draw])
        xi = rademacher(len(exposures), N, rng)
        labels = rng.choice(len(exposures), size=M, p=exposures)
        y = xi[labels] * np.where(rng.random((M, N)) < (1 + r) / 2, 1.0, -1.0)
        gram = y @ y.T if M < N else y.T @ y
        values = np.maximum(np.linalg.eigvalsh(gram)[::-1] / M, 0)
        found.append(TracyWidom()(Sample(values, N, M)).n_detected)
    return np.minimum(found, len(exposures))


def within(share, promised, draws, sds=3.5):
    return abs(share - promised) <= sds * np.sqrt(promised * (1 - promised) / draws) + 0.03


@pytest.mark.parametrize(
    ("N", "K", "r", "M"),
    rest_slow([(256, 1, 0.2, 21), (200, 3, 0.6, 14), (256, 1, 0.2, 17), (256, 10, 0.4, 124)], 2),
)
def test_powers_are_the_frequencies_of_drawn_tables(N, K, r, M):
    exposures, draws = np.full(K, 1 / K), 120
    powers = study.Study(r, exposures, N).powers(M)
    count = counted(r, exposures, N, M, draws, seed=5)
    assert within(count.mean() / K, powers["seen"], draws)
    assert within((count == K).mean(), powers["all"], draws)


def test_ten_equal_archetypes_are_all_counted_as_promised():
    exposures, draws = np.full(10, 0.1), 150
    found = study.promises(0.4, exposures, 256)
    M = int(found.samples["all"])
    # One archetype alone would need far fewer: the smallest of ten lies below the law of one.
    assert 1.3 * planning.plan(0.4, 0.1, 256, stronger=9).samples < M
    assert within((counted(0.4, exposures, 256, M, draws, 6) == 10).mean(), 0.9, draws)


def test_unequal_archetypes_are_seen_one_by_one():
    exposures, draws = np.array([0.6, 0.3, 0.1]), 120
    one = study.Study(0.3, exposures, 150)
    count = counted(0.3, exposures, 150, 300, draws, seed=7)
    assert (np.diff(one.seen(300)) <= 0).all()
    for k, promised in enumerate(one.seen(300)):
        assert within((count > k).mean(), promised, draws)


@pytest.mark.parametrize(
    ("N", "K", "r"), rest_slow([(200, 3, 0.6), (256, 1, 0.2), (100, 5, 0.3)], 1)
)
def test_resolved_is_ok(N, K, r):
    exposures, draws = np.full(K, 1 / K), 60
    M = int(study.promises(r, exposures, N).samples["resolved"])
    ok = 0
    for draw in range(draws):
        rng = np.random.default_rng([8, draw])
        y, _ = draw_examples(rademacher(K, N, rng), M, r, rng, exposures=exposures)
        ok += hopfed.recover(y, seed=draw).status == "ok"
    assert within(ok / draws, 0.9, draws)


def test_promises_are_the_smallest_and_in_order():
    found = study.promises(0.4, [0.5, 0.25, 0.25], 100, power=0.8)
    one = study.Study(0.4, np.array([0.5, 0.25, 0.25]), 100)
    assert found.exposures.tolist() == [0.5, 0.25]
    assert found.each[0] < found.each[1] == found.samples["seen"]
    assert found.samples["seen"] <= found.samples["all"] <= found.samples["resolved"]
    for name, M in found.samples.items():
        assert found.powers[name] == one.powers(M)[name] >= 0.8
        assert one.powers(np.floor(M * 0.9 - 1))[name] < 0.8


def test_one_constant_for_count_and_plan():
    assert TracyWidom().alpha == planning.FALSE_ALARM == study.Study(0.5, [1.0], 9).false_alarm
    assert resolution.sure_level(1900) == pytest.approx(0.92)


def test_out_of_reach_is_infinite():
    found = study.promises(1e-6, [1e-4], 50)
    assert found.samples == dict.fromkeys(study.PROMISES, np.inf)
    assert found.powers == dict.fromkeys(study.PROMISES, 0.0)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ((0.5, [0.6, 0.6], 50), "exposures"),
        ((0.5, [0.0], 50), "exposures"),
        ((1.5, [0.5], 50), "r"),
        ((0.5, np.full(50, 0.02), 50), "exposures"),
        ((0.5, [0.5], 50, 1.0), "power"),
    ],
)
def test_bad_arguments(arguments, word):
    with pytest.raises(ArgumentError) as error:
        study.promises(*arguments)
    assert word in str(error.value)


@pytest.mark.parametrize("M", [2, 3, 10.5])
def test_a_study_has_more_examples_than_archetypes(M):
    with pytest.raises(ArgumentError, match="M must be"):
        study.Study(0.5, np.full(3, 1 / 3), 50).powers(M)
