"""Run file of a memory: the rule, the patterns as bits, and their weights."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from hopfed._lib.settings import from_plain, require, to_plain
from hopfed.errors import ArgumentError, RunFileError
from hopfed.memory.associative import AssociativeMemory
from hopfed.memory.rules import RULES
from hopfed.runs import Run

KIND = "memory"


def memory_to_run(memory: AssociativeMemory, source: str = "") -> Run:
    """Return the run file of a memory, signs packed to bits; `source` is a note for readers."""
    arrays: dict[str, np.ndarray] = {"memory/weights": memory.weights}
    if memory.factor is not None:
        arrays["memory/factor"] = memory.factor
    elif memory.is_graded:
        arrays["memory/means"] = memory.patterns
    else:
        arrays["memory/bits"] = np.packbits(memory.patterns > 0, axis=1)
    summary: dict[str, Any] = {"rule": memory.rule.name, "patterns": len(memory)}
    summary |= {"sites": memory.n_sites, "graded": memory.is_graded}
    settings = to_plain(memory.rule) if asdict(memory.rule) else {}
    return Run(KIND, {"source": source, "settings": settings}, arrays, summary)


def memory_from_run(run: Run, path: str | Path) -> AssociativeMemory:
    """Return the memory in a loaded run file, or raise RunFileError if it holds none."""
    if run.kind != KIND:
        raise RunFileError(f"{path}: holds a run of {run.kind!r}, not a memory (hopfed store)")
    try:
        return _memory(run.arrays, run.config["settings"], run.summary)
    except (LookupError, TypeError, ValueError, ArithmeticError, ArgumentError) as error:
        raise RunFileError(f"{path}: not a readable memory: {error}") from error


def _memory(
    arrays: dict[str, np.ndarray], settings: dict[str, Any], summary: dict[str, Any]
) -> AssociativeMemory:
    settings = {k: v for k, v in settings.items() if (k, v) != ("g", [])}  # in files of hopfed 0.2
    rule = from_plain(RULES[summary["rule"]], settings)
    if "memory/factor" in arrays:
        W = arrays["memory/factor"]
        sound = W.ndim == 2 and W.size > 0 and W.dtype.kind == "f" and bool(np.isfinite(W).all())
        require(sound and rule.quadratic, "factor", "a finite matrix of a quadratic rule", W.shape)
        return AssociativeMemory(rule, np.zeros((0, len(W)), np.int8), np.zeros(0), factor=W)
    weights = arrays["memory/weights"]
    if "memory/means" in arrays:
        # As an object with `patterns`, so that means of 0 and 1 are not read as bits.
        means = SimpleNamespace(patterns=arrays["memory/means"])
        return AssociativeMemory.store(means, rule, weights=weights)
    packed, sites = arrays["memory/bits"], int(summary["sites"])
    fits = packed.ndim == 2 and packed.shape[1] == -(-sites // 8) and sites > 0
    require(fits, "bits", f"rows of {sites:,} sites", packed.shape)
    bits = np.unpackbits(packed, axis=1, count=sites)
    return AssociativeMemory.store(bits.astype(bool), rule, weights=weights)
