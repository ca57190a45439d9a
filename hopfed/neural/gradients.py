"""What becomes of a gradient that conflicts with another: projection (8)(14) and PCGrad.

Source: arXiv:2101.11296, eqs. (8), (14); theory/NOTES.md, "FedH2L projection".

Gradients are dicts of tensors, taken as one vector; all of it also works under `torch.func.vmap`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from hopfed.neural.training.task import Params


def inner(a: Params, b: Params) -> Tensor:
    """Return the inner product of two gradients.

    Examples
    --------
    >>> inner({"w": torch.ones(2), "b": torch.ones(1)}, {"w": torch.ones(2), "b": torch.zeros(1)})
    tensor(2.)
    """
    products = [(a[name] * b[name]).sum() for name in a]
    return sum(products[1:], products[0])


def project(public: Params, local: Params) -> Params:
    """Return the vector nearest to `public` that has no negative inner product with `local`.

    The one-constraint quadratic program (8) in closed form: ``g_pub + v g_loc`` with
    ``v = max(0, -<g_pub, g_loc> / |g_loc|^2)``, the solution of its dual (14). Without a conflict
    that is `public` itself, to the bit; with one the inner product is 0 up to rounding.

    Examples
    --------
    >>> project({"w": torch.tensor([1.0, -1.0])}, {"w": torch.tensor([0.0, 2.0])})["w"]
    tensor([1., 0.])
    """
    v = _overlap(public, local)
    return {name: g + v * local[name] for name, g in public.items()}


def pcgrad(public: Params, local: Params) -> Params:
    """Return the sum of both gradients, each projected off the other where they conflict.

    Yu et al. (2020), Algorithm 1, for two tasks. For `public` alone its projection is that of
    `project`; what it does otherwise is to project `local` too, and to add it.

    Examples
    --------
    >>> pcgrad({"w": torch.tensor([1.0, -1.0])}, {"w": torch.tensor([0.0, 2.0])})["w"]
    tensor([2., 1.])
    """
    ours, theirs = project(local, public), project(public, local)
    return {name: g + ours[name] for name, g in theirs.items()}


def _overlap(a: Params, b: Params) -> Tensor:
    """Multiple of `b` that takes the conflict out of `a`: 0 without one, or where `b` is 0."""
    square = inner(b, b)
    return (-inner(a, b) / square.clamp(min=torch.finfo(square.dtype).tiny)).clamp(min=0)
