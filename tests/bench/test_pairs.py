"""Every pair at sizes of no interest: its ways agree, and its counts are those of a hand."""

from shutil import which
from types import SimpleNamespace

import pytest
from emulator.device import Emulated

from hopfed.bench import PAIRS, load
from hopfed.bench.harness.devices import CPU, of
from hopfed.bench.harness.measure import measure_point

CEILING = {"copy": 1e10, "float32": 1e11, "float64": 5e10, "words": 4e10}

TINY = {
    "gram": {"M": 30, "N": 130},
    "build": {"M": 130, "N": 30},
    "products": {"M": 40, "N": 130, "k": 3},
    "gaps-pack": {"M": 30, "N": 130},
    "gaps-gram": {"M": 30, "N": 130},
    "gaps-products": {"M": 40, "N": 130, "k": 3},
    "gaps-recover": {"M": 120, "N": 100, "K": 2},
    "eig": {"M": 60, "N": 150, "K": 2},
    "dream": {"M": 20, "N": 60},
    "layered": {"S": 2, "L": 3, "N": 200, "R": 5},
    "heatbath": {"S": 3, "N": 100, "R": 5},
    "responsibilities": {"K": 3, "M": 100},
    "shuffle": {"M": 60, "N": 200},
    "e2e": {"M": 120, "N": 100, "K": 2},
    "round": {"L": 3, "M": 80, "N": 100, "K": 2},
    "train": {"model": 1, "clients": 3, "batch": 4},
    "neighbours": {"n": 700, "Q": 40},
    "recall": {"rule": 3, "S": 20, "N": 60, "K": 15},
    "serial": {"rule": 2, "S": 5, "N": 60, "K": 15},
}


@pytest.fixture(autouse=True)
def stand_in(monkeypatch):
    """Real data would only take time to read; one sample of each time is enough here."""
    monkeypatch.delenv("HOPFED_DATA", raising=False)
    monkeypatch.setattr("hopfed.bench.harness.timing.LEAST", 1)


@pytest.mark.parametrize("name", PAIRS)
def test_ways_agree(name):
    pair = load(name)
    rows, ways = measure_point(pair, TINY[name], CPU, CEILING, 0.0), pair.ways(**TINY[name])
    assert [row.way for row in rows] == [way.label for way in ways]
    for row, way in zip(rows, ways, strict=True):
        assert not row.absent
        assert row.seconds > 0
        assert row.bytes > 0
        assert row.share > 0
        assert (row.gap is None) == (way is ways[0])
        if way.tolerance is not None and row.gap is not None:
            assert row.gap <= way.tolerance
    assert rows[1].ratio == 1.0


ON_THE_HOST = {("eig", "SciPy svds"), ("e2e", "the paper's, dense"), ("e2e", "k-means on raw data")}


@pytest.mark.skipif(not (which("g++") or which("c++")), reason="no C++ compiler")
@pytest.mark.parametrize("name", [name for name in PAIRS if load(name).cuda])
def test_ways_agree_on_a_device(name):
    rows = measure_point(load(name), TINY[name], of(Emulated()), CEILING, 0.0)
    assert {(name, row.way) for row in rows if row.absent} <= ON_THE_HOST
    assert not rows[0].absent
    for row in rows:
        assert row.absent or (row.device, row.share > 0) == ("cuda", True)


def test_pairs_that_no_device_runs_are_those_of_the_processor():
    left = {name for name in PAIRS if not load(name).cuda}
    assert left == {
        *("gaps-recover", "responsibilities", "round", "train", "neighbours", "recall", "serial"),
    }


@pytest.mark.parametrize("name", PAIRS)
def test_sizes_vary_more_than_one_letter(name):
    pair = load(name)
    assert pair.name == name
    letters = set(TINY[name])
    for sizes in ("small", "full"):
        sweeps = pair.sweeps(sizes)
        assert len({sweep.vary for sweep in sweeps}) == len(sweeps) >= 2
        for sweep in sweeps:
            assert {sweep.vary, *sweep.fixed} == letters
            assert sweep.vary not in sweep.fixed
            assert list(sweep.values) == sorted(set(sweep.values))
    for target in pair.targets:
        assert target.point in pair.points("full")


