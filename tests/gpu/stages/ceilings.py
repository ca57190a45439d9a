"""The highest rates of the device on random data: bytes copied, and operations of each kind.

copy counts bytes read and written; float32, float64, int8 and bf16 additions and multiplications of
a large matrix product; b1 an AND and an addition for each pair of bits of the 1-bit matrix
instruction; words exclusive-ors and population counts of 64 bits.
"""

from pathlib import Path

import numpy as np

from stages import Rows, a_gpu, run, torch_on

COPY = 1 << 29  # float32 numbers: 2 GB
SIDE = 8192
LOOPS, THREADS, BLOCKS, CHAINS = 20_000, 256, 4, 8  # blocks on each multiprocessor
REPEATS = 7


def work(rows: Rows) -> None:
    """Measure each ceiling; one that fails does not keep the others."""
    device = a_gpu(rows)
    with rows.attempt("copy"):
        _copy(rows, device)
    for dtype in (np.float32, np.float64, np.int8):
        with rows.attempt(np.dtype(dtype).name):
            _product(rows, device, dtype)
    for name in ("peak_b1", "peak_words"):
        with rows.attempt(name):
            _instructions(rows, device, name)
    with rows.attempt("bf16"):
        _bf16(rows, device)


def _copy(rows: Rows, device) -> None:
    source = device.xp.random.random(COPY, dtype=np.float32)
    target = device.xp.empty_like(source)
    seconds = device.seconds(lambda: device.xp.copyto(target, source), REPEATS)
    rows.add("copy", seconds=seconds, rate=2 * source.nbytes / seconds)


def _product(rows: Rows, device, dtype) -> None:
    """Product of two square matrices by cuBLAS, its first rows compared with float64."""
    xp, exact = device.xp, dtype == np.int8
    draw = (lambda: xp.random.randint(-1, 2, (SIDE, SIDE))) if exact else _normal(xp)
    a, b = (draw().astype(dtype) for _ in range(2))
    out = xp.empty((SIDE, SIDE), np.int32 if exact else dtype)
    multiply = lambda: device.gemm(a, b, out, ta=False, tb=True, add=False)  # noqa: E731
    seconds = device.seconds(multiply, REPEATS)
    wanted = xp.matmul(a[:16].astype(np.float64), b.T.astype(np.float64))
    gap = float(abs(out[:16] - wanted).max() / abs(wanted).max())
    rows.add(np.dtype(dtype).name, seconds=seconds, rate=2 * SIDE**3 / seconds, gap=gap)


def _normal(xp):
    return lambda: xp.random.standard_normal((SIDE, SIDE), dtype=np.float32)


def _instructions(rows: Rows, device, name: str) -> None:
    """Rate of an instruction in registers, of peak.cu."""
    from hopfed.kernels.cuda.device import FOLDER, OPTIONS

    common = (FOLDER / "common.cu").read_text(encoding="utf-8")
    text = Path(__file__).with_name("peak.cu").read_text(encoding="utf-8")
    code = text.replace('#include "common.cu"', common)
    kernel = device.xp.RawModule(code=code, options=OPTIONS).get_function(name)
    properties = device.xp.cuda.runtime.getDeviceProperties(device.ordinal)
    blocks = BLOCKS * properties["multiProcessorCount"]
    out = device.xp.zeros(blocks * THREADS, np.int32)
    args = (out, np.int32(LOOPS))
    seconds = device.seconds(lambda: kernel((blocks,), (THREADS,), args), REPEATS)
    each = 2 * 16 * 8 * 256 / 32 if name == "peak_b1" else 1  # of a thread
    rate = each * CHAINS * LOOPS * THREADS * blocks / seconds
    rows.add(name.removeprefix("peak_"), seconds=seconds, rate=rate)


def _bf16(rows: Rows, device) -> None:
    torch = torch_on()
    a, b = (torch.randn(SIDE, SIDE, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    torch.mm(a, b)
    times = []
    for _ in range(REPEATS):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        torch.mm(a, b)
        stop.record()
        stop.synchronize()
        times.append(start.elapsed_time(stop) / 1e3)
    rows.add("bf16", seconds=min(times), rate=2 * SIDE**3 / min(times))


if __name__ == "__main__":
    run(work)
