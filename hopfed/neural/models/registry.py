"""Registry of architectures by name, and the assignment of architectures to clients."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from functools import partial
from inspect import signature
from itertools import pairwise
from typing import Any

import torch

from hopfed._lib.memory_limits import require_memory
from hopfed._lib.random import derive
from hopfed._lib.settings import MOST, require, whole
from hopfed.errors import ArgumentError
from hopfed.neural.models.adapter import adapted
from hopfed.neural.models.base import Model, Shape, rectified
from hopfed.neural.models.foreign import is_foreign, make
from hopfed.neural.models.plain import fedssa_cnn, lenet, mlp
from hopfed.neural.models.recurrent import lstm
from hopfed.neural.models.residual import mobilenet_v2, resnet

MODELS: dict[str, Callable[..., Model]] = {
    "mlp": mlp,
    "lenet": lenet,
    **{f"cnn-{n}": partial(fedssa_cnn, n) for n in range(1, 6)},
    "resnet-18": partial(resnet, 18),
    "resnet-34": partial(resnet, 34),
    "mobilenet-v2": mobilenet_v2,
    "lstm": lstm,
}
INITS = ("auto", "he", "own")

# Architecture -> the setting that its name may contain, its pattern, and an example.
WIDTHS = {"mlp": ("hidden", r"\d+(x\d+)*", "mlp:200x100"), "lstm": ("width", r"\d+", "lstm:64")}


def build(
    name: str,
    *,
    channels: int,
    size: int,
    classes: int,
    seed: int,
    norm: str = "group",
    init: str = "auto",
    tokens: bool = False,
    head_layer: str = "",
    **settings: Any,
) -> Model:
    """Return the network `name` with initial weights drawn from `seed`, on the CPU.

    Convolutions and dense layers of the extractor are initialised as by He et al.
    (`base.rectified`), the LSTM and the head by PyTorch's default. Weights depend only on the
    arguments; the global generator is left unchanged. With the same seed, architectures with equal
    numbers of features and classes start with equal heads, as methods that average heads need.

    Parameters
    ----------
    name : one of `MODELS`; mlp and lstm may include their widths, as mlp:200x100 and lstm:64; or
        a network of others, see `hopfed.neural.models.foreign`: its head is kept where it is for
        as many classes.
    channels, size, classes, norm : see `Shape`.
    seed : non-negative integer.
    init : "he", as above; "own", as the layers or a foreign network initialise themselves, which
        for those of `MODELS` is PyTorch's default; "auto", He for `MODELS` and own for others.
    tokens, head_layer : of a foreign network, see `hopfed.neural.models.adapter.adapted`.
    settings : further settings of the architecture: `hidden` of an mlp; `embedding` and `width` of
        an lstm.

    Raises
    ------
    ArgumentError : an unknown architecture or setting (the nearest is suggested), or images that
        are too small for the architecture.

    Examples
    --------
    >>> model = build("mlp", channels=1, size=8, classes=10, seed=0, hidden=(32,))
    >>> model(torch.zeros(5, 1, 8, 8)).shape
    torch.Size([5, 10])
    """
    shape = Shape(channels, size, classes, norm)
    require(init in INITS, "init", f"one of {', '.join(INITS)}", repr(init))
    kept = False
    if is_foreign(name):
        # The same network has the same weights, in whatever folder its file lies.
        with drawing(seed, "features", name.rpartition(":")[2]):
            model, kept = adapted(make(name, shape), name, shape, tokens=tokens, head=head_layer)
            if init == "he":
                rectified(model.features)
    else:
        rule = "left out: only foreign networks have one"
        require(not head_layer, "head_layer", rule, repr(head_layer))
        name, widths = _parse(name)
        settings = {**widths, **settings}
        _check_settings(name, shape, settings)
        with drawing(seed, "features", name):
            model = MODELS[name](shape, **settings)
            if init != "own":
                rectified(model.features)
    if not kept:
        with drawing(seed, "header"):
            model.head.reset_parameters()
    return model


def assign(names: str | Sequence[str], clients: int) -> tuple[str, ...]:
    """Return the architecture of each of `clients`: client k has ``names[k % len(names)]``.

    Source: arXiv:2312.09006, Table 3; theory/NOTES.md, "FedSSA models".

    Examples
    --------
    >>> assign(["cnn-1", "lenet"], 3)
    ('cnn-1', 'lenet', 'cnn-1')
    """
    names = (names,) if isinstance(names, str) else tuple(names)
    require(len(names) > 0, "names", "one or more models", "none")
    require(clients >= 1, "clients", "at least 1", clients)
    for name in names:
        if not is_foreign(name):
            check_name(name)
    return tuple(names[k % len(names)] for k in range(clients))


def check_name(name: str, argument: str = "model") -> str:
    """Return `name` if there is such a model; else raise ArgumentError with the nearest name."""
    _parse(name, argument)
    return name


def reads(name: str, *, images: bool) -> bool:
    """Whether the architecture takes images; or, with `images` False, tokens."""
    return is_foreign(name) or (_parse(name)[0] == "lstm") != images


def _parse(name: str, argument: str = "model") -> tuple[str, dict[str, Any]]:
    """Split a name into its architecture and its widths, returned as settings."""
    base, colon, text = str(name).partition(":")
    _check_known(argument, base, list(MODELS))
    if not colon:
        return base, {}
    forms = " or ".join(form for _, _, form in WIDTHS.values())
    require(base in WIDTHS, argument, f"without widths, unless {forms}", repr(name))
    setting, pattern, form = WIDTHS[base]
    held = re.fullmatch(pattern, text, re.ASCII)
    require(bool(held), argument, f"of the form {form}", repr(name))
    widths = tuple(whole(argument, width, most=MOST) for width in text.split("x"))
    for wide, next_wide in pairwise((1, *widths)):  # weights in float32, and their gradients
        require_memory(8 * wide * next_wide, f"{argument} {name}")
    return base, {setting: widths if base == "mlp" else widths[0]}


def _check_settings(name: str, shape: Shape, settings: dict[str, Any]) -> None:
    """Refuse unknown settings, and a network whose weights and gradients do not fit in memory."""
    parameters = signature(MODELS[name]).parameters.values()
    known = [p.name for p in parameters if p.kind == p.KEYWORD_ONLY]
    for setting in settings:
        require(bool(known), f"settings of {name}", "left out, as it has none", repr(setting))
        _check_known(f"settings of {name}", setting, known)
    if name != "lstm":  # which says so itself: to make one without its numbers takes seconds
        with torch.device("meta"):
            empty = MODELS[name](shape, **settings)
        require_memory(8 * sum(p.numel() for p in empty.parameters()), f"model {name}")


def _check_known(argument: str, name: str, known: Sequence[str]) -> None:
    if name not in known:
        near = get_close_matches(str(name), known, n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise ArgumentError(argument, f"one of {', '.join(known)}{hint}", repr(name))


@contextmanager
def drawing(seed: int, *path: str) -> Iterator[None]:
    """Let layers draw their weights from the stream `path`; then restore the global generator."""
    # devices=[] and the CPU: the generators of other devices are not touched.
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        torch.default_generator.manual_seed(derive(seed, "model", *path))
        yield
