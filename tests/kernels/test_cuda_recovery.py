"""`recover` on examples that are on a device finds what it finds on the host.

Only eigenvalues, K vectors and K x K sums may come to the host: the emulated device refuses every
call of NumPy on its arrays, and what is fetched is counted. Every test runs there, where there is a
C++ compiler, and on a GPU (`-m gpu`).
"""

import numpy as np
import pytest
from emulator.device import HostArray
from helpers import rest_slow, sample

from hopfed import kernels, recover
from hopfed.archetypes.annealed_search import Search, search_candidates
from hopfed.archetypes.factorize import factorize
from hopfed.archetypes.subspace import Subspace
from hopfed.errors import DataError
from hopfed.hopfield.plasticity import sign_agreement
from hopfed.kernels.cuda import products
from hopfed.recovery.recover import run_recovery
from hopfed.spectral.eigenpairs import eigenpairs
from hopfed.spectral.noise import Sample
from hopfed.spectral.operators import FactorOperator
from hopfed.spectral.rank import TracyWidom

SHAPES = {"fewer examples": (3, 200, 150), "fewer sites": (3, 90, 400)}


def same(here, there):
    """The same archetypes, in the same order, with the same numbers beside them."""
    assert (there.status, there.n_detected) == (here.status, here.n_detected)
    np.testing.assert_array_equal(there.patterns, here.patterns)
    for name in ("scores", "predicted_scores", "exposures"):
        got = getattr(there, name)
        assert type(got) is np.ndarray
        np.testing.assert_allclose(got, getattr(here, name), rtol=1e-4)
    # An iteration starts elsewhere on a device: its values differ by the square of its tolerance.
    assert there.quality == pytest.approx(here.quality, rel=1e-5)
    assert there.explained == pytest.approx(here.explained, abs=1e-4)


@pytest.mark.parametrize(
    ("shape", "method"),
    rest_slow(
        [("fewer sites", "auto"), ("fewer examples", "layered"), ("fewer examples", "auto")], 2
    ),
)
def test_one_owner(device, shape, method):
    xi, x = sample(*SHAPES[shape], 0.9, 1)
    here = recover(x, seed=1, method=method)
    there = recover(device.xp.asarray(x), seed=1, method=method)
    same(here, there)
    assert here.status == "ok"
    assert len(np.unique(abs(there.patterns @ xi.T).argmax(axis=1))) == 3


@pytest.mark.parametrize(("shape", "kind"), [("fewer examples", "0/1"), ("fewer sites", "packed")])
def test_whatever_way_the_examples_are_held(device, shape, kind):
    x = sample(*SHAPES[shape], 0.9, 2)[1]
    here = recover(x, seed=0)
    given = device.xp.asarray(x)
    if kind == "packed":
        given = kernels.pack(given)
    elif kind != "int8":
        given = given > 0
        given = given if kind == "boolean" else given.astype(np.uint8)
    same(here, recover(given, seed=0))


@pytest.mark.parametrize(
    "sites", rest_slow([120, 1100], 1)
)  # sums of products, and the krylov route
def test_several_owners(device, sites):
    x = sample(4, sites, 360, 0.9, 3)[1]
    parts = [x[:100], x[100:220], x[220:]]
    here = run_recovery(parts, seed=2, refit=True)
    there = run_recovery([device.xp.asarray(part) for part in parts], seed=2, refit=True)
    same(here.archetypes, there.archetypes)
    assert there.exchanges == here.exchanges
    for name, counted in vars(here.traffic).items():
        np.testing.assert_array_equal(vars(there.traffic)[name], counted)
    k = here.archetypes.n_detected
    np.testing.assert_allclose(there.eigenvalues[:k], here.eigenvalues[:k], rtol=1e-4)
    np.testing.assert_array_equal(there.constant_columns, here.constant_columns)


def test_scores_are_made_on_the_device_and_come_back(device):
    x = sample(3, 150, 200, 0.9, 7)[1]
    spaces = []
    for rows in (x, device.xp.asarray(x)):
        spectrum = eigenpairs(FactorOperator.from_examples(rows), 3)
        rank = TracyWidom()(Sample(spectrum.values, 150, 200))
        spaces.append(Subspace.of(spectrum, rank))
        assert factorize(spectrum, rank, method="layered", seed=0).status == "ok"
    here, there = spaces
    patterns = np.random.default_rng(1).choice(np.array([-1, 1], np.int8), (9, 150))
    np.testing.assert_array_equal(there.polish(patterns), here.polish(patterns))
    for name in ("scores", "whitened"):
        got, want = (abs(getattr(space, name)(patterns)) for space in (there, here))
        assert type(got) is np.ndarray
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_only_small_things_come_to_the_host(device, monkeypatch):
    if device.name != "emulated device":
        pytest.skip("copies are counted on the emulated device")
    x = sample(3, 1300, 900, 0.9, 8)[1]
    there, fetched = device.xp.asarray(x), []
    get = HostArray.get

    def counted(self):
        fetched.append(self.size)
        return get(self)

    monkeypatch.setattr(HostArray, "get", counted)
    assert recover(there, seed=0).status == "ok"
    # V and sums of candidates are N x K; eigenvalues M; candidates come and go, 64 at a time.
    assert max(fetched) <= 64 * 1300 < x.size / 10


