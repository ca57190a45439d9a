"""Layers of the associative memory: mixtures taken apart, any couplings, sites that are held."""

import numpy as np
import pytest
from memory.oracle import RING, corrupted, couplings, layers, random_signs

from hopfed.memory.associative import AssociativeMemory
from hopfed.memory.rules import Layered, Projector


def test_a_layered_memory_takes_a_mixture_apart():
    xi = random_signs((3, 400), 1)
    mixture = np.where(xi.sum(axis=0) > 0, 1, -1)[None].repeat(24, axis=0)
    memory = AssociativeMemory.store(xi, Layered())
    cooling = np.maximum(np.linspace(0.1, -0.01, 60), 0)
    found = memory.recall(mixture, temperature=cooling, updates=60, seed=3)
    assert found.states.shape == (24, 3, 400)
    assert found.overlaps.shape == (24, 3, 3)
    best = np.abs(found.overlaps).max(axis=1)  # of each pattern over the layers
    assert (best > 0.99).all(axis=1).mean() > 0.9
    J = couplings(xi, Projector())
    s = found.states.astype(float)
    q = np.einsum("sai,ij,sbj->sab", s, J, s)
    cross = (q**2).sum(axis=(1, 2)) - np.einsum("saa->s", q**2)
    wanted = -np.einsum("saa->s", q) + 0.45 / 400 * cross
    np.testing.assert_allclose(found.energy, wanted, rtol=1e-5)


@pytest.mark.parametrize("coupling", ["linear", "quadratic"])
@pytest.mark.parametrize("order", ["serial", "synchronous"])
def test_layers_of_any_couplings_equal_a_plain_loop_to_the_bit(order, coupling):
    xi = random_signs((5, 36), 1)
    cues = np.concatenate([corrupted(xi[:3], 0.25, 2), random_signs((3, 36), 3)])
    rule = Layered(3, coupling=coupling, g=RING)
    memory, J = AssociativeMemory.store(xi, rule), couplings(xi, Projector())
    seen = np.random.default_rng(4).random(cues.shape) < 0.3
    for held in (None, seen):
        start = cues
        if held is not None:
            filled = np.where(np.where(held, cues, 0) @ J >= 0, 1, -1)
            start = np.where(held, cues, filled)
        for updates in (1, 4):
            found = memory.recall(cues, observed=held, updates=updates, order=order)
            wanted = layers(start, J, np.array(RING), coupling, order, updates, held)
            np.testing.assert_array_equal(found.states, wanted)
