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
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from hopfed._lib.outputs import remove_leftovers
from hopfed._lib.settings import to_plain
from hopfed.errors import ArgumentError, DataError, RunFileError, shown
from hopfed.experiments import Arrays, name_of
from hopfed.federation.messages import below, pack, unpack
from hopfed.federation.rounds import FederationState
from hopfed.runs import FOUND, Run, blaming, first_seed, plain, provenance, require_seeds

SHARE = 0.05  # share of the time that commits between the rounds of a seed may take

_OPEN = "unfinished"  # arrays below this name belong to seeds whose last round is still to come
_ENDED = "ended"  # and below this one are states after the last round, for more rounds
MOST = 1 << 26  # bytes of such a state

Callback = Callable[[int, int, Arrays], object]


def rounds_of(config: Any) -> int | None:
    """Rounds of a seed, where settings say how many."""
    return getattr(config, "played", getattr(config, "rounds", None))


class Ledger:
    """Committed results of a run, and the seeds and rounds that are left.

    What is run are seeds from `first` on, with `device` where an experiment is given one;
    `callbacks` are called with seed, round and arrays. With `longer` the run is one that may get
    more rounds when it is finished.
    """

    def __init__(
        self,
        experiment: Any,
        config: Any,
        path: str | Path | None = None,
        *,
        first: int = 0,
        device: str = "cpu",
        callbacks: Sequence[Callback] = (),
        longer: bool = True,
    ):
        self.kind, self.path = name_of(experiment), path
        told = {"device": device} if device != "cpu" else {}
        self.job = experiment.__name__, config, told
        self.config = to_plain(config) | ({"first_seed": first} if first else {}) | told
        self.summarise = partial(experiment.summarise, config)
        self.by_round = hasattr(experiment, "measure_round")
        self.rounds = rounds_of(config) if self.by_round else 1
        self._joined = getattr(config, "joined", _stacked)
        check = getattr(experiment, "check_longer", None) if longer else None
        self._longer = check and partial(check, config)
        alarm = [experiment.Alarm(config)] if hasattr(experiment, "Alarm") else []
        self._callbacks = (*alarm, *callbacks)
        self._taken: set[int] | None = None  # unfinished seeds read from the file when resuming
        self.planned = config.seeds
        self.seeds = range(first, first + self.planned)
        self.done: dict[int, Arrays] = {}
        # Seeds between two rounds: the arrays of the rounds so far, and the state after the last.
        self.open: dict[int, tuple[list[Arrays], FederationState | None]] = {}
        self.ended: dict[int, np.ndarray] = {}  # states after the last round
        self.pace = "seed"  # the file is written after every "round", "seed", or at the "end"
        self._behind = False  # whether some results are not in the file yet
        self._wrote, self._cost = 0.0, 0.0  # end time and duration of the last commit

    def progress(self) -> tuple[int, int]:
        """Seeds finished and planned; if the number of rounds is known, rounds instead."""
        rounds = self.rounds or 1
        under_way = sum(len(played) for played, _ in self.open.values()) if rounds > 1 else 0
        return len(self.done) * rounds + under_way, self.planned * rounds

    def pending(self) -> list[int]:
        """Seeds that are not finished, in order."""
        return [seed for seed in self.seeds if seed not in self.done]

    def position(self, seed: int) -> tuple[int, FederationState | None]:
        """Next round of `seed`, and the state it starts from."""
        rounds, state = self.open.get(seed, ([], None))
        return len(rounds), state

    def commit(self, seed: int, arrays: Arrays, state: FederationState | None = None) -> None:
        """Add the arrays of one seed, or of one round and the state after it.

        The file is written at the `pace` asked for, and at other times if that does not take too
        much of the time; `flush` writes what is left.
        """
        arrays = {name: np.asarray(value) for name, value in arrays.items()}
        rounds = [*self.open.get(seed, ([], None))[0], arrays]
        with self.blamed():
            _require_alike(arrays, rounds[0])
        if state is None or len(rounds) == self.rounds:
            with self.blamed():
                done = self._joined(rounds) if self.by_round else arrays
                _require_alike(done, next(iter(self.done.values()), done))
            self.done[seed] = done
            self.open.pop(seed, None)
            if state is not None and self._longer is not None and self.path is not None:
                packed = pack(state.arrays())
                if packed.nbytes <= MOST:
                    self.ended[seed] = packed
        else:
            self.open[seed] = rounds, state  # one assignment: a flush may follow
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

    def flush(self, now: bool = False) -> None:
        """Write the run file if some results are not in it yet, or `now`."""
        if self.path is None or not (self._behind or now):
            return
        self._behind, began = False, time.monotonic()
        states = {s: state for s, (_, state) in sorted(self.open.items()) if s not in self.done}
        self.run(states).save(self.path, private=bool(states))
        self._wrote = time.monotonic()
        self._cost = self._wrote - began

    def run(self, states: Mapping[int, FederationState | None] = MappingProxyType({})) -> Run:
        """Return the run with all present results, and a summary once all seeds are done."""
        seeds = sorted(self.done)
        arrays = _stacked([self.done[seed] for seed in seeds])
        summary = {}
        if len(seeds) == self.planned:
            with self.blamed():
                summary = plain(self.summarise(arrays))
        arrays["seeds"] = np.array(seeds, dtype=np.int64)
        for seed, state in states.items():
            rounds, held = _stacked(self.open[seed][0]), {} if state is None else state.arrays()
            arrays |= {f"{_OPEN}/{seed}/rounds/{name}": array for name, array in rounds.items()}
            arrays[f"{_OPEN}/{seed}/state"] = pack(held)
        arrays |= {f"{_ENDED}/{seed}": state for seed, state in self.ended.items()}
        counts = {"committed": len(seeds), "planned": self.planned}
        return Run(self.kind, self.config, arrays, summary, **counts)

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
        self.ended = {int(seed): array for seed, array in below(run.arrays, _ENDED).items()}
        for name, array in run.arrays.items():
            if name != "seeds" and name.partition("/")[0] not in (_OPEN, _ENDED, FOUND):
                for seed, value in zip(seeds, array, strict=True):
                    self.done.setdefault(seed, {})[name] = value
        for seed, held in _opened(run).items():
            rounds = _apart(below(held, "rounds"))
            known = self.by_round and seed in self.seeds and seed not in self.done
            if not (known and 1 <= len(rounds) < (self.rounds or len(rounds) + 1)):
                raise RunFileError(f"{self.path}: its seed {seed} is not one to be continued")
            self.open[seed] = rounds, self._thawed(seed, held["state"])
        if self._longer is not None:
            self._lengthen(sorted(self.done))

    def _thawed(self, seed: int, array: np.ndarray) -> FederationState:
        try:
            return FederationState.of_arrays(unpack(array))
        except (DataError, IndexError, KeyError, TypeError, ValueError) as error:
            raise RunFileError(f"{self.path}: state of seed {seed}: {shown(error)}") from None

    def _lengthen(self, seeds: Sequence[int]) -> None:
        """Open the seeds again that have fewer rounds than the run is to have."""
        for seed in seeds:
            rounds = _apart(self.done[seed])
            if len(rounds) >= (self.rounds or len(rounds)):
                continue
            if seed not in self.ended:
                what = f"no networks to go on with after round {len(rounds)}: they are kept up to"
                raise RunFileError(f"{self.path}: holds {what} {MOST >> 20} MB a seed; start anew")
            self.open[seed] = rounds, self._thawed(seed, self.ended.pop(seed))
            del self.done[seed]

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
    opened = _opened(run)
    if run.committed or not opened:
        return run
    parts = [below(held, "rounds") for held in opened.values()]
    rounds = min(len(array) for held in parts for array in held.values())
    arrays = {name: np.stack([held[name][:rounds] for held in parts]) for name in parts[0]}
    config = run.config | {"rounds": rounds}
    planned = max(run.planned, len(parts) + 1)  # it stays incomplete
    arrays["seeds"] = np.array([*opened])
    return replace(run, config=config, arrays=arrays, committed=len(parts), planned=planned)


def require_settings(run: Run, config: dict[str, Any], path: Any) -> None:
    """Refuse to continue a run with other settings than it was begun with, or with fewer seeds."""
    for name, mine in json.loads(json.dumps(config)).items():
        held = run.config.get(name)
        if name == "seeds":
            if mine < run.planned:
                raise ArgumentError("seeds", f"at least {held}, as in {path}", mine)
        elif held != mine:
            raise RunFileError(f"{path}: made with {name} = {held}, not {mine}")


def _opened(run: Run) -> dict[int, Arrays]:
    """What the file holds of each seed that is unfinished, by the rest of the names."""
    found: dict[int, Arrays] = {}
    for name, array in below(run.arrays, _OPEN).items():
        seed, _, rest = name.partition("/")
        found.setdefault(int(seed), {})[rest] = array
    return found


def _apart(arrays: Arrays) -> list[Arrays]:
    """Arrays of each round, from those of all rounds."""
    return [dict(zip(arrays, at, strict=True)) for at in zip(*arrays.values(), strict=False)]


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
