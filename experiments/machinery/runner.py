"""Run an experiment over its seeds, in this process or in several.

Every seed draws from its own named streams and is computed with one BLAS thread, so results are the
same, bit for bit, in any process of one machine, in any order, and after an interruption; where the
clients of a round are divided among processes, up to the order of sums.
"""

from __future__ import annotations

import math
import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager, nullcontext
from functools import partial
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from hopfed._lib.dask_cluster import cluster
from hopfed._lib.memory_limits import require_memory
from hopfed._lib.outputs import check_writable
from hopfed._lib.processes import Pool, end_pool, first_done
from hopfed._lib.settings import require
from hopfed.errors import HopfedError
from hopfed.experiments import takes_argument
from hopfed.experiments.machinery.checkpoint import Callback, Ledger
from hopfed.federation.contract import Engine
from hopfed.federation.engines import LocalEngine
from hopfed.federation.engines.workers import DaskEngine, PoolEngine, has_died
from hopfed.runs import Run

PER_UNIT = 500  # smallest size in bytes of the arrays of a seed, or of one of its rounds
ENGINES = ("local", "pool", "dask", "flower")

_ALONE = Lock()  # the number of BLAS threads holds for a whole process


def execute(
    experiment: Any,
    config: Any,
    *,
    out: str | Path | None = None,
    resume: bool = False,
    engine: str | Engine = "local",
    workers: int = 1,
    at_once: bool = False,
    report: Callable[[int, int], object] | None = None,
    first: int = 0,
    device: str = "cpu",
    callbacks: Sequence[Callback] = (),
) -> Run:
    """Runner: run `experiment` over ``config.seeds`` seeds, from `first` on.

    Parameters
    ----------
    experiment : a module, see `hopfed.experiments`.
    config : its settings.
    out : run file, written after seeds and between the rounds of a federation, in at most a
        twentieth of the time. None writes no file.
    resume : continue the run in `out` if there is one; otherwise `out` must not exist. It may get
        more seeds, and a run of `hopfed fl` more rounds, also when it is finished.
    engine : "local" runs `workers` seeds at a time; "pool" the clients of a round of a federation
        in `workers` processes; "dask" gives seeds, or the clients of a round where there are fewer
        seeds than `workers`, to the Dask cluster in use, or to `workers` processes here; "flower"
        runs clients as nodes of Flower in this process; an engine object stays open.
    workers : number of processes. Results of "local" do not depend on it. Other engines give
        the same up to the order of sums, where clients are trained together or elsewhere.
    at_once : write the run file after every round, at any cost.
    report : called with the seeds, or rounds of a federation, that are finished and planned.
    first : the first seed; where settings were tuned on some seeds, report others, from 100 on.
    device : device of recoveries, if the `measure` of the experiment takes it; "cpu" for others.
    callbacks : called with seed, round and arrays of each committed round. They cannot change
        results; an error of theirs ends the run, whose committed rounds are kept.

    Raises
    ------
    ArgumentError : `out` exists and `resume` is False, or `out` cannot be written.
    RunFileError : `out` holds another run, or the disk is full; committed results stay.

    Examples
    --------
    >>> from hopfed.experiments import find_experiment
    >>> bbp = find_experiment("bbp")
    >>> execute(bbp, bbp.Config(N=50, M=(100,), seeds=2)).complete
    True
    """
    federated = hasattr(experiment, "measure_round") or takes_argument(experiment, "engine")
    anything = federated or engine in ("local", "dask")
    require(anything, "engine", "local or dask: this is not a federation", engine)
    alone = engine in ENGINES[:3] or workers == 1
    require(alone, "workers", "1 with this engine: its nodes share one process", workers)
    check_fits(config)
    how: dict[str, Any] = {"first": first, "device": device, "callbacks": callbacks}
    ledger = Ledger(experiment, config, out, resume, share=math.inf if at_once else None, **how)
    if not ledger.pending():
        return ledger.run()
    if out is not None:
        check_writable(out)
    by_seed = engine == "local" and workers > 1
    if engine == "dask":
        by_seed = not federated or len(ledger.pending()) >= workers
    compute_missing_units([ledger], engine, workers, by_seed, report)
    return ledger.run()


