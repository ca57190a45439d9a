"""Benchmarks: ratios of times for the same work done in two or more ways, in one process.

Each module of pairs ends in a table `PAIRS`, which `harness` measures; `cases` measures complete
recoveries.

    kernels     gram, build, products, layered, heatbath
    gaps        gaps-pack, gaps-gram, gaps-products, gaps-recover
    spectral    eig, dream, shuffle
    recovery    e2e
    federation  round
    neural      train, neighbours
    memory      recall, serial
    cases       recover: complete recoveries, against the dense published algorithm; memory
    clients     clients: a server and client processes on loopback, at several numbers of clients
"""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING

from hopfed.errors import ArgumentError

if TYPE_CHECKING:
    from hopfed.bench.harness.record import Pair

_HOME = {
    "gram": "kernels",
    "build": "kernels",
    "products": "kernels",
    "gaps-pack": "gaps",
    "gaps-gram": "gaps",
    "gaps-products": "gaps",
    "gaps-recover": "gaps",
    "eig": "spectral",
    "dream": "spectral",
    "layered": "kernels",
    "heatbath": "kernels",
    "responsibilities": "kernels",
    "shuffle": "spectral",
    "e2e": "recovery",
    "round": "federation",
    "train": "neural",
    "neighbours": "neural",
    "recall": "memory",
    "serial": "memory",
}
PAIRS = tuple(_HOME)
NAMES = (*PAIRS, "recover", "clients", "all")


def check_name(name: str) -> str:
    """Return `name` if it is a benchmark; otherwise raise ArgumentError with the nearest name."""
    if name not in NAMES:
        near = get_close_matches(name, NAMES, n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise ArgumentError("benchmark", f"one of {', '.join(NAMES)}{hint}", repr(name))
    return name


def load(name: str) -> Pair:
    """Import the pair `name` of `PAIRS`.

    Examples
    --------
    >>> [way.label for way in load("gram").ways(M=2, N=2)]
    ['bits', 'float32 BLAS']
    """
    found = import_module(f"hopfed.bench.{_HOME[name]}").PAIRS
    return next(pair for pair in found if pair.name == name)
