import numpy as np
import pytest
from helpers import rest_slow
from hypothesis import given, settings
from hypothesis import strategies as st

from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.theory import planning, spikes

qualities = st.floats(0.02, 0.98)
exposures = st.floats(1e-4, 1.0)
sizes = st.integers(2, 10**6)


@given(r=qualities, exposure=exposures, N=sizes, M=sizes)
def test_minimal_values_lie_on_the_boundary(r, exposure, N, M):
    assert planning.margin(r, exposure, N, M) == pytest.approx(
        spikes.spike_strength(r, exposure, N) / spikes.threshold(N / M), rel=1e-12
    )
    least = planning.minimal_exposure(r, N, M)
    if least <= 1:
        assert planning.margin(r, least, N, M) == pytest.approx(1, rel=1e-12)
    samples = planning.minimal_samples(r, exposure, N)
    assert planning.margin(r, exposure, N, 1) * np.sqrt(samples) == pytest.approx(1, rel=1e-12)


@settings(max_examples=20)
@given(
    r=st.floats(0.05, 0.9),
    exposure=st.floats(1e-3, 1.0),
    N=st.integers(40, 10**5),
    power=st.floats(0.1, 0.999),
    false_alarm=st.floats(1e-4, 0.09),
    stronger=st.integers(0, 20),
)
def test_plan_is_the_smallest_sufficient(r, exposure, N, power, false_alarm, stronger):
    plan = planning.plan(r, exposure, N, power, false_alarm, stronger)
    assert plan.power >= power
    assert plan.power == planning.detection_power(
        r, exposure, N, plan.samples, false_alarm, stronger
    )
    if plan.samples > stronger + 1:
        assert (
            planning.detection_power(r, exposure, N, plan.samples - 1, false_alarm, stronger)
            < power
        )


@pytest.mark.parametrize(
    ("N", "M"), rest_slow([(5, 5), (3, 30), (8, 5), (6, 12), (30, 3), (2, 100)], 2)
)
def test_false_alarm_rate_of_small_tables(N, M):
    """By the first order of the kurtosis shift a level of .05 was .298 at 5 x 5."""
    noise = np.random.default_rng(22).choice([-1.0, 1.0], size=(8000, M, N))
    top = np.linalg.eigvalsh(noise.transpose(0, 2, 1) @ noise / M)[:, -1]
    limit = planning.noise_threshold(1e-6, N, M, [0.05, 0.001])
    size = (top[:, None] > limit).mean(axis=0)
    assert 0.03 < size[0] < 0.08
    assert size[1] < 0.002


def test_power_matches_simulation():
    rng = np.random.default_rng(3)
    N, M, r, pi, draws = 200, 205, 0.3, np.array([0.5, 0.4, 0.1]), 150
    threshold, hits = planning.noise_threshold(r, N, M), 0
    for _ in range(draws):
        x = draw_examples(rademacher(3, N, rng), M, r, rng, exposures=pi)[0].astype(float)
        hits += np.linalg.eigvalsh(x.T @ x / M)[-3] > threshold
    predicted = planning.detection_power(r, 0.1, N, M, stronger=2)
    assert hits / draws == pytest.approx(predicted, abs=0.05 + 3 * np.sqrt(0.1 / draws / 4))
