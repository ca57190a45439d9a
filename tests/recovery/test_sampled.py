"""Large tables: searched in a part of their rows and columns, and answered from all of them."""

import numpy as np
import pytest
from graded_tables import classes, error, judged, known
from helpers import rest_slow

from hopfed.archetypes import classes as graded
from hopfed.archetypes.class_sums import Prior
from hopfed.archetypes.classes import fit_one_class
from hopfed.archetypes.session import Owners
from hopfed.recovery.recover import run_recovery


@pytest.fixture
def small(monkeypatch):
    """Tables of more than 60,000 entries are searched in part, of 200 rows at least."""
    monkeypatch.setattr(graded, "SEARCHED", 60_000)
    monkeypatch.setattr(graded, "FEWEST", 200)


@pytest.mark.parametrize(("M", "N"), rest_slow([(4000, 100), (1500, 600), (400, 3000)], 1))
def test_all_rows_and_columns_say_what_classes_are(small, M, N):
    T, y, x = classes(4, N, M, 3, missing=0.2)
    recovery = run_recovery(np.array_split(x, 3), seed=0)
    found = recovery.archetypes
    assert found.status == "ok"
    assert found.means.shape == (4, N)
    assert sum(recovery.n_examples) == M
    assert error(found.means, T) < 1.03 * error(known(x, y, 4), T) + 0.002
    shares = np.bincount(y, minlength=4) / M
    np.testing.assert_allclose(np.sort(found.shares), np.sort(shares), atol=0.02)


def test_a_wide_table_keeps_its_rows(small):
    rng = np.random.default_rng(0)
    table = Owners.of([rng.choice([-1, 1], (300, 4000))], 0)
    for directions, shape in ((2, (200, 300)), (3, (300, 200))):
        assert graded.draw_part(table, directions)[0].members[0].rows.shape == shape
    long = Owners.of([rng.choice([-1, 1], (9000, 50))] * 2, 0)
    part = graded.draw_part(long, directions=2)[0]
    assert part.columns is None
    assert [m.rows.shape for m in part.members] == [(600, 50), (600, 50)]
    few = Owners.of([rng.choice([-1, 1], (100, 50))], 0)
    assert graded.draw_part(few, 2)[0] is few


@pytest.mark.parametrize(("observed", "rows"), [(1.0, 600), (0.5, 1200), (0.05, 2400)])
def test_what_counts_is_observed(small, observed, rows):
    """Rows with gaps say less, so more of them are searched, up to four times as many."""
    rng = np.random.default_rng(0)
    x = rng.choice([-1, 1], (9000, 100)) * (rng.random((9000, 100)) < observed)
    x[:, 0] = 1  # no row is blank
    part = graded.draw_part(Owners.of([x], 0), directions=2)[0]
    assert part.members[0].rows.shape[0] == pytest.approx(rows, rel=0.02)
    x = x[: rows - 100]
    assert graded.draw_part(Owners.of([x], 0), directions=2)[1] is None


def test_columns_that_depend_on_each_other_are_named_by_their_place(small):
    rng = np.random.default_rng(5)
    z = rng.standard_normal((400, 1000))
    z[:, 500:] += 2 * rng.standard_normal((400, 1))
    table = Owners.of([np.where(z > 0, 1, -1)], 0)
    part = graded.draw_part(table, directions=1)[0]
    verdict = judged(part, fit_one_class(part, Prior.of(part)))
    assert verdict.status == "structure, but not classes"
    assert len(verdict.residual.columns) > 100
    assert set(verdict.residual.columns) <= set(part.columns[part.columns >= 500])


def test_levels_of_a_variable_stay_together(small):
    groups = [tuple(range(a, a + 4)) for a in range(0, 2000, 4)]
    rows = np.random.default_rng(0).choice([-1, 1], (300, 2000))
    table = Owners.of([rows], 0, groups)
    part = graded.draw_part(table, 2, groups)[0]
    assert len(part.columns) % 4 == 0
    assert (part.columns.reshape(-1, 4) % 4 == range(4)).all()
    assert len(part.variables.groups) == len(part.columns) // 4
    assert 200 < len(part.columns) <= 300
