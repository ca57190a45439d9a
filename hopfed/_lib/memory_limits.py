"""How much memory is free, and a check, before anything is allocated, that something fits.

Sizes that a file or a setting decides go through :func:`require_memory`, so that a wrong number
is one clear line and not a machine that swaps or a process that is killed.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

from hopfed.errors import DataError

SMALL = 1 << 24  # bytes that are not worth a look at the machine
_GROUPS = (  # where a container's limit is, what it holds, and what of that can be dropped
    ("memory.max", "memory.current", "inactive_file"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "total_inactive_file"),
)


def require_memory(needed: int, what: str) -> None:
    """Refuse what needs more memory than is free."""
    if needed <= SMALL:
        return
    free = free_memory()
    if needed > free:
        raise DataError(
            f"{what}: needs {_gigabytes(needed)} of memory, {_gigabytes(free)} are free"
        )


def peak_bytes() -> int:
    """Largest resident memory of this process so far, in bytes.

    Linux reports it for this program alone; `getrusage` would include the peak of the parent.
    """
    import resource

    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return 1024 * int(line.split()[1])
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def free_memory() -> int:
    """Return the bytes that this process may still allocate.

    That is the least of what the machine has available, what its container may still use, and the
    limits that the process was started with.
    """
    return max(0, min(_of_machine(), _of_container(), _of_process()))


def used_data() -> int:
    """Return the bytes of data that this process holds, as Linux counts them; 0 elsewhere."""
    return _fields(Path("/proc/self/status")).get("VmData:", 0) * 1024


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


def _of_container(root: Path = Path("/sys/fs/cgroup")) -> int:
    for limit, usage, droppable in _GROUPS:
        try:
            most, used = int((root / limit).read_text()), int((root / usage).read_text())
        except (OSError, ValueError):  # no such group, or the word for no limit
            continue
        kept = _fields((root / limit).with_name("memory.stat"))
        return most - used + kept.get(droppable, 0)
    return 1 << 62


def _of_process() -> int:
    try:
        import resource
    except ImportError:  # not a Unix
        return 1 << 62
    free = 1 << 62
    for limit, name in ((resource.RLIMIT_AS, "VmSize:"), (resource.RLIMIT_DATA, "VmData:")):
        most = resource.getrlimit(limit)[0]
        if most != resource.RLIM_INFINITY:
            used = _fields(Path("/proc/self/status")).get(name, 0) * 1024
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
