"""Run an experiment over its seeds, in this process or in several.

Every seed draws from its own named streams and is computed with one BLAS thread, so results are the
same, bit for bit, in any process of one machine, in any order, and after an interruption; where the
clients of a round are divided among processes, up to the order of sums.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from inspect import signature
from pathlib import Path
from threading import Lock
from typing import Any

from threadpoolctl import threadpool_limits

from hopfed._lib.cluster import cluster
from hopfed._lib.memory_limits import require_memory
from hopfed._lib.outputs import check_writable
from hopfed._lib.processes import Pool, end_pool, first_done
from hopfed._lib.settings import require, to_plain
from hopfed.errors import ArgumentError, HopfedError
from hopfed.experiments import ON_DEVICE, Arrays, name_of
from hopfed.experiments.ledger import Ledger
from hopfed.experiments.settings import MOST_SEEDS
from hopfed.federation.engines import Engine
from hopfed.federation.engines.local import LocalEngine
from hopfed.federation.engines.workers import DaskEngine, PoolEngine
from hopfed.runs import Run

PER_UNIT = 500  # smallest size in bytes of the arrays of a seed, or of one of its rounds
ENGINES = ("local", "pool", "dask", "flower")

Report = Callable[[int, int], object]  # (units finished, units planned)
Callback = Callable[[int, int, Arrays], object]

_ALONE = Lock()  # the number of threads of BLAS is one for a whole process


def execute(
    experiment: Any,
    config: Any,
    *,
    out: str | Path | None = None,
    resume: bool = False,
    engine: str | Engine = "local",
    workers: int = 1,
    at_once: bool = False,
    report: Report | None = None,
    first: int = 0,
    device: str = "cpu",
    callbacks: Sequence[Callback] = (),
) -> Run:
    """Run `experiment` over ``config.seeds`` seeds, from `first` on.

    Parameters
    ----------
    experiment : a module, see `hopfed.experiments.Experiment`.
    config : its settings.
    out : run file, written after every seed and, which may take up to a twentieth of the time,
        between the rounds of a federation. None writes no file.
    resume : continue the run in `out` if there is one; otherwise `out` must not exist. It may get
        more seeds, and a run of `hopfed fl` more rounds, also when it is finished.
    engine : "local" runs every seed in one process, `workers` of them at a time; "pool", for a
        federation, runs the clients of a round in `workers` processes, one seed after the other;
        "dask" gives seeds, or the clients of a round where there are fewer seeds than `workers`, as
        tasks to the Dask cluster in use, or to `workers` processes here; "flower" runs clients as
        nodes of Flower in this process; an engine object stays open.
    workers : number of processes. Results of "local" do not depend on it. Another engine has the
        same up to the order of sums, where clients are trained together or elsewhere.
    at_once : write the run file after every round, at any cost.
    report : called after every seed, or every round of a federation.
    first : the first seed; others than those that settings were tuned on are drawn from 100 on.
    device : where an experiment recovers whose `measure` takes a `device`; "cpu" for all others.
    callbacks : called with seed, round and arrays, as soon as those of a round are committed. They
        cannot change results; an error of theirs ends the run, whose committed rounds are kept.

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
    by_round = hasattr(experiment, "measure_round")
    federated = by_round or "engine" in signature(experiment.measure).parameters
    require(workers >= 1, "workers", "at least 1", workers)
    known = not isinstance(engine, str) or engine in ENGINES
    require(known, "engine", f"one of {', '.join(ENGINES)}", engine)
    anything = federated or engine in ("local", "dask")
    require(anything, "engine", "local or dask: this is not a federation", engine)
    alone = engine in ENGINES[:3] or workers == 1
    require(alone, "workers", "1 with this engine: its nodes share one process", workers)
    check_fits(config)
    job = begun(experiment, config, out, resume, first, device, callbacks)
    ledger = job.ledger
    if not ledger.pending():
        return ledger.run()
    ledger.pace = "round" if at_once else "seed"
    new = out is not None and not Path(out).exists()
    if out is not None:
        check_writable(out)
        ledger.write()
    by_seed = engine == "local" and workers > 1
    if engine == "dask":
        by_seed = not federated or len(ledger.pending()) >= workers
    try:
        carry_out([job], engine, workers, by_seed, report)
    except BaseException:
        if new and not ledger.done and not ledger.open:  # no results, so no file is left
            Path(str(out)).unlink(missing_ok=True)
        raise
    return ledger.run()


