"""Recall against a plain loop, the laws of its energies, and what stays equal where it must."""

import shutil

import kernel_oracle as reference
import numpy as np
import pytest
from helpers import rest_slow
from memory.oracle import corrupted, couplings, descend, layers, random_signs, step
from scipy.linalg import hadamard

import hopfed
from hopfed.errors import ArgumentError
from hopfed.memory.associative import AssociativeMemory
from hopfed.memory.rules import Dense, Dreamed, Exponential, Hebb, Layered, Projector
from hopfed.spectral.operators import FactorOperator
from hopfed.testing import check_recall

QUADRATIC = [Hebb(), Projector(), Dreamed(2.0)]
OVERLAPS = [Dense(2), Dense(3), Dense(5), Exponential(0.5)]
SINGLE = [*QUADRATIC, *OVERLAPS]  # one layer


def name(rule):
    return rule.name


def loop(cues, xi, rule, held=None):
    """Serial recall at temperature 0 by a plain loop."""
    if rule.quadratic:
        return descend(cues, couplings(xi, rule), held)
    power = isinstance(rule, Dense)
    kind, parameter = ("power", rule.n) if power else ("exponential", rule.beta)
    return reference.dense_sweep(cues, xi, kind, parameter)


@pytest.mark.parametrize("rule", SINGLE, ids=name)
@pytest.mark.parametrize("shape", [(1, 30), (9, 61)])
def test_serial_recall_equals_a_plain_loop_to_the_bit(rule, shape):
    xi = random_signs(shape, 1)
    cues = np.concatenate([corrupted(xi, 0.25, 2), random_signs((8, shape[1]), 3)])
    found = AssociativeMemory.store(xi, rule).recall(cues)
    np.testing.assert_array_equal(found.states, loop(cues, xi, rule))
    np.testing.assert_allclose(found.overlaps, found.states @ xi.T / shape[1], atol=1e-12)
    assert found.converged.all()
    assert (found.updates >= 1).all()


@pytest.mark.parametrize("rule", [*SINGLE, Dense(9), Exponential(2.0)], ids=repr)
@pytest.mark.parametrize("shape", [(1, 1), (7, 40), (80, 61)])
def test_synchronous_recall_equals_a_plain_loop_to_the_bit(rule, shape):
    xi = random_signs(shape, 1)
    now = np.concatenate([corrupted(xi[:9], 0.3, 2), random_signs((9, shape[1]), 3)])
    memory = AssociativeMemory.store(xi, rule)
    wanted = now
    for updates in range(1, 5):
        wanted = step(wanted, xi, rule)
        found = memory.recall(now, updates=updates, order="synchronous").states
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("rule", [Hebb(), Dense(2), Dense(4), Exponential(0.5)], ids=name)
def test_energy_is_that_of_the_formula(rule):
    xi, states = random_signs((7, 40), 1), random_signs((5, 40), 2)
    a = states.astype(float) @ xi.T
    wanted = {
        Hebb(): -((a**2).sum(axis=1) - 7 * 40) / 80,
        Dense(2): -20 * ((a / 40) ** 2).sum(axis=1),
        Dense(4): -10 * ((a / 40) ** 4).sum(axis=1),
        Exponential(0.5): -2 * np.log(np.exp(a / 2).sum(axis=1)),
    }[rule]
    np.testing.assert_allclose(AssociativeMemory.store(xi, rule).energy(states), wanted)


@pytest.mark.parametrize("rule", SINGLE, ids=name)
def test_recall_has_the_properties_of_every_memory(rule):
    check_recall(
        lambda xi, cue: AssociativeMemory.store(xi, rule).recall(cue).states[0],
        lambda xi, state: AssociativeMemory.store(xi, rule).energy(state)[0],
        even=rule.quadratic or getattr(rule, "n", 1) % 2 == 0,
    )


def test_a_field_of_zero_leaves_the_spin():
    """These patterns were left, as if they had been recalled."""
    xi = np.array([[-1, 1, 1], [-1, -1, -1]])
    for order in ("serial", "synchronous"):
        found = AssociativeMemory.store(xi).recall(xi, order=order)
        np.testing.assert_array_equal(found.states, xi)
        assert found.converged.all()


