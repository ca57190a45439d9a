"""Reading that is tried in a process of its own: how it ends."""

import ctypes
import os
import signal
import threading

import pytest

from hopfed._lib import guarded_reading as module
from hopfed._lib.guarded_reading import try_in_child
from hopfed.errors import DataError

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


def test_it_is_another_process_and_its_errors_come_as_they_are(tmp_path):
    try_in_child(lambda: (tmp_path / "made").write_text(str(os.getpid())), 0)
    assert (tmp_path / "made").read_text() != str(os.getpid())

    def broken():
        raise DataError("it is broken")

    with pytest.raises(DataError, match="it is broken"):
        try_in_child(broken, 0)


def looping():
    while True:
        pass


def test_what_does_not_end_well_is_an_error(capfd, monkeypatch):
    cases = (
        (looping, RuntimeError, "reading it does not come to an end"),
        (lambda: ctypes.string_at(0), RuntimeError, "its reader ended with SIGSEGV"),
        (lambda: os._exit(0), RuntimeError, "its reader ended"),
        (lambda: len(bytearray(3 << 30)), MemoryError, None),
    )
    made, fork = [], os.fork
    monkeypatch.setattr(os, "fork", lambda: made.append(fork()) or made[-1])
    for work, error, message in cases:
        with pytest.raises(error, match=message):
            try_in_child(work, 0)
    monkeypatch.setattr(module, "STILL", 0.2)  # it uses no time of the processor
    with pytest.raises(RuntimeError, match=r"stood still for 0\.2 s; try again"):
        try_in_child(threading.Event().wait, 0)
    assert capfd.readouterr() == ("", "")
    assert len(made) == len(cases) + 1
    for process in made:  # nobody stays behind
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)


def test_time_and_memory_grow_with_what_is_allowed():
    def work():
        left = signal.getitimer(signal.ITIMER_PROF)[0]
        module.raise_limits(5 << 30)
        assert signal.getitimer(signal.ITIMER_PROF)[0] > left + 500
        assert len(bytearray(3 << 30)) == 3 << 30

    try_in_child(work, 0)
    assert module._most == 0
