"""Pairs of the associative memory: all spins at once, beside the products that takes; one by one.

Rules have numbers: 1 Hebb, 2 dense with n = 3, 3 exponential with beta = .1, at which several
patterns have a say in a field.
"""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np

from hopfed.bench.harness.record import Cost, Data, Pair, Target, Way, cross, doubling
from hopfed.hopfield.channel import rademacher
from hopfed.memory.associative import AssociativeMemory
from hopfed.memory.rules import Dense, Exponential, Hebb, Rule

RULES: dict[int, Rule] = {1: Hebb(), 2: Dense(3), 3: Exponential(0.1)}
STEPS = 5  # synchronous updates of a call
SWEEPS = 3  # over all sites of a call
ROUNDING = 1e-3  # share of spins that may differ: a field within rounding of 0 turns one, it others


def _asked(rng: np.random.Generator, rule: int, S: int, N: int, K: int) -> Data:
    """Patterns, and random cues, from which many spins turn."""
    return {"rule": RULES[rule], "patterns": rademacher(K, N, rng), "cues": rademacher(S, N, rng)}


def _recalled(order: str, updates: int, data: Data) -> np.ndarray:
    found = data["memory"].recall(data["cues"], order=order, updates=updates)
    return np.asarray(found.states)


def _stored(data: Data) -> Data:
    return {**data, "memory": AssociativeMemory.store(data["patterns"], data["rule"])}


