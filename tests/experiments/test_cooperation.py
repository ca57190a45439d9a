"""Clients together see what none sees alone, when theory says so."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopfed._lib.settings import from_plain, to_plain
from hopfed.errors import ArgumentError
from hopfed.experiments import PRESET_NAMES, cooperation
from hopfed.experiments.cooperation import Alone, Config, Row, foreseen
from hopfed.experiments.runner.execute import execute
from hopfed.federation.engines.local import LocalEngine
from hopfed.figures import cooperation as figure
from hopfed.hopfield.channel import rademacher
from hopfed.hopfield.stream import ArchetypeStream
from hopfed.runs import Run
from hopfed.theory import planning

TINY = Config(
    N=120,
    rounds=2,
    first=(0.8, 0.3),
    others=(0.3, 0.3),
    clients=(2, 2),
    examples=(60, 60),
    alone=2,
    seeds=2,
)
qualities = st.floats(0.05, 0.95)


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """A run of one seed of the quick preset, read back from its file."""
    path = tmp_path_factory.mktemp("runs") / "cooperation.h5"
    execute(cooperation, replace(cooperation.PRESETS["quick"], seeds=1), out=path)
    return Run.load(path, complete=True)


@pytest.fixture(scope="module")
def tiny():
    return execute(cooperation, TINY)


def test_what_the_experiment_offers():
    assert tuple(cooperation.PRESETS) == PRESET_NAMES
    assert set(cooperation.RECORD.minutes) == set(PRESET_NAMES)
    for config in cooperation.PRESETS.values():
        assert from_plain(Config, to_plain(config)) == config
    assert "hopfed run cooperation --preset paper" in cooperation.__doc__
    rows = [row.name for row in cooperation.PRESETS["paper"].rows()]
    assert rows[:3] == ["0.8 0.8 0.8", "0.8 0.2 0.2", "0.2 0.2 0.2"]


def test_a_noisy_client_profits_from_a_clean_one_and_from_its_like(quick):
    s = quick.summary
    assert set(cooperation.RECORD.measures) & set(s)
    assert s["mean_fixed/0.8 0.2 0.2"][0] > 0.999
    assert s["mean_fixed/0.8 0.2 0.2"][0] > s["mean_fixed/0.2 0.2 0.2"][0] > 0.9
    for row in ("0.8 0.2 0.2", "0.2 0.2 0.2"):
        assert s[f"mean_alone/{row}"][0] < s[f"mean_fixed/{row}"][0] - 0.1
        assert s[f"rounds_fixed/{row}"] <= 2
        assert s[f"false_fixed/{row}"] == 0


def test_where_no_client_sees_anything_all_of_them_find_everything(quick):
    row = "24 of 0.08"
    power = quick.arrays[f"{row}/foreseen/power"][0]
    assert (power[:, 1:] < 0.01).all()
    assert power[-1, 0] > 0.99
    for c in range(2):
        assert (quick.arrays[f"{row}/alone {c}/n_detected"] == 0).all()
        assert (quick.arrays[f"{row}/alone {c}/patterns"] == 0).all()
    assert (quick.arrays[f"{row}/fixed/n_detected"][:, -1] == 3).all()
    foreseen = quick.summary[f"last_foreseen/{row}"]
    assert quick.summary[f"last_fixed/{row}"][0] == pytest.approx(foreseen, abs=0.015)
    assert quick.summary[f"false_fixed/{row}"] == 0


def test_theory_foretells_what_the_evidence_shows(quick):
    """In the first rounds in which all archetypes are sure to be counted."""
    for row in ("0.2 0.2 0.2", "24 of 0.08"):
        sure = quick.arrays[f"{row}/foreseen/power"][0, :3, 0] > 0.99
        want = quick.arrays[f"{row}/foreseen/magnetisation"][0, :3, 0][sure]
        got = quick.arrays[f"{row}/fixed/magnetisation"][:, :3].mean(axis=(0, 2))[sure]
        assert sure.sum() >= 2
        np.testing.assert_allclose(got, want, atol=0.06)
    seen = quick.arrays["0.2 0.2 0.2/alone 0/n_detected"] >= 3
    certain = quick.arrays["0.2 0.2 0.2/foreseen/power"][:, :, 1]
    assert (seen[certain > 0.99]).all()
    assert not (seen[certain < 0.01]).any()


def test_the_structure_rule_gives_the_clean_client_more_weight(quick):
    weights = quick.arrays["0.8 0.2 0.2/structure/client/weight"][:, -1]
    assert (weights[:, 0] > 2 * weights[:, 1:].max(axis=1)).all()
    alike = quick.arrays["0.2 0.2 0.2/fixed/client/weight"]
    assert (np.ptp(alike, axis=2) == 0).all()


def test_a_client_alone_is_the_same_whoever_else_there_is(tiny):
    """The second client of either row has one quality, and so the same examples."""
    for key in ("magnetisation", "n_detected", "eigenvalues", "false"):
        np.testing.assert_array_equal(
            tiny.arrays[f"0.8 0.3/alone 1/{key}"], tiny.arrays[f"0.3 0.3/alone 1/{key}"]
        )
    first = [tiny.arrays[f"{row}/alone 0/eigenvalues"] for row in ("0.8 0.3", "0.3 0.3")]
    assert (first[0] != first[1]).any()


def test_alone_is_a_source_that_travels():
    xi = rademacher(2, 40, np.random.default_rng(0))
    source = ArchetypeStream(xi, np.full((2, 3, 2), 0.5), 5, (0.9, 0.5, 0.1), seed=3)
    sent = pickle.loads(pickle.dumps(Alone(source, 2)))
    np.testing.assert_array_equal(sent.examples(1, 0), source.examples(1, 2))


@given(qualities, st.integers(2, 30), st.integers(1, 11))
def test_clients_of_one_quality_add_up_to_one_with_all_their_examples(r, clients, t):
    config = Config(alone=1)
    row = Row((r,) * clients, 50)
    margin = foreseen(config, row, t)["margin"]
    assert margin[0] == pytest.approx(np.sqrt(clients) * margin[1], rel=1e-6)
    want = planning.margin(r, 1 / config.K, config.N, 50 * (t + 1))
    assert margin[1] == pytest.approx(float(want), rel=1e-6)
    power = planning.detection_power(r, 1 / 3, config.N, 50 * (t + 1), config.alpha, stronger=2)
    assert foreseen(config, row, t)["power"][1] == pytest.approx(float(power), abs=1e-6)


@given(qualities, qualities, st.integers(0, 11))
def test_theory_gains_by_a_better_client_and_by_time(low, high, t):
    low, high = sorted((low, high))
    config = Config(alone=1)
    worse = foreseen(config, Row((low, low, low), 40), t)
    better = foreseen(config, Row((high, low, low), 40), t)
    later = foreseen(config, Row((low, low, low), 40), t + 1)
    for name in ("margin", "magnetisation"):
        assert better[name][0] >= worse[name][0] - 1e-9
        assert later[name][0] >= worse[name][0] - 1e-9


def test_one_seed_alone_is_the_same_seed(tiny):
    first, state = cooperation.run_round(TINY, 1, 0, None, LocalEngine())
    second, end = cooperation.run_round(TINY, 1, 1, state, LocalEngine())
    assert end is None
    assert set(first) == set(tiny.arrays) - {"seeds"}
    for name in first:
        np.testing.assert_array_equal(tiny.arrays[name][1], [first[name], second[name]])


def test_an_interrupted_run_resumes_to_the_same_bytes(tiny, tmp_path):
    tiny.save(tmp_path / "whole.h5")

    def stop(done, planned):
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        execute(cooperation, TINY, out=tmp_path / "broken.h5", report=stop)
    execute(cooperation, TINY, out=tmp_path / "broken.h5", resume=True)
    assert (tmp_path / "broken.h5").read_bytes() == (tmp_path / "whole.h5").read_bytes()


def test_the_truth_only_scores(tiny, monkeypatch):
    play = cooperation.play_variants

    def blind(variants, archetypes, *args, **options):
        return play(variants, np.ones_like(archetypes), *args, **options)

    monkeypatch.setattr(cooperation, "play_variants", blind)
    scored, _ = cooperation.run_round(TINY, 0, 0, None, LocalEngine())
    name = "0.8 0.3/fixed"
    assert (scored[f"{name}/magnetisation"] != tiny.arrays[f"{name}/magnetisation"][0, 0]).all()
    for key in ("n_detected", "eigenvalues", "patterns", "client/weight"):
        np.testing.assert_array_equal(scored[f"{name}/{key}"], tiny.arrays[f"{name}/{key}"][0, 0])


def test_the_worst_client_alone_is_the_noisy_one(tiny):
    noisy = tiny.arrays["0.8 0.3/alone 1/magnetisation"]
    mean = tiny.summary["mean_alone/0.8 0.3"][0]
    assert mean == pytest.approx(noisy.mean())
    assert mean < tiny.arrays["0.8 0.3/alone 0/magnetisation"].mean()


def test_what_was_never_found_has_no_round(tiny):
    silent = {k: np.zeros_like(v) for k, v in tiny.arrays.items() if k.endswith("/magnetisation")}
    summary = cooperation.summarise(TINY, tiny.arrays | silent)
    assert summary["rounds_fixed/0.8 0.3"] == np.inf


def test_the_figure_is_drawn_from_the_run_alone(quick):
    drawn = figure.draw_whole(quick)
    assert len(drawn.axes) == 9
    assert all(axes.has_data() for axes in drawn.axes)
    titles = [axes.get_title() for axes in drawn.axes[:3]]
    assert titles == ["r = 0.8 0.2 0.2", "r = 0.2 0.2 0.2", "24 clients of r = 0.08"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"others": (0.2,)}, "others must be one for each of 5 rows"),
        ({"clients": (3, 3, 3, 3, 1)}, "clients must be at least 2 in each row"),
        ({"first": (0.8, 1.0, 0.2, 0.08, 0.08)}, "first must be in"),
        ({"examples": (400, 400, 400, 400, 2)}, "examples must be at least K = 3"),
        ({"clients": (3, 3, 3, 3, 3)}, "first must be a row of its own each"),
        ({"N": 10}, "N must be at least 50"),
        ({"alone": 0}, "alone must be at least 1"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(ArgumentError, match=message):
        replace(Config(), **settings)
