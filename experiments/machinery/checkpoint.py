"""The results of an experiment while it runs, seed by seed and round by round.

Every commit replaces the whole run file, so a killed process leaves the state after some commit,
and a run that was killed and resumed ends in the same bytes as an undisturbed one. Only its owner
may read a file with the states of clients.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from hopfed._lib.outputs import remove_leftovers
from hopfed._lib.settings import require, to_plain
from hopfed.errors import ArgumentError, DataError, RunFileError
from hopfed.experiments import ON_DEVICE, Arrays, experiment_name, takes_argument
from hopfed.federation.messages import pack, part_of, unpack
from hopfed.federation.rounds import FederationState
from hopfed.runs import FOUND, Run, blame_file, provenance, require_seeds, to_json_values

SHARE = 0.05  # share of the time that commits may take

_OPEN = "unfinished"  # arrays below this name belong to seeds whose last round is still to come
STATES = "ended"  # states after the last round so far, also of finished seeds, for more rounds
MOST = 1 << 26  # bytes of the state of a finished seed
ABSENT = {"first_seed": 0, "device": "cpu"}  # settings of a run without these entries

Callback = Callable[[int, int, Arrays], object]


class Ledger:
    """Committed results of a run, and the seeds and rounds that are left.

    Arguments are those of `hopfed.experiments.machinery.runner.execute`, and the `share` of the
    time that writing the file may take.
    """

    def __init__(
        self,
        experiment: Any,
        config: Any,
        path: str | Path | None = None,
        resume: bool = False,
        *,
        first: int = 0,
        device: str = "cpu",
        callbacks: Sequence[Callback] = (),
        share: float | None = None,
    ):
        self.experiment, self.settings, self.path = experiment, config, path
        self.share = SHARE if share is None else share
        self.kind = experiment_name(experiment)
        can = device == "cpu" or takes_argument(experiment, "device")
        others = f"cpu: {self.kind} computes there only; {', '.join(ON_DEVICE)} can elsewhere"
        require(can, "device", others, device)
        place = {"device": device} if device != "cpu" else {}
        self.job = experiment.__name__, config, place
        self.config = to_plain(config) | ({"first_seed": first} if first else {}) | place
        self.by_round = hasattr(experiment, "measure_round")
        rounds = getattr(config, "played", getattr(config, "rounds", None))
        self.rounds = rounds if self.by_round else 1  # rounds of a seed; None: unknown
        self.longer = path is not None and hasattr(experiment, "check_longer")  # may be extended
        alarm = [experiment.alarm(config)] if hasattr(experiment, "alarm") else []
        self.callbacks = (*alarm, *callbacks)
        self.seeds = range(first, first + config.seeds)
        self.done: dict[int, Arrays] = {}
        # Seeds between two rounds: the arrays of the rounds so far, and the state after the last.
        self.open: dict[int, tuple[list[Arrays], FederationState]] = {}
        self.ended: dict[int, np.ndarray] = {}  # states after the last round
        self._resumed = False  # whether results were read from the file
        self._behind = False  # whether some results are not in the file yet
        self._wrote, self._cost = 0.0, 0.0  # end time and duration of the last commit
        self.provenance = {**provenance()}
        if path is not None and self.by_round and hasattr(config, "fingerprint"):
            self.provenance |= config.fingerprint(first)
        if path is not None and Path(path).exists():
            require(resume, "out", "a new file, or one to continue with --resume", path)
            self._resume(path)

    def progress(self) -> tuple[int, int]:
        """Seeds finished and planned; if the number of rounds is known, rounds instead."""
        rounds = self.rounds or 1
        under_way = sum(len(played) for played, _ in self.open.values()) if rounds > 1 else 0
        return len(self.done) * rounds + under_way, len(self.seeds) * rounds

    def pending(self) -> list[int]:
        """Seeds that are not finished, in order."""
        return [seed for seed in self.seeds if seed not in self.done]

    def commit(self, seed: int, arrays: Arrays, state: FederationState | None = None) -> None:
        """Add the arrays of one seed, or of one round and the state after it.

        The file is written if that does not take too much of the time; `flush` writes the rest.
        """
        arrays = {name: np.asarray(value) for name, value in arrays.items()}
        rounds = [*(self.open[seed][0] if seed in self.open else ()), arrays]
        if state is not None and len(rounds) != self.rounds:
            self.open[seed] = rounds, state  # one assignment: an interrupt flushes
        else:
            with self.blamed():
                joined = getattr(self.settings, "joined", stack_seeds)
                self.done[seed] = joined(rounds) if self.by_round else arrays
            self.open.pop(seed, None)
            packed = pack(state.arrays()) if state is not None and self.longer else None
            if packed is not None and packed.nbytes <= MOST:
                self.ended[seed] = packed
        self._behind = True
        for callback in self.callbacks:
            callback(seed, len(rounds) - 1, arrays)
        if not self.pending() or time.monotonic() - self._wrote >= self._cost / self.share:
            self.flush()

    def blamed(self) -> AbstractContextManager[None]:
        """Report errors as faults of the file, where results come from it."""
        return blame_file(str(self.path), self.kind) if self._resumed else nullcontext()

    def flush(self) -> None:
        """Write the run file if some results are not in it yet."""
        if self.path is None or not self._behind:
            return
        self._behind, began = False, time.monotonic()
        self.run().save(self.path, private=bool(self.open or self.ended))
        self._wrote = time.monotonic()
        self._cost = self._wrote - began

    def run(self) -> Run:
        """Return the run with all present results, and a summary once all seeds are done."""
        with self.blamed():
            seeds, states, summary = sorted(self.done), dict(self.ended), {}
            arrays = stack_seeds([self.done[seed] for seed in seeds])
            if not self.pending():
                summary = to_json_values(self.experiment.summarise(self.settings, arrays))
            arrays["seeds"] = np.array(seeds, dtype=np.int64)
            for seed, (rounds, state) in self.open.items():
                if seed not in self.done:
                    states[seed] = pack(state.arrays())
                    arrays |= {f"{_OPEN}/{seed}/{n}": a for n, a in stack_seeds(rounds).items()}
            arrays |= {f"{STATES}/{seed}": state for seed, state in states.items()}
        counts = len(seeds), len(self.seeds)
        return Run(self.kind, self.config, arrays, summary, self.provenance, *counts)

    def _resume(self, path: str | Path) -> None:
        """Read the results in the file; refuse one with other settings, data or versions."""
        remove_leftovers(path)
        run = Run.load(path)
        held, mine = run.config.get("rounds"), self.config.get("rounds", 0)
        if self.longer and isinstance(held, int) and 0 < held < mine:
            self.experiment.check_longer(self.settings, held)
            run = replace(run, config=run.config | {"rounds": mine})
        require_settings(run, self.config | {"experiment": self.kind}, path)
        for name, here in self.provenance.items():
            made = run.provenance.get(name, here)
            if made != here:
                way = "resume it where it was made, or start anew"
                raise RunFileError(f"{path}: made with {name} {made}, here is {here}; {way}")
        require_seeds(run, path)
        self._resumed = True
        with self.blamed():
            self._take(run)

    def _take(self, run: Run) -> None:
        """Take the results of a run, and reopen seeds that get more rounds."""
        for name, array in run.arrays.items():
            if name != "seeds" and name.partition("/")[0] not in (_OPEN, STATES, FOUND):
                for seed, value in zip(run.arrays["seeds"].tolist(), array, strict=True):
                    self.done.setdefault(seed, {})[name] = value
        states = {int(seed): array for seed, array in part_of(run.arrays, STATES).items()}
        begun = _opened(run)
        for seed in sorted(self.done) if self.longer else ():
            if len(next(iter(self.done[seed].values()))) < self.settings.rounds:
                begun[seed] = self.done.pop(seed)
                lack = f"no networks to go on with: they are kept up to {MOST >> 20} MB a seed"
                if seed not in states:
                    raise RunFileError(f"{self.path}: holds {lack}")
        for seed, arrays in begun.items():
            each = zip(*arrays.values(), strict=False)
            rounds = [dict(zip(arrays, at, strict=True)) for at in each]
            if not (self.by_round and 0 < len(rounds) < (self.rounds or len(rounds) + 1)):
                raise RunFileError(f"{self.path}: its seed {seed} cannot be continued")
            try:
                self.open[seed] = rounds, FederationState.of_arrays(unpack(states.pop(seed)))
            except DataError as error:
                raise RunFileError(f"{self.path}: state of seed {seed}: {error}") from None
        self.ended = states


def results_so_far(run: Run) -> Run:
    """Results in the checkpoint of a run: finished seeds, else the rounds of seeds that began."""
    opened = _opened(run)
    if run.committed or not opened:
        return run
    rounds = min(len(array) for held in opened.values() for array in held.values())
    arrays = stack_seeds([{n: a[:rounds] for n, a in held.items()} for held in opened.values()])
    arrays["seeds"] = np.array([*opened])
    config, planned = run.config | {"rounds": rounds}, max(run.planned, len(opened) + 1)
    return replace(run, config=config, arrays=arrays, committed=len(opened), planned=planned)


def require_settings(run: Run, config: dict[str, Any], path: Any) -> None:
    """Refuse to continue a checkpoint with other settings than before, or with fewer seeds."""
    before = ABSENT | {"experiment": run.kind} | run.config
    wanted = ABSENT | json.loads(json.dumps(config))
    for name in sorted(wanted, key=lambda name: name != "experiment"):
        mine, held = wanted[name], before.get(name)
        if name == "seeds":
            if mine < run.planned:
                raise ArgumentError("seeds", f"at least {held}, as in {path}", mine)
        elif held != mine:
            raise RunFileError(f"{path}: made with {name} = {held}, not {mine}")


def _opened(run: Run) -> dict[int, Arrays]:
    """Arrays of each unfinished seed in the file, by the rest of the names."""
    found: dict[int, Arrays] = {}
    for name, array in part_of(run.arrays, _OPEN).items():
        seed, _, rest = name.partition("/")
        found.setdefault(int(seed), {})[rest] = array
    return found


def stack_seeds(parts: Sequence[Arrays]) -> Arrays:
    """Stack arrays of seeds or rounds in a checkpoint, which have the same names and shapes."""
    forms = [{(n, a.shape, a.dtype.kind in "biuf") for n, a in part.items()} for part in parts]
    for name, *_ in sorted(set().union(*(form ^ forms[0] for form in forms))):
        raise ValueError(f"array {name!r} must be the same in all seeds and rounds")
    return {name: np.stack([part[name] for part in parts]) for name in (parts or [{}])[0]}
