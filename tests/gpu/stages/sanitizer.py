"""Every kernel at awkward sizes under compute-sanitizer: memory, races, barriers, first reads."""

import shutil
import subprocess
import sys

import numpy as np

from stages import NotHereError, Rows, a_gpu, run

TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
SECONDS = 100  # for a tool
FOUND = 86  # exit status where a tool found something
TOUCHED = "touched all"


def work(rows: Rows) -> None:
    """Run this file under every tool."""
    a_gpu(rows)
    if shutil.which("compute-sanitizer") is None:
        raise NotHereError("compute-sanitizer is not installed")
    touch = [sys.executable, __file__, "--touch"]
    for tool in TOOLS:
        with rows.attempt(tool):
            command = ["compute-sanitizer", "--tool", tool, f"--error-exitcode={FOUND}"]
            command += ["--print-limit", "20", *touch]
            done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
            text = done.stdout + done.stderr
            print(text, flush=True)
            said = [s.strip("= ") for s in text.splitlines() if "SUMMARY" in s]
            rows.add(tool, status=done.returncode, said=said, complete=TOUCHED in text)
            rows.failed |= done.returncode != 0 or TOUCHED not in text


def touch(device) -> None:
    """Run every kernel on shapes that are no multiples of anything."""
    from hopfed import kernels
    from hopfed.bench.harness.device_ceilings import Sizes, measures
    from hopfed.kernels.cuda import gram, heatbath, layered_run, products

    for measure in measures(device, Sizes(copy=100, side=16, loops=1, repeats=1)).values():
        measure()

    rng = np.random.default_rng(0)

    def signs(*shape):
        return device.xp.asarray(rng.choice(np.array([-1, 1], np.int8), shape))

    def real(*shape):
        return device.xp.asarray(rng.integers(-8, 9, shape) / 32)

    for shape in ((1, 1), (130, 1), (131, 203), (66, 1_100)):
        x = signs(*shape)
        masked = x.copy()
        masked[::3] = 0
        for p in (kernels.pack(x), kernels.pack_masked(masked)):
            kernels.transpose(p), kernels.column_sums(p), kernels.gram(p)
            for dtype in (np.int8, np.float32, np.float64):
                kernels.unpack(p, dtype)
            kernels.matmat(p, real(shape[1], 3)), kernels.rmatmat(p, real(shape[0], 3))
            planes = (p.signs, p.seen) if hasattr(p, "seen") else (p,)
            X = real(shape[1], 3).astype(np.float32)
            products.matmat(planes[0], X, *planes[1:], method="bf16")
        for method in gram.available(device):
            gram.gram(kernels.pack(x), method)
        for null in ("signs", "permute"):
            kernels.scramble(kernels.pack(x), null, np.random.default_rng(1))
    for heatbath.MANY in (1 << 30, 0):  # a block for each chain, a warp for four
        for S, N, R in ((3, 100, 33), (5, 65, 9)):
            kernels.heat_bath(signs(S, N), real(N, R), beta=1.5, sweeps=5, seed=0)
            kernels.descend(signs(S, N), real(N, R))
    layered_run.PIECE_BYTES = 4_000  # several pieces
    for S, L, N, R in ((3, 2, 40, 5), (2, 3, 100, 33)):
        for update in (kernels.layered_step, kernels.layered_sweep):
            more = {"beta": 1.5, "updates": 4, "seed": 0, "field": 0.25, "cue": signs(N)}
            update(signs(S, L, N), real(N, R), **more)


def _alone() -> None:
    """Touch all, with every array in memory of its own, so that what lies beyond it is seen."""
    from hopfed.kernels.cuda.device import cuda

    device = cuda()
    device.xp.cuda.set_allocator(None)
    touch(device)
    device.xp.cuda.Device(0).synchronize()
    print(TOUCHED)


if __name__ == "__main__":
    _alone() if sys.argv[1:] == ["--touch"] else run(work)
