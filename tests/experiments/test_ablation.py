"""The ablation: every variant leaves out what it says, and the quick preset shows what it costs."""

import math
from dataclasses import replace

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from hopfed._lib.settings import from_plain, to_plain
from hopfed.archetypes.annealed_search import Search, search_candidates
from hopfed.archetypes.overlap import retrieval
from hopfed.archetypes.selection import accepted, merge
from hopfed.errors import ArgumentError
from hopfed.experiments import PRESET_NAMES, ablation
from hopfed.experiments.ablation import SETTINGS, VARIANTS, Evidence, recover_by
from hopfed.experiments.runner.execute import execute
from hopfed.figures import ablation as figure
from hopfed.figures import save
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.memory.layered import LayeredMemory
from hopfed.recovery.recover import recover
from hopfed.runs import Run
from hopfed.theory import spikes

TINY = ablation.Config(N=100, M=400, few=3, many=5, qualities=(0.6,), patience=1, seeds=2)


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """A run of one seed of the quick preset, read back from its file."""
    path = tmp_path_factory.mktemp("runs") / "ablation.h5"
    execute(ablation, replace(ablation.PRESETS["quick"], seeds=1), out=path)
    return Run.load(path, complete=True)


@pytest.fixture(scope="module")
def tiny():
    """A run of two seeds of one quality."""
    return execute(ablation, TINY)


@pytest.fixture(scope="module")
def evidence():
    """Archetypes and the evidence of examples of them."""
    rng = np.random.default_rng(0)
    xi = rademacher(12, 256, rng)
    examples = draw_examples(xi, 1500, 0.6, rng)[0]
    return xi, examples, Evidence.of(examples)


def mean(run, name, setting=None):
    """Mean part of K over seeds and qualities, of one setting or of all."""
    part = run.arrays[name] / run.arrays["n_archetypes"][..., None]
    return part.mean() if setting is None else part[:, SETTINGS.index(setting)].mean()


def test_what_the_experiment_offers():
    assert tuple(ablation.PRESETS) == PRESET_NAMES
    assert set(ablation.RECORD.minutes) == set(PRESET_NAMES)
    assert ablation.PRESETS["paper"].seeds == 20
    for config in ablation.PRESETS.values():
        assert from_plain(ablation.Config, to_plain(config)) == config
    assert "hopfed run ablation --preset paper" in ablation.__doc__


def test_each_variant_differs_from_the_full_recovery_and_from_the_others():
    searches = {
        name: Search(**v.change)
        for name, v in VARIANTS.items()
        if v.source == "search" and v.fit and name != "full"
    }
    different = [Search(), *searches.values()]
    assert all(a != b for i, a in enumerate(different) for b in different[:i])
    assert VARIANTS["full"] == ablation.Variant("full")


def test_full_is_what_recover_does(evidence):
    _, examples, known = evidence
    kept, candidates = recover_by(VARIANTS["full"], known, 3, 7)
    search = Search(patience=3, reluctance=3)
    whole = recover(examples, seed=7, method="layered", search=search).patterns
    kept = kept[np.abs(kept.astype(int) @ whole.T).argmax(axis=0)]  # in the order of the exposures
    signs = np.sign((kept.astype(int) * whole).sum(axis=1, keepdims=True))
    np.testing.assert_array_equal(kept * signs, whole)  # recover also orients them
    assert candidates == len(whole) == 12


def test_nothing_is_recovered_from_noise():
    noise = np.random.default_rng(1).choice(np.array([-1, 1], np.int8), (300, 100))
    known = Evidence.of(noise)
    for variant in VARIANTS.values():
        kept, candidates = recover_by(variant, known, 1, 0)
        assert kept.shape == (0, 100)
        assert candidates == 0


