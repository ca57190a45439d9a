"""New archetypes: their schedules, what theory foresees of them, and when they are found."""

from dataclasses import replace

import numpy as np
import pytest

from hopfed._lib.settings import from_plain, to_plain
from hopfed.errors import ArgumentError
from hopfed.experiments import PRESET_NAMES, find, novelty
from hopfed.experiments.novelty import SCENARIOS, VARIANTS, FirstRounds, relative_gap
from hopfed.experiments.participation import Labelled, detected
from hopfed.experiments.runner.execute import execute
from hopfed.federation.engines.local import LocalEngine
from hopfed.figures import novelty as figure
from hopfed.figures import save
from hopfed.hopfield.schedules import NoveltyRamp
from hopfed.runs import Run

TINY = novelty.Config(
    N=70,
    rounds=4,
    old=2,
    new=1,
    at=2,
    ramp=2,
    examples=(40, 60, 60),
    rare=(0.1,),
    scarce=(0.02,),
    seeds=2,
)
APART = [name for name in VARIANTS if not name.endswith("paper")]


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """A run of one seed of the quick preset, read back from its file."""
    path = tmp_path_factory.mktemp("runs") / "novelty.h5"
    execute(novelty, replace(novelty.PRESETS["quick"], seeds=1)).save(path)
    return Run.load(path, complete=True)


@pytest.fixture(scope="module")
def config():
    return replace(novelty.PRESETS["quick"], seeds=1)


def test_what_the_experiment_offers():
    assert find("novelty") is novelty
    assert tuple(novelty.PRESETS) == PRESET_NAMES
    assert set(novelty.RECORD.minutes) == set(PRESET_NAMES)
    assert novelty.PRESETS["paper"].seeds == 30
    for config in novelty.PRESETS.values():
        assert from_plain(novelty.Config, to_plain(config)) == config
    assert "hopfed run novelty --preset paper" in novelty.__doc__


def test_the_quick_preset_fills_its_summary_and_its_figure(quick, tmp_path):
    assert set(novelty.RECORD.measures) == set(quick.summary)
    save(figure.draw_whole(quick), tmp_path / "figure.svg")
    text = (tmp_path / "figure.svg").read_text()
    assert text.count("<path") > 50
    assert all(scenario in text for scenario in SCENARIOS)
    assert set(VARIANTS) == {f"{s}/{m}" for s, row in figure.ROWS.items() for m in row}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_new_ones_come_in_over_the_ramp(scenario):
    config = novelty.PRESETS["paper"]
    rows = config.mixture(scenario)
    np.testing.assert_allclose(rows.sum(axis=1), 1)
    new = rows[:, config.old :]
    assert (new[: config.at] == 0).all()
    assert (np.diff(new[config.at - 1 : config.at + config.ramp], axis=0) > 0).all()
    final = np.full(3, 1 / 6) if scenario == "equal" else getattr(config, scenario)
    np.testing.assert_allclose(new[config.at + config.ramp - 1 :], np.tile(final, (9, 1)))
    if scenario == "equal":
        np.testing.assert_allclose(rows, NoveltyRamp(3, 12, 4).mixture(6, 24, 0))


def test_scores_are_in_range(quick, config):
    K = config.old + config.new
    for name in VARIANTS:
        m = quick.arrays[f"{name}/magnetisation"]
        assert m.shape == (config.seeds, config.rounds, K)
        assert (m >= 0).all()
        assert (m <= 1).all()
        place = quick.arrays[f"{name}/foreseen/place"]
        assert (np.sort(place, axis=-1) == np.arange(K)).all()
        labels = quick.arrays[f"{name}/labels"]
        i = SCENARIOS.index(name.split("/")[0])
        assert (labels.sum(axis=2) == config.clients * config.examples[i]).all()
        assert (labels[:, : config.at, config.old :] == 0).all()


def test_nothing_is_foreseen_or_counted_before_it_is_there(quick, config):
    for name in VARIANTS:
        before = quick.arrays[f"{name}/foreseen/distance"][:, : config.at, config.old :]
        assert (before == -np.inf).all()
    assert quick.summary["early"][0] == 0
    for name in APART:
        assert (quick.arrays[f"{name}/n_detected"][:, : config.at] == config.old).all()


def test_new_ones_are_counted_when_foreseen_and_remembered_once_legible(quick):
    summary = quick.summary
    assert summary["agree"][0] > 0.98
    assert summary["counted"][0] > 0.9
    assert summary["legible"][0] > 0.8
    for name in ("equal/carried", "rare/fresh", "rare/carried"):
        assert summary[f"within_one/{name}"][0] > 0.8
    assert summary["old"] >= 0.99


def test_the_gap_behind_the_old_ones_closes(quick):
    assert quick.summary["gap_before"][0] > 0.9
    assert quick.summary["gap_after"][0] < 0.5


def test_scarce_ones_are_foreseen_in_carried_evidence_alone(config):
    """Two examples in a round are below the level; those of several rounds are not."""
    xi = novelty.rademacher(4, config.N, novelty.stream(0, "test"))
    counts = np.array([[299, 299, 300, 2]])
    once = novelty.foresee(xi, Labelled(counts, np.ones(1)), 0.8, 1e-3)
    seen = Labelled.before(None, "", 4)
    for _ in range(8):
        seen = seen.faded(0.9).add(counts, np.ones(1))
    carried = novelty.foresee(xi, seen, 0.8, 1e-3)
    assert once["foreseen/distance"][3] < 0 < carried["foreseen/distance"][3] - 2


