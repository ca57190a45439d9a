"""Every experiment in its quick preset: its summary and picture; and facts of a few."""

import re
from dataclasses import fields, replace
from functools import cache
from inspect import signature

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from hopfed._lib.random import stream
from hopfed._lib.settings import from_plain, to_plain, with_settings
from hopfed.errors import ArgumentError, DataError
from hopfed.experiments import (
    CLAIMS,
    NAMES,
    PRESET_NAMES,
    compared,
    find_experiment,
    minutes,
    preset,
    presets,
)
from hopfed.experiments.machinery.pictures import draw_runs
from hopfed.experiments.machinery.runner import execute
from hopfed.experiments.machinery.settings import field_rules
from hopfed.experiments.shared.baselines import METHODS
from hopfed.federation.contract import Context
from hopfed.federation.engines import LocalEngine
from hopfed.figures import save
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.hopfield.operator_messages import decode, pack_patterns
from hopfed.memory import Layered

NEURAL = {"methods", "sohip", "fedssa", "fedh2l", "knnper", "oneshot"}
EXTRA = {"stepmix", "k-modes"}  # of the packages with which we are compared
CLOCK = {"seconds", "peak"}  # arrays of what no run measures twice
FAST = {"bbp", "mp", "concentration", "load"}
# Those of whose summaries some rows are for other presets.
PARTLY = {"privacy", "structured", "cooperation", "load", "tables", "correlated_noise"}


@cache
def quick(name):
    module = find_experiment(name)
    config = replace(preset(module, "quick"), seeds=2)
    return config, execute(module, config)


@pytest.mark.parametrize("name", NAMES)
def test_what_an_experiment_offers(name):
    if name in NEURAL:
        pytest.importorskip("torch", reason="needs the extra neural")
    module = find_experiment(name)
    assert all(CLAIMS[name])
    assert set(PRESET_NAMES) <= set(minutes(name)) <= set(presets(module))
    for each in presets(module):
        config = preset(module, each)
        assert from_plain(module.Config, to_plain(config)) == config
    assert {field.name for field in fields(module.Config)} == set(field_rules(module.Config))
    with pytest.raises(ArgumentError, match="--preset must be one of quick"):
        preset(module, "quickest")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name not in FAST))
        for name in NAMES
        if name not in NEURAL
    ],
)
def test_a_run_fills_its_summary_is_drawn_and_a_seed_alone_is_the_same(name, tmp_path):
    module, (config, run) = find_experiment(name), quick(name)
    known = set(compared(name))
    assert known & set(run.summary)
    assert known <= set(run.summary) or name in PARTLY
    save(draw_runs([run], whole=True), tmp_path / "whole.svg")
    with threadpool_limits(1):  # as in a run: the order of summation depends on it
        takes = "engine" in signature(module.measure).parameters
        alone = module.measure(1, config, **({"engine": LocalEngine()} if takes else {}))
    for key in alone:
        if key.partition("/")[0] not in CLOCK:
            np.testing.assert_array_equal(run.arrays[key][1], alone[key], err_msg=key)


WRONG = """
bbp N=10 : N must be at least 20
mp ratios=100 : ratios must be in (0, 12.5]
load loads=0.2,0.1 : loads must be rising
tables methods=magic : methods must be among one class
scale M=100 : M must be one for each of 5 N
byzantine attackers=50 : attackers must be in [1, 50)
cooperation first=.8 : others must be one for each of 1 first
novelty rare=.5,.5,.5 : rare must be a sum below 1
plan seeds=0 : seeds must be at least 1
drift rounds=2 : rounds must be at least 3
novelty at=24 : at must be in [1, 24)
participation clients=1 : clients must be at least 2
"""


@pytest.mark.parametrize("case", WRONG.strip().splitlines())
def test_settings_that_break_a_rule_are_named(case):
    given, _, words = case.partition(" : ")
    name, setting = given.split()
    with pytest.raises(ArgumentError, match=re.escape(words)):
        with_settings(find_experiment(name).Config(), [setting])


# Theory beside simulation


