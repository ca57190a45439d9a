"""Layers that compute the same values as PyTorch's, but batch well over many clients.

`torch.func.vmap` gives every layer a batched form, but three of these are slow on a CPU. A
convolution becomes a grouped convolution with one group per client, the gradient of a dense weight
comes transposed, and pooling runs pixel by pixel. This module computes these layers by products and
maxima of whole arrays. Other layers, and layers with other settings, stay as they are.
"""

from __future__ import annotations

from copy import deepcopy
from itertools import pairwise
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn.functional import conv2d, pad

__all__: list[str] = []

BLOCK = 8  # channels that a CPU's convolution processes at once; other group sizes are slow
FEW = 4  # with fewer channels, patches cost less than padding to a whole block


def batched(net: nn.Module) -> nn.Module:
    """Return a copy of `net` that shares its tensors, with layers that batch well over clients.

    Examples
    --------
    >>> net = nn.Sequential(nn.Linear(3, 2), nn.ReLU())
    >>> twin = batched(net)
    >>> type(twin[0]) is Dense, twin[0].weight is net[0].weight, type(net[0]) is nn.Linear
    (True, True, True)
    """
    if net not in _TWINS:
        held = {id(t): t for t in (*net.parameters(), *net.buffers())}
        twin = deepcopy(net, held)
        for layer in twin.modules():
            if type(layer) is nn.Sequential:
                _pool_first(layer)
            layer.__class__ = COUNTERPARTS.get(type(layer), type(layer))
        _TWINS[net] = twin
    return _TWINS[net].train(net.training)


def _pool_first(layers: nn.Sequential) -> None:
    """Swap ReLU and the maximum after it: the result is the same, with a quarter of the ReLUs."""
    for a, b in pairwise(range(len(layers))):
        pool = layers[b]
        if type(layers[a]) is nn.ReLU and type(pool) is nn.MaxPool2d and not pool.return_indices:
            layers[a], layers[b] = layers[b], layers[a]


