"""Everything that wants a GPU, in one command on a machine that has one.

    python tests/gpu/day.py --out DIR [--stages doctor,tests,...] [--seconds 3600]

Each stage is a command with a time limit, and what it says lies in DIR/STAGE.txt: `tests` runs the
tests that are marked gpu, `bench` times kernels and recoveries, `sanitizer` wants
compute-sanitizer. A stage that fails or hangs loses nothing but itself.

Needed: `pip install -e '.[cuda13,test]'`, or `cuda12`.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

HERE = Path(__file__).resolve().parent
STAGES = {  # seconds, and what Python runs
    "doctor": (90, ["-m", "hopfed", "doctor"]),
    # Warnings of other versions of the libraries than those of the project's checks are no errors.
    "tests": (1200, ["-m", "pytest", "-q", "-m", "gpu", "-W", "default", str(HERE.parent)]),
    "bench": (540, ["-m", "hopfed", "bench", "all", "--device", "cuda"]),
    "sanitizer": (420, [str(HERE / "sanitizer.py")]),
}


def main(stages=STAGES):
    """Run the stages one after the other; 0 if none of them failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", required=True, type=Path, help="folder of the results")
    parser.add_argument("--stages", default=",".join(stages), help="which, separated by commas")
    parser.add_argument("--seconds", type=float, default=3600, help="for all stages together")
    args = parser.parse_args()
    names = args.stages.split(",")
    if unknown := set(names) - set(stages):
        parser.error(f"--stages: {', '.join(sorted(unknown))} is none of {', '.join(stages)}")
    args.out.mkdir(parents=True, exist_ok=True)
    end, failed = time.monotonic() + args.seconds, False
    for name in names:
        limit, words = stages[name]
        said = run_stage(words, args.out / f"{name}.txt", min(limit, end - time.monotonic()))
        print(f"{name}: {said}", flush=True)
        failed |= said != "ok"
    return int(failed)


def run_stage(words, log, limit):
    """Run one stage to its end or its limit: "ok", or what became of it."""
    if limit <= 0:
        return "no time is left"
    paths = [str(HERE.parent), os.environ.get("PYTHONPATH", "")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    with open(log, "wb") as file:
        child = subprocess.Popen(
            [sys.executable, *words], stdout=file, stderr=file, env=env, start_new_session=True
        )
        try:
            status = child.wait(limit)
        except subprocess.TimeoutExpired:
            return f"stopped after {limit:.0f} s"
        finally:
            with suppress(ProcessLookupError, PermissionError):  # what lives on holds the device
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    return "ok" if status == 0 else f"failed, see {log}"


if __name__ == "__main__":
    sys.exit(main())
