"""`hopfed bench`: ways that agree, times that are taken in turn, and what is printed of them."""

import json
from shutil import which

import numpy as np
import pytest
from emulator.device import Emulated

from hopfed import bench
from hopfed.bench import Way, measure_point
from hopfed.errors import ArgumentError, HopfedError
from hopfed.kernels.cuda import device as devices

TINY = {
    "gram": {"M": 30, "N": 130},
    "products": {"M": 40, "N": 130, "k": 3}, "eig": {"M": 60, "N": 150, "K": 2},
    "layered": {"S": 2, "L": 3, "N": 200, "R": 5}, "heatbath": {"S": 3, "N": 100, "R": 5},
}  # fmt: skip
ON_THE_HOST = {("eig", "SciPy svds")}
SIZES = (("small", 2), ("full", 1))
NEEDS_CXX = pytest.mark.skipif(not (which("g++") or which("c++")), reason="no C++ compiler")


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr(bench, "LEAST", 1)


def measured(name, device="cpu"):
    return measure_point(name, bench.works(name), TINY[name], device, 0.0)


@pytest.mark.parametrize("name", bench.PAIRS)
def test_ways_agree(name):
    first, obvious, *others = measured(name)
    assert first["gap"] is None
    assert obvious["ratio"] == 1.0
    for row in (first, obvious, *others):
        assert not row["absent"]
        assert row["seconds"] > 0
        assert row["ratio"] == obvious["seconds"] / row["seconds"]
    for sizes in ("small", "full"):
        assert all(set(point) == set(TINY[name]) for point in bench.PAIRS[name][sizes])


@NEEDS_CXX
@pytest.mark.parametrize("name", bench.PAIRS)
def test_ways_agree_on_a_device(name, monkeypatch):
    emulated = Emulated()
    monkeypatch.setattr(devices, "cuda", lambda ordinal: emulated)
    rows = measured(name, "cuda:0")
    assert emulated.launches
    assert {(name, row["way"]) for row in rows if row["absent"]} <= ON_THE_HOST
    assert not rows[0]["absent"]
    assert {row["device"] for row in rows} == {"cuda"}


def toy(run=np.sum, gap=lambda a, b: abs(a - b), **second):
    """Work of two ways to sum; the second is as it is said."""

    def work(draw, N):
        x = np.arange(N, dtype=float)
        obvious = Way("obvious", run, lambda: x, **second)
        return gap, (Way("ours", np.sum, lambda: x), obvious)

    return work


def rows_of(work, device="cpu"):
    return measure_point("toy", work, {"N": 4}, device, 0.0)


@pytest.mark.parametrize(("wrong", "words"), [(7.0, "differ by 1"), (np.nan, "differ by nan")])
def test_disagreement_is_an_error(wrong, words):
    with pytest.raises(HopfedError, match=f"toy at N = 4: obvious and ours {words}, more than 0"):
        rows_of(toy(lambda x: wrong))
    assert rows_of(toy(lambda x: 7.0, tolerance=1.0))[1]["gap"] == 1.0
    assert rows_of(toy(lambda x: 7.0, quiet=np.sum))[1]["gap"] == 0.0


def test_a_way_that_is_not_run_says_why():
    def exhaust(x):
        raise MemoryError

    ours, obvious = rows_of(toy(exhaust))
    assert "cannot be run here" in obvious["absent"]
    assert (obvious["seconds"], ours["ratio"]) == (None, None)


@NEEDS_CXX
def test_what_a_device_cannot_take_is_a_fault_on_the_processor_alone(monkeypatch):
    def refuse(x):
        raise ArgumentError("x", "of another library", "numpy")

    monkeypatch.setattr(devices, "cuda", lambda ordinal: Emulated())
    reason = rows_of(toy(refuse), "cuda:0")[1]["absent"]
    assert reason == "cannot be run here: x must be of another library, got numpy"
    with pytest.raises(ArgumentError):
        rows_of(toy(refuse))


@pytest.fixture
def tiny(monkeypatch):
    """Small data everywhere."""
    monkeypatch.setitem(bench.PAIRS, "gram", {s: [{"M": 8, "N": 64}] * n for s, n in SIZES})
    monkeypatch.setattr(bench, "BUDGET", {"small": 0.0, "full": 0.0})


def test_table_and_json(tiny, hopfed):
    status, text, _ = hopfed("bench", "gram", "--sizes", "full")
    assert status == 0
    for words in ("processor: ", "gram: Inner products", "M = 8, N = 64", "float32 BLAS"):
        assert words in text
    found = json.loads(hopfed("bench", "gram", "--json")[1])
    assert set(found) == {"date", "sizes", "machine", "benchmarks"}
    assert len(found["benchmarks"]["gram"]["rows"]) == 2 * 2


def test_list(hopfed):
    assert "heatbath: 5 serial heat-bath sweeps" in hopfed("bench")[1]
    found = json.loads(hopfed("bench", "--json")[1])
    assert set(found["benchmarks"]) == {*TINY, "all"}
