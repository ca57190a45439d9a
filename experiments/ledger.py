"""The results of an experiment while it runs, seed by seed and round by round.

Every commit replaces the whole run file, so a killed process leaves the state after some commit,
and one that was killed and resumed ends in the same bytes as an undisturbed one. A file with the
states of clients is for its owner alone.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from hopfed._lib.outputs import remove_leftovers
from hopfed.errors import ArgumentError, DataError, RunFileError, shown
from hopfed.experiments import Arrays
from hopfed.federation.messages import below, pack, unpack
from hopfed.federation.rounds import FederationState
from hopfed.runs import FOUND, Run, blaming, first_seed, plain, provenance, require_seeds

SHARE = 0.05  # share of the time that commits between the rounds of a seed may take

_OPEN = "unfinished"  # arrays below this name belong to seeds whose last round is still to come
_ENDED = "ended"  # and below this one are states after the last round, for more rounds
MOST = 1 << 26  # bytes of such a state
_WHOLE = "whole"  # name below which the arrays of a state that is no federation's are

State = dict[str, np.ndarray] | FederationState


@dataclass
class OpenSeed:
    """A seed between two rounds: the arrays of its rounds so far, and the state after the last."""

    rounds: list[Arrays] = field(default_factory=list)
    state: State | None = None


class Ledger:
    """Committed results of a run, and the seeds and rounds that are left."""

    def __init__(
        self,
        kind: str,
        config: dict[str, Any],
        summarise: Callable[[Arrays], dict[str, Any]],
        *,
        by_round: bool = False,
        rounds: int | None = None,
        joined: Callable[[list[Arrays]], Arrays] | None = None,
        longer: Callable[[int], None] | None = None,
        callbacks: Sequence[Callable[[int, int, Arrays], object]] = (),
        path: str | Path | None = None,
    ):
        self.kind, self.config, self.summarise = kind, config, summarise
        self.by_round, self.rounds, self.path = by_round, rounds, path
        self._joined, self._callbacks = joined or _stacked, tuple(callbacks)
        self._longer = longer
        self._taken: set[int] | None = None  # unfinished seeds read from the file when resuming
        self.planned, first = int(config["seeds"]), first_seed(config)
        self.seeds = range(first, first + self.planned)
        self.done: dict[int, Arrays] = {}
        self.open: dict[int, OpenSeed] = {}
        self.ended: dict[int, np.ndarray] = {}  # states after the last round
        self.pace = "seed"  # the file is written after every "round", "seed", or at the "end"
        self._behind = False  # whether some results are not in the file yet
        self._wrote, self._cost = 0.0, 0.0  # end time and duration of the last commit

    def progress(self) -> tuple[int, int]:
        """Seeds finished and planned; if the number of rounds is known, rounds instead."""
        rounds = self.rounds or 1
        under_way = sum(len(entry.rounds) for entry in self.open.values()) if rounds > 1 else 0
        return len(self.done) * rounds + under_way, self.planned * rounds

    def pending(self) -> list[int]:
        """Seeds that are not finished, in order."""
        return [seed for seed in self.seeds if seed not in self.done]

    def position(self, seed: int) -> tuple[int, State | None]:
        """Next round of `seed`, and the state it starts from."""
        entry = self.open.get(seed, OpenSeed())
        return len(entry.rounds), entry.state

    def commit(self, seed: int, arrays: Arrays, state: State | None = None) -> None:
        """Add the arrays of one seed, or of one round and the state after it.

        The file is written at the `pace` asked for, and at other times if that does not take too
        much of the time; `flush` writes what is left.
        """
        arrays = {name: np.asarray(value) for name, value in arrays.items()}
        rounds = [*self.open.get(seed, OpenSeed()).rounds, arrays]
        with self.blamed():
            _require_alike(arrays, rounds[0])
        if state is None or len(rounds) == self.rounds:
            with self.blamed():
                done = self._joined(rounds) if self.by_round else arrays
                _require_alike(done, next(iter(self.done.values()), done))
            self.done[seed] = done
            self.open.pop(seed, None)
            keeps = self._longer is not None and self.path is not None
            if keeps and isinstance(state, FederationState):
                packed = _packed(state)
                if packed.nbytes <= MOST:
                    self.ended[seed] = packed
        else:
            if not isinstance(state, FederationState):
                state = {k: np.asarray(v) for k, v in state.items()}
            self.open[seed] = OpenSeed(rounds, state)  # one assignment: a flush may follow
        self._behind = True
        for callback in self._callbacks:
            callback(seed, len(rounds) - 1, arrays)
        due = self.pace == "round" or (self.pace == "seed" and seed in self.done)
        due |= len(self.done) == self.planned
        if due or time.monotonic() - self._wrote >= self._cost / SHARE:
            self.flush()

    def blamed(self, seed: int | None = None) -> AbstractContextManager[None]:
        """Report errors as faults of the file if the state of `seed`, or of all, is from it."""
        if self._taken is None or not (seed is None or seed in self._taken):
            return nullcontext()
        return blaming(str(self.path), self.kind)

    def flush(self) -> None:
        """Write results that are not in the file yet."""
        if self._behind:
            self.write()

    def write(self) -> None:
        """Write the run file with all present results."""
        self._behind = False
        if self.path is None:
            return
        began = time.monotonic()
        states = {s: e.state for s, e in sorted(self.open.items()) if s not in self.done}
        private = any(isinstance(state, FederationState) for state in states.values())
        self.run(states).save(self.path, private=private)
        self._wrote = time.monotonic()
        self._cost = self._wrote - began

    def run(self, states: Mapping[int, State | None] = MappingProxyType({})) -> Run:
        """Return the run with all present results, and a summary once all seeds are done."""
        seeds = sorted(self.done)
        arrays = _stacked([self.done[seed] for seed in seeds])
        summary = {}
        if len(seeds) == self.planned:
            with self.blamed():
                summary = plain(self.summarise(arrays))
        arrays["seeds"] = np.array(seeds, dtype=np.int64)
        for seed, state in states.items():
            rounds = _stacked(self.open[seed].rounds)
            arrays |= {f"{_OPEN}/{seed}/rounds/{name}": array for name, array in rounds.items()}
            arrays[f"{_OPEN}/{seed}/state"] = _packed(state or {})
        arrays |= {f"{_ENDED}/{seed}": state for seed, state in self.ended.items()}
        counts = {"committed": len(seeds), "planned": self.planned}
        return Run(self.kind, self.config, arrays, summary, **counts)  # type: ignore[arg-type]

    def resume(self) -> None:
        """Read the results in the file at `path`, if there is one.

        It is refused with another experiment, other settings, or other versions, with which results
        may differ in their last bits.
        """
        if self.path is None or not Path(self.path).exists():
            return
        remove_leftovers(self.path)
        run = Run.load(self.path)
        self._check(run)
        require_seeds(run, self.path)
        self._taken = set()
        with self.blamed():
            self._take(run)
        self._taken = set(self.open)

    def _take(self, run: Run) -> None:
        seeds = run.arrays["seeds"].tolist()
        for name, array in run.arrays.items():
            if name.startswith(f"{_OPEN}/"):
                self._reopen(name, array)
            elif name.startswith(f"{_ENDED}/"):
                self.ended[int(name.rpartition("/")[2])] = array
            elif name != "seeds" and not name.startswith(f"{FOUND}/"):
                for seed, value in zip(seeds, array, strict=True):
                    self.done.setdefault(seed, {})[name] = value
        if self._longer is not None:
            self._lengthen(sorted(self.done))
        for seed, entry in self.open.items():
            known = self.by_round and seed in self.seeds and seed not in self.done
            begun = 1 <= len(entry.rounds) < (self.rounds or len(entry.rounds) + 1)
            if not (known and begun and entry.state is not None):
                raise RunFileError(f"{self.path}: its seed {seed} is not one to be continued")

    def _reopen(self, name: str, array: np.ndarray) -> None:
        _, seed, part, *rest = name.split("/", 3)
        entry = self.open.setdefault(int(seed), OpenSeed())
        if part == "rounds":
            entry.rounds = entry.rounds or [{} for _ in array]
            for arrays, value in zip(entry.rounds, array, strict=True):
                arrays[rest[0]] = value
            return
        entry.state = self._thawed(name, array)

    def _thawed(self, name: str, array: np.ndarray) -> State:
        try:
            found = unpack(array)
            if _WHOLE in found:
                return below(found, _WHOLE)
            return FederationState.of_arrays(found)
        except (DataError, IndexError, KeyError, TypeError, ValueError) as error:
            raise RunFileError(f"{self.path}: {name}: {shown(error)}") from None

    def _lengthen(self, seeds: Sequence[int]) -> None:
        """Open the seeds again that have fewer rounds than the run is to have."""
        for seed in seeds:
            held = min(map(len, self.done[seed].values()))
            if held >= (self.rounds or held):
                continue
            if seed not in self.ended:
                what = f"holds no networks to go on with after round {held}: they are kept up to"
                raise RunFileError(f"{self.path}: {what} {MOST >> 20} MB a seed; start anew")
            state = self._thawed(f"{_ENDED}/{seed}", self.ended.pop(seed))
            arrays = self.done.pop(seed)
            rounds = [{n: value[t] for n, value in arrays.items()} for t in range(held)]
            self.open[seed] = OpenSeed(rounds, state)

    def _check(self, run: Run) -> None:
        if run.kind != self.kind:
            raise RunFileError(f"{self.path}: holds a run of {run.kind}, not of {self.kind}")
        first = first_seed(run.config)
        if first != self.seeds.start:
            raise ArgumentError("seeds", f"from {first} on, as in {self.path}", self.seeds.start)
        here, there = (config.get("device", "cpu") for config in (self.config, run.config))
        if here != there:
            raise RunFileError(f"{self.path}: made on {there}, not on {here}: say --device {there}")
        held, mine = run.config.get("rounds"), self.config.get("rounds", 0)
        if self._longer is not None and isinstance(held, int) and 0 < held < mine:
            self._longer(held)
            run = replace(run, config=run.config | {"rounds": mine})
        require_settings(run, self.config, self.path)
        for name, here in provenance().items():
            made = run.provenance.get(name, "none")
            if made != here:
                way = "resume it where it was made, or start anew"
                raise RunFileError(f"{self.path}: made with {name} {made}, here is {here}; {way}")


def so_far(run: Run) -> Run:
    """What an interrupted run can show: its finished seeds, else the rounds of those begun."""
    parts: dict[str, dict[str, np.ndarray]] = {}
    for name, array in run.arrays.items():
        if name.startswith(f"{_OPEN}/") and "/rounds/" in name:
            _, seed, _, name = name.split("/", 3)
            parts.setdefault(name, {})[seed] = array
    if run.committed or not parts:
        return run
    rounds = min(len(array) for held in parts.values() for array in held.values())
    arrays = {n: np.stack([a[:rounds] for a in held.values()]) for n, held in parts.items()}
    arrays["seeds"] = np.array([int(seed) for seed in next(iter(parts.values()))])
    config, count = run.config | {"rounds": rounds}, len(arrays["seeds"])
    planned = max(run.planned, count + 1)  # it stays incomplete
    return replace(run, config=config, arrays=arrays, committed=count, planned=planned)


def require_settings(run: Run, config: dict[str, Any], path: Any) -> None:
    """Refuse to continue a run with other settings than it was begun with, or with fewer seeds."""
    for name, mine in json.loads(json.dumps(config)).items():
        held = run.config.get(name)
        if name == "seeds":
            if mine < run.planned:
                raise ArgumentError("seeds", f"at least {held}, as in {path}", mine)
        elif held != mine:
            raise RunFileError(f"{path}: made with {name} = {held}, not {mine}")


def _packed(state: State) -> np.ndarray:
    """A state as one array."""
    if isinstance(state, FederationState):
        return pack(state.arrays())
    return pack({_WHOLE: np.zeros(0)} | {f"{_WHOLE}/{name}": a for name, a in state.items()})


def _stacked(parts: list[Arrays]) -> Arrays:
    """Stack the arrays of seeds or rounds along a new first axis."""
    for part in parts[1:]:
        _require_alike(part, parts[0])
    return {name: np.stack([part[name] for part in parts]) for name in (parts or [{}])[0]}


def _require_alike(part: Arrays, first: Arrays) -> None:
    """Refuse arrays whose shapes differ, or of which only some are numbers."""

    def form(array: np.ndarray | None) -> Any:
        return array if array is None else (array.shape, array.dtype.kind in "biuf")

    for name in sorted(first.keys() | part.keys()):
        forms = [form(arrays.get(name)) for arrays in (first, part)]
        if None in forms or forms[0] != forms[1]:
            raise ValueError(f"array {name!r} must have one shape and kind everywhere: {forms}")
