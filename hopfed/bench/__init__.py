"""`hopfed bench`: the same work done two ways, in one process, as ratios.

    record      what a benchmark is: sizes, data, ways, costs by formula, agreement
    devices     the CPU, and a CUDA device where there is one
    machine     what it was measured on
    ceilings    copy bandwidth, matrix rate and bit rate, measured first
    measure     times of all ways at all sizes, their ratios and shares of the ceilings
    recover     recovery in full, against the paper's algorithm (`paper`), and its memory

and one module for each name in `PAIRS`, holding its `BENCHMARK`.
"""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING

from hopfed.errors import ArgumentError

if TYPE_CHECKING:
    from hopfed.bench.record import Benchmark

NEURAL = ("train", "neighbours")
PAIRS = (
    "gram",
    "build",
    "products",
    "eig",
    "dream",
    "lam",
    "heatbath",
    "shuffle",
    "e2e",
    "round",
    *NEURAL,
)
NAMES = (*PAIRS, "recover", "all")


def check_name(name: str) -> str:
    """Return `name` if there is such a benchmark; otherwise an error suggests the nearest."""
    if name not in NAMES:
        near = get_close_matches(name, NAMES, n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise ArgumentError("benchmark", f"one of {', '.join(NAMES)}{hint}", repr(name))
    return name


def load(name: str) -> Benchmark:
    """Import the benchmark `name` of `PAIRS`.

    Examples
    --------
    >>> load("gram").ways[1].label
    'float32 BLAS'
    """
    return import_module(f"hopfed.bench.{check_name(name)}").BENCHMARK