def test_the_truth_only_scores(tiny, monkeypatch):
    """With other archetypes in the score, all that was found stays."""
    honest = {name: values[0] for name, values in tiny.arrays.items()}

    def betrayed(archetypes, *args, **options):
        drawn = draw_examples(archetypes, *args, **options)
        archetypes *= np.where(np.arange(archetypes.shape[1]) % 2, 1, -1).astype(np.int8)
        return drawn

    monkeypatch.setattr(ablation, "draw_examples", betrayed)
    with threadpool_limits(1):
        wrong = ablation.run(TINY, 0)
    for name in VARIANTS:
        for what in ("kept", "candidates"):
            np.testing.assert_array_equal(wrong[f"{what}/{name}"], honest[f"{what}/{name}"])
    np.testing.assert_array_equal(wrong["n_detected"], honest["n_detected"])
    assert wrong["found/full"].sum() < honest["found/full"].sum()


def test_one_seed_alone_is_the_same_seed(tiny):
    with threadpool_limits(1):  # as in a run
        alone = ablation.run(TINY, 1)
    assert set(alone) == set(tiny.arrays) - {"seeds"}
    for name, value in alone.items():
        if not name.startswith("seconds"):
            np.testing.assert_array_equal(tiny.arrays[name][1], value)


def test_the_onset_is_where_theory_sees_the_first_and_the_last_archetype():
    config = replace(TINY, N=256, many=12)
    for setting in SETTINGS:
        xi, exposures = config.archetypes(setting, 3)
        first, last = ablation._onset(config, xi, exposures)
        assert first < last

        def visible(r, xi=xi, exposures=exposures):
            return spikes.finite_size(xi, exposures, r, config.M).rank

        assert visible(first * 0.999) == 0
        assert visible(first * 1.001) > 0
        assert visible(last * 0.999) < len(xi) == visible(last * 1.001)


def test_the_quick_preset_fills_its_summary(quick):
    assert set(ablation.RECORD.measures) <= set(quick.summary)
    K = quick.arrays["n_archetypes"][..., None]
    assert quick.summary["lost_full"][0] == 0
    for name, variant in VARIANTS.items():
        kept, candidates = quick.arrays[f"kept/{name}"], quick.arrays[f"candidates/{name}"]
        assert (kept <= candidates).all() if variant.fit else (kept == candidates).all()
        found = quick.arrays[f"found/{name}"]
        assert (found <= K).all()
        assert (found <= kept)[:, [s != "letters" for s in SETTINGS]].all()  # some are so alike
        assert (quick.arrays[f"false/{name}"] <= kept).all()
        assert (quick.arrays[f"magnetisation/{name}"] <= 1).all()
        assert quick.summary[f"seconds_{name}"][0] > 0


def test_the_count_follows_theory_and_nothing_beats_true_labels_by_much(quick):
    for setting in SETTINGS:
        onset = quick.summary[f"onset_{setting}"][0]
        above = min(r for r in quick.config["qualities"] if r > onset)
        assert above - 0.01 <= quick.summary[f"counted_{setting}"][0] <= above + 0.31
    clean = np.array(quick.config["qualities"]) > 1.3 * quick.arrays["onset"][..., 1:]
    assert clean.sum() > 4
    assert (abs(quick.arrays["n_detected"] - quick.arrays["detectable"])[clean] <= 1).all()
    assert mean(quick, "found/full") <= mean(quick, "labelled") + 0.02


def test_what_matters_and_what_does_not(quick):
    summary = quick.summary
    assert mean(quick, "found/full") > 0.5
    assert summary["lost_no_layered"][0] > 0.2
    assert summary["lost_no_deflation"][0] > 0.1
    assert summary["lost_no_sharpening_letters"][0] > 0.05
    assert abs(summary["lost_no_sharpening_many"][0]) < 0.1
    assert mean(quick, "false/unchecked", "letters") > mean(quick, "false/full", "letters") + 0.1
    assert mean(quick, "false/no_fit") >= mean(quick, "false/full")
    for name in ("joint", "no_merging", "self_field", "repulsion"):
        assert abs(summary[f"lost_{name}"][0]) < 0.1


def test_the_figure_shows_every_variant(quick, tmp_path):
    shown = [name for variants in figure.ROWS.values() for name in variants]
    assert sorted([*shown, "full"]) == sorted(VARIANTS)
    save(figure.draw_whole(quick), tmp_path / "figure.svg")
    text = (tmp_path / "figure.svg").read_text()
    assert text.count("<path") > 100
    assert "26 letters" in text


