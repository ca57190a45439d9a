"""FLOPs by hand: matrix products and convolutions, forward and backward."""

from itertools import pairwise

import numpy as np
import torch
from torch import nn

from hopfed.neural.data.tensors import Tensors
from hopfed.neural.models import build
from hopfed.neural.models.architectures import STAGES
from hopfed.neural.training.cost import step_flops
from hopfed.neural.training.training import Job, Training


def images(channels, size, batch=2):
    return torch.zeros(batch, channels, size, size)


def objective(net, batch):
    return batch.cross_entropy(net(batch.x)[1])


def plain(net, batch):
    return batch.cross_entropy(net(batch.x))


def measured(model, batch, loss=objective):
    """FLOPs of a training step, for each example."""
    labels = torch.zeros(len(batch), dtype=torch.int64)
    scale = () if batch.dtype == torch.int64 else (torch.zeros(1, 1, 1), torch.ones(1, 1, 1))
    rows, start = np.arange(len(batch)), dict(model.state_dict())
    job = Job(model, start, rows, (0, 0, 0, 0), loss, Training())
    return step_flops(job, Tensors(batch, labels, *scale), len(batch))


def check(model, batch, products, first, loss=objective):
    """Backward, every weight has its gradient, every layer but the first that of its input."""
    before = {k: v.clone() for k, v in model.state_dict().items()}
    assert measured(model, batch, loss) == 2 * (3 * products - first)
    assert all(p.grad is None for p in model.parameters())
    assert all(torch.equal(v, before[k]) for k, v in model.named_parameters())


def test_dense_layers_and_convolutions():
    widths = [64, 17, 30, 5]
    model = build("mlp:17x30", channels=1, size=8, classes=5, seed=0)
    for count in (2, 5):
        products = sum(a * b for a, b in pairwise(widths))
        check(model, images(1, 8, count), products, 64 * 17)
    first = 28 * 28 * 16 * 5 * 5 * 3  # output pixels, filters, taps, channels
    products = first + 10 * 10 * 32 * 5 * 5 * 16 + 800 * 2000 + 2000 * 500 + 500 * 10
    check(build("cnn-1", channels=3, size=32, classes=10, seed=0), images(3, 32), products, first)


def test_grouped_convolutions_of_mobilenet():
    side, inside = 8, 32
    stem = products = 9 * side**2 * 32
    for expansion, outside, blocks, stride in STAGES:
        for i in range(blocks):
            wide = expansion * inside
            products += side**2 * inside * wide if expansion > 1 else 0
            side //= stride if i == 0 else 1
            products += side**2 * (9 * wide + wide * outside)
            inside = outside
    products += side**2 * 320 * 1280 + 1280 * 10
    model = build("mobilenet-v2", channels=1, size=8, classes=10, seed=0, norm="batch")
    check(model, images(1, 8), products, stem)


def test_recurrent_and_transposed_layers():
    T = 7
    model = build("lstm", channels=90, size=T, classes=90, seed=0)
    products = 4 * 256 * T * (8 + 256) + 4 * 256 * T * (256 + 256) + 256 * 90
    # The initial hidden states have no gradient.
    check(model, torch.zeros(2, T, dtype=torch.int64), products, 2 * 4 * 256 * 256)
    layer = nn.ConvTranspose2d(4, 6, 3, stride=2, groups=2)
    first = 25 * 3 * 4
    model = nn.Sequential(nn.Conv2d(3, 4, 1), layer, nn.Flatten())
    check(model, images(3, 5), first + 25 * 9 * 4 * 6 // 2, first, plain)


def test_frozen_parameters_spare_their_gradients():
    model, frozen = (build("cnn-5", channels=1, size=8, classes=10, seed=0) for _ in range(2))
    first = 64 * 16 * 25  # products of the first layer, whose input has no gradient
    forward = (measured(model, images(1, 8)) / 2 + first) / 3
    assert measured(frozen.freeze(), images(1, 8)) == 2 * (forward + 500 * 10)
