"""Hot numerical kernels: bit-packed products, serial and layered Glauber dynamics.

Importing this package loads no Numba, and neither CuPy nor a device: those who compute do.

    bits      Rows, pack, pack_masked, with_gaps, unpack, concatenate, transpose,
              column_sums, seen_counts
    products  gram, second_moment, matmat, rmatmat, seen_matmat, seen_rmatmat
    dense, heatbath, layered: dense_step, dense_sweep, heat_bath, descend, layered_step
    mixtures  responsibilities, mixed, beta_gains, spent, log_ratios: imported from there
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
from hopfed.kernels.dense import dense_step, dense_sweep
from hopfed.kernels.heatbath import descend, heat_bath
from hopfed.kernels.layered import LayeredUpdate, layered_step
from hopfed.kernels.layout import Relaxed
from hopfed.kernels.products import (
    gram,
    matmat,
    rmatmat,
    second_moment,
    seen_matmat,
    seen_rmatmat,
)

__all__ = [
    "LayeredUpdate",
    "Relaxed",
    "Rows",
    "column_sums",
    "concatenate",
    "dense_step",
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
    "seen_matmat",
    "seen_rmatmat",
    "transpose",
    "unpack",
    "with_gaps",
]
