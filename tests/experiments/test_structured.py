"""Pictures come out as they went in, from the evidence of all rounds, and the file holds them."""

from dataclasses import replace

import numpy as np
import pytest
from helpers import DATA
from hypothesis import given
from hypothesis import strategies as st

from hopfed._lib.settings import from_plain, to_plain, with_settings
from hopfed.errors import ArgumentError, DataError
from hopfed.experiments import PRESET_NAMES, structured
from hopfed.experiments.runner.execute import execute
from hopfed.experiments.shared.silhouettes import deflate, load_silhouettes, overlaps
from hopfed.experiments.structured import Config, rounds_until
from hopfed.federation.engines.local import LocalEngine
from hopfed.figures import structured as figure
from hopfed.runs import Run

# What no single round shows: 13 letters, 40 examples of each client in a round.
SPARSE = Config(pictures=(13,), overlap=(1.0,), qualities=(0.4,), rounds=3, examples=360, seeds=1)
TINY = replace(SPARSE, pictures=(3,), qualities=(0.6,), rounds=2, examples=240, seeds=2)


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """A run of one seed of the quick preset, read back from its file."""
    path = tmp_path_factory.mktemp("runs") / "structured.h5"
    execute(structured, replace(structured.PRESETS["quick"], seeds=1), out=path)
    return Run.load(path, complete=True)


@pytest.fixture(scope="module")
def silhouettes_file():
    path = DATA / "caltech101_silhouettes_28.npz"
    if not path.is_file():
        pytest.skip("Caltech silhouettes not at hand; set HOPFED_DATA to their folder")
    return str(path)


def names(run):
    return [s.name for s in from_plain(Config, run.config).settings()]


def pixels(packed):
    return 2 * np.unpackbits(packed, axis=-1).astype(int) - 1


def test_what_the_experiment_offers():
    assert tuple(structured.PRESETS) == PRESET_NAMES
    assert set(structured.RECORD.minutes) == set(PRESET_NAMES)
    assert structured.PRESETS["paper"].seeds == 10
    for config in structured.PRESETS.values():
        assert from_plain(Config, to_plain(config)) == config
        assert config.data == ""
    assert "hopfed run structured --preset paper --set data=" in structured.__doc__
    assert with_settings(Config(), ["data=some/file.npz"]).data == "some/file.npz"


def test_letters_come_out_exactly_none_is_made_up_and_the_summary_says_what_they_are(quick):
    s = quick.summary
    assert "letters" in s["source"]
    for name in names(quick):
        assert s[f"m/{name}"] == [1, None]  # one seed has no deviation
    assert s["lowest"] == 1
    assert s["false_last"] == s["false_ever"] == 0
    assert set(s) <= set(structured.RECORD.measures)


def test_more_noise_takes_more_rounds(quick):
    first = {r: quick.arrays[f"13, r={r}/magnetisation"][:, 0].mean() for r in (0.6, 0.8)}
    assert first[0.6] < first[0.8]
    assert quick.summary["rounds/13, r=0.6"][0] > quick.summary["rounds/13, r=0.8"][0]


def test_the_evidence_of_all_rounds_shows_what_that_of_one_does_not():
    carried, fresh = (
        execute(structured, replace(SPARSE, discount=discount)).arrays["13, r=0.4/n_detected"][0]
        for discount in (1.0, 0.0)
    )
    assert carried[0] == fresh[0] < 13
    assert carried[-1] >= fresh.max() + 2


def test_the_pictures_in_the_file_are_those_that_were_scored(quick):
    for name in names(quick):
        a = {k: quick.arrays[f"{name}/{k}"] for k in ("archetypes", "reconstructions")}
        truth, made = pixels(a["archetypes"]), pixels(a["reconstructions"])
        m = np.abs((truth * made).mean(axis=-1))
        np.testing.assert_allclose(m, quick.arrays[f"{name}/magnetisation"], atol=1e-12)
        assert (truth == truth[:1, :1]).all()  # the same in every seed and round
        examples = pixels(quick.arrays[f"{name}/examples"])
        agreement = (truth * examples).mean()
        assert agreement == pytest.approx(float(name.rpartition("=")[2]), abs=0.02)


def test_decorrelated_pictures_hardly_overlap_and_are_drawn_for_each_seed():
    kept = structured.archetypes("", 3, 1.0, seed=0)
    first, second = (structured.archetypes("", 3, 0.1, seed) for seed in (0, 1))
    assert np.abs(overlaps(kept) - np.eye(3)).max() > 0.3
    for changed in (first, second):
        assert np.abs(overlaps(changed) - np.eye(3)).max() <= 0.1
        assert 0.7 < (kept == changed).mean() < 1
    assert (first != second).any()
    found = execute(structured, replace(TINY, overlap=(0.1,), seeds=1))
    assert (found.arrays["3 decorrelated, r=0.6/magnetisation"][0, -1] == 1).all()


