"""`recover` on examples that are on a device finds what it finds on the host.

Only eigenvalues, scalars and K patterns may come to the host: the emulated device refuses every
call of NumPy on its arrays, and what is fetched is counted. Every test runs there, where there is a
C++ compiler, and on a GPU (`-m gpu`).
"""

import numpy as np
import pytest
from helpers import rest_slow, sample

from hopfed import kernels, recover
from hopfed._lib.arrays import to_host
from hopfed.archetypes.channel_and_replicas import draw_rows
from hopfed.archetypes.patterns import Patterns
from hopfed.archetypes.session import Variables
from hopfed.errors import DataError
from hopfed.recovery.recover import run_recovery

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
    here = recover(x, seed=1, patterns=Patterns(method=method))
    there = recover(device.xp.asarray(x), seed=1, patterns=Patterns(method=method))
    same(here, there)
    assert here.status == "ok"
    assert len(np.unique(abs(there.patterns @ xi.T).argmax(axis=1))) == 3


@pytest.mark.parametrize("form", [lambda x: (x > 0).astype(np.uint8), kernels.pack])
def test_whatever_way_the_examples_are_held(device, form):
    x = sample(*SHAPES["fewer sites"], 0.9, 2)[1]
    same(recover(x, seed=0), recover(form(device.xp.asarray(x)), seed=0))


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


def copies_of(device, work):
    """Copies up and down that `work` makes, and what it gives."""
    with device.counted() as copies:
        found = work()
    return dict(copies), found


@pytest.fixture
def emulated(device):
    if device.name != "emulated device":
        pytest.skip("copies are counted on the emulated device")
    return device


COUNTED = {"fewer examples": (8, 1200, 300), "fewer sites": (4, 90, 400)}


@pytest.mark.parametrize("shape", COUNTED)
def test_a_recovery_makes_four_copies_to_the_host(emulated, shape):
    """Down: sums of columns with what columns say of each other, eigenvalues, patterns, moments.

    The eigenvalues are counted; moments are of rows by the pattern that they resemble most, and no
    sums of columns. None is in a loop over groups, sweeps or patterns. Up: the deal of the groups,
    their sizes, a draw, what the count says of eigenvectors, the patterns in bits, and twice the
    factors of marks of rows.
    """
    x = emulated.xp.asarray(sample(*COUNTED[shape], 0.75, 1)[1])
    few, found = copies_of(emulated, lambda: recover(x, seed=1, patterns=Patterns(groups=5)))
    many, _ = copies_of(emulated, lambda: recover(x, seed=1, patterns=Patterns(groups=40)))
    assert (found.status, len(found)) == ("ok", COUNTED[shape][0])
    assert few["down"] == many["down"] == 4
    assert few["up"] == many["up"] <= 8
    assert few["calls"] < 500  # launches, but for those of our own kernels
    assert few["asked"] < 20  # whether complete, converged, at rest: waits for a yes or no


def test_votes_for_patterns_of_close_support_are_copied_once(emulated):
    x = emulated.xp.asarray(sample(40, 400, 1000, 0.8, 1)[1])
    found, there = copies_of(emulated, lambda: recover(x, seed=0))
    assert (there.status, len(there)) == ("ok", 40)
    assert there.exposures.min() * 1000 * there.quality**2 < 10  # twice the support
    assert found["down"] <= 4


def test_columns_that_may_be_copies_cost_two_more(emulated):
    x = sample(6, 200, 300, 0.75, 1)[1].copy()
    x[:, 7] = x[:, 3]
    found, there = copies_of(emulated, lambda: recover(emulated.xp.asarray(x), seed=1))
    assert there.status == recover(x, seed=1).status == "ok"
    assert "copies or opposites" in there.advice
    assert found["down"] <= 4 + 2  # sums over pairs, and sums of the columns that are left


@pytest.mark.parametrize("hosted", [None, pytest.param(0, marks=pytest.mark.slow)])
def test_classes_of_few_entries_are_fitted_on_the_host(emulated, monkeypatch, hosted):
    """Down go the bits; of more entries every step is the device's, with the same answer."""
    if hosted is not None:
        monkeypatch.setattr("hopfed.recovery.recover.HOSTED", hosted)
    monkeypatch.setattr("hopfed.kernels.cuda.device.cuda", lambda ordinal: emulated)
    rng = np.random.default_rng(0)
    rates = rng.beta(0.5, 0.5, (3, 16))[rng.integers(0, 3, 150)]
    x = np.where(rng.random(rates.shape) < rates, 1, -1).astype(np.int8)
    x[rng.random(x.shape) < 0.1] = 0
    here = recover(x, seed=0)
    given = kernels.pack_masked(emulated.xp.asarray(x))
    copies, there = copies_of(emulated, lambda: recover(given, seed=0))
    assert (there.status, len(there)) == (here.status, len(here)) == ("ok", 3)
    np.testing.assert_allclose(there.graded_means, here.graded_means, atol=1e-3)
    assert (copies["down"] < 10) is (hosted is None)


def test_replicas_are_drawn_on_the_device_with_the_bits_of_the_host(device):
    rng = np.random.default_rng(0)
    x = rng.integers(-1, 2, (70, 21)).astype(np.int8)
    how = rng.uniform(-1, 1, (3, 21)), np.full(3, 1 / 3), Variables.of([[0, 1, 2]], 21), 5, 0, 1
    here, there = (
        draw_rows(kernels.pack_masked(given), *how) for given in (x, device.xp.asarray(x))
    )
    assert type(there.signs) is not np.ndarray
    np.testing.assert_array_equal(to_host(there.signs), here.signs)
    np.testing.assert_array_equal(to_host(there.seen), here.seen)


def test_bad_values_are_named_from_the_device_too(device):
    x = sample(2, 20, 30, 0.9, 9)[1].astype(np.float32)
    x[3, 5] = 0.5
    there = device.xp.asarray(x)
    with pytest.raises(DataError, match=r"got 0\.5 at row 4, column 6"):
        recover(there, seed=0)
    with pytest.raises(DataError, match="at least two examples"):
        recover(there[:1] > 0, seed=0)
