"""Reading in a process of its own: what comes back, and how it ends."""

import ctypes
import os
import threading
import time

import h5py
import numpy as np
import pytest

from hopfed._lib import guarded_reading as module
from hopfed._lib.guarded_reading import blocks, filled, in_child_process
from hopfed.errors import DataError

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


def test_what_is_yielded_comes_back_from_another_process():
    assert next(in_child_process(lambda: iter([os.getpid()]), 0)) != os.getpid()
    assert list(in_child_process(lambda: iter(["a", None, np.ones(2).sum()]), 0)) == [
        "a",
        None,
        2.0,
    ]


def test_errors_come_as_they_are():
    def work():
        yield 1
        raise DataError("it is broken")

    parts = in_child_process(work, 0)
    assert next(parts) == 1
    with pytest.raises(DataError, match="it is broken"):
        next(parts)


def looping():
    while True:
        pass
    yield


def crashing():
    yield ctypes.string_at(0)


def leaving():
    yield os._exit(0)


def greedy():
    yield len(bytearray(3 << 30))


def waiting():
    yield 1
    threading.Event().wait()


@pytest.mark.parametrize(
    ("work", "error", "message"),
    [
        (looping, RuntimeError, "reading it does not come to an end"),
        (crashing, RuntimeError, "its reader ended with SIGSEGV"),
        (leaving, RuntimeError, "its reader ended"),
        (greedy, MemoryError, None),
    ],
)
def test_what_does_not_end_well_is_an_error(work, error, message, capfd):
    with pytest.raises(error, match=message):
        list(in_child_process(work, 0))
    assert capfd.readouterr() == ("", "")


def test_a_reader_that_stands_still_is_ended(monkeypatch):
    """It uses no time of the processor, so that no limit on that would end it."""
    monkeypatch.setattr(module, "STILL", 0.2)
    parts = in_child_process(waiting, 0)
    assert next(parts) == 1
    with pytest.raises(RuntimeError, match=r"stood still for 0\.2 s; try again"):
        next(parts)


def test_a_lock_that_was_held_at_the_fork_costs_one_more_try(monkeypatch, tmp_path):
    """As of another thread of the parent, which lets it go while the child waits for ever."""
    monkeypatch.setattr(module, "STILL", 0.2)
    tried = tmp_path / "tried"

    def reading():
        if not tried.exists():
            tried.touch()
            time.sleep(60)
        yield 1

    assert list(in_child_process(reading, 0)) == [1]


def working():
    end = time.process_time() + 1.5
    while time.process_time() < end:
        pass
    yield 1


def test_nobody_stays_behind(monkeypatch):
    seen, status = [], module._status

    def counted(process):
        seen.append(process)
        return status(process)

    monkeypatch.setattr(module, "_status", counted)
    for take in (list, next):
        take(in_child_process(lambda: iter([1]), 0))
    with pytest.raises(RuntimeError):
        list(in_child_process(leaving, 0))
    parts = in_child_process(waiting, 0)
    next(parts)
    parts.close()
    assert len(seen) == 4
    for process in seen:
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)


def test_time_and_memory_grow_with_what_is_allowed():
    import resource

    def work():
        for _ in range(2):
            yield [resource.getrlimit(r)[0] for r in (resource.RLIMIT_CPU, resource.RLIMIT_DATA)]
            module.raise_limits(50 * module.SPEED)

    first, second = in_child_process(work, 0)
    assert [b - a for a, b in zip(first, second, strict=True)] == [50, 50 * module.SPEED]
    assert module._raisable == {}


@pytest.mark.parametrize("reason", ["no fork", "no room"])
def test_without_a_fork_it_is_read_here(monkeypatch, reason):
    def refuse():
        raise OSError("no room")

    if reason == "no fork":
        monkeypatch.delattr(os, "fork")
    else:
        monkeypatch.setattr(os, "fork", refuse)
    assert list(in_child_process(lambda: iter([os.getpid()]), 0)) == [os.getpid()]


@pytest.mark.parametrize("shape", [(), (0, 3), (3, 0), (1,), (7, 5), (40, 3, 2)])
@pytest.mark.parametrize("chunks", [None, True])
@pytest.mark.parametrize("kind", ["i1", ">f8", "?", "S3"])
def test_datasets_arrive_in_blocks(tmp_path, monkeypatch, shape, chunks, kind):
    monkeypatch.setattr(module, "BLOCK", 24)
    array = (np.arange(np.prod(shape, dtype=int)).reshape(shape) % 3).astype(kind)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=array, chunks=chunks if array.size and shape else None)

    def work():
        with h5py.File(tmp_path / "a.h5") as file:
            yield from blocks(file["x"], "x")

    found = filled(in_child_process(work, 0))
    assert found.shape == shape
    assert found.dtype.isnative or not array.size or not shape
    np.testing.assert_array_equal(found, array)
