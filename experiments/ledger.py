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

    Arguments are those of `hopfed.experiments.runner.execute`; without `longer` a finished run gets
    no more rounds.
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
        self.experiment, self.settings, self.path = experiment, config, path
        self.kind = name_of(experiment)
        place = {"device": device} if device != "cpu" else {}
        self.job = experiment.__name__, config, place
        self.config = to_plain(config) | ({"first_seed": first} if first else {}) | place
        self.by_round = hasattr(experiment, "measure_round")
        self.rounds = rounds_of(config) if self.by_round else 1
        self.longer = longer and hasattr(experiment, "check_longer")
        alarm = [experiment.Alarm(config)] if hasattr(experiment, "Alarm") else []
        self.callbacks = (*alarm, *callbacks)
        self.seeds = range(first, first + config.seeds)
        self.done: dict[int, Arrays] = {}
        # Seeds between two rounds: the arrays of the rounds so far, and the state after the last.
        self.open: dict[int, tuple[list[Arrays], FederationState | None]] = {}
        self.ended: dict[int, np.ndarray] = {}  # states after the last round
        self.pace = "seed"  # the file is written after every "round", "seed", or at the "end"
        self._resumed = False  # whether results were read from the file
        self._behind = False  # whether some results are not in the file yet
        self._wrote, self._cost = 0.0, 0.0  # end time and duration of the last commit
        self.provenance = provenance()
        if path is not None and self.by_round and longer and hasattr(config, "fingerprint"):
            self.provenance |= config.fingerprint(first)

    def progress(self) -> tuple[int, int]:
        """Seeds finished and planned; if the number of rounds is known, rounds instead."""
        rounds = self.rounds or 1
        under_way = sum(len(played) for played, _ in self.open.values()) if rounds > 1 else 0
        return len(self.done) * rounds + under_way, len(self.seeds) * rounds

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
            join = getattr(self.settings, "joined", _stacked)
            with self.blamed():
                done = join(rounds) if self.by_round else arrays
                _require_alike(done, next(iter(self.done.values()), done))
            self.done[seed] = done
            self.open.pop(seed, None)
            if state is not None and self.longer and self.path is not None:
                packed = pack(state.arrays())
                if packed.nbytes <= MOST:
                    self.ended[seed] = packed
        else:
            self.open[seed] = rounds, state  # one assignment: a flush may follow
        self._behind = True
        for callback in self.callbacks:
            callback(seed, len(rounds) - 1, arrays)
        due = self.pace == "round" or (self.pace == "seed" and seed in self.done)
        due |= not self.pending()
        if due or time.monotonic() - self._wrote >= self._cost / SHARE:
            self.flush()

    def blamed(self) -> AbstractContextManager[None]:
        """Report errors as faults of the file, where results are from it."""
        return blaming(str(self.path), self.kind) if self._resumed else nullcontext()

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
        if not self.pending():
            with self.blamed():
                summary = plain(self.experiment.summarise(self.settings, arrays))
        arrays["seeds"] = np.array(seeds, dtype=np.int64)
        for seed, state in states.items():
            rounds, held = _stacked(self.open[seed][0]), {} if state is None else state.arrays()
            arrays |= {f"{_OPEN}/{seed}/rounds/{name}": array for name, array in rounds.items()}
            arrays[f"{_OPEN}/{seed}/state"] = pack(held)
        arrays |= {f"{_ENDED}/{seed}": state for seed, state in self.ended.items()}
        counts = len(seeds), len(self.seeds)
        return Run(self.kind, self.config, arrays, summary, self.provenance, *counts)

    def resume(self) -> None:
        """Read the results in the file at `path`, if there is one.

        It is refused with another experiment, other settings, other data, or other versions, with
        which results may differ in their last bits.
        """
        if self.path is None or not Path(self.path).exists():
            return
        remove_leftovers(self.path)
        run = Run.load(self.path)
        self._check(run)
        require_seeds(run, self.path)
        self._resumed = True
        with self.blamed():
            self._take(run)

    def _check(self, run: Run) -> None:
        """Refuse a run that this one does not continue."""
        if run.kind != self.kind:
            raise RunFileError(f"{self.path}: holds a run of {run.kind}, not of {self.kind}")
        first = first_seed(run.config)
        if first != self.seeds.start:
            raise ArgumentError("seeds", f"from {first} on, as in {self.path}", self.seeds.start)
        here, there = (config.get("device", "cpu") for config in (self.config, run.config))
        if here != there:
            raise RunFileError(f"{self.path}: made on {there}, not on {here}: say --device {there}")
        held, mine = run.config.get("rounds"), self.config.get("rounds", 0)
        if self.longer and isinstance(held, int) and 0 < held < mine:
            self.experiment.check_longer(self.settings, held)
            run = replace(run, config=run.config | {"rounds": mine})
        require_settings(run, self.config, self.path)
        for name, here in self.provenance.items():
            made = run.provenance.get(name, here)
            if made != here:
                way = "resume it where it was made, or start anew"
                raise RunFileError(f"{self.path}: made with {name} {made}, here is {here}; {way}")

    def _take(self, run: Run) -> None:
        """Take the results of a run, and open seeds again that are to have more rounds."""
        self.ended = {int(seed): array for seed, array in below(run.arrays, _ENDED).items()}
        for name, array in run.arrays.items():
            if name != "seeds" and name.partition("/")[0] not in (_OPEN, _ENDED, FOUND):
                for seed, value in zip(run.arrays["seeds"].tolist(), array, strict=True):
                    self.done.setdefault(seed, {})[name] = value
        for seed, held in _opened(run).items():
            rounds = _apart(below(held, "rounds"))
            known = self.by_round and seed in self.seeds and seed not in self.done
            if not (known and 1 <= len(rounds) < (self.rounds or len(rounds) + 1)):
                raise RunFileError(f"{self.path}: its seed {seed} is not one to be continued")
            self._reopen(seed, rounds, held["state"])
        for seed in sorted(self.done) if self.longer else ():
            rounds = _apart(self.done[seed])
            if len(rounds) < (self.rounds or 0):
                if seed not in self.ended:
                    lack = f"no networks to go on with after round {len(rounds)}: they are kept"
                    raise RunFileError(f"{self.path}: holds {lack} up to {MOST >> 20} MB a seed")
                self._reopen(seed, rounds, self.ended.pop(seed))
                del self.done[seed]

    def _reopen(self, seed: int, rounds: list[Arrays], state: np.ndarray) -> None:
        """Go on with a seed after some rounds."""
        try:
            self.open[seed] = rounds, FederationState.of_arrays(unpack(state))
        except (DataError, IndexError, KeyError, TypeError, ValueError) as error:
            raise RunFileError(f"{self.path}: state of seed {seed}: {shown(error)}") from None


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


def _stacked(parts: Sequence[Arrays]) -> Arrays:
    """Stack the arrays of seeds or rounds along a new first axis."""
    return {name: np.stack([part[name] for part in parts]) for name in (parts or [{}])[0]}


def _require_alike(part: Arrays, first: Arrays) -> None:
    """Refuse arrays whose shapes differ, or of which only some are numbers."""
    forms = [{n: (a.shape, a.dtype.kind in "biuf") for n, a in p.items()} for p in (first, part)]
    for name in sorted(first.keys() | part.keys()):
        mine, other = (form.get(name) for form in forms)
        if mine != other:
            raise ValueError(f"array {name!r} must be the same everywhere: {mine}, {other}")
