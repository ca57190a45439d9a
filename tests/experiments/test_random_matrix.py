"""The five random-matrix experiments: their claims hold on the quick preset."""

import importlib
from dataclasses import replace

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from hopfed._lib.settings import from_plain, to_plain
from hopfed.errors import ArgumentError
from hopfed.experiments import (
    PRESET_NAMES,
    bbp,
    concentration,
    correlated_noise,
    find,
    heavy_tails,
    isotropic,
    mp,
)
from hopfed.experiments.runner import execute
from hopfed.figures import save
from hopfed.runs import Run
from hopfed.theory.concentration import bulk_band
from hopfed.theory.marchenko_pastur import edges

MODULES = {
    "bbp": bbp,
    "mp": mp,
    "concentration": concentration,
    "isotropic": isotropic,
    "heavy_tails": heavy_tails,
    "correlated_noise": correlated_noise,
}
TINY = {
    "bbp": bbp.Config(N=60, M=(100,), seeds=2),
    "mp": mp.Config(N=40, N_test=20, ratios=(0.5,), nulls=2, seeds=2),
    "concentration": concentration.Config(N=40, M=(100, 200), seeds=2),
    "isotropic": isotropic.Config(N=(30, 40), ratios=(0.5,), K=(2,), nulls=2, seeds=2),
    "heavy_tails": heavy_tails.Config(N=40, seeds=2),
    "correlated_noise": correlated_noise.Config(N=60, seeds=2),
}


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """Runs of the quick presets, read back from their files."""
    folder = tmp_path_factory.mktemp("runs")
    runs = {}

    def of(name):
        if name not in runs:
            module, path = MODULES[name], folder / f"{name}.h5"
            execute(module, module.PRESETS["quick"], out=path)
            runs[name] = Run.load(path, complete=True)
        return runs[name]

    return of


@pytest.mark.parametrize("name", MODULES)
def test_what_every_experiment_offers(name):
    module = find(name)
    assert module is MODULES[name]
    assert tuple(module.PRESETS) == PRESET_NAMES
    assert set(module.RECORD.minutes) == set(PRESET_NAMES)
    for config in module.PRESETS.values():
        assert from_plain(module.Config, to_plain(config)) == config
    assert f"hopfed run {name} --preset paper" in module.__doc__
    assert module.RECORD.claim
    assert module.RECORD.source


@pytest.mark.parametrize("name", MODULES)
def test_the_quick_preset_fills_its_summary_and_its_figure(name, quick, tmp_path):
    run = quick(name)
    assert set(MODULES[name].RECORD.measures) <= set(run.summary)
    draw = importlib.import_module(f"hopfed.figures.{name}").draw
    save(draw(run), tmp_path / "figure.svg")
    assert (tmp_path / "figure.svg").read_text().count("<path") > 20


@pytest.mark.parametrize("name", MODULES)
def test_one_seed_alone_is_the_same_seed(name):
    module, config = MODULES[name], TINY[name]
    run = execute(module, config)
    with threadpool_limits(1):  # as in a run: the order of summation depends on it
        alone = module.run(config, 1)
    for array, value in alone.items():
        np.testing.assert_array_equal(run.arrays[array][1], value)


@pytest.mark.parametrize("name", MODULES)
def test_a_single_seed_has_no_spread_but_a_figure(name, tmp_path):
    module = MODULES[name]
    run = execute(module, replace(TINY[name], seeds=1), out=tmp_path / "one.h5")
    assert set(module.RECORD.measures) <= set(run.summary)
    draw = importlib.import_module(f"hopfed.figures.{name}").draw
    save(draw(Run.load(tmp_path / "one.h5")), tmp_path / "figure.png")


def test_bbp_finite_size_predicts_every_draw(quick):
    summary = quick("bbp").summary
    assert summary["r2_lowest"][0] >= 0.98
    assert summary["gap"][0] <= 0.003
    assert summary["gap_plain"][0] > 5 * summary["gap"][0]
    assert summary["r2_pooled_plain"][0] < summary["r2_pooled"][0]
    assert summary["weak_above"] == 1


def test_bbp_predictions_depend_on_the_truth_and_measurements_do_not(monkeypatch):
    """With other archetypes and labels in the score the data side of the arrays stays."""
    config = bbp.Config(N=100, M=(200,), seeds=1)
    honest = bbp.run(config, 0)
    draw = bbp.draw_examples

    def shuffled(archetypes, M, quality, rng, *, exposures):
        examples, labels = draw(archetypes, M, quality, rng, exposures=exposures)
        archetypes *= np.where(np.arange(archetypes.shape[1]) % 2, 1, -1).astype(np.int8)
        return examples, labels[::-1] % 2

    monkeypatch.setattr(bbp, "draw_examples", shuffled)
    wrong = bbp.run(config, 0)
    for name in ("eigenvalues", "threshold", "n_detected"):
        np.testing.assert_array_equal(wrong[name], honest[name])
    assert not np.allclose(wrong["shares"], honest["shares"])
    assert not np.allclose(wrong["overlaps/measured"], honest["overlaps/measured"])


def test_mp_spectra_follow_the_law(quick):
    run = quick("mp")
    assert run.arrays["distance"].max() < 0.03
    counts = run.arrays["histogram"].sum(axis=-1)
    sizes = [min(200, round(200 / q)) for q in run.config["ratios"]]
    assert (abs(counts - sizes) <= 1).all()  # an eigenvalue may lie above the last bin


