"""Networks that hopfed does not have: a user's own, or one of torchvision, timm, Hugging Face.

A name is `module:Net` or `FILE.py:Net` for a class or function that returns a network, or
`torchvision:NAME`, `timm:NAME`, `hf:NAME`, where these are installed.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from importlib.util import module_from_spec, spec_from_file_location
from inspect import Parameter, signature
from pathlib import Path
from threading import RLock
from typing import Any

from torch import nn

from hopfed.errors import ArgumentError, BackendError, HopfedError
from hopfed.neural.models.base import Shape

_IMPORTING = RLock()  # the folders that modules are looked for in are those of the process

# Names of a constructor's parameters for the shape of the inputs and the number of classes.
CHANNELS = ("channels", "in_channels", "in_chans", "in_features", "inputs", "input_dim")
SIZE = ("size", "image_size", "img_size", "length")
CLASSES = ("classes", "num_classes", "n_classes", "out_features", "outputs", "output_dim")
# NAME or OWNER/NAME of the hub of Hugging Face.
_ON_HUB = re.compile(r"[A-Za-z0-9_][\w.-]{0,95}(/[A-Za-z0-9_][\w.-]{0,95})?", re.ASCII)
# What a configuration of Hugging Face says where it has timm make a network, which reads files that
# it names and unpickles them, or names code or other networks to load.
_ELSEWHERE = ("auto_map", "backbone", "model_args", "use_timm_backbone")
_OF_TIMM = ("timm_backbone", "timm_wrapper")


def is_foreign(name: str) -> bool:
    """Whether a name is of a network that hopfed does not have.

    Examples
    --------
    >>> is_foreign("mine:Net"), is_foreign("mlp:32"), is_foreign("lenet")
    (True, False, False)
    """
    from hopfed.neural.models.registry import MODELS

    base, rest = _split(str(name))
    if base in LIBRARIES:
        return bool(rest)
    called = str(name).rpartition(":")[2]
    return bool(rest) and base not in MODELS and called.replace(".", "").isidentifier()


def own_code(names: Iterable[str]) -> tuple[str, ...]:
    """Those names that are code, or a folder, of a user, which somebody has to ask for.

    Examples
    --------
    >>> own_code(["lenet", "mine:Net", "timm:vit_tiny_patch16_224", "hf:google/vit", "hf:./net"])
    ('mine:Net', 'hf:./net')
    """

    def own(name: str) -> bool:
        source, rest = _split(name)
        # Of the libraries, only that of Hugging Face reads folders here.
        return source not in LIBRARIES or (source == "hf" and not _is_on_hub(rest))

    return tuple(name for name in names if is_foreign(name) and own(name))


def _is_on_hub(name: str) -> bool:
    """Whether a name of Hugging Face is one of its hub, and no folder here."""
    return bool(_ON_HUB.fullmatch(name)) and not os.path.exists(name)


def _split(name: str) -> tuple[str, str]:
    """Module, file or library, and what is in it; a file's folder may have a colon in its name."""
    source, _, rest = name.rpartition(":") if ".py:" in name else name.partition(":")
    return source, rest


def make(name: str, shape: Shape, *, pretrained: bool) -> nn.Module:
    """Return the network `name`.

    A user's class or function is called with the numbers that its parameters ask for by name, such
    as `channels`, `size` and `classes`; other parameters need a default.

    Parameters
    ----------
    pretrained : take the weights that the library publishes.

    Raises
    ------
    ArgumentError : there is no such network, or it cannot be made.
    BackendError : the library is not installed.

    Examples
    --------
    >>> make("torch.nn:Linear", Shape(channels=4, size=1, classes=2), pretrained=False)
    Linear(in_features=4, out_features=2, bias=True)
    """
    source, rest = _split(name)
    if source in LIBRARIES:
        made = _of_library(source, rest, shape, pretrained)
    else:
        if pretrained:
            raise ArgumentError("weights", "a file, or none, for a network of yours", "pretrained")
        made = _called(_found(source, rest, name), name, shape)
    if not isinstance(made, nn.Module):
        raise ArgumentError("models", "a torch.nn.Module, or a function that returns one", name)
    return made


