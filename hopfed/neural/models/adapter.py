"""Any `nn.Module` as a `Model`: its last linear layer is the head, all before it the extractor.

The head is found by running the network once. The extractor then runs the network up to that
layer, so layers behind it, such as a softmax, are left out; they may not be more than that.
"""

from __future__ import annotations

import warnings
from typing import Any, cast

import torch
from torch import Tensor, nn

from hopfed._lib.settings import require
from hopfed.errors import ArgumentError
from hopfed.neural.models.base import Model, Shape

RGB = 3
EXAMPLES = 3  # in the batch with which a network is tried
CLOSE = 1e-4  # between the network's output and its head's

Passed = dict[str, tuple[Tensor, Tensor]]


class HeadWarning(UserWarning):
    """The head of a network is replaced."""


class Alone(nn.Sequential):
    """A linear layer that is a network by itself."""


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
    """

    def __init__(self, net: nn.Module, head: str, shape: Shape, repeats: bool):
        super().__init__()
        self.net, self.head, self.shape, self.repeats = net, head, shape, repeats

    def forward(self, x: Tensor) -> Tensor:
        """Map inputs to features (B, d)."""
        try:
            self.net(_seen(x, self.shape, self.repeats))
        except _Reached as end:
            return end.features
        raise RuntimeError(f"a pass ended before the head, {self.head}")


def bodies(net: nn.Module) -> list[Body]:
    """Brought networks in a module."""
    return [layer for layer in net.modules() if isinstance(layer, Body)]


def adapted(
    net: nn.Module, name: str, shape: Shape, *, tokens: bool = False, head: str = ""
) -> tuple[Model, bool]:
    """Return a network as a `Model` for the inputs and classes of `shape`, and whether it is whole.

    A head for as many classes is kept as it is; another one is replaced by a new one, with a
    warning. Grey images are given as three equal channels to a network that takes only these.

    Parameters
    ----------
    net : the network, which is changed.
    name : of the network, for errors.
    tokens : whether inputs are tokens; otherwise they are images, or vectors where
        ``shape.size == 1``.
    head : name of the linear layer that is the head; "" takes the last that a pass comes to, behind
        which only a softmax may follow.

    Raises
    ------
    ArgumentError : the network does not take the inputs, or has no such head.
    """
    net = Alone(net) if isinstance(net, nn.Linear) else net
    names = len(list(net.named_parameters(remove_duplicate=False)))
    tied = names != len(list(net.parameters()))
    require(not tied, "models", "without a parameter in two places", name)
    net.float().eval()
    repeats, passed, out = _tried(net, name, shape, tokens)
    require(bool(passed), "models", "with a linear layer for the classes", name)
    if head:
        known = ", ".join(passed)
        require(head in passed, "head_layer", f"a linear layer of {name}: {known}", head)
    else:
        head = list(passed)[-1]
        _check_end(out, passed[head][1], name, head)
    features, logits = passed[head]
    flat = features.ndim == logits.ndim == 2 and len(features) == EXAMPLES
    rule = f"a layer from vectors to vectors, one for each example, of {name}"
    require(flat, "head_layer", rule, head)
    last = cast(nn.Linear, net.get_submodule(head))
    kept = last.out_features == shape.classes
    if not kept:
        said = f"{name}: its head {head} is for {last.out_features} classes, the data have"
        warnings.warn(f"{said} {shape.classes}: a new head takes its place", HeadWarning, 2)
        last = nn.Linear(last.in_features, shape.classes, bias=last.bias is not None)
    net.set_submodule(head, _Stop())
    return Model(Body(net, head, shape, repeats), last, last.in_features).train(), kept


def _seen(x: Tensor, shape: Shape, repeats: bool) -> Tensor:
    """Inputs as a foreign network sees them; see `Body`."""
    if x.ndim == 4 and shape.size == 1:
        return x.flatten(1)
    return x.expand(-1, RGB, -1, -1) if repeats and x.shape[1] == 1 else x


def _tried(
    net: nn.Module, name: str, shape: Shape, tokens: bool
) -> tuple[bool, Passed, Tensor | None]:
    """Whether grey images are to be repeated; what linear layers see and make; the output."""
    if tokens:
        x = torch.randint(shape.channels, (EXAMPLES, shape.size))
    else:
        x = torch.randn(EXAMPLES, shape.channels, shape.size, shape.size)
    ways = (False, True) if not tokens and shape.channels == 1 and shape.size > 1 else (False,)
    errors = []
    for repeats in ways:
        try:
            return repeats, *_pass(net, _seen(x, shape, repeats))
        except Exception as error:  # whatever a stranger's code raises
            errors.append(error)
    words = " ".join(str(errors[0]).split())[:160]
    rule = f"a network for inputs of shape {tuple(x.shape[1:])} "
    raise ArgumentError("models", f"{rule}({type(errors[0]).__name__}: {words})", name)


def _pass(net: nn.Module, x: Tensor) -> tuple[Passed, Tensor | None]:
    """Input and output of each linear layer that a pass comes to, in its order; and its output."""
    passed: Passed = {}

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
    finally:
        for hook in hooks:
            hook.remove()
    out = out[0] if isinstance(out, (tuple, list)) and out else out
    out = getattr(out, "logits", out)  # of a record with more in it
    return passed, out if isinstance(out, Tensor) else None


def _check_end(out: Tensor | None, logits: Tensor, name: str, head: str) -> None:
    """Refuse a network in which more than a softmax follows on its last linear layer."""
    if out is not None and out.shape == logits.shape:
        ends = logits, logits.log_softmax(-1), logits.softmax(-1)
        if any(torch.allclose(out, end, atol=CLOSE, rtol=CLOSE) for end in ends):
            return
    rule = f"ending with the linear layer {head} or a softmax of it; name another by head_layer"
    raise ArgumentError("models", rule, name)
