"""What is installed, which device there is, and what its compiler makes of the kernels."""

import os
import re
import shutil
import subprocess
import sys

from stages import NotHereError, Rows, run, the_device

COMMANDS = {
    "nvidia-smi": ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv"],
    "nvcc": ["nvcc", "--version"],
    "compute-sanitizer": ["compute-sanitizer", "--version"],
    "doctor": [sys.executable, "-m", "hopfed", "doctor"],
}
PROPERTIES = ("multiProcessorCount", "l2CacheSize", "sharedMemPerBlockOptin", "major", "minor")
KERNEL = re.compile(r"__global__ void (?:__launch_bounds__\([^)]*\) )?(\w+)\(")
ATTRIBUTES = ("num_regs", "shared_size_bytes", "local_size_bytes", "max_threads_per_block")


def work(rows: Rows) -> None:
    """Write versions and what commands say, then the device, where there is one."""
    rows.add("python", version=sys.version.split()[0], cores=len(os.sched_getaffinity(0)))
    for name, command in COMMANDS.items():
        if shutil.which(command[0]) is None:
            rows.add(name, said="not installed")
            continue
        with rows.attempt(name):
            done = subprocess.run(command, capture_output=True, text=True, timeout=60)
            rows.add(name, status=done.returncode, said=(done.stdout or done.stderr)[-4000:])
    try:
        device = the_device(rows)
    except NotHereError as missing:
        rows.add("device", skipped=str(missing))
        return
    rows.add("device", found=device.name, capability=device.capability)
    if not rows.emulate:
        _chip(rows, device)


def _chip(rows: Rows, device) -> None:
    """The chip, and registers and spills of every kernel."""
    from hopfed.kernels.cuda.device import FOLDER

    found = device.xp.cuda.runtime.getDeviceProperties(device.ordinal)
    rows.add("chip", **{name: found[name] for name in PROPERTIES})
    for path in sorted(FOLDER.glob("*.cu")):
        for name in KERNEL.findall(path.read_text(encoding="utf-8")):
            with rows.attempt(f"compile {name}"):
                kernel = device.kernel(path.stem, name)
                rows.add(f"compile {name}", **{a: getattr(kernel, a) for a in ATTRIBUTES})


if __name__ == "__main__":
    run(work)
