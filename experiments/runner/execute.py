"""Run an experiment over its seeds, in this process or in several, with the same results.

Every seed draws from its own named streams and is computed with one BLAS thread. So its results are
the same, bit for bit, in any process, in any order, and after an interruption.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from inspect import signature
from pathlib import Path
from typing import Any

from hopfed._lib.memory_limits import require_memory
from hopfed._lib.outputs import check_writable
from hopfed._lib.settings import require, to_plain
from hopfed.errors import ArgumentError
from hopfed.experiments import ON_DEVICE, Arrays
from hopfed.experiments.runner.ledger import Ledger
from hopfed.experiments.runner.units import Job, feed, open_workers, unit
from hopfed.federation.engines import Engine
from hopfed.federation.engines.dask import DaskEngine
from hopfed.federation.engines.local import LocalEngine
from hopfed.federation.engines.pool import PoolEngine
from hopfed.federation.states import BUDGET
from hopfed.runs import Run

PER_UNIT = 500  # smallest size in bytes of the arrays of a seed, or of one of its rounds
ENGINES = ("local", "pool", "dask", "flower")
MOST_SEEDS = 1_000_000

Report = Callable[[int, int], object]  # (units finished, units planned)


def execute(
    experiment: Any,
    config: Any,
    *,
    out: str | Path | None = None,
    resume: bool = False,
    engine: str | Engine = "local",
    workers: int = 1,
    memory: int = BUDGET,
    at_once: bool = False,
    report: Report | None = None,
    first: int = 0,
    device: str = "cpu",
    callbacks: Sequence[Callable[[int, int, Arrays], object]] = (),
) -> Run:
    """Run `experiment` over ``config.seeds`` seeds, from `first` on.

    Parameters
    ----------
    experiment : a module of `hopfed.experiments`, or any module with the same names.
    config : its settings.
    out : run file, written after every seed. For a federation it is also written between rounds,
        which may take up to a twentieth of the time. None writes no file.
    resume : continue the run in `out` if there is one; otherwise `out` must not exist.
    engine : "local" runs every seed in one process, `workers` of them at a time; "pool", for a
        federation, runs the clients of a round in `workers` processes, one seed after the other;
        "dask" gives seeds, or the clients of a round where there are fewer seeds than `workers`, as
        tasks to the Dask cluster in use, or to `workers` processes here; "flower" runs clients as
        nodes of Flower in this process; an engine object stays open.
    workers : number of processes. The results depend neither on it nor on the engine.
    memory : bytes of the clients' states to keep in memory; the others are in files.
    at_once : write the run file after every round, at any cost.
    report : called after every seed, or every round of a federation.
    first : the first seed; others than those that settings were tuned on are drawn from 100 on.
    device : where an experiment recovers whose `run` takes a `device`; "cpu" for all others.
    callbacks : see `hopfed.experiments.shared.callbacks`.

    Raises
    ------
    ArgumentError : `out` exists and `resume` is False, or `out` cannot be written.
    RunFileError : `out` holds another run, or the disk is full; committed results stay.

    Examples
    --------
    >>> from hopfed.experiments import find
    >>> bbp = find("bbp")
    >>> execute(bbp, bbp.Config(N=50, M=(100,), seeds=2)).complete
    True
    """
    _check(hasattr(experiment, "run_round"), engine, workers, memory)
    check_fits(config)
    more = _elsewhere(experiment, device) | ({"first_seed": first} if first else {})
    ledger = begun(experiment, config, out, resume, memory, more, callbacks)
    if not ledger.pending():
        return ledger.run()
    new = out is not None and not Path(out).exists()
    if out is not None:
        check_writable(out)
        ledger.write()
    tell = report or _silent
    tell(*ledger.progress())
    try:
        _play(Job(experiment.__name__, config, ledger), engine, workers, tell, at_once)
    except BaseException:  # includes Ctrl-C; only a killed process loses a round
        ledger.flush()
        if new and not ledger.done and not ledger.open:  # no results, so no file is left
            Path(str(out)).unlink(missing_ok=True)
        raise
    return ledger.run()


def _play(job: Job, engine: str | Engine, workers: int, tell: Report, at_once: bool) -> None:
    """Compute what is missing: seeds side by side, or one after the other."""
    ledger = job.ledger
    if _by_seed(engine, workers, ledger):
        with open_workers(str(engine), workers) as (pool, number):
            feed(pool, [job], number, lambda: tell(*ledger.progress()))
    else:
        with _opened(engine, workers) as clients:
            serial(job, tell, clients, at_once)


def _by_seed(engine: str | Engine, workers: int, ledger: Ledger) -> bool:
    """Whether seeds are computed side by side, and not the clients of one."""
    if engine == "dask":
        return not ledger.by_round or len(ledger.pending()) >= workers
    return engine == "local" and workers > 1


def _check(by_round: bool, engine: str | Engine, workers: int, memory: int) -> None:
    require(workers >= 1, "workers", "at least 1", workers)
    require(memory >= 0, "memory", "at least 0", memory)
    known = not isinstance(engine, str) or engine in ENGINES
    require(known, "engine", f"one of {', '.join(ENGINES)}", engine)
    anything = engine in ("local", "dask")
    require(by_round or anything, "engine", "local or dask: this is not a federation", engine)
    alone = engine in ("local", "pool", "dask") or workers == 1
    require(alone, "workers", "1 with this engine: its nodes share one process", workers)


def check_fits(config: Any) -> None:
    """Refuse at the start settings whose smallest possible arrays do not fit into memory.

    Parameters
    ----------
    config : of an experiment. One that holds no operator of N x N, or not all sizes with one
        another, says what it needs at least: `least_memory`, in bytes.
    """
    require(config.seeds >= 1, "seeds", "at least 1", config.seeds)
    require(config.seeds <= MOST_SEEDS, "seeds", f"at most {MOST_SEEDS:,}", config.seeds)
    counts = {name: _most(getattr(config, name, 0)) for name in ("N", "M", "clients", "examples")}
    units = _most(config.seeds) * max(1, _most(getattr(config, "rounds", 1)))
    require_memory(PER_UNIT * units, "results of all seeds and rounds")
    least = getattr(config, "least_memory", None)
    if least is not None:
        require_memory(least, "the largest examples")
        return
    require_memory(8 * counts["N"] ** 2, f"operators of N = {counts['N']} sites")
    rows = max(counts["M"], counts["clients"] * max(1, counts["examples"]))
    require_memory(rows * max(1, counts["N"]) // 8, f"{rows} examples of N = {counts['N']} sites")


def _elsewhere(experiment: Any, device: str) -> dict[str, str]:
    """The device as a further setting of a run, empty for the processor."""
    if device == "cpu":
        return {}
    if "device" not in signature(getattr(experiment, "run", _silent)).parameters:
        name = experiment.__name__.rpartition(".")[2]
        rule = f"cpu: {name} computes there only; {', '.join(ON_DEVICE)} can elsewhere"
        raise ArgumentError("device", rule, device)
    return {"device": device}


def _most(value: Any) -> int:
    """Largest whole number in a setting; 0 for settings of another type."""
    values = value if isinstance(value, tuple) else (value,)
    return max((v for v in values if isinstance(v, int)), default=0)


def begun(
    experiment: Any,
    config: Any,
    out: str | Path | None,
    resume: bool,
    memory: int,
    more: dict[str, Any],
    callbacks: Sequence[Callable[[int, int, Arrays], object]] = (),
) -> Ledger:
    """Ledger of a run, with the results in `out` if the run is continued.

    Parameters
    ----------
    experiment, config, out, resume, memory, callbacks : as of `execute`.
    more : settings beside those of `config`.
    """
    by_round = hasattr(experiment, "run_round")
    ledger = Ledger(
        experiment.__name__.rpartition(".")[2],
        to_plain(config) | more,
        lambda arrays: experiment.summarise(config, arrays),
        by_round=by_round,
        rounds=getattr(config, "played", getattr(config, "rounds", None)) if by_round else 1,
        joined=getattr(config, "joined", None),
        callbacks=callbacks,
        path=out,
        memory=memory,
    )
    if resume:
        ledger.resume()
    elif out is not None and Path(out).exists():
        raise ArgumentError("out", "a new file, or one to continue with --resume", out)
    return ledger


def _opened(engine: str | Engine, workers: int) -> AbstractContextManager[Engine]:
    """Engine of that name, closed with the context."""
    if not isinstance(engine, str):
        return nullcontext(engine)
    if engine == "pool":
        return PoolEngine(workers)
    if engine == "flower":
        from hopfed.federation.engines.flower import FlowerEngine

        return FlowerEngine.simulated()
    if engine == "dask":
        return DaskEngine(workers)
    return nullcontext(LocalEngine())


def _silent(done: int, planned: int) -> None:
    """Ignore a report."""


def serial(job: Job, tell: Report, engine: Engine, at_once: bool = False) -> None:
    """Compute the units of a run one after the other, in this process.

    Parameters
    ----------
    job : the run.
    tell : called after every unit.
    engine : of a federation's clients.
    at_once : write the run file after every unit.
    """
    ledger = job.ledger
    for seed in ledger.pending():
        while seed not in ledger.done:
            with ledger.blamed(seed):
                position = ledger.position(seed)
                made = unit(job.module, job.config, seed, *position, engine, job.place)
            ledger.commit(seed, *made)
            if at_once:
                ledger.flush()
            tell(*ledger.progress())
