"""Hot numerical kernels: bit-packed products, serial and layered Glauber dynamics.

Importing this package loads no Numba, and neither CuPy nor a device: those who compute do.

    bits      Rows, pack, pack_masked, with_gaps, unpack, concatenate, transpose,
              column_sums, seen_counts
    products  gram, second_moment, matmat, rmatmat
    dense, heatbath, layered: dense_sweep, heat_bath, descend, layered_step

Arguments of wrong dtypes or shapes, and numbers that are not finite, raise `ArgumentError`; the
dense energies on a device `BackendError`.

Parameters
----------
p : (M, N) packed rows, on the host or a device.
X, U : (N, k) or (N,), (M, k) or (M,), real, where the rows are.
state : (S, N) int8 of +-1, layers (S, L, N), on the host or a device; it is not changed.
W : (N, R) real, at the same place, converted to float32; the couplings are ``W W^T``, without its
    diagonal.
patterns, weights : (K, N) int8 of +-1; (K,) above 0, 1 when left out.
energy, parameter : "power" with a whole n in 2 .. 30, or "exponential" with beta in (0, 300].
beta : inverse temperature, broadcasts to (S, sweeps): (sweeps,) for annealing, (S, 1) for one a
    chain; None for temperature 0.
sweeps, max_sweeps, updates : how many at most.
seed, first_sweep : place of the draws; an advanced ``first_sweep`` goes on with one longer run.
stop_score, score_weights : a chain stops once its score, looked at every 4 sweeps and weighed by
    (R,), exceeds this.
held : bool, broadcasts to (S, N): sites that keep their spin.
tie : above 0; without noise a field of at most this size leaves the spin as it is.
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
)
from hopfed.kernels.dense import dense_sweep
from hopfed.kernels.heatbath import descend, heat_bath
from hopfed.kernels.layered import LayeredUpdate, layered_step
from hopfed.kernels.layout import Relaxed
from hopfed.kernels.products import gram, matmat, rmatmat, second_moment

__all__ = [
    "LayeredUpdate",
    "Relaxed",
    "Rows",
    "column_sums",
    "concatenate",
    "dense_sweep",
    "descend",
    "gram",
    "heat_bath",
    "layered_step",
    "matmat",
    "pack",
    "pack_masked",
    "rmatmat",
    "second_moment",
    "seen_counts",
    "transpose",
    "unpack",
    "with_gaps",
]
