"""Operators, eigenpairs and the shuffle null where the examples are on a device, against the host.

The emulated device refuses every call of NumPy on its arrays, so these tests fail where the data
leave it unawares. Every test runs there, where there is a C++ compiler, and on a GPU (`-m gpu`).
"""

import numpy as np
import pytest
from emulator.device import Emulated
from helpers import sample
from kernel_oracle import signs

from hopfed import kernels
from hopfed._lib.arrays import like, to_host
from hopfed.errors import ArgumentError, BackendError
from hopfed.kernels.dispatch import on_device
from hopfed.spectral import eigenpairs as spectrum
from hopfed.spectral.eigenpairs import eigenpairs
from hopfed.spectral.operators import DenseOperator, FactorOperator, PooledOperator, pool

FORMS = {
    "factor": FactorOperator.from_examples,
    "dense": DenseOperator.from_examples,
    "three owners": lambda x: pool([FactorOperator.from_examples(part) for part in thirds(x)]),
    "equal weights": lambda x: equal([FactorOperator.from_examples(part) for part in thirds(x)]),
    "at their owners": lambda x: PooledOperator.over(
        [pool([FactorOperator.from_examples(part)], [2.0]) for part in thirds(x)]
    ),
}


def equal(operators):
    return pool(operators, [1.0 / op.mass for op in operators])


def thirds(x):
    cut = x.shape[0] // 3
    return [x[:cut], x[cut : 2 * cut], x[2 * cut :]]


def alike(V, W):
    """Whether two orthonormal bases span the same space."""
    return np.linalg.svd(V.T @ W)[1].min(initial=1.0) > 1 - 1e-6


@pytest.mark.parametrize("form", FORMS)
def test_operators_stay_where_the_examples_are(device, form):
    x = signs((37, 70))
    here, there = FORMS[form](x), FORMS[form](device.xp.asarray(x))
    assert (there.n_sites, there.mass, there.sum_sq_weights) == (
        here.n_sites,
        here.mass,
        here.sum_sq_weights,
    )
    if not isinstance(here, PooledOperator):  # which knows no diagonal
        assert there.trace == pytest.approx(here.trace)
    for dtype, tolerance in ((np.float64, 1e-12), (np.float32, 1e-4)):
        X = np.random.default_rng(1).standard_normal((70, 3)).astype(dtype)
        got = there.matmat(device.xp.asarray(X))
        assert on_device(got)
        np.testing.assert_allclose(got.get(), here.matmat(X), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("shape", [(40, 110), (110, 40), (3, 1)])
@pytest.mark.parametrize("route", ["auto", "gram", "dense", "krylov"])
def test_every_route_sees_the_spectrum_of_the_host(device, shape, route):
    x, count = sample(3, shape[1], shape[0], 0.9, 1)[1], min(3, *shape)
    options = {"route": route, "width": 16, "tol": 1e-4}
    here = eigenpairs(FactorOperator.from_examples(x), count, **options)
    there = eigenpairs(FactorOperator.from_examples(device.xp.asarray(x)), count, **options)
    assert on_device(there.vectors)
    assert type(there.values) is np.ndarray
    assert on_device(there.residuals) or there.route == "krylov"
    assert (there.route, there.status) == (here.route, here.status)
    # An iteration that looks at every product may end just before the basis is all of the space.
    assert there.complete == here.complete or there.route == "krylov"
    size = min(len(here.values), len(there.values))
    tolerance = 1e-4 if there.route == "krylov" else 1e-9
    top = slice(0, count if there.route == "krylov" else size)
    np.testing.assert_allclose(there.values[top], here.values[top], rtol=tolerance, atol=tolerance)
    V = there.vectors.get()
    assert V.shape == here.vectors.shape
    np.testing.assert_allclose(V.T @ V, np.eye(V.shape[1]), atol=10 * tolerance)
    assert alike(V, here.vectors)


def test_out_of_memory_is_one_clear_line(device, monkeypatch):
    x = device.xp.asarray(signs((8, 9)))
    op = FactorOperator.from_examples(x)

    def scarce(*_):
        raise MemoryError  # as CuPy's error is

    monkeypatch.setattr(spectrum, "all_pairs", scarce)
    with pytest.raises(BackendError, match="out of device memory in the gram route: use route="):
        eigenpairs(op, 1)
    monkeypatch.setattr(spectrum, "leading_pairs", scarce)
    with pytest.raises(BackendError, match="out of device memory in the krylov route"):
        eigenpairs(op, 1, route="krylov")
    monkeypatch.setattr("hopfed.kernels.cuda.bits.unpack_into", scarce)
    with pytest.raises(BackendError, match="out of device memory in unpack"):
        kernels.unpack(op.rows)


def test_owners_on_both_sides_do_not_mix(device):
    x = signs((12, 20))
    here = FactorOperator.from_examples(x)
    there = FactorOperator.from_examples(device.xp.asarray(x))
    for pair in ((here, there), (there, here)):
        with pytest.raises(ArgumentError):
            eigenpairs(pool(pair), 1)
        with pytest.raises(ArgumentError):
            eigenpairs(PooledOperator.over(pair), 1)
    with pytest.raises(ArgumentError, match="X must be on the host"):
        here.matmat(device.xp.ones((20, 1)))
    assert to_host(like(x, there.home)).tolist() == x.tolist()


def test_the_emulated_device_refuses_what_a_device_would():
    one, other = Emulated(0), Emulated(1)
    x = one.xp.asarray(np.ones((2, 3)))
    for call in (
        lambda: np.asarray(x),
        lambda: np.concatenate([x, x]),
        lambda: np.sqrt(x),
        lambda: np.linalg.norm(x),
        lambda: x + np.ones(3),
        lambda: np.ones(3) + x,
        lambda: x.__setitem__(0, np.ones(3)),
        lambda: one.xp.maximum(x, np.ones(3)),
        lambda: x + other.xp.ones(3),
    ):
        with pytest.raises(TypeError):
            call()
    assert float(np.float64(2) * x[0, 0] + x.sum()) == 8.0  # numbers are welcome
    assert x[np.array([1, 0])].shape == (2, 3)  # and indices from either side


def test_an_iteration_on_a_device_copies_only_what_is_small(device):
    """A look at several products costs one copy; none is longer than the basis is wide."""
    if device.name != "emulated device":
        pytest.skip("copies are counted on the emulated device")
    op = FactorOperator.from_examples(device.xp.asarray(sample(3, 500, 90, 0.8, 5)[1]))
    with device.counted() as copies:
        found = eigenpairs(op, 3, route="krylov", width=8)
    assert found.status == "converged"
    # Up: numbers to start with, and the vectors; down: what images have in the basis.
    assert copies["down"] <= found.products - 2
    assert copies["up"] == 2
