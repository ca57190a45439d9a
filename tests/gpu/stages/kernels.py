"""Every kernel at the sizes of real work, with the bytes and operations that bound it."""

from functools import partial

import numpy as np
from rates import shortest

from hopfed import kernels as host
from stages import Rows, run, the_device

FULL = {"M": 4_000, "N": 50_000, "S": 200, "L": 5, "sites": 10_000, "R": 50, "updates": 50}
SMALL = {"M": 66, "N": 300, "S": 2, "L": 2, "sites": 64, "R": 5, "updates": 2}
REPEATS = 7


class Timer:
    """Times of kernels on one device."""

    def __init__(self, rows: Rows, device):
        self.rows, self.device = rows, device
        self.rng = np.random.default_rng(0)
        self.sizes = SMALL if rows.emulate else FULL

    def signs(self, *shape: int):
        """Random +-1, int8 on the device."""
        return self.device.xp.asarray(2 * self.rng.integers(0, 2, shape, np.int8) - np.int8(1))

    def normal(self, *shape: int, dtype=np.float32):
        """Random numbers on the device."""
        return self.device.xp.asarray(self.rng.standard_normal(shape).astype(dtype))

    def time(self, name: str, work, moved: float = 0, more: dict | None = None, **operations):
        """Time `work`, which reads and writes `moved` bytes, and computes `operations` by unit."""
        with self.rows.attempt(name):
            seconds = shortest(self.device, work, REPEATS)
            counts = {unit: float(count) for unit, count in operations.items()}
            self.rows.add(
                name, seconds=seconds, bytes=float(moved), operations=counts, **(more or {})
            )


def work(rows: Rows) -> None:
    """Time all kernels, each by itself."""
    timer = Timer(rows, the_device(rows))
    for part in (_bits, _gaps, _gram, _products, _spectra, _dynamics):
        with rows.attempt(part.__name__.strip("_")):
            part(timer)


def _bits(t: Timer) -> None:
    """Packing and what else moves words; each array is read once and written once."""
    M, N = t.sizes["M"], t.sizes["N"]
    cells, x = M * N, t.signs(M, N)
    p = host.pack(x)
    t.time("pack int8", partial(host.pack, x), cells * 9 / 8)
    for kind in (np.int8, np.float32, np.float64):
        size = np.dtype(kind).itemsize
        t.time(f"unpack {np.dtype(kind)}", partial(host.unpack, p, kind), cells * (size + 1 / 8))
    t.time("transpose", partial(host.transpose, p), cells / 4)
    t.time("column sums", partial(host.column_sums, p), cells / 8 + 8 * N)


def _gaps(t: Timer) -> None:
    """Rows with gaps: two planes of bits."""
    M, N = t.sizes["M"], t.sizes["N"]
    x = t.signs(M, N)
    x[::7] = 0  # where -1 occurs, 0 is missing
    p = host.pack_masked(x)
    t.time("pack with gaps", partial(host.pack_masked, x), M * N * 10 / 8)
    t.time("Gram matrix with gaps", partial(host.gram, p), M * N / 4 + 4 * M * M)


def _gram(t: Timer) -> None:
    """Gram matrices in every way that the chip has; a half of each is computed but by int8."""
    from hopfed.kernels.cuda import gram

    M, N = t.sizes["M"], t.sizes["N"]
    x, moved, pairs = t.signs(M, N), M * N / 8 + 4 * M * M, M * (M + 1) / 2
    p, wanted = host.pack(x), host.gram(host.pack(x[:64].get()))
    counts = {"bits": {"b1": 2.0 * pairs * N}, "int8": {"int8": 2.0 * pairs * N}}
    for method in gram.METHODS:
        make = partial(gram.inner_products, p.signs, None, N, method)
        with t.rows.attempt(f"Gram matrix by {method}"):
            exact = bool((make()[:64, :64].get() == wanted).all())
            t.time(f"Gram matrix by {method}", make, moved, {"exact": exact}, **counts[method])
            t.rows.failed |= not exact


