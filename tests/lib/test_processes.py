"""Worker processes: waiting for them ends, whatever becomes of them."""

import multiprocessing
import os
import time
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

import pytest

from hopfed._lib import processes
from hopfed._lib.processes import begin_worker, end_pool, first_done


@pytest.fixture
def pool():
    others = set(multiprocessing.active_children())
    spawn = multiprocessing.get_context("spawn")
    made = ProcessPoolExecutor(1, spawn, initializer=begin_worker)
    yield made
    end_pool(made, others)


def test_the_first_that_are_done(pool):
    slow, fast = Future(), pool.submit(os.getpid)
    assert first_done(pool, [slow, fast]) == {fast}
    assert fast.result() != os.getpid()


def test_a_call_that_was_lost_when_its_worker_died_is_not_waited_for(pool, monkeypatch):
    """Submitted just when the executor noticed, it is never marked as failed."""
    monkeypatch.setattr(processes, "LOOK", 0.05)
    with pytest.raises(BrokenProcessPool):
        first_done(pool, [pool.submit(os._exit, 1)]).pop().result()
    with pytest.raises(BrokenProcessPool):
        first_done(pool, [Future()])


def test_the_time_that_was_given(pool, monkeypatch):
    monkeypatch.setattr(processes, "LOOK", 0.05)
    assert pool.submit(int).result() == 0
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        first_done(pool, [Future()], timeout=0.2)
    assert time.monotonic() - began >= 0.2
    assert pool.submit(int, "7").result() == 7  # looking has not hurt it