@pytest.mark.slow
def test_theory_agrees_with_the_draws():
    bbp = execute(find_experiment("bbp"), preset(find_experiment("bbp"), "quick")).summary
    assert bbp["r2_lowest"][0] >= 0.98
    assert bbp["gap"][0] <= 0.003
    assert bbp["r2_pooled_plain"][0] < bbp["r2_pooled"][0]
    mp = find_experiment("mp")
    config = mp.Config(N=40, N_test=50, ratios=(0.5,), nulls=250, shuffle=False, seeds=1)
    arrays = {name: value[None] for name, value in mp.measure(0, config).items()}
    rates = mp.alarm_rates(config, arrays)
    for name in ("tw_signs_0.05", "tw_gaussian_0.05"):
        assert 0.01 < rates[name][0] < 0.1  # nominal 5%, standard error 1.4%
    assert rates["unshifted_signs_0.05"][0] < rates["tw_signs_0.05"][0]
    bounds = execute(
        find_experiment("concentration"), preset(find_experiment("concentration"), "quick")
    ).summary
    assert bounds["exceeded"] == 0
    assert abs(bounds["slope"][0] + 0.5) < 0.1
    noise = execute(
        find_experiment("correlated_noise"), preset(find_experiment("correlated_noise"), "quick")
    ).summary
    assert noise["false_classical"][0] > 3
    assert noise["false_generalised"][0] < 0.5
    assert noise["kept_whitened"][0] > 2.5
    assert noise["agree_whitened"][0] > 0.7


# Memories


def test_loads_count_only_when_every_seed_and_every_smaller_load_is_complete():
    load = find_experiment("load")
    config = load.Config(N=(100,), loads=(0.1, 0.2, 0.3), seeds=2)
    found, false = np.ones((2, 6, 1, 3)), np.zeros((2, 6, 1, 3))
    found[0, 0, 0, 1] = 0.9  # one seed misses one at the second load
    false[1, 1, 0, 2] = 1
    most, _ = load.largest_recovered(config, {"found": found, "false": false})
    assert most[:3, 0].tolist() == [10, 20, 30]
    rng = np.random.default_rng(0)
    xi = rademacher(5, 100, rng)
    assert load.find_limit(draw_examples(xi, 1000, 0.8, rng)[0], xi) == "search"


def test_crossings_basins_and_scores_by_hand():
    capacity, disentangle = find_experiment("capacity"), find_experiment("disentangle")
    assert capacity.level_crossing(np.array([0.1, 0.2, 0.3]), np.array([1.0, 0.75, 0.25])) == 0.25
    assert capacity.basin_width(np.array([1, 1, 0.9, 0, 0, 0])) == pytest.approx(0.075)
    parts = np.array([[1, 1, 1, -1], [1, -1, 1, 1]])
    assert disentangle.score_starts(np.array([parts, parts[[0, 0]]]), parts) == (0.5, 0.75)
    config = replace(preset(disentangle, "quick"), N=100)  # noise as published: the same draws
    assert disentangle._cooled(config, 2, Layered(3, 0.45), 3, 0.1) == (1, 1)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n in EXTRA)) for n in METHODS]
)
def test_every_rival_finds_planted_classes_through_gaps(name):
    if name in EXTRA:
        pytest.importorskip(name.replace("-", ""), reason="needs the extra compare")
    rng = np.random.default_rng(3)
    centres = np.where(rng.random((3, 30)) < 0.5, -1, 1)
    labels = rng.integers(3, size=240)
    rows = np.where(rng.random((240, 30)) < 0.9, centres[labels], -centres[labels])
    rows = np.where(rng.random(rows.shape) < 0.1, 0, rows).astype(np.int8)
    exam, masked = (
        find_experiment("tables").RealTable(rows, labels),
        np.where(rng.random(rows.shape) < 0.2, 0, rows),
    )
    fitted = METHODS[name](rows, seed=0, most=6)
    size, likelihood, right, rand = find_experiment("tables").score_model(fitted, exam, masked)
    if name == "one class":
        assert (size, rand) == (1, 0)
        return
    assert min(right, rand) > (0.6 if name == "nmf" else 0.8)  # factors mix classes
    assert name == "nmf" or likelihood > -0.45


# Federations


@pytest.mark.slow
def test_each_behaviour_of_a_memory_under_drift_and_attack():
    drift = execute(
        find_experiment("drift"), replace(preset(find_experiment("drift"), "quick"), seeds=1)
    ).summary
    assert drift["kept/w = 0"][0] < 0.8
    assert drift["kept/kept apart"][0] == 1
    attacked = find_experiment("attacker")
    config = replace(preset(attacked, "quick"), rounds=3, seeds=1)
    found = execute(attacked, config).summary
    assert found["attacker/structure"] < found["attacker/agreement"] < 0.5  # falling by halves
    assert found["attacker/entropy"] > 0.99


