"""What the fuzz tests share: little memory."""

import resource
from pathlib import Path

import pytest

MEMORY = 2 << 30  # bytes that a command, or a reader, may take beside what the process holds


@pytest.fixture(scope="module")
def little_memory():
    """More memory than the limit cannot be had, so that taking it would be an error."""
    lines = Path("/proc/self/status").read_text().splitlines()
    used = next(int(line.split()[1]) for line in lines if line.startswith("VmData:")) * 1024
    before = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (used + MEMORY, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_DATA, before)
