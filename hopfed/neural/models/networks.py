"""Networks by name, networks of users, and weights from and to files.

A foreign network, of a user, is a `torch.nn.Module`, a class or function that returns a module, or
the name of either, `module:Net` or `FILE.py:Net`. It is run once to find its last linear layer, the
head; the extractor is the network up to this layer.
"""

from __future__ import annotations

import copy
import importlib
import os
import pickle
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from importlib.util import module_from_spec, spec_from_file_location
from inspect import Parameter, signature
from operator import attrgetter
from pathlib import Path
from threading import RLock
from types import CodeType
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from hopfed._lib.guarded_reading import guard_reading, open_file
from hopfed._lib.memory_limits import require_memory
from hopfed._lib.random import derive
from hopfed._lib.settings import hint, require
from hopfed.errors import ArgumentError, DataError, HopfedError
from hopfed.neural.models.architectures import MODELS, Model, Shape, init_for_relu

INITS = ("auto", "he", "own")
# Architecture -> the widths that its name may contain.
WIDTHS = {"mlp": "[1-9][0-9]{0,6}(x[1-9][0-9]{0,6})*", "lstm": "[1-9][0-9]{0,6}"}
# Names of a constructor's parameters for the shape of the inputs and the number of classes.
CHANNELS = ("channels", "in_channels", "in_chans", "in_features", "inputs", "input_dim")
SIZE = ("size", "image_size", "img_size", "length")
CLASSES = ("classes", "num_classes", "n_classes", "out_features", "outputs", "output_dim")
RGB, EXAMPLES = 3, 3  # channels; and examples in the batch that tests a network
CLOSE = 1e-4  # tolerance between the outputs of a network and of its head
INSIDE = ("state_dict", "model_state_dict", "model")  # usual keys of weights in a larger file

GIVEN = "given"  # prefix of the names of networks that are given as objects
_GIVEN: dict[str, Any] = {}
_IMPORTING = RLock()  # the import of a file changes `sys.path` for a while

Passed = dict[str, tuple[Tensor, Tensor]]  # input and output of linear layers by name


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
) -> Model:
    """Return the network `name` with initial weights drawn from `seed`, on the CPU.

    Weights depend only on the arguments; the global generator is left unchanged. With one seed,
    architectures with equal numbers of features and classes start with equal heads, which methods
    that average heads need.

    Parameters
    ----------
    name : one of `MODELS`; mlp and lstm may include their widths, such as mlp:200x100 and lstm:64;
        or a foreign network, which keeps its head if that has the right number of classes.
    channels, size, classes, norm : see `Shape`.
    seed : non-negative integer.
    init : "he", initialise convolutions and dense layers of the extractor as He et al.
        (`init_for_relu`); "own", as layers or a foreign network initialise themselves; "auto",
        "he" for `MODELS` and "own" for foreign networks.
    tokens, head_layer : whether inputs of a foreign network are tokens; head, see `adapt_network`.

    Raises
    ------
    ArgumentError : an unknown architecture (the nearest name is suggested), or images that are too
        small for it.

    Examples
    --------
    >>> model = build("mlp:32", channels=1, size=8, classes=10, seed=0)
    >>> model(torch.zeros(5, 1, 8, 8)).shape
    torch.Size([5, 10])
    """
    shape = Shape(channels, size, classes, norm)
    require(init in INITS, "init", f"one of {', '.join(INITS)}", repr(init))
    kept = False
    if is_foreign(name):
        # The weights of a network do not depend on the folder of its file.
        own = name.split(":")[1 if name.startswith(f"{GIVEN}:") else -1]
        with seed_weights(seed, "features", own):
            net = make_user_network(name, shape)
            model, kept = adapt_network(net, name, shape, tokens=tokens, head=head_layer)
            if init == "he":
                init_for_relu(model.features)
    else:
        rule = "left out: it is only for foreign networks"
        require(not head_layer, "head_layer", rule, repr(head_layer))
        base, _, text = check_name(name).partition(":")
        widths = [int(width) for width in text.split("x") if text]
        with torch.device("meta"):
            empty = MODELS[base](shape, *widths)
        require_memory(8 * sum(p.numel() for p in empty.parameters()), f"model {name}")
        with seed_weights(seed, "features", base):
            model = MODELS[base](shape, *widths)
            if init != "own":
                init_for_relu(model.features)
    if not kept:
        with seed_weights(seed, "header"):
            model.head.reset_parameters()
    return model


