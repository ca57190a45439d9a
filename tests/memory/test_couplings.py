"""Couplings of dependent and equal patterns, and of any dreaming time."""

import numpy as np
import pytest
from memory.oracle import corrupted, couplings, random_signs

from hopfed.memory.associative import AssociativeMemory
from hopfed.memory.rules import Dreamed, Hebb, Layered, Projector


def dense(memory):
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
    J, wanted = dense(AssociativeMemory.store(xi, rule)), couplings(xi, rule)
    np.testing.assert_allclose(J, wanted, rtol=0, atol=1e-10 * np.abs(J).max())


def test_any_dreaming_time_lies_between_hebb_and_the_projector():
    """Rows of a short dream fit single precision; a long one of equal patterns is the projector."""
    xi = random_signs((6, 81), 1)
    twice, cues = np.concatenate([xi, xi]), corrupted(xi, 0.2, 2)
    for t, limit in ((1e-90, Hebb()), (1e-310, Hebb()), (1e17, Projector()), (1e308, Projector())):
        found, wanted = (AssociativeMemory.store(twice, rule) for rule in (Dreamed(t), limit))
        np.testing.assert_allclose(dense(found), dense(wanted), atol=1e-12)
        np.testing.assert_array_equal(found.recall(cues).states, wanted.recall(cues).states)
