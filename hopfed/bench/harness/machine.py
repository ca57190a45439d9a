"""Description of the machine, and the memory of this process."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path

from hopfed.bench.harness.devices import gpu
from hopfed.kernels.cpu.threads import thread_count
from hopfed.runs import provenance


def describe() -> dict[str, str]:
    """Return processor, cores, threads in use, memory, GPU, and versions of the libraries."""
    import numpy as np
    from threadpoolctl import threadpool_info

    np.zeros((2, 2)) @ np.zeros((2, 2))  # loads BLAS, so that it is listed
    pools = [p for p in threadpool_info() if p["user_api"] == "blas"]
    blas = {
        f"{p['internal_api']} {p.get('version') or ''}, threads: {p['num_threads']}" for p in pools
    }
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    there, word = gpu()
    return {
        "processor": _processor(),
        "cores": str(cores or 1),
        "kernel threads": str(thread_count()),
        "memory": f"{_memory() / 2**30:.0f} GiB",
        "BLAS": "; ".join(sorted(blas)) or "unknown",
        "GPU": word if there else f"not yet measured: {word}",
        **{k: v for k, v in provenance().items() if k != "machine"},
    }


def process_bytes() -> int:
    """Bytes of this process in memory; 0 if the system does not report them."""
    return 1024 * int(_entry("/proc/self/status", "VmRSS").partition(" ")[0] or 0)


def peak_bytes() -> int:
    """Largest resident memory of this process so far, in bytes.

    Linux reports it for this program alone; `getrusage` would include the peak of the parent.
    """
    if word := _entry("/proc/self/status", "VmHWM"):
        return 1024 * int(word.partition(" ")[0])
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _processor() -> str:
    name = _entry("/proc/cpuinfo", "model name") or platform.processor()
    return f"{name or 'unknown'} ({platform.machine()})"


def _memory() -> int:
    """Bytes of main memory; 0 if the system does not report them."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return 0


def _entry(file: str, name: str) -> str:
    """Return the text after ``name:`` in the first such line of a file; empty if there is none."""
    try:
        lines = Path(file).read_text().splitlines()
    except OSError:
        return ""
    found = (line.partition(":")[2].strip() for line in lines if line.startswith(name))
    return next(found, "")