def copies_of(device, work):
    """Copies up and down that `work` makes, and what it gives."""
    with device.counted() as copies:
        found = work()
    return dict(copies), found


def measured(device, x):
    """Rows on a device of which it is known which ways are fastest: that is measured once."""
    x = device.xp.asarray(x)
    kernels.gram(kernels.pack(x))
    for k in products.WIDTHS:
        kernels.matmat(kernels.pack(x), device.xp.zeros((x.shape[1], k), np.float32))
    return x


@pytest.fixture
def emulated(device):
    if device.name != "emulated device":
        pytest.skip("copies are counted on the emulated device")
    return device


@pytest.mark.parametrize("shape", rest_slow(SHAPES, 1))
def test_a_recovery_makes_thirteen_copies(emulated, shape):
    """None is in a loop over groups, sweeps or patterns.

    Down: what packing saw (bad values are refused), three for columns that determine each other
    (sums and numbers of the entries, marks of the rows, sums over pairs), sums of columns,
    eigenvalues (which are counted), residuals (which give a status), sums of groups (which are
    diagonalised), patterns at rest with their coefficients, what the rows say of them. Up: the deal
    of the groups, the common eigenbasis, and the patterns that the rows are asked about.
    """
    x = measured(emulated, sample(*SHAPES[shape], 0.9, 1)[1])
    few, found = copies_of(emulated, lambda: recover(x, seed=1, groups=5))
    many, _ = copies_of(emulated, lambda: recover(x, seed=1, groups=40))
    rows = emulated.xp.asarray(sample(6, 200, 300, 0.9, 1)[1])
    more, other = copies_of(emulated, lambda: recover(rows, seed=1))
    assert (found.status, len(found), len(other)) == ("ok", 3, 6)
    assert few == many == more == {"up": 3, "down": 10}


@pytest.mark.parametrize("shape", rest_slow(SHAPES, 1))
def test_patterns_that_came_from_a_device_are_not_asked_about_again(emulated, shape):
    """Only what a search on the host finds goes up, all of it at once."""
    x = measured(emulated, sample(*SHAPES[shape], 0.9, 1)[1])
    copies, found = copies_of(emulated, lambda: recover(x, seed=1, method="layered"))
    assert len(found) == 3
    assert sum(copies.values()) <= 14  # three of them for columns that are alike


def test_dynamics_on_the_device_copies_no_states(emulated):
    xi, x = sample(6, 150, 200, 0.9, 7)
    noisy = np.where(np.random.default_rng(2).random(xi.shape) < 0.3, -xi, xi).astype(np.int8)
    noisy = np.vstack([noisy, np.where(xi[0] == xi[1], xi[0], xi[2])[None]])
    spaces = []
    for rows in (x, emulated.xp.asarray(x)):
        spectrum = eigenpairs(FactorOperator.from_examples(rows), 6)
        rank = TracyWidom()(Sample(spectrum.values, 150, 200))
        spaces.append(Subspace.of(spectrum, rank))
    here, there = spaces
    for name, most in (("polish", {"up": 1, "down": 1}), ("refine", {"up": 2, "down": 1})):
        for sweeps in (1, 2, 30, 31):  # of even and of odd number, where sites go to and fro
            copies, found = copies_of(emulated, lambda: getattr(there, name)(noisy, sweeps))  # noqa: B023
            assert copies == most
            np.testing.assert_array_equal(found, getattr(here, name)(noisy, sweeps))


def test_the_search_copies_nothing(emulated):
    """It is on the host, pass after pass, where the vectors come once."""
    xi, x = sample(4, 90, 200, 0.9, 7)
    spectrum = eigenpairs(FactorOperator.from_examples(emulated.xp.asarray(x)), 4)
    space = Subspace.of(spectrum, TracyWidom()(Sample(spectrum.values, 90, 200)))
    copies, found = copies_of(emulated, lambda: search_candidates(space, Search(starts=4), 0))
    assert copies == {"up": 0, "down": 1}
    assert set(abs(found @ xi.T.astype(int)).argmax(axis=1)) == {0, 1, 2, 3}


def test_dynamics_on_the_device_ends_at_rest(emulated):
    xi, x = sample(6, 150, 200, 0.9, 7)
    spectrum = eigenpairs(FactorOperator.from_examples(emulated.xp.asarray(x)), 6)
    space = Subspace.of(spectrum, TracyWidom()(Sample(spectrum.values, 150, 200)))
    before = emulated.copies["asked"]
    space.polish(space.polish(xi), 1000)
    assert 2 <= emulated.copies["asked"] - before < 20


def test_the_signs_of_memory_and_batch_are_compared_there(device):
    xi, x = sample(3, 90, 60, 0.8, 4)
    there = kernels.pack(device.xp.asarray(x))
    assert sign_agreement(there, xi) == sign_agreement(kernels.pack(x), xi)


def test_bad_values_are_named_from_the_device_too(device):
    x = sample(2, 20, 30, 0.9, 9)[1].astype(np.float32)
    x[3, 5] = 0.5
    there = device.xp.asarray(x)
    with pytest.raises(DataError, match=r"got 0\.5 at row 4, column 6"):
        recover(there, seed=0)
    with pytest.raises(DataError, match="at least two examples"):
        recover(there[:1] > 0, seed=0)
