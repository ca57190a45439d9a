"""`hopfed bench recover`, with cases of no interest."""

import pytest

from hopfed.bench import cases
from hopfed.bench.cases import Case, Limits, measure_recovery, target_row

SMALL = Case(200, 2, 300, 0.8)


@pytest.fixture
def small_cases(monkeypatch):
    """Every case a small one."""
    monkeypatch.setattr(cases, "CASES", (SMALL, Case(200, 2, 300, 0.8, clients=3)))
    monkeypatch.setattr(cases, "RATIO_CASE", Case(60, 2, 200, 0.8))
    monkeypatch.setattr(cases, "MEMORY_CASE", SMALL)
    monkeypatch.setattr(cases, "TARGETS", (Limits(SMALL, most_bytes=8e9, most_seconds=600.0),))


def test_keys(small_cases):
    told = []
    found = measure_recovery("full", 1, None, told.append)
    assert set(found) == {"recovery", "ratio", "memory", "targets", "machine", "device"}
    assert [row["complete"] for row in found["recovery"]] == [1, 1]
    assert set(found["recovery"][0]) == {
        "case", "seeds", "complete", "false_discoveries", "seconds_median", "seconds_max",
    }  # fmt: skip
    assert set(found["ratio"]) == {
        "case", "seeds", "seconds", "seconds_dense", "ratio", "magnetisation",
        "magnetisation_dense",
    }  # fmt: skip
    memory = found["memory"]
    assert set(memory) == {"case", "peak_bytes", "seconds", "found", "false_discoveries"}
    assert memory["found"] == 2
    (target,) = found["targets"]
    assert target["reached"]
    assert target["seconds_drawing"] > 0
    assert len(told) == cases.steps("full", None)


def test_large_cases_only_when_asked(small_cases, monkeypatch):
    monkeypatch.setattr(cases, "_alone", lambda *case, **how: {"seconds_drawing": 1.0})
    assert measure_recovery("small", 1, None, lambda _: None)["targets"] == []


@pytest.mark.parametrize(
    "row",
    [
        {"found": 1, "false_discoveries": 0, "seconds": 1.0, "peak_bytes": 1},
        {"found": 2, "false_discoveries": 1, "seconds": 1.0, "peak_bytes": 1},
        {"found": 2, "false_discoveries": 0, "seconds": 3.0, "peak_bytes": 1},
        {"found": 2, "false_discoveries": 0, "seconds": 1.0, "peak_bytes": 9},
    ],
)
def test_a_target_is_missed_by_any_of_its_parts(monkeypatch, row):
    monkeypatch.setattr(cases, "_alone", lambda case, packed, device: row)
    assert not target_row(Limits(SMALL, most_bytes=5, most_seconds=2.0))["reached"]


def test_batches_hold_what_was_asked_for(monkeypatch):
    monkeypatch.setattr(cases, "BATCH", 200 * 7)
    xi, packed = cases._packed_data(SMALL, 0)
    assert (xi.shape, packed.shape) == ((2, 200), (300, 200))
