"""The engines `pool` and `dask`: clients in worker processes, with the same results as `local`.

A method travels to every worker once. Clients whose worker ends are asked again.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import pickle
from collections.abc import Sequence
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, suppress
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any

from hopfed._lib.arrays import blas_threads
from hopfed._lib.dask_cluster import cluster
from hopfed._lib.processes import Pool, end_pool, first_done
from hopfed._lib.settings import require
from hopfed.errors import HopfedError
from hopfed.federation.contract import Call, Fault, Method, Outcome
from hopfed.federation.engines import LocalEngine

DIED = Outcome(fault=Fault.DIED, reason="its process ended")
_ALONE = Lock()  # the number of threads of BLAS is one for a whole process


class PoolEngine(ExitStack):
    """Engine `pool`: client steps in `workers` processes; a context manager."""

    def __init__(self, workers: int | None = None):
        require(workers is None or workers >= 1, "workers", "at least 1", workers)
        super().__init__()
        self.workers: Any = workers
        self._pool: Any = None
        self._last: tuple[Method, Any] | None = None
        self._folder = Path(self.enter_context(TemporaryDirectory(prefix="hopfed-")))
        self.callback(self._end_pool)

    def step(self, method: Method, calls: Sequence[Call]) -> list[Outcome]:
        """Outcomes in the order of `calls`."""
        self._begin()
        outcomes: dict[int, Outcome] = {}
        tasks = divide_calls(method, calls, self.workers)
        # Calls that are lost with a process are repeated beside few others, and then alone: if the
        # process ends once more, the call is the cause.
        for width in (len(tasks), self.workers, 1):
            lost: list[int] = []
            for start in range(0, len(tasks), max(width, 1)):
                batch = tasks[start : start + width]
                done = self._batch(method, [[calls[i] for i in task] for task in batch])
                for task, found in zip(batch, done, strict=True):
                    if found is None:
                        lost += task
                    else:
                        outcomes |= zip(task, found, strict=True)
            tasks = [[i] for i in lost]
        return [outcomes.get(i, DIED) for i in range(len(calls))]

    def _begin(self) -> None:
        if self._pool is None:
            self._others = set(multiprocessing.active_children())
            self.workers = self.workers or 1
            self._pool = Pool(self.workers)

    def _end_pool(self) -> None:
        if isinstance(self._pool, Pool):
            end_pool(self._pool, self._others)
            self._pool = None

    def _batch(self, method: Method, tasks: list[list[Call]]) -> list[list[Outcome] | None]:
        """Outcomes of tasks made at once; None for a task that was lost with its process."""
        self._begin()
        if self._last is None or self._last[0] is not method:
            self._last = method, self._sent(method)
        futures: list[Future[list[Outcome]]] = []
        with suppress(BrokenProcessPool):  # by a call submitted just before
            for task in tasks:
                futures.append(self._pool.submit(_answer, self._last[1], task))
        done = [self._result(future) for future in futures]
        done += [None] * (len(tasks) - len(done))
        if None in done:
            self._end_pool()
        return done

    def _result(self, future: Future[list[Outcome]]) -> list[Outcome] | None:
        try:
            return first_done(self._pool, [future]).pop().result()
        except Exception as error:
            if has_died(error):
                return None
            raise

    def _sent(self, method: Method) -> Any:
        """Write a method to a file, and return its path; equal methods have one file."""
        payload = pickle.dumps(method)
        path = self._folder / hashlib.sha256(payload).hexdigest()
        if not path.exists():
            path.write_bytes(payload)
        return str(path)


class DaskEngine(PoolEngine):
    """Engine `dask`: client steps on the Dask cluster in use, or in processes of its own.

    States go with the steps, and come back. Dask gives the clients of a lost worker to other
    workers. A process makes one step at a time, so give workers one thread each.
    """

    def _begin(self) -> None:
        if self._pool is None:
            self._client = self.enter_context(cluster(None, self.workers))
            self.workers = max(sum(self._client.nthreads().values()), 1)
            self._pool = self._client.get_executor(pure=False)

    def _sent(self, method: Method) -> Any:
        """Send a method to the cluster, which restores it if it is lost."""
        from cloudpickle import dumps  # it also pickles classes of a notebook

        return self._client.submit(unpickle_method, dumps(method), pure=False)


def has_died(error: BaseException) -> bool:
    """Whether an error says that a worker of the engine `pool` ended, or of `dask`, repeatedly."""
    return isinstance(error, BrokenProcessPool) or type(error).__name__ == "KilledWorker"


def divide_calls(method: Method, calls: Sequence[Call], workers: int) -> list[list[int]]:
    """Divide calls of a step among an engine's workers: lists of places, each of clients alike."""
    if not hasattr(method, "client_steps"):
        return [[i] for i in range(len(calls))]
    alike = getattr(method, "alike", None)
    groups: dict[Any, list[int]] = {}
    for i, call in enumerate(calls):
        groups.setdefault(alike and alike(call.context.client), []).append(i)
    found = [group[w::workers] for group in groups.values() for w in range(workers)]
    return [share for share in found if share]


def unpickle_method(payload: bytes) -> Method:
    """Unpickle a method in a worker of an engine; HopfedError if a module is missing there."""
    try:
        method: Method = pickle.loads(payload)
    except Exception as error:
        raise HopfedError(
            "a worker process could not load the method: its parts must be importable "
            f"from a module ({error})"
        ) from None
    return method


@lru_cache(64)
def _method(path: str) -> Method:
    return unpickle_method(Path(path).read_bytes())


def _answer(sent: str | Method, calls: list[Call]) -> list[Outcome]:
    with _ALONE, blas_threads(1):  # the order of summation depends on the number of threads
        return LocalEngine().step(_method(sent) if isinstance(sent, str) else sent, calls)
