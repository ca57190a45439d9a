"""Hot numerical kernels: bit-packed products, serial and layered Glauber dynamics, scoring.

Importing this package loads no Numba, and neither CuPy nor a device: those who compute do.

    bits      PackedBits, pack, unpack, concatenate, transpose, column_sums
    masked    MaskedBits, pack_masked, with_gaps, seen_counts, seen_matmat, seen_rmatmat
    mixtures  responsibilities, mixed, beta_gains, spent, log_ratios: imported from there
    moments   gram, cross_gram, second_moment
    products  matmat, rmatmat
    dense     dense_step and dense_sweep, and what they return: DenseSweep
    heatbath  heat_bath, descend, and what they return: HeatBath, Descent
    layered   layered_step, layered_sweep, and what they return: LayeredUpdate
    scoring   scores, distinct
    shuffle   scramble
"""

from hopfed.kernels.bits import PackedBits, column_sums, concatenate, pack, transpose, unpack
from hopfed.kernels.dense import DenseSweep, dense_step, dense_sweep
from hopfed.kernels.heatbath import Descent, HeatBath, descend, heat_bath
from hopfed.kernels.layered import LayeredUpdate, layered_step, layered_sweep
from hopfed.kernels.masked import (
    MaskedBits,
    pack_masked,
    seen_counts,
    seen_matmat,
    seen_rmatmat,
    with_gaps,
)
from hopfed.kernels.moments import cross_gram, gram, second_moment
from hopfed.kernels.products import matmat, rmatmat
from hopfed.kernels.scoring import distinct, scores
from hopfed.kernels.shuffle import scramble

__all__ = [
    "DenseSweep",
    "Descent",
    "HeatBath",
    "LayeredUpdate",
    "MaskedBits",
    "PackedBits",
    "column_sums",
    "concatenate",
    "cross_gram",
    "dense_step",
    "dense_sweep",
    "descend",
    "distinct",
    "gram",
    "heat_bath",
    "layered_step",
    "layered_sweep",
    "matmat",
    "pack",
    "pack_masked",
    "rmatmat",
    "scores",
    "scramble",
    "second_moment",
    "seen_counts",
    "seen_matmat",
    "seen_rmatmat",
    "transpose",
    "unpack",
    "with_gaps",
]
