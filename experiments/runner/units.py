"""Units of work of runs, seeds or rounds of them, in other processes: of a pool, or of Dask.

A unit gives the same arrays in any process, and results are committed here, as they come. So it
makes no difference to a run where its units were computed.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from threading import Lock
from typing import Any

from hopfed._lib.cluster import cluster
from hopfed._lib.processes import begin_worker, end_pool, first_done
from hopfed.errors import HopfedError
from hopfed.experiments.runner.ledger import Ledger, State
from hopfed.federation.engines import Engine
from hopfed.federation.engines.local import LocalEngine

_ALONE = Lock()  # the number of threads of BLAS is one for a whole process


@dataclass(frozen=True, eq=False)
class Job:
    """A run that is under way.

    Attributes
    ----------
    module : name of the experiment's module.
    config : its settings.
    ledger : of its results.
    """

    module: str
    config: Any
    ledger: Ledger

    @property
    def place(self) -> dict[str, str]:
        """Argument of `run` that says where, if it is not the processor."""
        return {
            name: self.ledger.config[name] for name in ("device",) if name in self.ledger.config
        }


def unit(
    module: str,
    config: Any,
    seed: int,
    t: int,
    state: State | None,
    engine: Engine,
    place: dict[str, str],
) -> Any:
    """One seed, or one round of it: (arrays, state after it or None).

    Parameters
    ----------
    module, config : as of a `Job`.
    seed, t : which unit.
    state : that round t begins with.
    engine : of a federation's clients.
    place : as of a `Job`.
    """
    from threadpoolctl import threadpool_limits

    experiment = import_module(module)
    with threadpool_limits(1):  # the order of summation depends on the number of threads
        if hasattr(experiment, "run_round"):
            return experiment.run_round(config, seed, t, state, engine)
        return experiment.run(config, seed, **place), None


@contextmanager
def open_workers(engine: str, workers: int) -> Iterator[tuple[Executor, int]]:
    """Open worker processes, and say how many there are.

    Parameters
    ----------
    engine : "dask" for those of the cluster in use, or of one on this machine; else of a pool.
    workers : processes on this machine.

    Raises
    ------
    HopfedError : a process died.
    """
    try:
        if engine == "dask":
            with cluster(None, workers) as client:
                yield client.get_executor(pure=False), max(sum(client.nthreads().values()), 1)
        else:
            with _pool(workers) as pool:
                yield pool, workers
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
    # Spawned, not forked: a fork would inherit threads of BLAS and Numba in an unknown state.
    spawn = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, spawn, initializer=begin_worker)
    try:
        yield pool
    except BaseException:
        end_pool(pool, others)  # unfinished units are no longer needed
        raise
    pool.shutdown()


def has_died(error: BaseException) -> bool:
    """Whether an error says that a process ended: of a pool, or of Dask after several trials."""
    return isinstance(error, BrokenProcessPool) or type(error).__name__ == "KilledWorker"


def feed(
    pool: Executor,
    jobs: Sequence[Job],
    workers: int,
    tell: Callable[[], object],
    failed: Callable[[Job, Exception], object] | None = None,
) -> None:
    """Keep every worker busy with one unit; commit results in the order of completion.

    Parameters
    ----------
    pool : of the workers.
    jobs : runs whose units are to be computed.
    workers : units under way at a time.
    tell : called after every unit.
    failed : told of a run that cannot go on, while the others do; without it the error is raised.
    """
    waiting = [(job, seed) for job in jobs for seed in job.ledger.pending()][::-1]
    running: dict[Future[Any], tuple[Job, int]] = {}
    while waiting or running:
        while waiting and len(running) < workers:
            running[_submit(pool, *waiting[-1])] = waiting[-1]
            waiting.pop()
        for future in first_done(pool, running):
            job, seed = running.pop(future)
            try:
                _commit(job, seed, future)
            except Exception as error:
                if failed is None or isinstance(error, BrokenProcessPool):
                    raise
                failed(job, error)
                waiting = [pair for pair in waiting if pair[0] is not job]
                continue
            tell()
            if seed not in job.ledger.done:
                running[_submit(pool, job, seed)] = job, seed


def _commit(job: Job, seed: int, future: Future[Any]) -> None:
    error = future.exception()
    if error is not None and not has_died(error):
        with job.ledger.blamed(seed):
            raise error
    job.ledger.commit(seed, *future.result())


def _submit(pool: Executor, job: Job, seed: int) -> Future[Any]:
    position = job.ledger.position(seed)
    return pool.submit(_in_worker, job.module, job.config, seed, *position, job.place)


def _in_worker(
    module: str, config: Any, seed: int, t: int, state: State | None, place: dict[str, str]
) -> Any:
    """Compute a unit; return hopfed's errors as messages, since not all of them can be pickled."""
    try:
        with _ALONE:
            return unit(module, config, seed, t, state, LocalEngine(), place)
    except HopfedError as error:
        raise HopfedError(str(error)) from None
