from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install hopfed[neural]")

from torch import nn  # noqa: E402

from hopfed.neural.models import MODELS, build  # noqa: E402
from hopfed.neural.models.residual import STAGES  # noqa: E402
from hopfed.neural.training.cost import measure  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")


def images(channels, size, batch=2):
    return torch.zeros(batch, channels, size, size)


@settings(max_examples=15)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=4), st.integers(1, 12))
def test_mlp_by_hand(hidden, classes):
    model = build("mlp", channels=1, size=8, classes=classes, seed=0, hidden=tuple(hidden))
    cost = measure(model, images(1, 8))
    widths = [64, *hidden, classes]
    products = [a * b for a, b in pairwise(widths)]
    assert cost.forward == 2 * sum(products)
    # Backward: every weight has its gradient, every layer but the first that of its input.
    assert cost.training == cost.forward + 2 * sum(products) + 2 * sum(products[1:])
    assert cost.parameters == cost.trainable == sum(products) + sum(widths[1:])
    assert cost.nbytes == 4 * cost.parameters
    assert cost.buffers == 0


def test_cnn_1_by_hand():
    cost = measure(build("cnn-1", channels=3, size=32, classes=10, seed=0), images(3, 32))
    first = 28 * 28 * 16 * 5 * 5 * 3  # output pixels, filters, taps, channels
    second = 10 * 10 * 32 * 5 * 5 * 16
    products = first + second + 800 * 2000 + 2000 * 500 + 500 * 10
    assert cost.forward == 2 * products
    assert cost.training == 2 * (3 * products - first)


@pytest.mark.parametrize("size", [32, 64])
def test_resnet_18_by_hand(size):
    # The stem halves 64 x 64, so that the stages see 32, 16, 8 and 4 pixels in both cases.
    cost = measure(build("resnet-18", channels=3, size=size, classes=10, seed=0), images(3, size))
    stem = 9 * 32**2 * 3 * 64
    products = stem + 4 * 9 * 32**2 * 64 * 64
    for side, width in ((16, 128), (8, 256), (4, 512)):
        half = width // 2
        products += side**2 * (9 * half * width + 3 * 9 * width * width + half * width)
    products += 512 * 10
    assert products == 555_422_720
    assert cost.forward == 2 * products
    assert cost.training == 2 * (3 * products - stem)


def test_mobilenet_by_hand_with_its_grouped_convolutions():
    cost = measure(build("mobilenet-v2", channels=1, size=8, classes=10, seed=0), images(1, 8))
    side, inside = 8, 32
    stem = products = 9 * side**2 * 32
    for expansion, outside, blocks, stride in STAGES:
        for i in range(blocks):
            wide = expansion * inside
            products += side**2 * inside * wide if expansion > 1 else 0
            side //= stride if i == 0 else 1
            products += side**2 * (9 * wide + wide * outside)
            inside = outside
    assert side == 1
    products += side**2 * 320 * 1280 + 1280 * 10
    assert cost.forward == 2 * products
    assert cost.training == 2 * (3 * products - stem)


def test_lstm_by_hand():
    T = 7
    model = build("lstm", channels=90, size=T, classes=90, seed=0)
    cost = measure(model, torch.zeros(2, T, dtype=torch.int64))
    gates = 4 * 256 * T
    products = gates * (8 + 256) + gates * (256 + 256) + 256 * 90
    assert cost.forward == 2 * products
    # Backward: twice the forward, but that the initial hidden states have no gradient.
    initial = 2 * 4 * 256 * 256
    assert cost.training == 2 * (3 * products - initial)


def test_transposed_and_grouped_convolutions_by_hand():
    layer = nn.ConvTranspose2d(4, 6, 3, stride=2, groups=2)
    model = nn.Sequential(nn.Conv2d(3, 4, 1), layer, nn.Flatten())
    cost = measure(model, images(3, 5))
    first, second = 25 * 3 * 4, 25 * 9 * 4 * 6 // 2
    assert cost.forward == 2 * (first + second)
    assert cost.training == 2 * (2 * first + 3 * second)


def test_batch_norm_adds_buffers_and_bytes():
    cost = measure(
        build("resnet-18", channels=1, size=8, classes=10, seed=0, norm="batch"), images(1, 8)
    )
    channels = 64 + 4 * 64 + 5 * (128 + 256 + 512)
    assert cost.buffers == 2 * channels + 20  # mean, variance; twenty layers count batches
    assert cost.nbytes == 4 * cost.parameters + 4 * 2 * channels + 8 * 20


def test_cost_of_an_example_does_not_depend_on_the_batch():
    model = build("cnn-5", channels=1, size=8, classes=10, seed=0)
    two, five = (measure(model, images(1, 8, batch)) for batch in (2, 5))
    assert (two.forward, two.training) == (five.forward, five.training)


def test_frozen_parameters_spare_their_gradients():
    model = build("cnn-5", channels=1, size=8, classes=10, seed=0)
    model.features.requires_grad_(False)
    cost = measure(model, images(1, 8))
    assert cost.trainable == 5010
    assert cost.parameters == sum(p.numel() for p in model.parameters())
    assert cost.training == cost.forward + 2 * 500 * 10
    model.head.requires_grad_(False)
    assert measure(model, images(1, 8)).training == cost.forward


@pytest.mark.parametrize("name", MODELS)
def test_measuring_leaves_the_model_as_it_is(name):
    channels, size = (11, 6) if name == "lstm" else (1, 8)
    model = build(name, channels=channels, size=size, classes=10, seed=0, norm="batch").eval()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    batch = torch.zeros(2, 6, dtype=torch.int64) if name == "lstm" else images(1, 8)
    cost = measure(model, batch)
    assert 0 < cost.forward < cost.training < 3 * cost.forward
    assert not model.training
    assert all(p.grad is None for p in model.parameters())
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