def resize_features(model: Model, length: int, seed: int) -> Model:
    """Return a network with a further linear layer that changes the length of its features."""
    bias = model.head.bias is not None
    with seed_weights(seed, "features", "length"):
        last = nn.Linear(model.feature_dim, length)
    with seed_weights(seed, "header"):
        head = nn.Linear(length, model.head.out_features, bias=bias)
    return Model(nn.Sequential(model.features, last), head, length)


def assign(names: str | Sequence[str], clients: int) -> tuple[str, ...]:
    """Return the network of each of `clients`, by name: client k has ``names[k % len(names)]``.

    Source: arXiv:2312.09006, Table 3; theory/NOTES.md, "FedSSA models".

    Examples
    --------
    >>> assign(["cnn-1", "lenet"], 3)
    ('cnn-1', 'lenet', 'cnn-1')
    """
    names = (names,) if isinstance(names, str) else tuple(names)
    for name in (n for n in names if not is_foreign(n)):
        check_name(name)
    return tuple(names[k % len(names)] for k in range(clients))


def check_name(name: str, argument: str = "model") -> str:
    """Return `name` of a known network, otherwise raise ArgumentError with the nearest name."""
    base, colon, text = str(name).partition(":")
    known = base in MODELS
    fits = known and (not colon or re.fullmatch(WIDTHS.get(base, r"(?!)"), text) is not None)
    rule = f"one of {', '.join(MODELS)}, or with widths, mlp:200x100 or lstm:64"
    require(fits, argument, rule + ("" if known else hint(base, MODELS)), repr(name))
    return name


@contextmanager
def seed_weights(seed: int, *path: str) -> Iterator[None]:
    """Let networks draw weights from the stream `path`, then restore the global generator."""
    # With devices=[] and the CPU, the generators of other devices stay unchanged.
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        torch.default_generator.manual_seed(derive(seed, "model", *path))
        yield


def is_foreign(name: str) -> bool:
    """Whether a name belongs to a network outside hopfed."""
    source, rest = _split(str(name))
    called = rest.replace(".", "").replace(":", "")
    return bool(rest) and source not in MODELS and called.isidentifier()


def own_code(names: Iterable[str]) -> tuple[str, ...]:
    """Names of networks that are code of a user, which runs at the user's word alone."""
    return tuple(n for n in names if is_foreign(n) and not n.startswith(f"{GIVEN}:"))


def is_network(name: str) -> bool:
    """Whether a name belongs to a network that a user gave as a module, with its weights."""
    return isinstance(_GIVEN.get(name), nn.Module)


def name_models(models: Any) -> Any:
    """Return the names of networks; a user's objects are kept under a name with a digest."""
    if isinstance(models, str):
        return models
    return tuple(map(keep_object, (models,) if callable(models) else models))


def keep_object(thing: Any) -> Any:
    """Keep a user's network, class or function, and return its name; a name stays unchanged."""
    if not callable(thing):
        return thing
    plain = "".join(c for c in getattr(thing, "__name__", type(thing).__name__) if c.isalnum())
    name = f"{GIVEN}:{plain}:net{fingerprint(thing).hex()[:12]}"
    if name not in _GIVEN:
        _GIVEN[name] = copy.deepcopy(thing)
    return name


