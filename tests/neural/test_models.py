import pytest
import torch
from helpers import rest_slow
from torch import nn
from torch.func import functional_call, grad, stack_module_state, vmap

from hopfed.errors import ArgumentError
from hopfed.neural.models import MODELS, assign, build

IMAGE = tuple(name for name in MODELS if name != "lstm")
CNNS = tuple(f"cnn-{n}" for n in range(1, 6))
FEATURES = {"mlp": 200, "lenet": 84, **dict.fromkeys(CNNS, 500), "mobilenet-v2": 1280}
MEGABYTES = ((1, 10.00), (2, 6.92), (3, 5.04), (5, 2.55))
SHALLOW = ("mlp", "lenet", "cnn-5", "mobilenet-v2")


def digits_model(name, seed=0, norm="group"):
    """A model of 8 x 8 images, or of 6 tokens out of 11."""
    channels, size = (11, 6) if name == "lstm" else (1, 8)
    return build(name, channels=channels, size=size, classes=10, seed=seed, norm=norm)


def digits_batch(name, *shape):
    generator = torch.Generator().manual_seed(5)
    if name == "lstm":
        return torch.randint(0, 11, (*shape, 6), generator=generator)
    return torch.randn(*shape, 1, 8, 8, generator=generator)


def same_weights(a, b):
    return all(map(torch.equal, a.state_dict().values(), b.state_dict().values()))


@pytest.mark.parametrize(
    ("channels", "size", "name"),
    rest_slow([(1, 8, n) for n in SHALLOW] + [(3, 32, n) for n in IMAGE], len(SHALLOW)),
)
def test_images_to_features_to_logits(name, channels, size):
    model = build(name, channels=channels, size=size, classes=7, seed=0)
    x = torch.randn(2, channels, size, size, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        z, logits = model.features(x), model(x)
        assert torch.equal(model.head(z), logits)
    assert z.shape == (2, model.feature_dim) == (2, FEATURES[name])
    assert model.head.weight.shape == (7, model.feature_dim)
    assert logits.isfinite().all()
    # Two unlike images must not look alike: nothing has shrunk to a constant on the way.
    assert (z[0] - z[1]).abs().max() > 1e-4


@pytest.mark.parametrize(("name", "least"), [("lenet", 4), ("cnn-5", 4), ("mobilenet-v2", 8)])
def test_the_smallest_images_work_and_smaller_ones_are_refused(name, least):
    model = build(name, channels=1, size=least, classes=3, seed=0)
    assert model(torch.ones(2, 1, least, least)).shape == (2, 3)
    message = f"size must be at least {least} pixels for {name}, got {least - 1}"
    with pytest.raises(ArgumentError, match=message):
        build(name, channels=1, size=least - 1, classes=3, seed=0)


# By hand, layer by layer, for ten classes.
@pytest.mark.parametrize(
    ("name", "channels", "size", "parameters"),
    [
        ("mlp", 1, 28, 784 * 200 + 200 + 200 * 200 + 200 + 2010),  # 199,210 in McMahan et al.
        ("lenet", 1, 28, 156 + 2416 + 400 * 120 + 120 + 120 * 84 + 84 + 850),  # 61,706
        ("cnn-4", 3, 32, 1216 + 12832 + 800 * 800 + 800 + 800 * 500 + 500 + 5010),
        ("mobilenet-v2", 3, 32, 2_236_682),
        # MB in the table of FedSSA; of CNN-4 it prints 3.81, and its own rows give 4.05.
        *((f"cnn-{n}", 3, 32, pytest.approx(x * 2**18, abs=1966)) for n, x in MEGABYTES),
    ],
)
def test_numbers_of_parameters(name, channels, size, parameters):
    model = build(name, channels=channels, size=size, classes=10, seed=0)
    assert sum(p.numel() for p in model.parameters()) == parameters


@pytest.mark.parametrize("name", rest_slow(["lenet", "mobilenet-v2", "lstm", *IMAGE], 3))
def test_gradients_of_stacked_networks_are_those_of_each(name):
    # In double precision: in single, rounding now and then puts one of the 100,000 activations of
    # a deep network on the other side of zero, and gradients near it then differ in earnest.
    models = [digits_model(name, seed).double() for seed in range(3)]
    x = digits_batch(name, 3, 2)
    x = x if name == "lstm" else x.double()
    y = torch.arange(6).reshape(3, 2)

    def loss(parameters, x, y):
        return nn.functional.cross_entropy(functional_call(models[0], parameters, (x,)), y)

    stacked = vmap(grad(loss))(stack_module_state(models)[0], x, y)
    for i, model in enumerate(models):
        for k, g in grad(loss)(dict(model.named_parameters()), x[i], y[i]).items():
            torch.testing.assert_close(stacked[k][i], g, rtol=0, atol=1e-10)


def test_lstm_is_that_of_pytorch():
    features = digits_model("lstm").features
    reference = nn.LSTM(8, 256, num_layers=2, batch_first=True)
    for number, layer in enumerate(features.layers):
        for name, weight in layer.named_parameters():
            getattr(reference, f"{name}_l{number}").data.copy_(weight)
    x = digits_batch("lstm", 4)
    with torch.no_grad():
        _, (h, c) = reference(features.embedding(x))
        z = features(x)
    torch.testing.assert_close(z, torch.cat([h[1], h[0], c[1], c[0]], dim=1))


@pytest.mark.parametrize("name", ["lenet", "cnn-5", "mobilenet-v2", "lstm"])
def test_weights_depend_on_the_seed_alone(name):
    model, other = digits_model(name), digits_model(name, seed=1)
    torch.manual_seed(123)
    before = torch.get_rng_state()
    with torch.device("meta"):  # a default device changes nothing
        assert same_weights(model, digits_model(name))
    assert torch.equal(torch.get_rng_state(), before)
    for part in ("features", "head"):
        assert not same_weights(getattr(model, part), getattr(other, part))


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("mlp:20x30x10", [(20, 192), (30, 20), (10, 30)]),
        ("lstm:16", [(3, 8), (64, 8), (64, 16), (64, 16), (64, 16)]),  # an embedding, four gates
    ],
)
def test_a_name_may_carry_widths(name, shapes):
    model = build(name, channels=3, size=8, classes=5, seed=4)
    assert [tuple(p.shape) for p in model.features.parameters() if p.ndim == 2] == shapes
    assert assign([name, "mlp"], 3) == (name, "mlp", name)
