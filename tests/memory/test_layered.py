import numpy as np
import pytest
from helpers import sample

from hopfed.memory.layered import LayeredMemory


def projector_factor(xi):
    return np.linalg.qr(xi.T.astype(float))[0]


@pytest.mark.parametrize("order", ["synchronous", "serial"])
@pytest.mark.parametrize("coupling", ["linear", "quadratic"])
def test_layers_retrieve_from_a_noisy_cue(order, coupling):
    xi, cues = sample(5, 400, 12, 0.7, 0)
    memory = LayeredMemory(layers=3, repulsion=0.02, order=order, coupling=coupling, noise=(0.3, 0))
    out = memory.run(cues, projector_factor(xi), beta=4.0, updates=40, seed=1)
    assert out.shape == (36, 400)
    best = np.abs(out.astype(float) @ xi.T / 400).max(axis=1)
    assert (best > 0.99).mean() > 0.6


def test_single_serial_layer_is_the_heat_bath_of_the_search():
    xi, cues = sample(3, 200, 4, 0.8, 2)
    W = projector_factor(xi)
    fast = LayeredMemory(layers=1, order="serial")
    out = fast.run(cues, W, beta=8.0, updates=30, seed=3)
    assert (np.abs(out.astype(float) @ xi.T / 200).max(axis=1) > 0.95).all()
    # The general path draws from the same counters.
    general = fast.relax(cues, W, beta=8.0, updates=30, seed=3)
    np.testing.assert_array_equal(general.state[:, 0], out)
