"""SoHip with a memory by sample: its equations by hand, and its memory at test.

With a memory by batch it is in test_plain_loops.py.
"""

import numpy as np
import torch
from torch import nn

from hopfed.neural.methods.sohip import Form, Remembering
from hopfed.neural.models.architectures import Model


def tiny(classes=3, width=2):
    """A memory by sample around a model whose features are its 4 inputs."""
    torch.manual_seed(0)
    net = Remembering(
        Model(nn.Flatten(), nn.Linear(4, classes), 4),
        Form("sample", 2, width, beta=2.0),
        "linear",
        seed=0,
    )
    net.long_term.copy_(torch.randn(net.form.shape))
    net.centre.copy_(torch.randn(width))
    return net, torch.randn(6, 4), torch.tensor([0, 1, 1, 0, 1, 1]), torch.randn(net.form.shape)


def sigmoid(v):
    return 1 / (1 + np.exp(-v))


def softmax(v):
    e = np.exp(v - v.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def unit(v):
    return v / np.linalg.norm(v, axis=-1, keepdims=True)


def by_hand(net, x, collective):
    """(2)-(15) of a memory by sample, pattern by pattern, in float64: logits, long-term memory."""
    weights = {n: t.detach().double().numpy() for n, t in net.state_dict().items()}

    def layer(name, v):
        return v @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    form, before, shared = net.form, weights["long_term"], collective.double().numpy()
    z = x.double().numpy()
    encoded = layer("encoder", z)
    encoded = encoded - encoded.mean(axis=0)
    share, after = softmax(form.beta * unit(encoded) @ unit(before).T), before.copy()
    for p in range(form.patterns):
        short = (share[:, p] @ encoded) / share[:, p].sum()
        short = sigmoid(layer("importance", short)) * short
        u = np.concatenate([short, before[p]])
        take, forget, output = (sigmoid(layer(g, u)) for g in ("take", "forget", "output"))
        after[p] = output * (take * short + forget * before[p])
    v = np.concatenate([after, shared], axis=1)
    complete = sigmoid(layer("fusion", v)) * shared + after
    weight = softmax(form.beta * unit(encoded) @ unit(complete).T)
    return layer("model.head", z + layer("decoder", weight @ complete)), after


def test_two_batches_by_hand():
    net, x, y, collective = tiny()
    for _ in range(2):
        expected = by_hand(net, x, collective)
        _, logits, states = net(x, collective, y)
        np.testing.assert_allclose(logits.detach(), expected[0], atol=1e-5)
        np.testing.assert_allclose(states["long_term"].detach(), expected[1], atol=1e-6)
        for name, state in states.items():
            getattr(net, name).copy_(state.detach())


def test_rows_that_pad_a_batch_leave_no_memory():
    net, x, y, collective = tiny()
    mask = torch.tensor([1.0, 1, 1, 1, 0, 0])
    _, logits, states = net(x, collective, y, mask)
    _, short_logits, short = net(x[:4], collective, y[:4])
    torch.testing.assert_close(states, short)
    torch.testing.assert_close(logits[:4], short_logits)


def test_at_test_what_examples_have_in_common_is_the_average_of_late():
    net, x, y, collective = tiny()
    encoded, before = net.encoder(x), net.centre.clone()
    _, _, states = net(x, collective, y)
    torch.testing.assert_close(states["centre"], 0.8 * before + 0.2 * encoded.mean(0))
    _, logits, same = net(x, collective)
    torch.testing.assert_close(same["centre"], before, rtol=0, atol=0)
    torch.testing.assert_close(same["long_term"], net.long_term, rtol=0, atol=0)
    complete = net.fused(net.long_term, collective)
    recalled = net.decoder(net.address(encoded - before, complete) @ complete)
    torch.testing.assert_close(logits, net.model.head(x + recalled))
