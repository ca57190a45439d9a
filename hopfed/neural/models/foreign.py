"""Networks that hopfed does not have, by the name of what makes them or as they are.

A name is `module:Net` or `FILE.py:Net`, of a class or function that returns a network. In Python a
network, a class or a function may be given itself: `named` keeps it under a name.
"""

from __future__ import annotations

import copy
import importlib
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from importlib.util import module_from_spec, spec_from_file_location
from inspect import Parameter, signature
from pathlib import Path
from threading import RLock
from typing import Any

from torch import nn

from hopfed.errors import ArgumentError, HopfedError
from hopfed.neural.models.base import Shape

_IMPORTING = RLock()  # the folders that modules are looked for in are those of the process
_GIVEN: dict[str, Any] = {}
GIVEN = "given"  # before the names of networks that are given themselves

# Names of a constructor's parameters for the shape of the inputs and the number of classes.
CHANNELS = ("channels", "in_channels", "in_chans", "in_features", "inputs", "input_dim")
SIZE = ("size", "image_size", "img_size", "length")
CLASSES = ("classes", "num_classes", "n_classes", "out_features", "outputs", "output_dim")


def is_foreign(name: str) -> bool:
    """Whether a name is of a network that hopfed does not have."""
    from hopfed.neural.models.registry import MODELS

    source, rest = _split(str(name))
    called = rest.replace(".", "").replace(":", "")
    return bool(rest) and source not in MODELS and called.isidentifier()


def own_code(names: Iterable[str]) -> tuple[str, ...]:
    """Those names that are code of a user, which somebody has to ask for."""
    return tuple(n for n in names if is_foreign(n) and not n.startswith(f"{GIVEN}:"))


def is_network(name: str) -> bool:
    """Whether a name is of a network that was given itself, with its weights."""
    return isinstance(_GIVEN.get(name), nn.Module)


def named(models: Any) -> Any:
    """Return models by name: a network, class or function that is given is kept under a name.

    A network is copied, and its name has a digest of it, so it cannot change under its name.

    Parameters
    ----------
    models : a name, a `torch.nn.Module`, something that makes one, or a sequence of these.
    """
    if isinstance(models, (str, nn.Module)) or callable(models):
        return models if isinstance(models, str) else (_kept(models),)
    return tuple(_kept(m) if callable(m) else m for m in models)


def _kept(model: Any) -> str:
    called = model if hasattr(model, "__name__") else type(model)
    word = getattr(called, "__module__", "")
    if isinstance(model, nn.Module):
        found = sha256(repr(model).encode())
        for tensor in model.state_dict().values():
            found.update(tensor.detach().cpu().numpy().tobytes())
        word, model = f"net{found.hexdigest()[:12]}", copy.deepcopy(model)
    plain = "".join(c for c in word if c.isalnum())
    name = f"{GIVEN}:{''.join(c for c in called.__name__ if c.isalnum())}:{plain}"
    _GIVEN[name] = model
    return name


def _split(name: str) -> tuple[str, str]:
    """Module or file, and what is in it; a file's folder may have a colon in its name."""
    source, _, rest = name.rpartition(":") if ".py:" in name else name.partition(":")
    return source, rest


def make(name: str, shape: Shape) -> nn.Module:
    """Return the network `name`.

    A class or function is called with the numbers that its parameters ask for by name, such as
    `channels`, `size` and `classes`; other parameters need a default.

    Raises
    ------
    ArgumentError : there is no such network, or it cannot be made.
    """
    source, rest = _split(name)
    if source == GIVEN and name not in _GIVEN:
        rule = "known here: networks are known only to the process that got them, give them again"
        raise ArgumentError("models", rule, name)
    factory = _GIVEN[name] if source == GIVEN else _found(source, rest, name)
    given = isinstance(factory, nn.Module)
    made = copy.deepcopy(factory) if given else _called(factory, name, shape)
    if not isinstance(made, nn.Module):
        raise ArgumentError("models", "a torch.nn.Module, or a function that returns one", name)
    return made


def _found(source: str, path: str, name: str) -> Any:
    """The class, function or network, imported."""
    try:
        is_file = source.endswith(".py")
        found: Any = _of_file(Path(source)) if is_file else importlib.import_module(source)
        for part in path.split("."):
            found = getattr(found, part)
    except Exception as error:  # whatever a stranger's module raises
        words = " ".join(str(error).split())[:160]
        rule = f"importable as module:Net or FILE.py:Net ({type(error).__name__}: {words})"
        raise ArgumentError("models", rule, name) from None
    return found


def _of_file(path: Path) -> Any:
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file")
    path = path.resolve()
    # Files of one name in two folders are two modules: what is pickled names its own.
    label = f"hopfed_foreign_{path.stem}_{sha256(os.fsencode(path)).hexdigest()[:12]}"
    spec = spec_from_file_location(label, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path}: no Python")
    module = module_from_spec(spec)
    with _IMPORTING, _neighbours(str(path.parent)):
        sys.modules[label] = module
        spec.loader.exec_module(module)
    return module


@contextmanager
def _neighbours(folder: str) -> Iterator[None]:
    """Find modules in `folder` first, as `python FILE.py` does; what is added beside it stays."""
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        with suppress(ValueError):  # the file took it out itself
            sys.path.remove(folder)


def _called(factory: Any, name: str, shape: Shape) -> Any:
    """The network of a class or function."""
    known = dict.fromkeys(CHANNELS, shape.channels) | dict.fromkeys(SIZE, shape.size)
    known |= dict.fromkeys(CLASSES, shape.classes)
    try:
        parameters = signature(factory).parameters.values()
        given = {p.name: known[p.name] for p in parameters if p.name in known}
        plain = Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY
        due = [p.name for p in parameters if p.default is p.empty and p.kind in plain]
        rest = [n for n in due if n not in given]
        if rest:
            raise TypeError(f"nothing is known for its parameter {rest[0]}")
        return factory(**given)
    except HopfedError:
        raise
    except Exception as error:  # whatever a stranger's class raises
        words = " ".join(str(error).split())[:160]
        rule = f"a network that can be made ({type(error).__name__}: {words})"
        raise ArgumentError("models", rule, name) from None
