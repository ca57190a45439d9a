"""Two ways to remove the conflict between two gradients: FedH2L's projection and PCGrad.

Source: arXiv:2101.11296, eqs. (8), (14); theory/NOTES.md, "FedH2L projection".

A gradient is a dict of tensors that stands for one vector. All functions also work under
`torch.func.vmap`.
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

    This solves the quadratic program of eq. (8), which has one constraint, in closed form: the
    result is ``g_pub + v g_loc``, and ``v = max(0, -<g_pub, g_loc> / |g_loc|^2)`` solves its dual,
    eq. (14). Without a conflict the result is `public` itself, bit for bit. With a conflict its
    inner product with `local` is 0 up to rounding.

    Examples
    --------
    >>> project({"w": torch.tensor([1.0, -1.0])}, {"w": torch.tensor([0.0, 2.0])})["w"]
    tensor([1., 0.])
    """
    v = _overlap(public, local)
    return {name: g + v * local[name] for name, g in public.items()}


def pcgrad(public: Params, local: Params) -> Params:
    """Return the sum of both gradients, each projected off the other where they conflict.

    Source: Yu et al. (2020), Algorithm 1, for two tasks. `public` is projected as in `project`;
    PCGrad also projects `local`, and adds the two.

    Examples
    --------
    >>> pcgrad({"w": torch.tensor([1.0, -1.0])}, {"w": torch.tensor([0.0, 2.0])})["w"]
    tensor([2., 1.])
    """
    ours, theirs = project(local, public), project(public, local)
    return {name: g + ours[name] for name, g in theirs.items()}


def _overlap(a: Params, b: Params) -> Tensor:
    """Factor v for which ``a + v b`` has no conflict with `b`; 0 without one, or if `b` is 0."""
    square = inner(b, b)
    return (-inner(a, b) / square.clamp(min=torch.finfo(square.dtype).tiny)).clamp(min=0)