def check_fits(config: Any) -> None:
    """Refuse at the start settings whose smallest possible arrays do not fit into memory.

    Settings without operators of N x N, or whose sizes do not all meet, have `least_memory`.
    """
    require(1 <= config.seeds <= MOST_SEEDS, "seeds", f"1 to {MOST_SEEDS:,}", config.seeds)

    def most(name: str) -> int:
        held = getattr(config, name, 0)
        whole = (v for v in (held if isinstance(held, tuple) else (held,)) if isinstance(v, int))
        return max(whole, default=0)

    units = config.seeds * max(1, most("rounds"))
    require_memory(PER_UNIT * units, "results of all seeds and rounds")
    N, rows = most("N"), max(most("M"), most("clients") * max(1, most("examples")))
    least = getattr(config, "least_memory", None)
    if least is None:
        require_memory(8 * N**2, f"operators of N = {N} sites")
        least = rows * max(1, N) // 8
    require_memory(least, f"{rows} examples of N = {N} sites")


@dataclass(frozen=True, eq=False)
class Job:
    """A run that is under way: its experiment's module, settings, device if told, and results."""

    module: str
    config: Any
    ledger: Ledger
    device: dict[str, str]


def begun(
    experiment: Any,
    config: Any,
    out: str | Path | None,
    resume: bool,
    first: int = 0,
    device: str = "cpu",
    callbacks: Sequence[Callback] = (),
    longer: bool = True,
) -> Job:
    """Begin a run, with the results in `out` if it is continued; see `execute`.

    With `longer` it is one that may get more rounds when it is finished.
    """
    name, by_round = name_of(experiment), hasattr(experiment, "measure_round")
    told = {"device": device} if device != "cpu" else {}
    if told and (by_round or "device" not in signature(experiment.measure).parameters):
        rule = f"cpu: {name} computes there only; {', '.join(ON_DEVICE)} can elsewhere"
        raise ArgumentError("device", rule, device)
    check = getattr(experiment, "check_longer", None) if longer else None
    alarm = [experiment.Alarm(config)] if hasattr(experiment, "Alarm") else []
    ledger = Ledger(
        name,
        to_plain(config) | ({"first_seed": first} if first else {}) | told,
        lambda arrays: experiment.summarise(config, arrays),
        by_round=by_round,
        rounds=_rounds(config) if by_round else 1,
        joined=getattr(config, "joined", None),
        longer=check and partial(check, config),
        callbacks=[*alarm, *callbacks],
        path=out,
    )
    if resume:
        ledger.resume()
    elif out is not None and Path(out).exists():
        raise ArgumentError("out", "a new file, or one to continue with --resume", out)
    return Job(experiment.__name__, config, ledger, told)


def _rounds(config: Any) -> int | None:
    """Rounds of a seed, where settings say how many."""
    return getattr(config, "played", getattr(config, "rounds", None))


def unit(job: tuple[str, Any, dict[str, str]], seed: int, t: int, state: Any, engine: Any) -> Any:
    """One seed, or round `t` of it from `state`: (arrays, state after it, None after the last)."""
    module, config, device = job
    experiment = import_module(module)
    with threadpool_limits(1):  # the order of summation depends on the number of threads
        if hasattr(experiment, "measure_round"):
            at = seed, config, t, state, engine or LocalEngine()
            arrays, after = experiment.measure_round(*at)
            ends = t + 1 == _rounds(config) and not hasattr(experiment, "check_longer")
            return arrays, None if ends else after
        takes = "engine" in signature(experiment.measure).parameters
        clients = {"engine": engine or LocalEngine()} if takes else {}
        return experiment.measure(seed, config, **device, **clients), None


def _in_worker(*call: Any) -> Any:
    """Compute a unit; return hopfed's errors as messages, since not all of them can be pickled."""
    try:
        with _ALONE:
            return unit(*call, None)  # type: ignore[call-arg]
    except HopfedError as error:
        raise HopfedError(str(error)) from None


