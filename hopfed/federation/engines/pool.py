"""The engine `pool`: clients in worker processes, with the same results as `local`.

Workers are spawned with one thread per kernel. A method is written to a file once, and every worker
reads it once, however many methods take turns. A worker whose client runs out of time is ended with
it; the other clients of the exchange that were under way are asked again.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import pickle
import time
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from concurrent.futures.process import BrokenProcessPool
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hopfed.arrays import blas_threads
from hopfed.errors import ArgumentError, HopfedError
from hopfed.federation.contract import Method
from hopfed.federation.engines import Call, Outcome, answer
from hopfed.federation.faults import Fault
from hopfed.workers import begin_worker, end_processes

KEPT = 64  # methods that a worker remembers


class PoolEngine:
    """Steps in `workers` processes; close it, or use it as a context manager.

    Parameters
    ----------
    workers : processes.
    timeout : seconds a client may take; None for no limit.
    """

    def __init__(self, workers: int, timeout: float | None = None):
        if workers < 1:
            raise ArgumentError("workers", "at least 1", workers)
        if timeout is not None and timeout <= 0:
            raise ArgumentError("timeout", "above 0 seconds", timeout)
        self.workers, self.timeout = workers, timeout
        self._folder: TemporaryDirectory[str] | None = None
        self._last: tuple[Method, Path] | None = None
        self._pool: ProcessPoolExecutor | None = None
        self._others: set[Any] = set()
        self._loaded: set[Path] = set()

    def __enter__(self) -> PoolEngine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def step(self, method: Method, calls: Sequence[Call]) -> list[Outcome]:
        """Outcomes in the order of `calls`."""
        outcomes: dict[int, Outcome] = {}
        waiting = list(range(len(calls)))
        while waiting:  # at most `workers` under way, so that every clock starts with its step
            batch, waiting = waiting[: self.workers], waiting[self.workers :]
            done = self._batch(method, [calls[i] for i in batch])
            alone = [i for i, outcome in zip(batch, done, strict=True) if outcome is None]
            outcomes |= {i: o for i, o in zip(batch, done, strict=True) if o is not None}
            for i in alone:
                outcomes[i] = self._alone(method, calls[i])
        return [outcomes[i] for i in range(len(calls))]

    def close(self) -> None:
        """End the workers and remove what was written for them."""
        self._end_workers()
        if self._folder is not None:
            self._folder.cleanup()
        self._folder = self._last = None

    def _end_workers(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            end_processes(self._others)
            self._pool = None

    def _batch(self, method: Method, calls: list[Call]) -> list[Outcome | None]:
        """Answers of calls made at once; None where another client's end took one along."""
        path = self._written(method)
        pool = self._ready(path)
        futures = [pool.submit(_answer, str(path), call) for call in calls]
        deadline = None if self.timeout is None else time.monotonic() + self.timeout
        done = [self._wait(f, deadline) for f in futures]
        if any(o is None or o.fault == Fault.TIMED_OUT for o in done):
            self._end_workers()
        return done

    def _wait(self, future: Future[Outcome], deadline: float | None) -> Outcome | None:
        left = None if deadline is None else max(deadline - time.monotonic(), 0.0)
        try:
            return future.result(left)
        except FutureTimeoutError:
            return Outcome(fault=Fault.TIMED_OUT, reason=f"no answer in {self.timeout:g} s")
        except BrokenProcessPool:
            return None

    def _alone(self, method: Method, call: Call) -> Outcome:
        """Ask one client again on its own: if its process ends once more, it is the cause."""
        outcome = self._batch(method, [call])[0]
        return outcome or Outcome(fault=Fault.DIED, reason="its process ended")

    def _written(self, method: Method) -> Path:
        """File that holds `method`; an equal one made anew is the same file."""
        if self._last is not None and self._last[0] is method:
            return self._last[1]
        payload = pickle.dumps(method)
        if self._folder is None:
            self._folder = TemporaryDirectory(prefix="hopfed-")
        path = Path(self._folder.name) / hashlib.sha256(payload).hexdigest()
        if not path.exists():
            path.write_bytes(payload)
        self._last = method, path
        return path

    def _ready(self, path: Path) -> ProcessPoolExecutor:
        """Workers that hold the method: beginning and loading do not count as a client's time."""
        if self._pool is None:
            self._others = set(multiprocessing.active_children())
            spawn = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(self.workers, spawn, initializer=begin_worker)
            self._loaded = set()
        if path not in self._loaded:
            for future in [self._pool.submit(_load, str(path)) for _ in range(self.workers)]:
                future.result()
            self._loaded.add(path)
        return self._pool


def _load(path: str) -> None:
    _method(path)
    time.sleep(0.02)  # long enough that no worker answers twice


@lru_cache(KEPT)
def _method(path: str) -> Method:
    try:
        method: Method = pickle.loads(Path(path).read_bytes())
    except Exception as error:
        raise HopfedError(
            "a worker process could not load the method: what it is made of must be importable "
            f"from a module ({error})"
        ) from None
    return method


def _answer(path: str, call: Call) -> Outcome:
    with blas_threads(1):  # the order of summation depends on the number of threads
        return answer(_method(path), call)
