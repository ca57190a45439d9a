"""Synchronous steps of the dense and the exponential memory, against whole numbers of any size."""

import math

import numpy as np
import pytest

from hopfed.memory.dynamics import Schedule, overlapping
from hopfed.memory.rules import Dense, Exponential

RULES = {"power": Dense, "exponential": Exponential}
CASES = [*(("power", n) for n in (2, 3, 4, 6, 9)), ("exponential", 0.3), ("exponential", 2.0)]


def signs(shape, seed=0):
    return np.random.default_rng(seed).choice(np.array([-1, 1], np.int8), shape)


def at_once(state, xi, rule, updates, held=None):
    times = Schedule.of(0.0, updates, 0)
    return overlapping(state, xi, np.ones(len(xi)), rule, times, "synchronous", held)


@pytest.mark.parametrize(("energy", "parameter"), CASES)
@pytest.mark.parametrize("size", [(1, 1, 1), (5, 40, 7), (40, 101, 300)])
def test_a_synchronous_step_is_the_sign_of_the_field_in_whole_numbers(energy, parameter, size):
    S, N, K = size
    state, xi = signs((S, N)), signs((K, N), 1)
    found, _, _ = at_once(state, xi, RULES[energy](parameter), 1)
    for s, new in zip(state.astype(int), found, strict=True):
        a = xi.astype(int) @ s
        if energy == "power":
            c = (a[:, None] - xi * s).astype(object)  # whole numbers of any size
            h = ((c + xi) ** parameter - (c - xi) ** parameter).sum(axis=0)
        else:
            terms = np.exp(parameter * (a - a.max()))[:, None] * xi
            h = np.array([math.fsum(column) for column in terms.T])
        np.testing.assert_array_equal(new, np.where(h == 0, s, np.where(h > 0, 1, -1)))


def test_synchronous_updates_stop_where_a_state_stays_and_hold_sites():
    state, xi = signs((30, 60)), signs((20, 60), 1)
    held = signs((30, 60), 7) > 0
    found, used, settled = at_once(state, xi, Dense(3), 50, held)
    now = state
    for update in range(1, 51):
        new = at_once(now, xi, Dense(3), 1, held)[0]
        np.testing.assert_array_equal(new[held], state[held])
        moved = (new != now).any(axis=1)
        np.testing.assert_array_equal(used[moved] > update, update < 50)
        now = new
    np.testing.assert_array_equal(found, now)
    assert settled.mean() > 0.5
