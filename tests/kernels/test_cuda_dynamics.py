"""Heat bath and layered memory on a device, against the CPU and the reference.

The draws are the same; fields are rounded differently. Where they are exact in float32 (entries of
W are multiples of 1 / 32) trajectories are equal. Elsewhere a draw falls between two roundings with
probability about eps sqrt(R) beta |W_i| |a| a visit, eps = 6e-8, and one such spin may turn a whole
chain: the tests below allow one chain in ten to depart, and expect none.

Every test runs on the emulated device, where there is a C++ compiler, and on a GPU (`-m gpu`).
"""

import kernel_oracle as reference
import numpy as np
import pytest
from emulator.device import Emulated
from kernel_oracle import signs

from hopfed import kernels
from hopfed.errors import ArgumentError, BackendError
from hopfed.kernels.cuda import layered

SIZES = [(1, 1, 0), (2, 65, 1), (5, 31, 4), (21, 70, 85)]


def exact_factor(n, r, seed=0):
    return np.random.default_rng(seed).integers(-8, 9, (n, r)) / 32


def assert_same(got, wanted, fields=None):
    """Equal integers and close reals, field by field, of equal dtype and shape."""
    for name in fields or wanted._fields:
        x, y = getattr(got, name), getattr(wanted, name)
        assert (x.dtype, x.shape) == (y.dtype, y.shape), name
        if y.dtype.kind == "f":
            np.testing.assert_allclose(x.get(), y, rtol=1e-5, atol=1e-5, err_msg=name)
        else:
            np.testing.assert_array_equal(x.get(), y, err_msg=name)


@pytest.mark.parametrize("size", SIZES)
def test_heat_bath_and_descent(device, size):
    S, N, R = size
    state, W = signs((S, N)), exact_factor(N, R)
    x, w = device.xp.asarray(state), device.xp.asarray(W)
    options = {"seed": 2**40 + 3, "first_sweep": 7, "sweeps": 9}
    for beta in (1.5, np.linspace(0.5, 4, 9), np.linspace(0.5, 4, S)[:, None]):
        run = kernels.heat_bath(x, w, beta=beta, **options)
        assert_same(run, kernels.heat_bath(state, W, beta=beta, **options))
    np.testing.assert_array_equal(
        run.state.get(), reference.heat_bath(state, W, beta=beta, **options)
    )
    assert_same(kernels.descend(x, w), kernels.descend(state, W))
    np.testing.assert_array_equal(x.get(), state)  # not changed
    for none in (kernels.heat_bath(x, w, beta=1, sweeps=0, seed=0), kernels.descend(x, w, 0)):
        np.testing.assert_array_equal(none.state.get(), state)
        assert (none.sweeps.get() == 0).all()


def test_heat_bath_with_rounded_fields_stops_early_and_refreshes(device):
    W = np.linalg.qr(np.random.default_rng(1).standard_normal((150, 20)))[0]
    state = signs((10, 150))
    options = {"beta": 3.0, "sweeps": 66, "seed": 9}
    x, w = device.xp.asarray(state), device.xp.asarray(W)
    for stop, weights in ((0.72, None), (None, np.arange(20.0))):
        more = {"stop_score": stop, "score_weights": weights}
        run = kernels.heat_bath(x, w, **options, **more)
        wanted = kernels.heat_bath(state, W, **options, **more)
        same = (run.state.get() == wanted.state).all(axis=1)
        assert same.sum() >= 9
        np.testing.assert_array_equal(run.sweeps.get()[same], wanted.sweeps[same])
    part = kernels.heat_bath(x[:8], w, **options, **more)
    np.testing.assert_array_equal(part.state.get(), run.state.get()[:8])


OPTIONS = [
    {},
    {"coupling": "linear", "repulsion": 0.1, "self_field": True},
    {"field": 0.25, "noise": [0.5, 0.3, 0.2, 0, 0, 0, 0, 0, 0], "repulsion": 0.0},
    {"field": 0.25, "noise": 0.0, "coupling": "linear", "beta": [1, 1, 1, 2, 2, 2, 3, 3, 0]},
]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("piece", [layered.PIECE_BYTES, 4000])
def test_layered_memory(device, monkeypatch, options, piece):
    monkeypatch.setattr(layered, "PIECE_BYTES", piece)  # whole layers, or pieces of 32 sites
    for S, L, N, R in ((1, 1, 1, 0), (3, 2, 40, 5), (2, 3, 100, 33), (0, 2, 5, 1)):
        state, W = signs((S, L, N)), exact_factor(N, R)
        more = {"beta": 1.5, "updates": 9, "seed": 2**40 + 3, "first_update": 7, **options}
        x, w = device.xp.asarray(state), device.xp.asarray(W)
        cue = (signs(N, 2), signs((L, N), 3), signs((S, 1, N), 4))[S % 3]
        for serial in (False, True):
            given = (device.xp.asarray(cue), cue) if "field" in options else (None, None)
            run = kernels.layered_step(x, w, cue=given[0], serial=serial, **more)
            wanted = kernels.layered_step(state, W, cue=given[1], serial=serial, **more)
            assert_same(run, wanted, ("state", "energy", "changed"))
            assert (run.updates.get() <= wanted.updates).all()
            np.testing.assert_array_equal(x.get(), state)  # not changed


def test_wrong_arguments_name_themselves(device):
    xp = device.xp
    state, W = xp.asarray(signs((2, 30))), xp.asarray(exact_factor(30, 4))
    layers, bad = xp.asarray(signs((2, 3, 30))), W.copy()
    bad[3, 1] = np.nan
    for got, rule in (
        ((state.astype(np.int16), W), "state must be int8"),
        ((state * np.int8(0), W), "state must be all"),
        ((state, W[1:]), "W must be a real array"),
        ((state, bad), "W must be finite"),
        ((state, W.get().view(np.ndarray)), "W must be a CuPy array"),
        ((state.get(), W), "W must be on the host"),
    ):
        with pytest.raises(ArgumentError, match=rule):
            kernels.heat_bath(*got, beta=1.0, sweeps=2, seed=0)
    cue = xp.asarray(signs((3, 3, 30)))
    with pytest.raises(ArgumentError, match="cue must be"):
        kernels.layered_step(layers, W, beta=1.0, field=0.1, cue=cue)


def test_a_rank_beyond_the_shared_memory_is_refused():
    one = Emulated()
    state, W = one.xp.asarray(signs((1, 32))), one.xp.zeros((32, 1 << 16), np.float32)
    with pytest.raises(BackendError, match="a rank of 65536 does not fit"):
        kernels.heat_bath(state, W, beta=1.0, sweeps=1, seed=0)


def test_devices_may_not_mix():
    one, other = Emulated(0), Emulated(1)
    state = one.xp.asarray(signs((2, 30)))
    with pytest.raises(ArgumentError, match="W must be on device 0"):
        kernels.descend(state, other.xp.zeros((30, 2)))


def test_held_sites_are_held_on_a_device(device):
    state, W = signs((5, 70), 3), exact_factor(70, 6, 4)
    held = np.random.default_rng(5).random((5, 70)) < 0.4
    x, w = device.xp.asarray(state), device.xp.asarray(W)
    assert_same(kernels.descend(x, w, held=held), kernels.descend(state, W, held=held))
    options = {"beta": 0.5, "sweeps": 7, "seed": 3, "held": device.xp.asarray(held)}
    run = kernels.heat_bath(x, w, **options)
    assert_same(run, kernels.heat_bath(state, W, **(options | {"held": held})))
