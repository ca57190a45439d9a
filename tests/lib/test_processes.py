"""Worker processes: waiting for them ends, whatever becomes of them."""

import multiprocessing
import os
import signal
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import popen_spawn_posix

import pytest

from hopfed._lib import processes
from hopfed._lib.processes import Pool, end_pool, first_done


@pytest.fixture
def pool():
    others = set(multiprocessing.active_children())
    made = Pool(1)
    yield made
    end_pool(made, others)


def test_ctrl_c_while_a_process_starts_waits_until_it_has(pool, monkeypatch):
    """Else the child has half of what it reads first, and says so in a traceback."""
    launch, launched = popen_spawn_posix.Popen._launch, []

    def interrupted(*arguments):
        signal.raise_signal(signal.SIGINT)
        launch(*arguments)
        launched.append(arguments)

    monkeypatch.setattr(popen_spawn_posix.Popen, "_launch", interrupted)
    with pytest.raises(KeyboardInterrupt):
        pool.submit(os.getpid)
    assert len(launched) == 1


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
