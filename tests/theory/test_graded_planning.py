"""The planner for graded classes: limits, consistency, and the simulation that checks it."""

import numpy as np
import pytest
from graded_tables import draw_rows, responsibilities
from helpers import rest_slow
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hopfed.theory import planning
from hopfed.theory.graded import Classes
from hopfed.theory.graded_planning import ClassLaw, plan


@settings(max_examples=4)
@given(
    r=st.floats(0.1, 0.9),
    share=st.floats(0.005, 0.95),
    N=st.integers(40, 2000),
    power=st.floats(0.1, 0.99),
    stronger=st.integers(0, 5),
)
@example(r=0.890625, share=0.75, N=1874, power=0.5, stronger=0)  # no row is undecided: 0 / 0
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


@pytest.mark.parametrize(
    "law", rest_slow([ClassLaw(r=0.3, missing=0.4), ClassLaw(rates=(2, 3), missing=0.1)], 1)
)
def test_a_plan_is_the_fewest_rows_and_answers_for_them(law):
    found = plan(law, [0.4, 0.1], 60, power=0.8)
    assert (found.power >= 0.8).all()
    for i, share in enumerate((0.4, 0.1)):
        M = int(found.samples[i])
        again = plan(law, share, 60, samples=M)
        for name in found.__dataclass_fields__:
            assert getattr(again, name) == getattr(found, name)[i]
        assert plan(law, share, 60, samples=M - 1).power < 0.8
        assert found.boundary[i] < M
    assert found.samples[1] > found.samples[0]


@pytest.mark.parametrize(
    ("law", "share", "N", "M"),
    rest_slow(
        [
            (ClassLaw(rates=(5, 5), missing=0.2), 0.3, 60, 500),
            (ClassLaw(r=0.3, missing=0.3), 0.1, 150, 1200),
            (ClassLaw(rates=(1, 1), missing=0.3), 0.1, 100, 600),
            (ClassLaw(rates=(5, 5), missing=0.2), 0.3, 100, 800),
            (ClassLaw(rates=(1, 4), missing=0.5), 0.3, 150, 500),
            (ClassLaw(rates=(0.5, 5)), 0.1, 100, 600),
        ],
        1,
    ),
)
def test_predictions_agree_with_planted_classes(law, share, N, M):
    found, rng, seen = plan(law, share, N, samples=M), np.random.default_rng(3), []
    for _ in range(25):
        classes = Classes(law.draw(rng, 2, N), [share, 1 - share], 1 - law.missing)
        rows, labels = draw_rows(classes, M, rng)
        values = np.linalg.eigvalsh(rows.T @ rows / (classes.noise * M))[-2]
        chosen = responsibilities(rows, classes.means, classes.shares).argmax(axis=1)
        seen.append((values, (chosen == labels)[labels == 0].mean(), values > found.threshold))
    mean, error = np.mean(seen, axis=0), np.std(seen, axis=0) / 5
    # The plan speaks of a typical table of a large size: it is near.
    assert mean[0] == pytest.approx(found.eigenvalue, abs=0.1 * mean[0] + 4 * error[0])
    assert mean[1] == pytest.approx(found.accuracy, abs=0.1 * mean[1] + 4 * error[1])
    spread = np.sqrt(found.power * (1 - found.power)) / 5
    assert mean[2] == pytest.approx(found.power, abs=0.05 + 4 * spread)
