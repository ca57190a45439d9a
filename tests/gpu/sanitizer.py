"""Every kernel at awkward sizes under compute-sanitizer: memory, races, barriers, first reads."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np

TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
SECONDS = 300  # for a tool; all run at once
TOUCHED = "touched all"


def under(tool):
    """Run this file under one tool; what it said, and whether that is nothing wrong."""
    command = ["compute-sanitizer", "--tool", tool, "--error-exitcode=86", "--print-limit", "20"]
    command += [sys.executable, "-u", __file__, "--touch"]
    try:
        run = partial(subprocess.run, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        done = run(command, timeout=SECONDS)
    except (subprocess.TimeoutExpired, FileNotFoundError) as error:
        return str(error), False
    return done.stdout, done.returncode == 0 and TOUCHED in done.stdout


def touch(device):
    """Run every kernel on shapes that are no multiples of anything."""
    from hopfed import kernels
    from hopfed.kernels.cuda import gram, layered, products

    device.trial = (64, 256)  # with which ways to do the same are compared: slow under a tool
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


def _alone():
    """Touch all, with every array in memory of its own, so that what lies beyond it is seen."""
    from hopfed.kernels.cuda.device import cuda

    device = cuda()
    device.xp.cuda.set_allocator(None)
    touch(device)
    device.xp.cuda.Device(0).synchronize()
    print(TOUCHED)


def main():
    """Run this file under every tool; 0 if none of them found anything."""
    with ThreadPoolExecutor(len(TOOLS)) as together:  # what they say does not depend on time
        found = dict(zip(TOOLS, together.map(under, TOOLS), strict=True))
    for tool, (text, good) in found.items():
        print(f"== {tool}: {'nothing' if good else 'FOUND SOMETHING'}\n{text}")
    return int(not all(good for _, good in found.values()))


if __name__ == "__main__":
    _alone() if sys.argv[1:] == ["--touch"] else sys.exit(main())