class Dense(nn.Linear):
    """A linear layer whose products have the examples along the last axis in memory."""

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, in_features) to (B, out_features)."""
        if x.ndim != 2:
            return super().forward(x)
        y = torch.mm(self.weight, x.mT)  # the gradient of the weight has the weight's layout
        return (y if self.bias is None else y + self.bias[:, None]).mT


class Convolution(nn.Conv2d):
    """A convolution with channels padded to whole blocks; with few channels it uses patches."""

    def forward(self, x: Tensor) -> Tensor:
        """Map images (B, in_channels, H, W)."""
        plain = self.groups == 1 and self.padding_mode == "zeros"
        if not plain or isinstance(self.padding, str):
            return super().forward(x)
        if self.in_channels < FEW and self.dilation == (1, 1):
            h, w = self.padding
            x = pad(x, (w, w, h, h)) if h or w else x
            bias = x.new_zeros(self.out_channels) if self.bias is None else self.bias
            y: Tensor = _Patches.apply(x, self.weight, bias, self.stride)
            return y
        more, wider = -self.in_channels % BLOCK, -self.out_channels % BLOCK
        weight = pad(self.weight, (0, 0, 0, 0, 0, more, 0, wider))
        bias = None if self.bias is None else pad(self.bias, (0, wider))
        x = pad(x, (0, 0, 0, 0, 0, more)) if more else x
        y = conv2d(x, weight, bias, self.stride, self.padding, self.dilation)
        return y[:, : self.out_channels]


class Maximum(nn.MaxPool2d):
    """Maxima over 2 x 2 pixels."""

    def forward(self, x: Tensor) -> Tensor:
        """Map images (B, channels, H, W) to half the side."""
        twos = all(v in (2, (2, 2)) for v in (self.kernel_size, self.stride))
        whole = x.shape[-1] % 2 == 0 and x.shape[-2] % 2 == 0
        bare = self.padding in (0, (0, 0)) and self.dilation in (1, (1, 1))
        if not (twos and whole and bare) or self.return_indices:
            return super().forward(x)
        y: Tensor = _Halves.apply(x)
        return y


COUNTERPARTS: dict[type[nn.Module], type[nn.Module]] = {
    nn.Linear: Dense,
    nn.Conv2d: Convolution,
    nn.MaxPool2d: Maximum,
}

_TWINS: WeakKeyDictionary[nn.Module, nn.Module] = WeakKeyDictionary()


class _Patches(Function):
    """Convolution of images (clients, B, I, H, W) with weights (clients, O, I, k, l) and biases.

    `vmap` hides the axis of the clients; the rule `vmap` below restores it. The computation runs
    client by client, because the patches of one client fit into a cache. The backward pass cuts
    the patches again, which costs less than keeping those of all clients.
    """

    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor, stride: tuple[int, int]) -> Tensor:
        """Return the convolution (clients, B, O, h, w)."""
        (clients, B), outside, taps = x.shape[:2], weight.shape[1], weight.shape[3:]
        h, w = ((n - m) // s + 1 for n, m, s in zip(x.shape[3:], taps, stride, strict=True))
        y = x.new_empty(clients, outside, B * h * w)
        for c in range(clients):
            patches = _patches(x[c], taps, stride)
            torch.addmm(bias[c, :, None], weight[c].flatten(1), patches, out=y[c])
        return y.view(clients, outside, B, h, w).transpose(1, 2)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:  # noqa: ARG004
        x, weight, _, stride = inputs
        ctx.save_for_backward(x, weight)
        ctx.stride = stride

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        x, weight = ctx.saved_tensors
        flat = grad.transpose(1, 2).flatten(2)
        of_weight = weight.new_empty(weight.shape)
        for c in range(len(x)):
            patches = _patches(x[c], weight.shape[3:], ctx.stride)
            torch.mm(flat[c], patches.mT, out=of_weight[c].flatten(1))
        of_x = None
        if ctx.needs_input_grad[0]:
            parts = torch.bmm(weight.flatten(2).mT, flat)
            of_x = _overlaid(parts, weight.shape[3:], grad.shape[3:], x.shape, ctx.stride)
        return of_x, of_weight, flat.sum(2), None

    @staticmethod
    def vmap(info: Any, dims: Any, *inputs: Any) -> Any:
        return _Patches.apply(*_lead(inputs, dims, info.batch_size)), 0


def _patches(x: Tensor, taps: torch.Size, stride: tuple[int, int]) -> Tensor:
    """Patches of images (B, I, H, W), as (I times taps, B h w)."""
    windows = x.unfold(2, taps[0], stride[0]).unfold(3, taps[1], stride[1])
    return windows.permute(1, 4, 5, 0, 2, 3).flatten(3).flatten(0, 2)


def _overlaid(
    parts: Tensor, taps: torch.Size, grid: torch.Size, shape: torch.Size, stride: tuple[int, int]
) -> Tensor:
    """Sum of patches (clients, I times taps, B times grid) at their places in images of `shape`."""
    clients, B, inside, *_ = shape
    by_tap = parts.view(clients, inside, *taps, B, *grid)
    images = parts.new_zeros(clients, inside, B, *shape[3:])
    (down, right), (h, w) = stride, grid
    for i in range(taps[0]):
        for j in range(taps[1]):
            rows = slice(i, i + down * (h - 1) + 1, down)
            columns = slice(j, j + right * (w - 1) + 1, right)
            images[..., rows, columns] += by_tap[:, :, i, j]
    return images.transpose(1, 2)


class _Halves(Function):
    """Maxima of 2 x 2 pixels over the last axes; the first of equal pixels gets the gradient."""

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        """Return the maxima."""
        pairs = torch.maximum(x[..., 0::2, :], x[..., 1::2, :])
        return torch.maximum(pairs[..., 0::2], pairs[..., 1::2])

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:  # noqa: ARG004
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        pairs = torch.maximum(x[..., 0::2], x[..., 1::2])
        of_pairs, of_x = torch.empty_like(pairs), torch.empty_like(x)
        upper, lower = of_pairs[..., 0::2, :], of_pairs[..., 1::2, :]
        torch.mul(grad, pairs[..., 0::2, :] >= pairs[..., 1::2, :], out=upper)
        torch.sub(grad, upper, out=lower)
        left, right = of_x[..., 0::2], of_x[..., 1::2]
        torch.mul(of_pairs, x[..., 0::2] >= x[..., 1::2], out=left)
        torch.sub(of_pairs, left, out=right)
        return of_x

    @staticmethod
    def vmap(info: Any, dims: Any, *inputs: Any) -> Any:
        return _Halves.apply(*_lead(inputs, dims, info.batch_size)), 0


def _lead(inputs: Any, dims: Any, clients: int) -> list[Any]:
    """Return the inputs; in the tensors the axis of the clients comes first."""
    return [
        value
        if not isinstance(value, Tensor)
        else value.expand(clients, *value.shape)
        if d is None
        else value.movedim(d, 0)
        for value, d in zip(inputs, dims, strict=True)
    ]
