"""Hot numerical kernels: bit-packed products, serial and layered Glauber dynamics, scoring.

Every public function is imported from its module on first use, so that `import hopfed.kernels`
costs nothing and Numba is loaded only by those who compute.

    bits      PackedBits, pack, unpack, concatenate, transpose, column_sums
    masked    MaskedBits, pack_masked, with_gaps, seen_counts, pair_counts, seen_matmat,
              seen_rmatmat
    mixtures  responsibilities, mixed, beta_gains, spent, log_ratios: imported from there
    moments   gram, cross_gram, gram_accumulate, second_moment
    products  matmat, rmatmat
    dense     dense_step and dense_sweep, and what they return: DenseSweep
    heatbath  heat_bath, descend, and what they return: HeatBath, Descent
    layered   layered_step, layered_sweep, and what they return: LayeredUpdate
    scoring   scores, distinct, canonical_sign
    shuffle   scramble
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hopfed.kernels.bits import (
        PackedBits,
        column_sums,
        concatenate,
        pack,
        transpose,
        unpack,
    )
    from hopfed.kernels.dense import DenseSweep, dense_step, dense_sweep
    from hopfed.kernels.heatbath import Descent, HeatBath, descend, heat_bath
    from hopfed.kernels.layered import LayeredUpdate, layered_step, layered_sweep
    from hopfed.kernels.masked import (
        MaskedBits,
        pack_masked,
        pair_counts,
        seen_counts,
        seen_matmat,
        seen_rmatmat,
        with_gaps,
    )
    from hopfed.kernels.moments import cross_gram, gram, gram_accumulate, second_moment
    from hopfed.kernels.products import matmat, rmatmat
    from hopfed.kernels.scoring import canonical_sign, distinct, scores
    from hopfed.kernels.shuffle import scramble

__all__ = [
    "DenseSweep",
    "Descent",
    "HeatBath",
    "LayeredUpdate",
    "MaskedBits",
    "PackedBits",
    "canonical_sign",
    "column_sums",
    "concatenate",
    "cross_gram",
    "dense_step",
    "dense_sweep",
    "descend",
    "distinct",
    "gram",
    "gram_accumulate",
    "heat_bath",
    "layered_step",
    "layered_sweep",
    "matmat",
    "pack",
    "pack_masked",
    "pair_counts",
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

_HOME = {
    "PackedBits": "bits",
    "column_sums": "bits",
    "concatenate": "bits",
    "pack": "bits",
    "transpose": "bits",
    "unpack": "bits",
    "MaskedBits": "masked",
    "pack_masked": "masked",
    "pair_counts": "masked",
    "seen_counts": "masked",
    "seen_matmat": "masked",
    "seen_rmatmat": "masked",
    "with_gaps": "masked",
    "cross_gram": "moments",
    "gram": "moments",
    "gram_accumulate": "moments",
    "second_moment": "moments",
    "DenseSweep": "dense",
    "dense_step": "dense",
    "dense_sweep": "dense",
    "Descent": "heatbath",
    "HeatBath": "heatbath",
    "descend": "heatbath",
    "heat_bath": "heatbath",
    "LayeredUpdate": "layered",
    "layered_step": "layered",
    "layered_sweep": "layered",
    "matmat": "products",
    "rmatmat": "products",
    "canonical_sign": "scoring",
    "distinct": "scoring",
    "scores": "scoring",
    "scramble": "shuffle",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