def _found(source: str, path: str, name: str) -> Any:
    """The class or function, imported."""
    try:
        found: Any = _of_file(Path(source)) if source.endswith(".py") else _module(source)
        for part in path.split("."):
            found = getattr(found, part)
    except Exception as error:  # whatever a stranger's module raises
        words = " ".join(str(error).split())[:160]
        rule = f"importable as module:Net or FILE.py:Net ({type(error).__name__}: {words})"
        raise ArgumentError("models", rule, name) from None
    return found


def _module(source: str) -> Any:
    return importlib.import_module(source)


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
    if isinstance(factory, nn.Module):
        raise ArgumentError("models", "a class or a function, not one network for all", name)
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


def _of_library(source: str, name: str, shape: Shape, pretrained: bool) -> Any:
    library, maker = LIBRARIES[source]
    # What timm reads from a folder or a repository some versions unpickle, and a file that somebody
    # sent may name it.
    plain = name.replace(".", "_").replace("-", "_").isidentifier()
    if source == "timm" and not plain:
        raise ArgumentError("models", "of timm itself: no folder, no repository", f"timm:{name}")
    try:
        module = importlib.import_module(library)
    except ImportError:
        raise BackendError(f"{source}:{name} needs {library}: pip install {library}") from None
    try:
        return maker(module, name, shape, pretrained)
    except Exception as error:  # an unknown name, no network, a broken download
        words = " ".join(str(error).split())[:160]
        rule = f"a network of {library} ({type(error).__name__}: {words})"
        raise ArgumentError("models", rule, f"{source}:{name}") from None


def _torchvision(library: Any, name: str, shape: Shape, pretrained: bool) -> Any:
    models = importlib.import_module(f"{library.__name__}.models")
    if pretrained:  # with the published number of classes, which `adapted` changes
        return models.get_model(name, weights="DEFAULT")
    return models.get_model(name, weights=None, num_classes=shape.classes)


def _timm(library: Any, name: str, shape: Shape, pretrained: bool) -> Any:
    return library.create_model(
        name, pretrained=pretrained, num_classes=shape.classes, in_chans=shape.channels
    )


def _hugging_face(library: Any, name: str, shape: Shape, pretrained: bool) -> Any:
    """A classifier of images or of text, as its configuration says; no code of the hub is run.

    A folder is one that somebody asked for, see `own_code`; of others no weights are unpickled.
    Transformers asks on the terminal whether to run code wherever it is not told that it may not.
    """
    config = library.AutoConfig.from_pretrained(
        name, num_labels=shape.classes, trust_remote_code=False
    )
    _check_configuration(config)
    kinds = (library.AutoModelForImageClassification, library.AutoModelForSequenceClassification)
    kind = kinds[not hasattr(config, "image_size") and not hasattr(config, "num_channels")]
    if not pretrained:
        return kind.from_config(config, trust_remote_code=False)
    return kind.from_pretrained(
        name,
        config=config,
        ignore_mismatched_sizes=True,
        trust_remote_code=False,
        use_safetensors=True if _is_on_hub(name) else None,
    )


def _check_configuration(part: Any) -> None:
    """Refuse a configuration, with those inside it, that names code or files to load."""
    if hasattr(part, "to_dict"):
        part = part.to_dict() | vars(part)  # the first leaves out what is not saved
    if isinstance(part, (list, tuple)):
        for piece in part:
            _check_configuration(piece)
    if not isinstance(part, dict):
        return
    for key, value in part.items():
        kernel = "_implementation" in str(key) and "/" in str(value)  # which the hub has
        if kernel or (key in _ELSEWHERE and value):
            raise ValueError(f"its configuration names what else to load, by {key}")
        if key == "model_type" and value in _OF_TIMM:
            raise ValueError(f"its configuration has timm make it ({value}): name it as timm:NAME")
        _check_configuration(value)


LIBRARIES: dict[str, tuple[str, Callable[[Any, str, Shape, bool], Any]]] = {
    "torchvision": ("torchvision", _torchvision),
    "timm": ("timm", _timm),
    "hf": ("transformers", _hugging_face),
}
