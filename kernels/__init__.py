"""Hot numerical kernels: bit-packed products, serial and layered Glauber dynamics.

Importing this package loads neither Numba nor CuPy; the first computation does.
Arguments of wrong dtypes or shapes, and numbers that are not finite, raise `ArgumentError`; dense
energies with device arrays raise `BackendError`.

Parameters
----------
p : (M, N) packed rows, on the host or a device.
X, U : (N, k) or (N,), (M, k) or (M,), real, on the host or device of the rows.
state : (S, N) int8 of +-1, layers (S, L, N), on the host or a device; it is not changed.
W : (N, R) real, on the same host or device, converted to float32; the couplings are ``W W^T``
    without its diagonal.
patterns, weights : (K, N) int8 of +-1; (K,) above 0, by default 1.
energy, parameter : "power" with a whole n in 2 .. 30, or "exponential" with beta in (0, 300].
beta : inverse temperature, broadcasts to (S, sweeps): (sweeps,) for annealing, (S, 1) for a value
    per chain; None for temperature 0.
sweeps, max_sweeps, updates : largest number of sweeps or updates.
seed, first_sweep : counter of the draws; set ``first_sweep`` to continue an earlier run.
stop_score, score_weights : a chain stops once its score, with weights (R,) and computed every 4
    sweeps, exceeds this.
held : bool, broadcasts to (S, N): sites that keep their spin.
tie : above 0; without noise a field of at most this size leaves the spin unchanged.
"""

from hopfed.kernels.bits import (
    Rows,
    column_sums,
    concatenate,
    pack,
    pack_masked,
    seen_counts,
    transpose,
    unpack,
    with_gaps,
)  # fmt: skip
from hopfed.kernels.coupling import Relaxed
from hopfed.kernels.dense import dense_sweep
from hopfed.kernels.heatbath import descend, heat_bath
from hopfed.kernels.layered import LayeredUpdate, layered_step
from hopfed.kernels.products import gram, matmat, rmatmat, second_moment

__all__ = [
    "LayeredUpdate", "Relaxed", "Rows", "column_sums", "concatenate", "dense_sweep", "descend",
    "gram", "heat_bath", "layered_step", "matmat", "pack", "pack_masked", "rmatmat",
    "second_moment", "seen_counts", "transpose", "unpack", "with_gaps",
]  # fmt: skip
