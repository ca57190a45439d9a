"""Partial participation: who was heard, what theory foresees of it, and that the count follows."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hopfed._lib.settings import from_plain, to_plain
from hopfed.errors import ArgumentError
from hopfed.experiments import PRESET_NAMES, find, participation
from hopfed.experiments.participation import BAND, Labelled, detected, foresee, share
from hopfed.experiments.runner.execute import execute
from hopfed.federation.engines.local import LocalEngine
from hopfed.figures import participation as figure
from hopfed.figures import save
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.runs import Run
from hopfed.spectral.noise import NoiseProfile, Sample
from hopfed.spectral.rank import TracyWidom
from hopfed.theory import spikes

TINY = participation.Config(
    N=70, clients=6, examples=15, rounds=3, rates=(0.5, 1.0), late=(0.0, 0.5), seeds=2
)


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """A run of the quick preset, read back from its file."""
    path = tmp_path_factory.mktemp("runs") / "participation.h5"
    execute(participation, participation.PRESETS["quick"]).save(path)
    return Run.load(path, complete=True)


def names(run):
    return list(from_plain(participation.Config, run.config).variants)


def test_what_the_experiment_offers():
    assert find("participation") is participation
    assert tuple(participation.PRESETS) == PRESET_NAMES
    assert set(participation.RECORD.minutes) == set(PRESET_NAMES)
    for config in participation.PRESETS.values():
        assert from_plain(participation.Config, to_plain(config)) == config
    assert "hopfed run participation --preset paper" in participation.__doc__


def test_the_quick_preset_fills_its_summary_and_its_figure(quick, tmp_path):
    assert set(participation.RECORD.measures) == set(quick.summary)
    save(figure.draw(quick), tmp_path / "figure.svg")
    text = (tmp_path / "figure.svg").read_text()
    assert text.count("<path") > 50
    assert all(name in text for name in names(quick))


def test_scores_are_in_range(quick):
    K = len(quick.config["exposures"])
    for name in names(quick):
        a = {k.removeprefix(f"{name}/"): v for k, v in quick.arrays.items() if k.startswith(name)}
        assert (a["magnetisation"] >= 0).all()
        assert (a["magnetisation"] <= 1).all()
        assert (np.sort(a["foreseen/place"], axis=-1) == np.arange(K)).all()
        np.testing.assert_array_equal(
            detected(quick.arrays, name).sum(axis=2), np.minimum(a["n_detected"], K)
        )
        silent = a["faults/code"] == 1
        assert (a["traffic/up"][silent] == 0).all()
        assert (a["traffic/up"][a["faults/code"] == 0] > 0).all()


def test_the_count_is_as_foreseen(quick):
    assert quick.summary["agree"][0] > 0.98
    assert 0.6 < quick.summary["agree_within"][0] < 1
    assert quick.summary["calibration"] < 0.15
    assert quick.summary["on_time"][0] > 0.85


def test_more_clients_are_foreseen_to_show_more_and_do(quick):
    summary = quick.summary
    assert summary["foreseen_most"][0] > summary["foreseen_least"][0]
    assert summary["found_most"][0] > summary["found_least"][0]
    assert summary["megabytes_most"][0] > 4 * summary["megabytes_least"][0]


def test_who_was_heard_matters_to_the_prediction(quick):
    """Foretold from all clients, as if everyone had been heard, the count is not what happens."""
    config, name = from_plain(participation.Config, quick.config), "20%"
    K, wrong, right = len(config.exposures), 0, 0
    for seed in range(config.seeds):
        xi = rademacher(K, config.N, participation.stream(seed, "participation"))
        source = participation._source(config, xi, seed)
        seen = Labelled.before(None, name, K)
        for t in range(config.rounds):
            labels = [source.labels(t, c) for c in range(config.clients)]
            counts = np.array([np.bincount(own, minlength=K) for own in labels])
            seen = seen.faded(config.discount).add(counts, np.ones(len(counts)))
            everyone = foresee(xi, seen, config.quality, config.alpha)["foreseen/distance"] > 0
            n_detected = quick.arrays[f"{name}/n_detected"][seed, t]
            heard = (quick.arrays[f"{name}/foreseen/distance"][seed, t] > 0).sum()
            wrong += abs(everyone.sum() - n_detected)
            right += abs(heard - n_detected)
    assert wrong > 3 * right


@pytest.mark.parametrize("late", [0.0, 0.5])
def test_the_labels_account_for_all_evidence(late):
    """Effective number of examples of the labelled batches, and of the server's own evidence."""
    config = replace(TINY, clients=12, rates=(0.7,), late=(late,), rounds=6)
    (name,) = config.variants
    state = None
    for t in range(config.rounds):
        before = state
        arrays, state = participation.run_round(config, 5, t, state, LocalEngine())
        if state is None:
            break
        seen = Labelled.before(state, name, len(config.exposures))
        sizes = seen.counts.sum(axis=1)
        effective = (seen.weights @ sizes) ** 2 / (seen.weights**2 @ sizes)
        np.testing.assert_allclose(effective, arrays[f"{name}/examples"], rtol=1e-3)
        if late and t > 2:
            arrived = [k for k in before if k.endswith("/when") and before[k][1] == t]
            assert len(seen.weights) >= len(arrived)
    assert (seen.weights < 1).any()


