import numpy as np
import pytest
from helpers import sample

from hopfed.errors import ArgumentError
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


def test_serial_updates_without_noise_never_raise_the_energy():
    xi, cues = sample(6, 150, 8, 0.3, 4)
    W = projector_factor(xi)
    energies = []
    for updates in (1, 2, 3, 5, 8):
        memory = LayeredMemory(layers=1, order="serial", noise=(0.0, 0.0))
        energies.append(memory.relax(cues, W, beta=1.0, updates=updates, seed=5).energy)
    assert (np.diff(np.array(energies), axis=0) <= 1e-4).all()


def test_repulsion_drives_layers_apart():
    xi, _ = sample(3, 300, 1, 1.0, 6)
    mixture = np.sign(xi.sum(axis=0, keepdims=True)).astype(np.int8)
    kinds = []
    for repulsion in (0.0, 0.45):
        memory = LayeredMemory(layers=3, repulsion=repulsion, coupling="linear", noise=(0.6, 0))
        out = memory.run(
            np.repeat(mixture, 20, axis=0), projector_factor(xi), beta=3.0, updates=60, seed=7
        )
        winners = np.abs(out.astype(float) @ xi.T).argmax(axis=1).reshape(20, 3)
        kinds.append(np.mean([len(set(w)) for w in winners]))
    assert kinds[1] > kinds[0]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"layers": 0}, "layers must be at least 1"),
        ({"layers": 3, "repulsion": 0.5}, "repulsion must be in"),
        ({"order": "random"}, "order must be one of"),
        ({"coupling": "cubic"}, "coupling must be one of"),
        ({"warm_up": 0.0}, "warm_up must be in"),
        ({"noise": (-1.0, 0.0)}, "at least 0"),
    ],
)
def test_bad_settings(bad, message):
    with pytest.raises(ArgumentError, match=message):
        LayeredMemory(**bad)
