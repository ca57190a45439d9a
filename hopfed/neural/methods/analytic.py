"""Analytic federated learning: published methods that are settings of the Hebbian read-out."""

from __future__ import annotations

from dataclasses import dataclass

from hopfed.neural.methods.hebbian import Hebbian

__all__ = ["AFL", "RanPAC", "SAFLe"]


@dataclass(frozen=True)
class AFL(Hebbian, name="afl", source="He et al., CVPR 2025"):
    """Analytic federated learning: ridge regression on features, with one message per client.

    Sums are integers, equal to the bit for any division among clients; the ridge follows from
    them by generalised cross-validation.

    Attributes
    ----------
    bits, code, reading, ridge, choose : see `Hebbian`; with these defaults it is AFL.

    Examples
    --------
    >>> from hopfed.neural.training.task import TaskSpec
    >>> AFL(TaskSpec(models=("mlp",))).code
    'floats'
    """

    bits: str = "public"
    code: str = "floats"
    reading: str = "global"
    ridge: str = "gcv"
    choose: str = "own"


@dataclass(frozen=True)
class RanPAC(AFL, name="ranpac", source="McDonnell et al., NeurIPS 2023"):
    """AFL on random rectified projections of the features; the paper takes 10,000.

    Attributes
    ----------
    random : number of random features.

    Examples
    --------
    >>> from hopfed.neural.training.task import TaskSpec
    >>> RanPAC(TaskSpec(models=("mlp",)), random=50).n_bits
    51
    """

    random: int = 1000


@dataclass(frozen=True)
class SAFLe(AFL, name="safle", source="after SAFLe, CVPR 2026"):
    """AFL on embeddings of grouped features, each in one of two buckets, below or above its mean.

    Decided here: a group of neighbours begins at each feature, and has an embedding for each joint
    value of its bits, in the basis of products of bits.

    Attributes
    ----------
    bits, code : see `Hebbian`; with these defaults and a group it is this method.
    group : number of features in a group.

    Examples
    --------
    >>> from hopfed.neural.training.task import TaskSpec
    >>> SAFLe(TaskSpec(models=("mlp",)), encoder="rows").n_bits  # of 64 pixels
    129
    """

    bits: str = "pooled"
    code: str = "bits"
    group: int = 2
