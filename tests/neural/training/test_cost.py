"""FLOPs by hand: matrix products and convolutions, forward and backward."""

import numpy as np
import pytest
import torch
from torch import nn

from hopfed.neural.data.tensors import Tensors
from hopfed.neural.models import build
from hopfed.neural.training.training import Job, Training, step_flops


def images(channels, size, batch=2):
    return torch.zeros(batch, channels, size, size)


def objective(net, batch):
    out = net(batch.x)
    return batch.cross_entropy(out[1] if isinstance(out, tuple) else out)


def measured(model, batch):
    """FLOPs of a training step, for each example."""
    labels = torch.zeros(len(batch), dtype=torch.int64)
    scale = () if batch.dtype == torch.int64 else (torch.zeros(1, 1, 1), torch.ones(1, 1, 1))
    rows, start = np.arange(len(batch)), dict(model.state_dict())
    job = Job(model, start, rows, (0, 0, 0, 0), objective, Training())
    return step_flops(job, Tensors(batch, labels, *scale), len(batch))


MLP = build("mlp:17x30", channels=1, size=8, classes=5, seed=0)
DENSE = 64 * 17 + 17 * 30 + 30 * 5
CNN, FIRST = build("cnn-1", channels=3, size=32, classes=10, seed=0), 28**2 * 16 * 25 * 3
LSTM, TOKENS = build("lstm", channels=90, size=7, classes=90, seed=0), torch.zeros(2, 7).long()
GROUPED = nn.Sequential(nn.Conv2d(4, 6, 3, groups=2), nn.Flatten())
WIDER = nn.Conv2d(3, 4, 1), nn.ConvTranspose2d(4, 6, 3, stride=2, groups=2), nn.Flatten()


@pytest.mark.parametrize(
    ("model", "batch", "products", "first"),
    [
        (MLP, images(1, 8), DENSE, 64 * 17),
        (MLP, images(1, 8, 5), DENSE, 64 * 17),
        # Output pixels, filters, taps, channels; then the dense layers.
        (CNN, images(3, 32), FIRST + 100 * 32 * 25 * 16 + 800 * 2000 + 2000 * 500 + 5000, FIRST),
        # The initial hidden states have no gradient.
        (LSTM, TOKENS, 4 * 256 * 7 * (264 + 512) + 256 * 90, 2 * 4 * 256**2),
        (GROUPED, images(4, 5), 9 * 6 * 9 * 2, 9 * 6 * 9 * 2),
        (nn.Sequential(*WIDER), images(3, 5), 300 + 25 * 9 * 4 * 6 // 2, 25 * 3 * 4),
    ],
)
def test_flops_of_a_step(model, batch, products, first):
    """Backward, every weight has its gradient, every layer but the first that of its input."""
    before = {k: v.clone() for k, v in model.state_dict().items()}
    assert measured(model, batch) == 2 * (3 * products - first)
    assert all(p.grad is None for p in model.parameters())
    assert all(torch.equal(v, before[k]) for k, v in model.named_parameters())


def test_frozen_parameters_spare_their_gradients():
    model, frozen = (build("cnn-5", channels=1, size=8, classes=10, seed=0) for _ in range(2))
    first = 64 * 16 * 25  # products of the first layer, whose input has no gradient
    forward = (measured(model, images(1, 8)) / 2 + first) / 3
    assert measured(frozen.freeze(), images(1, 8)) == 2 * (forward + 500 * 10)
