"""Free memory, and a check before an allocation that it fits."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

from hopfed.errors import DataError

NO_LIMIT = 1 << 62
SMALL = 1 << 24  # bytes up to which free memory is not checked
_STATUS = Path("/proc/self/status")


def require_memory(needed: int, name: str) -> None:
    """Raise DataError if more bytes of memory are `needed` than are free."""
    if needed > SMALL and needed > (free := free_memory()):
        raise DataError(
            f"{name}: needs {needed / 1e9:,.2f} GB of memory, {free / 1e9:,.2f} GB are free"
        )


def peak_bytes() -> int:
    """Largest resident memory of this process; `getrusage` may include that of the parent."""
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return _fields(_STATUS).get("VmHWM:", peak * unit // 1024) * 1024


def free_memory() -> int:
    """Return the bytes of memory that this process may still allocate.

    The least of the machine's memory, the limit of its container, and the limits of the process.
    """
    machine = _fields(Path("/proc/meminfo")).get("MemAvailable:", NO_LIMIT // 1024) * 1024
    if machine == NO_LIMIT:  # without /proc: the total memory
        with suppress(AttributeError, ValueError, OSError):
            machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(0, min(machine, _of_container(), _of_process()))


def used_data() -> int:
    """Return the memory of this process's data in bytes (VmData of Linux), 0 on other systems."""
    return _fields(_STATUS).get("VmData:", 0) * 1024


def _of_container(group: Path = Path("/sys/fs/cgroup")) -> int:
    with suppress(OSError, ValueError):  # no such group, or "max" for no limit
        most, used = (int((group / f"memory.{name}").read_text()) for name in ("max", "current"))
        return most - used + _fields(group / "memory.stat").get("inactive_file", 0)
    return NO_LIMIT


def _of_process() -> int:
    free = NO_LIMIT
    with suppress(ImportError):  # not a Unix
        import resource

        for limit, name in ((resource.RLIMIT_AS, "VmSize:"), (resource.RLIMIT_DATA, "VmData:")):
            most = resource.getrlimit(limit)[0]
            if most != resource.RLIM_INFINITY:
                free = min(free, most - _fields(_STATUS).get(name, 0) * 1024)
    return free


def _fields(path: Path) -> dict[str, int]:
    """Numbers in the lines of a kernel file, by the word before each."""
    with suppress(OSError):
        words = (line.split() for line in path.read_text().splitlines())
        return {w[0]: int(w[1]) for w in words if len(w) > 1 and w[1].isdecimal()}
    return {}