def _products(t: Timer) -> None:
    """Products with thin matrices; the bits are read once, the operations those of the numbers."""
    from hopfed.kernels.cuda import products

    M, N = t.sizes["M"], t.sizes["N"]
    p, many = host.pack(t.signs(M, N)), (1, 20, 64, 128)
    for name, widths in (("float32", many), ("bf16", many), ("float64", (20,))):
        kind = np.float64 if name == "float64" else np.float32
        terms = 3.0 if name == "bf16" else 1.0
        for k in widths:
            X, U = t.normal(N, k, dtype=kind), t.normal(M, k, dtype=kind)
            moved = M * N / 8 + np.dtype(kind).itemsize * k * (M + N)
            counts = {name: 2.0 * terms * M * N * k}
            for label, Y in (("matmat", X), ("rmatmat", U)):
                work = partial(products.product, p.signs, None, N, Y, label == "rmatmat", name)
                t.time(f"{label} {name} k = {k}", work, moved, **counts)


def _spectra(t: Timer) -> None:
    """Leading eigenpairs, and the library's way to all of them."""
    from hopfed.spectral.eigenpairs import eigenpairs
    from hopfed.spectral.operators import FactorOperator

    M, N = t.sizes["M"], t.sizes["N"]
    pairs = 2 if t.rows.emulate else 20
    kinds = t.device.xp.asarray(t.rng.integers(0, pairs, M))
    flips = t.signs(M, N) + t.signs(M, N) + t.signs(M, N)  # an eighth of them turns a site
    rows = t.device.xp.sign(2 * t.signs(pairs, N)[kinds] + flips)
    operator = FactorOperator.from_examples(rows)
    for route in ("auto", "krylov"):
        t.time(f"eigenpairs {route}", partial(eigenpairs, operator, pairs, route=route))
    for n in (20,) if t.rows.emulate else (64, 140, 500, 1_000, 2_000, 3_000):
        X = t.normal(n, 2 * n, dtype=np.float64)
        X[:, :50] *= 20  # what stands out
        A = X @ X.T
        for solver in ("eigh", "eigvalsh"):  # all vectors, none
            t.time(f"{solver} {n}", partial(getattr(t.device.xp.linalg, solver), A))
        B = t.device.xp.eye(n, dtype=np.float32) + t.normal(n, n) / n
        t.time(f"solve {n}, float32", partial(t.device.xp.linalg.solve, B, B))


def _dynamics(t: Timer) -> None:
    """Updates of the layered memory, and heat bath of few and of many chains."""
    S, L, N, R, T = (t.sizes[name] for name in ("S", "L", "sites", "R", "updates"))
    W, s = t.normal(N, R) / np.float32(N**0.5), t.signs(S, L, N)
    step = partial(host.layered_step, s, W, beta=3.0, updates=T, seed=0)
    t.time("layered step", step, T * 4.0 * N * R, float32=T * 4.0 * S * L * N * R)
    sweep = partial(host.layered_step, s[:132], W, serial=True, beta=3.0, updates=2, seed=0)
    visits = {"visits": 2.0 * min(S, 132) * L * N}
    t.time("layered sweep", sweep, more=visits, float32=2 * 2.0 * min(S, 132) * L * N * R)
    for chains in (2,) if t.rows.emulate else (32, 132, 528, 2_112, 4_096):
        state = t.signs(chains, N)
        heat = partial(host.heat_bath, state, W, beta=3.0, sweeps=5, seed=0)
        visits = {"visits": 5.0 * chains * N}
        work = 6 * 2.0 * chains * N * R
        t.time(f"heat bath S = {chains}", heat, more=visits, float32=work)
        descend = partial(host.descend, state, W)
        t.time(f"descent S = {chains}", descend)


if __name__ == "__main__":
    run(work)
