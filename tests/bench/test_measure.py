"""The frame: ratios, shares, exponents, targets, absence, disagreement, another device."""

import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from hopfed.bench.harness.ceilings import bound, ceilings
from hopfed.bench.harness.devices import CPU, Device, gpu
from hopfed.bench.harness.measure import Row, measure_point
from hopfed.bench.harness.record import Cost, Pair, Sweep, Target, Way, cross
from hopfed.bench.harness.report import exponents, measure_pair, steps
from hopfed.bench.harness.timing import best_seconds
from hopfed.errors import ArgumentError, BackendError, HopfedError

CEILING = {"copy": 100.0, "float32": 10.0}


def ways(N):
    cost = Cost(bytes=8 * N, operations={"float32": N})
    return (
        Way("ours", lambda d: d["x"].sum(), cost),
        Way("obvious", lambda d: sum(d["x"].tolist()), cost),
    )


TOY = Pair(
    name="toy",
    summary="a sum",
    setup=lambda rng, N: {"x": np.arange(N, dtype=float)},
    ways=ways,
    gap=lambda a, b: abs(a - b),
    small=(Sweep("N", (1, 2, 4), {}),),
    full=(Sweep("N", (2, 8), {}),),
    targets=(Target({"N": 4}, ratio=0.0), Target({"N": 8}, ratio=2.0)),
)


def with_second(**changes):
    return replace(TOY, ways=lambda N: (ways(N)[0], replace(ways(N)[1], **changes)))


def test_the_longer_of_moving_and_computing_binds():
    assert bound(Cost(100, {"float32": 5}), CEILING) == (1.0, "copy")
    assert bound(Cost(100, {"float32": 30}), CEILING) == (3.0, "float32")
    assert bound(Cost(0, {"float32": 1, "words": 4}), {**CEILING, "words": 1.0}) == (4.1, "words")
    assert bound(Cost(100, {"words": 1}), CEILING) is None
    tensor = {**CEILING, "words": 1.0, "b1": 256.0, "int8": 64.0}  # 128 operations for a word
    assert bound(Cost(0, {"words": 4}), tensor) == (2.0, "b1")
    assert bound(Cost(0, {"words": 4}), {**tensor, "b1": 1.0}) == (4.0, "words")
    both = {"signed": 20, "float32": 10}
    assert bound(Cost(0, both), CEILING) == (3.0, "float32")
    assert bound(Cost(0, both), {**CEILING, "bf16": 240.0}) == (1.5, "float32")
    assert bound(Cost(0, {"signed": 20}), {**CEILING, "bf16": 240.0}) == (0.5, "bf16")


def test_rows():
    ours, obvious = measure_point(TOY, {"N": 4}, CPU, CEILING, 0.0)
    assert (ours.way, obvious.way, ours.gap, obvious.gap) == ("ours", "obvious", None, 0.0)
    assert ours.ratio == obvious.seconds / ours.seconds
    assert ours.share == pytest.approx(0.4 / ours.seconds)
    assert (ours.bytes, ours.operations, ours.bound) == (32, {"float32": 4}, "float32")


def test_report():
    found = measure_pair(TOY, "small", [(CPU, CEILING)])
    assert set(found) == {"summary", "rows", "sweeps", "exponents", "targets", "notes"}
    assert len(found["rows"]) == 6
    assert {fit["way"] for fit in found["exponents"]} == {"ours", "obvious"}
    (target,) = found["targets"]
    assert (target["point"], target["target"], target["reached"]) == ({"N": 4}, 0.0, True)


def test_every_step_is_told():
    told = []
    measure_pair(TOY, "small", [(CPU, CEILING)], told.append)
    assert len(told) == 3
    assert steps([TOY, TOY], "small") == 1 + 2 * len(told)


def test_points_that_two_sweeps_share_are_measured_once():
    crossing = replace(TOY, small=cross({"M": 2, "N": 2}, N=(1, 2), M=(2, 4)))
    assert crossing.points("small") == [{"N": 1, "M": 2}, {"N": 2, "M": 2}, {"N": 2, "M": 4}]


def test_exponent_of_a_power_law():
    rows = [Row("cpu", "w", {"N": n, "M": 3}, seconds=2.0 * n**1.5) for n in (1, 10, 100)]
    rows.append(Row("cpu", "w", {"N": 10, "M": 9}, seconds=7.0))  # on no line of this sweep
    (fit,) = exponents(rows, Sweep("N", (1, 10, 100), {"M": 3}))
    assert fit["exponent"] == pytest.approx(1.5)
    assert (fit["vary"], fit["fixed"], fit["way"]) == ("N", {"M": 3}, "w")


