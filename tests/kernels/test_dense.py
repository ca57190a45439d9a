"""Serial sweeps of the dense and the exponential memory against plain NumPy."""

import kernel_oracle as reference
import numpy as np
import pytest
from emulator.device import HostArray
from kernel_oracle import signs

from hopfed import kernels
from hopfed.errors import BackendError

CASES = [("power", 2), ("power", 3), ("power", 4), ("exponential", 0.3), ("exponential", 2.0)]


@pytest.mark.parametrize(("energy", "parameter"), CASES)
@pytest.mark.parametrize("size", [(1, 1, 1), (3, 40, 7), (4, 61, 90)])
def test_descent_equals_the_reference(energy, parameter, size):
    S, N, K = size
    state, xi = signs((S, N)), signs((K, N), 1)
    found = kernels.dense_sweep(state, xi, energy=energy, parameter=parameter)
    np.testing.assert_array_equal(found.state, reference.dense_sweep(state, xi, energy, parameter))
    assert found.settled.all()


def test_power_two_is_the_quadratic_energy():
    state, xi = signs((6, 90)), signs((9, 90), 1)
    found = kernels.dense_sweep(state, xi, parameter=2)
    np.testing.assert_array_equal(found.state, kernels.descend(state, xi.T).state)
    # E = -(N / 2) sum_mu (a_mu / N)^2: the couplings of Hebb's rule, at the same temperature.
    options = {"beta": 2.0, "sweeps": 6, "seed": 4}
    hot = kernels.dense_sweep(state, xi, parameter=2, **options).state
    other = kernels.heat_bath(state, xi.T / 90**0.5, **options).state
    assert (hot == other).all(axis=1).mean() >= 0.8  # a draw may fall between two roundings


@pytest.mark.parametrize(("energy", "parameter"), [("power", 3), ("exponential", 0.5)])
def test_the_boltzmann_distribution_is_reached(energy, parameter):
    xi = signs((3, 4), 2)
    options = {"energy": energy, "parameter": parameter, "beta": 0.8, "sweeps": 25, "seed": 3}
    run = kernels.dense_sweep(np.ones((5_000, 4), np.int8), xi, **options)

    def of_states(states):
        a = states @ xi.T
        if energy == "power":
            return -(4 / parameter) * ((a / 4) ** parameter).sum(axis=1)
        return -np.log(np.exp(parameter * a).sum(axis=1)) / parameter

    assert reference.chance(run.state, of_states, 0.8) > 0.01


def test_draws_do_not_depend_on_the_grouping_and_held_sites_stay():
    state, xi = signs((5, 50)), signs((20, 50), 1)
    options = {"parameter": 3, "beta": 0.5, "sweeps": 4, "seed": 9}
    whole = kernels.dense_sweep(state, xi, **options).state
    part = kernels.dense_sweep(state[:2], xi, **options).state
    np.testing.assert_array_equal(part, whole[:2])
    held = signs((5, 50), 7) > 0
    run = kernels.dense_sweep(state, xi, held=held, **options)
    np.testing.assert_array_equal(run.state[held], state[held])
    assert (run.state[~held] != state[~held]).any()
    assert not run.settled.any()


def test_a_device_is_refused():
    with pytest.raises(BackendError, match="CPU only"):
        kernels.dense_sweep(HostArray(signs((2, 8)), None), signs((3, 8)), parameter=3)