@pytest.mark.parametrize("order", ["serial", "synchronous"])
def test_a_projector_keeps_its_patterns_up_to_as_many_as_sites(order):
    """Fields that are 0 but for their rounding turned most of them."""
    for K, n in ((8, 8), (149, 150), (150, 150)):
        xi = hadamard(8) if n == 8 else random_signs((K, n), K)
        memory = AssociativeMemory.store(xi, "projector")
        found = memory.recall(xi, order=order)
        np.testing.assert_array_equal(found.states, xi)
        assert found.converged.all()
        assert bool(memory.advice) == (n == K)
        end = memory.recall(random_signs((40, n), 3)).states.astype(float)
        J = couplings(xi, Projector())  # near as many, fields are small, and few are 0
        assert (end * (end @ J - end * np.diag(J)) > -1e-10).all()


def test_a_pattern_and_its_negative_cancel_in_an_odd_power_and_that_is_said():
    xi = random_signs((3, 20), 1)
    both = np.concatenate([xi, -xi[:1]])
    assert "pairs: 1" in AssociativeMemory.store(both, Dense(3)).advice[0]
    for memory in (AssociativeMemory.store(both, Dense(4)), AssociativeMemory.store(xi, Dense(3))):
        assert memory.advice == ()
    [said] = AssociativeMemory.store(random_signs((80, 200), 1)).advice
    assert "about 28 random" in said


@pytest.mark.parametrize(
    "rule", [Hebb(), Projector(), Dreamed(), Layered(2), Dense(2), Dense(4)], ids=name
)
@pytest.mark.parametrize("order", rest_slow(["synchronous", "serial"], 1))
def test_opposite_cues_have_opposite_ends_where_the_energy_is_even(rule, order):
    """K even: many fields are 0, and turned a spin to +1 from either side."""
    for seed in range(2):
        xi, cues = random_signs((10, 40 + seed), seed), random_signs((40, 40 + seed), 50 + seed)
        memory = AssociativeMemory.store(xi, rule)
        gaps = np.random.default_rng(seed).random(cues.shape) < 0.5 * (seed % 2)
        cues = np.where(gaps, 0, cues)  # the first cell of a cue is never 0 alone
        cues[:, 0] = np.where((cues == 0).all(axis=1), 1, cues[:, 0])
        cues[0, :2] = 1, -1  # signs, and no bits
        found, turned = (memory.recall(c, observed=c != 0, order=order) for c in (cues, -cues))
        np.testing.assert_array_equal(turned.states, -found.states)
        np.testing.assert_array_equal(turned.converged, found.converged)


@pytest.mark.parametrize("rule", SINGLE, ids=name)
@pytest.mark.parametrize("order", ["serial", "synchronous"])
def test_gaps_are_filled_and_what_was_observed_is_kept(rule, order):
    xi = random_signs((5, 120), 1)
    seen = np.random.default_rng(2).random(xi.shape) < 0.4
    memory = AssociativeMemory.store(xi, rule)
    found = memory.recall(np.where(seen, xi, 0), order=order)
    np.testing.assert_array_equal(found.states, xi)
    same = memory.recall(xi, observed=seen, order=order)
    np.testing.assert_array_equal(same.states, found.states)
    wrong = np.where(seen, corrupted(xi, 0.1, 3), np.nan)
    kept = memory.recall(wrong, order=order).states
    np.testing.assert_array_equal(kept[seen], wrong[seen])
    free = memory.recall(wrong, order=order, hold=False).states
    assert (free == xi).mean() > (kept == xi).mean()


def test_a_held_recall_equals_a_plain_loop_to_the_bit():
    xi = random_signs((9, 100), 1)
    seen = np.random.default_rng(2).random((9, 100)) < 0.3
    for rule in QUADRATIC:
        J = couplings(xi, rule)
        start = np.where(seen, xi, np.where(np.where(seen, xi, 0) @ J >= 0, 1, -1))  # K odd
        found = AssociativeMemory.store(xi, rule).recall(xi, observed=seen).states
        np.testing.assert_array_equal(found, descend(start, J, seen))


@pytest.mark.parametrize("rule", [Hebb(), Dense(3), Exponential(1.0)], ids=name)
@pytest.mark.parametrize("order", ["serial", "synchronous"])
def test_noise_is_named(rule, order):
    xi = random_signs((4, 64), 1)
    memory, cues = AssociativeMemory.store(xi, rule), corrupted(xi, 0.2, 2)
    options = {"temperature": 0.4, "order": order, "updates": 6}
    one, same, other = (memory.recall(cues, seed=seed, **options).states for seed in (5, 5, 6))
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()
    annealed = memory.recall(
        cues, temperature=np.maximum(np.linspace(0.4, -0.4, 20), 0), updates=20, order=order
    )
    assert annealed.converged.all()
    assert not memory.recall(cues, temperature=9.0, updates=3, order=order).converged.any()


