"""Every kernel at awkward sizes under compute-sanitizer: memory, races, barriers, first reads."""

import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from stages import NotHereError, Rows, run, the_device

TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
SECONDS = 300  # for a tool; all run at once
FOUND = 86  # exit status where a tool found something
TOUCHED = "touched all"


def work(rows: Rows) -> None:
    """Run this file under every tool, or rehearse what it touches."""
    device = the_device(rows)
    if rows.emulate:
        touch(device)
        rows.add(TOUCHED, kernels=sorted(set(device.launches)))
        return
    if shutil.which("compute-sanitizer") is None:
        raise NotHereError("compute-sanitizer is not installed")
    with ThreadPoolExecutor(len(TOOLS)) as together:  # what they say does not depend on time
        found = {tool: together.submit(_under, tool, rows.out / f"{tool}.txt") for tool in TOOLS}
    for tool, done in found.items():
        with rows.attempt(tool):
            status, text = done.result()
            print(text, flush=True)
            said = [s.strip("= ") for s in text.splitlines() if "SUMMARY" in s]
            rows.add(tool, status=status, said=said, complete=TOUCHED in text)
            rows.failed |= status != 0 or TOUCHED not in text


def _under(tool: str, out: Path) -> tuple[int | str, str]:
    """Run this file under one tool; its exit status and all that it said, which `out` keeps."""
    command = ["compute-sanitizer", "--tool", tool, f"--error-exitcode={FOUND}"]
    command += ["--print-limit", "20", sys.executable, "-u", __file__, "--touch"]
    with open(out, "w", encoding="utf-8") as file:
        try:
            done = subprocess.run(command, stdout=file, stderr=file, timeout=SECONDS)
            status: int | str = done.returncode
        except subprocess.TimeoutExpired:
            status = "out of time"
    return status, out.read_text(encoding="utf-8", errors="replace")


def touch(device) -> None:
    """Run every kernel on shapes that are no multiples of anything."""
    from rates import Sizes, measures

    from hopfed import kernels
    from hopfed.kernels.cuda import gram, layered, products

    for unit, measure in measures(device, Sizes(copy=100, side=16, loops=1, repeats=1)).items():
        print("touching", unit)
        measure()

    rng = np.random.default_rng(0)

    def signs(*shape):
        return device.xp.asarray(rng.choice(np.array([-1, 1], np.int8), shape))

    def real(*shape):
        return device.xp.asarray(rng.integers(-8, 9, shape) / 32)

    for shape in ((1, 1), (130, 1), (131, 203), (66, 1_100)):
        print("touching rows of", shape)
        x = signs(*shape)
        masked = x.copy()
        masked[::3] = 0
        for p in (kernels.pack(x), kernels.pack_masked(masked)):
            kernels.transpose(p), kernels.column_sums(p), kernels.gram(p)
            for dtype in (np.int8, np.float32, np.float64):
                kernels.unpack(p, dtype)
            kernels.matmat(p, real(shape[1], 3)), kernels.rmatmat(p, real(shape[0], 3))
            X = real(shape[1], 3).astype(np.float32)
            products.product(p.signs, p.seen, shape[1], X, False, "bf16")
        for method in gram.METHODS:
            gram.inner_products(kernels.pack(x).signs, None, shape[1], method)
    print("touching heat baths")
    for S, N, R in ((3, 100, 33), (5, 65, 9)):
        kernels.heat_bath(signs(S, N), real(N, R), beta=1.5, sweeps=5, seed=0)
        kernels.descend(signs(S, N), real(N, R))
    layered.PIECE_BYTES = 4_000  # several pieces
    for S, L, N, R in ((3, 2, 40, 5), (2, 3, 100, 33)):
        print("touching the layered memory")
        more = {"beta": 1.5, "updates": 4, "seed": 0, "field": 0.25, "cue": signs(N)}
        kernels.layered_step(signs(S, L, N), real(N, R), **more)


def _alone() -> None:
    """Touch all, with every array in memory of its own, so that what lies beyond it is seen."""
    from hopfed.kernels.cuda.device import cuda

    device = cuda(0)
    device.xp.cuda.set_allocator(None)
    touch(device)
    device.xp.cuda.Device(0).synchronize()
    print(TOUCHED)


if __name__ == "__main__":
    _alone() if sys.argv[1:] == ["--touch"] else run(work)