def test_shares_of_archetypes_by_round_and_client():
    drift, novelty, part = (
        find_experiment("drift"),
        find_experiment("novelty"),
        find_experiment("participation"),
    )
    edge = 5 / 6, 1 / 6  # of a stage of three rounds
    for rounds, period, first in (
        (9, 9, [1, 1, edge[0], edge[1], 0, 0, 0, 0, 0]),
        (18, 9, [edge[0], 1, edge[0], edge[1], 0, 0, 0, 0, edge[1]] * 2),
        (6, 3, [1, 0, 0] * 2),
    ):
        made = drift.drifting_exposures(rounds, period)
        np.testing.assert_allclose(made[:, 0], first, atol=1e-12)
        np.testing.assert_allclose(made.sum(axis=1), 1, atol=1e-12)
    config = novelty.Config(rounds=6, at=2, ramp=2, rare=(0.1,), scarce=(0.1,))
    np.testing.assert_allclose(12 * config.mixture("equal")[:, 0], [4, 4, 3.5, 3, 3, 3])
    for clients in (2, 3, 10):
        held = part.draw_supports(clients, 0)
        assert (held.sum(axis=1) == part.HELD).all()
        assert held.any(axis=0).all()


@pytest.mark.parametrize("discount", [1.0, 0.6])
def test_effective_exposures_foresee_the_leading_eigenvalue(discount):
    """Beyond the band of uncertainty, what is foreseen is what an operator of batches shows."""
    part = find_experiment("participation")
    for seed in range(6):
        rng = np.random.default_rng(seed)
        xi = rademacher(3, 150, rng)
        exposures, weights = 0.2 ** np.arange(3), discount ** np.arange(3)
        moment, counts = np.zeros((150, 150)), []
        for w in weights:
            x, labels = draw_examples(xi, 300, 0.5, rng, exposures=exposures / exposures.sum())
            moment += w * x.astype(float).T @ x
            counts.append(np.bincount(labels, minlength=3))
        told = part.predict_found(xi, np.array(counts), weights, 0.5, 1e-3)
        assert told["foreseen/distance"][0] > 2
        assert np.argsort(told["foreseen/place"]).tolist() == [0, 1, 2]
        values = np.linalg.eigvalsh(moment)[::-1] / (300 * weights.sum())
        beyond = 1.5 * 0.75 * (1 + np.sqrt(150 / 900)) ** 2
        assert values[0] > beyond
    nothing = part.predict_found(xi, np.zeros((0, 3)), np.zeros(0), 0.5, 1e-3)
    assert (nothing["foreseen/distance"] == -np.inf).all()


def test_a_liar_adds_the_same_examples_in_every_exchange():
    byzantine = find_experiment("byzantine")
    small = byzantine.Config(N=80, K=2, clients=10, rounds=3, attackers=(2,), few=2)
    xi = rademacher(small.K, small.N, stream(0, "byzantine"))
    liar, honest = (byzantine._method(small, xi, s, 0) for s in ("2 fixed", "clean"))
    x = liar.client.pattern(1).astype(float)
    V = np.linalg.qr(np.random.default_rng(0).standard_normal((small.N, 3)))[0]
    told = np.vstack([xi, -x.astype(np.int8)])
    broadcast = {"patterns": pack_patterns(told), "quality": np.float32(0.8)}
    broadcast["sure"] = np.ones(len(told), np.float32)

    def answers(method, client):
        state, said = {}, []
        for exchange, down in enumerate(({}, {"basis": V}, broadcast)):
            context = Context(0, 1, exchange, client)
            state, message, _ = method.client.client_step(state, down, context)
            said.append(message)
        return said

    lied, fair = answers(liar, 0), answers(honest, 0)
    mass, M = byzantine.AMPLITUDE * small.examples, small.examples
    S, R = (decode(a[0], small.N).matrix for a in (lied, fair))
    spiked = np.clip(R + mass * (np.outer(x, x) - np.eye(small.N)), -M, M)
    np.testing.assert_allclose(S, spiked, atol=1e-5)
    more = (lied[1]["groups"] - fair[1]["groups"]).astype(float)
    expected = (V.T @ np.outer(x, x) @ V * mass)[np.tri(3, dtype=bool)]
    np.testing.assert_allclose(more[0], expected, atol=1e-4)
    np.testing.assert_array_equal(lied[2]["votes"][2], -small.examples * x)


def test_an_archetype_in_the_directions_of_heavier_ones_is_not_foreseen():
    exposure = find_experiment("exposure")
    xi = rademacher(3, 400, np.random.default_rng(0))
    xi[2] = np.where(np.arange(400) < 200, xi[0], xi[1])  # half of each
    apart = exposure.predict_overlaps(
        rademacher(3, 400, np.random.default_rng(1)), np.ones(3) / 3, 0.5, 800
    )
    assert (apart > 0.9).all()
    few = exposure.predict_overlaps(xi, np.array([0.6, 0.399, 0.001]), 0.5, 800)
    assert few[0] > 0.9
    assert few[2] == 0
    with pytest.raises(DataError):
        exposure.measure(0, exposure.Config(data="absent.npz"))