def fingerprint(thing: Any) -> bytes:
    """Return a digest, 32 bytes, of a user's network and weights, or function and closure."""
    found, code = sha256(), getattr(thing, "__code__", thing)
    if isinstance(thing, nn.Module):
        found.update(repr(thing).encode())
        for tensor in thing.state_dict().values():
            found.update(tensor.detach().cpu().numpy().tobytes())
    elif isinstance(code, CodeType):
        found.update(code.co_code + repr(code.co_names).encode())
        cells = getattr(thing, "__closure__", None) or ()
        for part in (*code.co_consts, *(cell.cell_contents for cell in cells)):
            found.update(fingerprint(part))
    else:
        try:
            found.update(pickle.dumps(thing))
        except Exception:  # pickling of a user's class can raise any error
            found.update(repr(thing).encode())
    return found.digest()


def encoder_of(name: str, rule: str) -> tuple[Callable[[Tensor], Tensor], np.ndarray]:
    """Return a user's network as encoder, to features (B, d), and its digest, (32,) uint8."""
    with convert_user_errors(name, rule, "encoder"):
        found = _find_object(name)
        found = found() if isinstance(found, type) else found
        net = found.eval() if isinstance(found, nn.Module) else found

    def features(x: Tensor) -> Tensor:
        with torch.inference_mode():
            return torch.as_tensor(net(x)).float().flatten(1)

    return features, np.frombuffer(fingerprint(found), np.uint8)


def make_user_network(name: str, shape: Shape) -> nn.Module:
    """Make the network `name` of a user, with the arguments that its parameters ask for."""
    with convert_user_errors(name, "importable as module:Net or FILE.py:Net"):
        found = _find_object(name)
    with convert_user_errors(name, "a network that can be made"):
        given = isinstance(found, nn.Module)
        made = copy.deepcopy(found) if given else found(**_asked_for(found, shape))
    if not isinstance(made, nn.Module):
        raise ArgumentError("models", "a torch.nn.Module, or a function that returns one", name)
    return made


def _split(name: str) -> tuple[str, str]:
    """Split a name into module or file, and object; a file's path may contain a colon."""
    source, _, rest = name.rpartition(":") if ".py:" in name else name.partition(":")
    return source, rest


@contextmanager
def convert_user_errors(name: str, rule: str, argument: str = "models") -> Iterator[None]:
    """Turn any error in the code of a user's network into an ArgumentError of one line."""
    try:
        yield
    except HopfedError:
        raise
    except Exception as error:
        words = " ".join(str(error).split())[:160]
        raise ArgumentError(argument, f"{rule} ({type(error).__name__}: {words})", name) from None


def _find_object(name: str) -> Any:
    """Return the class, function or network of a name: a kept object, or from a module or file."""
    source, path = _split(name)
    if source == GIVEN:
        if name not in _GIVEN:
            raise LookupError("known only to the process that got them, pass them again")
        return _GIVEN[name]
    file = source.endswith(".py")
    return attrgetter(path)(_of_file(Path(source)) if file else importlib.import_module(source))


def _of_file(path: Path) -> Any:
    """Import the module of a Python file."""
    path = path.resolve()
    # Files of one name in two folders are two modules, and pickles refer to the right module.
    label = f"hopfed_foreign_{path.stem}_{sha256(os.fsencode(path)).hexdigest()[:12]}"
    spec: Any = spec_from_file_location(label, path)
    module = module_from_spec(spec)
    with _IMPORTING:
        sys.path.insert(0, str(path.parent))  # finds modules in its folder, as `python FILE.py`
        try:
            sys.modules[label] = module
            spec.loader.exec_module(module)
        finally:
            with suppress(ValueError):  # if the file removed it
                sys.path.remove(str(path.parent))
    return module


def _asked_for(factory: Any, shape: Shape) -> dict[str, int]:
    """Return the arguments that a class or function asks for by the names of its parameters."""
    known = dict.fromkeys(CHANNELS, shape.channels) | dict.fromkeys(SIZE, shape.size)
    known |= dict.fromkeys(CLASSES, shape.classes)
    parameters = signature(factory).parameters
    plain = Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY
    for name, p in parameters.items():
        if p.default is p.empty and p.kind in plain and name not in known:
            raise TypeError(f"no value is known for its parameter {name}")
    return {name: known[name] for name in parameters if name in known}


class NetworkWarning(UserWarning):
    """A foreign network gets a new head, inputs without scaling, or is trained alone."""


