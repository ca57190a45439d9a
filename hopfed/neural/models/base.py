"""`Model`, `Shape`, and layers that several architectures share."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from hopfed._lib.settings import check_types, require

NORMS = ("group", "batch")
GROUPS = 8  # divides every normalised width here, with at least two channels per group


@dataclass(frozen=True)
class Shape:
    """Inputs and classes of a model.

    Attributes
    ----------
    channels : channels of the images; for text the number of different tokens.
    size : side of the square images in pixels; for text the number of tokens.
    classes : number of labels.
    norm : "group" or "batch", for the architectures that normalise. Group normalisation has no
        state to average over different clients, and padding rows of a batch cannot affect the
        other rows. The originals have batch normalisation; its running statistics are buffers,
        which a stacked step must receive stacked and then updates in place.

    Raises
    ------
    ArgumentError : a number below 1, another norm.

    Examples
    --------
    >>> Shape(channels=1, size=28, classes=10).norm
    'group'
    """

    channels: int
    size: int
    classes: int
    norm: str = "group"

    def __post_init__(self) -> None:
        check_types(self)
        for name in ("channels", "size", "classes"):
            require(getattr(self, name) >= 1, name, "at least 1", getattr(self, name))
        require(self.norm in NORMS, "norm", f"one of {', '.join(NORMS)}", repr(self.norm))

    def require_side(self, least: int, what: str) -> None:
        """Raise ArgumentError for images of less than `least` pixels: too small for `what`."""
        require(self.size >= least, "size", f"at least {least} pixels for {what}", self.size)


class Model(nn.Module):
    """A feature extractor followed by a head.

    The names of parameters tell the two parts apart: they start with ``features.`` or
    ``head.``. The rows of ``head.weight`` and ``head.bias`` are the classes.

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
        """Let only the head be trained; the extractor stays in test mode."""
        self.features.requires_grad_(False)
        self.frozen = True
        return self.train(self.training)

    def train(self, mode: bool = True) -> Model:
        """Set the mode, but not that of a frozen extractor."""
        super().train(mode)
        if self.frozen:
            self.features.train(False)
        return self

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the logits (B, classes)."""
        return self.head(self.features(x))


class SpatialMean(nn.Module):
    """Average over the pixels: (B, C, H, W) to (B, C), whatever the size of the image."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the mean of every channel."""
        return x.mean((-2, -1))


def rectified(features: nn.Module) -> None:
    """Initialise convolutions and dense layers as He et al. (2015); biases are 0.

    The weights are normal with variance 2 / fan-in, which keeps the scale of a signal through ReLU
    layers. With PyTorch's default the scale falls by more than half at each layer; networks
    without batch normalisation then learn nothing in their first epochs at usual learning rates.
    """
    for layer in features.modules():
        if isinstance(layer, (nn.Conv2d, nn.Linear)):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)


def normalised(
    norm: str, inside: int, outside: int, kernel: int, *, stride: int = 1, groups: int = 1
) -> list[nn.Module]:
    """Return a convolution without bias and its norm; the size changes only by `stride`."""
    convolution = nn.Conv2d(
        inside, outside, kernel, stride, padding=kernel // 2, groups=groups, bias=False
    )
    by_group = norm == "group"
    return [convolution, nn.GroupNorm(GROUPS, outside) if by_group else nn.BatchNorm2d(outside)]
