"""Promises of the planner, beside spectra and recoveries of drawn tables."""

import numpy as np
import pytest
from helpers import rest_slow

import hopfed
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.spectral.rank import Sample, TracyWidom
from hopfed.theory import study


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
    rest_slow([(200, 3, 0.6, 14), (256, 1, 0.2, 21), (256, 1, 0.2, 17), (256, 10, 0.4, 124)], 1),
)
def test_powers_are_the_frequencies_of_drawn_tables(N, K, r, M):
    exposures, draws = np.full(K, 1 / K), 120
    powers = study.Study(r, exposures, N).powers(M)
    count = counted(r, exposures, N, M, draws, seed=5)
    assert within(count.mean() / K, powers["seen"], draws)
    assert within((count == K).mean(), powers["all"], draws)


@pytest.mark.slow
@pytest.mark.parametrize(("N", "K", "r"), [(200, 3, 0.6), (256, 1, 0.2), (100, 5, 0.3)])
def test_resolved_is_ok(N, K, r):
    exposures, draws = np.full(K, 1 / K), 40
    M = int(study.promises(r, exposures, N).samples["resolved"])
    ok = 0
    for draw in range(draws):
        rng = np.random.default_rng([8, draw])
        y, _ = draw_examples(rademacher(K, N, rng), M, r, rng, exposures=exposures)
        ok += hopfed.recover(y, seed=draw).status in ("ok", "one class")
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