class SingleLayer(nn.Sequential):
    """A network of a single linear layer."""


class _Reached(Exception):  # noqa: N818  (a result, not an error)
    """Ends a forward pass; the argument is the input of the head."""


class _Stop(nn.Module):
    """Replaces the head of a network, and ends its forward pass."""

    def forward(self, x: Tensor) -> Tensor:
        raise _Reached(x)


class Body(nn.Module):
    """A network up to its layer `head`; with `repeats`, grey images become three channels."""

    def __init__(self, net: nn.Module, head: str, shape: Shape, repeats: bool):
        super().__init__()
        self.net, self.head, self.shape, self.repeats = net, head, shape, repeats

    def forward(self, x: Tensor) -> Tensor:
        """Map inputs to features (B, d)."""
        try:
            self.net(_adapt_inputs(x, self.shape, self.repeats))
        except _Reached as end:
            features: Tensor = end.args[0]
            return features
        raise RuntimeError(f"the forward pass ended before the head, {self.head}")


def foreign_bodies(net: nn.Module) -> list[Body]:
    """Return the networks of users in a module."""
    return [layer for layer in net.modules() if isinstance(layer, Body)]


def adapt_network(
    net: nn.Module, name: str, shape: Shape, *, tokens: bool = False, head: str = ""
) -> tuple[Model, bool]:
    """Return a user's network as a `Model` for data of `shape`; whether its head is kept."""
    net = SingleLayer(net) if isinstance(net, nn.Linear) else net
    tied = len(list(net.named_parameters(remove_duplicate=False))) != len(list(net.parameters()))
    require(not tied, "models", "without shared parameters", name)
    repeats, passed, out = _try_network(net.float().eval(), name, shape, tokens)
    require(bool(passed), "models", "with a linear layer for the classes", name)
    known = ", ".join(passed)
    require(head in ("", *passed), "head_layer", f"a linear layer of {name}: {known}", head)
    layer = head or list(passed)[-1]
    features, logits = passed[layer]
    if not head:
        ends = logits, logits.log_softmax(-1), logits.softmax(-1)
        same = isinstance(out, Tensor) and out.shape == logits.shape
        last = same and any(torch.allclose(out, end, atol=CLOSE, rtol=CLOSE) for end in ends)
        rule = f"a network that ends with the layer {layer} or its softmax (or set head_layer)"
        require(last, "models", rule, name)
    flat = features.ndim == logits.ndim == 2 and len(features) == EXAMPLES
    rule = f"a layer of {name} that maps one vector per example to one vector"
    require(flat, "head_layer", rule, layer)
    top = cast(nn.Linear, net.get_submodule(layer))
    whole = top.out_features == shape.classes
    if not whole:
        said = f"{name}: its head {layer} is for {top.out_features} classes, the data have"
        warnings.warn(f"{said} {shape.classes}: a new head replaces it", NetworkWarning, 2)
        top = nn.Linear(top.in_features, shape.classes, bias=top.bias is not None)
    net.set_submodule(layer, _Stop())
    return Model(Body(net, layer, shape, repeats), top, top.in_features).train(), whole


def _adapt_inputs(x: Tensor, shape: Shape, repeats: bool) -> Tensor:
    """Return inputs in the form of a foreign network, see `Body`."""
    if x.ndim == 4 and shape.size == 1:
        return x.flatten(1)
    return x.expand(-1, RGB, -1, -1) if repeats and x.shape[1] == 1 else x


def _try_network(net: nn.Module, name: str, shape: Shape, tokens: bool) -> tuple[bool, Passed, Any]:
    """Return whether to repeat grey images; inputs and outputs of linear layers; the output."""
    if tokens:
        x = torch.randint(shape.channels, (EXAMPLES, shape.size))
    else:
        x = torch.randn(EXAMPLES, shape.channels, shape.size, shape.size)
    with convert_user_errors(name, f"a network for inputs of shape {tuple(x.shape[1:])}"):
        try:
            return False, *_trace_layers(net, _adapt_inputs(x, shape, False))
        except Exception:  # a user's code can raise any error, for example for grey images
            if tokens or shape.channels > 1 or shape.size == 1:
                raise
            with suppress(Exception):
                return True, *_trace_layers(net, _adapt_inputs(x, shape, True))
            raise


