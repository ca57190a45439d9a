"""The experiment on the planner's promises."""

import numpy as np
import pytest

from hopfed.errors import ArgumentError
from hopfed.experiments import plan
from hopfed.experiments.runner import execute
from hopfed.figures import drawer
from hopfed.report.tables import tables_of
from hopfed.theory.study import PROMISES, promises

SMALL = plan.Config(N=(80,), K=(1, 2), qualities=(0.4,), seeds=30)


def test_promises_are_kept_and_drawn():
    run = execute(plan, SMALL)
    assert run.arrays["shown"].shape == (30, 2, 3)
    np.testing.assert_array_equal(run.arrays["shown"][7], plan.run(SMALL, 7)["shown"])
    want = promises(0.4, [0.5, 0.5], 80)
    assert run.arrays["sizes"][0, 1].tolist() == [want.samples[name] for name in PROMISES]
    for name in PROMISES:
        assert abs(run.summary[name] - 0.9) < 0.15
    (table,) = tables_of(run)
    assert len(table.rows) == 2
    figure = drawer("plan")(run)
    figure.canvas.draw()
    assert len(figure.axes) == 3


def test_a_promise_below_the_power_by_two_errors_is_not_kept():
    shown = np.ones((100, 2, 3))
    shown[:15, 1, 2] = 0  # above .84 = .9 - 2 * .03
    shown[:17, 0, 2] = 0
    arrays = {"shown": shown, "sizes": shown, "powers": shown}
    found = plan.summarise(SMALL, arrays)
    assert found["kept"] == "seen 2 of 2; all 2 of 2; resolved 1 of 2"
    assert found["lowest"] == "seen 1.000; all 1.000; resolved 0.830"


@pytest.mark.parametrize(
    "setting",
    [{"N": (10,)}, {"K": (0,)}, {"K": (90,)}, {"qualities": (1.0,)}, {"power": 1.0}, {"seeds": 0}],
)
def test_bad_settings(setting):
    with pytest.raises(ArgumentError):
        plan.Config(**setting)