def test_disagreement_is_an_error():
    wrong = {"run": lambda d: d["x"].sum() + 1}
    with pytest.raises(HopfedError, match="toy at N = 4: obvious and ours differ by 1, more than"):
        measure_point(with_second(**wrong), {"N": 4}, CPU, CEILING, 0.0)
    loose = with_second(**wrong, tolerance=None)
    assert measure_point(loose, {"N": 4}, CPU, CEILING, 0.0)[1].gap == 1.0


def test_nan_is_no_agreement():
    with pytest.raises(HopfedError, match="differ by nan"):
        measure_point(with_second(run=lambda d: np.nan), {"N": 4}, CPU, CEILING, 0.0)


def test_a_way_beyond_its_sizes_is_absent_and_says_why():
    ours, obvious = measure_point(with_second(most={"N": 3}), {"N": 4}, CPU, CEILING, 0.0)
    assert obvious.absent == "takes too long above N = 3"
    assert obvious.seconds is None
    assert ours.ratio is None


def test_a_cost_may_depend_on_the_result():
    counted = with_second(cost=lambda found: Cost(bytes=found, operations={}))
    _, obvious = measure_point(counted, {"N": 4}, CPU, CEILING, 0.0)
    assert (obvious.bytes, obvious.bound) == (6.0, "copy")


def test_results_are_compared_on_quiet_data():
    noisy = replace(
        TOY,
        setup=lambda rng, N: {"x": np.arange(N, dtype=float), "error": 1.0},
        ways=lambda N: (ways(N)[0], replace(ways(N)[1], run=lambda d: d["x"].sum() + d["error"])),
    )
    with pytest.raises(HopfedError, match="differ by 1"):
        measure_point(noisy, {"N": 4}, CPU, CEILING, 0.0)
    _, obvious = measure_point(replace(noisy, quiet={"error": 0.0}), {"N": 4}, CPU, CEILING, 0.0)
    assert obvious.gap == 0.0


def test_out_of_memory_is_absence():
    def exhaust(data):
        raise MemoryError

    _, obvious = measure_point(with_second(run=exhaust), {"N": 4}, CPU, CEILING, 0.0)
    assert obvious.absent == "out of memory"


def test_another_device_is_told_apart_and_what_it_cannot_take_is_said():
    moved = []

    def refuse(data):
        raise ArgumentError("x", "of another library", data["xp"].__name__)

    there = Device("cuda", np, lambda: moved.append(1))
    pair = replace(with_second(run=refuse), cuda=True)
    found = measure_pair(pair, "small", [(there, CEILING)])
    assert moved  # it was waited for
    assert {row["device"] for row in found["rows"]} == {"cuda"}
    reasons = {row["absent"] for row in found["rows"] if row["way"] == "obvious"}
    assert reasons == {"does not take these arrays: x must be of another library, got numpy"}
    assert measure_pair(TOY, "small", [(there, CEILING)])["rows"] == []
    with pytest.raises(ArgumentError):  # the same on the CPU is a fault of the benchmark
        measure_point(pair, {"N": 2}, CPU, CEILING, 0.0)


def test_calls_are_taken_in_turn():
    order = []
    calls = {name: (lambda name=name: (order.append(name), time.sleep(0.003))) for name in "ab"}
    seconds = best_seconds(calls, budget=60.0, synchronise=lambda: None)
    assert order[:6] == list("ababab")
    assert set(seconds) == {"a", "b"}


def test_ceilings_of_the_cpu(monkeypatch):
    monkeypatch.setattr("hopfed.bench.harness.ceilings.COPY_BYTES", 1 << 20)
    monkeypatch.setattr("hopfed.bench.harness.ceilings.SIDE", 64)
    monkeypatch.setattr("hopfed.bench.harness.ceilings.PASSES", 4)
    monkeypatch.setattr("hopfed.bench.harness.ceilings.BUDGET", 0.0)
    found = ceilings(CPU)
    assert set(found) == {"copy", "float32", "float64", "words"}
    assert all(rate > 0 for rate in found.values())


def test_absence_of_a_gpu_has_a_reason(monkeypatch):
    assert gpu()[1]
    monkeypatch.setattr("hopfed.kernels.cuda.device.cuda", lambda n: SimpleNamespace(name="a chip"))
    assert gpu() == (True, "a chip")
    monkeypatch.setattr("hopfed.kernels.cuda.device.cuda", missing)
    assert gpu() == (False, "no chip")


def missing(ordinal):
    raise BackendError("no chip")
