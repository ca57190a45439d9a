"""The planner for graded classes: limits, consistency, and the simulation that checks it."""

from dataclasses import replace

import numpy as np
import pytest
from helpers import rest_slow
from hypothesis import given, settings
from hypothesis import strategies as st

from hopfed.errors import ArgumentError
from hopfed.theory import graded_simulation, planning, spikes
from hopfed.theory.graded import Classes
from hopfed.theory.graded_planning import ClassLaw, plan
from hopfed.theory.graded_simulation import QUANTITIES, compare

BETAS = [(1, 1), (5, 5), (1, 4), (2, 0.7)]


@settings(max_examples=10)
@given(
    r=st.floats(0.1, 0.9),
    share=st.floats(0.005, 0.95),
    N=st.integers(40, 2000),
    power=st.floats(0.1, 0.99),
    stronger=st.integers(0, 5),
)
def test_signs_without_gaps_are_planned_as_archetypes(r, share, N, power, stronger):
    got = plan(ClassLaw(r=r), share, N, power, 0.05, stronger)
    want = planning.plan(r, share, N, power, 0.05, stronger)
    variance = 1 - r**2
    assert got.samples == want.samples
    assert got.boundary == pytest.approx(planning.minimal_samples(r, share, N), rel=1e-10)
    assert got.power == pytest.approx(want.power, rel=1e-9)
    assert got.threshold * variance == pytest.approx(want.threshold, rel=1e-10)
    assert got.eigenvalue * variance == pytest.approx(want.eigenvalue, rel=1e-10)
    assert got.overlap == pytest.approx(want.overlap, rel=1e-9, abs=1e-12)
    assert got.margin == pytest.approx(want.margin, rel=1e-10)


@pytest.mark.parametrize("missing", [0.2, 0.7])
def test_gaps_take_quality_away(missing):
    r, share, N = 0.4, 0.1, 300
    got = plan(ClassLaw(r=r, missing=missing), share, N, samples=2000)
    quality = r * np.sqrt(1 - missing)
    assert got.margin == pytest.approx(planning.margin(quality, share, N, 2000), rel=1e-10)
    kappa = spikes.spike_strength(quality, share, N)
    assert got.eigenvalue == pytest.approx(spikes.outlier(kappa, N / 2000), rel=1e-10)
    full = plan(ClassLaw(r=r), share, N, samples=2000)
    for name in ("power", "score", "accuracy", "accuracy_all", "cosine", "distance"):
        assert getattr(got, name) <= getattr(full, name)
    assert got.labelled_error == pytest.approx(full.labelled_error / np.sqrt(1 - missing), rel=0.02)
    assert got.mean_error > full.mean_error