@dataclass(frozen=True)
class Workers:
    """What computes units: `size` processes of a pool, or this one, with one engine of clients."""

    pool: Executor | None
    size: int = 1
    engine: Engine | None = None

    def submit(self, job: Job, seed: int) -> Future[Any]:
        """Hand out the next unit of a seed; in this process it is computed at once."""
        call = (job.module, job.config, job.device), seed, *job.ledger.position(seed)
        if self.pool is not None:
            return self.pool.submit(_in_worker, *call)
        future: Future[Any] = Future()
        try:
            future.set_result(unit(*call, self.engine))
        except Exception as error:  # Ctrl-C and the like are not kept for later
            future.set_exception(error)
        return future


@contextmanager
def opened(engine: str | Engine, workers: int, by_seed: bool) -> Iterator[Workers]:
    """Open worker processes for seeds, of Dask if it is the engine; else an engine of clients."""
    if not by_seed:
        made: Any = nullcontext(LocalEngine() if engine == "local" else engine)
        if engine in ("pool", "dask"):
            made = (PoolEngine if engine == "pool" else DaskEngine)(workers)
        elif engine == "flower":
            from hopfed.federation.engines.flower import FlowerEngine

            made = FlowerEngine()
        with made as clients:
            yield Workers(None, engine=clients)
        return
    try:
        if engine == "dask":
            with cluster(None, workers) as client:
                size = max(sum(client.nthreads().values()), 1)
                yield Workers(client.get_executor(pure=False), size)
        else:
            with _pool(workers) as pool:
                yield Workers(pool, workers)
    except Exception as error:
        if not has_died(error):
            raise
        raise HopfedError(
            "a worker process died, perhaps for want of memory; the seeds committed so far "
            "are kept: continue with --resume and fewer workers"
        ) from error


@contextmanager
def _pool(workers: int) -> Iterator[Executor]:
    """Processes that end with the context, even after an error."""
    others = set(multiprocessing.active_children())
    pool = Pool(workers)
    try:
        yield pool
    except BaseException:
        end_pool(pool, others)  # unfinished units are no longer needed
        raise
    pool.shutdown()


def has_died(error: BaseException) -> bool:
    """Whether an error says that a process ended: of a pool, or of Dask after several trials."""
    return isinstance(error, BrokenProcessPool) or type(error).__name__ == "KilledWorker"


def carry_out(
    jobs: Sequence[Job],
    engine: str | Engine,
    workers: int,
    by_seed: bool,
    report: Report | None = None,
    failed: Callable[[Job, Exception], object] | None = None,
) -> None:
    """Compute what runs lack, and write it; `failed` is called of one that cannot go on."""
    left = [job for job in jobs if job.ledger.pending()]
    if not left:
        return

    def tell() -> None:
        counts = [job.ledger.progress() for job in left]
        if report is not None:
            report(*map(sum, zip(*counts, strict=True)))

    tell()
    try:
        with opened(engine, workers, by_seed) as able:
            feed(able, left, tell, failed)
    finally:  # also after Ctrl-C; only a killed process loses a round
        for job in left:
            job.ledger.flush()


def feed(
    workers: Workers,
    jobs: Sequence[Job],
    tell: Callable[[], object],
    failed: Callable[[Job, Exception], object] | None = None,
) -> None:
    """Keep every worker busy with one unit; commit results in the order of completion.

    `tell` is called after every unit; `failed` of a run that cannot go on, while the others do.
    """
    waiting = [(job, seed) for job in jobs for seed in job.ledger.pending()][::-1]
    running: dict[Future[Any], tuple[Job, int]] = {}
    while waiting or running:
        while waiting and len(running) < workers.size:
            running[workers.submit(*waiting[-1])] = waiting[-1]
            waiting.pop()
        for future in first_done(workers.pool, running):  # type: ignore[arg-type]
            job, seed = running.pop(future)
            try:
                error = future.exception()
                if error is not None and not has_died(error):
                    with job.ledger.blamed(seed):
                        raise error
                job.ledger.commit(seed, *future.result())
            except Exception as error:
                if failed is None or isinstance(error, BrokenProcessPool):
                    raise
                failed(job, error)
                waiting = [pair for pair in waiting if pair[0] is not job]
                continue
            tell()
            if seed not in job.ledger.done:
                running[workers.submit(job, seed)] = job, seed
