"""`hopfed bench`: ways that agree, times that are taken in turn, and what is printed of them."""

import json
from shutil import which

import numpy as np
import pytest
from emulator.device import Emulated

from hopfed import bench
from hopfed.bench import Way, Work, measure_point
from hopfed.errors import HopfedError
from hopfed.kernels.cuda import device as devices

TINY = {"gram": {"M": 30, "N": 130}, "layered": {"S": 2, "L": 3, "N": 200, "R": 5}}


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr(bench, "LEAST", 1)
    monkeypatch.setattr(bench, "BUDGET", {"small": 0.0, "full": 0.0})


@pytest.mark.parametrize("device", ["cpu", "cuda:0"])
@pytest.mark.parametrize("name", bench.PAIRS)
def test_ways_agree(name, device, monkeypatch):
    emulated = Emulated() if which("g++") or which("c++") else None
    if device != "cpu" and emulated is None:
        pytest.skip("no C++ compiler to emulate a device with")
    monkeypatch.setattr(devices, "cuda", lambda ordinal: emulated)
    work, sizes = bench.PAIRS[name]
    first, obvious = measure_point(name, work, TINY[name], device, 0.0)
    assert device == "cpu" or emulated.launches
    assert (first["gap"], obvious["ratio"], obvious["device"]) == (None, 1.0, device[:4].strip(":"))
    assert first["ratio"] == obvious["seconds"] / first["seconds"] > 0
    assert {"small", "full"} == set(sizes)
    assert all(set(point) == set(TINY[name]) for points in sizes.values() for point in points)


def toy(answer, tolerance=0.0, quiet=None):
    """Work of two ways to sum; the second answers what it is said to."""
    ways = Way("ours", lambda: 6.0), Way("obvious", lambda: answer, quiet)
    return lambda rng, xp, N: Work(ways, lambda a, b: abs(a - b), tolerance)


def test_disagreement_is_an_error():
    for wrong, words in ((7.0, "differ by 1"), (np.nan, "differ by nan")):
        with pytest.raises(HopfedError, match=f"at N = 4: ours and obvious {words}, more than 0"):
            measure_point("toy", toy(wrong), {"N": 4}, "cpu", 0.0)
    for work, gap in ((toy(7.0, tolerance=1.0), 1.0), (toy(7.0, quiet=lambda: 6.0), 0.0)):
        assert measure_point("toy", work, {"N": 4}, "cpu", 0.0)[1]["gap"] == gap


def test_what_is_printed(hopfed, monkeypatch):
    sizes = {"small": [{"M": 8, "N": 64}] * 2, "full": [{"M": 8, "N": 64}]}
    monkeypatch.setitem(bench.PAIRS, "gram", (bench.gram, sizes))
    assert "layered: 5 updates of S blocks" in hopfed.done("bench")[0]
    text, _ = hopfed.done("bench", "gram", "--sizes", "full")
    for words in ("processor", "gram: Inner products", "M = 8, N = 64", "float32 BLAS"):
        assert words in text
    found = json.loads(hopfed.done("bench", "gram", "--json")[0])
    assert len(found["benchmarks"]["gram"]["rows"]) == 2 * 2