# Sizes -> (bytes, operations) of the ways in order, counted by hand.
BY_HAND = [
    # 65 columns take two words; 2 * 3 / 2 = 3 pairs; 2 x 2 int32, or float32, out.
    ("gram", {"M": 2, "N": 65}, 0, 2 * 2 * 8 + 16, {"words": 6}),
    ("gram", {"M": 2, "N": 65}, 1, 4 * 130 + 16, {"float32": 2 * 3 * 65}),
    # 128 examples of 2 sites: 256 int8, 32 bytes of bits four times, 4 entries of 16 bytes.
    ("build", {"M": 128, "N": 2}, 0, 256 + 4 * 32 + 64, {"words": 3 * 2}),
    ("build", {"M": 128, "N": 2}, 1, 256 * 9 + 16, {"float32": 2 * 3 * 128}),
    # 10 x 64 bits are 80 bytes, read twice; X and C X 64 x 3, eta X 10 x 3 out and in, in float32.
    ("products", {"M": 10, "N": 64, "k": 3}, 0, 160 + 4 * 444, {"signed": 2 * 1920}),
    ("products", {"M": 10, "N": 64, "k": 3}, 1, 2 * 2560 + 4 * 444, {"float32": 4 * 1920}),
    ("products", {"M": 10, "N": 64, "k": 3}, 2, 13 * 640 + 4 * 444, {"float32": 4 * 1920}),
    # Twice the bits, and twice the counting or adding.
    ("gaps-pack", {"M": 2, "N": 65}, 0, 130 + 2 * 32, {}),
    ("gaps-pack", {"M": 2, "N": 65}, 1, 130 + 32, {}),
    ("gaps-gram", {"M": 2, "N": 65}, 0, 2 * 32 + 16, {"words": 12}),
    ("gaps-products", {"M": 10, "N": 64, "k": 3}, 0, 320 + 4 * 444, {"signed": 4 * 1920}),
    # Of ten columns numbers are multiplied: 10 x 64 x 10 twice, in two planes.
    ("gaps-products", {"M": 10, "N": 64, "k": 10}, 0, 320 + 4 * 1480, {"float32": 4 * 6400}),
    # 2 x 3 layers of 10 spins: 60 in and out; five times a factor of 10 x 5 float32, two products
    # of 6 x 10 x 5 multiply-adds, and in each block 3 x 3 overlaps of 5 terms, formed and used.
    (
        "layered",
        {"S": 2, "L": 3, "N": 10, "R": 5},
        0,
        120 + 5 * 200,
        {"float32": 5 * (4 * 300 + 2 * (2 * 2 * 9 * 5))},
    ),
    ("layered", {"S": 2, "L": 3, "N": 10, "R": 5}, 1, 5 * (94 * 60 + 400), None),
    # Coefficients and five sweeps of fields: six times 3 x 10 x 5 multiply-adds.
    ("heatbath", {"S": 3, "N": 10, "R": 5}, 0, 60 + 200, {"float32": 6 * 300}),
    # 3 x 64 bits are 24 bytes, and the Gram matrix 36, then 4 x 72, two products 24 each; 6 pairs;
    # 27 / 3 to factor, 2 x 9 x 8 to solve for 8 columns, 2 x 192 x 8 additions.
    ("dream", {"M": 3, "N": 64}, 0, 60 + 288 + 48, {"words": 6, "float64": 9 + 144 + 3072}),
    # Four times: 2 x 64 bits are 16 bytes, passed four times and once more for a Gram matrix of 16,
    # which is written and read in float32, and read by 40 products.
    (
        "shuffle",
        {"M": 2, "N": 64},
        0,
        4 * (64 + 16 + 16 + 42 * 16),
        {"words": 4 * 3, "float32": 4 * 40 * 8},
    ),
    # 100 keys fill 2 lists, by all their dimensions, and all are scanned: 3 operations for each
    # number, as for the 2 centroids; 4 (10 + 8) candidates in full. Exact: all pairs.
    (
        "neighbours",
        {"n": 100, "Q": 2},
        0,
        2 * 4 * 1280 * 172,
        {"float32": 2 * 3 * 1280 * (2 + 100 + 72)},
    ),
    ("neighbours", {"n": 100, "Q": 2}, 2, 4 * 1280 * 102, {"float32": 2 * 1280 * 200}),
    # Eleven products of 2 x 3 states with 5 patterns of 3 sites, operands and results in float32.
    ("recall", {"rule": 1, "S": 2, "N": 3, "K": 5}, 0, 11 * 4 * (6 + 10 + 15), {"float32": 660}),
    # States in and out, patterns; overlaps and three sweeps of fields: four times 30 multiply-adds.
    ("serial", {"rule": 2, "S": 2, "N": 3, "K": 5}, 0, 12 + 15, {"float64": 240}),
    # One matrix of 2 x 2: 3 sums of 4 products, 200 steps of 2 * 8 operations.
    ("dream", {"M": 4, "N": 2}, 2, 64 + 200 * 320, {"float64": 24 + 3200}),
]


@pytest.mark.parametrize(("name", "point", "index", "moved", "operations"), BY_HAND)
def test_costs_by_hand(name, point, index, moved, operations):
    cost = load(name).ways(**point)[index].cost
    assert cost.bytes == moved
    if operations is not None:
        assert cost.operations == operations


def test_cost_of_a_spectrum_by_hand():
    """16 examples over 64 sites, 2 eigenpairs."""
    ways = {way.label: way for way in load("eig").ways(M=16, N=64, K=2)}
    gram = ways["Gram route"].cost
    assert gram.operations["words"] == 16 * 17 / 2
    assert gram.operations["float64"] == pytest.approx(2 * 4 / 3 * 16**3 + 6 * 16 * 64 * 2)
    one, three = (ways["Krylov route"].cost(SimpleNamespace(products=n)) for n in (1, 3))
    assert one.operations == {"signed": 2 * 16 * 64 * 64, "float32": 0}
    # Three pairs of blocks, each twice through Q^T B and Q times that.
    assert three.operations == {"signed": 3 * 2 * 16 * 64 * 64, "float32": 3 * 8 * 64 * 64 * 64}
