"""How a client's federation ends: nothing that was told is lost, and every other end says why."""

from threading import Event
from types import SimpleNamespace

import numpy as np
import pytest

from hopfed.cli.machines.watching import Watching
from hopfed.errors import HopfedError

REPLY = SimpleNamespace(fault=False, reason="", up={})


def asked(last=False, **down):
    return SimpleNamespace(last=last, down=down, context=SimpleNamespace(round=0, exchange=0))


def watching():
    return Watching(None, Event(), lambda *words: None)


def gone():
    raise HopfedError("the server is gone")


def test_a_server_that_is_gone_after_its_last_word_takes_nothing_with_it():
    watch, last = watching(), asked(last=True, patterns=np.zeros((1, 1), np.uint8))
    watch(last, REPLY)
    assert watch.finished.is_set()
    assert watch.through(gone) is last


def test_without_a_last_word_the_last_refusal_is_said():
    watch = watching()
    watch(asked(), SimpleNamespace(fault=True, reason="DataError: too few rows", up={}))
    with pytest.raises(HopfedError, match="is gone; its last question was not answered: too few"):
        watch.through(gone)


def test_an_end_without_a_result_is_said():
    watch = watching()
    watch(asked(last=True, stopped=np.ones(())), REPLY)
    with pytest.raises(HopfedError, match="ended the federation without a result"):
        watch.through(lambda: None)
