"""The results of an experiment while it runs, seed by seed and round by round.

Every commit replaces the run file as a whole (see `hopfed.runs`), so whatever kills the process
leaves the state after some commit. What the file holds depends on the config and the committed
results alone, not on their order or on how often the run was resumed: a run that was never
disturbed and one that was killed and resumed end in the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from hopfed.errors import ArgumentError, RunFileError
from hopfed.experiments import Arrays
from hopfed.runs import Run, plain, provenance, remove_leftovers

_OPEN = "unfinished"  # arrays below this name belong to seeds whose last round is still to come

Summarise = Callable[[Arrays], dict[str, Any]]


@dataclass
class OpenSeed:
    """A seed between two rounds: the arrays of its rounds so far, and the state after the last."""

    rounds: list[Arrays] = field(default_factory=list)
    state: Arrays | None = None


class Ledger:
    """What is committed of a run, and what is left to do.

    Parameters
    ----------
    kind : name of the experiment.
    config : its settings as plain JSON values, `seeds` among them.
    summarise : from the arrays of all seeds to the summary; called with the last commit.
    by_round : whether a seed is committed round by round.
    path : the run file, or None to keep the results in memory only.
    """

    def __init__(
        self,
        kind: str,
        config: dict[str, Any],
        summarise: Summarise,
        *,
        by_round: bool = False,
        path: str | Path | None = None,
    ):
        self.kind, self.config, self.summarise = kind, config, summarise
        self.by_round, self.path = by_round, path
        self.done: dict[int, Arrays] = {}
        self.open: dict[int, OpenSeed] = {}

    @property
    def planned(self) -> int:
        """Number of seeds."""
        return int(self.config["seeds"])

    def progress(self) -> tuple[int, int]:
        """Seeds finished and planned; rounds of them, when the config says how many there are."""
        rounds = int(self.config.get("rounds", 1)) if self.by_round else 1
        under_way = sum(len(entry.rounds) for entry in self.open.values()) if rounds > 1 else 0
        return len(self.done) * rounds + under_way, self.planned * rounds

    def pending(self) -> list[int]:
        """Seeds that are not finished, in order."""
        return [seed for seed in range(self.planned) if seed not in self.done]

    def position(self, seed: int) -> tuple[int, Arrays | None]:
        """Next round of `seed`, and the state it starts from."""
        entry = self.open.get(seed, OpenSeed())
        return len(entry.rounds), entry.state

    def commit(self, seed: int, arrays: Arrays, state: Arrays | None = None) -> None:
        """Add the arrays of one seed, or of one round and the state after it, and write the file.

        `state` is None after the last round.
        """
        arrays = {name: np.asarray(value) for name, value in arrays.items()}
        entry = self.open.setdefault(seed, OpenSeed())
        entry.rounds.append(arrays)
        entry.state = None if state is None else {k: np.asarray(v) for k, v in state.items()}
        if state is None:
            del self.open[seed]
            self.done[seed] = _stacked(entry.rounds) if self.by_round else arrays
            _require_equal_shapes(self.done[seed], next(iter(self.done.values())))
        self.write()

    def write(self) -> None:
        """Write the run file as it stands."""
        if self.path is not None:
            self.run().save(self.path)

    def run(self) -> Run:
        """Return the run as it stands; the summary is there once every seed is."""
        seeds = sorted(self.done)
        arrays = _stacked([self.done[seed] for seed in seeds])
        complete = len(seeds) == self.planned
        summary = plain(self.summarise(arrays)) if complete else {}
        arrays["seeds"] = np.array(seeds, dtype=np.int64)
        for seed, entry in sorted(self.open.items()):
            arrays |= _named(f"{_OPEN}/{seed}/rounds", _stacked(entry.rounds))
            arrays |= _named(f"{_OPEN}/{seed}/state", entry.state or {})
        return Run(
            self.kind, self.config, arrays, summary, committed=len(seeds), planned=self.planned
        )

    def resume(self) -> None:
        """Take over what the file at `path` holds; nothing when there is none.

        Raises
        ------
        RunFileError : the file is of another experiment, of other settings, or was made with
            other versions, under which the bits need not be the same.
        """
        if self.path is None or not Path(self.path).exists():
            return
        remove_leftovers(self.path)
        run = Run.load(self.path)
        self._check(run)
        seeds = run.arrays.pop("seeds").tolist()
        for name, array in run.arrays.items():
            if name.startswith(f"{_OPEN}/"):
                self._reopen(name, array)
            else:
                for seed, value in zip(seeds, array, strict=True):
                    self.done.setdefault(seed, {})[name] = value
        for entry in self.open.values():
            entry.state = entry.state or {}

    def _reopen(self, name: str, array: np.ndarray) -> None:
        _, seed, part, name = name.split("/", 3)
        entry = self.open.setdefault(int(seed), OpenSeed())
        if part == "state":
            entry.state = (entry.state or {}) | {name: array}
            return
        entry.rounds = entry.rounds or [{} for _ in array]
        for arrays, value in zip(entry.rounds, array, strict=True):
            arrays[name] = value

    def _check(self, run: Run) -> None:
        if run.kind != self.kind:
            raise RunFileError(f"{self.path}: holds a run of {run.kind}, not of {self.kind}")
        for name, mine in json.loads(json.dumps(self.config)).items():
            held = run.config.get(name)
            if name == "seeds":  # a run may grow by more seeds, and never lose one
                if mine < run.planned:
                    raise ArgumentError("seeds", f"at least {held}, as in {self.path}", mine)
            elif held != mine:
                raise RunFileError(f"{self.path}: made with {name} = {held}, not {mine}")
        for name, here in provenance().items():
            made = run.provenance.get(name, "none")
            if made != here:
                raise RunFileError(
                    f"{self.path}: made with {name} {made}, here is {here}; resume it where it was "
                    "made, or start anew"
                )


def _named(prefix: str, arrays: Arrays) -> Arrays:
    return {f"{prefix}/{name}": array for name, array in arrays.items()}


def _stacked(parts: list[Arrays]) -> Arrays:
    """Stack the arrays of seeds or rounds along a new first axis."""
    if not parts:
        return {}
    for part in parts[1:]:
        _require_equal_shapes(part, parts[0])
    return {name: np.stack([part[name] for part in parts]) for name in parts[0]}


def _require_equal_shapes(part: Arrays, first: Arrays) -> None:
    for name in first.keys() | part.keys():
        shapes = [arrays[name].shape if name in arrays else None for arrays in (first, part)]
        if None in shapes or shapes[0] != shapes[1]:
            raise ValueError(
                f"array {name!r} must have one shape in all seeds and rounds: {shapes}"
            )
