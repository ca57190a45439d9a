"""`hopfed bench clients`: a server and its clients as processes, and what is measured of them."""

import os

import numpy as np
import pytest

from hopfed.bench import clients
from hopfed.bench.clients import Setting, line, measure_clients
from hopfed.bench.harness.processes import Process
from hopfed.errors import DataError, HopfedError


@pytest.mark.slow
def test_three_clients_are_measured():
    setting = Setting(columns=40, batch=100, rounds=2, idle=1.0)
    told = []
    found = measure_clients((3,), told.append, setting)
    (row,) = found["clients"]
    assert told == ["clients: 3"]
    assert row["answers"] == 3 * 2
    pairs = 40 * 39 // 2
    assert row["up_each"] > pairs
    assert row["up"] == 3 * row["up_each"]
    assert row["wire"] > row["up"] + row["down"], "what TLS and TCP add"
    assert 0 < row["seconds_alone"] < row["seconds"]
    assert min(row["server_bytes"], row["client_bytes"]) > 5e7
    assert row["server_total_seconds"] > row["server_seconds"] > 0
    assert row["client_total_seconds"] > 0
    assert row["files"] >= 3, "a connection of each client"
    assert found["lines"]["seconds"] is None, "no line through one point"
    assert found["setting"]["rows"] == 100


def test_a_client_that_fails_ends_the_measurement_with_its_last_line(monkeypatch):
    drawn = clients._draw

    def draw(folder, number, setting):
        drawn(folder, number, setting)
        np.save(folder / "0.npy", np.zeros((3, 40), np.int8))

    monkeypatch.setattr(clients, "_draw", draw)
    with pytest.raises(HopfedError, match=r"client-0 ended with status 2: .*--data"):
        measure_clients((2,), lambda _: None, Setting(columns=40, batch=100, rounds=2, idle=0.1))


def test_more_processes_than_fit_are_not_begun(monkeypatch):
    monkeypatch.setattr(clients, "_free", lambda: 1e9)
    with pytest.raises(DataError, match="40 clients want 16 GB, 1 GB are free"):
        measure_clients((40,), lambda _: None)


def test_no_line_where_nothing_was_used():
    assert line([2, 3], [0.0, 1.0]) is None
    fitted = line([5, 10, 50], [5.0, 10.0, 100.0])
    assert fitted["off"] > 0.2


def test_a_process_ends_with_its_context_and_says_why_it_did_not_say(tmp_path):
    with Process(tmp_path, "listing", "list") as process:
        with pytest.raises(HopfedError, match="listing did not say 'never'"):
            process.line("never", 60.0)
        assert process.end(60.0).seconds > 0
    with Process(tmp_path, "slow", "run", "bbp", "--out", str(tmp_path / "x.h5")) as process:
        with pytest.raises(HopfedError, match="slow has not ended"):
            process.end(0.01)
        pid = process._process.pid
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