def test_weights_count_like_copies():
    xi, cues = random_signs((5, 60), 1), random_signs((20, 60), 2)
    counts = np.array([1, 2, 3, 1, 2])
    for rule in (Hebb(), Dreamed(1.0), Dense(3), Exponential(0.2)):
        one = AssociativeMemory.store(xi, rule, weights=counts).recall(cues)
        many = AssociativeMemory.store(np.repeat(xi, counts, axis=0), rule).recall(cues)
        np.testing.assert_array_equal(one.states, many.states)
        # Sums of up to 60 float32, of which 1.2e-7 each may be lost, in another order.
        np.testing.assert_allclose(one.energy, many.energy, rtol=60 * 1.2e-7)


AWAY = [Hebb(), Projector(), Layered(2), Dense(3), Exponential(1.0)]
compiler = pytest.mark.skipif(
    not (shutil.which("g++") or shutil.which("c++")), reason="no C++ compiler"
)


@compiler
@pytest.mark.parametrize("rule", AWAY, ids=name)
@pytest.mark.parametrize("order", rest_slow(["synchronous", "serial"], 1))
def test_a_device_recalls_what_the_host_does(order, rule):
    from emulator.device import Emulated

    device = Emulated()
    xi = random_signs((8, 40), 1)  # of which many fields are 0
    cues = corrupted(xi, 0.3, 2)
    memory = AssociativeMemory.store(xi, rule)
    gaps = {"observed": np.random.default_rng(3).random(xi.shape) < 0.5}
    heat = {"temperature": np.array([0.3] * 2 + [0.0] * 5), "updates": 7}
    for options in ({"updates": 9}, gaps, gaps | {"hold": False}, heat):
        if "temperature" in options and rule.quadratic:
            continue  # the kernels of a device round their fields in another way
        there = memory.recall(device.xp.asarray(cues), order=order, **options)
        here = memory.recall(cues, order=order, **options)
        np.testing.assert_array_equal(there.states.get(), here.states)
        np.testing.assert_array_equal(there.overlaps, here.overlaps)
        np.testing.assert_array_equal(there.converged, here.converged)
        np.testing.assert_allclose(there.energy, here.energy)
    asked = np.where(gaps["observed"], cues, 0)
    there = memory.recall(device.xp.asarray(asked), order=order).states.get()
    np.testing.assert_array_equal(there, memory.recall(asked, order=order).states)


def test_a_recovery_and_an_operator_are_stored():
    from hopfed.hopfield.channel import draw_examples, rademacher

    rng = np.random.default_rng(1)
    xi = rademacher(4, 200, rng)
    examples = draw_examples(xi, 800, 0.8, rng)[0]
    recovered = hopfed.recover(examples, seed=1)
    cues = corrupted(xi, 0.2, 3)
    assert np.abs(hopfed.AssociativeMemory.store(recovered).recall(cues).overlaps).max() == 1
    operator = FactorOperator.from_examples(examples)
    for rule in ("hebb", "projector", Dreamed(1.0)):
        memory = AssociativeMemory.store(operator, rule)
        assert memory.coupling_factor[0].shape == (200, 4)  # counted
        found = memory.recall(cues)
        assert found.overlaps.shape == (4, 0)
        assert (np.abs((found.states * xi.astype(int)).mean(axis=1)) > 0.95).all()


OPERATOR = FactorOperator.from_examples(random_signs((9, 8), 1))


@pytest.mark.parametrize(
    ("stored", "recalled", "argument"),
    [
        ({"source": np.full((2, 4), 3.0)}, {}, "patterns"),
        ({"source": [[1, -1], [1]]}, {}, "patterns"),
        ({"source": np.full((3, 8), 0.5), "rule": "hebb"}, {}, "rule"),
        (
            {"source": FactorOperator.from_examples(random_signs((9, 8), 1)), "rule": "dense"},
            {},
            "rule",
        ),
        ({"rule": "hebbs"}, {}, "rule"),
        ({"weights": [1.0, 0.0, 1.0]}, {}, "weights"),
        ({"weights": [1.0, 1e300, 1.0]}, {}, "weights"),  # float32 cannot hold it
        ({}, {"cues": np.ones((2, 9))}, "cues"),
        ({}, {"cues": [[1] * 8, [1]]}, "cues"),
        ({}, {"observed": np.ones((2, 7), bool)}, "observed"),
        ({}, {"observed": np.ones((2, 8))}, "observed"),
        ({}, {"temperature": [0.1, 0.2], "updates": 2}, "temperature"),
        ({}, {"temperature": "warm"}, "temperature"),
        ({"source": np.full((2, 8), 0.5)}, {"temperature": 0.1}, "temperature"),
        ({}, {"updates": "many"}, "updates"),
        ({}, {"seed": -1}, "seed"),
        ({}, {"order": "random"}, "order"),
    ],
)
def test_bad_arguments_name_themselves(stored, recalled, argument):
    def call():
        memory = AssociativeMemory.store(**{"source": random_signs((3, 8), 1)} | stored)
        memory.recall(**{"cues": np.ones((2, 8))} | recalled)

    with pytest.raises(ArgumentError) as error:
        call()
    assert error.value.argument == argument


