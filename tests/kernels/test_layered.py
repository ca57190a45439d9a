from functools import partial

import kernel_oracle as reference
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopfed import kernels
from hopfed.errors import ArgumentError

seeds = st.integers(0, 2**32 - 1)
sizes = st.tuples(st.integers(1, 9), st.integers(1, 6), st.integers(1, 100), st.integers(0, 70))
couplings = st.sampled_from(["linear", "quadratic"])


def system(size, seed):
    """Blocks, a factor with exact float32 fields, and a cue."""
    rng = np.random.default_rng(seed)
    S, L, N, R = size
    values = np.array([-1, 1], np.int8)
    cue = rng.choice(values, (S, 1, N))
    return rng.choice(values, (S, L, N)), rng.integers(-4, 5, (N, R)) / 8, cue


def conserved(state, W, coupling, repulsion, field, cue):
    """The energy of which the fields of the paper are the gradient; see the module."""
    if coupling == "quadratic":
        repulsion = repulsion / 2
    return reference.layered_energy(state, W, coupling, repulsion, 2 * field, cue)


@given(sizes, seeds, couplings, st.sampled_from([0.0, 0.25]), st.booleans())
def test_steps_equal_the_reference(size, seed, coupling, field, self_field):
    state, W, cue = system(size, seed)
    if coupling == "quadratic":
        state, cue = state[..., : 2 ** (state.shape[2].bit_length() - 1)], cue  # exact division
        W, cue = W[: state.shape[2]], cue[..., : state.shape[2]]
    before = state.copy()
    options = {
        "beta": np.array([0.5, 1.0, 1.0]), "noise": np.array([1.0, 0.75, 0.5]), "updates": 3,
        "coupling": coupling, "repulsion": 0.25, "field": field, "self_field": self_field,
        "seed": seed, "first_update": 4, "cue": cue,
    }  # fmt: skip
    run = kernels.layered_step(state, W, **options)
    wanted = reference.layered_step(state, W, **options)
    np.testing.assert_array_equal(run.state, wanted)
    energy = reference.layered_energy(wanted, W, coupling, 0.25, field, cue)
    np.testing.assert_allclose(run.energy, energy, rtol=1e-6, atol=1e-6 * state[0].size)
    last = reference.layered_step(state, W, **{**options, "updates": 2, "beta": options["beta"][:2],
                                           "noise": options["noise"][:2]})  # fmt: skip
    np.testing.assert_array_equal(run.changed, (last != wanted).sum((1, 2)))
    np.testing.assert_array_equal(run.updates, 3)
    np.testing.assert_array_equal(state, before)


def test_one_serial_layer_is_the_heat_bath():
    state, W, _ = system((7, 1, 700, 9), 1)
    sweep = kernels.layered_step(state, W, serial=True, beta=1.5, updates=6, seed=5, first_update=2)
    bath = kernels.heat_bath(state[:, 0], W, beta=1.5, sweeps=6, seed=5, first_sweep=2)
    np.testing.assert_array_equal(sweep.state[:, 0], bath.state)


@pytest.mark.parametrize("coupling", ["linear", "quadratic"])
def test_serial_updates_sample_the_boltzmann_distribution(coupling):
    rng = np.random.default_rng(2)
    W = rng.standard_normal((3, 2)) * 0.6
    cue = np.array([1, -1, 1], np.int8)
    start = rng.choice(np.array([-1, 1], np.int8), (8000, 2, 3))
    options = {"coupling": coupling, "repulsion": 0.5, "field": 0.2, "cue": cue}
    run = kernels.layered_step(start, W, serial=True, beta=0.8, updates=25, seed=3, **options)

    def energy(states):
        return conserved(states.reshape(-1, 2, 3), W, **options)

    assert reference.chance(run.state.reshape(-1, 6), energy, 0.5 * 0.8) > 0.01


@pytest.mark.parametrize("coupling", ["linear", "quadratic"])
def test_energy_never_rises_in_serial_updates_without_noise(coupling):
    rng = np.random.default_rng(3)
    W = rng.standard_normal((150, 8)) * 0.2
    state = rng.choice(np.array([-1, 1], np.int8), (10, 4, 150))
    cue = state[:, :1].copy()
    options = {"coupling": coupling, "repulsion": 0.3, "field": 0.2, "cue": cue}
    last = conserved(state, W, **options)
    for _ in range(6):
        run = kernels.layered_step(state, W, serial=True, beta=1.0, noise=0.0, **options)
        now = conserved(run.state, W, **options)
        assert (now <= last + 1e-3).all()
        assert ((now < last) == (run.changed > 0)).all()
        wanted = reference.layered_energy(run.state, W, coupling, 0.3, 0.2, cue)
        np.testing.assert_allclose(run.energy, wanted, rtol=1e-5)
        state, last = run.state, now


def test_same_result_for_any_number_of_threads_and_grouping(monkeypatch):
    rng = np.random.default_rng(4)
    state = rng.choice(np.array([-1, 1], np.int8), (11, 3, 600))
    W = np.linalg.qr(rng.standard_normal((600, 20)))[0]
    for serial in (False, True):
        function = partial(kernels.layered_step, serial=serial)
        options = {"beta": 3.0, "noise": np.linspace(1, 0.2, 6), "updates": 6, "seed": 1}
        monkeypatch.setenv("HOPFED_NUM_THREADS", "1")
        alone = function(state, W, **options)
        monkeypatch.setenv("HOPFED_NUM_THREADS", "3")
        for got, wanted in zip(function(state, W, **options), alone, strict=True):
            np.testing.assert_array_equal(got, wanted)
        for cut in (1, 2, 5):
            for got, wanted in zip(function(state[:cut], W, **options), alone, strict=True):
                np.testing.assert_array_equal(got, wanted[:cut])


def test_wrong_arguments():
    state, W, cue = system((3, 2, 20, 4), 8)
    for name, change in (
        ("state", {"state": state[0]}),
        ("state", {"state": state.astype(np.int16)}),
        ("state", {"state": state * 3}),
        ("W", {"W": W[:5]}),
        ("cue", {"field": 0.1}),
        ("cue", {"field": 0.1, "cue": cue[..., :7]}),
        ("cue", {"field": 0.1, "cue": cue[:2]}),
        ("cue", {"field": 0.1, "cue": cue.astype(float)}),
        ("cue", {"field": 0.1, "cue": cue[None]}),
        ("seed", {"seed": 2**64}),
    ):
        with pytest.raises(ArgumentError, match=f"^{name} must be"):
            kernels.layered_step(**{"state": state, "W": W, "beta": 1.0, **change})