def test_the_papers_own_federation_can_be_had():
    config = replace(TINY, qualities=(0.9,), memory="literal", factoriser="paper", seeds=1)
    found = execute(structured, config)
    better = execute(structured, replace(config, factoriser="auto"))
    assert found.summary["frobenius"] > better.summary["frobenius"] == 0
    with pytest.raises(ArgumentError, match="factoriser"):
        replace(config, factoriser="x")


def test_the_procedure_of_the_papers_programs_can_be_had():
    found = execute(structured, replace(TINY, overlap=(0.0,), seeds=1))
    assert "3 deflated, r=0.6/magnetisation" in found.arrays
    truth = np.unpackbits(found.arrays["3 deflated, r=0.6/archetypes"][0, 0], axis=-1)[:, :784]
    np.testing.assert_array_equal(2 * truth.astype(int) - 1, deflate(load_silhouettes().patterns))
    figure.draw(found).canvas.draw()
    figure.draw_whole(found).canvas.draw()


def test_one_seed_alone_is_the_same_seed():
    run = execute(structured, TINY)
    first, state = structured.run_round(TINY, 1, 0, None, LocalEngine())
    second, end = structured.run_round(TINY, 1, 1, state, LocalEngine())
    assert end is None
    assert set(first) == set(run.arrays) - {"seeds"}
    for name in first:
        np.testing.assert_array_equal(run.arrays[name][1], [first[name], second[name]])


def test_an_interrupted_run_resumes_to_the_same_bytes(tmp_path):
    execute(structured, TINY, out=tmp_path / "whole.h5")

    def stop(done, planned):
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        execute(structured, TINY, out=tmp_path / "broken.h5", report=stop)
    execute(structured, TINY, out=tmp_path / "broken.h5", resume=True)
    assert (tmp_path / "broken.h5").read_bytes() == (tmp_path / "whole.h5").read_bytes()


def test_the_truth_only_scores(monkeypatch):
    honest, _ = structured.run_round(TINY, 0, 0, None, LocalEngine())
    play = structured.play_variants

    def blind(variants, archetypes, *args, **options):
        return play(variants, np.ones_like(archetypes), *args, **options)

    monkeypatch.setattr(structured, "play_variants", blind)
    scored, _ = structured.run_round(TINY, 0, 0, None, LocalEngine())
    assert scored["3, r=0.6/false"] != honest["3, r=0.6/false"]
    for key in ("n_detected", "eigenvalues", "patterns", "reconstructions"):
        np.testing.assert_array_equal(scored[f"3, r=0.6/{key}"], honest[f"3, r=0.6/{key}"])


def test_the_figure_shows_every_wrong_pixel(quick):
    drawn = figure.draw_whole(quick)
    assert all(axes.has_data() for axes in drawn.axes)
    words = [axes.get_xlabel() for axes in drawn.axes]
    wrong = []
    for name in names(quick):
        made = pixels(quick.arrays[f"{name}/reconstructions"][0])[[0, -1]]
        m = (made * pixels(quick.arrays[f"{name}/archetypes"][0, 0])).mean(axis=2)
        wrong += np.rint((1 - np.abs(m)).sum(axis=1) * 784 / 2).astype(int).tolist()
    assert words.count("exact") == wrong.count(0)
    for count in filter(None, wrong):
        assert f"{count} wrong" in words


@given(st.lists(st.booleans(), min_size=1, max_size=12))
def test_rounds_until_counts_to_the_last_failure(holds):
    got = rounds_until(np.array([holds]))[0]
    failures = [i + 1 for i, ok in enumerate(holds) if not ok]
    want = max(failures, default=0) + 1
    assert np.isnan(got) if want > len(holds) else got == want


def test_the_papers_silhouettes_and_twenty_five_of_them(silhouettes_file):
    config = Config(silhouettes_file, (3, 25), (1.0, 1.0), (0.8,), rounds=2, examples=666, seeds=1)
    run = execute(structured, config)
    assert run.summary["source"] == "silhouettes"
    assert run.summary["lowest"] == 1
    assert run.summary["false_ever"] == 0
    truth = pixels(run.arrays["25, r=0.8/archetypes"][0, 0])
    assert np.abs(overlaps(truth) - np.eye(25)).max() > 0.75


def test_a_file_that_is_not_there_gets_one_line():
    with pytest.raises(DataError, match="no such file"):
        execute(structured, replace(TINY, data="nowhere.npz"))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"pictures": (3,)}, "overlap must be one for each of 1 sets"),
        ({"pictures": (1,), "overlap": (1.0,)}, "pictures must be at least 2 each"),
        ({"pictures": (3, 3), "overlap": (1.0, 1.0)}, "pictures must be a set of its own each"),
        ({"overlap": (1.0, -0.1, 1.0, 1.0)}, "overlap must be in"),
        ({"qualities": (1.0,)}, "qualities must be in"),
        ({"examples": 35}, "examples must be at least 36, one each"),
        ({"rounds": 0}, "rounds must be at least 1"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(ArgumentError, match=message):
        Config(**settings)
