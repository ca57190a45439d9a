"""`Model` and `Shape`, and the networks of the papers, for small images and for text.

MLP, LeNet and CNN-1 to 5 of FedSSA; MobileNet-v2 in its usual form for CIFAR; the LSTM of LEAF's
Shakespeare task; all without dropout. All run under ``torch.func.vmap`` with stacked parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from hopfed._lib.settings import require

NORMS = ("group", "batch")
GROUPS = 8  # divides every normalised width here, with at least two channels per group
KERNEL = 5
EMBEDDING = 8  # length of a character's embedding, as in LEAF; the paper does not give it
LARGE = 32  # pixels; the stem of MobileNet halves larger images
Two = tuple[int, int]

# MobileNet-v2: expansion, width, blocks, stride of the first block (Sandler et al., 2018, Table 2,
# where the stride of the second row is 2).
STAGES = (
    *((1, 16, 1, 1), (6, 24, 2, 1), (6, 32, 3, 2), (6, 64, 4, 2)),
    *((6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)),
)


@dataclass(frozen=True)
class Shape:
    """Inputs and classes of a model, and the norm of architectures with normalisation layers."""

    channels: int  # channels of images; for text the number of different tokens
    size: int  # side of the square images in pixels; for text the number of tokens
    classes: int
    norm: str = "group"  # has no running statistics and ignores padding; papers use "batch"

    def __post_init__(self) -> None:
        require(self.norm in NORMS, "norm", f"one of {', '.join(NORMS)}", repr(self.norm))


class Model(nn.Module):
    """A feature extractor followed by a head.

    The names of parameters start with ``features.`` or ``head.``. The rows of ``head.weight``
    and the entries of ``head.bias`` are the classes.

    Attributes
    ----------
    features : module that maps inputs (B, C, S, S), or tokens (B, T), to (B, feature_dim).
    head : module that maps features to logits (B, classes).
    feature_dim : length of a feature vector.
    frozen : whether the extractor keeps its weights and statistics; see `freeze`.

    Examples
    --------
    >>> model = Model(nn.Flatten(), nn.Linear(64, 10), 64)
    >>> x = torch.ones(2, 1, 8, 8)
    >>> bool((model(x) == model.head(model.features(x))).all())
    True
    """

    def __init__(self, features: nn.Module, head: nn.Linear, feature_dim: int):
        super().__init__()
        self.features = features
        self.head = head
        self.feature_dim = feature_dim
        self.frozen = False

    def freeze(self) -> Model:
        """Train only the head from now on; the extractor stays in test mode."""
        self.features.requires_grad_(False)
        self.frozen = True
        return self.train(self.training)

    def train(self, mode: bool = True) -> Model:
        """Set the mode of all layers except a frozen extractor."""
        super().train(mode)
        if self.frozen:
            self.features.train(False)
        return self

    def forward(self, x: Tensor, both: bool = False) -> Any:
        """Return the logits (B, classes); with `both`, (features, logits)."""
        features = self.features(x)
        return (features, self.head(features)) if both else self.head(features)


def init_for_relu(features: nn.Module) -> None:
    """Initialise an architecture's layers as He et al. (2015), to keep the signals' scale."""
    for layer in features.modules():
        if isinstance(layer, (nn.Conv2d, nn.Linear)):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)


def normed_convolution(
    norm: str, inside: int, outside: int, kernel: int, *, stride: int = 1, groups: int = 1
) -> list[nn.Module]:
    """Return an architecture's convolution, without bias, and norm; only `stride` changes size."""
    how: dict[str, Any] = {"padding": kernel // 2, "groups": groups, "bias": False}
    by_group = nn.GroupNorm(GROUPS, outside) if norm == "group" else nn.BatchNorm2d(outside)
    return [nn.Conv2d(inside, outside, kernel, stride, **how), by_group]


def mlp(shape: Shape, *hidden: int) -> Model:
    """Return the architecture MLP: widths `hidden`, by default the 2NN of McMahan et al. (2017)."""
    hidden = hidden or (200, 200)
    features = nn.Sequential(nn.Flatten(), *_dense(shape.channels * shape.size**2, *hidden))
    return Model(features, nn.Linear(hidden[-1], shape.classes), hidden[-1])


def lenet(shape: Shape) -> Model:
    """Return LeNet-5 (LeCun et al., 1998) in its modern form; small images are padded."""
    return _two_convolutions(shape, "lenet", (6, 16), (120, 84), (32, 16))


def fedssa_cnn(number: int, shape: Shape) -> Model:
    """Return architecture CNN-`number` of FedSSA (arXiv:2312.09006, Table 3; theory/NOTES.md)."""
    maps, width = {1: (32, 2000), 2: (16, 2000), 3: (32, 1000), 4: (32, 800), 5: (32, 500)}[number]
    return _two_convolutions(shape, f"cnn-{number}", (16, maps), (width, 500), (16, 16))


def _two_convolutions(shape: Shape, name: str, maps: Two, widths: Two, unpadded_from: Two) -> Model:
    """Return two convolutions with pools, padded for images below these sides, and two layers."""
    require(shape.size >= 4, "size", f"at least 4 pixels for {name}", shape.size)
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


class InvertedResidual(nn.Module):
    """Block that widens by 1 x 1, filters channels by 3 x 3, and narrows without activation."""

    def __init__(self, inside: int, outside: int, stride: int, expansion: int, norm: str):
        super().__init__()
        wide = expansion * inside
        widen = [] if expansion == 1 else [*normed_convolution(norm, inside, wide, 1), nn.ReLU6()]
        self.body = nn.Sequential(
            *widen,
            *normed_convolution(norm, wide, wide, 3, stride=stride, groups=wide),
            nn.ReLU6(),
            *normed_convolution(norm, wide, outside, 1),
        )
        self.same = stride == 1 and inside == outside

    def forward(self, x: Tensor) -> Tensor:
        """Return the output of the body, plus the input if the shapes are equal."""
        return x + self.body(x) if self.same else self.body(x)


def mobilenet_v2(shape: Shape) -> Model:
    """Return MobileNet-v2 (Sandler et al., 2018) as in kNN-Per; 1,280 features, no dropout."""
    require(shape.size >= 8, "size", "at least 8 pixels for mobilenet-v2", shape.size)
    norm = shape.norm
    stem = 1 if shape.size <= LARGE else 2
    layers = [*normed_convolution(norm, shape.channels, 32, 3, stride=stem), nn.ReLU6()]
    inside = 32
    for expansion, outside, count, first in STAGES:
        for stride in (first, *[1] * (count - 1)):
            layers.append(InvertedResidual(inside, outside, stride, expansion, norm))
            inside = outside
    layers += [*normed_convolution(norm, inside, 1280, 1), nn.ReLU6(), nn.AdaptiveAvgPool2d(1)]
    return Model(nn.Sequential(*layers, nn.Flatten()), nn.Linear(1280, shape.classes), 1280)


class LSTMLayer(nn.RNNCellBase):
    """An `nn.LSTMCell` in time; the kernels of `nn.LSTM` have no rule under `vmap` or of FLOPs."""

    def __init__(self, inside: int, width: int):
        super().__init__(inside, width, bias=True, num_chunks=4)

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Map (B, T, inside) to the hidden states (B, T, width) and the last cell state."""
        # One product gives the input's part of the gates for all times, as it has no recurrence.
        driven = linear(inputs, self.weight_ih, self.bias_ih + self.bias_hh)
        h = c = driven.new_zeros(driven.shape[0], self.hidden_size)
        hidden = []
        for drive in driven.unbind(1):
            i, f, g, o = (drive + linear(h, self.weight_hh)).chunk(4, dim=-1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            hidden.append(h)
        return torch.stack(hidden, dim=1), c


class StackedLSTM(nn.Module):
    """Map tokens (B, T) to the last hidden, then cell states of all layers, top layer first."""

    def __init__(self, tokens: int, embedding: int, width: int, layers: int):
        super().__init__()
        self.embedding = nn.Embedding(tokens, embedding)
        widths = [embedding] + [width] * layers
        self.layers = nn.ModuleList(LSTMLayer(a, b) for a, b in pairwise(widths))

    def forward(self, x: Tensor) -> Tensor:
        """Run over the tokens from zero states and return the last states."""
        sequence, hidden, memory = self.embedding(x), list[Tensor](), list[Tensor]()
        for layer in self.layers:
            sequence, c = layer(sequence)
            hidden.insert(0, sequence[:, -1])
            memory.insert(0, c)
        return torch.cat(hidden + memory, dim=-1)


class TopHidden(nn.Linear):
    """Linear layer that reads only the first `in_features` features: the top hidden state."""

    def forward(self, z: Tensor) -> Tensor:
        """Return the logits (B, out_features) of features (B, at least in_features)."""
        return super().forward(z[..., : self.in_features])


def lstm(shape: Shape, width: int = 256) -> Model:
    """Return the architecture LSTM of kNN-Per (arXiv:2111.09360); its head reads the top state."""
    features = StackedLSTM(shape.channels, EMBEDDING, width, layers=2)
    return Model(features, TopHidden(width, shape.classes), 4 * width)


MODELS: dict[str, Callable[..., Model]] = {
    "mlp": mlp,
    "lenet": lenet,
    **{f"cnn-{n}": partial(fedssa_cnn, n) for n in range(1, 6)},
    "mobilenet-v2": mobilenet_v2,
    "lstm": lstm,
}