def _step(data: Data, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Table of the overlaps of float32 states, and the next states, in plain NumPy."""
    xi, rule = data["xi"], data["rule"]
    a = s @ xi.T
    if isinstance(rule, Hebb):
        B, own = a, np.float32(len(xi))
    elif isinstance(rule, Dense):  # (a + 2)^3 - (a - 2)^3, and the spin's own part
        B, own = 12 * a * a + 16, 24 * a.sum(axis=1, keepdims=True)
    else:
        x = rule.beta * (a - a.max(axis=1, keepdims=True))
        B, own = np.exp(x), np.float32(0)
        B /= B.sum(axis=1, keepdims=True)
    return B, np.where(B @ xi - own * s >= 0, np.float32(1), np.float32(-1))


def _expression(data: Data) -> np.ndarray:
    s = data["s"]
    for _ in range(STEPS):
        s = _step(data, s)[1]
    return np.asarray(s)


def _in_float32(data: Data) -> Data:
    names = {"xi": "patterns", "s": "cues"}
    return {**data, **{k: data[name].astype(np.float32) for k, name in names.items()}}


def _tables(data: Data) -> Data:
    """States that still move and their tables, so that nothing is left to do but the products."""
    data = _in_float32(data)
    s, live, steps = data["s"], np.arange(len(data["s"])), []
    for _ in range(STEPS):
        B, new = _step(data, s)
        steps.append((live, s, B))
        moved = (new != s).any(axis=1)
        live, s = live[moved], new[moved]
    return {**data, "steps": steps, "fields": np.zeros_like(data["s"])}


def _products(data: Data) -> np.ndarray:
    """Two products an update, and the overlaps at the end; answers the last fields of each cue."""
    xi, fields = data["xi"], data["fields"]
    for live, s, B in data["steps"]:
        s @ xi.T
        if len(live) == len(fields):
            np.matmul(B, xi, out=fields)
        else:
            fields[live] = B @ xi
    data["s"] @ xi.T
    return np.asarray(fields)


def _recall(rule: int, S: int, N: int, K: int) -> tuple[Way, ...]:
    del rule
    # Overlaps, and their table times the patterns; the overlaps of the end as well.
    flops = {"float32": 2.0 * (2 * STEPS + 1) * S * N * K}
    each = 4 * (S * N + S * K) + 4 * K * N  # of a product
    cost = Cost((2 * STEPS + 1) * each, flops)
    return (
        Way("recall", partial(_recalled, "synchronous", STEPS), cost, _stored),
        Way("float32 products alone", _products, cost, _tables, tolerance=None),
        Way("NumPy expression", _expression, cost, _in_float32, tolerance=ROUNDING),
    )


def _site_by_site(data: Data) -> np.ndarray:
    """All cues at once at each site; the table of a cue is made anew where its spin turned."""
    xi, rule, xp = data["columns"], data["rule"], data["xp"]
    n_sites, beta = len(xi), getattr(rule, "beta", 0.0)
    s, a = data["s"] + 0.0, data["s"] @ xi
    B, own = _site_table(a, rule, xp)
    for _ in range(SWEEPS):
        for i in range(n_sites):
            if isinstance(rule, Exponential):
                up, down = B @ data["up"][i], B @ data["down"][i]
                is_up = up * xp.exp(-2 * beta * s[:, i]) >= down
            else:
                is_up = B @ xi[i] - own * s[:, i] >= 0
            (turned,) = xp.where(is_up != (s[:, i] > 0))
            if len(turned):
                s[turned, i] *= -1
                a[turned] += 2 * s[turned, i][:, None] * xi[i]
                B[turned], own[turned] = _site_table(a[turned], rule, xp)
    return np.asarray(s)


def _site_table(a: Any, rule: Rule, xp: Any) -> tuple[Any, Any]:
    if isinstance(rule, Hebb):
        return a, 0 * a[:, 0] + a.shape[1]
    if isinstance(rule, Dense):
        return 12 * a * a + 16, 24 * a.sum(1)
    beta = rule.beta  # type: ignore[attr-defined]
    return xp.exp(beta * (a - xp.amax(a, 1)[:, None])), 0 * a[:, 0]


def _by_columns(data: Data) -> Data:
    columns = data["patterns"].T.astype(np.float64)
    both = {"up": (columns > 0).astype(np.float64), "down": (columns < 0).astype(np.float64)}
    return {**data, **both, "columns": columns, "s": data["cues"].astype(np.float64), "xp": np}


def _by_torch(data: Data) -> Data:
    import torch

    held = _by_columns(data)
    names = ("columns", "up", "down", "s")
    return {**held, **{k: torch.from_numpy(held[k]) for k in names}, "xp": torch}


def _serial(rule: int, S: int, N: int, K: int) -> tuple[Way, ...]:
    del rule
    # Overlaps, and a field at every visit; what a flip changes is not counted.
    cost = Cost(2 * S * N + K * N, {"float64": 2.0 * (1 + SWEEPS) * S * N * K})
    ways = [
        Way("recall", partial(_recalled, "serial", SWEEPS), cost, _stored),
        Way("NumPy, site by site", _site_by_site, cost, _by_columns, tolerance=ROUNDING),
    ]
    if find_spec("torch") is not None:
        by_torch = Way(
            "PyTorch, site by site", _site_by_site, cost, _by_torch, ROUNDING, most={"N": 200}
        )
        ways.append(by_torch)
    return tuple(ways)


def _signs_differ(a: np.ndarray, b: np.ndarray) -> float:
    """Share of the spins that have another sign than the spins, or fields, of another way."""
    return float(((a >= 0) != (b >= 0)).mean())


_NAMES = "rules: 1 Hebb, 2 dense with n = 3, 3 exponential with beta = .1"
_SYNCHRONOUS = {"rule": 2, "S": 1000, "N": 1000, "K": 500}
_SERIAL = {"rule": 2, "S": 100, "N": 1000, "K": 500}

PAIRS = (
    Pair(
        "recall",
        f"{STEPS} synchronous updates of S cues of N sites, K patterns stored ({_NAMES})",
        _asked,
        _recall,
        _signs_differ,
        cross({"rule": 2, "S": 200, "N": 500, "K": 250}, rule=(1, 2, 3), K=doubling(125, 500)),
        cross(_SYNCHRONOUS, rule=(1, 2, 3), K=(125, 500, 2000), S=(100, 1000)),
        # At most 1.5 times what the products take alone.
        targets=tuple(Target({**_SYNCHRONOUS, "rule": rule}, 1 / 1.5) for rule in RULES),
    ),
    Pair(
        "serial",
        f"{SWEEPS} serial sweeps of S cues of N sites, K patterns stored ({_NAMES})",
        _asked,
        _serial,
        _signs_differ,
        cross({"rule": 2, "S": 24, "N": 200, "K": 100}, rule=(1, 2, 3), K=doubling(50, 200)),
        cross(_SERIAL, rule=(1, 2, 3), K=doubling(125, 1000), S=(10, 100, 1000)),
        targets=tuple(Target({**_SERIAL, "rule": rule}, 5.0) for rule in RULES),
    ),
)