@pytest.mark.parametrize("rates", BETAS)
def test_a_typical_table_is_an_average_one(rates):
    """Gram matrix and Bhattacharyya distance of tables drawn from the law, on average."""
    law, share, N, draws = ClassLaw(rates=rates, missing=0.3), 0.2, 300, 300
    typical = law.typical(share, N)
    assert abs(typical.N - N) < 1e-9
    rng = np.random.default_rng(1)
    grams = []
    for _ in range(draws):
        own = Classes(law.draw(rng, 2, N), typical.shares, 0.7)
        grams.append(own.gram)
    gap, error = np.mean(grams, axis=0) - typical.gram, np.std(grams, axis=0) / np.sqrt(draws)
    assert (np.abs(gap) < 4 * error).all()
    wide = law.typical(share, 10_000)
    np.testing.assert_allclose(wide.gram / 10_000, typical.gram / N, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("rates", [(1, 1), (1, 4), (3, 2), None])
def test_the_distance_of_many_classes_of_random_rates(rates):
    """The closed form, in which every column has the same noise."""
    K, N = 40, 4000
    law = ClassLaw(rates=rates, r=None if rates else 0.5, missing=0.3)
    classes = Classes(law.draw(np.random.default_rng(0), K, N), np.full(K, 1 / K), 0.7)
    found = classes.distances[np.triu_indices(K, 1)]
    assert np.mean(found**2) == pytest.approx(law.distance(N) ** 2, rel=0.02)


@pytest.mark.parametrize("law", [ClassLaw(r=0.3, missing=0.4), ClassLaw(rates=(2, 3), missing=0.1)])
def test_a_plan_is_the_fewest_rows_and_answers_for_them(law):
    found = plan(law, [0.4, 0.1], 60, power=0.8)
    assert (found.power >= 0.8).all()
    for i, share in enumerate((0.4, 0.1)):
        M = int(found.samples[i])
        again = plan(law, share, 60, samples=M)
        for name in found.__dataclass_fields__:
            assert getattr(again, name) == getattr(found.at(i), name) == getattr(found, name)[i]
        assert plan(law, share, 60, samples=M - 1).power < 0.8
        assert found.boundary[i] < M
    assert found.samples[1] > found.samples[0]


def test_equal_halves_of_one_mean_have_a_plan_too():
    """Both spikes are equally strong, so neither eigenvector has a direction of its own."""
    found = plan(ClassLaw(rates=(2, 2)), 0.5, 80, samples=200)
    white = spikes.overlap(spikes.strength(found.eigenvalue, 80 / 200), 80 / 200)
    assert found.overlap == pytest.approx(white, rel=0.02)
    assert found.score == pytest.approx(found.overlap, rel=0.02)


def test_what_cannot_be_reached_is_infinite():
    found = plan(ClassLaw(rates=(2e6, 2e6)), 0.5, 10)
    assert found.samples == np.inf
    assert np.isfinite(found.boundary)
    assert np.isnan(found.power)


@pytest.mark.parametrize(
    ("law", "share", "N", "M"),
    rest_slow(
        [
            (ClassLaw(r=0.3, missing=0.3), 0.1, 150, 1200),
            (ClassLaw(rates=(1, 1), missing=0.3), 0.1, 100, 600),
            (ClassLaw(rates=(5, 5), missing=0.2), 0.3, 100, 800),
            (ClassLaw(rates=(1, 4), missing=0.5), 0.3, 150, 500),
            (ClassLaw(rates=(0.5, 5)), 0.1, 100, 600),
        ],
        2,
    ),
)
def test_predictions_agree_with_planted_classes(law, share, N, M):
    found = compare(law, plan(law, share, N, samples=M), share, N, draws=25, seed=3)
    wrong = [name for name, good in zip(QUANTITIES, found.agrees, strict=True) if not good]
    assert wrong == []
    assert np.isfinite(found.predicted).all()
    # The plan speaks of a typical table, not of these: it is near.
    scale = np.maximum(np.abs(found.measured), 0.02)
    assert (np.abs(found.planned - found.measured) < 0.1 * scale + 4 * found.standard_error).all()


@pytest.mark.parametrize(
    ("law", "share", "N"),
    rest_slow(
        [(ClassLaw(rates=(5, 5), missing=0.3), 0.2, 100), (ClassLaw(r=0.3, missing=0.3), 0.1, 150)],
        1,
    ),
)
def test_the_power_of_the_plan_is_that_of_planted_classes(law, share, N):
    found, draws, hits = plan(law, share, N, power=0.8), 200, 0
    rng, M = np.random.default_rng(5), int(found.samples)
    for _ in range(draws):
        classes = Classes(law.draw(rng, 2, N), [share, 1 - share], 1 - law.missing)
        rows, _ = graded_simulation.draw_rows(classes, M, rng)
        rows /= np.sqrt(classes.noise * M)
        hits += np.linalg.eigvalsh(rows.T @ rows)[-2] > found.threshold
    assert hits / draws == pytest.approx(found.power, abs=0.05 + 3 * np.sqrt(0.16 / draws))


def test_columns_that_hardly_vary_lend_no_precision():
    """A quarter of these columns has a rate within 1/1000 of 1, which few rows do not show."""
    law, share, N = ClassLaw(rates=(0.8, 0.2)), 0.2, 32
    asked = plan(law, share, N)
    assert 1 < asked.boundary < asked.samples < 100
    found = compare(law, asked, share, N, draws=100, seed=4)
    named = dict(zip(QUANTITIES, found.agrees.tolist(), strict=True))
    assert [named[name] for name in ("power", "eigenvalue", "accuracy")] == [True] * 3


def test_one_row_is_no_test():
    """Its only eigenvalue was below the threshold, and passed it with a chance of .26."""
    found = plan(ClassLaw(r=0.6), 0.5, 100, samples=1)
    assert found.threshold == pytest.approx(100 / (1 - 0.6**2))
    assert found.power == 0


def test_a_wrong_prediction_is_noticed(monkeypatch):
    law = ClassLaw(r=0.4, missing=0.2)
    right = plan(law, 0.3, 60, samples=400)
    predict = graded_simulation.class_noise.predict

    def wrong(classes, M):
        found = predict(classes, M)
        return replace(found, outliers=1.2 * found.outliers)

    monkeypatch.setattr(graded_simulation.class_noise, "predict", wrong)
    found = compare(law, right, 0.3, 60, draws=20, seed=0)
    named = dict(zip(QUANTITIES, found.agrees.tolist(), strict=True))
    assert named.pop("eigenvalue") is False
    assert all(named.values())


def test_a_seed_names_the_draws():
    law = ClassLaw(rates=(2, 2))
    asked = plan(law, 0.3, 30, samples=100)
    one, same, other = (compare(law, asked, 0.3, 30, 3, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.measured, same.measured)
    assert (one.measured != other.measured).any()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ClassLaw(), "r must be given where rates are symmetric"),
        (lambda: ClassLaw(r=1.0), r"r must be a number in \(0, 1\), got 1.0"),
        (lambda: ClassLaw(rates=(1, 1), r=0.5), "r must be left out beside rates"),
        (lambda: ClassLaw(rates=(0, 1)), "rates must be a finite number above 0, got 0"),
        (lambda: ClassLaw(rates=(1,)), "rates must be two numbers, a and b"),
        (lambda: ClassLaw(r=0.5, missing=1.0), r"missing must be a number in \[0, 1\), got 1.0"),
        (lambda: plan(ClassLaw(r=0.5), 1.0, 10), r"exposure must be a number in \(0, 1\), got 1.0"),
        (lambda: plan(ClassLaw(rates=(1, 1)), 0.5, 1), "N must be above 1"),
        (
            lambda: plan(ClassLaw(rates=(1, 1)), 0.5, 20, samples=1),
            "M must be at least 2 for a test",
        ),
        (
            lambda: compare(ClassLaw(r=0.5), plan(ClassLaw(r=0.5), 0.5, 9), 0.5, 9, 1, 0),
            "draws must be at",
        ),
    ],
)
def test_bad_requests_are_refused(call, words):
    with pytest.raises(ArgumentError, match=words):
        call()
