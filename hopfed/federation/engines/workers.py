"""The engines `pool` and `dask`: clients in worker processes, with the same results as `local`.

Workers have one thread per kernel. A method travels to every worker once, however many take turns.
Where a method steps clients together, every worker is handed its share of those that are alike.
Clients whose worker ends are asked again.

On one machine `pool` is for short steps: of 50 clients whose step does nothing it takes 25 ms in
two processes and `dask` 370 ms; of steps of 10 ms 0.28 s and 0.46 s, of 50 ms 1.34 s and 1.42 s
(best of several, in turns, on a busy machine).
"""

from __future__ import annotations

import hashlib
import multiprocessing
import pickle
from collections.abc import Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any

from hopfed._lib.arrays import blas_threads
from hopfed._lib.cluster import cluster
from hopfed._lib.processes import Pool, end_pool, first_done
from hopfed.errors import ArgumentError
from hopfed.federation.contract import Method
from hopfed.federation.engines import Call, Outcome, answers, shares, unpickled
from hopfed.federation.faults import Fault

KEPT = 64  # methods that a worker remembers
_ALONE = Lock()  # the number of threads of BLAS is one for a whole process

Answers = Future[list[Outcome]]


class PoolEngine:
    """Steps in `workers` processes; close it, or use it as a context manager."""

    def __init__(self, workers: int):
        if workers < 1:
            raise ArgumentError("workers", "at least 1", workers)
        self.workers = workers
        self._pool: Executor | None = None
        self._last: tuple[Method, Any] | None = None
        self._folder: TemporaryDirectory[str] | None = None
        self._others: set[Any] = set()

    def __enter__(self) -> PoolEngine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def step(self, method: Method, calls: Sequence[Call]) -> list[Outcome]:
        """Outcomes in the order of `calls`."""
        outcomes: dict[int, Outcome] = {}
        self._begin()
        tasks = shares(method, calls, self.workers)
        # Who is lost with a process is asked again beside few others, and then on its own: if its
        # process ends once more, it is the cause.
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
        outcomes |= {i: Outcome(fault=Fault.DIED, reason="its process ended") for i in lost}
        return [outcomes[i] for i in range(len(calls))]

    def close(self) -> None:
        """End the workers and remove what was written for them."""
        self._end_workers()
        if self._folder is not None:
            self._folder.cleanup()
        self._folder = self._last = None

    def _begin(self) -> None:
        if self._pool is None:
            self._others = set(multiprocessing.active_children())
            self._pool = Pool(self.workers)

    def _end_workers(self) -> None:
        if isinstance(self._pool, ProcessPoolExecutor):
            end_pool(self._pool, self._others)
        self._pool = None

    def _batch(self, method: Method, tasks: list[list[Call]]) -> list[list[Outcome] | None]:
        """Answers to calls made at once; None where the end of a process took them along."""
        if self._last is None or self._last[0] is not method:
            self._last = method, self._sent(method)
        self._begin()
        futures = [self._submit(self._last[1], task) for task in tasks]
        done = [self._result(*each) for each in zip(futures, tasks, strict=True)]
        if None in done:
            self._end_workers()
        return done

    def _sent(self, method: Method) -> Any:
        """Name of the file that holds a method; an equal one made anew is the same file."""
        payload = pickle.dumps(method)
        if self._folder is None:
            self._folder = TemporaryDirectory(prefix="hopfed-")
        path = Path(self._folder.name) / hashlib.sha256(payload).hexdigest()
        if not path.exists():
            path.write_bytes(payload)
        return str(path)

    def _submit(self, sent: Any, calls: list[Call]) -> Answers | None:
        try:
            return self._pool.submit(_answer, sent, calls)  # type: ignore[union-attr]
        except BrokenProcessPool:  # by a call submitted just before
            return None

    def _result(self, future: Answers | None, calls: list[Call]) -> list[Outcome] | None:  # noqa: ARG002
        try:
            return None if future is None else first_done(self._pool, [future]).pop().result()  # type: ignore[arg-type]
        except BrokenProcessPool:
            return None


class DaskEngine(PoolEngine):
    """Steps on the Dask cluster in use, or in processes of its own.

    States go with the steps, and come back. Dask gives the clients of a worker that is lost to
    others. A process makes one step at a time, so give workers one thread each.
    """

    def __init__(self, workers: int | None = None):
        super().__init__(workers or 1)
        self._given, self._open = workers, ExitStack()

    def close(self) -> None:
        """Let go of the cluster, and end processes that were begun for this engine."""
        super().close()
        self._pool = None
        self._open.close()

    def _begin(self) -> None:
        if self._pool is None:
            self._open.close()
            self._client = self._open.enter_context(cluster(None, self._given))
            self.workers = max(sum(self._client.nthreads().values()), 1)
            self._pool = self._client.get_executor(pure=False)

    def _end_workers(self) -> None:
        """Leave lost workers to Dask."""

    def _sent(self, method: Method) -> Any:
        """The method on the cluster, which makes it again where it is lost."""
        from cloudpickle import dumps  # which also takes a class from a notebook along

        return self._client.submit(unpickled, dumps(method), pure=False)

    def _result(self, future: Answers | None, calls: list[Call]) -> list[Outcome] | None:
        """Answers; Dask has tried several times where a worker ended."""
        from distributed import KilledWorker

        try:
            return super()._result(future, calls)
        except KilledWorker:
            died = Outcome(fault=Fault.DIED, reason="its process ended")
            return [died] if len(calls) == 1 else None


@lru_cache(KEPT)
def _method(path: str) -> Method:
    return unpickled(Path(path).read_bytes())


def _answer(sent: str | Method, calls: list[Call]) -> list[Outcome]:
    with _ALONE, blas_threads(1):  # the order of summation depends on the number of threads
        return answers(_method(sent) if isinstance(sent, str) else sent, calls)
