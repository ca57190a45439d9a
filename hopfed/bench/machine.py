"""The machine that a measurement belongs to."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from hopfed.bench.devices import cuda
from hopfed.kernels.cpu.threads import thread_count
from hopfed.runs import provenance


def describe() -> dict[str, str]:
    """Say processor, cores, threads used, memory, GPU, and versions of the libraries."""
    import numpy as np
    from threadpoolctl import threadpool_info

    np.zeros((2, 2)) @ np.zeros((2, 2))  # loads the library that is asked about
    pools = [p for p in threadpool_info() if p["user_api"] == "blas"]
    blas = {
        f"{p['internal_api']} {p.get('version') or ''}, threads: {p['num_threads']}" for p in pools
    }
    device, word = cuda()
    versions = provenance()
    return {
        "processor": _processor(),
        "cores": str(_cores()),
        "kernel threads": str(thread_count()),
        "memory": f"{_memory() / 2**30:.0f} GiB",
        "BLAS": "; ".join(sorted(blas)) or "unknown",
        "GPU": word if device else f"not yet measured: {word}",
        **{k: v for k, v in versions.items() if k != "machine"},
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    name = models[0] if models else platform.processor()
    return f"{name or 'unknown'} ({platform.machine()})"


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _memory() -> int:
    """Bytes of main memory, 0 where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return 0
