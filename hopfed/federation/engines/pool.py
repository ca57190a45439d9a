"""The engine `pool`: clients in worker processes, with the same results as `local`.

Workers are spawned with one thread per kernel and hold the method, which is sent to them once. A
worker whose client runs out of time is ended with it; the other clients of the exchange that were
under way are asked again.
"""

from __future__ import annotations

import multiprocessing
import pickle
import time
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from hopfed.errors import ArgumentError, HopfedError
from hopfed.federation.contract import Method
from hopfed.federation.engines import Call, Outcome, answer
from hopfed.federation.faults import Fault
from hopfed.workers import begin_worker, end_processes

_METHOD: Method | None = None  # of a worker process, set once when it begins


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
        self._method: Method | None = None
        self._payload = b""
        self._pool: ProcessPoolExecutor | None = None
        self._others: set[Any] = set()

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
        """End the workers."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            end_processes(self._others)
            self._pool = None

    def _batch(self, method: Method, calls: list[Call]) -> list[Outcome | None]:
        """Answers of calls made at once; None where another client's end took one along."""
        pool = self._ready(method)
        futures = [pool.submit(_answer, call) for call in calls]
        deadline = None if self.timeout is None else time.monotonic() + self.timeout
        done = [self._wait(f, deadline) for f in futures]
        if any(o is None or o.fault == Fault.TIMED_OUT for o in done):
            self.close()
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

    def _ready(self, method: Method) -> ProcessPoolExecutor:
        """Workers that hold `method`; an equal one made anew does not need new workers."""
        payload = self._payload if self._method is method else pickle.dumps(method)
        if self._pool is not None and payload == self._payload:
            return self._pool
        self.close()
        self._others = set(multiprocessing.active_children())
        self._method, self._payload = method, payload
        spawn = multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(self.workers, spawn, initializer=_begin, initargs=(payload,))
        self._pool = pool
        try:
            for future in [pool.submit(_awake) for _ in range(self.workers)]:
                future.result()  # importing does not count as a client's time
        except BrokenProcessPool as error:
            self.close()
            raise HopfedError(
                "the worker processes could not begin: what the method is made of must be "
                "importable from a module, and fit into memory once for each worker"
            ) from error
        return pool


def _begin(payload: bytes) -> None:
    global _METHOD
    begin_worker()
    _METHOD = pickle.loads(payload)


def _awake() -> None:
    time.sleep(0.02)  # long enough that no worker answers twice


def _answer(call: Call) -> Outcome:
    from hopfed.arrays import blas_threads

    if _METHOD is None:
        raise RuntimeError("a worker was asked before it began")
    with blas_threads(1):  # the order of summation depends on the number of threads
        return answer(_METHOD, call)
