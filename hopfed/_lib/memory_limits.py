"""How much memory is free, and a check, before anything is allocated, that something fits.

Sizes that a file or a setting decides go through :func:`require_memory`, so that a wrong number
is one clear line and not a machine that swaps or a process that is killed.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from hopfed.errors import DataError

SMALL = 1 << 24  # bytes that are not worth a look at the machine
_STATUS = Path("/proc/self/status")


def require_memory(needed: int, name: str) -> None:
    """Refuse what needs more memory than is free."""
    if needed <= SMALL:
        return
    free = free_memory()
    if needed > free:
        raise DataError(
            f"{name}: needs {_gigabytes(needed)} of memory, {_gigabytes(free)} are free"
        )


def peak_bytes() -> int:
    """Largest resident memory of this process so far, in bytes.

    Linux reports it for this program alone; `getrusage` would include the peak of the parent.
    """
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return _fields(_STATUS).get("VmHWM:", peak * unit // 1024) * 1024


def free_memory() -> int:
    """Return the bytes that this process may still allocate.

    That is the least of what the machine has available, what its container may still use, and the
    limits that the process was started with.
    """
    return max(0, min(_of_machine(), _of_container(), _of_process()))


def used_data() -> int:
    """Return the bytes of data that this process holds, as Linux counts them; 0 elsewhere."""
    return _fields(_STATUS).get("VmData:", 0) * 1024


def _gigabytes(count: int) -> str:
    whole = count // 10**9
    return f"{whole:,} GB" if whole >= 10 else f"{count / 1e9:.2f} GB"


def _of_machine() -> int:
    held = _fields(Path("/proc/meminfo"))
    if "MemAvailable:" in held:
        return held["MemAvailable:"] * 1024
    try:  # a system without /proc: all there is, for want of what is free
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 1 << 62


def _of_container(group: Path = Path("/sys/fs/cgroup")) -> int:
    try:
        most, used = (int((group / f"memory.{name}").read_text()) for name in ("max", "current"))
    except (OSError, ValueError):  # no such group, or the word for no limit
        return 1 << 62
    return most - used + _fields(group / "memory.stat").get("inactive_file", 0)


def _of_process() -> int:
    try:
        import resource
    except ImportError:  # not a Unix
        return 1 << 62
    free = 1 << 62
    for limit, name in ((resource.RLIMIT_AS, "VmSize:"), (resource.RLIMIT_DATA, "VmData:")):
        most = resource.getrlimit(limit)[0]
        if most != resource.RLIM_INFINITY:
            used = _fields(_STATUS).get(name, 0) * 1024
            free = min(free, most - used)
    return free


def _fields(path: Path) -> dict[str, int]:
    """Return the number in each line of a file of the kernel, by the word before it."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return {}
    words = (line.split() for line in lines)
    return {w[0]: int(w[1]) for w in words if len(w) > 1 and w[1].isdecimal()}