def test_a_single_seed_has_no_spread_but_a_figure(tiny):
    one = {name: values[:1] for name, values in tiny.arrays.items()}
    assert ablation.summarise(TINY, one)["lost_no_layered"][1] is None
    assert len(figure.draw_whole(replace(tiny, arrays=one)).axes) == 4 * len(figure.ROWS)


def test_the_first_figure_shows_what_costs_most(tiny):
    arrays = dict(tiny.arrays)
    for name in (n for variants in figure.ROWS.values() for n in variants):
        for measure in ("found", "false"):
            arrays[f"{measure}/{name}"] = arrays[f"{measure}/full"]
    arrays["found/paper"] = arrays["found/full"] - 1
    arrays["false/unchecked"] = arrays["false/full"] + 2
    drawn = figure.draw(replace(tiny, arrays=arrays))
    words = {text.get_text() for axes in drawn.axes for text in axes.texts}
    assert {"exposure fit", "paper's LAM"} <= words
    assert not words & (figure.ROWS.keys() - {"exposure fit", "paper's LAM"})


@pytest.mark.parametrize(
    "wrong",
    [
        {"N": 401},
        {"N": 81},
        {"M": 10},
        {"few": 1},
        {"many": 150},
        {"tilt": 0.5},
        {"qualities": (0.5, 0.4)},
        {"qualities": (0.5, 1.1)},
        {"patience": 0},
        {"seeds": 0},
    ],
)
def test_a_config_that_breaks_a_rule_is_named(wrong):
    with pytest.raises(ArgumentError) as error:
        ablation.Config(**wrong)
    assert error.value.argument == next(iter(wrong))


# The switches of the search that the variants turn.


def test_without_the_acceptance_test_every_rest_state_passes(evidence):
    space = evidence[2].space
    one_pass = {"starts": 30, "sweeps": 1, "patience": 1, "reluctance": 1}
    anything = search_candidates(space, Search(slack=math.inf, **one_pass), 0)
    assert not accepted(space, anything).all()
    assert accepted(space, search_candidates(space, Search(**one_pass), 0)).all()


def test_duplicates_kept_are_not_copies(evidence):
    xi, _, known = evidence
    none = xi[:0]
    like = known.space.polish(xi)
    like[:, 0] *= -1
    both = np.vstack([known.space.polish(xi), like, -like])
    merged = merge(known.space, none, both, duplicate=1.0)
    assert len(merge(known.space, none, both)) == 12
    overlaps = np.abs(merged.astype(int) @ merged.T) - 256 * np.eye(len(merged), dtype=int)
    assert overlaps.max() < 256
    assert len(merged) >= 12


def test_without_deflation_every_pass_sees_the_whole_operator(evidence, monkeypatch):
    from hopfed.archetypes import annealed_search as search

    seen = []
    remainder = search._remainder

    def watched(base, space, found):
        seen.append(len(found))
        return remainder(base, space, found)

    monkeypatch.setattr(search, "_remainder", watched)
    few = {"starts": 4, "patience": 2, "reluctance": 2}
    xi, _, known = evidence
    score = retrieval(search_candidates(known.space, Search(deflate=False, **few), 0), xi)
    assert set(seen) == {0}
    seen.clear()
    search_candidates(known.space, Search(**few), 0)
    assert seen[0] == 0 < seen[-1]
    assert score.false_discoveries == 0


class Listening(LayeredMemory):
    """A memory that tells with which score it was told to stop."""

    def run(self, states, W, **options):
        told.append(options["stop_score"])
        return super().run(states, W, **options)


told: list[float | None] = []


@pytest.mark.parametrize("early", [True, False])
def test_early_stop(evidence, early):
    told.clear()
    memory = Listening(layers=1, order="serial")
    search_candidates(evidence[2].space, Search(memory=memory, early_stop=early), 0)
    assert told
    assert all((score is not None) == early for score in told)


@pytest.mark.parametrize(
    "wrong",
    [{"slack": -1.0}, {"flips": -0.1}, {"flips": 0.5}, {"duplicate": 0.0}, {"duplicate": 1.5}],
)
def test_bad_switches(wrong):
    with pytest.raises(ArgumentError, match=f"{next(iter(wrong))} must be"):
        Search(**wrong)
