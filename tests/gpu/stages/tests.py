"""The tests that are marked `gpu`, or their names in a rehearsal; their report is pytest.xml."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from stages import NotHereError, Rows, run, the_device

ROOT = Path(__file__).resolve().parents[3]
MOST = 8  # processes that share the device


def work(rows: Rows) -> None:
    """Run pytest; a test that fails fails the stage."""
    the_device(rows)
    command = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", "-p", "no:cacheprovider"]
    # Warnings of other versions of the libraries than those of the project's checks are no errors.
    command += ["-W", "default", f"--junitxml={rows.out.resolve() / 'pytest.xml'}", "tests"]
    workers = min(MOST, len(os.sched_getaffinity(0)) // 2)
    if rows.emulate:
        command += ["--collect-only"]
    elif workers > 1 and find_spec("xdist"):
        command += ["-n", str(workers), "--dist", "worksteal"]
    # Each worker has two cores for the compiled loops that a device is compared with.
    environment = {**os.environ, "NUMBA_NUM_THREADS": "2"}
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, env=environment)
    lines = done.stdout.strip().splitlines()
    print(done.stdout, flush=True)
    if done.returncode == 5:
        raise NotHereError("no test is marked gpu")
    rows.add("pytest", status=done.returncode, said=lines[-1] if lines else "nothing")
    rows.failed = done.returncode != 0


if __name__ == "__main__":
    run(work)
