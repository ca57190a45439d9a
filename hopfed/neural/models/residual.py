"""Networks with shortcuts: ResNet-18 and 34, MobileNet-v2, in the form customary for CIFAR.

The stem is one 3 x 3 convolution without a pool. It keeps the size of images up to 32 x 32 and
halves larger ones. Three later stages halve the size again. The originals for 224 x 224 halve the
size five times in all. Strides do not change the number of parameters.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.functional import relu

from hopfed.neural.models.base import Model, Shape, SpatialMean, normalised

LARGE = 32  # pixels; the stem halves larger images

# MobileNet-v2: expansion, width, blocks, stride of the first block (Sandler et al., 2018, Table 2,
# where the stride of the second row is 2).
STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 1),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


class BasicBlock(nn.Module):
    """Two 3 x 3 convolutions and a shortcut, with a projection if the shape changes."""

    def __init__(self, inside: int, outside: int, stride: int, norm: str):
        super().__init__()
        self.body = nn.Sequential(
            *normalised(norm, inside, outside, 3, stride=stride),
            nn.ReLU(),
            *normalised(norm, outside, outside, 3),
        )
        same = stride == 1 and inside == outside
        projection = [] if same else normalised(norm, inside, outside, 1, stride=stride)
        self.shortcut = nn.Sequential(*projection)

    def forward(self, x: Tensor) -> Tensor:
        """Return ReLU of the sum of body and shortcut."""
        return relu(self.body(x) + self.shortcut(x))


class InvertedResidual(nn.Module):
    """Widen by 1 x 1, filter each channel by 3 x 3, narrow by 1 x 1 without activation."""

    def __init__(self, inside: int, outside: int, stride: int, expansion: int, norm: str):
        super().__init__()
        wide = expansion * inside
        widen = [] if expansion == 1 else [*normalised(norm, inside, wide, 1), nn.ReLU6()]
        self.body = nn.Sequential(
            *widen,
            *normalised(norm, wide, wide, 3, stride=stride, groups=wide),
            nn.ReLU6(),
            *normalised(norm, wide, outside, 1),
        )
        self.same = stride == 1 and inside == outside

    def forward(self, x: Tensor) -> Tensor:
        """Return the output of the body, plus the input if the shape is the same."""
        return x + self.body(x) if self.same else self.body(x)


def resnet(depth: int, shape: Shape) -> Model:
    """ResNet-18 or 34 (He et al., 2016); 512 features."""
    shape.require_side(8, f"resnet-{depth}")
    layers = [*normalised(shape.norm, shape.channels, 64, 3, stride=_stem(shape)), nn.ReLU()]
    inside = 64
    blocks = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3)}[depth]
    for outside, count in zip((64, 128, 256, 512), blocks, strict=True):
        for i in range(count):
            stride = 2 if i == 0 and outside > 64 else 1
            layers.append(BasicBlock(inside, outside, stride, shape.norm))
            inside = outside
    return Model(nn.Sequential(*layers, SpatialMean()), nn.Linear(512, shape.classes), 512)


def mobilenet_v2(shape: Shape) -> Model:
    """MobileNet-v2 (Sandler et al., 2018), as in kNN-Per; 1,280 features, without its dropout."""
    shape.require_side(8, "mobilenet-v2")
    norm = shape.norm
    layers = [*normalised(norm, shape.channels, 32, 3, stride=_stem(shape)), nn.ReLU6()]
    inside = 32
    for expansion, outside, count, first in STAGES:
        for i in range(count):
            stride = first if i == 0 else 1
            layers.append(InvertedResidual(inside, outside, stride, expansion, norm))
            inside = outside
    layers += [*normalised(norm, inside, 1280, 1), nn.ReLU6(), SpatialMean()]
    return Model(nn.Sequential(*layers), nn.Linear(1280, shape.classes), 1280)


def _stem(shape: Shape) -> int:
    return 1 if shape.size <= LARGE else 2