def test_without_new_ones_nothing_is_found(config, monkeypatch):
    """Shares so small that no example shows up: neither foreseen, nor counted, nor remembered."""
    monkeypatch.setattr(novelty, "VARIANTS", ("rare/fresh", "scarce/carried"))
    never = replace(config, rare=(1e-9,) * 3, scarce=(1e-9,) * 3)
    arrays = {name: value[None] for name, value in play(never, 0).items()}
    for name in novelty.VARIANTS:
        assert (arrays[f"{name}/n_detected"] == config.old).all()
        assert (arrays[f"{name}/patterns"] == config.old).all()
        first = FirstRounds.of(never, arrays, name)
        for rounds in (first.foreseen, first.counted, first.remembered, first.five):
            assert (rounds == config.rounds).all()


def test_the_truth_only_scores(monkeypatch):
    """With other predictions, all that the federations did stays."""
    monkeypatch.setattr(novelty, "VARIANTS", ("rare/carried", "rare/paper"))
    honest = play(TINY, 0)
    wrong = {"foreseen/distance": np.zeros(3), "foreseen/place": np.arange(3)}
    monkeypatch.setattr(novelty, "foresee", lambda *_: wrong)
    other = play(TINY, 0)
    for name in novelty.VARIANTS:
        assert (honest[f"{name}/foreseen/distance"] != 0).any()
        for what in ("n_detected", "threshold", "client/weight", "patterns", "traffic/up"):
            np.testing.assert_array_equal(honest[f"{name}/{what}"], other[f"{name}/{what}"])


def play(config, seed):
    rounds, state = [], None
    for t in range(config.rounds):
        arrays, state = novelty.run_round(config, seed, t, state, LocalEngine())
        rounds.append(arrays)
    assert state is None
    return {name: np.stack([arrays[name] for arrays in rounds]) for name in rounds[0]}


def test_the_labels_account_for_all_evidence(monkeypatch):
    """Effective number of examples, by the labels and weights and by the server's operators."""
    state = None
    monkeypatch.setattr(novelty, "VARIANTS", ("scarce/fresh", "scarce/carried"))
    for t in range(TINY.rounds - 1):
        arrays, state = novelty.run_round(TINY, 3, t, state, LocalEngine())
        for name in novelty.VARIANTS:
            seen = Labelled.before(state, name, TINY.old + TINY.new)
            sizes = seen.counts.sum(axis=1)
            effective = (seen.weights @ sizes) ** 2 / (seen.weights**2 @ sizes)
            np.testing.assert_allclose(effective, arrays[f"{name}/examples"])


def test_one_seed_alone_is_the_same_seed_and_an_interruption_changes_nothing(tmp_path):
    class Stop(BaseException):
        pass

    def report(done, planned):
        if done == 5:
            raise Stop

    path = tmp_path / "run.h5"
    with pytest.raises(Stop):
        execute(novelty, TINY, out=path, report=report)
    assert not Run.load(path).complete
    resumed = execute(novelty, TINY, out=path, resume=True)
    for name, value in play(TINY, 1).items():
        np.testing.assert_array_equal(resumed.arrays[name][1], value)
    assert novelty.summarise(TINY, resumed.arrays).keys() == resumed.summary.keys()


def test_first_rounds():
    """One new archetype of one seed: foreseen in round 2, counted then, remembered in 3."""
    name = "equal/carried"
    arrays = {
        f"{name}/foreseen/distance": np.array([[-np.inf, -1.0, 0.5, 3.0]]),
        f"{name}/foreseen/place": np.full((1, 4), 2),
        f"{name}/magnetisation": np.array([[0.0, 0.1, 0.9, 0.96]]),
        f"{name}/labels": np.array([[0, 1, 3, 1]]),
    }
    arrays = {k: np.stack([v, v, v], axis=2) for k, v in arrays.items()}
    arrays[f"{name}/n_detected"] = np.array([[2, 2, 3, 2]])
    assert detected(arrays, name)[0, :, 2].tolist() == [False, False, True, False]
    first = FirstRounds.of(TINY, arrays, name)
    got = [a.item() for a in (first.foreseen, first.counted, first.remembered, first.five)]
    assert got == [2, 2, 3, 3]


def test_relative_gap_is_scale_free():
    values = np.sort(np.random.default_rng(0).random((5, 6)), axis=1)[:, ::-1]
    gap = relative_gap(values, 3)
    assert (gap > 0).all()
    assert (gap < 1).all()
    np.testing.assert_allclose(relative_gap(7 * values, 3), gap)


@pytest.mark.parametrize(
    "wrong",
    [
        {"N": 40},
        {"clients": 0},
        {"rounds": 12},
        {"quality": 0.0},
        {"examples": (400, 400)},
        {"examples": (400, 400, 0)},
        {"rare": (0.1, 0.1)},
        {"rare": (0.5, 0.3, 0.2)},
        {"scarce": (0.1, 0.0, 0.1)},
        {"discount": (0.5, 0.5, 0.0)},
        {"alpha": 1.0},
        {"seeds": 0},
    ],
)
def test_a_config_that_breaks_a_rule_is_named(wrong):
    with pytest.raises(ArgumentError) as error:
        novelty.Config(**wrong)
    assert error.value.argument == next(iter(wrong))