def test_mp_rates_keep_their_levels_on_more_nulls():
    config = mp.Config(N=40, N_test=50, ratios=(0.5,), nulls=250, shuffle=False, seeds=1)
    arrays = {name: value[None] for name, value in mp.run(config, 0).items()}
    rates = mp.rates(config, arrays)
    for name in ("tw_signs_0.05", "tw_gaussian_0.05"):
        assert 0.01 < rates[name][0] < 0.1  # nominal 5%, standard error 1.4%
    assert rates["unshifted_signs_0.05"][0] < rates["tw_signs_0.05"][0]
    assert abs(rates["mp_gaussian"] - rates["mp_expected"])[0] < 0.09
    assert "shuffle_0.05" not in arrays


def test_concentration_stays_below_its_bound(quick):
    run = quick("concentration")
    assert run.summary["exceeded"] == 0
    assert abs(run.summary["slope"][0] + 0.5) < 0.06
    assert (run.arrays["bounds/bernstein"] <= run.arrays["bounds/universal"]).all()
    assert (run.arrays["bounds/bernstein"] <= run.arrays["bounds/paper"] * (1 + 1e-12)).all()
    assert (run.arrays["counting"] < 2 * run.arrays["deviation"]).all()


def test_noise_is_isotropic_and_stays_in_its_band(quick):
    run = quick("isotropic")
    summary = run.summary
    assert abs(summary["law_slope"][0] + 0.5) < 0.15
    assert summary["lemma_constant"] < 1
    assert abs(summary["overlap_slope"][0] - 1) < 0.1
    assert abs(summary["outlier_slope"][0] - 1) < 0.2
    decoupled, gram = (run.arrays[f"overlap/{n}"].mean(axis=0) for n in ("decoupled", "gram"))
    assert (np.diff(decoupled) > 0).all()  # with eps
    assert gram.max() < 3 * gram[0]
    assert decoupled[-1] > 5 * gram[-1]
    held, least = map(float, summary["band_coverage"].split(","))
    assert held > 0.9
    assert held >= least > 0.7  # 40 nulls
    config = from_plain(isotropic.Config, run.config)
    band = np.tensordot([1.0, 0.0], isotropic.band_terms(config), 1)
    upper = bulk_band(60, 120, config.delta, 1.0, (1.0, 0.0))[1] - edges(0.5)[1]
    assert band[0, 0] == pytest.approx(upper)


def test_the_fitted_band_is_the_least():
    config = isotropic.Config(N=(100, 400), ratios=(1.0,), seeds=1)
    terms = isotropic.band_terms(config)
    needed = 0.5 * terms[0] + 0.1 * terms[1]
    found = isotropic.fitted(config, np.broadcast_to(needed[None, ..., None], (3, 2, 1, 5)))
    np.testing.assert_allclose(found, (0.5, 0.1), rtol=1e-6)


def test_heavy_tails_fool_the_covariance_and_not_tyler(quick):
    summary = quick("heavy_tails").summary
    assert summary["sample_heaviest"][0] > 10
    assert 2.9 <= summary["tyler"][0] <= 3.1
    assert summary["overlap_tyler"][0] > summary["overlap_sample"][0] + 0.1
    assert summary["converged"] == 1
    gaussian = quick("heavy_tails").arrays["n_detected"][:, -1]
    assert abs(gaussian - 3).mean() < 0.2


def test_correlated_noise_false_spikes_go_and_true_ones_stay(quick):
    summary = quick("correlated_noise").summary
    assert summary["false_classical_all"][0] > 10
    assert summary["false_generalised"][0] < 0.2
    assert summary["false_whitened"][0] < 0.2
    assert summary["kept_generalised"][0] > 2.6
    assert summary["kept_whitened"][0] > 2.8
    assert summary["outlier_error"] < 0.08


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("bbp", {"N": 10}),
        ("bbp", {"M": (5,)}),
        ("bbp", {"quality": 1.0}),
        ("bbp", {"weak": (0.0,)}),
        ("bbp", {"exposures": (0.1,) * 8}),
        ("bbp", {"alpha": 0.0}),
        ("bbp", {"seeds": 0}),
        ("mp", {"ratios": (0.0,)}),
        ("mp", {"ratios": (50.0,)}),
        ("mp", {"nulls": 0}),
        ("concentration", {"qualities": (0.5, 1.0)}),
        ("concentration", {"level": 1.0}),
        ("concentration", {"M": (0,)}),
        ("isotropic", {"N": (100,)}),
        ("isotropic", {"K": (0,)}),
        ("isotropic", {"overlaps": (1.0,)}),
        ("isotropic", {"delta": 0.0}),
        ("heavy_tails", {"ratios": (1.0,)}),
        ("heavy_tails", {"degrees": (2.0,)}),
        ("correlated_noise", {"rhos": (1.0,)}),
        ("correlated_noise", {"ratio": 0.0}),
        ("correlated_noise", {"blocks": (0.0, 1.0)}),
        ("correlated_noise", {"qualities": (1.0,)}),
    ],
)
def test_a_config_that_breaks_a_rule_is_named(name, wrong):
    with pytest.raises(ArgumentError) as error:
        MODULES[name].Config(**wrong)
    assert error.value.argument == next(iter(wrong))
