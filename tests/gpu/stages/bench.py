"""`hopfed bench` of every pair on the device, each by itself; rehearsed on the processor."""

import json
import subprocess
import sys

from stages import Rows, run, the_device

SECONDS = 100  # for a pair
SHOWN = ("way", "point", "seconds", "spread", "ratio", "gap")


def work(rows: Rows) -> None:
    """Write a row for every way at every size."""
    the_device(rows)
    from hopfed.bench import PAIRS

    for name in PAIRS:
        with rows.attempt(f"bench {name}"):
            _pair(rows, name)


def _pair(rows: Rows, name: str) -> None:
    place = "cpu" if rows.emulate else "cuda"
    command = [sys.executable, "-m", "hopfed", "bench", name, "--device", place, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    if done.returncode:
        raise RuntimeError(done.stderr.strip()[-300:])
    for row in json.loads(done.stdout)["benchmarks"][name]["rows"]:
        rows.add(f"bench {name}", measured={k: row[k] for k in SHOWN if row[k] is not None})


if __name__ == "__main__":
    run(work)
