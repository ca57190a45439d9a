import kernel_oracle as reference
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopfed import kernels
from hopfed.errors import ArgumentError

seeds = st.integers(0, 2**32 - 1)
sizes = st.tuples(st.integers(1, 12), st.integers(1, 90), st.integers(0, 40))


def system(size, seed):
    """Chains and a factor with entries k / 32: its fields are exact in float32 too."""
    rng = np.random.default_rng(seed)
    S, N, R = size
    return rng.choice(np.array([-1, 1], np.int8), (S, N)), rng.integers(-8, 9, (N, R)) / 32


def energy(state, W):
    s = state.astype(float)
    return -0.5 * np.einsum("si,ij,sj->s", s, reference.couplings(W), s)


@given(sizes, seeds)
def test_trajectories_equal_the_reference(size, seed):
    state, W = system(size, seed)
    before = state.copy()
    options = {"sweeps": 5, "seed": seed, "first_sweep": 7}
    run = kernels.heat_bath(state, W, beta=1.5, **options)
    np.testing.assert_array_equal(run.state, reference.heat_bath(state, W, beta=1.5, **options))
    np.testing.assert_array_equal(run.sweeps, 5)
    np.testing.assert_array_equal(state, before)


def test_annealing_and_one_temperature_per_chain():
    state, W = system((5, 60, 9), 1)
    for beta in (np.linspace(0.5, 4, 8), np.linspace(0.5, 4, 5)[:, None], np.ones((5, 8)), 0.0):
        run = kernels.heat_bath(state, W, beta=beta, sweeps=8, seed=4)
        wanted = reference.heat_bath(state, W, beta=np.asarray(beta), sweeps=8, seed=4)
        np.testing.assert_array_equal(run.state, wanted)


def test_same_result_for_any_number_of_threads_and_grouping(monkeypatch):
    state, W = system((37, 250, 30), 0)
    W = np.linalg.qr(W)[0]
    options = {"beta": 3.0, "sweeps": 70, "seed": 9, "stop_score": 0.72}
    monkeypatch.setenv("HOPFED_NUM_THREADS", "1")
    alone = kernels.heat_bath(state, W, **options)
    assert len(set(alone.sweeps)) > 1  # the early stop does something here
    for threads in ("2", "5"):
        monkeypatch.setenv("HOPFED_NUM_THREADS", threads)
        for got, wanted in zip(kernels.heat_bath(state, W, **options), alone, strict=True):
            np.testing.assert_array_equal(got, wanted)
    for cut in (1, 3, 18):
        part = kernels.heat_bath(state[:cut], W, **options)
        for got, wanted in zip(part, alone, strict=True):
            np.testing.assert_array_equal(got, wanted[:cut])


def test_the_boltzmann_distribution_is_reached():
    rng = np.random.default_rng(3)
    W = rng.standard_normal((5, 2)) * 0.5
    start = rng.choice(np.array([-1, 1], np.int8), (40000, 5))
    final = kernels.heat_bath(start, W, beta=0.9, sweeps=25, seed=11).state
    assert reference.chance(final, lambda states: energy(states, W), 0.9) > 0.01


def test_early_stop_and_score_weights():
    rng = np.random.default_rng(4)
    xi = rng.choice(np.array([-1, 1], np.int8), (3, 500))
    W = xi.T / np.sqrt(500)
    start = np.where(rng.random((6, 500)) < 0.85, xi[[0, 1, 2, 0, 1, 2]], 1).astype(np.int8)
    options = {"beta": 4.0, "sweeps": 50, "seed": 6, "stop_score": 0.9}
    run = kernels.heat_bath(start, W, **options)
    assert (run.sweeps < 50).all()
    assert (run.sweeps % 4 == 0).all()
    scores = [reference.scores(s[None], W)[0] for s in run.state]
    assert min(scores) > 0.85
    weights = np.array([1.0, 0.0, 0.0])
    run = kernels.heat_bath(start, W, **options, score_weights=weights)
    assert (run.sweeps[[0, 3]] < 50).all()
    assert (run.sweeps[[1, 2, 4, 5]] == 50).all()


@given(sizes, seeds)
def test_descent_equals_the_reference_and_settles(size, seed):
    state, W = system(size, seed)
    down = kernels.descend(state, W)
    np.testing.assert_array_equal(down.state, reference.descend(state, W))
    assert down.settled.all()
    assert (energy(down.state, W) <= energy(state, W) + 1e-9).all()
    again = kernels.descend(down.state, W)
    np.testing.assert_array_equal(again.state, down.state)
    np.testing.assert_array_equal(again.sweeps, 1)


@pytest.mark.parametrize("R", [0, 1])
def test_degenerate_sizes(R):
    W = np.zeros((1, R))
    state = np.array([[-1], [1]], np.int8)
    assert kernels.descend(state, W).state.tolist() == [[-1], [1]]  # a field of 0 leaves the spin
    assert kernels.heat_bath(state, W, beta=1.0, sweeps=3, seed=0).state.shape == (2, 1)
    none = kernels.heat_bath(state[:0], W, beta=1.0, sweeps=3, seed=0)
    assert none.state.shape == (0, 1)
    idle = kernels.heat_bath(state, W, beta=1.0, sweeps=0, seed=0)
    np.testing.assert_array_equal(idle.state, state)
    assert idle.sweeps.tolist() == [0, 0]
    assert not kernels.descend(state, W, max_sweeps=0).settled.any()


def test_wrong_arguments():
    state, W = system((3, 20, 4), 10)
    good = {"beta": 1.0, "sweeps": 5, "seed": 0}
    for name, change in (
        ("state", {"state": state.astype(float)}),
        ("state", {"state": state[0]}),
        ("state", {"state": state * 0}),
        ("state", {"state": state[:, :0], "W": W[:0]}),
        ("W", {"W": W[:-1]}),
        ("W", {"W": W * np.nan}),
        ("W", {"W": W * 1e60}),
        ("W", {"W": W.astype(complex)}),
        ("seed", {"seed": -1}),
    ):
        arguments = {"state": state, "W": W, **good, **change}
        with pytest.raises(ArgumentError, match=f"^{name} must be"):
            kernels.heat_bath(**arguments)


def test_held_sites_keep_their_spins_and_the_others_feel_them():
    state, W = system((11, 70, 6), 5)
    held = np.random.default_rng(5).random((11, 70)) < 0.4
    found = kernels.descend(state, W, held=held)
    np.testing.assert_array_equal(found.state, reference.descend(state, W, ~held))
    assert found.settled.all()
    hot = kernels.heat_bath(state, W, beta=0.1, sweeps=9, seed=1, held=held).state
    np.testing.assert_array_equal(hot[held], state[held])
    assert (hot[~held] != state[~held]).any()
    free = kernels.heat_bath(state, W, beta=0.1, sweeps=9, seed=1).state
    none = kernels.heat_bath(state, W, beta=0.1, sweeps=9, seed=1, held=np.zeros(70, bool)).state
    np.testing.assert_array_equal(none, free)
