"""Federated methods by name."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from hopfed._lib.settings import hint, require

_MODULES = {  # module, imported when it is first needed -> names of its methods
    "sohip": "standalone standalone-bias sohip",
    "hebbian": "hebbian afl ranpac safle",
    "fedavg": "fedavg fedavg+ fedprox fedavg-prior scaffold feddyn moon fedbn fedper fedbabu "
    "fedrep per-fedavg pfedme fedala clustered-fl",
    "stepwise": "agg fedmd fedh2l",
    "knn_per": "knn-per pfedgp",
    "pairs": "ditto apfl fml fedkd fedmrl fedral pfedes",
    "heads": "lg-fedavg fedclassavg fedssa fedproto fd fedgh fedtgp fedgen",
}
METHODS = {name: module for module, names in _MODULES.items() for name in names.split()}


def method(name: str) -> Any:
    """Return the class of a method by `name`, or of your own, ``module:Class``, ``FILE.py:Class``.

    Raises
    ------
    ArgumentError : an unknown method; the message suggests the nearest name.

    Examples
    --------
    >>> method("fedavg").name
    'fedavg'
    """
    if ":" in name:
        return _yours(name)
    rule = f"one of {', '.join(METHODS)}{hint(name, METHODS)}"
    require(name in METHODS, "method", rule, repr(name))
    found = vars(import_module(f"hopfed.neural.methods.{METHODS[name]}")).values()
    return next(c for c in found if isinstance(c, type) and getattr(c, "name", None) == name)


def _yours(name: str) -> Any:
    """Import a user's class from a module or file; its folder stays on the path, for workers."""
    from hopfed.neural.method import NeuralMethod
    from hopfed.neural.models.networks import convert_user_errors

    source, _, label = name.rpartition(":")
    path = Path(source).resolve()
    file = path.suffix == ".py"
    folder = str(path.parent if file else Path.cwd())
    with convert_user_errors(name, "importable as module:Class or FILE.py:Class", "method"):
        if folder not in sys.path:
            sys.path.append(folder)
        module = import_module(path.stem if file else source)
        if file and Path(str(module.__file__)).resolve() != path:
            raise ImportError(f"another module has the name {path.stem}")
        found = getattr(module, label)
    ours = isinstance(found, type) and issubclass(found, NeuralMethod)
    require(ours, "method", "a subclass of NeuralMethod", name)
    return found
