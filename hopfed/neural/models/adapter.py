"""Any `nn.Module` as a `Model`: its last linear layer is the head, all before it the extractor.

The head is found by running the network once. The extractor then runs the network up to that
layer, so layers behind it, such as a softmax, are left out; they may not be more than that.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn

from hopfed._lib.settings import require
from hopfed.errors import ArgumentError
from hopfed.neural.models.base import Model, Shape

RGB = 3
EXAMPLES = 3  # in the batch with which a network is tried
CLOSE = 1e-4  # between the network's output and its head's


class _Reached(Exception):  # noqa: N818  (a result, not an error)
    """The input of the head."""

    def __init__(self, features: Tensor):
        super().__init__()
        self.features = features


class _Stop(nn.Module):
    """Stands for the head of a network, and ends its forward pass."""

    def forward(self, x: Tensor) -> Tensor:
        raise _Reached(x)


class Body(nn.Module):
    """A network up to its head.

    Attributes
    ----------
    net : the network; its layer `head` ends a pass.
    head : name of that layer in the network.
    shape : inputs and classes. Vectors come as images of one pixel and are flattened.
    repeats : whether images of one channel are given to the network as three equal channels.
    alone : whether the network has batch statistics, so that its batches hold two examples at
        least and are never padded, as stacked batches are.
    """

    def __init__(self, net: nn.Module, head: str, shape: Shape, repeats: bool):
        super().__init__()
        self.net, self.head, self.shape, self.repeats = net, head, shape, repeats
        self.alone = any(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in net.modules())

    def forward(self, x: Tensor) -> Tensor:
        """Map inputs to features (B, d)."""
        try:
            self.net(seen(x, self.shape, self.repeats))
        except _Reached as end:
            return end.features
        raise RuntimeError(f"a pass ended before the head, {self.head}")


def seen(x: Tensor, shape: Shape, repeats: bool) -> Tensor:
    """Return inputs as a foreign network sees them; see `Body`."""
    if x.ndim == 4 and shape.size == 1:
        return x.flatten(1)
    return x.expand(-1, RGB, -1, -1) if repeats and x.shape[1] == 1 else x


def bodies(net: nn.Module) -> list[Body]:
    """Brought networks in a module."""
    return [layer for layer in net.modules() if isinstance(layer, Body)]


def adapted(
    net: nn.Module,
    name: str,
    shape: Shape,
    *,
    tokens: bool = False,
    head: str = "",
    repeats: bool = False,
) -> Model:
    """Return a network as a `Model` for the inputs and classes of `shape`.

    A head for another number of classes is replaced by a new one.

    Parameters
    ----------
    net : the network, which is changed.
    name : of the network, for errors.
    tokens : whether inputs are tokens; otherwise they are images, or vectors where
        ``shape.size == 1``.
    head : name of the linear layer that is the head; "" takes the last that a pass comes to, behind
        which only a softmax may follow.
    repeats : as in `Body`.

    Raises
    ------
    ArgumentError : the network does not take the inputs, or has no such head.

    Examples
    --------
    >>> net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 5), nn.LogSoftmax(1))
    >>> model = adapted(net, "mine:Net", Shape(channels=4, size=1, classes=2))
    >>> model.feature_dim, model(torch.ones(3, 4, 1, 1)).shape
    (8, torch.Size([3, 2]))
    """
    net = nn.Sequential(net) if isinstance(net, nn.Linear) else net
    names = len(list(net.named_parameters(remove_duplicate=False)))
    tied = names != len(list(net.parameters()))
    require(not tied, "models", "without a parameter in two places", name)
    x = seen(_example(shape, tokens), shape, repeats)
    passed, out = _tried(net.float().eval(), name, x)
    if head:
        known = ", ".join(passed)
        require(head in passed, "head_layer", f"a linear layer of {name}: {known}", head)
    else:
        require(bool(passed), "models", "with a linear layer for the classes", name)
        head = list(passed)[-1]
        _check_end(out, passed[head][1], name, head)
    features, logits = passed[head]
    flat = features.ndim == logits.ndim == 2 and len(features) == len(x)
    rule = f"a layer from vectors to vectors, one for each example, of {name}"
    require(flat, "head_layer", rule, head)
    held = cast(nn.Linear, net.get_submodule(head))
    last = held
    if type(held) is not nn.Linear or held.bias is None or held.out_features != shape.classes:
        last = nn.Linear(held.in_features, shape.classes)
    net.set_submodule(head, _Stop())
    return Model(Body(net, head, shape, repeats), last, held.in_features).train()


def _example(shape: Shape, tokens: bool) -> Tensor:
    """A batch of random inputs, from the generator of the weights."""
    if tokens:
        return torch.randint(shape.channels, (EXAMPLES, shape.size))
    return torch.randn(EXAMPLES, shape.channels, shape.size, shape.size)


def _tried(
    net: nn.Module, name: str, x: Tensor
) -> tuple[dict[str, tuple[Tensor, Tensor]], Tensor | None]:
    """Input and output of each linear layer that a pass comes to, in its order; and its output."""
    passed: dict[str, tuple[Tensor, Tensor]] = {}

    def note(label: str) -> Any:
        def hook(_: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
            passed.pop(label, None)
            passed[label] = inputs[0].clone(), output.clone()

        return hook

    linear = [(n, m) for n, m in net.named_modules() if isinstance(m, nn.Linear)]
    hooks = [module.register_forward_hook(note(label)) for label, module in linear]
    try:
        with torch.no_grad():
            out = net(x)
    except Exception as error:  # whatever a stranger's code raises
        words = " ".join(str(error).split())[:160]
        shape = tuple(x.shape[1:])
        rule = f"a network for inputs of shape {shape} ({type(error).__name__}: {words})"
        raise ArgumentError("models", rule, name) from None
    finally:
        for hook in hooks:
            hook.remove()
    return passed, _logits(out)


def _logits(out: Any) -> Tensor | None:
    """The tensor in what a network returned, which may be a record with more in it."""
    if isinstance(out, (tuple, list)) and out:
        out = out[0]
    out = getattr(out, "logits", out)
    return out if isinstance(out, Tensor) else None


def _check_end(out: Tensor | None, logits: Tensor, name: str, head: str) -> None:
    """Refuse a network in which more than a softmax follows on its last linear layer."""
    if out is not None and out.shape == logits.shape:
        ends = logits, logits.log_softmax(-1), logits.softmax(-1)
        if any(torch.allclose(out, end, atol=CLOSE, rtol=CLOSE) for end in ends):
            return
    rule = f"ending with the linear layer {head} or a softmax of it; name another by head_layer"
    raise ArgumentError("models", rule, name)
