"""`hopfed bench` as a user runs it."""

import json
from dataclasses import replace

import pytest

from hopfed.bench import load
from hopfed.bench.harness.record import cross


@pytest.fixture
def tiny(monkeypatch):
    """The Gram matrices of a few examples, beside ceilings that take no time to measure."""
    sweeps = cross({"M": 8, "N": 128}, N=(64, 128), M=(8, 16))
    pair = replace(load("gram"), small=sweeps, targets=())
    monkeypatch.setattr("hopfed.bench.kernels.PAIRS", (pair,))
    rates = {"copy": 1e10, "float32": 1e11, "float64": 5e10, "words": 4e10}
    monkeypatch.setattr("hopfed.bench.harness.report.ceilings", lambda device: rates)


def test_list(hopfed):
    status, text, _ = hopfed("bench")
    assert status == 0
    for word in ("gram: inner products", "recover: ", "processor: ", "GPU: ", "numpy "):
        assert word in text


def test_list_as_json(hopfed):
    _, text, _ = hopfed("bench", "--json")
    found = json.loads(text)
    assert set(found) == {"benchmarks", "machine"}
    assert {"processor", "cores", "memory", "GPU", "numba"} <= set(found["machine"])
    assert set(found["benchmarks"]) == {
        "gram", "build", "products", "gaps-pack", "gaps-gram", "gaps-products", "gaps-recover",
        "eig", "dream", "layered", "heatbath", "responsibilities", "shuffle", "e2e", "round",
        "train", "neighbours", "recall", "serial", "recover", "clients", "all",
    }  # fmt: skip


def test_table_and_figure(hopfed, tiny, tmp_path):
    figure = tmp_path / "gram.png"
    status, text, _ = hopfed("bench", "gram", "--figure", figure)
    assert status == 0
    assert "float32 BLAS" in text
    assert "words" in text
    assert "exponent of N at M = 8: bits " in text
    assert figure.read_bytes().startswith(b"\x89PNG")


def test_json(hopfed, tiny):
    _, text, _ = hopfed("bench", "gram", "--json")
    found = json.loads(text)
    assert set(found) == {"date", "sizes", "machine", "ceilings", "benchmarks"}
    rows = found["benchmarks"]["gram"]["rows"]
    assert len(rows) == 2 * 3  # the sweeps share a point
    assert set(rows[0]) == {
        "device", "way", "point", "seconds", "ratio", "bytes", "operations", "share", "bound",
        "gap", "absent",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("grm",), "did you mean gram?"),
        (("heathbath",), "did you mean heatbath?"),
        (("gram", "--sizes", "huge"), "'huge' is not one of 'small', 'full'"),
        (("gram", "--seeds", 3), "--seeds must be left out unless recover is measured"),
        (("recover", "--seeds", 0), "0 is not a whole number from 1"),
        (("recover", "--figure", "a.png"), "--figure must be left out for recover"),
        (("clients", "--figure", "a.png"), "--figure must be left out for clients"),
        (("gram", "--clients", "5"), "--clients must be left out unless clients is measured"),
        (("recover", "--columns", 9), "--columns must be left out unless clients is measured"),
        (("clients", "--clients", "5,x"), "--clients must be numbers from 2 to 1,000"),
        (("clients", "--clients", "1"), "--clients must be numbers from 2 to 1,000"),
        (("clients", "--clients", "2,9999"), "--clients must be numbers from 2 to 1,000"),
        (("gram", "--figure", "a.txt"), "--figure must be a .png, .pdf or .svg file"),
        (("gram", "--figure", "nowhere/a.png"), "--figure must be in a folder that exists"),
    ],
)
def test_errors_are_one_line(hopfed, arguments, words):
    status, text, error = hopfed("bench", *arguments)
    assert status == 2
    assert text == ""
    assert error.count("\n") == 1
    assert error.startswith("error: ")
    assert words in error
