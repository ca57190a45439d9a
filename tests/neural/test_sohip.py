"""SoHip: its equations by hand, its memory on the wire and at test, and what we put beside it."""

import numpy as np
import torch
from asked import play
from torch import nn

from hopfed.experiments import fl
from hopfed.federation.contract import EVERYONE
from hopfed.neural.methods.sohip import Form, Remembering
from hopfed.neural.models.architectures import Model
from hopfed.neural.training.evaluation import Network


def make():
    small = {"clients": 4, "rounds": 2, "examples": 300, "models": ("mlp",), "lr": 0.05}
    return fl.Config(method="sohip", way="sequential", partition="classes:4", **small).make(0)


def inputs(method, count=20):
    return method.loaded.tensors.batch(method.loaded.tensors.rows(np.arange(count)))


def message_to(played, client):
    return played.state.down.get(client, played.state.down.get(EVERYONE, {}))


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


def doubled(params):
    return {n: t.double() for n, t in params.items()}


def test_with_a_linear_header_the_memory_is_an_offset_of_the_logits():
    method = make()
    played = play(method, 2)
    state, down = played.state.clients[0], message_to(played, 0)
    params, (x, _) = doubled(method.begin(*method.readied(state, down, 0))), inputs(method)
    own = doubled(method.personal(*method.readied(state, down, 0)))
    collective = torch.tensor(down["memory"]).double()
    with torch.inference_mode():
        scores = Network(method.net(0), params, (collective,))(x.double())
        apart = scores - Network(method.loaded.model(0), own)(x.double())
        # W_H R(M), with M of (10)-(12) written out.
        v = torch.cat([params["long_term"], collective], dim=1)
        absorbed = torch.sigmoid(v @ params["fusion.weight"].T + params["fusion.bias"])
        memory = absorbed * collective + params["long_term"]
        decoded = memory @ params["decoder.weight"].T + params["decoder.bias"]
        offset = decoded @ own["head.weight"].T
    assert offset.abs().max() > 0.01
    torch.testing.assert_close(apart, offset.expand_as(apart), rtol=0, atol=1e-12)
