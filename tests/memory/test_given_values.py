"""What numbers mean that are given to a memory: bits, signs, gaps, and what is refused."""

import numpy as np
import pytest
from memory.oracle import corrupted, random_signs

from hopfed.errors import ArgumentError
from hopfed.memory.associative import AssociativeMemory
from hopfed.memory.rules import Dense, Dreamed, Exponential, Hebb, Layered, Projector

RULES = [Hebb(), Projector(), Dreamed(2.0), Layered(2, 0.2), Dense(3), Exponential(0.5)]


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int64, np.float64, np.bool_])
def test_bits_are_signs_in_patterns_and_cues(kind):
    """0/1 patterns became graded ones with means of 0 and 1, and 0/1 cues half gaps."""
    xi = random_signs((5, 100), 1)
    cues = corrupted(xi, 0.1, 2)
    bits, asked = ((x > 0).astype(kind) for x in (xi, cues))
    memory = AssociativeMemory.store(bits)
    assert not memory.is_graded
    np.testing.assert_array_equal(memory.patterns, xi)

    np.testing.assert_array_equal(memory.recall(asked).states, memory.recall(cues).states)


def test_zeros_are_gaps_among_signs_and_nan_everywhere():
    xi = random_signs((3, 60), 1)
    memory = AssociativeMemory.store(xi, "projector")
    gaps = np.arange(60) % 3 == 0
    wanted = memory.recall(xi, observed=~gaps).states
    marked = np.where(gaps, np.nan, xi)
    for cues in (np.where(gaps, 0, xi), marked, np.where(marked < 0, 0, marked)):
        np.testing.assert_array_equal(memory.recall(cues).states, wanted)
    ones = np.where((xi[:1] > 0) & ~gaps, 1, 0)  # no -1 in it: the mask says what was observed
    found = memory.recall(ones, observed=ones != 0).states
    np.testing.assert_array_equal(found, memory.recall(np.where(ones == 1, 1, np.nan)).states)
    nothing = memory.recall(np.full(60, np.nan)).states
    np.testing.assert_array_equal(memory.recall(np.zeros(60)).states, nothing)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_state_has_the_energy_of_its_spins(rule):
    """Numbers that are no spins had one too, and a state of one axis had none."""
    xi = random_signs((3, 8), 1)
    memory = AssociativeMemory.store(xi, rule)
    wanted = memory.energy(xi)
    for states in (xi > 0, (xi > 0).astype(int), xi.tolist(), xi.astype(float)):
        np.testing.assert_array_equal(memory.energy(states), wanted)
    np.testing.assert_allclose(memory.energy(xi[0]), wanted[:1], rtol=1e-5)
    for bad in (np.zeros((1, 8)), 3 * xi, np.full((1, 8), np.nan), np.where(xi > 0, 0, xi), xi / 2):
        with pytest.raises(ArgumentError, match="states must be"):
            memory.energy(bad)
    found = memory.recall(xi)
    np.testing.assert_allclose(memory.energy(found.states), found.energy, rtol=1e-5)


def test_large_weights_have_finite_energies():
    xi = random_signs((20, 200), 1)
    for rule in RULES:
        memory = AssociativeMemory.store(xi, rule, weights=[1e20] * 20)
        assert np.isfinite(memory.energy(xi)).all()
        assert (memory.recall(xi).overlaps.max(axis=-1) > 0.9).all()