def test_one_seed_alone_is_the_same_seed_and_an_interruption_changes_nothing(tmp_path):
    class Stop(BaseException):
        pass

    def report(done, planned):
        if done == 4:
            raise Stop

    whole = execute(participation, TINY)
    path = tmp_path / "run.h5"
    with pytest.raises(Stop):
        execute(participation, TINY, out=path, report=report)
    resumed = execute(participation, TINY, out=path, resume=True)
    state = None
    for t in range(TINY.rounds):
        arrays, state = participation.run_round(TINY, 1, t, state, LocalEngine())
        for name, value in arrays.items():
            np.testing.assert_array_equal(whole.arrays[name][1, t], value)
            np.testing.assert_array_equal(resumed.arrays[name][1, t], value)
    assert state is None
    assert resumed.summary == whole.summary


@pytest.mark.parametrize(
    "wrong",
    [
        {"N": 40},
        {"clients": 0},
        {"examples": 0},
        {"quality": 1.0},
        {"exposures": (0.5, 0.0)},
        {"share": 0.0},
        {"late": (0.0,)},
        {"rates": (0.1, 0.1, 0.4, 0.7, 1.0, 0.4, 1.0)},
        {"rates": (0.0, 0.2, 0.4, 0.7, 1.0, 0.4, 1.0)},
        {"late": (0.0, 0.0, 0.0, 0.0, 0.0, 0.5, 1.0)},
        {"discount": 0.0},
        {"alpha": 0.0},
        {"seeds": 0},
    ],
)
def test_a_config_that_breaks_a_rule_is_named(wrong):
    with pytest.raises(ArgumentError):
        participation.Config(**wrong)


# The prediction.


def evidence(seed, N=150, K=4, M=300, batches=3, discount=0.6):
    """Draw archetypes, and batches of examples of them that fade from one to the next."""
    rng = np.random.default_rng(seed)
    xi = rademacher(K, N, rng)
    exposures = 0.3 ** np.arange(K)
    moment, counts, weights = np.zeros((N, N)), [], discount ** np.arange(batches)
    for w in weights:
        x, labels = draw_examples(xi, M, 0.5, rng, exposures=exposures / exposures.sum())
        moment += w * x.astype(float).T @ x
        counts.append(np.bincount(labels, minlength=K))
    seen = Labelled(np.array(counts), weights)
    return xi, seen, np.linalg.eigvalsh(moment)[::-1] / (M * weights.sum())