def check_fits(config: Any) -> None:
    """Runner: refuse settings whose least arrays, or `least_memory`, do not fit into memory."""

    def most(name: str) -> int:
        return int(np.max(getattr(config, name, 0)))

    units = config.seeds * max(1, most("rounds"))
    require_memory(PER_UNIT * units, "results of all seeds and rounds")
    N, rows = most("N"), max(most("M"), most("clients") * max(1, most("examples")))
    least = getattr(config, "least_memory", max(8 * N**2, rows * max(1, N) // 8))
    require_memory(least, f"{rows} examples and operators of N = {N} sites")


def compute_unit(
    job: tuple[str, Any, dict[str, str]], seed: int, t: int, state: Any, engine: Any
) -> Any:
    """Runner: a seed, or its round `t` from `state`: (arrays, state after it, None at the end)."""
    module, config, device = job
    experiment = import_module(module)
    with threadpool_limits(1):  # the order of summation depends on the number of threads
        if hasattr(experiment, "measure_round"):
            return experiment.measure_round(seed, config, t, state, engine)
        clients = {"engine": engine} if takes_argument(experiment, "engine") else {}
        return experiment.measure(seed, config, **device, **clients), None


def _in_worker(*call: Any) -> Any:
    """Compute a unit; return hopfed's errors as messages, since not all of them can be pickled."""
    try:
        with _ALONE:
            return compute_unit(*call, LocalEngine())  # type: ignore[call-arg]
    except HopfedError as error:
        raise HopfedError(str(error)) from None


class InlineExecutor(Executor):
    """Executor that makes a call at once, in this process."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Make a call, and keep its result or error; Ctrl-C ends it at once."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


@contextmanager
def open_engine(
    engine: str | Engine, workers: int, by_seed: bool
) -> Iterator[tuple[Executor, int, Callable[..., Any]]]:
    """Runner: open processes for seeds, of Dask if it is the engine; else an engine of clients.

    Return the executor, its number of calls at once, and the function to call with a unit.
    """
    if by_seed and engine == "dask":
        with cluster(None, workers) as client:
            size = max(sum(client.nthreads().values()), 1)
            yield client.get_executor(pure=False), size, _in_worker
    elif by_seed:
        others, pool = set(multiprocessing.active_children()), Pool(workers)
        try:
            yield pool, workers, _in_worker
        except BaseException:
            end_pool(pool, others)  # unfinished units are no longer needed
            raise
        pool.shutdown()
    else:
        made: Any = nullcontext(LocalEngine() if engine == "local" else engine)
        if engine in ("pool", "dask"):
            made = (PoolEngine if engine == "pool" else DaskEngine)(workers)
        elif engine == "flower":
            from hopfed.federation.engines.flower import FlowerEngine

            made = nullcontext(FlowerEngine())
        with made as clients:
            yield InlineExecutor(), 1, partial(compute_unit, engine=clients)


def compute_missing_units(
    runs: Sequence[Ledger],
    engine: str | Engine,
    workers: int,
    by_seed: bool,
    report: Callable[[int, int], object] | None = None,
    failed: Callable[[Ledger, Exception], object] | None = None,
) -> None:
    """Runner: compute missing units of runs, written in order of completion; all workers are busy.

    `failed` is called with a run that cannot go on; the others do.
    """
    require(workers >= 1, "workers", "at least 1", workers)
    known = hasattr(engine, "step") or engine in ENGINES
    require(known, "engine", f"one of {', '.join(ENGINES)}", engine)
    waiting = [(run, seed) for run in runs for seed in run.pending()][::-1]
    left = list(dict.fromkeys(run for run, _ in waiting))
    running: dict[Future[Any], tuple[Ledger, int]] = {}

    def tell() -> None:
        if report is not None and left:
            report(*map(sum, zip(*(run.progress() for run in left), strict=True)))

    tell()
    try:
        with open_engine(engine, workers, by_seed) as (pool, size, call):
            while waiting or running:
                while waiting and len(running) < size:
                    run, seed = waiting.pop()
                    rounds, state = run.open.get(seed, ((), None))
                    running[pool.submit(call, run.job, seed, len(rounds), state)] = run, seed
                for future in first_done(pool, running):
                    run, seed = running.pop(future)
                    try:
                        with run.blamed():
                            found = future.result()
                        run.commit(seed, *found)
                    except Exception as error:
                        if failed is None or has_died(error.__cause__ or error):
                            raise
                        failed(run, error)
                        waiting = [pair for pair in waiting if pair[0] is not run]
                        continue
                    tell()
                    if seed not in run.done:
                        waiting.append((run, seed))
    except Exception as error:
        if not has_died(error.__cause__ or error):
            raise
        raise HopfedError(
            "a worker process died, perhaps for lack of memory; the seeds committed so far "
            "are kept: continue with --resume and fewer workers"
        ) from error
    finally:  # also after Ctrl-C; only a killed process loses a round
        for run in left:
            run.flush()
