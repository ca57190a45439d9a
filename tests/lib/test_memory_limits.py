"""What is free: the least of machine, container and the limits of the process."""

import resource

import pytest

from hopfed._lib import memory_limits as limits
from hopfed.errors import DataError


def test_what_does_not_fit_is_refused_with_both_numbers(monkeypatch):
    monkeypatch.setattr(limits, "free_memory", lambda: 3 * 10**9)
    limits.require_memory(3 * 10**9, "all of it")
    with pytest.raises(DataError, match=r"^a table: needs 4.00 GB of memory, 3.00 GB are free$"):
        limits.require_memory(4 * 10**9, "a table")


def test_a_limit_of_the_process_counts():
    before = resource.getrlimit(resource.RLIMIT_DATA)
    used = limits._fields(limits.Path("/proc/self/status"))["VmData:"] * 1024
    resource.setrlimit(resource.RLIMIT_DATA, (used + 10**9, before[1]))
    try:
        assert 0 < limits.free_memory() <= 10**9
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def test_a_limit_of_the_container_counts(tmp_path):
    held = {"current": "600", "max": "max"}
    for change, free in (
        ({}, 1 << 62),
        ({"max": "1000"}, 400),
        ({"stat": "inactive_file 70"}, 470),
    ):
        for name, text in (held := held | change).items():
            (tmp_path / f"memory.{name}").write_text(text + "\n")
        assert limits._of_container(tmp_path) == free