@pytest.mark.parametrize("discount", [1.0, 0.6])
def test_what_is_foreseen_beyond_the_band_is_what_is_counted(discount):
    decided, both = 0, set()
    for seed in range(12):
        xi, seen, values = evidence(seed, discount=discount)
        sizes = seen.counts.sum(axis=1)
        mass, total = seen.weights @ sizes, sizes.sum()
        profile = None
        if discount < 1:
            profile = NoiseProfile(
                None, sizes / total, xi.shape[1], seen.weights * total / mass, total
            )
        effective = mass**2 / (seen.weights**2 @ sizes)
        n_detected = TracyWidom(1e-3)(
            Sample(values, xi.shape[1], effective, profile=profile)
        ).n_detected
        foreseen = foresee(xi, seen, 0.5, 1e-3)
        distance = foreseen["foreseen/distance"]
        clear = np.abs(distance) > BAND
        decided += clear.sum()
        both |= set((distance > 0)[clear].tolist())
        hit = n_detected > foreseen["foreseen/place"]
        np.testing.assert_array_equal(hit[clear], (distance > 0)[clear])
    assert decided > 20
    assert both == {True, False}


def test_equal_weights_agree_with_the_finite_size_prediction():
    """A level far inside of the bulk leaves the phase boundary alone to decide."""
    for seed in range(4):
        xi, seen, _ = evidence(seed, batches=1)
        counts = seen.counts[0]
        theory = spikes.finite_size(xi, counts / counts.sum(), 0.5, int(counts.sum()))
        margin = theory.kappas / np.sqrt(theory.q)
        distance = foresee(xi, seen, 0.5, 1e-3)["foreseen/distance"]
        assert (distance[margin < 1] < -BAND).all()
        assert (distance[margin > 3] > 0).all()
        assert (np.diff(distance[np.argsort(margin)[::-1]]) <= 0).all()


@settings(max_examples=15)
@given(
    scale=st.floats(1e-3, 1e3),
    part=st.integers(1, 9),
    seed=st.integers(0, 20),
)
def test_the_unit_of_weight_and_how_batches_are_cut_do_not_matter(scale, part, seed):
    xi, seen, _ = evidence(seed)
    one = foresee(xi, seen, 0.5, 1e-3)
    cut = seen.counts * part // 10
    kept = cut.sum(axis=1) > 0
    pieces = Labelled(
        np.concatenate([cut[kept], seen.counts - cut]),
        scale * np.concatenate([seen.weights[kept], seen.weights]),
    )
    other = foresee(xi, pieces, 0.5, 1e-3)
    np.testing.assert_array_equal(one["foreseen/place"], other["foreseen/place"])
    np.testing.assert_allclose(
        one["foreseen/distance"], other["foreseen/distance"], rtol=0, atol=1e-3
    )


def test_more_examples_are_seen_better_and_none_not_at_all():
    xi = rademacher(3, 150, np.random.default_rng(0))
    found = []
    for n in (0, 2, 8, 10, 20, 299):
        seen = Labelled(np.array([[500 - n, n, 0]]), np.ones(1))
        found.append(foresee(xi, seen, 0.5, 1e-3)["foreseen/distance"])
    own = np.array(found)[:, 1]
    assert own[0] == -np.inf
    assert own[1] < -BAND
    assert (np.diff(own[1:]) > 0).all()
    assert own[-1] > BAND
    assert (np.array(found)[:, 2] == -np.inf).all()
    assert found[0][0] == np.inf
    nobody = foresee(xi, Labelled(np.zeros((0, 3)), np.zeros(0)), 0.5, 1e-3)
    assert (nobody["foreseen/distance"] == -np.inf).all()


def test_a_lower_false_alarm_rate_asks_for_more():
    xi, seen, _ = evidence(1)
    strict, loose = (foresee(xi, seen, 0.5, a)["foreseen/distance"] for a in (1e-6, 1e-2))
    finite = np.isfinite(strict)
    assert finite.any()
    assert (strict < loose)[finite].all()


def test_shares_are_of_those_asked_and_have_no_spread_of_one_seed():
    hit = np.array([[True, False], [True, True]])
    assert share([hit], [np.array([[True, False], [True, True]])])[0] == 1
    value, spread = share([hit, ~hit], [np.ones_like(hit), np.ones_like(hit)])
    assert value == 0.5
    assert spread == 0
    assert share([hit[:1]], [hit[:1]]) == (1.0, None)
    nobody = share([hit], [np.zeros_like(hit)])
    assert np.isnan(nobody[0])
    assert nobody[1] is None
