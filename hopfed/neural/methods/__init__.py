"""Federated methods by name."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from hopfed._lib.settings import hint, require
from hopfed.errors import ArgumentError

_MODULES = {  # module, which is loaded when a method of it is asked for -> names of its methods
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
    """Return the class of the method `name`; ``module:Class`` names a method of your own.

    Raises
    ------
    ArgumentError : there is no such method; the message suggests the nearest name.

    Examples
    --------
    >>> method("fedavg").name
    'fedavg'
    """
    if ":" in name:
        return _yours(*name.split(":", 1))
    rule = f"one of {', '.join(METHODS)}{hint(name, METHODS)}"
    require(name in METHODS, "method", rule, repr(name))
    found = vars(import_module(f"hopfed.neural.methods.{METHODS[name]}")).values()
    return next(c for c in found if isinstance(c, type) and getattr(c, "name", None) == name)


def _yours(module: str, name: str) -> Any:
    from hopfed.neural.method import NeuralMethod

    try:
        found = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ArgumentError("method", f"importable as module:Class ({error})", name) from None
    ours = isinstance(found, type) and issubclass(found, NeuralMethod)
    require(ours, "method", "a subclass of NeuralMethod", f"{module}:{name}")
    return found
