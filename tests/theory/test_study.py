"""Promises of the planner, beside spectra and recoveries of drawn tables."""

import numpy as np
import pytest
from helpers import rest_slow

from hopfed.archetypes.patterns import Patterns
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.spectral.rank import Sample, TracyWidom
from hopfed.theory import study


@pytest.mark.parametrize(
    ("N", "K", "r", "M"),
    rest_slow([(200, 3, 0.6, 14), (256, 1, 0.2, 21), (256, 1, 0.2, 17), (256, 10, 0.4, 124)], 1),
)
def test_powers_are_the_frequencies_of_drawn_tables(N, K, r, M):
    """Archetypes that the rule of `recover` counts in drawn tables."""
    exposures, draws = np.full(K, 1 / K), 120
    powers = study.Study(r, exposures, N).powers(M)
    count = []
    for draw in range(draws):
        rng = np.random.default_rng([5, draw])
        y = draw_examples(rademacher(K, N, rng), M, r, rng)[0].astype(float)
        gram = y @ y.T if M < N else y.T @ y
        values = np.maximum(np.linalg.eigvalsh(gram)[::-1] / M, 0)
        count.append(min(TracyWidom()(Sample(values, N, M)).n_detected, K))
    for share, promised in (
        (np.mean(count) / K, powers["seen"]),
        (np.equal(count, K).mean(), powers["all"]),
    ):
        spread = np.sqrt(promised * (1 - promised) / draws)
        assert abs(share - promised) <= 3.5 * spread + 0.03


def test_promises_are_the_smallest_and_in_order():
    found = study.promises(0.4, [0.5, 0.25, 0.25], 100, power=0.8)
    one = study.Study(0.4, np.array([0.5, 0.25, 0.25]), 100)
    assert found.exposures.tolist() == [0.5, 0.25]
    assert found.each[0] < found.each[1] == found.samples["seen"]
    assert found.samples["seen"] <= found.samples["all"] <= found.samples["resolved"]
    for name, M in found.samples.items():
        assert found.powers[name] == one.powers(M)[name] >= 0.8
        assert one.powers(np.floor(M * 0.9 - 1))[name] < 0.8


def test_an_archetype_with_few_examples_is_not_resolved():
    """Of 82 rows all ten archetypes have the five that `recover` asks for in a share of .40."""
    found = study.Study(0.9, np.full(10, 0.1), 100).powers(82)
    assert found["resolved"] == pytest.approx(0.4, abs=0.05)
    assert Patterns().support == study.SUPPORT