@pytest.mark.parametrize("coupling", ["linear", "quadratic"])
@pytest.mark.parametrize("order", ["serial", "synchronous"])
def test_layers_equal_a_plain_loop_to_the_bit(order, coupling):
    xi = random_signs((5, 36), 1)
    cues = np.concatenate([corrupted(xi[:3], 0.25, 2), random_signs((3, 36), 3)])
    rule = Layered(3, 0.3, coupling)
    memory, J = AssociativeMemory.store(xi, rule), couplings(xi, Projector())
    held = np.random.default_rng(4).random(cues.shape) < 0.3
    filled = np.where(held, cues, np.where(np.where(held, cues, 0) @ J >= 0, 1, -1))
    for kept, start in ((None, cues), (held, filled)):
        for updates in (1, 4):
            found = memory.recall(cues, observed=kept, updates=updates, order=order)
            wanted = layers(start, J, rule.matrix, coupling, order, updates)
            np.testing.assert_array_equal(found.states, wanted)


def test_a_layered_memory_takes_a_mixture_apart():
    xi = random_signs((3, 400), 1)
    mixture = np.where(xi.sum(axis=0) > 0, 1, -1)[None].repeat(24, axis=0)
    memory = AssociativeMemory.store(xi, Layered())
    cooling = np.maximum(np.linspace(0.1, -0.01, 60), 0)
    found = memory.recall(mixture, temperature=cooling, updates=60, seed=3)
    assert found.states.shape == (24, 3, 400)
    best = np.abs(found.overlaps).max(axis=1)  # of each pattern over the layers
    assert (best > 0.99).all(axis=1).mean() > 0.9
    J, s = couplings(xi, Projector()), found.states.astype(float)
    q = np.einsum("sai,ij,sbj->sab", s, J, s)
    cross = (q**2).sum(axis=(1, 2)) - np.einsum("saa->s", q**2)
    wanted = -np.einsum("saa->s", q) + 0.45 / 400 * cross
    np.testing.assert_allclose(found.energy, wanted, rtol=1e-5)


def coupled(memory):
    """Couplings of a memory as (N, N)."""
    W, scale = memory.coupling_factor
    if memory.couplings is not None:
        rows, gain, _ = memory.couplings
        return gain * rows.T @ rows
    return scale * W.astype(float) @ W.T


@pytest.mark.parametrize(
    "rule", [Projector(), Dreamed(0.5), Dreamed(50.0), Layered(2, t=3.0)], ids=repr
)
def test_dependent_and_equal_patterns(rule):
    xi = random_signs((6, 40), 1)
    xi = np.concatenate([xi, xi[2:3], -xi[4:5]])
    J, wanted = coupled(AssociativeMemory.store(xi, rule)), couplings(xi, rule)
    np.testing.assert_allclose(J, wanted, rtol=0, atol=1e-10 * np.abs(J).max())


def test_any_dreaming_time_lies_between_hebb_and_the_projector():
    """Rows of a short dream fit single precision; a long one of equal patterns is the projector."""
    xi = random_signs((6, 81), 1)
    twice, cues = np.concatenate([xi, xi]), corrupted(xi, 0.2, 2)
    for t, limit in ((1e-90, Hebb()), (1e-310, Hebb()), (1e17, Projector()), (1e308, Projector())):
        found, wanted = (AssociativeMemory.store(twice, rule) for rule in (Dreamed(t), limit))
        np.testing.assert_allclose(coupled(found), coupled(wanted), atol=1e-12)
        np.testing.assert_array_equal(found.recall(cues).states, wanted.recall(cues).states)
