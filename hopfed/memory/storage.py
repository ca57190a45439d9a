"""A memory as a run file: the rule, the patterns as bits, their weights."""

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


def as_run(memory: AssociativeMemory, source: str = "") -> Run:
    """Return the run file of a memory; signs are packed to bits.

    Parameters
    ----------
    memory : of patterns or of an operator.
    source : where the patterns come from, for readers of the file.

    >>> run = as_run(AssociativeMemory.store(np.array([[1, -1, 1]]), "dense"))
    >>> run.summary, run.arrays["memory/bits"].tolist()
    ({'rule': 'dense', 'patterns': 1, 'sites': 3, 'graded': False}, [[160]])
    """
    arrays: dict[str, np.ndarray] = {"memory/weights": memory.weights}
    if memory.factor is not None:
        arrays["memory/factor"] = memory.factor
    elif memory.is_graded:
        arrays["memory/means"] = memory.patterns
    else:
        arrays["memory/bits"] = np.packbits(memory.patterns > 0, axis=1)
    summary = {
        "rule": memory.rule.name,
        "patterns": len(memory),
        "sites": memory.n_sites,
        "graded": memory.is_graded,
    }
    settings = to_plain(memory.rule) if asdict(memory.rule) else {}
    return Run(KIND, {"source": source, "settings": settings}, arrays, summary)


def load(path: str | Path) -> AssociativeMemory:
    """Read a memory that `save` or `hopfed store` wrote.

    Parameters
    ----------
    path : of the file.

    Raises
    ------
    RunFileError : no such file, or it holds no memory.

    >>> load("lost.h5")
    Traceback (most recent call last):
        ...
    hopfed.errors.RunFileError: lost.h5: no such run file
    """
    return of_run(Run.load(path), path)


def of_run(run: Run, path: str | Path) -> AssociativeMemory:
    """Return the memory in a run file that was read.

    Parameters
    ----------
    run : as it was loaded from `path`.

    Raises
    ------
    RunFileError : it holds no memory.

    >>> of_run(as_run(AssociativeMemory.store(np.array([[1, -1, 1]]))), "m.h5").patterns.tolist()
    [[1, -1, 1]]
    """
    if run.kind != KIND:
        raise RunFileError(f"{path}: holds a run of {run.kind!r}, not a memory (hopfed store)")
    try:
        return _memory(run.arrays, run.config["settings"], run.summary)
    except (LookupError, TypeError, ValueError, ArithmeticError, ArgumentError) as error:
        raise RunFileError(f"{path}: not a readable memory: {error}") from error


def _memory(
    arrays: dict[str, np.ndarray], settings: dict[str, Any], summary: dict[str, Any]
) -> AssociativeMemory:
    settings = {k: v for k, v in settings.items() if (k, v) != ("g", [])}  # files of 0.2 have it
    rule = from_plain(RULES[summary["rule"]], settings)
    if "memory/factor" in arrays:
        W = arrays["memory/factor"]
        sound = W.ndim == 2 and W.size > 0 and W.dtype.kind == "f" and bool(np.isfinite(W).all())
        require(sound and rule.quadratic, "factor", "a finite matrix of a quadratic rule", W.shape)
        return AssociativeMemory(rule, np.zeros((0, len(W)), np.int8), np.zeros(0), factor=W)
    weights = arrays["memory/weights"]
    if "memory/means" in arrays:
        # Known to be means: of numbers alone, 0 and 1 would be bits.
        means = SimpleNamespace(patterns=arrays["memory/means"])
        return AssociativeMemory.store(means, rule, weights=weights)
    packed, sites = arrays["memory/bits"], int(summary["sites"])
    fits = packed.ndim == 2 and packed.shape[1] == -(-sites // 8) and sites > 0
    require(fits, "bits", f"rows of {sites:,} sites", packed.shape)
    bits = np.unpackbits(packed, axis=1, count=sites)
    return AssociativeMemory.store(bits.astype(bool), rule, weights=weights)
