"""The experiment `byzantine`: the lie is one and the same in every exchange, and theory holds."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from hopfed._lib.random import stream
from hopfed._lib.settings import from_plain, to_plain
from hopfed.errors import ArgumentError
from hopfed.experiments import NAMES, PRESET_NAMES, byzantine
from hopfed.experiments.byzantine import DEFENCES, KINDS, SCORES, Spiked
from hopfed.experiments.runner.execute import execute
from hopfed.federation.contract import EVERYONE, Context
from hopfed.federation.engines.local import LocalEngine
from hopfed.federation.messages import malformed
from hopfed.figures import byzantine as figure
from hopfed.figures import save
from hopfed.hopfield.channel import rademacher
from hopfed.hopfield.client import pack_patterns
from hopfed.hopfield.memory.voting import Votes
from hopfed.hopfield.robust import Robust
from hopfed.runs import Run

SMALL = byzantine.Config(N=80, K=2, clients=10, rounds=3, attackers=(2,), amplitudes=(0.3,), few=2)


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """A run of one seed of the quick preset, read back from its file."""
    path = tmp_path_factory.mktemp("runs") / "byzantine.h5"
    execute(byzantine, replace(byzantine.PRESETS["quick"], seeds=1), out=path)
    return Run.load(path, complete=True)


def method(scenario="2 fixed", config=SMALL, **settings):
    xi = rademacher(config.K, config.N, stream(0, "byzantine"))
    return byzantine._method(config, xi, scenario, 0, **settings), xi


def talk(federation, client, t=1, basis=None, told=None):
    """Answers of one client in the three exchanges of a round."""
    V = np.linalg.qr(np.random.default_rng(0).standard_normal((SMALL.N, 3)))[0]
    told = federation.source.archetypes if told is None else told
    basis = {"basis": V if basis is None else basis}
    broadcast = {"patterns": pack_patterns(told), "quality": np.float32(0.8)}
    broadcast["sure"] = np.ones(len(told), np.float32)
    state, answers = {}, []
    for exchange, down in enumerate(({}, basis, broadcast)):
        context = Context(0, t, exchange, client)
        state, message, _ = federation.client_step(state, down, context)
        assert malformed(message, federation.expects(down, context)) is None
        answers.append(message)
    return answers


def test_what_the_experiment_offers():
    assert "byzantine" in NAMES
    assert tuple(byzantine.PRESETS) == PRESET_NAMES
    assert set(byzantine.RECORD.minutes) == set(PRESET_NAMES)
    for config in byzantine.PRESETS.values():
        assert from_plain(byzantine.Config, to_plain(config)) == config
    assert "hopfed run byzantine --preset paper" in byzantine.__doc__
    assert DEFENCES["none"] == {}
    assert DEFENCES["median"] == {"robust": Robust("median")}


@pytest.mark.parametrize("client", [2, 9])
def test_honest_clients_answer_as_if_nobody_lied(client):
    for a, b in zip(talk(method()[0], client), talk(method("clean")[0], client), strict=True):
        for name in a:
            np.testing.assert_array_equal(a[name], b[name])


@pytest.mark.parametrize("kind", KINDS)
def test_a_liar_adds_the_same_examples_in_every_exchange(kind):
    liar, xi = method(f"2 {kind}")
    x = liar.pattern(1).astype(float)
    told = np.vstack([xi, -x.astype(np.int8)])
    lied, honest = (talk(m, 0, told=told) for m in (liar, method("clean")[0]))
    mass = SMALL.amplitude * SMALL.examples
    S, R = (m.encoding.decode(a[0]).matrix for m, a in ((liar, lied), (method("clean")[0], honest)))
    M = SMALL.examples
    spiked = R + mass * (np.outer(x, x) - np.eye(SMALL.N))
    np.testing.assert_allclose(S, np.clip(spiked, -M, M), atol=1e-5)
    columns = honest[0]["columns"] + np.rint(mass * x)
    np.testing.assert_array_equal(lied[0]["columns"], np.clip(columns, -M, M))
    assert lied[0]["examples"] == honest[0]["examples"]

    V = np.linalg.qr(np.random.default_rng(0).standard_normal((SMALL.N, 3)))[0]
    more = (lied[1]["groups"] - honest[1]["groups"]).astype(float)
    expected = (V.T @ np.outer(x, x) @ V * mass)[np.tri(3, dtype=bool)]
    np.testing.assert_allclose(more[0], expected, atol=1e-4)
    np.testing.assert_array_equal(more[1:], 0)
    np.testing.assert_array_equal(lied[1]["sizes"], honest[1]["sizes"])

    np.testing.assert_array_equal(lied[2]["voters"], [0, 0, SMALL.examples])
    np.testing.assert_array_equal(lied[2]["votes"][2], -SMALL.examples * x)
    np.testing.assert_array_equal(lied[2]["votes"][:2], 0)


def test_a_liar_votes_as_others_do_until_its_pattern_is_told():
    lied, honest = (talk(m, 0)[2] for m in (method("2 fixed")[0], method("clean")[0]))
    for name in honest:
        np.testing.assert_array_equal(lied[name], honest[name])


def test_the_votes_of_a_liar_are_the_largest_that_are_heard():
    liar = method("2 fixed")[0]
    told = liar.pattern(1)[None]
    vote, examples = talk(liar, 0, told=told)[2], SMALL.examples

    def heard(factor):
        said = {name: array * factor for name, array in vote.items()}
        return np.abs(Votes.gather({0: said}, {0: 1.0}, {0: examples}, told.shape).sums)

    for factor in (1, 2, 50):
        np.testing.assert_allclose(heard(factor), np.full(told.shape, examples))


def test_liars_say_the_same_and_what_wanders_is_new_in_every_round():
    fixed, wandering = method("2 fixed")[0], method("2 wandering")[0]
    assert len({fixed.pattern(t).tobytes() for t in range(5)}) == 1
    assert len({wandering.pattern(t).tobytes() for t in range(5)}) == 5
    lies = [m.encoding.decode(talk(m, c)[0]).matrix for c in (0, 1) for m in [fixed]]
    honest = [talk(method("clean")[0], c)[0] for c in (0, 1)]
    added = [a - fixed.encoding.decode(b).matrix for a, b in zip(lies, honest, strict=True)]
    # Where neither reaches the largest sum that its examples could have, they add the same.
    free = np.all([np.abs(lie) < SMALL.examples for lie in lies], axis=0)
    assert free.mean() > 0.3
    np.testing.assert_allclose(added[0][free], added[1][free], atol=1e-5)


def test_the_rare_archetype_is_seen_by_few():
    source = method("rare")[0].source
    seen = [(source.labels(0, c) == SMALL.K - 1).any() for c in range(SMALL.clients)]
    assert not any(seen[: -SMALL.few])
    assert all(seen[-SMALL.few :])
    other = method("clean")[0].source
    assert sum((other.labels(0, c) == SMALL.K - 1).any() for c in range(SMALL.clients)) > SMALL.few


@pytest.mark.parametrize(("clients", "liars"), [(12, 2), (12, 5), (13, 6), (20, 7)])
def test_the_chance_to_touch_half_of_the_groups_is_that_of_all_choices(clients, liars):
    config = replace(SMALL, clients=clients)
    groups = np.array_split(np.arange(clients), Spiked.client_groups)
    group = np.repeat(np.arange(len(groups)), [len(g) for g in groups])
    touched = [len(set(group[list(c)])) for c in combinations(range(clients), liars)]
    share = np.mean(np.array(touched) >= byzantine.QUORUM * len(groups))
    assert byzantine.foresee_passing(config, liars) == pytest.approx(share)


def test_a_spike_is_counted_where_theory_sees_it():
    """Far below and far above the boundary, and where the test decides."""
    config = replace(SMALL, N=128, amplitudes=(0.01, 0.1, 0.6), clients=20, examples=8, rounds=8)
    xi = rademacher(config.K, config.N, stream(3, "byzantine"))
    share = np.mean([byzantine._visible(config, xi, t, 3)["visible"] for t in range(6)], axis=0)
    foreseen = byzantine.foresee_visible(config)
    np.testing.assert_array_equal(foreseen["foreseen/margin"] > 1, [False, True, True])
    np.testing.assert_allclose(share, foreseen["foreseen/visible"], atol=0.3)
    assert share[0] == 0
    assert share[2] == 1


@pytest.mark.parametrize("theta", [1.2, 2.0])
def test_the_eigenvalue_of_a_noiseless_spike_is_that_of_an_added_one(theta):
    """The law behind `foresee_visible`, on draws of noise: mean and fluctuation."""
    N, M = 120, 150
    q, tops = N / M, []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        x = rng.choice([-1.0, 1.0], (M, N))
        C = x.T @ x / M + (theta * (q + np.sqrt(q)) / N)
        tops.append(np.linalg.eigvalsh(C)[-1])
    strength = theta * (q + np.sqrt(q))
    rest = 1 - q / strength
    slope = strength**2 - q / rest**2
    sd = np.sqrt(2 / N * slope * (1 - slope / strength**2))
    np.testing.assert_allclose(np.mean(tops), strength + 1 / rest, rtol=0.02)
    if theta > 1.5:  # near the boundary the largest eigenvalue is not yet normal
        np.testing.assert_allclose(np.std(tops), sd, rtol=0.3)


def test_supports_tell_archetypes_liars_and_strangers_apart():
    config = replace(SMALL, examples=20)
    xi = rademacher(config.K, config.N, stream(0, "byzantine"))
    supports = byzantine._supports(config, xi, 1, 0)
    K, T = config.K, config.rounds
    for scenario in config.scenarios:
        for score in ("level", "groups"):
            assert supports[f"{scenario}/support/{score}"].shape == (K + T,)
    lies = supports["2 wandering/support/groups"]
    np.testing.assert_allclose(lies[:K], 1)
    assert lies[K + 1] == 0.2
    fixed = supports["2 fixed/support/level"][K:]
    np.testing.assert_allclose(fixed, fixed[0])  # the same pattern in all rounds
    assert fixed[0] > 10
    assert (np.abs(supports["clean/support/level"][K:]) < 5).all()
    rare = supports["rare/support/groups"][:K]
    assert rare[0] > 0.9
    assert rare[-1] <= 0.3


def test_what_is_judged_is_taken_from_the_right_place():
    config = replace(SMALL, attackers=(1, 2))
    K, T = config.K, config.rounds
    rng = np.random.default_rng(0)
    arrays = {
        f"{name}/support/{score}": 4 * rng.standard_normal((5, T, K + T))
        for name in config.scenarios
        for score in ("level", "groups")
    }
    for score in ("level", "groups"):
        values = byzantine.judged(config, arrays, "wandering", score)
        source = arrays[f"2 wandering/support/{score}"]
        np.testing.assert_array_equal(values["common"], source[:, :, :K].reshape(5, -1))
        own = [source[:, t, K + t] for t in range(T)]
        np.testing.assert_array_equal(values["injected"], np.transpose(own))
        rare = arrays[f"rare/support/{score}"][:, :, K - 1]
        np.testing.assert_array_equal(values["rare"], rare)
    rounds = byzantine.judged(config, arrays, "fixed", "rounds")
    passed = arrays["2 fixed/support/level"] > Spiked.level
    np.testing.assert_array_equal(rounds["injected"], passed[:, :, K:].sum(axis=1))
    assert rounds["rare"].shape == (5, 1)


def test_the_area_under_the_curve_is_that_of_the_curve_that_is_drawn(quick):
    config = from_plain(byzantine.Config, quick.config)
    for kind in KINDS:
        for score in SCORES:
            for truth in ("common", "rare"):
                true, false = figure._judged(quick, truth, kind, score)
                values = byzantine.judged(config, quick.arrays, kind, score)
                np.testing.assert_array_equal(np.sort(true), np.sort(values[truth], axis=None))
                levels = np.unique(np.concatenate([true, false]))[::-1]
                x, y = (np.array([0, *((v >= u).mean() for u in levels)]) for v in (false, true))
                area = ((y[1:] + y[:-1]) / 2 * np.diff(x)).sum()
                assert quick.summary[f"auc/{truth}/{kind}/{score}"][0] == pytest.approx(area)


def test_the_quick_preset_shows_what_each_defence_is_good_for(quick):
    s = quick.summary
    assert set(byzantine.RECORD.measures) <= set(s)
    for d in DEFENCES:
        assert s[f"false/clean/{d}"][0] == 0
        assert s[f"kept/{d}"][0] == 1
    assert s["false/fixed/none"][0] == 1
    assert s["last/2 wandering/none"][0] >= 3
    assert s["false/wandering/persistence"][0] == 0
    assert s["last/2 fixed/persistence"][0] == 1  # only late
    assert s["last/2 fixed/agreement"][0] == s["last/2 fixed/both"][0] == 0
    assert [s[f"delay/{d}"][0] for d in DEFENCES] == [0, 2, 0, 2, 0, 0]
    assert s["rare/none"][0] == 1
    assert s["rare/both"][0] == 0
    assert s["auc/common/fixed/groups"][0] == 1
    assert s["auc/common/fixed/rounds"][0] == 0.5
    assert s["auc/common/wandering/rounds"][0] == 1


def test_arrays_have_an_entry_for_every_seed_round_and_variant(quick):
    c = quick.config
    config = from_plain(byzantine.Config, c)
    for scenario in config.scenarios:
        for d in DEFENCES:
            m = quick.arrays[f"{scenario}/{d}/magnetisation"]
            assert m.shape == (c["seeds"], c["rounds"], c["K"])
            assert quick.arrays[f"{scenario}/{d}/false"].shape == m.shape[:2]
    assert quick.arrays["visible"].shape == (*m.shape[:2], len(c["amplitudes"]))
    assert quick.arrays["passing"].shape == (*m.shape[:2], len(c["attackers"]))


def test_only_what_was_broadcast_is_scored(monkeypatch):
    """Two rounds in, persistence has patterns in its memory and has told none."""
    two = {name: DEFENCES[name] for name in ("none", "persistence")}
    monkeypatch.setattr(byzantine, "DEFENCES", two)
    config = replace(SMALL, examples=20)
    state = None
    for t in range(2):
        arrays, state = byzantine.run_round(config, 0, t, state, LocalEngine())
    assert len(state["2 fixed/persistence/server/memory/patterns"]) >= config.K
    assert len(state[f"2 fixed/persistence/down/{EVERYONE}/patterns"]) == 0
    assert (arrays["2 fixed/persistence/magnetisation"] == 0).all()
    assert (arrays["2 fixed/none/magnetisation"] > 0.9).all()


def test_the_figure_is_drawn_from_the_run_alone(quick, tmp_path):
    save(figure.draw_whole(quick), tmp_path / "figure.svg")
    text = (tmp_path / "figure.svg").read_text()
    assert text.count("<path") > 50
    for name in figure.STYLES:
        assert name in text
    assert set(figure.STYLES) == set(DEFENCES)
    assert set(figure.SCORES) == set(SCORES)
    assert Spiked.level == figure.LEVEL


@pytest.mark.parametrize(
    "wrong",
    [
        {"N": 20},
        {"K": 1},
        {"rounds": 0},
        {"attackers": (0, 1)},
        {"attackers": (50,)},
        {"few": 50},
        {"quality": 1.0},
        {"amplitude": 0.0},
        {"amplitudes": (0.1, -0.1)},
        {"seeds": 0},
    ],
)
def test_a_config_that_breaks_a_rule_is_named(wrong):
    with pytest.raises(ArgumentError) as error:
        byzantine.Config(**wrong)
    assert error.value.argument == next(iter(wrong))