def _trace_layers(net: nn.Module, x: Tensor) -> tuple[Passed, Any]:
    """Return input and output of each linear layer, in the order of a pass; and its output."""
    passed: Passed = {}

    def hook(label: str, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        passed.pop(label, None)
        passed[label] = inputs[0].clone(), output.clone()

    linear = [(n, m) for n, m in net.named_modules() if isinstance(m, nn.Linear)]
    hooks = [m.register_forward_hook(lambda _, x, y, label=n: hook(label, x, y)) for n, m in linear]
    try:
        with torch.no_grad():
            out = net(x)
    finally:
        for held in hooks:
            held.remove()
    out = out[0] if isinstance(out, (tuple, list)) and out else out
    return passed, getattr(out, "logits", out)  # the output may be a record with logits


def load_weights(model: Model, weights: str | Path | Mapping[str, Tensor]) -> None:
    """Load a network's weights of a file or dict; a head for other classes stays new."""
    from hopfed.tables.table import list_names

    known = model.state_dict()
    held = dict(weights) if isinstance(weights, Mapping) else read_tensors(weights)
    if not held.keys() & known.keys():  # names of the network that the model was made from
        ours = {net: name for name, net in _renamed(model).items()}
        held = {ours.get(n, n): t for n, t in held.items()}
    fits = {n for n in known if n in held and held[n].shape == known[n].shape}
    body = [n for n in sorted(known.keys() - fits) if not n.startswith("head.")]
    misfits = {
        "lacks": [n for n in body if n not in held],
        "has other shapes for": [n for n in body if n in held],
        "adds": sorted(held.keys() - known.keys()),
    }
    where, of = "weights" if isinstance(weights, Mapping) else weights, len(known)
    faults = [f"{said} {len(n)} of {of}: {list_names(n)}" for said, n in misfits.items() if n]
    if faults:
        raise DataError(f"{where}: not of this network: {'; '.join(faults)}")
    if new := sorted(known.keys() - fits):
        said = f"{where}: {', '.join(new)} fits other classes or is missing, and stays new"
        warnings.warn(said, NetworkWarning, stacklevel=2)
    model.load_state_dict({n: held[n] if n in fits else t for n, t in known.items()})


def read_tensors(path: str | Path) -> dict[str, Tensor]:
    """Read a network's tensors of a file by name; DataError for other files."""
    with open_file(path) as file, guard_reading(path):
        try:
            held: Any = torch.load(file, map_location="cpu", weights_only=True)
        except pickle.UnpicklingError:  # PyTorch's message advises to let the file run code
            raise DataError(f"{path}: not a file of only weights, as torch.save writes") from None
        for name in INSIDE:
            if isinstance(held, Mapping) and isinstance(held.get(name), Mapping):
                held = held[name]
        if not isinstance(held, Mapping) or not all(isinstance(t, Tensor) for t in held.values()):
            raise DataError(f"{path}: not a state_dict, a dict of tensors by name")
        return {str(n).removeprefix("module."): t for n, t in held.items()}


def rename_as_source(tensors: Mapping[str, Tensor], model: Model) -> dict[str, Tensor]:
    """Rename a model's tensors as in the user's network that it was made from, which loads them."""
    names = _renamed(model)
    return {names.get(n, n): t for n, t in tensors.items()}


def _renamed(model: Model) -> dict[str, str]:
    """Return name in the model -> name in the network that it was made from."""
    names, body = list(model.state_dict()), model.features
    if not isinstance(body, Body):  # also lengthened models
        return dict(zip(names, names, strict=True))
    head = "" if isinstance(body.net, SingleLayer) else f"{body.head}."  # Alone has a single layer
    plain = {"head.": head, "features.net.": ""}
    return {n: plain[p] + n.removeprefix(p) for n in names for p in plain if n.startswith(p)}
