import numpy as np
import pytest

from hopfed.errors import ArgumentError
from hopfed.experiments import load, scale
from hopfed.experiments._execute import execute


def test_load_finds_everything_at_small_loads():
    config = load.Config(N=(200,), loads=(0.05,), seeds=1)
    run = execute(load, config)
    assert (run.arrays["found"] == 1).all()
    assert (run.arrays["false"] == 0).all()
    assert run.summary["most_one_operator"] == run.summary["most_ten_groups"] == 10


def test_a_load_counts_only_when_every_seed_and_every_smaller_load_is_complete():
    config = load.Config(N=(100,), loads=(0.1, 0.2, 0.3), seeds=2)
    found = np.ones((2, 4, 1, 3))
    found[1, 0, 0, 1] = 0.9  # one operator: breaks at the second load
    found[:, 1, 0, 2] = np.nan  # unequal: the third was not tried
    false = np.zeros_like(found)
    false[0, 2, 0, 2] = 1  # ten groups: a false discovery at the third
    arrays = {"found": found, "false": false}
    np.testing.assert_array_equal(load.largest(config, arrays)[:, 0], [10, 20, 20, 30])


def test_scale_measures_a_process_of_its_own():
    config = scale.Config(N=(300,), M=(400,), archetypes=4, seeds=1)
    run = execute(scale, config)
    assert run.summary["found"] == 1
    assert run.summary["false_discoveries"] == 0
    assert 0.02 < run.summary["peak_largest"] < 2


@pytest.mark.parametrize(
    ("module", "bad", "message"),
    [
        (load, {"loads": (0.2, 0.1)}, "loads must be rising"),
        (load, {"N": (10,)}, "N must be at least 50"),
        (scale, {"N": (100, 200)}, "M must be as many values as N"),
        (scale, {"quality": 0.0}, "quality must be in"),
    ],
)
def test_bad_settings(module, bad, message):
    with pytest.raises(ArgumentError, match=message):
        module.Config(**bad)
