import numpy as np
import pytest
from helpers import sample

from hopfed._lib.settings import to_plain
from hopfed.errors import ArgumentError, DataError
from hopfed.experiments import load, scale
from hopfed.experiments.runner import check_fits, execute
from hopfed.figures import load as load_figure
from hopfed.runs import Run


def test_load_finds_everything_at_small_loads():
    config = load.Config(N=(200,), loads=(0.05,), seeds=1)
    run = execute(load, config)
    assert (run.arrays["found"] == 1).all()
    assert (run.arrays["false"] == 0).all()
    assert run.summary["most_one_operator"] == run.summary["most_ten_groups"] == 10


def test_a_load_counts_only_when_every_seed_and_every_smaller_load_is_complete():
    config = load.Config(N=(100,), loads=(0.1, 0.2, 0.3), seeds=2)
    found = np.ones((2, 6, 1, 3))
    found[1, 0, 0, 1] = 0.9  # one operator: breaks at the second load
    found[:, 1, 0, 2] = np.nan  # unequal: the third was not tried
    false = np.zeros_like(found)
    false[0, 2, 0, 2] = 1  # ten groups: a false discovery at the third
    stop = np.zeros_like(found)
    stop[1, 0, 0, 1] = load.STOPS.index("search")
    stop[0, 2, 0, 2] = load.STOPS.index("subspace")
    arrays = {"found": found, "false": false, "stop": stop}
    np.testing.assert_array_equal(load.largest(config, arrays)[:, 0], [10, 20, 20, 30, 30, 30])
    summary = load.summarise(config, arrays)
    assert summary["stop_one_operator"] == "K = 20: search, 1 of 2 seeds"
    assert summary["stop_ten_groups"] == "K = 30: subspace, 1 of 2 seeds"


def test_every_stop_is_told_from_the_others():
    xi, eta = sample(150, 300, 1500, 0.8, 0)  # more archetypes than eigenvalues above the noise
    assert load.stopped_at(eta, xi) == "threshold"
    xi, eta = sample(4, 300, 3000, 0.1, 0)  # all counted, none of them sharp
    assert load.stopped_at(eta, xi) == "subspace"
    xi, eta = sample(10, 300, 3000, 0.8, 0)  # nothing is in the way of a search
    assert load.stopped_at(eta, xi) == "search"


@pytest.mark.parametrize("quality", [0.1, 0.8])
def test_the_stop_is_asked_for_where_something_is_missing(quality):
    config = load.Config(N=(100,), loads=(0.05,), quality=quality, examples=3.0, seeds=1)
    arrays = load.run(config, 0)
    missing = (arrays["found"] < 1) | (arrays["false"] > 0)
    assert missing.all() == (quality == 0.1)
    np.testing.assert_array_equal(arrays["stop"] > 0, missing)


def test_layers_go_beyond_ten_groups():
    config = load.Config(N=(200,), loads=(0.55,), seeds=1)
    names = list(load.MODES)
    arrays = load.run(config, 0)
    groups, layers = names.index("ten groups"), names.index("ten groups in layers")
    assert arrays["found"][groups, 0, 0] < 1
    assert arrays["found"][layers, 0, 0] > 0.98
    assert arrays["false"][layers, 0, 0] == 0
    stop = load.STOPS[int(arrays["stop"][layers, 0, 0])]
    assert stop in ("complete", "examples")


def test_the_figure_marks_what_stops_a_mode():
    config = load.Config(N=(100, 200), loads=(0.1, 0.2), seeds=2)
    shape = (2, 6, 2, 2)
    arrays = {name: np.ones(shape) for name in ("found", "seconds", "stop")}
    arrays["stop"][:] = load.STOPS.index("threshold")
    arrays["found"][:, 1, 0, 1] = arrays["seconds"][:, 1, 0, 1] = np.nan
    top = load_figure.draw(Run("load", to_plain(config), arrays, {})).axes[0]
    marks = {line.get_marker() for line in top.lines if len(line.get_xdata())}
    assert marks == {"None", load_figure.MARKS[0]}
    assert tuple(load.MODES) == load_figure.MODES
    assert load.STOPS[1:] == load_figure.STOPS


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


@pytest.mark.parametrize("preset", scale.PRESETS)
def test_every_size_fits_though_no_dense_operator_of_it_would(preset):
    check_fits(scale.PRESETS[preset])
    with pytest.raises(DataError, match="the largest examples"):
        check_fits(scale.Config(N=(10**9,), M=(10**6,)))
