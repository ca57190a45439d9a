import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopfed.errors import ArgumentError
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
    quality = planning.minimal_quality(exposure, N, M)
    assert planning.margin(quality, exposure, N, M) == pytest.approx(1, rel=1e-9)
    samples = planning.minimal_samples(r, exposure, N)
    assert planning.margin(r, exposure, N, 1) * np.sqrt(samples) == pytest.approx(1, rel=1e-12)


def test_phase_diagram_is_consistent():
    r, pi = np.linspace(0.05, 0.95, 19), np.geomspace(1e-4, 1, 25)
    diagram = planning.phase_diagram(r, pi, 400, 1600)
    assert diagram.margin.shape == diagram.overlap.shape == diagram.eigenvalue.shape == (19, 25)
    np.testing.assert_array_equal(diagram.detectable, pi > diagram.boundary[:, None])
    np.testing.assert_array_equal(diagram.detectable, diagram.overlap > 0)
    np.testing.assert_array_equal(
        diagram.detectable, planning.detectable(r[:, None], pi, 400, 1600)
    )
    assert (np.diff(diagram.overlap, axis=0) >= 0).all()
    assert (np.diff(diagram.overlap, axis=1) >= 0).all()


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


@given(
    r=st.floats(0.1, 0.9),
    N=st.integers(40, 5000),
    M=st.integers(40, 5000),
    power=st.floats(0.2, 0.99),
)
def test_exposure_needed_reaches_its_power(r, N, M, power):
    exposure = planning.exposure_needed(r, N, M, power)
    if np.isnan(exposure):
        assert planning.detection_power(r, 1.0, N, M) < power
    else:
        assert planning.detection_power(r, exposure, N, M) >= power
        assert planning.detection_power(r, exposure * (1 - 1e-6), N, M) < power + 1e-9


@given(
    r=st.floats(0.05, 0.9),
    exposure=st.floats(1e-3, 1),
    N=st.integers(40, 3000),
    M=st.integers(40, 3000),
    false_alarm=st.floats(1e-4, 0.5),
)
def test_power_lies_between_the_false_alarm_rate_and_one(r, exposure, N, M, false_alarm):
    power = planning.detection_power(r, exposure, N, M, false_alarm)
    assert false_alarm * (1 - 1e-9) <= power <= 1 + 1e-12
    # Better examples help.
    better = planning.detection_power(r + 0.05, exposure, N, M, false_alarm)
    assert better >= power - 0.02


@pytest.mark.slow
def test_false_alarm_rate_of_the_threshold():
    rng = np.random.default_rng(21)
    N, M, draws = 80, 120, 1500
    noise = rng.choice([-1.0, 1.0], size=(draws, M, N))
    top = np.linalg.eigvalsh(noise.transpose(0, 2, 1) @ noise / M)[:, -1]
    limit = planning.noise_threshold(1e-6, N, M, [0.1, 0.05])
    size = (top[:, None] > limit).mean(axis=0)
    np.testing.assert_allclose(size, [0.1, 0.05], atol=0.025)


@pytest.mark.parametrize(("N", "M"), [(5, 5), (8, 5), (6, 12), (3, 30), (30, 3), (2, 100)])
def test_false_alarm_rate_of_small_tables(N, M):
    """By the first order of the kurtosis shift a level of .05 was .298 at 5 x 5."""
    noise = np.random.default_rng(22).choice([-1.0, 1.0], size=(8000, M, N))
    top = np.linalg.eigvalsh(noise.transpose(0, 2, 1) @ noise / M)[:, -1]
    limit = planning.noise_threshold(1e-6, N, M, [0.05, 0.001])
    size = (top[:, None] > limit).mean(axis=0)
    assert 0.03 < size[0] < 0.08
    assert size[1] < 0.002


def test_no_threshold_is_negative_or_above_what_a_table_can_have():
    N, M = np.meshgrid(np.arange(1, 12), np.arange(1, 12))
    for r in (1e-3, 0.5, 0.9, 0.99):
        limit = planning.noise_threshold(r, N, M)
        assert ((limit > 0) & (limit <= N)).all()
        np.testing.assert_array_equal(limit[0], N[0])
        power = planning.detection_power(r, 0.5, N, M)
        assert (power[limit == N] == 0).all()


def test_power_matches_simulation():
    rng = np.random.default_rng(33)
    N, r, pi, draws = 200, 0.3, np.array([0.5, 0.4, 0.1]), 150
    for M in (205, 307):
        threshold = planning.noise_threshold(r, N, M)
        hits = 0
        for _ in range(draws):
            xi = rng.choice([-1.0, 1.0], size=(3, N))
            flips = np.where(rng.random((M, N)) < (1 + r) / 2, 1.0, -1.0)
            examples = xi[rng.choice(3, size=M, p=pi)] * flips
            gram = examples.T @ examples if M > N else examples @ examples.T
            hits += np.linalg.eigvalsh(gram / M)[-3] > threshold
        predicted = planning.detection_power(r, 0.1, N, M, stronger=2)
        assert hits / draws == pytest.approx(predicted, abs=0.05 + 3 * np.sqrt(0.1 / draws / 4))


def test_requests_broadcast():
    plan = planning.plan(0.3, [0.1, 0.5], 200, power=[[0.5], [0.9]])
    assert plan.samples.shape == (2, 2)
    assert plan.samples[1, 0] == planning.plan(0.3, 0.1, 200, 0.9).samples
    assert (np.diff(plan.samples, axis=0) > 0).all()
    assert (np.diff(plan.samples, axis=1) < 0).all()
    assert planning.exposure_needed(0.3, 200, [100, 1000]).shape == (2,)


def test_unreachable_requests_are_values():
    assert np.isnan(planning.exposure_needed(0.02, 50, 50, 0.99))
    assert planning.plan(1e-6, 1e-6, 50, 0.9).samples == np.inf


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: planning.margin(0.0, 0.1, 10, 10), "r"),
        (lambda: planning.margin(0.5, 0.0, 10, 10), "exposure"),
        (lambda: planning.minimal_exposure(0.5, 0, 10), "N"),
        (lambda: planning.minimal_quality(2.0, 10, 10), "exposure"),
        (lambda: planning.phase_diagram([0.5, np.nan], [0.1], 10, 10), "qualities"),
        (lambda: planning.noise_threshold(0.5, 10, 10, 0.0), "false_alarm"),
        (lambda: planning.plan(0.5, 0.1, 10, power=1.0), "power"),
        (lambda: planning.plan(1.5, 0.1, 10), "r"),
        (lambda: planning.detection_power(0.5, 0.1, 10, 10, false_alarm=1.0), "false_alarm"),
        (lambda: planning.detection_power(0.5, 0.1, 10, 10, stronger=10), "stronger"),
        (lambda: planning.plan(0.5, 0.1, 10, stronger=-1), "stronger"),
        (lambda: planning.exposure_needed(0.5, 10, 10.5), "M"),
    ],
)
def test_bad_arguments_are_named(call, argument):
    with pytest.raises(ArgumentError) as raised:
        call()
    assert raised.value.argument == argument
