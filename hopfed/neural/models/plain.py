"""Networks without shortcuts: MLP, LeNet, CNN-1 to 5 of FedSSA.

Each constructor takes a `Shape`. All activations are ReLU; all pools take a maximum over 2 x 2.
"""

from __future__ import annotations

from itertools import pairwise

from torch import nn

from hopfed._lib.settings import require
from hopfed.neural.models.base import Model, Shape

KERNEL = 5


def mlp(shape: Shape, *, hidden: tuple[int, ...] = (200, 200)) -> Model:
    """Fully connected layers of widths `hidden`, by default the 2NN of McMahan et al. (2017)."""
    holds = isinstance(hidden, (tuple, list)) and len(hidden) > 0
    holds = holds and all(isinstance(width, int) and width > 0 for width in hidden)
    require(holds, "hidden", "one or more widths, each at least 1", repr(hidden))
    features = nn.Sequential(nn.Flatten(), *_dense(shape.channels * shape.size**2, *hidden))
    return Model(features, nn.Linear(hidden[-1], shape.classes), hidden[-1])


def lenet(shape: Shape) -> Model:
    """LeNet-5 (LeCun et al., 1998) in today's form: 6 and 16 filters of 5 x 5, widths 120 and 84.

    It was designed for 32 x 32. Smaller images are padded in the first convolution; images under
    16 x 16 are also padded in the second.
    """
    return _two_convolutions(shape, "lenet", (6, 16), (120, 84), unpadded_from=(32, 16))


def fedssa_cnn(number: int, shape: Shape) -> Model:
    """CNN-`number` of FedSSA; the five differ in the second convolution and in FC1.

    Source: arXiv:2312.09006, Table 3; theory/NOTES.md, "FedSSA models".

    Convolutions are unpadded. This gives the table's sizes in megabytes for CIFAR-10, except for
    CNN-4: the table prints 3.81, but its rows give 4.05. Images under 16 x 16 would shrink to
    nothing, so both convolutions are padded for them.
    """
    maps, width = {1: (32, 2000), 2: (16, 2000), 3: (32, 1000), 4: (32, 800), 5: (32, 500)}[number]
    return _two_convolutions(
        shape, f"cnn-{number}", (16, maps), (width, 500), unpadded_from=(16, 16)
    )


def _two_convolutions(
    shape: Shape,
    name: str,
    maps: tuple[int, int],
    widths: tuple[int, int],
    unpadded_from: tuple[int, int],
) -> Model:
    """Two pairs of convolution and pool, then two dense layers.

    `unpadded_from` : smallest side of the images for which each convolution has no padding.
    """
    shape.require_side(4, name)
    layers: list[nn.Module] = []
    inside, side = shape.channels, shape.size
    for outside, least in zip(maps, unpadded_from, strict=True):
        padding = 0 if shape.size >= least else KERNEL // 2
        layers += [nn.Conv2d(inside, outside, KERNEL, padding=padding), nn.ReLU(), nn.MaxPool2d(2)]
        inside, side = outside, (side + 2 * padding - KERNEL + 1) // 2
    features = nn.Sequential(*layers, nn.Flatten(), *_dense(inside * side**2, *widths))
    return Model(features, nn.Linear(widths[-1], shape.classes), widths[-1])


def _dense(*widths: int) -> list[nn.Module]:
    return [layer for a, b in pairwise(widths) for layer in (nn.Linear(a, b), nn.ReLU())]
